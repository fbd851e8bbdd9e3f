package delivery

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		s    api.Settlement
		want string // in the message; "" is accepted
	}{
		{api.Settlement{Token: "t", Result: "ack"}, ""},
		{api.Settlement{Token: "t", Result: "nack"}, ""},
		{api.Settlement{Token: "t", Result: "nack", Delay: "0s", Reason: "boom"}, ""},
		{api.Settlement{Token: "t", Result: "nack", Delay: "72h"}, ""},
		{api.Settlement{Token: "t", Result: "reject", Reason: "bad"}, ""},
		{api.Settlement{Token: "t", Result: "extend"}, ""},
		{api.Settlement{Token: "t", Result: "extend", Lease: "24h"}, ""},
		{api.Settlement{Result: "ack"}, "token is missing"},
		{api.Settlement{Token: "t"}, "use ack, nack, reject or extend"},
		{api.Settlement{Token: "t", Result: "ACK"}, "use ack, nack, reject or extend"},
		{api.Settlement{Token: "t", Result: "nack", Delay: "5"}, "such as 5s"},
		{api.Settlement{Token: "t", Result: "nack", Delay: "-1s"}, "from 0s"},
		{api.Settlement{Token: "t", Result: "nack", Delay: "9000h"}, "to 8760h"},
		{api.Settlement{Token: "t", Result: "ack", Delay: "5s"}, "delay goes with nack"},
		{api.Settlement{Token: "t", Result: "nack", Lease: "5s"}, "lease goes with extend"},
		{api.Settlement{Token: "t", Result: "extend", Lease: "1ms"}, "from 10ms"},
		{api.Settlement{Token: "t", Result: "extend", Lease: "25h"}, "to 24h"},
	} {
		err := Check([]api.Settlement{{Token: "x", Result: "ack"}, c.s})
		if c.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.s, err)
			}
			continue
		}
		var e *api.Error
		if !errors.As(err, &e) || e.Code != api.CodeBadRequest || !strings.Contains(e.Message, c.want) || !strings.Contains(e.Message, "settlement 1") {
			t.Errorf("%+v: %v, want bad_request with %q", c.s, err, c.want)
		}
	}
}

func TestLongReasonsAreCutAtACharacter(t *testing.T) {
	s, err := read(&api.Settlement{Token: "t", Result: "nack", Reason: "x" + strings.Repeat("é", 3000)})
	if err != nil || len(s.reason) > MaxReason || len(s.reason) < MaxReason-4 || !utf8.ValidString(s.reason) {
		t.Errorf("%d bytes, valid %v, %v", len(s.reason), utf8.ValidString(s.reason), err)
	}
}
