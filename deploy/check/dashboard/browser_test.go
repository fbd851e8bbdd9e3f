package dashboard

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "folder to write pictures of the dashboard into")

// browser is one tab, and what it complained of.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	requests []string
}

// engine is the browser of all tests.
var engine struct {
	sync.Once
	ctx    context.Context
	cancel context.CancelFunc
}

func startBrowser(path string) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1320, 1200),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(60*time.Second))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	_ = chromedp.Do(ctx) // starts it; a tab that cannot be opened says why
	engine.ctx, engine.cancel = ctx, func() { cancel(); end() }
}

func TestMain(m *testing.M) {
	code := m.Run()
	if engine.cancel != nil {
		engine.cancel()
	}
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// open opens the agent's page in a tab of its own. A test without a browser is skipped, but not in CI.
func open(t *testing.T, a *agent, scheme string) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no chromium: .ci/browser installs it")
		}
		t.Skip("there is no chromium on this machine; .ci/browser installs it")
	}
	engine.Do(func() { startBrowser(path) })
	ctx, cancel := chromedp.NewContext(engine.ctx) // a tab
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	_, err1 := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	_, err2 := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	_, err3 := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err := errors.Join(err1, err2, err3, chromedp.Do(ctx, chromedp.Navigate("http://"+a.address+"/"))); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			b.problems = append(b.problems, fmt.Sprintf("console: %+v", e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.problems = append(b.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

// evaluate returns what an expression of JavaScript is, or what its promise brings.
func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("browser: %v; it complained of %q", err, b.complaints())
	}
	return v
}

// until waits for an expression of JavaScript to be true, and returns when it was.
func (b *browser) until(what, expression string, patience time.Duration) time.Time {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if evaluate[bool](b, "Promise.resolve("+expression+").then(Boolean)") {
			return time.Now()
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s does not show within %v. The page says:\n%s", what, patience, b.text("document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (b *browser) text(expression string) string {
	b.t.Helper()
	return evaluate[string](b, expression)
}

func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.problems...)
}

// clean checks that nothing was complained of, and that nothing was asked of anybody else.
func (b *browser) clean(a *agent) {
	b.t.Helper()
	for _, p := range b.complaints() {
		b.t.Errorf("the browser complains: %s", p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) < 4 {
		b.t.Errorf("only %q were asked for: the check of external requests sees nothing", b.requests)
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, "http://"+a.address+"/") {
			b.t.Errorf("the page asks for %s", url)
		}
	}
}

// shoot makes a picture of the page as it is.
func (b *browser) shoot(name string) []byte {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if *screenshots != "" && name != "" {
		if err := os.WriteFile(filepath.Join(*screenshots, name), png, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	return png
}
