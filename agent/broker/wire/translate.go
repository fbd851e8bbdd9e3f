package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Translate turns what nats.go reports into this package's errors.
func Translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return ErrUnavailable // nats.go's way to say that it is not connected
	case isConnectionError(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

func isConnectionError(err error) bool {
	for _, e := range []error{
		nats.ErrNoResponders, nats.ErrTimeout, nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
		nats.ErrNoServers, nats.ErrDisconnected, nats.ErrInvalidConnection,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Making is Translate for what makes or changes a stream: when nobody hears of that, there is no JetStream.
func Making(err error) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
		return ErrNoJetStream
	}
	return Translate(err)
}
