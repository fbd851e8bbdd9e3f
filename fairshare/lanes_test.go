package fairshare

// discipline is anything that decides whose message is next: the Picker, and the
// controls that must fail where it does not.
type discipline interface {
	arrive(key string, w Weight)
	// next takes one message; false when nothing waits.
	next() (string, bool)
}

// lanes stands for the broker: how many messages wait for each key. Like the
// real one it is only known by asking, and a lane can be asked for many at once.
type lanes struct {
	p       *Picker
	waiting map[string]int
	weights map[string]Weight
	turns   []Turn // reused
}

func newLanes(p *Picker) *lanes {
	return &lanes{p: p, waiting: map[string]int{}, weights: map[string]Weight{}}
}

func (l *lanes) arrive(key string, w Weight) { l.publish(key, w, 1) }

func (l *lanes) publish(key string, w Weight, n int) {
	l.waiting[key] += n
	l.weights[key] = w
	l.p.Wake(key, w)
}

func (l *lanes) next() (string, bool) {
	if got := l.pull(1); len(got) == 1 {
		return got[0], true
	}
	return "", false
}

// pull takes up to n messages: in rounds, each of as many picks as there is
// credit left; all the lanes of a round are asked at once, and answer with what
// they have. It returns the keys in the order of delivery.
func (l *lanes) pull(n int) []string {
	var got []string
	for len(got) < n {
		l.turns = l.turns[:0]
		for range n - len(got) {
			turn, outcome := l.p.Pick()
			if outcome != Picked {
				break
			}
			l.turns = append(l.turns, turn)
		}
		if len(l.turns) == 0 {
			break
		}
		for _, turn := range l.turns {
			if l.waiting[turn.Key] == 0 {
				l.p.Refund(turn)
				l.p.Sleep(turn.Key)
				continue
			}
			l.waiting[turn.Key]--
			l.p.Settle(turn, l.weights[turn.Key])
			got = append(got, turn.Key)
		}
	}
	return got
}
