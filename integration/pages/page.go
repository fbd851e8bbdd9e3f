package pages

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Page is a Markdown file, as the blocks in it.
type Page struct {
	Name   string
	Given  []string // what it asks for with a given directive
	Blocks []Block
}

// A Block is one fenced block, or a run directive.
type Block struct {
	Line   int    // of its first line in the file, from 1
	Lang   string // sh, text, json, yaml, …; "" is a picture
	Text   string // ends with a newline
	Hidden bool   // a run directive

	Exit   int    // the exit code that it has to end with
	Until  string // it goes on in the background until it has printed this
	Like   bool   // its numbers are an example
	Schema string // the schema that it follows
	NotRun string // why it is for reading only
	Output bool   // it shows what the block before it prints
}

// Read reads a page. name is what messages call it.
func Read(file, name string) (*Page, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(name, string(text))
}

var (
	fence     = regexp.MustCompile("^( *)```([a-z]*)$")
	directive = regexp.MustCompile(`^<!-- doc: ([a-z]+)(?:[: ]+(.*))?$`)
	commands  = regexp.MustCompile(`(?m)^ *(\$ +)?(curl|fairlead|go (run|build|test|install)|nats (-s|pub|stream|consumer)|docker|kubectl) `)
)

// languages are those that a block can have.
var languages = []string{"", "sh", "text", "json", "yaml", "sql", "python", "js", "go"}

// Parse reads the text of a page. The error names the line of the first thing that is wrong.
func Parse(name, text string) (*Page, error) {
	p := &parser{page: &Page{Name: name}, lines: strings.Split(text, "\n")}
	for p.at < len(p.lines) {
		line := p.lines[p.at]
		p.at++
		var err error
		switch {
		case fence.MatchString(line):
			err = p.block(fence.FindStringSubmatch(line))
		case directive.MatchString(line):
			err = p.directive(directive.FindStringSubmatch(line))
		case strings.HasPrefix(line, "<<<<<<< "), strings.HasPrefix(line, ">>>>>>> "):
			err = p.errorf("two versions were not merged here")
		case strings.HasPrefix(line, "<!-- doc"):
			err = p.errorf("this directive cannot be read")
		}
		if err != nil {
			return nil, err
		}
	}
	if p.pending {
		return nil, p.errorf("no block follows the last directive")
	}
	return p.page, nil
}

type parser struct {
	page    *Page
	lines   []string
	at      int
	next    Block // what directives said of the block to come
	pending bool
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("pages: %s:%d: %s", p.page.Name, p.at, fmt.Sprintf(format, args...))
}

// directive reads one that begins on the line before at.
func (p *parser) directive(m []string) error {
	verb, rest := m[1], m[2]
	if verb == "run" {
		return p.hidden()
	}
	rest, closed := strings.CutSuffix(rest, "-->")
	if rest = strings.TrimSpace(rest); !closed || rest == "" {
		return p.errorf("a directive is one line, says something, and ends with -->")
	}
	switch verb {
	case "given":
		p.page.Given = append(p.page.Given, rest)
		return nil
	case "exit":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return p.errorf("%q is no exit code", rest)
		}
		p.next.Exit = n
	case "until":
		p.next.Until = rest
	case "numbers":
		if p.next.Like = true; rest != "vary" {
			return p.errorf("write: numbers vary")
		}
	case "schema":
		p.next.Schema = rest
	case "not":
		reason, ok := strings.CutPrefix(rest, "run:")
		if p.next.NotRun = strings.TrimSpace(reason); !ok || p.next.NotRun == "" {
			return p.errorf("write: not run: and the reason")
		}
	default:
		return p.errorf("there is no directive %q", verb)
	}
	p.pending = true
	return nil
}

// hidden reads a run directive to its end.
func (p *parser) hidden() error {
	b := Block{Line: p.at + 1, Lang: "sh", Hidden: true, Exit: p.next.Exit}
	p.next, p.pending = Block{}, false
	for ; p.at < len(p.lines); p.at++ {
		if p.lines[p.at] == "-->" {
			p.at++
			p.page.Blocks = append(p.page.Blocks, b)
			return nil
		}
		b.Text += p.lines[p.at] + "\n"
	}
	return p.errorf("a run directive does not end: write --> on a line of its own")
}

// block reads a fenced block whose first line was just passed.
func (p *parser) block(m []string) error {
	b := p.next
	p.next, p.pending = Block{}, false
	b.Line, b.Lang = p.at+1, m[2]
	if !slices.Contains(languages, b.Lang) {
		return p.errorf("the tests know nothing of the language %q", b.Lang)
	}
	for ; ; p.at++ {
		if p.at == len(p.lines) {
			return p.errorf("a block does not end")
		}
		if p.lines[p.at] == m[1]+"```" {
			p.at++
			break
		}
		b.Text += strings.TrimPrefix(p.lines[p.at], m[1]) + "\n"
	}
	if b.Lang == "" && b.NotRun == "" && commands.MatchString(b.Text) {
		return p.errorf("a block without a language has commands: call it sh")
	}
	if b.Lang != "" && b.Lang != "sh" && b.Lang != "yaml" && b.Schema == "" && b.NotRun == "" {
		before := len(p.page.Blocks) - 1
		if before < 0 || p.page.Blocks[before].Lang != "sh" || b.Lang != "text" && b.Lang != "json" {
			return p.errorf("no block was run before this one whose output it could be: give it a directive")
		}
		b.Output, b.NotRun = true, p.page.Blocks[before].NotRun
	}
	p.page.Blocks = append(p.page.Blocks, b)
	return nil
}
