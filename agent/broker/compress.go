package broker

import (
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/payload"
	"github.com/fairlead/fairlead/config"
)

// headerSize is beside a compressed payload: how many bytes it had when it was published.
const headerSize = "Fairlead-Size"

// packedCost is about what the two headers of a compressed payload take in the stream.
const packedCost = len(headerEncoding+": "+payload.Encoding+"\r\n"+headerSize+": \r\n") + 6

// stored is p's payload as it goes into the stream; when that is compressed, h says so. It is compressed when the queue or
// the publication wants it and the message gets smaller by it.
func (p *Publication) stored(q config.Queue, h nats.Header) []byte {
	wanted := p.Compress || q.Compress != nil && int64(len(p.Data)) >= q.Compress.MinBytes
	if !wanted {
		return p.Data
	}
	packed, ok := payload.Compress(p.Data, packedCost)
	if !ok {
		return p.Data
	}
	h[headerEncoding] = []string{payload.Encoding}
	h[headerSize] = []string{strconv.Itoa(len(p.Data))}
	return packed
}

// Payload is what was published, byte for byte. Data is that already unless it is Compressed; then it is expanded, each
// time anew, into memory of its own. It takes no more than max bytes (the queue's max_payload; 0 is [payload.Most]), or than
// the message itself says, so that a limit that was lowered meanwhile does no harm to what was published before; never more
// than payload.Most. Errors wrap [payload.ErrDamaged] or [payload.ErrTooLarge]: the message cannot be delivered, ever.
func (m *Message) Payload(most int64) ([]byte, error) {
	if !m.Compressed {
		return m.Data, nil
	}
	if most > 0 && m.size > most {
		most = m.size
	}
	return payload.Expand(m.Data, most)
}

// setEncoding reads the encoding of a stored payload. Any but Fairlead's own is the application's business, and is reported
// false.
func (m *Message) setEncoding(value string) bool {
	own := strings.EqualFold(strings.TrimSpace(value), payload.Encoding)
	m.Compressed = m.Compressed || own
	return own
}
