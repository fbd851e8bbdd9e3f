package seldom

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// pause is how often the same sentence is logged.
	pause = 30 * time.Second
	// most bounds the sentences that are remembered.
	most = 256
)

// Log logs what can happen with every message, such as a write while the bucket is away: the same sentence once in half
// a minute, with the number of times that it was left out. Safe for several goroutines.
type Log struct {
	log hclog.Logger
	now func() time.Time

	mu   sync.Mutex
	said map[string]*saying
}

type saying struct {
	at   time.Time
	left int // not logged since
}

// New returns a Log that writes to log.
func New(log hclog.Logger) *Log {
	return &Log{log: log, now: time.Now, said: map[string]*saying{}}
}

// Warn logs a sentence, whose details are those of the first time.
func (s *Log) Warn(sentence string, details ...any) {
	s.mu.Lock()
	now := s.now()
	before := s.said[sentence]
	if before != nil && now.Sub(before.at) < pause {
		before.left++
		s.mu.Unlock()
		return
	}
	if before == nil && len(s.said) >= most {
		clear(s.said)
	}
	s.said[sentence] = &saying{at: now}
	s.mu.Unlock()
	if before != nil && before.left > 0 {
		details = append(details[:len(details):len(details)], "not_logged", before.left)
	}
	s.log.Warn(sentence, details...)
}
