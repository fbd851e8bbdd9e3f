package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/agent/client/clienttest"
)

func TestDelayed(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	var handles []string
	for _, key := range []string{"a", "b"} {
		got, err := c.Publish(ctx, "default", client.Message{Key: key, Data: []byte("x"), Delay: time.Hour})
		if err != nil || got.Delayed == "" || got.Seq != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		handles = append(handles, got.Delayed)
	}
	list, err := c.Delayed(ctx, "default", 1)
	if err != nil || list.Total != 2 || len(list.Delayed) != 1 || list.Delayed[0].Key != "a" || list.Delayed[0].Handle != handles[0] {
		t.Errorf("%+v, %v", list, err)
	}
	if err := c.CancelDelayed(ctx, "default", handles[0]); err != nil {
		t.Error(err)
	}
	var answered *api.Error
	for _, handle := range []string{handles[0], "a/b ?", "*"} {
		if err := c.CancelDelayed(ctx, "default", handle); !errors.As(err, &answered) || answered.Code != api.CodeUnknownHandle {
			t.Errorf("%q: %v", handle, err)
		}
	}
	if list, err := c.Delayed(ctx, "default", 0); err != nil || list.Total != 1 || list.Delayed[0].Key != "b" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := c.Delayed(ctx, "nope", 0); !errors.As(err, &answered) || answered.Code != api.CodeUnknownQueue {
		t.Errorf("%v", err)
	}
}
