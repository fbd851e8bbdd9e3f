package rights

import (
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// Direction is what a [Permission] allows on its subject.
type Direction int

// The two directions.
const (
	Publish Direction = iota
	Subscribe
)

// String is the word of NATS for it.
func (d Direction) String() string {
	if d == Subscribe {
		return "subscribe"
	}
	return "publish"
}

// Permission is one thing that an identity needs in NATS.
type Permission struct {
	Direction Direction
	Subject   string // with wildcards
	For       string // what it is needed for: "queue orders: finish messages"
	Setup     bool   // set by [Wanted]: only setting up needs it
}

// OfAgent lists all that an agent with these queues needs when it runs without setting them up, and nothing else.
func OfAgent(n names.Names, queues []config.Queue) []Permission {
	list := []Permission{Info().permission("validate --connect")}
	for _, group := range groups(n, queues) {
		list = append(list, Permission{Subject: "$JS.API.STREAM.INFO." + group.Stream, For: group.Owner + ": look at the stream"})
		for _, r := range group.List {
			list = append(list, r.permission(group.Owner))
		}
	}
	return append(list, inbox(n).permission("NATS"))
}

// OfSetup lists all that setting up these queues needs: "fairlead setup", and agents that make their streams
// themselves, which need those of [OfAgent] too.
func OfSetup(n names.Names, queues []config.Queue) []Permission {
	list := []Permission{Info().permission("validate --connect")}
	for _, group := range groups(n, queues) {
		list = append(list, Permission{Subject: "$JS.API.STREAM.INFO." + group.Stream, For: group.Owner + ": look at the stream"},
			Permission{Subject: "$JS.API.STREAM.CREATE." + group.Stream, For: group.Owner + ": make the stream"})
		if group.setup == nil {
			list = append(list, Permission{Subject: "$JS.API.STREAM.UPDATE." + group.Stream, For: group.Owner + ": bring the stream to its definition"})
		}
		for _, r := range group.setup {
			list = append(list, r.permission(group.Owner))
		}
	}
	return append(list, inbox(n).permission("NATS"))
}

func (r Right) permission(owner string) Permission {
	return Permission{Direction: r.Direction, Subject: r.Subject, For: owner + ": " + r.May}
}

// Wanted returns the permission of agents with these queues, or of their setup, under which the use of a subject is allowed; the
// zero Permission when they need none.
func Wanted(n names.Names, queues []config.Queue, dir Direction, subject string) Permission {
	for i, list := range [][]Permission{OfAgent(n, queues), OfSetup(n, queues)} {
		for _, p := range list {
			if p.Direction == dir && config.SubjectsMeet(p.Subject, subject) {
				p.Setup = i == 1
				return p
			}
		}
	}
	return Permission{}
}
