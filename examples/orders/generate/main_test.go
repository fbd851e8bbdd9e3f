package main

import (
	"bytes"
	"os"
	"testing"
)

func TestTheShippedFileIsWhatTheProgramWrites(t *testing.T) {
	shipped, err := os.ReadFile("../orders.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	var made bytes.Buffer
	if err := write(&made, day()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(shipped, made.Bytes()) {
		t.Error("orders.ndjson differs from what this program writes: run go run ./examples/orders/generate > examples/orders/orders.ndjson")
	}
}

func TestTheDayIsAsTheReadmeSays(t *testing.T) {
	orders := day()
	byTenant, byLevel, ids := map[string]int{}, map[string]int{}, map[string]bool{}
	last := 0
	for _, o := range orders {
		byTenant[o.tenant]++
		byLevel[o.level]++
		ids[o.id] = true
		if o.second < last || o.second >= 24*3600 {
			t.Fatalf("order %s at second %d, after one at %d", o.id, o.second, last)
		}
		last = o.second
	}
	if len(orders) != 10_000 || len(ids) != 10_000 {
		t.Errorf("%d orders with %d ids, want 10,000 of each", len(orders), len(ids))
	}
	if len(byTenant) != 12 || byTenant["megamart"] != 9_000 {
		t.Errorf("%d tenants, megamart with %d orders; want 12, and nine tenths for megamart", len(byTenant), byTenant["megamart"])
	}
	if len(byLevel) != 3 || byLevel["high"] < 900 || byLevel["high"] > 1100 || byLevel["low"] < 2800 || byLevel["low"] > 3200 {
		t.Errorf("levels %v, want one tenth high and three tenths low", byLevel)
	}
}
