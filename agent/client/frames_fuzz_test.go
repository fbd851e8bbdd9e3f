package client

import (
	"encoding/binary"
	"testing"
)

// FuzzFrames reads an answer of frames. Whatever comes, no payload is longer than what came, and nothing is read twice.
func FuzzFrames(f *testing.F) {
	frame := func(meta, payload string) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(4+len(meta)+len(payload)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(meta)))
		return append(append(b, meta...), payload...)
	}
	one := frame(`{"token":"t","queue":"q","seq":1,"headers":{}}`, "payload")
	f.Add(one)
	f.Add(append(frame(`{"settle_failed":[{"token":"t","status":"expired"}]}`, ""), one...))
	f.Add(one[:len(one)-1])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 3, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		var out PullResult
		_ = decodeFrames(body, &out)
		total := 0
		for i := range out.Deliveries {
			total += len(out.Deliveries[i].DataBase64)
		}
		if total > len(body) {
			t.Errorf("%d bytes of payloads came out of %d", total, len(body))
		}
	})
}
