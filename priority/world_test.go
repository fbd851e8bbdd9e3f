package priority

// world stands for the broker under a Queue: what waits in each lane is only
// known by asking.
type world struct {
	q       *Queue
	waiting map[lane]int
}

type lane struct {
	level int
	key   string
}

func newWorld(q *Queue) *world { return &world{q: q, waiting: map[lane]int{}} }

func (w *world) publish(level int, key string, n int) {
	w.waiting[lane{level, key}] += n
	w.q.Wake(level, key, 1000)
}

// pull takes up to n messages in rounds: as many picks as there is credit, then
// the answers, settled and refunded in the order of the picks.
func (w *world) pull(n int) []lane {
	var got []lane
	for len(got) < n {
		turns := w.plan(n - len(got))
		if len(turns) == 0 {
			break
		}
		for _, t := range turns {
			l := lane{t.Level, t.Key}
			if w.waiting[l] == 0 {
				w.q.Refund(t)
				w.q.Sleep(t.Level, t.Key)
				continue
			}
			w.waiting[l]--
			w.q.Settle(t, t.Weight)
			got = append(got, l)
		}
	}
	return got
}

func (w *world) plan(n int) []Turn {
	var turns []Turn
	for len(turns) < n {
		t, outcome := w.q.Pick()
		if outcome != Picked {
			break
		}
		turns = append(turns, t)
	}
	return turns
}

// pullReplayed takes up to n messages and is exact in every case: the picks of a
// round only say how much to ask of each lane. Once the answers are there, all
// are taken back, and the same question is asked again one by one, with the
// messages in hand.
func (w *world) pullReplayed(n int) []lane {
	var got []lane
	inHand := map[lane]int{}
	held := 0
	for len(got) < n {
		asked := map[lane]int{}
		turns := w.plan(n - len(got))
		for i := len(turns) - 1; i >= 0; i-- {
			w.q.Refund(turns[i])
			asked[lane{turns[i].Level, turns[i].Key}]++
		}
		if len(turns) == 0 {
			break
		}
		empty := map[lane]bool{}
		for l, want := range asked {
			// What is in hand already need not be asked for, and credit is never
			// exceeded.
			more := max(0, min(want-inHand[l], n-len(got)-held))
			answer := min(more, w.waiting[l])
			w.waiting[l] -= answer
			inHand[l] += answer
			held += answer
			empty[l] = answer < more
		}
		for len(got) < n {
			t, outcome := w.q.Pick()
			if outcome != Picked {
				break
			}
			l := lane{t.Level, t.Key}
			if inHand[l] > 0 {
				inHand[l]--
				held--
				w.q.Settle(t, t.Weight)
				got = append(got, l)
				continue
			}
			w.q.Refund(t)
			if !empty[l] {
				break // not known: ask
			}
			w.q.Sleep(t.Level, t.Key)
		}
	}
	return got
}
