package socket

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/delivery"
)

// The bounds of parameters.
const (
	maxPull = 10_000
	maxWait = 5 * time.Minute
	maxPeek = 1_000
	maxKeys = 10_000
)

func badRequest(format string, args ...any) *api.Error {
	return &api.Error{Code: api.CodeBadRequest, Message: fmt.Sprintf(format, args...)}
}

func checkParameter(name string, values, known []string) error {
	if !slices.Contains(known, name) {
		if len(known) == 0 {
			return badRequest("parameter %.64q: this call takes none; remove it", name)
		}
		return badRequest("parameter %.64q is unknown here; this call takes %s", name, strings.Join(known, ", "))
	}
	if len(values) > 1 {
		return badRequest("parameter %s is given %d times: give it once", name, len(values))
	}
	return nil
}

// integer reads a number from lowest to highest; absent or empty, it is fallback.
func integer(q url.Values, name string, lowest, highest, fallback int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < lowest || n > highest {
		return 0, badRequest("%s=%.64q: use a number from %d to %d", name, text, lowest, highest)
	}
	return n, nil
}

// duration reads a duration from lowest to highest; absent or empty, it is fallback.
func duration(q url.Values, name string, lowest, highest, fallback time.Duration) (time.Duration, error) {
	text := q.Get(name)
	if text == "" {
		return fallback, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < lowest || d > highest {
		return 0, badRequest("%s=%.64q: use a duration with a unit, such as 30s, from %v to %v", name, text, lowest, highest)
	}
	return d, nil
}

// lease reads how long each delivery may take.
func lease(q url.Values, fallback time.Duration) (time.Duration, error) {
	return duration(q, "lease", delivery.MinLease, delivery.MaxLease, fallback)
}

// wait reads how long a pull may wait.
func wait(q url.Values) (time.Duration, error) {
	return duration(q, "wait", 0, maxWait, 0)
}
