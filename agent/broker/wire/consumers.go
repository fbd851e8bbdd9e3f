package wire

import (
	"context"
	"encoding/json"
	"time"
)

// listWait is how long a list of consumers, or a page of a stream's subjects, may take. In a cluster the server itself waits
// four seconds for consumers that do not answer, because their server was killed, and then lists the others.
const listWait = 6 * time.Second

// ConsumerPage is one page of JetStream's list of a stream's consumers.
type ConsumerPage struct {
	Error     *APIError      `json:"error"`
	Total     int            `json:"total"`
	Limit     int            `json:"limit"`
	Consumers []ConsumerInfo `json:"consumers"`
	Missing   []string       `json:"missing"` // in a cluster: whose server did not answer
}

// ConsumerInfo is what JetStream says of one consumer.
type ConsumerInfo struct {
	Name      string    `json:"name"`
	Pending   uint64    `json:"num_ack_pending"`
	Again     uint64    `json:"num_redelivered"`
	Delivered Sequences `json:"delivered"`
	Floor     Sequences `json:"ack_floor"`
}

// Sequences are a place in a consumer and in its stream.
type Sequences struct {
	Consumer uint64 `json:"consumer_seq"`
	Stream   uint64 `json:"stream_seq"`
}

// Consumers reads one page of a stream's consumers, of up to 256; the first one is at offset 0.
func (w *Wire) Consumers(ctx context.Context, stream string, offset int) (*ConsumerPage, error) {
	body, err := json.Marshal(map[string]int{"offset": offset})
	if err != nil {
		return nil, err
	}
	answer, err := w.APIWithin(ctx, listWait, "CONSUMER.LIST."+stream, body)
	if err != nil {
		return nil, err
	}
	var page ConsumerPage
	if err := json.Unmarshal(answer, &page); err != nil {
		return nil, err
	}
	if page.Error != nil {
		return nil, page.Error
	}
	return &page, nil
}

// Next is the offset of the page behind this one, and whether there is one. A page counts those that are missing in it.
func (p *ConsumerPage) Next(offset int) (int, bool) {
	offset += max(p.Limit, len(p.Consumers))
	return offset, len(p.Consumers)+len(p.Missing) > 0 && offset < p.Total
}

// ConsumerNames lists the names of a stream's consumers.
func (w *Wire) ConsumerNames(ctx context.Context, stream string) (names []string, err error) {
	for more := true; more; {
		body, err := json.Marshal(map[string]int{"offset": len(names)})
		if err != nil {
			return nil, err
		}
		answer, err := w.API(ctx, "CONSUMER.NAMES."+stream, body)
		if err != nil {
			return nil, err
		}
		var page struct {
			Error     *APIError `json:"error"`
			Total     int       `json:"total"`
			Consumers []string  `json:"consumers"`
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			return nil, err
		}
		if page.Error != nil {
			return nil, page.Error
		}
		names = append(names, page.Consumers...)
		more = len(page.Consumers) > 0 && len(names) < page.Total
	}
	return names, nil
}
