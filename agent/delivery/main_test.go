package delivery

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Every run plays the same programs; -rapid.seed and -rapid.checks on the command line play others.
	for name, value := range map[string]string{"rapid.seed": "20261129", "rapid.checks": "300"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
