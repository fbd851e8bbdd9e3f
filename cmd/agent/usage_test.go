package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	s := newShell(t, nil)
	names := map[string]bool{}
	for _, command := range s.app.root().Commands() {
		names[command.Name()] = true
		out := s.must(0, command.Name(), "--help")
		if !strings.Contains(out, "Examples:\n  fairlead "+command.Name()) && command.Name() != "completion" && command.Name() != "publish" {
			t.Errorf("%s: no example of itself in\n%s", command.Name(), out)
		}
		if !strings.Contains(out, "fairlead "+command.Name()) || !strings.Contains(out, "Examples:") || command.Short == "" {
			t.Errorf("%s: no example in\n%s", command.Name(), out)
		}
		if s.must(0, "help", command.Name()) != out {
			t.Errorf("help %[1]s differs from %[1]s --help", command.Name())
		}
	}
	for _, name := range strings.Fields("run validate setup demo publish pull work status queues peek delayed dead pause resume weight purge drain health wait bench schema version completion") {
		if !names[name] {
			t.Errorf("there is no command %s", name)
		}
	}
	if out := s.must(0); !strings.Contains(out, "Available Commands:") {
		t.Errorf("without arguments:\n%s", out)
	}
}

// Examples in the help have to parse: their commands and flags exist.
func TestExamplesParse(t *testing.T) {
	s := newShell(t, nil)
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for line := range strings.SplitSeq(c.Example, "\n") {
			for part := range strings.SplitSeq(line, "fairlead ") {
				checkExample(t, s, strings.Fields(part))
			}
		}
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(s.app.root())
}

