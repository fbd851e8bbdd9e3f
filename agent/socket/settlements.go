package socket

import (
	"github.com/fairlead/fairlead/agent/api"
)

// parseSettlements reads a list of settlements as programs write it: objects of known fields whose values are strings
// without escapes, with or without white space. It is false for everything else, also for what is not JSON at all: then
// encoding/json decides. Most pulls bring such a list, and this is several times faster.
func parseSettlements(text []byte) ([]api.Settlement, bool) {
	p := &settlementParser{text: text}
	if !p.literal('[') {
		return nil, false
	}
	list := make([]api.Settlement, 0, len(text)/48+1)
	if p.literal(']') {
		return list, p.end()
	}
	for {
		s, ok := p.object()
		if !ok {
			return nil, false
		}
		list = append(list, s)
		switch {
		case p.literal(','):
		case p.literal(']'):
			return list, p.end()
		default:
			return nil, false
		}
	}
}

type settlementParser struct {
	text []byte
	at   int
}

func (p *settlementParser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// literal takes c, if it comes next.
func (p *settlementParser) literal(c byte) bool {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *settlementParser) end() bool {
	p.space()
	return p.at == len(p.text)
}

// plainString takes a string of printable ASCII without escapes.
func (p *settlementParser) plainString() ([]byte, bool) {
	if !p.literal('"') {
		return nil, false
	}
	begin := p.at
	for ; p.at < len(p.text); p.at++ {
		c := p.text[p.at]
		if c == '"' {
			p.at++
			return p.text[begin : p.at-1], true
		}
		if !plain[c] {
			break
		}
	}
	return nil, false
}

func (p *settlementParser) object() (api.Settlement, bool) {
	var s api.Settlement
	if !p.literal('{') {
		return s, false
	}
	for {
		name, ok := p.plainString()
		if !ok || !p.literal(':') {
			return s, false
		}
		value, ok := p.plainString()
		if !ok || !setField(&s, name, value) {
			return s, false
		}
		switch {
		case p.literal(','):
		case p.literal('}'):
			return s, true
		default:
			return s, false
		}
	}
}

func setField(s *api.Settlement, name, value []byte) bool {
	switch string(name) {
	case "token":
		s.Token = string(value)
	case "result":
		if string(value) == string(api.Ack) {
			s.Result = api.Ack // by far the most, and a constant needs no memory
		} else {
			s.Result = api.Result(value)
		}
	case "delay":
		s.Delay = string(value)
	case "reason":
		s.Reason = string(value)
	case "lease":
		s.Lease = string(value)
	default:
		return false
	}
	return true
}
