package broker

import (
	"strings"

	"github.com/nats-io/nats.go"
)

// headerOrigin is what JetStream writes into a message that it took from another stream: stream, sequence, filter,
// transform, subject, and more. Nobody else can: it refuses such messages.
const headerOrigin = "Nats-Stream-Source"

// What is handed on of it. The names are Fairlead's own, which no application can give.
const (
	originPrefix  = "fairlead-source-"
	originStream  = originPrefix + "stream"
	originSeq     = originPrefix + "seq"
	originSubject = originPrefix + "subject"
)

// origin is where a message came from that a source brought.
type origin struct{ stream, seq, subject string }

// parseOrigin reads JetStream's header. It is false for a form that is not known.
func parseOrigin(value string) (origin, bool) {
	f := strings.Split(value, " ")
	if len(f) < 5 {
		return origin{}, false
	}
	stream, _, _ := strings.Cut(f[0], ":") // behind it: which account or domain
	return origin{stream, f[1], f[4]}, true
}

// originOf returns where a stored message came from; false for one that was published.
func originOf(h nats.Header) (origin, bool) {
	for name, values := range h {
		if strings.EqualFold(name, headerOrigin) && len(values) > 0 {
			return parseOrigin(values[0])
		}
	}
	return origin{}, false
}

// keep writes it into a copy of the message, which is no longer JetStream's own.
func (o origin) keep(h nats.Header) {
	h[originStream], h[originSeq], h[originSubject] = []string{o.stream}, []string{o.seq}, []string{o.subject}
}
