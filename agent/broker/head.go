package broker

import (
	"math"
	"strconv"

	"github.com/nats-io/nats.go"
)

// Head reports the sequence of the first message of a lane at or after a sequence, without taking it: waiting, in somebody's
// hands or backing off. It is [NoHead] when there is none, and from itself when that cannot be found out now. done is called
// once, from any goroutine, and must not block.
func (f *Feed) Head(lane *Lane, from uint64, done func(seq uint64)) {
	if f.c.replicated(lane.Queue()) {
		// Its leader is asked: a replica that is behind would show what is finished, and lanes would be merged in a wrong order.
		f.c.lookUp(lane.stream, look{Seq: from, Filter: lane.filters[0]}, func(_ string, seq uint64, err error) {
			switch {
			case err != nil:
				done(from)
			case seq == 0:
				done(NoHead)
			default:
				done(seq)
			}
		})
		return
	}
	body := `{"seq":` + strconv.FormatUint(from, 10) + `,"next_by_subj":"` + lane.filters[0] + `"}`
	f.c.writes.do(&nats.Msg{Subject: "$JS.API.DIRECT.GET." + lane.stream, Data: []byte(body)}, func(m *nats.Msg, err error) {
		if err != nil {
			done(from)
			return
		}
		if m.Header.Get("Status") == "404" {
			done(NoHead)
			return
		}
		if seq := serverSequence(m.Header); seq > 0 {
			from = seq
		}
		done(from)
	})
}

// serverSequence is the sequence that the server wrote into a message's headers, behind whatever its publisher wrote.
func serverSequence(h nats.Header) uint64 {
	values := h["Nats-Sequence"]
	if len(values) == 0 {
		return 0
	}
	seq, _ := strconv.ParseUint(values[len(values)-1], 10, 64)
	return seq
}

// NoHead stands for the sequence of the first message of a lane that has none.
const NoHead = math.MaxUint64
