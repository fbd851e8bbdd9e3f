package tcp

import (
	"errors"
	"strings"
	"testing"
)

var setting = Setting{Name: "listen.probes_http", Without: "/livez"}

func TestAnAddressInUseSaysWhatToDo(t *testing.T) {
	l, err := Listen("127.0.0.1:0", setting)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Listen(l.Addr().String(), setting)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), `listen.probes_http, or "" to do without`) {
		t.Errorf("got %v", err)
	}
	if _, err := Listen("192.0.2.1:0", setting); err == nil || !strings.Contains(err.Error(), "listen.probes_http") {
		t.Errorf("an address of somebody else: %v", err)
	}
}
