package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fairlead/fairlead/leases"
)

// History is what Linearizable runs: so many clients do so many operations each.
type History struct {
	Clients, Operations int
	Seed                uint64
	// Timeout draws how long a client waits for one operation. Short ones make outcomes unknown.
	Timeout func(*rand.Rand) time.Duration
}

// op is what a client did, and what it was told.
type op struct {
	read     bool
	data     string
	expected uint64
}

type result struct {
	verdict  verdict
	data     string
	revision uint64
}

type verdict uint8

const (
	done verdict = iota
	conflict
	refused // not carried out, for certain
	unknown
	carriedOut // unknown to who asked, but somebody has seen it
)

// register is a record as it has to behave.
type register struct {
	data     string
	revision uint64
}

// model is a record that can be compared and set. Of writes without an answer the history has only those that somebody
// has seen: they were carried out, once, at some time after they were sent.
var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(register), input.(op), output.(result)
		switch {
		case in.read:
			return out.data == s.data && out.revision == s.revision, s
		case out.verdict == conflict:
			return s.revision != in.expected, s
		}
		return s.revision == in.expected && out.revision > s.revision, register{in.data, out.revision}
	},
}

// Linearizable lets clients read and write one record, all at once, and checks that there is an order in which every
// answer is right. open returns a client's view, as faulty as the test likes, but for false conflicts; client -1 is one
// without faults. It returns what happened in numbers, and an error when there is no such order, or nothing was shown.
func Linearizable(h History, open func(client int) leases.Store) (report string, err error) {
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		history []porcupine.Operation
	)
	began := time.Now()
	do := func(client int, store leases.Store, in op, timeout time.Duration) result {
		called := time.Since(began)
		out := perform(store, in, timeout)
		returned := time.Since(began)
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{
			ClientId: client, Input: in, Output: out, Call: int64(called), Return: int64(returned),
		})
		return out
	}
	for client := range h.Clients {
		store := open(client)
		rnd := rand.New(rand.NewPCG(h.Seed, uint64(client)))
		all.Go(func() {
			known := uint64(0)
			for n := range h.Operations {
				in := op{read: rnd.IntN(2) == 0, data: fmt.Sprintf("%d-%d", client, n), expected: known}
				if out := do(client, store, in, h.Timeout(rnd)); out.verdict == done {
					known = out.revision
				}
			}
		})
	}
	all.Wait()
	if out := do(h.Clients, open(-1), op{read: true}, patience); out.verdict != done {
		return "", errors.New("storetest: the last read failed")
	}
	known, counts := settle(history)
	report = fmt.Sprintf("%d operations: %d done, %d conflicts, %d refused, %d unknown, of which %d were carried out",
		len(history), counts[done], counts[conflict], counts[refused], counts[unknown], counts[carriedOut])
	if got := porcupine.CheckOperationsTimeout(model, known, patience); got != porcupine.Ok {
		return report, fmt.Errorf("storetest: the history is not linearizable: %s", got)
	}
	if counts[done] == 0 || counts[conflict] == 0 || counts[carriedOut] == 0 {
		return report, errors.New("storetest: a history without successes, conflicts, or timeouts that were carried out shows nothing")
	}
	return report, nil
}

func perform(s leases.Store, in op, timeout time.Duration) result {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if in.read {
		v, err := s.Read(ctx)
		if err != nil {
			return result{verdict: unknown}
		}
		return result{done, string(v.Data), v.Revision}
	}
	revision, err := s.Swap(ctx, []byte(in.data), in.expected)
	switch {
	case err == nil:
		return result{verdict: done, revision: revision}
	case errors.Is(err, leases.ErrConflict):
		return result{verdict: conflict}
	case errors.Is(err, leases.ErrUnavailable):
		return result{verdict: refused}
	}
	return result{verdict: unknown}
}

// settle leaves out what has told nobody anything, and gives writes without an answer the revision that a read has shown.
// (Values are unique, and nobody can replace a value that nobody has read: what the last read does not account for was not
// carried out before it.)
func settle(history []porcupine.Operation) (known []porcupine.Operation, counts [carriedOut + 1]int) {
	shown := map[string]uint64{}
	for _, o := range history {
		if out := o.Output.(result); o.Input.(op).read && out.verdict == done {
			shown[out.data] = out.revision
		}
	}
	for _, o := range history {
		in, out := o.Input.(op), o.Output.(result)
		counts[out.verdict]++
		switch {
		case out.verdict == done || out.verdict == conflict:
			known = append(known, o)
		case !in.read && out.verdict == unknown && shown[in.data] != 0:
			counts[carriedOut]++
			out.verdict, out.revision = carriedOut, shown[in.data]
			o.Output, o.Return = out, math.MaxInt64
			known = append(known, o)
		}
	}
	return known, counts
}
