package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/fairlead/fairlead/agent/api"
)

// Terminal is where a model is shown, and who is asked.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	// Ask returns the last overview. It ends within some seconds.
	Ask      func(ctx context.Context) (*api.Overview, error)
	Interval time.Duration // between two questions
}

// Run shows a model until somebody quits, or ctx ends; that is no error. It takes over the whole screen, and gives it back.
func Run(ctx context.Context, t Terminal, m Model) error {
	p := tea.NewProgram(&program{ctx: ctx, terminal: t, model: m}, tea.WithContext(ctx), tea.WithInput(t.In), tea.WithOutput(t.Out), tea.WithoutSignalHandler())
	if _, err := p.Run(); err != nil && !errors.Is(err, tea.ErrProgramKilled) && ctx.Err() == nil {
		return fmt.Errorf("top: %w", err)
	}
	return nil
}

// program is a model behind bubbletea's interface.
type program struct {
	ctx      context.Context
	terminal Terminal
	model    Model
}

type answer struct {
	overview *api.Overview
	err      error
}

type again struct{}

// Init implements tea.Model.
func (p *program) Init() tea.Cmd { return p.ask }

func (p *program) ask() tea.Msg {
	o, err := p.terminal.Ask(p.ctx)
	return answer{o, err}
}

// Update implements tea.Model.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.model = p.model.Resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		if msg.Text == "" {
			return p, p.press(msg.String())
		}
		return p, p.press(strings.Split(msg.Text, "")...)
	case tea.PasteMsg:
		if p.model.typing {
			return p, p.press(strings.Split(msg.Content, "")...)
		}
	case answer:
		if msg.err != nil {
			p.model = p.model.Lose(msg.err, time.Now())
		} else {
			p.model = p.model.Show(msg.overview, time.Now())
		}
		return p, tea.Tick(p.terminal.Interval, func(time.Time) tea.Msg { return again{} })
	case again:
		return p, p.ask
	}
	return p, nil
}

// press takes keys, one after the other.
func (p *program) press(names ...string) tea.Cmd {
	for _, name := range names {
		var quit bool
		if p.model, quit = p.model.Press(name); quit {
			return tea.Quit
		}
	}
	return nil
}

// View implements tea.Model.
func (p *program) View() tea.View {
	v := tea.NewView(p.model.Screen())
	v.AltScreen = true
	return v
}
