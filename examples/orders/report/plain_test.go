//go:build unix

package main

import (
	"path/filepath"
	"testing"
)

func TestPlainConsumerWorksInOrderOfArrival(t *testing.T) {
	handler, err := filepath.Abs("../handler")
	if err != nil {
		t.Fatal(err)
	}
	s := settings{orders: "../orders.ndjson", handler: handler, limit: 40, concurrency: 1, folder: t.TempDir()}
	jobs, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.throughPlainConsumer(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 40 {
		t.Fatalf("%d orders were begun, want 40", len(all))
	}
	for i, b := range all {
		if b.tenant != jobs[i].Key || b.level != jobs[i].Priority || b.before != i {
			t.Errorf("order %d: %+v, want tenant %s at level %s", i, b, jobs[i].Key, jobs[i].Priority)
		}
	}
}
