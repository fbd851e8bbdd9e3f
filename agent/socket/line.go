package socket

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// parseLine reads one line of a batch.
func parseLine(q *config.Queue, line []byte, limit int64) (broker.Publication, error) {
	p := broker.Publication{Level: -1}
	if !utf8.Valid(line) {
		return p, badRequest("the line is not valid UTF-8: put other data into data_base64")
	}
	var m api.BatchMessage
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return p, badRequest("the line is not a message: %s", notRead(err))
	}
	if rest := bytes.TrimSpace(line[d.InputOffset():]); len(rest) > 0 {
		return p, badRequest("the line goes on after the message: write one JSON object a line")
	}
	if err := lineMetadata(&p, q, &m); err != nil {
		return p, err
	}
	if err := lineData(&p, &m); err != nil {
		return p, err
	}
	if int64(len(p.Data)) > limit {
		return p, payloadTooLarge(q.Name, limit)
	}
	if err := findKey(q, &p, nil); err != nil {
		return p, err
	}
	return p, timing{delay: m.Delay, at: m.At, ttl: m.TTL}.read(&p, q, time.Now())
}

func lineMetadata(p *broker.Publication, q *config.Queue, m *api.BatchMessage) error {
	level, err := scalar("priority", m.Priority)
	if err == nil && level != "" {
		p.Level, err = parseLevel(q, level)
	}
	if err != nil {
		return err
	}
	weight, err := scalar("weight", m.Weight)
	if err == nil && weight != "" {
		p.Weight, err = parseWeight(weight)
	}
	if err != nil {
		return err
	}
	p.Key, p.ID, p.ContentType = m.Key, m.ID, m.ContentType
	if err := checkKey(m.Key); err != nil {
		return err
	}
	if err := checkText("id", m.ID, maxID); err != nil {
		return err
	}
	if err := checkText("content_type", m.ContentType, maxValue); err != nil {
		return err
	}
	return lineHeaders(p, m.Headers)
}

func lineHeaders(p *broker.Publication, headers map[string]string) error {
	if len(headers) == 0 {
		return nil
	}
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	var set headerSet
	for _, name := range names {
		lower, value := strings.ToLower(name), headers[name]
		if lower == "traceparent" || lower == "tracestate" {
			if err := checkText(lower, value, maxValue); err != nil {
				return err
			}
			set.set(lower, value)
			continue
		}
		if _, twice := set.headers[lower]; twice {
			return invalidHeader("header %.64q is given twice, in different cases", lower)
		}
		if err := set.add(lower, value); err != nil {
			return err
		}
	}
	p.Headers = set.headers
	return nil
}

// scalar reads a number or a string as text; absent, null and "" are "".
func scalar(field string, raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", badRequest("%s is not a string: %.100s", field, err.Error())
		}
		return s, nil
	case c == '-', '0' <= c && c <= '9':
		return string(raw), nil
	}
	return "", badRequest("%s: use a number or a string", field)
}

// lineData takes the payload: a string as its bytes, other JSON as its text.
func lineData(p *broker.Publication, m *api.BatchMessage) error {
	if string(m.Data) == "null" {
		m.Data = nil
	}
	switch {
	case m.DataBase64 != nil && m.Data != nil:
		return badRequest("data and data_base64 are given: use one of them")
	case m.DataBase64 != nil:
		data, err := base64.StdEncoding.DecodeString(*m.DataBase64)
		if err != nil {
			return badRequest("data_base64 is not standard base64: %.100s", err.Error())
		}
		p.Data = data
	case len(m.Data) == 0:
		return badRequest(`data is missing: an empty payload is "data":""`)
	case m.Data[0] == '"':
		var s string
		if err := json.Unmarshal(m.Data, &s); err != nil {
			return badRequest("data is not a string: %.100s", err.Error())
		}
		p.Data = []byte(s)
	default:
		p.Data = m.Data
		if p.ContentType == "" {
			p.ContentType = api.TypeJSON
		}
	}
	return nil
}
