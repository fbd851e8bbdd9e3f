package delivery

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
)

// The bounds of what apps can ask for.
const (
	MinLease = 10 * time.Millisecond
	MaxLease = 24 * time.Hour
	MaxDelay = 365 * 24 * time.Hour
	// MaxReason is how many bytes of a reason are kept; longer ones are cut at a character.
	MaxReason = 1024
)

// settlement is an api.Settlement that was read.
type settlement struct {
	token  string
	result api.Result
	delay  time.Duration // nack; -1: the queue's backoff
	lease  time.Duration // extend; 0: the delivery's own
	reason string
}

// Check tells what is wrong with a list of settlements: an *api.Error that names the first bad one, or nil. Tokens are
// not looked up.
func Check(list []api.Settlement) error {
	for i := range list {
		if _, err := read(&list[i]); err != nil {
			return &api.Error{Code: api.CodeBadRequest, Message: fmt.Sprintf("settlement %d: %v; nothing of this list was done", i, err)}
		}
	}
	return nil
}

func read(a *api.Settlement) (settlement, error) {
	s := settlement{token: a.Token, result: a.Result, delay: -1, reason: a.Reason}
	if a.Token == "" {
		return s, fmt.Errorf("token is missing: give the token of the delivery")
	}
	switch a.Result {
	case api.Ack, api.Nack, api.Reject, api.Extend:
	default:
		return s, fmt.Errorf("result %.32q: use ack, nack, reject or extend", a.Result)
	}
	if a.Delay != "" {
		if a.Result != api.Nack {
			return s, fmt.Errorf("delay goes with nack, not with %s: remove it", a.Result)
		}
		d, err := time.ParseDuration(a.Delay)
		if err != nil || d < 0 || d > MaxDelay {
			return s, fmt.Errorf("delay %.32q: use a duration such as 5s, from 0s to %v", a.Delay, MaxDelay)
		}
		s.delay = d
	}
	if a.Lease != "" {
		if a.Result != api.Extend {
			return s, fmt.Errorf("lease goes with extend, not with %s: remove it", a.Result)
		}
		d, err := time.ParseDuration(a.Lease)
		if err != nil || d < MinLease || d > MaxLease {
			return s, fmt.Errorf("lease %.32q: use a duration such as 60s, from %v to %v", a.Lease, MinLease, MaxLease)
		}
		s.lease = d
	}
	if len(s.reason) > MaxReason {
		cut := MaxReason
		for cut > 0 && !utf8.RuneStart(s.reason[cut]) {
			cut--
		}
		s.reason = strings.Clone(s.reason[:cut])
	}
	return s, nil
}
