package bucket

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestEnsureBucket(t *testing.T) {
	r := newRig(t)
	stream, err := r.wire.JS.Stream(within(t), "KV_fairlead")
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo()
	if c.Config.AllowDirect || c.Config.MaxMsgsPerSubject != 1 || c.Config.MaxAge != 0 || c.State.FirstSeq < MinFence {
		t.Errorf("%+v", c)
	}
	if err := r.wire.JS.DeleteStream(within(t), "KV_fairlead"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.wire.JS.CreateKeyValue(within(t), jetstream.KeyValueConfig{Bucket: "fairlead"}); err != nil {
		t.Fatal(err)
	}
	warning, err := r.Ensure(within(t), 1)
	if err != nil || !strings.Contains(warning, "made by hand") {
		t.Errorf("a bucket made by hand: %q, %v", warning, err)
	}
}
