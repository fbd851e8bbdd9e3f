package socket

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

func TestNext(t *testing.T) {
	r := newRig(t)
	m := full()
	m.Key, m.Data = "a/b é", []byte{0xff, 0, 1}
	r.add(m)
	a := r.call("POST", "/v1/capsules/work/next?wait=1s&lease=5s", "")
	if a.StatusCode != 200 || a.body != "\xff\x00\x01" || a.ContentLength != 3 {
		t.Fatalf("%d %q", a.StatusCode, a.body)
	}
	for name, want := range map[string]string{
		"Fairlead-Queue": "orders", "Fairlead-Priority": "1", "Fairlead-Key": "a%2Fb%20%C3%A9", "Fairlead-Seq": "17", "Fairlead-Attempt": "2",
		"Fairlead-Id": "order-17", "Fairlead-Fence": "0", "Fairlead-Header-X-Tenant": "Ä", "Content-Type": "application/json",
		"Traceparent": "00-1", "Fairlead-State": "active",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if a := r.call("POST", "/v1/messages/"+a.Header.Get(api.HeaderToken)+"/ack", ""); a.StatusCode != 204 {
		t.Errorf("ack: %d %s", a.StatusCode, a.body)
	}
	if a := r.call("POST", "/v1/capsules/work/next", ""); a.StatusCode != 204 {
		t.Errorf("none: %d", a.StatusCode)
	}
	wantError(t, r.call("POST", "/v1/capsules/nope/next", ""), 404, api.CodeUnknownCapsule)
	wantError(t, r.call("POST", "/v1/capsules/work/next?max=2", ""), 400, api.CodeBadRequest)
	// What a raw publisher has put into a header breaks neither the answer nor the connection.
	evil := message(18)
	evil.ID = "a\r\nEvil: 1"
	evil.Headers = map[string]string{"ok": "v\r\n\r\nbody", "not a name": "x", "": "y"}
	r.add(evil)
	a = r.call("POST", "/v1/capsules/work/next", "")
	if a.StatusCode != 200 || a.body != "x" || a.Header.Get("Evil") != "" || a.Header.Get("Fairlead-Header-Ok") == "" || a.Header.Get("Content-Type") != "" {
		t.Errorf("%d %q %v", a.StatusCode, a.body, a.Header)
	}
}

func TestSettle(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		r.add(message(uint64(i + 1)))
	}
	ds := lines(t, r.call("POST", pullPath+"?max=5", ""))
	body := fmt.Sprintf(`[{"token":%q,"result":"ack"},{"token":%q,"result":"nack","delay":"5s","reason":"boom"},{"token":%q,"result":"reject","reason":"bad"},{"token":%q,"result":"extend","lease":"60s"},{"token":"x","result":"ack"},{"token":%[1]q,"result":"ack"}]`,
		ds[0].Token, ds[1].Token, ds[2].Token, ds[3].Token)
	a := r.call("POST", "/v1/settle", body)
	var got api.SettleResponse
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	want := []api.SettleResult{
		{Token: ds[0].Token, Status: "ok"}, {Token: ds[1].Token, Status: "ok"}, {Token: ds[2].Token, Status: "ok"}, {Token: ds[3].Token, Status: "ok"},
		{Token: "x", Status: "unknown"}, {Token: ds[0].Token, Status: "already_settled"},
	}
	if !reflect.DeepEqual(got.Results, want) {
		t.Errorf("results %+v, want %+v", got.Results, want)
	}
	if a := r.call("POST", "/v1/settle", "[]"); a.body != "{\"results\":[]}\n" {
		t.Errorf("empty list: %s", a.body)
	}
	// Nothing of a list with a mistake is done.
	wantError(t, r.call("POST", "/v1/settle", fmt.Sprintf(`[{"token":%q,"result":"ack"},{"token":"x","result":"ack","delay":"1s"}]`, ds[4].Token)), 400, api.CodeBadRequest)
	if s := r.book.Stats(); s.Live != 2 {
		t.Errorf("%d live, want 2", s.Live)
	}
}

// A list of settlements is answered in time also when JetStream is silent. What is not known then can be asked again.
func TestSettlementsThatTakeTooLong(t *testing.T) {
	t.Parallel()                                                              // it waits for a second
	r := newRig(t, func(o *Options) { o.Limits.SettleTimeout = time.Second }) // what is quick is known by then
	r.add(message(1), message(2))
	ds := lines(t, r.call("POST", pullPath+"?max=2", ""))
	silent := make(chan struct{})
	r.finish = func(m *broker.Message) broker.Finish {
		if m.Seq == 1 {
			<-silent
		}
		return broker.Finished
	}
	acks := fmt.Sprintf(`[{"token":%q,"result":"ack"},{"token":%q,"result":"ack"}]`, ds[0].Token, ds[1].Token)
	status := func() (list []api.Status) {
		var got api.SettleResponse
		if a := r.call("POST", "/v1/settle", acks); json.Unmarshal([]byte(a.body), &got) != nil || a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		for _, result := range got.Results {
			list = append(list, result.Status)
		}
		return list
	}
	if got := status(); !slices.Equal(got, []api.Status{api.StatusUnavailable, api.StatusOK}) {
		t.Errorf("while JetStream is silent: %v", got)
	}
	close(silent)
	for end := time.Now().Add(10 * time.Second); status()[0] != api.StatusAlreadySettled; {
		if time.Now().After(end) {
			t.Fatal("the settlement was not carried out")
		}
	}
}

func TestVerbs(t *testing.T) {
	r := newRig(t)
	take := func() string {
		r.add(message(uint64(time.Now().UnixNano())))
		return lines(t, r.call("POST", pullPath, ""))[0].Token
	}
	for _, c := range []struct {
		verb   string
		status int
		code   api.Code // of the second time
	}{
		{"ack", 204, "already_settled"}, {"nack", 204, "already_settled"}, {"nack?delay=5s&reason=boom", 204, "already_settled"},
		{"reject?reason=bad", 204, "already_settled"}, {"extend", 204, ""}, {"extend?lease=60s", 204, ""},
	} {
		path := "/v1/messages/" + take() + "/" + c.verb
		if a := r.call("POST", path, ""); a.StatusCode != c.status || a.body != "" || a.Header.Get(api.HeaderState) == "" {
			t.Errorf("%s: %d %s", c.verb, a.StatusCode, a.body)
		}
		if c.code != "" {
			wantError(t, r.call("POST", path, ""), 409, c.code)
		}
	}
	wantError(t, r.call("POST", "/v1/messages/stranger/ack", ""), 404, api.CodeUnknownToken)
	wantError(t, r.call("POST", "/v1/messages/x/nack?delay=5", ""), 400, api.CodeBadRequest)
	wantError(t, r.call("POST", "/v1/messages/x/ack?delay=5s", ""), 400, api.CodeBadRequest)
	wantError(t, r.call("POST", "/v1/messages/x/extend?lease=0s", ""), 400, api.CodeBadRequest)
	wantError(t, r.call("POST", "/v1/messages/x/ack", strings.Repeat("x", 9000)), 400, api.CodeBadRequest)
	r.finish = func(*broker.Message) broker.Finish { return broker.FinishUnknown }
	wantError(t, r.call("POST", "/v1/messages/"+take()+"/ack", ""), 409, "unavailable")
	r.add(message(1))
	token := lines(t, r.call("POST", pullPath+"?lease=300ms", ""))[0].Token
	eventually(t, "the lease is over", func() bool { return r.book.Stats().Expired == 1 })
	wantError(t, r.call("POST", "/v1/messages/"+token+"/extend", ""), 409, "expired")
}
