package socket

import "net/http"

// status answers with the agent's own state.
func (x *exchange) status() error {
	if _, err := x.query(); err != nil {
		return err
	}
	v, err := x.Reader.Status(x.r.Context())
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// overview answers with all there is to look at, as it was a moment ago.
func (x *exchange) overview() error {
	if _, err := x.query(); err != nil {
		return err
	}
	v, err := x.Reader.Overview(x.r.Context())
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// queues answers with all queues.
func (x *exchange) queues() error {
	if _, err := x.query(); err != nil {
		return err
	}
	v, err := x.Reader.Queues(x.r.Context())
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// queue answers with one queue.
func (x *exchange) queue() error {
	if _, err := x.definition(); err != nil {
		return err
	}
	q, err := x.query("keys")
	if err != nil {
		return err
	}
	keys, err := integer(q, "keys", 0, maxKeys, 100)
	if err != nil {
		return err
	}
	v, err := x.Reader.Queue(x.r.Context(), x.name, keys)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}

// peek answers with waiting messages.
func (x *exchange) peek() error {
	d, err := x.definition()
	if err != nil {
		return err
	}
	if x.Lookers != nil {
		if err := x.may(x.Lookers(x.name)...); err != nil {
			return err
		}
	}
	q, err := x.query("max", "priority", "key")
	if err != nil {
		return err
	}
	most, err := integer(q, "max", 1, maxPeek, 10)
	if err != nil {
		return err
	}
	var priority *int
	if text := q.Get("priority"); text != "" {
		level, err := parseLevel(d, text)
		if err != nil {
			return err
		}
		priority = &level
	}
	var key *string
	if q.Has("key") { // empty: the messages without a key
		k := q.Get("key")
		if err := checkKey(k); err != nil {
			return err
		}
		key = &k
	}
	v, err := x.Reader.Peek(x.r.Context(), x.name, most, priority, key)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, v)
}
