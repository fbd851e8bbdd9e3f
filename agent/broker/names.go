package broker

import (
	"strconv"
	"strings"
)

// MaxLevels is the number of priority levels that subjects can say.
const MaxLevels = 100

// Names makes the names of everything Fairlead keeps in one NATS account. The prefix, by default "fl", allows several
// environments in one account.
type Names struct {
	prefix string // subjects
	upper  string // streams
	bucket string
}

// NewNames returns the names under a subject prefix, and the bucket's name.
func NewNames(prefix, bucket string) Names {
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

// Subjects is everything that a queue's stream stores.
func (n Names) Subjects(queue string) string { return n.prefix + ".q." + queue + ".>" }

// DelayStream is the stream of a queue's delayed messages.
func (n Names) DelayStream(queue string) string { return n.upper + "_DELAY_" + queue }

func (n Names) subjectPrefix(queue string) string { return n.prefix + ".q." + queue + "." }
func (n Names) delayPrefix(queue string) string   { return n.prefix + ".delay." + queue + "." }
func (n Names) slotPrefix(queue string) string    { return n.prefix + ".slot." + queue + "." }
func (n Names) beatPrefix(queue string) string    { return n.prefix + ".beat." + queue + "." }
func (n Names) deadPrefix(queue string) string    { return n.prefix + ".dead." + queue + "." }
func (n Names) wakePrefix(queue string) string    { return n.prefix + ".wake." + queue + "." }

// NoPriority is the class token of messages that were published without a priority.
const NoPriority = "d"

const defaultClass = NoPriority

// Class returns the class token of a level.
func Class(level int) string { return "p" + strconv.Itoa(level) }

// classLevel parses a class token. ok is false for a token that is not canonical; level is -1 for messages without a
// priority.
func classLevel(token string) (level int, ok bool) {
	if token == defaultClass {
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

// splitAddress splits what follows a queue's subject prefix into class and key tokens. ok is false when there are not
// exactly two.
func splitAddress(rest string) (class, key string, ok bool) {
	i := strings.IndexByte(rest, '.')
	if i < 0 || strings.IndexByte(rest[i+1:], '.') >= 0 {
		return "", "", false
	}
	return rest[:i], rest[i+1:], true
}
