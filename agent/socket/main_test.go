package socket

import (
	"testing"

	"go.uber.org/goleak"
)

// A connection that net/http closes is waited for, by a goroutine of its own, for half a second.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
