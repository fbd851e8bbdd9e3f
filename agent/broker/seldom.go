package broker

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// seldomPause is how often the same sentence is logged.
	seldomPause = 30 * time.Second
	// seldomMost bounds the sentences that are remembered.
	seldomMost = 256
)

// seldom logs what can happen with every message, such as a write while the bucket is away: the same sentence once in half
// a minute, with the number of times that it was left out. Safe for several goroutines.
type seldom struct {
	log hclog.Logger
	now func() time.Time

	mu   sync.Mutex
	said map[string]*saying
}

type saying struct {
	at   time.Time
	left int // not logged since
}

func newSeldom(log hclog.Logger) *seldom {
	return &seldom{log: log, now: time.Now, said: map[string]*saying{}}
}

// warn logs a sentence, whose details are those of the first time.
func (s *seldom) warn(sentence string, details ...any) {
	s.mu.Lock()
	now := s.now()
	before := s.said[sentence]
	if before != nil && now.Sub(before.at) < seldomPause {
		before.left++
		s.mu.Unlock()
		return
	}
	if before == nil && len(s.said) >= seldomMost {
		clear(s.said)
	}
	s.said[sentence] = &saying{at: now}
	s.mu.Unlock()
	if before != nil && before.left > 0 {
		details = append(details[:len(details):len(details)], "not_logged", before.left)
	}
	s.log.Warn(sentence, details...)
}
