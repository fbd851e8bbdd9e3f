package socket

import "sync/atomic"

// budget is how many bytes of bodies may still be held in memory.
type budget struct {
	free atomic.Int64
}

// take takes n bytes, or nothing.
func (b *budget) take(n int64) bool {
	for {
		free := b.free.Load()
		if free < n {
			return false
		}
		if b.free.CompareAndSwap(free, free-n) {
			return true
		}
	}
}

// give gives n bytes back.
func (b *budget) give(n int64) { b.free.Add(n) }
