package socket

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/payload"
)

// packed is a message whose payload is stored compressed.
func packed(t testing.TB, seq uint64, data []byte) *broker.Message {
	t.Helper()
	m := message(seq)
	var ok bool
	if m.Data, ok = payload.Compress(data, 0); !ok {
		t.Fatal("does not get smaller")
	}
	m.Compressed = true
	return m
}

// Whatever the answer looks like, and whether the payloads are kept or expanded twice, apps get what was published.
func TestCompressedPayloadsAreHandedOutAsPublished(t *testing.T) {
	r := newRig(t)
	text := strings.Repeat(`{"order":17}`, 50)
	binary := strings.Repeat("\xff\x00", 300)
	large := strings.Repeat("0123456789abcdef", 3*keptExpanded/16/4)
	load := func() []string {
		r.add(packed(t, 1, []byte(text)), message(2), packed(t, 3, []byte(binary)))
		want := []string{text, "x", binary}
		for seq := range uint64(3) { // the second of them is beyond what a pull keeps
			m := packed(t, 10+seq, []byte(large))
			m.Queue = "plain" // without a max_payload
			r.add(m)
			want = append(want, large)
		}
		return want
	}
	want := load()
	ds := lines(t, r.call("POST", pullPath+"?max=10&wait=5s", ""))
	if len(ds) != len(want) {
		t.Fatalf("%d deliveries, want %d", len(ds), len(want))
	}
	for i, d := range ds {
		if string(d.Payload()) != want[i] || (d.Data == nil) != (want[i] == binary) {
			t.Errorf("line %d: %d bytes, want %d as they were", i, len(d.Payload()), len(want[i]))
		}
		r.call("POST", "/v1/messages/"+d.Token+"/ack", "")
	}
	load()
	body := r.call("POST", pullPath+"?max=10&wait=5s", "", "Accept", api.TypeFrames).body
	for i := range want {
		frame := body[4 : 4+beUint32(body)]
		body = body[4+len(frame):]
		meta := frame[4 : 4+beUint32(frame)]
		var d api.Delivery
		if err := json.Unmarshal([]byte(meta), &d); err != nil || frame[4+len(meta):] != want[i] {
			t.Errorf("frame %d: %d bytes, want %d as they were, %v", i, len(frame)-4-len(meta), len(want[i]), err)
		}
		r.call("POST", "/v1/messages/"+d.Token+"/ack", "")
	}
	load()
	for i := range want {
		a := r.call("POST", "/v1/capsules/work/next?wait=5s", "")
		if a.body != want[i] || a.ContentLength != int64(len(want[i])) {
			t.Errorf("next %d: %d bytes, want %d as they were", i, len(a.body), len(want[i]))
		}
	}
}

func beUint32(s string) int { return int(s[0])<<24 | int(s[1])<<16 | int(s[2])<<8 | int(s[3]) }

// What cannot be expanded is not delivered, it is rejected; what came with it is, and so is what comes behind it.
func TestDamagedPayloadsAreRejectedAndNotDelivered(t *testing.T) {
	r := newRig(t)
	broken, bomb := packed(t, 2, bytes.Repeat([]byte("a"), 500)), packed(t, 4, make([]byte, 1001)) // orders takes 1000
	broken.Data = broken.Data[:20]
	r.add(message(1), broken, message(3), bomb, message(5))
	var seqs []uint64
	for _, d := range lines(t, r.call("POST", pullPath+"?max=10&wait=5s", "")) {
		seqs = append(seqs, d.Seq)
	}
	if fmt.Sprint(seqs) != "[1 3 5]" {
		t.Errorf("delivered %v, want 1 3 5", seqs)
	}
	eventually(t, "both were given up", func() bool { return len(r.gaveUp()) == 2 })
	if s := r.book.Stats(); s.Damaged != 2 || s.Rejected != 2 {
		t.Errorf("%d damaged, %d rejected, want 2 and 2", s.Damaged, s.Rejected)
	}

	// A pull that got nothing else asks on, and so does next.
	for i, path := range []string{pullPath + "?wait=10s", "/v1/capsules/work/next?wait=10s", pullPath, "/v1/capsules/work/next"} {
		r.add(packed(t, 10, make([]byte, 1001)), packed(t, 11, make([]byte, 1001)), message(uint64(20+i)))
		if a := r.call("POST", path, ""); a.StatusCode != 200 || !strings.Contains(a.body, "x") {
			t.Errorf("%s behind two damaged messages: %d %s", path, a.StatusCode, a.body)
		}
	}
	// With nothing behind them its time is over as ever.
	r.add(packed(t, 12, make([]byte, 1001)))
	begin := time.Now()
	if a := r.call("POST", pullPath+"?wait=100ms", ""); a.StatusCode != 204 || time.Since(begin) < 100*time.Millisecond {
		t.Errorf("%d %s after %v, want 204 after 100 ms", a.StatusCode, a.body, time.Since(begin))
	}
}

// A pull full of bombs costs about as much memory as one of them is allowed.
func TestAPullOfBombsHasBoundedMemory(t *testing.T) {
	r := newRig(t)
	bomb := packed(t, 0, make([]byte, payload.Most+1))
	const n = 10 // kept, they would take far more than what is allowed below; more take the race detector too long
	for seq := range uint64(n) {
		m := message(seq + 1)
		m.Queue, m.Data, m.Compressed = "plain", bomb.Data, true
		r.add(m)
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	if a := r.call("POST", fmt.Sprintf("%s?max=%d", pullPath, n), ""); a.StatusCode != 204 {
		t.Errorf("%d, want 204", a.StatusCode)
	}
	close(stop)
	if grown := <-peak - before.HeapInuse; grown > 6*payload.Most { // of 10 that it would take to keep them
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	eventually(t, "all were given up as damaged", func() bool { return r.book.Stats().Damaged == n }) // beside the answer
}

func TestCompressIsPassedOn(t *testing.T) {
	r := newRig(t)
	r.call("POST", ordersPath, "x", api.HeaderCompress, "gzip")
	r.call("POST", ordersPath, "x")
	// The body's own encoding is the connection's business: it is stored as it came.
	r.call("POST", ordersPath, "\x1f\x8bx", "Content-Encoding", "gzip")
	s := r.stored()
	if len(s) != 3 || !s[0].Compress || s[1].Compress || s[2].Compress || string(s[2].Data) != "\x1f\x8bx" || len(s[2].Headers) != 0 {
		t.Errorf("stored %+v", s)
	}
}
