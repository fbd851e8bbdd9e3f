package broker

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// Layout is what shapes a queue's lanes. Lanes of two layouts never share a consumer, because the layout's hash is part
// of the consumer's name.
type Layout struct {
	Queue   string
	Levels  int
	Default int  // the level of messages without a priority
	Fair    bool // keys share by weight
	Keyed   bool // one lane per (level, key) rather than one per level
	Cap     int  // messages of one key in flight; 0 is any number
	Ordered bool // a failing message holds up those of its key and level
	AckWait time.Duration
	TTL     time.Duration // of messages that do not say themselves until when they may be delivered; 0 is none
	// Single is true for a queue with a single active consumer. Its lanes belong to a tenure; without one there are none.
	Single bool
	Tenure *Tenure
	hash   string
}

// NewLayout returns the layout of a definition.
func NewLayout(q config.Queue) Layout {
	l := Layout{
		Queue:   q.Name,
		Levels:  q.Levels,
		Default: q.DefaultPriority,
		Fair:    q.FairShare.Enabled,
		Keyed:   q.FairShare.Enabled,
		AckWait: q.AckWait,
		Single:  q.SingleActiveConsumer,
		TTL:     q.TTL,
		hash:    q.Layout(),
	}
	// With one active consumer there is one message in flight and nothing is overtaken: nothing is left for a cap to do.
	if !q.SingleActiveConsumer && q.PermitsPerKey() > 0 {
		l.Keyed, l.Cap, l.Ordered = true, q.PermitsPerKey(), q.OrderedKeys
	}
	return l
}

// In returns the layout in a tenure.
func (l Layout) In(t *Tenure) Layout {
	l.Tenure = t
	return l
}

// Serial tells whether a lane gives out its next message only when the one before is finished: a message that is backing
// off is not overtaken by those behind it.
func (l Layout) Serial() bool { return l.Single || l.Ordered }

// merged tells whether one lane reads both the default level and what has no priority. A consumer with two filters looks at
// every subject of the stream for each message. With few lanes that costs nothing; with one per tenant it costs more than all
// the rest, so there the two are lanes of their own, merged by sequence as they are taken. Where a tenant's messages are
// ordered that would not do: a message that somebody else has, or had when they died, holds up its own lane only.
func (l Layout) merged() bool { return !l.Keyed || l.Ordered }

// Address names the lane that holds a message: a level token and the tenant key.
type Address struct {
	// Class is "p0"… or, for messages without a priority, "d". In a queue without a lane per key, and in one with ordered
	// keys, one lane reads both the default level and what has no priority; its class is the level's.
	Class string
	Level int    // the level it is served at
	Key   string // "" when unkeyed, and for every message of a queue without a lane per key
}

// Address returns where a message with these subject tokens waits. A level that the queue does not have is served as the
// lowest one, from a lane of its own: its messages are older than the change that removed the level. ok is false for
// tokens that are not canonical; such messages are repaired, see [Client.Repair].
func (l Layout) Address(classToken, keyToken string) (a Address, ok bool) {
	level, ok := names.ClassLevel(classToken)
	if !ok {
		return Address{}, false
	}
	key := ""
	if l.Keyed {
		// Without fair share a lane reads all keys of its level, whatever they look like.
		if key, ok = names.DecodeKey(keyToken); !ok {
			return Address{}, false
		}
	}
	if level >= 0 {
		return Address{Class: names.Class(level), Level: min(level, l.Levels-1), Key: key}, true
	}
	if l.merged() {
		return Address{Class: names.Class(l.Default), Level: l.Default, Key: key}, true
	}
	return Address{Class: names.NoPriority, Level: l.Default, Key: key}, true
}

// AddressOf returns where a message that is published with this level (-1: none) and key will wait.
func (l Layout) AddressOf(level int, key string) Address {
	a := Address{Class: names.Class(l.Default), Level: l.Default}
	switch {
	case level >= 0:
		a = Address{Class: names.Class(level), Level: min(level, l.Levels-1)}
	case !l.merged():
		a.Class = names.NoPriority
	}
	if l.Keyed {
		a.Key = key
	}
	return a
}

// Lane is what one pull consumer reads. Its fields do not change, but for the count.
type Lane struct {
	Address
	Layout Layout
	// InHand is how many of its messages were taken through this value and are neither finished nor returned.
	InHand atomic.Int64

	stream  string
	name    string
	filters []string
	next    string // the subject that asks for messages
	remove  string // the subject that deletes one
}

// Queue is the queue that the lane belongs to.
func (l *Lane) Queue() string { return l.Layout.Queue }

// Name is the consumer's name: the same in every agent.
func (l *Lane) Name() string { return l.name }

// lanePrefix begins the names of the layout's lanes, those of all tenures.
func (l Layout) lanePrefix(n names.Names) string { return n.Prefix() + "-" + l.hash + "-" }

// isLane tells whether a consumer of a queue's stream is a lane of any layout.
func isLane(n names.Names, consumer string) bool { return strings.HasPrefix(consumer, n.Prefix()+"-") }

// newLane describes the lane at an address.
func newLane(n names.Names, layout Layout, a Address) *Lane {
	token := "*"
	name := layout.lanePrefix(n) + layout.Tenure.token() + a.Class
	if layout.Keyed {
		// The key came out of a canonical subject, so it encodes.
		token, _ = names.EncodeKey(a.Key)
		name += "-" + token
	}
	prefix := n.SubjectPrefix(layout.Queue)
	l := &Lane{Address: a, Layout: layout, stream: n.Stream(layout.Queue), name: name}
	l.filters = []string{prefix + a.Class + "." + token}
	if layout.merged() && a.Class == names.Class(layout.Default) {
		l.filters = append(l.filters, prefix+names.NoPriority+"."+token)
	}
	l.next = "$JS.API.CONSUMER.MSG.NEXT." + l.stream + "." + l.name
	l.remove = wire.DeletePrefix + l.stream
	return l
}
