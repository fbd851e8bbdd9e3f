package config

import (
	"errors"
	"testing"
)

func TestInvalidListsAllProblems(t *testing.T) {
	_, _, err := Parse("f.yaml", []byte("a: 1\nb: 2\n"+minimal), nil)
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	if got, want := err.Error(), "config: 2 problems\nf.yaml:1:1: a: unknown key\nf.yaml:2:1: b: unknown key"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
