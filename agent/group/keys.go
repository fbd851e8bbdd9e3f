package group

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/agent/broker/names"
)

// Bucket is what the group needs of the coordination bucket: a mirror in memory, and writes with their outcome.
// [bucket.Bucket] is one.
//
// An error that is [bucket.ErrConflict] says that nothing was written. After any other error the write may have been
// carried out, or may be later. A write that is confirmed is shown by the mirror before done is called.
type Bucket interface {
	// Subscribe calls f with every record under a prefix and with every later change, in order for each key. f does not
	// call the bucket.
	Subscribe(prefix string, f func(bucket.Entry))
	// Put writes a record. done is called once, from any goroutine.
	Put(key string, value []byte, done func(revision uint64, err error))
	// Swap writes a record if its revision is the given one; 0 means that there must be none.
	Swap(key string, value []byte, revision uint64, done func(revision uint64, err error))
	// Delete removes a record.
	Delete(key string, done func(revision uint64, err error))
	// Sync returns nil when the mirror shows all that was written before the call, and subscribers were called with it.
	Sync(ctx context.Context) error
}

const (
	heartbeatPrefix  = "hb."
	definitionPrefix = "def."
)

// agentPrefix is what the keys of an agent's heartbeats begin with.
func agentPrefix(agent string) string { return heartbeatPrefix + token(agent) + "." }

func heartbeatKey(agent, capsule string) string { return agentPrefix(agent) + token(capsule) }

func definitionKey(queue string) string { return definitionPrefix + token(queue) }

// token makes one token of a KV key from any string, injectively. What is too long for a key, or not UTF-8, is named by
// its hash: "=h" begins no other token.
func token(s string) string {
	t, err := names.EncodeKey(s)
	if err != nil {
		sum := sha256.Sum256([]byte(s))
		return "=h" + hex.EncodeToString(sum[:])
	}
	return t
}

// queueOf returns the queue of a definition's key.
func queueOf(key string) (string, bool) {
	return names.DecodeKey(strings.TrimPrefix(key, definitionPrefix))
}
