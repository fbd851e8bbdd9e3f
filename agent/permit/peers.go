package permit

import "time"

// peer is another holder, as this one sees it.
type peer struct {
	seq    uint64    // of its last beat; 0 is none
	since  time.Time // when that was learned
	known  bool      // it was read or heard at least once
	asking bool
}

// met takes note of a holder whose record was found.
func (l *Ledger) met(holder string) {
	if l.peers[holder] == nil && holder != l.Holder {
		l.peers[holder] = &peer{asking: true}
		l.do(Action{Kind: Confirm, Holder: holder})
	}
}

// Heard says that a holder has stored a beat.
func (l *Ledger) Heard(holder string, seq uint64, now time.Time) {
	if holder == l.Holder {
		return
	}
	p := l.peers[holder]
	if p == nil {
		p = &peer{}
		l.peers[holder] = p
	}
	if p.known && seq <= p.seq {
		return
	}
	p.seq, p.since, p.known = seq, now, true
	l.timers.Add(now.Add(l.Wait), timer{timerPeer, holder})
}

// suspect asks for the beat of a holder that was not heard for the whole wait.
func (l *Ledger) suspect(holder string, now time.Time) {
	p := l.peers[holder]
	if p == nil || p.asking {
		return
	}
	if due := p.since.Add(l.Wait); now.Before(due) {
		return // heard meanwhile; that has set a timer of its own
	}
	p.asking = true
	l.do(Action{Kind: Confirm, Holder: holder})
}

// Confirmed takes in the beat of a holder as the stream's leader has it (0: none), and the stream's last sequence as it was
// before that.
func (l *Ledger) Confirmed(holder string, seq, last uint64, ok bool, now time.Time) {
	p := l.peers[holder]
	if p == nil || !p.asking {
		return
	}
	p.asking = false
	switch {
	case !ok:
		l.timers.Add(now.Add(max(l.Wait/8, 10*time.Millisecond)), timer{timerPeer, holder})
	case !p.known || seq > p.seq:
		p.seq, p.since, p.known = seq, now, true
		l.timers.Add(now.Add(l.Wait), timer{timerPeer, holder})
	case now.Sub(p.since) >= l.Wait:
		delete(l.peers, holder)
		l.do(Action{Kind: Reap, Holder: holder, Seq: last})
	default: // heard while it was read
		l.timers.Add(p.since.Add(l.Wait), timer{timerPeer, holder})
	}
}

// survey looks for everybody who has permits, and for records that the cap does not allow.
func (l *Ledger) survey() {
	if !l.surveying {
		l.surveying = true
		l.do(Action{Kind: Survey})
	}
}

// Surveyed takes in which holders have beats, and the highest number of any record (-1: there is none).
func (l *Ledger) Surveyed(holders []string, highest int, ok bool, now time.Time) {
	l.surveying = false
	for _, h := range holders {
		l.met(h)
	}
	if ok && highest < l.Cap {
		l.careful = false
		return
	}
	if l.careful {
		l.timers.Add(now.Add(max(l.Wait/8, firstRetry)), timer{timerSurvey, ""})
	}
}
