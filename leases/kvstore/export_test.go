package kvstore

// Break loses the connection of a store, for tests; it comes back by itself.
func (s *Store) Break() { _ = s.nc.ForceReconnect() }
