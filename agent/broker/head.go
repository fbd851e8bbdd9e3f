package broker

import (
	"math"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// Head reports the sequence of the first message of a lane at or after a sequence, without taking it: waiting, in somebody's
// hands or backing off. It is [NoHead] when there is none, and from itself when that cannot be found out now. done is called
// once, from any goroutine, and must not block.
func (f *Feed) Head(lane *Lane, from uint64, done func(seq uint64)) {
	if f.c.replicated(lane.Queue()) {
		// Its leader is asked: a replica that is behind would show what is finished, and lanes would be merged in a wrong order.
		f.c.wire.LookUp(lane.stream, wire.Look{Seq: from, Filter: lane.filters[0]}, func(_ string, seq uint64, err error) {
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
	f.c.wire.Writes.Do(&nats.Msg{Subject: "$JS.API.DIRECT.GET." + lane.stream, Data: []byte(body)}, func(m *nats.Msg, err error) {
		if err != nil {
			done(from)
			return
		}
		if m.Header.Get("Status") == "404" {
			done(NoHead)
			return
		}
		if seq := wire.Sequence(m.Header); seq > 0 {
			from = seq
		}
		done(from)
	})
}

// NoHead stands for the sequence of the first message of a lane that has none.
const NoHead = math.MaxUint64
