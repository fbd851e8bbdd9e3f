package group

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue is a definition; two with another size are two definitions.
func queue(name string, revision, size int64) config.Queue {
	q := config.Dev("").Queues[0]
	q.Name, q.Revision = name, revision
	q.Limits.MaxMessages = size
	return q
}
