package socket

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
)

// reference is what encoding/json writes for the same delivery.
func reference(t testing.TB, d *delivery.Delivery, withData bool) []byte {
	t.Helper()
	m := d.Message
	a := api.Delivery{
		Token: d.Token, Queue: m.Queue, Priority: m.Level, Key: m.Key, Seq: m.Seq, Attempt: m.Attempt, ID: m.ID,
		EnqueuedAt: m.EnqueuedAt.UTC(), Deadline: d.Deadline.UTC(), ContentType: m.ContentType, Headers: m.Headers,
	}
	if withData {
		if text := string(m.Data); utf8.ValidString(text) {
			a.Data = &text
		} else {
			a.DataBase64 = m.Data
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(a); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func checkEncoding(t testing.TB, d *delivery.Delivery) {
	t.Helper()
	e := encoder{}
	if got, want := e.append(nil, d, d.Message.Data), reference(t, d, true); !bytes.Equal(got, want) {
		t.Errorf("line\n%s\nwant\n%s", got, want)
	}
	f := encoder{frames: true}
	frame := f.append([]byte("before"), d, d.Message.Data)[len("before"):]
	meta, payload := openFrame(t, &frame)
	if len(frame) != 0 || !bytes.Equal(payload, d.Message.Data) {
		t.Errorf("payload %q, %d bytes are left", payload, len(frame))
	}
	if want := bytes.TrimSpace(reference(t, d, false)); !bytes.Equal(meta, want) {
		t.Errorf("metadata\n%s\nwant\n%s", meta, want)
	}
}

// openFrame takes the first frame off.
func openFrame(t testing.TB, frames *[]byte) (meta, payload []byte) {
	t.Helper()
	b := *frames
	if len(b) < 8 {
		t.Fatalf("%d bytes are no frame", len(b))
	}
	rest, head := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if int(rest) > len(b)-4 || head > rest-4 {
		t.Fatalf("frame of %d with metadata of %d, and %d bytes are there", rest, head, len(b))
	}
	*frames = b[4+rest:]
	return b[8 : 8+head], b[8+head : 4+rest]
}

func TestEncoding(t *testing.T) {
	for _, c := range []struct {
		name string
		m    broker.Message
	}{
		{"empty", broker.Message{Headers: map[string]string{}}},
		{"all", broker.Message{
			Queue: "orders", Level: 2, Key: "acme", Seq: 1<<53 - 1, Attempt: 3, ID: "order-17", ContentType: "application/json",
			Headers: map[string]string{"traceparent": "00-1", "b": "2", "a": "1"}, Data: []byte(`{"order":17}`),
			EnqueuedAt: time.Date(2026, 11, 29, 12, 0, 0, 123e6, time.UTC),
		}},
		{"escapes", broker.Message{Key: "a\"b\\c\x00\x1f\x7f\u2028\u2029é😀<&>", Headers: map[string]string{"n\"": "v\n"}, Data: []byte("\b\f\n\r\t\u2028\u2029 \x01é😀")}},
		{"binary", broker.Message{Headers: map[string]string{}, Data: []byte{0xff, 0xfe, 0, 1}}},
		{"cut in a character", broker.Message{Headers: map[string]string{}, Data: []byte("é")[:1]}},
		{"surrogate", broker.Message{Key: "\xed\xa0\x80", Headers: map[string]string{}, Data: []byte("\xed\xa0\x80")}},
		{"many headers", broker.Message{Headers: map[string]string{"j": "", "i": "", "h": "", "g": "", "f": "", "e": "", "d": "", "c": "", "b": "", "a": ""}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkEncoding(t, &delivery.Delivery{Token: "k3v9x2m7q4w8r-1a2b", Message: &c.m, Deadline: time.Unix(1795953600, 5)})
		})
	}
}

// Deliveries of one answer may differ in their deadlines.
func TestEncodingOfSeveral(t *testing.T) {
	var e encoder
	m := message(1)
	for i := range 4 {
		d := &delivery.Delivery{Token: "t", Message: m, Deadline: time.Unix(int64(i/2), 0)}
		if got, want := e.append(nil, d, d.Message.Data), reference(t, d, true); !bytes.Equal(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func FuzzEncoding(f *testing.F) {
	f.Add("orders", "acme", "id", "text/plain", "x-a", "1", []byte("hello"), int64(1795953600123456789))
	f.Add("q", "\u2028\x00", "\xff", "\"\\", "\n", "\xed\xa0\x80", []byte("\xc3\x28"), int64(0))
	f.Fuzz(func(t *testing.T, queue, key, id, contentType, name, value string, data []byte, at int64) {
		checkEncoding(t, &delivery.Delivery{Token: "t", Deadline: time.Unix(0, at/2), Message: &broker.Message{
			Queue: queue, Key: key, ID: id, ContentType: contentType, Headers: map[string]string{name: value}, Data: data,
			EnqueuedAt: time.Unix(0, at),
		}})
	})
}

func FuzzSettlements(f *testing.F) {
	for _, s := range []string{
		`[]`, `[{"token":"t","result":"ack"}]`, ` [ {"token":"a","result":"nack","delay":"5s","reason":"x"} , {"token":"b","result":"extend","lease":"1s"}]`,
		`[{}]`, `[{"token":"\u0041"}]`, `[{"token":1}]`, `[{"token":"t","token":"u"}]`, `[{"token":"t",}]`, `[,]`, `[{"a":"b"}]`, `[{"token":"é"}]`, `[]]`, `[{"token":"t"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fast, ok := parseSettlements(text)
		if !ok {
			return
		}
		var slow []api.Settlement
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&slow); err != nil {
			t.Fatalf("%q was accepted, and encoding/json says %v", text, err)
		}
		if len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
			t.Fatalf("%q has a rest", text)
		}
		if len(fast) != len(slow) {
			t.Fatalf("%q: %v, want %v", text, fast, slow)
		}
		for i := range slow {
			if fast[i] != slow[i] {
				t.Fatalf("%q: %+v, want %+v", text, fast[i], slow[i])
			}
		}
	})
}

func TestOrdinarySettlementsTakeTheFastPath(t *testing.T) {
	for _, text := range []string{
		`[]`, `[{"token":"k3v9-1","result":"ack"}]`, "[\n {\"token\": \"a\", \"result\": \"nack\", \"delay\": \"5s\", \"reason\": \"boom <&>\"},\n {\"token\":\"b\",\"result\":\"extend\",\"lease\":\"60s\"}\n]\n",
	} {
		if _, ok := parseSettlements([]byte(text)); !ok {
			t.Errorf("%s was left to encoding/json", text)
		}
	}
}
