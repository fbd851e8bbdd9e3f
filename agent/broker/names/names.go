package names

import (
	"strconv"
	"strings"
)

// MaxLevels is the number of priority levels that subjects can say.
const MaxLevels = 100

// Names makes the names of everything Fairlead keeps in one NATS account. The prefix, by default "fl", allows several
// environments in one account. Streams have it in upper case: two prefixes have to differ in more than that.
type Names struct {
	prefix string // subjects
	upper  string // streams
	bucket string
}

// New returns the names under a subject prefix, and the bucket's name.
func New(prefix, bucket string) Names {
	return Names{prefix: prefix, upper: strings.ToUpper(prefix), bucket: bucket}
}

// Stream is the stream of a queue.
func (n Names) Stream(queue string) string { return n.upper + "_Q_" + queue }

// Slots is the stream that says who has messages of a queue's capped keys in flight.
func (n Names) Slots(queue string) string { return n.upper + "_SLOT_" + queue }

// DeadStream is the stream of a queue's dead letters.
func (n Names) DeadStream(queue string) string { return n.upper + "_DEAD_" + queue }

// Bucket is the coordination bucket.
func (n Names) Bucket() string { return n.bucket }

// SyncKey is the record of the bucket that agents write to find out how far their watch has come: what was written before it
// has been seen when it is seen.
const SyncKey = "sync"

// Subjects is everything that a queue's stream stores.
func (n Names) Subjects(queue string) string { return n.prefix + ".q." + queue + ".>" }

// DelayStream is the stream of a queue's delayed messages.
func (n Names) DelayStream(queue string) string { return n.upper + "_DELAY_" + queue }

// Prefix begins every subject, without a dot.
func (n Names) Prefix() string { return n.prefix }

// SubjectPrefix begins the subjects of a queue's messages. Like the other prefixes it has a dot at its end.
func (n Names) SubjectPrefix(queue string) string { return n.prefix + ".q." + queue + "." }

// DelayPrefix begins the subjects of a queue's delayed messages.
func (n Names) DelayPrefix(queue string) string { return n.prefix + ".delay." + queue + "." }

// SlotPrefix begins the subjects of permits, and those of their holders' beats.
func (n Names) SlotPrefix(queue string) string { return n.prefix + ".slot." + queue + "." }

// BeatPrefix begins the subjects on which holders of permits are heard; a holder's name follows.
func (n Names) BeatPrefix(queue string) string { return n.prefix + ".beat." + queue + "." }

// DeadPrefix begins the subjects of a queue's dead letters.
func (n Names) DeadPrefix(queue string) string { return n.prefix + ".dead." + queue + "." }

// WakePrefix begins the subjects of a queue's wake-ups.
func (n Names) WakePrefix(queue string) string { return n.prefix + ".wake." + queue + "." }

// Free tells that permits of a queue came free; behind it, and a dot, a key says whose.
func (n Names) Free(queue string) string { return n.prefix + ".free." + queue }

// QueueOf is the queue among whose messages, or delayed ones, a subject is. ok is false for all other subjects.
func (n Names) QueueOf(subject string) (queue string, ok bool) {
	rest, ok := strings.CutPrefix(subject, n.prefix+".q.")
	if !ok {
		if rest, ok = strings.CutPrefix(subject, n.prefix+".delay."); !ok {
			return "", false
		}
	}
	queue, _, _ = strings.Cut(rest, ".")
	return queue, true
}

// InboxPrefix begins the subjects on which agents get answers. An account's other clients use other ones, so that an agent
// need not be allowed to hear the answers that those get.
func (n Names) InboxPrefix() string { return "_INBOX." + n.prefix }

// NoPriority is the class token of messages that were published without a priority.
const NoPriority = "d"

// Class returns the class token of a level.
func Class(level int) string { return "p" + strconv.Itoa(level) }

// ClassLevel parses a class token. ok is false for a token that is not canonical; level is -1 for messages without a
// priority.
func ClassLevel(token string) (level int, ok bool) {
	if token == NoPriority {
		return -1, true
	}
	if len(token) < 2 || len(token) > 3 || token[0] != 'p' {
		return 0, false
	}
	for i := 1; i < len(token); i++ {
		if token[i] < '0' || token[i] > '9' {
			return 0, false
		}
		level = level*10 + int(token[i]-'0')
	}
	if len(token) == 3 && token[1] == '0' {
		return 0, false
	}
	return level, true
}

// Split splits what follows a queue's subject prefix into class and key tokens. ok is false when there are not
// exactly two.
func Split(rest string) (class, key string, ok bool) {
	i := strings.IndexByte(rest, '.')
	if i < 0 || strings.IndexByte(rest[i+1:], '.') >= 0 {
		return "", "", false
	}
	return rest[:i], rest[i+1:], true
}
