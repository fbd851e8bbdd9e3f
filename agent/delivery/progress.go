package delivery

import (
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

const (
	// progressDivisor: JetStream hears of a live delivery this often within one AckWait, so that two reports can be lost.
	progressDivisor = 3
	// progressSlack: entries that are due within this part of the interval are reported together.
	progressSlack = 16
	// minProgress bounds the rate of reports, whatever AckWait says.
	minProgress = 10 * time.Millisecond
)

// progress knows which live entries JetStream must hear of, and when. Entries with the same AckWait are due in the order
// in which they were added, so each distinct AckWait is one queue; there are as many as there are settings.
type progress struct {
	intervals []*interval
}

// interval is a doubly linked list of entries, the next one due first.
type interval struct {
	every      time.Duration
	head, tail *entry
}

// add puts e at the end of its interval's queue. Entries of messages without an AckWait are never due.
func (p *progress) add(e *entry, now instant) {
	if e.m.AckWait <= 0 {
		return
	}
	every := max(e.m.AckWait/progressDivisor, minProgress)
	var in *interval
	for _, have := range p.intervals {
		if have.every == every {
			in = have
			break
		}
	}
	if in == nil {
		in = &interval{every: every}
		p.intervals = append(p.intervals, in)
	}
	in.push(e, now)
}

func (in *interval) push(e *entry, now instant) {
	e.interval, e.due = in, now+in.every
	e.prev, e.next = in.tail, nil
	if in.tail == nil {
		in.head = e
	} else {
		in.tail.next = e
	}
	in.tail = e
}

// remove takes e out; nothing happens when it is not in.
func (p *progress) remove(e *entry) {
	in := e.interval
	if in == nil {
		return
	}
	if e.prev == nil {
		in.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		in.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.interval, e.prev, e.next = nil, nil, nil
}

// takeDue returns the messages to report now, puts their entries back in line, and forgets the intervals that no entry
// uses any more.
func (p *progress) takeDue(now instant) []*broker.Message {
	var due []*broker.Message
	kept := p.intervals[:0]
	for _, in := range p.intervals {
		for e := in.head; e != nil && e.due <= now+in.every/progressSlack; e = in.head {
			due = append(due, e.m)
			p.remove(e)
			in.push(e, now)
		}
		if in.head != nil {
			kept = append(kept, in)
		}
	}
	clear(p.intervals[len(kept):])
	p.intervals = kept
	return due
}

// next returns when the next entry is due, or never.
func (p *progress) next() instant {
	next := never
	for _, in := range p.intervals {
		if in.head != nil {
			next = min(next, in.head.due)
		}
	}
	return next
}

// runProgress reports live deliveries to JetStream. It is the only caller of Extend.
func (b *Book) runProgress() {
	defer b.loops.Done()
	timer := newTimer()
	defer timer.Stop()
	for {
		b.mu.Lock()
		due := b.progress.takeDue(b.now())
		b.progressArmed = b.progress.next()
		timer.Reset(b.until(b.progressArmed))
		b.mu.Unlock()
		for _, m := range due {
			b.broker.Extend(m)
		}
		select {
		case <-timer.C:
		case <-b.wakeProgress:
		case <-b.stop:
			return
		}
	}
}
