package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// The list of a stream's consumers waits four seconds for those whose server was killed, and the cluster takes such a server
// for alive for minutes. What must not wait that long reads lanes one by one: their names, which the cluster's leader knows
// by itself, and then what each consumer says, unless its place is empty.

// reportsAtOnce is how many lanes are asked at a time: JetStream's API has few workers.
const reportsAtOnce = 16

// laneReport is a lane consumer by its name, and what it says of itself.
type laneReport struct {
	name    string
	address Address
	fence   uint64 // of the tenure that it belongs to; 0 without one
	// info is nil when nobody says it: the consumer is gone, or in a cluster its server is dead or cut off.
	info *wire.ConsumerInfo
}

// laneReports asks the lane consumers of a layout that are wanted. Errors wrap [ErrStreamMissing] or [ErrUnavailable].
func (c *Client) laneReports(ctx context.Context, layout Layout, want func(fence uint64) bool) ([]laneReport, error) {
	stream := c.names.Stream(layout.Queue)
	names, err := c.wire.ConsumerNames(ctx, stream)
	if err != nil {
		return nil, err
	}
	var reports []laneReport
	for _, name := range names {
		if a, fence, ok := layout.laneAddress(c.names, name); ok && want(fence) {
			reports = append(reports, laneReport{name: name, address: a, fence: fence})
		}
	}
	errs := make([]error, len(reports))
	var work sync.WaitGroup
	slots := make(chan struct{}, reportsAtOnce)
	for i := range reports {
		slots <- struct{}{}
		work.Go(func() {
			reports[i].info, errs[i] = c.laneInfo(ctx, layout.Queue, reports[i].name)
			<-slots
		})
	}
	work.Wait()
	return reports, errors.Join(errs...)
}

const errConsumerNotFound = 10014

// laneInfo asks one lane consumer. It returns nil when there is none, and in a cluster when nobody answers in its place. On
// one server silence is an error: nothing can be said of the lane then.
func (c *Client) laneInfo(ctx context.Context, queue, name string) (*wire.ConsumerInfo, error) {
	stream := c.names.Stream(queue)
	cluster := c.replicated(queue)
	if cluster && c.vacant(ctx, stream, name) {
		return nil, nil
	}
	answer, err := c.wire.API(ctx, "CONSUMER.INFO."+stream+"."+name, nil)
	if cluster && ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)) {
		c.log.Info("the server of a lane does not answer; what it knows of the lane is not counted", "lane", name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("broker: lane %s: %w", name, err)
	}
	var info struct {
		Error *wire.APIError `json:"error"`
		wire.ConsumerInfo
	}
	if err := json.Unmarshal(answer, &info); err != nil {
		return nil, fmt.Errorf("broker: lane %s: %w", name, err)
	}
	switch {
	case info.Error == nil:
		return &info.ConsumerInfo, nil
	case info.Error.ErrCode == errConsumerNotFound, cluster && info.Error.ErrCode == int(errConsumerOffline):
		return nil, nil
	}
	return nil, fmt.Errorf("broker: lane %s: %w", name, info.Error)
}
