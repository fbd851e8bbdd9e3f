package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// A queue's sources are JetStream's own: the server reads the other stream, gives each message the subject of a lane, and
// stores it in the queue's stream. Agents only write the stream's configuration. What a source's subject ends with > for is
// written as several patterns, because a transform cannot drop what > stands for:
//
//	events.*.>  ──>  events.*.*      to  fl.q.orders.p1.{{wildcard(1)}}
//	                 events.*.*.*    to  fl.q.orders.p1.{{wildcard(1)}}
//	                 …
//	                 events.*.*.*.*.*.*.*.*.>  to  fl.q.orders.p1.{{wildcard(1)}}.>    moved to its lane by a repair

// tailTokens is how many tokens a > may stand for without a repair.
const tailTokens = 8

// sourcesOf are those of a definition.
func sourcesOf(n names.Names, q config.Queue) []*jetstream.StreamSource {
	var list []*jetstream.StreamSource
	for _, s := range q.Sources {
		to := n.SubjectPrefix(q.Name) + names.NoPriority
		if s.Priority != nil {
			to = n.SubjectPrefix(q.Name) + names.Class(*s.Priority)
		}
		list = append(list, &jetstream.StreamSource{
			Name: s.Stream,
			// From its oldest message on. Without this, a queue that held a message before begins with what comes after that.
			OptStartSeq:       1,
			SubjectTransforms: transforms(s.Subject, to+"."+sourceKey(s)),
		})
	}
	return list
}

// sourceKey is a source's key as a token of a transform's destination.
func sourceKey(s config.Source) string {
	if w := s.Wildcard(); w > 0 {
		return fmt.Sprintf("{{wildcard(%d)}}", w)
	}
	token, _ := names.EncodeKey(s.Key) // the file was checked
	return token
}

// transforms lead what matches a subject to one destination.
func transforms(subject, to string) []jetstream.SubjectTransformConfig {
	head, open := strings.CutSuffix(subject, ">")
	if !open {
		return []jetstream.SubjectTransformConfig{{Source: subject, Destination: to}}
	}
	list := make([]jetstream.SubjectTransformConfig, 0, tailTokens+1)
	for range tailTokens {
		list = append(list, jetstream.SubjectTransformConfig{Source: head + "*", Destination: to})
		head += "*."
	}
	return append(list, jetstream.SubjectTransformConfig{Source: head + ">", Destination: to + ".>"})
}

// sameSource tells whether two sources are one to JetStream, which knows how far it is with it.
func sameSource(a, b *jetstream.StreamSource) bool {
	return a.Name == b.Name && a.FilterSubject == b.FilterSubject && a.External == nil && b.External == nil &&
		slices.Equal(a.SubjectTransforms, b.SubjectTransforms)
}

func sameSources(a, b []*jetstream.StreamSource) bool {
	return slices.EqualFunc(a, b, sameSource)
}

// mergeSources is want, with what have says of those that stay.
func mergeSources(have, want []*jetstream.StreamSource) []*jetstream.StreamSource {
	merged := make([]*jetstream.StreamSource, 0, len(want))
	for _, w := range want {
		if i := slices.IndexFunc(have, func(h *jetstream.StreamSource) bool { return sameSource(h, w) }); i >= 0 {
			w = have[i]
		}
		merged = append(merged, w)
	}
	return merged
}

// goOn makes sources that only lead elsewhere now, to another level or key, go on where the stream is with them: JetStream
// takes them for new ones. A message that is taken between this look and the change comes twice.
func (c *Client) goOn(ctx context.Context, have *jetstream.StreamInfo, want []*jetstream.StreamSource) error {
	var moved []*jetstream.StreamSource
	for _, w := range want {
		known := slices.ContainsFunc(have.Config.Sources, func(h *jetstream.StreamSource) bool { return sameSource(h, w) })
		read := slices.ContainsFunc(have.Config.Sources, func(h *jetstream.StreamSource) bool { return sameMessages(h.Name, h.SubjectTransforms, w) })
		if !known && read {
			moved = append(moved, w)
		}
	}
	if len(moved) == 0 {
		return nil
	}
	now, err := c.wire.Stream(ctx, have.Config.Name)
	if err != nil {
		return err
	}
	for _, w := range moved {
		for _, s := range now.CachedInfo().Sources {
			if sameMessages(s.Name, s.SubjectTransforms, w) {
				w.OptStartSeq = s.Seq + 1
			}
		}
	}
	return nil
}

// sameMessages tells whether a source takes the messages that w takes.
func sameMessages(stream string, transforms []jetstream.SubjectTransformConfig, w *jetstream.StreamSource) bool {
	return stream == w.Name && slices.EqualFunc(transforms, w.SubjectTransforms, func(x, y jetstream.SubjectTransformConfig) bool {
		return x.Source == y.Source
	})
}

// SourceProblems tells, in sentences, what keeps the sources of a queue from being read; nil when all is well. JetStream goes
// on trying by itself. Errors wrap [ErrStreamMissing] or [ErrUnavailable].
func (c *Client) SourceProblems(ctx context.Context, q config.Queue) ([]string, error) {
	if len(q.Sources) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wire.AnswerWait)
	defer cancel()
	s, err := c.wire.JS.Stream(ctx, c.names.Stream(q.Name))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w (%s)", ErrStreamMissing, c.names.Stream(q.Name))
	}
	if err != nil {
		return nil, fmt.Errorf("broker: sources of %s: %w", q.Name, wire.Translate(err))
	}
	info := s.CachedInfo()
	var problems []string
	for _, def := range q.Sources {
		stream := def.Stream
		said := fmt.Sprintf("queue %s: source stream %s", q.Name, stream)
		i := slices.IndexFunc(info.Sources, func(s *jetstream.StreamSourceInfo) bool { return s.Name == stream && s.Error != nil })
		switch {
		case !slices.ContainsFunc(info.Config.Sources, func(s *jetstream.StreamSource) bool { return s.Name == stream }):
			problems = append(problems, said+" is not set up: run setup with an identity that may")
		case i < 0:
		case info.Sources[i].Error.ErrorCode == wire.CodeStreamNotFound:
			problems = append(problems, said+" does not exist; JetStream goes on trying")
		default:
			problems = append(problems, fmt.Sprintf("%s cannot be read: %s; JetStream goes on trying", said, info.Sources[i].Error.Description))
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems), nil
}

// checkSources tells which sources of a definition have nothing to read.
func (c *Client) checkSources(ctx context.Context, q config.Queue) []string {
	ctx, cancel := context.WithTimeout(ctx, wire.AnswerWait)
	defer cancel()
	var problems []string
	for _, s := range q.Sources {
		stream, err := c.wire.Stream(ctx, s.Stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			problems = append(problems, fmt.Sprintf("queue %s: source stream %s does not exist: make it, or correct the name", q.Name, s.Stream))
			continue
		}
		if err != nil {
			continue // an agent needs no right to look at it: the server reads it
		}
		subjects := stream.CachedInfo().Config.Subjects
		// A stream without subjects gets its messages from elsewhere, whatever they are.
		if len(subjects) > 0 && !slices.ContainsFunc(subjects, func(have string) bool { return config.SubjectsMeet(have, s.Subject) }) {
			problems = append(problems, fmt.Sprintf("queue %s: no subject of stream %s (%s) matches %q: correct the source's subject",
				q.Name, s.Stream, strings.Join(subjects, ", "), s.Subject))
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}
