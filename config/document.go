package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// document turns the text of a file into the root of its tree of nodes, or
// reports why that cannot be done and returns nil.
func (d *decoder) document(data []byte) *yaml.Node {
	if len(data) > maxFile {
		d.reportAt(mark{1, 1}, "", "is bigger than %s, the most that a file may have", formatSize(maxFile))
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // byte order mark
	if where, problem := unreadable(data); problem != "" {
		d.reportAt(where, "", "%s", problem)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	doc, err := nextDocument(dec)
	if errors.Is(err, io.EOF) || err == nil && isEmpty(doc) {
		d.reportAt(mark{1, 1}, "", "is empty: write at least nats and queues, such as\nnats: {url: nats://HOST:4222}\nqueues: [{name: orders}]")
		return nil
	}
	if err != nil {
		where, problem := syntaxProblem(data, err)
		d.reportAt(where, "", "%s", problem)
		return nil
	}
	second, err := nextDocument(dec)
	switch {
	case err == nil:
		d.reportAt(mark{second.Line, second.Column}, "", "a second document begins here: one file is one document")
	case !errors.Is(err, io.EOF):
		where, problem := syntaxProblem(data, err)
		d.reportAt(where, "", "%s", problem)
	}
	return doc.Content[0]
}

// nextDocument guards against the parser's own panics: it has some that say
// "internal error", and a file must never end the agent.
func nextDocument(dec *yaml.Decoder) (doc *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: cannot be parsed (%v)", r)
		}
	}()
	doc = new(yaml.Node)
	if err := dec.Decode(doc); err != nil {
		return nil, err
	}
	return doc, nil
}

func isEmpty(doc *yaml.Node) bool {
	if len(doc.Content) == 0 {
		return true
	}
	root := doc.Content[0]
	return root.Kind == yaml.ScalarNode && value{kind: root.Kind, text: root.Value, quoted: root.Style != 0}.class() == classNull
}

// unreadable finds the first byte that cannot be part of a YAML file.
func unreadable(data []byte) (mark, string) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return mark{1, 1}, "is UTF-16: save it as UTF-8"
	}
	where := mark{1, 1}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return where, fmt.Sprintf("the byte 0x%02X is not UTF-8: save the file as UTF-8", data[i])
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f:
			return where, fmt.Sprintf("the control character 0x%02X is not allowed in YAML: remove it", r)
		case r == '\n':
			where = mark{where.line + 1, 0}
		}
		where.column++
		i += n
	}
	return where, ""
}

var (
	errorForm   = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?(.*)$`)
	anchorError = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntaxProblem finds the place and the words for an error of the YAML parser,
// which gives a line at most, and not always the right one.
func syntaxProblem(data []byte, err error) (mark, string) {
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	line, message := 1, err.Error()
	if m := errorForm.FindStringSubmatch(strings.ReplaceAll(message, "\n", " ")); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
			// Errors of its grammar count lines from 0, those of its scanner from 1.
			if strings.HasPrefix(message, "did not find expected") {
				line++
			}
		}
	}
	if m := anchorError.FindStringSubmatch(message); m != nil {
		for i, l := range lines {
			if at := strings.Index(l, "*"+m[1]); at >= 0 {
				return mark{i + 1, utf8.RuneCountInString(l[:at]) + 1}, fmt.Sprintf("there is no anchor &%s before this alias", shorten(m[1]))
			}
		}
	}
	line = min(max(line, 1), len(lines))
	content := lines[line-1]
	rest := strings.TrimLeft(content, " ")
	where := mark{line, len(content) - len(rest) + 1}
	if tab, ok := indentingTab(lines, line); ok {
		return tab, "a tab cannot indent YAML: use spaces"
	}
	if before, _, ok := strings.Cut(content, "${"); ok && strings.ContainsAny(before, "{[") {
		message += " (inside {…} and […], put \"${VAR}\" in quotes)"
	}
	return where, "is not YAML: " + message
}

// indentingTab looks for a tab in the indentation of the line (from 1) where
// the parser stumbled, or of the next: of tabs it names the line before.
func indentingTab(lines []string, line int) (mark, bool) {
	for n := line; n <= min(line+1, len(lines)); n++ {
		l := lines[n-1]
		indent := l[:len(l)-len(strings.TrimLeft(l, " \t"))]
		if i := strings.IndexByte(indent, '\t'); i >= 0 {
			return mark{n, i + 1}, true
		}
	}
	return mark{}, false
}
