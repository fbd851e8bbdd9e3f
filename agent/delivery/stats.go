package delivery

// Stats are totals since the book was made, and what it holds now.
type Stats struct {
	InFlight int // live, or the outcome is still due
	Live     int // in apps' hands
	Sessions int // with a name

	Handed        uint64 // deliveries
	Acked         uint64 // finished by an app's ack
	Nacked        uint64
	Rejected      uint64
	Damaged       uint64 // of those, rejected here because their payload could not be read
	Extended      uint64
	Buried        uint64 // given up: rejected, or failed in their last attempt
	BurialsFailed uint64 // given up, and still in their queues: tried again later
	Expired       uint64 // leases that were over
	SessionsLost  uint64 // deliveries whose session ended
	Unwritten     uint64 // deliveries whose answer could not be written
	Drained       uint64 // deliveries given back by ReturnAll
	Unavailable   uint64 // settlements without a known outcome
	ReturnsFailed uint64 // messages that JetStream gives back by itself
	Refreshed     uint64 // handles replaced because a lane was made again
	Revoked       uint64 // deliveries whose tenure ended
	Late          uint64 // messages that were not handed out because their tenure was over, or about to be
	TooLate       uint64 // messages that were not handed out because they had expired a moment before
	Doubles       uint64 // messages that were not handed out because they were live already
}

// Stats returns the book's numbers.
func (b *Book) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.counts
	s.InFlight = b.InFlight()
	s.Live = len(b.byMessage)
	s.Sessions = len(b.sessions)
	return s
}
