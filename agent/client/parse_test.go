package client

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
)

const plainDelivery = `{"token":"0123456789abcdef","queue":"orders","priority":2,"key":"acme ü","seq":1764417600000017,"attempt":1,"id":"i",` +
	`"enqueued_at":"2026-11-29T12:00:00.123Z","deadline":"2026-11-29T12:01:00Z","fence":7,"content_type":"a/b","headers":{"a":"1","b":"2"},"data":"x"}`

var odd = []string{
	`{}`, ``, `{`, `null`, `[]`, `{"token":"a"} `, ` {"token":"a"}`, `{"token":"a",}`, `{"token":"a"}}`, `{"token":"a" }`,
	`{"token":"\u0061\n"}`, `{"TOKEN":"a"}`, `{"token":null}`, `{"token":1}`, `{"unknown":{"a":[1]},"token":"a"}`,
	`{"seq":18446744073709551615}`, `{"seq":18446744073709551616}`, `{"seq":01}`, `{"seq":-1}`, `{"seq":1e3}`, `{"seq":1.0}`, `{"seq":}`,
	`{"priority":4294967296}`, `{"priority":-1}`, `{"headers":null}`, `{"headers":{"a":1}}`, `{"headers":{"a":"1"},"headers":{"b":"2"}}`,
	`{"headers":{"a":"1",}}`, `{"data":"","data_base64":"AAE="}`, `{"data_base64":"!"}`, "{\"key\":\"\xff\"}", "{\"key\":\"a\nb\"}",
	`{"deadline":"2026-11-29"}`, `{"deadline":"2026-11-29T12:01:00,5Z"}`, `{"deadline":"2026-11-29T1:01:00Z"}`, `{"key":"a","key":"b"}`,
	`{"token":"a""key":"b"}`, `{"token":"a","key":"b"`, `{"token"`, `{"token":`, `{"token":"`, "{\"key\":\"\u2028\"}",
}

// compare decodes text both ways.
func compare(t *testing.T, text []byte) {
	t.Helper()
	var got, want api.Delivery
	previous := api.Delivery{Queue: "orders", Key: "acme ü", ContentType: "a/b"}
	gotErr := parseDelivery(text, &got, &previous)
	wantErr := json.Unmarshal(text, &want)
	if (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v, but encoding/json says %v", text, gotErr, wantErr)
	}
	if gotErr == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("%q\ngot  %+v\nwant %+v", text, got, want)
	}
}

func TestParseAgreesWithEncodingJSON(t *testing.T) {
	compare(t, []byte(plainDelivery))
	for _, text := range odd {
		compare(t, []byte(text))
	}
}

// The point of parseDelivery is lost if what agents write takes the slow way.
func TestPlainDeliveriesTakeTheFastWay(t *testing.T) {
	s := scanner{text: []byte(plainDelivery)}
	var d api.Delivery
	if !s.delivery(&d, nil) {
		t.Fatalf("stopped at %q", s.text[s.at:])
	}
}

func FuzzParseDelivery(f *testing.F) {
	f.Add([]byte(plainDelivery))
	for _, text := range odd {
		f.Add([]byte(text))
	}
	f.Fuzz(compare)
}

func BenchmarkParseDelivery(b *testing.B) {
	text := []byte(plainDelivery)
	var previous api.Delivery
	b.ReportAllocs()
	for b.Loop() {
		var d api.Delivery
		if err := parseDelivery(text, &d, &previous); err != nil {
			b.Fatal(err)
		}
		previous = d
	}
}

func BenchmarkEncodingJSON(b *testing.B) {
	text := []byte(plainDelivery)
	b.ReportAllocs()
	for b.Loop() {
		var d api.Delivery
		if err := json.Unmarshal(text, &d); err != nil {
			b.Fatal(err)
		}
	}
}