func checkExample(t *testing.T, s *shell, words []string) {
	t.Helper()
	if len(words) == 0 || strings.HasPrefix(words[0], "-") {
		return
	}
	command, _, err := s.app.root().Find(words[:min(len(words), 2)]) // a command, or one under it
	if err != nil || command.Name() == "fairlead" {
		return // the text before the first "fairlead"
	}
	for _, word := range words[1:] {
		if word == "--" || word == "|" || word == "&&" || word == "<" {
			return
		}
		if name, ok := strings.CutPrefix(word, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			if command.Flags().Lookup(name) == nil {
				t.Errorf("%s: the example has --%s", command.Name(), name)
			}
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, row := range []struct {
		args string
		want string // on stderr
	}{
		{"publsh q", "Did you mean this?\n\tpublish"},
		{"nonsense", `unknown command "nonsense"`},
		{"help nonsense", `unknown`},
		{"publish", "accepts between 1 and 2 arg(s), received 0; write: fairlead publish QUEUE [DATA | -]"},
		{"publish q --ttl 0s x", "--ttl has to be above 0"},
		{"publish a b c", "accepts between 1 and 2 arg(s)"},
		{"publish q --prioritty 1", "unknown flag: --prioritty, did you mean --priority?"},
		{"publish q --xyzzy", "unknown flag: --xyzzy\n"},
		{"publish q -z", "unknown shorthand flag"},
		{"publish q --delay 5 x", "invalid argument"},
		{"publish q --at noon x", "write a time such as"},
		{"publish q --header x y", "write NAME=VALUE"},
		{"publish q --batch f --key k", "[batch key]"},
		{"publish q x --batch f", "--batch and DATA"},
		{"publish q --socket http://x y", "not the address of a Unix socket"},
		{"pull", "accepts 1 arg(s)"},
		{"pull c --max 0", "--max has to be"},
		{"pull c --wait -1s", "cannot be negative"},
		{"work", "say what to run after --"},
		{"work c", "say what to run after --"},
		{"work c --", "say what to run after --"},
		{"work c sh", "say what to run after --"},
		{"work -- sh", "name one CAPSULE"},
		{"work a b -- sh", "name one CAPSULE"},
		{"work c --concurrency 0 -- sh", "--concurrency has to be"},
		{"work c --concurrency 501 -- sh", "--concurrency has to be"},
		{"work c --lease 1ms -- sh", "--lease has to be"},
		{"work c --max-messages -1 -- sh", "--max-messages cannot"},
		{"work c -- /no/such/command", "the command cannot be run"},
		{"dead", "say what to do: list, show, retry or purge"},
		{"dead lst orders", "there is no command dead lst"},
		{"dead list", "accepts 1 arg(s)"},
		{"dead list q --max 0", "--max has to be"},
		{"dead show q", "accepts 2 arg(s), received 1; write: fairlead dead show QUEUE SEQ"},
		{"status now", `"now": it takes no arguments; write: fairlead status`},
		{"run --dev now", `"now": it takes no arguments; write: fairlead run --config FILE | --dev`},
		{"wait --timeout 5", "such as 30s or 5m"},
		{"dead show q x", "use a number that dead list shows"},
		{"dead show q 1 --data -o json", "[data output]"},
		{"dead retry q", "either the SEQs of dead letters, or --all"},
		{"dead retry q 1 --all", "either the SEQs of dead letters, or --all"},
		{"dead retry q 1 two", "use a number that dead list shows"},
		{"dead purge", "accepts 1 arg(s)"},
		{"status x", `"x": it takes no arguments; write: fairlead status`},
		{"status -o xml", "say table or json"},
		{"queues a b", "accepts at most 1 arg"},
		{"queues --keys 3", "--keys needs the NAME"},
		{"queues a --keys 0", "--keys has to be"},
		{"peek", "accepts 1 arg(s)"},
		{"peek q --max 0", "--max has to be"},
		{"pause", "accepts 1 arg(s)"},
		{"pause a b", "accepts 1 arg(s)"},
		{"resume q --kee x", "did you mean --key?"},
		{"weight q", "accepts between 2 and 3 arg(s)"},
		{"weight q k heavy", "above 0, at most 1000"},
		{"weight q k 0", "above 0, at most 1000"},
		{"weight q k 1001", "above 0, at most 1000"},
		{"weight q k NaN", "above 0, at most 1000"},
		{"weight q k 3 --unset", "not both"},
		{"purge", "accepts 1 arg(s)"},
		{"delayed", "say which of cancel, list"},
		{"delayed lst q", "there is no \"lst\""},
		{"delayed list", "accepts 1 arg(s)"},
		{"delayed list q --max 0", "--max has to be"},
		{"delayed cancel q", "requires at least 2 arg(s)"},
		{"publish q --delay 1s --at 2026-01-01T00:00:00Z x", "[at delay]"},
		{"drain --wait -1s", "--wait cannot be"},
		{"health --timeout 0s", "--timeout has to be"},
		{"wait --timeout -1s", "--timeout cannot be"},
		{"run", "say which file"},
		{"run --dev --config x", "[config dev]"},
		{"run --dev --no-setup", "[dev no-setup]"},
		{"run --config x --listen 127.0.0.1:4222", "--listen goes with --dev"},
		{"run --dev --listen 4222", "write HOST:PORT"},
		{"run --config x --no-dashboard", "--no-dashboard goes with --dev"},
		{"validate", "say which file"},
		{"validate --config x --timeout 1s", "--timeout goes with"},
		{"setup", "say which file"},
		{"demo x", `"x": it takes no arguments; write: fairlead demo`},
		{"demo --pull 3", "go with --weights"},
		{"demo --weights 3", "write two weights"},
		{"demo --weights 3:1 --pull 0", "--pull has to be"},
		{"demo --weights 3:1 --messages 0", "--messages has to be"},
		{"bench --pull 0", "pull: 0"},
		{"bench --connections x", "invalid argument"},
		{"completion", "accepts 1 arg(s)"},
		{"completion tcsh", "invalid argument"},
		{"schema x", `"x": it takes no arguments; write: fairlead schema`},
		{"version x", `"x": it takes no arguments; write: fairlead version`},
	} {
		t.Run(row.args, func(t *testing.T) {
			s := newShell(t, nil)
			s.must(exitUsage, strings.Fields(row.args)...)
			errs := s.errs.String()
			if !strings.HasPrefix(errs, "fairlead: ") || !strings.Contains(errs, row.want) || !strings.Contains(errs, "for help: fairlead") {
				t.Errorf("stderr:\n%s\nwant %q", errs, row.want)
			}
			if s.out.String() != "" {
				t.Errorf("stdout: %q", s.out.String())
			}
			if calls := s.agents.log(); calls != "" {
				t.Errorf("an agent was asked to %s", calls)
			}
		})
	}
}

func TestNoAgentIs69(t *testing.T) {
	for _, args := range []string{
		"publish q x", "publish q --batch -", "pull c", "work c -- true", "status", "queues", "queues q", "peek q", "drain", "health",
		"wait --timeout 10ms", "publish q x --socket /no/such/socket", "drain --admin-socket /no/such/socket",
	} {
		s := newShell(t, nil)
		s.must(exitUnavailable, strings.Fields(args)...)
		if errs := s.errs.String(); !strings.HasPrefix(errs, "fairlead: ") || !strings.Contains(errs, "no agent answers here") && !strings.Contains(errs, "waited too long") {
			t.Errorf("%s: %s", args, errs)
		}
	}
}

func TestCompletionAndSchemaAndVersion(t *testing.T) {
	s := newShell(t, nil)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := s.must(0, "completion", shell); !strings.Contains(out, "fairlead") {
			t.Errorf("%s:\n%s", shell, out)
		}
	}
	if out := s.must(0, "schema"); !strings.Contains(out, "json-schema.org") || !strings.HasSuffix(out, "}\n") {
		t.Errorf("schema:\n%.200s", out)
	}
	if out := s.must(0, "version"); !strings.HasPrefix(out, "fairlead ") {
		t.Errorf("version: %s", out)
	}
	if out := s.must(0, "version", "-o", "json"); !strings.Contains(out, `"go": "go1.`) {
		t.Errorf("version: %s", out)
	}
}
