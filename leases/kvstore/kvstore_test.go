package kvstore_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/leases"
	"github.com/fairlead/fairlead/leases/kvstore"
	"github.com/fairlead/fairlead/leases/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bucket = "fairlead"

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// startServer starts a server that listens on a free port.
func startServer(t *testing.T) *server.Server {
	t.Helper()
	ns, err := server.NewServer(&server.Options{
		ServerName: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return ns
}

func connect(t *testing.T, ns *server.Server, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(ns.ClientURL(), append(options, nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// createBucket makes the bucket as the product does: revisions from the clock, reads at the leader only.
func createBucket(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, Storage: jetstream.FileStorage,
		MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxConsumers: -1, MaxMsgSize: -1, Discard: jetstream.DiscardNew,
		AllowRollup: true, AllowDirect: false, FirstSeq: uint64(time.Now().UnixMicro()),
	}); err != nil {
		t.Fatal(err)
	}
}

// deleteBucket deletes the bucket, and says whether the server told of it: when its goroutines get little time it may drop
// the advisory, as version 2.15 does once in hundreds or thousands of times on two busy cores.
func deleteBucket(t *testing.T, js jetstream.JetStream) (told bool) {
	t.Helper()
	heard, err := js.Conn().SubscribeSync("$JS.EVENT.ADVISORY.STREAM.DELETED.KV_" + bucket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = heard.Unsubscribe() }()
	began := time.Now().UTC()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := js.DeleteStream(ctx, "KV_"+bucket); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := heard.NextMsg(time.Second)
		if err != nil {
			t.Log("the server has dropped the advisory of the deletion:", err)
			return false
		}
		var a server.JSStreamActionAdvisory
		if err := json.Unmarshal(m.Data, &a); err != nil {
			t.Fatal(err)
		}
		if !a.Time.Before(began) { // and not that of an earlier bucket
			return true
		}
	}
}

func TestContract(t *testing.T) {
	ns := startServer(t)
	admin := connect(t, ns)
	storetest.Run(t, func(t *testing.T) storetest.Rig {
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		t.Cleanup(cancel)
		createBucket(t, admin)
		t.Cleanup(func() { _ = admin.DeleteStream(context.Background(), "KV_"+bucket) }) // a test may have deleted it
		return storetest.Rig{
			Open: func(key string) leases.Store { return kvstore.New(connect(t, ns), bucket, key) },
			Remove: func(key string) {
				kv, err := admin.KeyValue(ctx, bucket)
				if err == nil {
					err = kv.Delete(ctx, key)
				}
				if err != nil {
					t.Error(err)
				}
			},
			Drop:     func() bool { return deleteBucket(t, admin) },
			Recreate: func() { createBucket(t, admin) },
		}
	})
}

// TestLinearizable has clients that give up early, and lose their connections.
func TestLinearizable(t *testing.T) {
	ns := startServer(t)
	admin := connect(t, ns)
	createBucket(t, admin)
	h := storetest.History{
		Clients: 4, Operations: 250, Seed: 1,
		Timeout: func(r *rand.Rand) time.Duration {
			if r.IntN(3) == 0 {
				return time.Duration(r.IntN(400)) * time.Microsecond
			}
			return time.Second
		},
	}
	report, err := storetest.Linearizable(h, func(client int) leases.Store {
		if client < 0 {
			return kvstore.New(admin, bucket, "a")
		}
		return &shaky{Store: kvstore.New(connect(t, ns), bucket, "a"), rnd: rand.New(rand.NewPCG(2, uint64(client)))}
	})
	t.Log(report)
	if err != nil {
		t.Error(err)
	}
}

// shaky loses its connection now and then, while a request is under way.
type shaky struct {
	*kvstore.Store
	rnd *rand.Rand
}

func (s *shaky) Swap(ctx context.Context, data []byte, revision uint64) (uint64, error) {
	if s.rnd.IntN(20) == 0 {
		cut := time.AfterFunc(time.Duration(s.rnd.IntN(300))*time.Microsecond, s.Break)
		defer cut.Stop()
	}
	return s.Store.Swap(ctx, data, revision)
}
