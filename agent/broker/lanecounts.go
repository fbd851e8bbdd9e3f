package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// statsPages bounds how many pages of lane consumers one call reads. A page holds 256.
const statsPages = 64

// consumerPage is one page of JetStream's list of a stream's consumers.
type consumerPage struct {
	Error     *apiError `json:"error"`
	Total     int       `json:"total"`
	Consumers []struct {
		Name      string `json:"name"`
		Pending   uint64 `json:"num_ack_pending"`
		Again     uint64 `json:"num_redelivered"`
		Delivered struct {
			Consumer uint64 `json:"consumer_seq"`
		} `json:"delivered"`
	} `json:"consumers"`
	Missing []string `json:"missing"` // in a cluster: whose server did not answer
}

func (c *Client) consumers(ctx context.Context, stream string, offset int) (*consumerPage, error) {
	body, err := json.Marshal(map[string]int{"offset": offset})
	if err != nil {
		return nil, err
	}
	answer, err := c.api(ctx, "CONSUMER.LIST."+stream, body)
	if err != nil {
		return nil, err
	}
	var page consumerPage
	if err := json.Unmarshal(answer, &page); err != nil {
		return nil, err
	}
	if page.Error != nil {
		return nil, page.Error
	}
	return &page, nil
}

// laneCount is what JetStream says of one lane consumer.
type laneCount struct {
	address   Address
	pending   uint64 // messages delivered and not acknowledged, returned ones included
	again     uint64 // of these, delivered more than once
	delivered uint64 // the sequence of its last delivery
}

// laneCounts lists the lane consumers of a layout.
func (c *Client) laneCounts(ctx context.Context, layout Layout) (counts []laneCount, partial bool, err error) {
	stream := c.names.Stream(layout.Queue)
	for page, offset := 0, 0; ; page++ {
		if page == statsPages {
			return counts, true, nil
		}
		list, err := c.consumers(ctx, stream, offset)
		if err != nil {
			return nil, false, fmt.Errorf("broker: lanes of %s: %w", layout.Queue, err)
		}
		for _, info := range list.Consumers {
			if a, ok := c.names.laneAddress(layout, info.Name); ok {
				counts = append(counts, laneCount{a, info.Pending, info.Again, info.Delivered.Consumer})
			}
		}
		offset += len(list.Consumers)
		if len(list.Consumers) == 0 || offset >= list.Total {
			return counts, len(list.Missing) > 0, nil
		}
	}
}

// laneAddress is the address of the lane whose consumer has this name. ok is false for names that are not a lane's, or
// another layout's.
func (n Names) laneAddress(layout Layout, name string) (a Address, ok bool) {
	rest, ok := strings.CutPrefix(name, n.prefix+"-"+layout.hash+"-")
	if !ok {
		return Address{}, false
	}
	token := unkeyedToken
	if layout.Keyed {
		if rest, token, ok = strings.Cut(rest, "-"); !ok {
			return Address{}, false
		}
	}
	return layout.Address(rest, token)
}
