package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	_ "image/png"
	"testing"
	"time"
)

func background(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx
}

// The page shows a noisy neighbour within two seconds, and that the quiet tenants do not suffer.
func TestNoisyNeighbour(t *testing.T) {
	a := newAgent(t)
	ctx, cancel := context.WithCancel(context.Background())
	working, quiet := a.work(ctx, 8, 10*time.Millisecond), a.trickle(ctx, 100*time.Millisecond, "anna", "bert", "carl")
	defer func() { cancel(); working(); quiet() }()
	b := open(t, a, "light")
	b.until("the quiet tenants", `document.querySelectorAll('#q-orders')[0] && document.querySelectorAll('tr[data-key]').length >= 3`, 20*time.Second)
	if b.text(`String([...document.querySelectorAll('tr[data-key] .badge.noisy')].filter((n) => !n.hidden).length)`) != "0" {
		t.Error("somebody is noisy before anybody is")
	}

	// Of three tries the best one: others use this machine, too.
	best := time.Hour
	for _, flood := range []string{"flood1", "flood2", "flood3"} {
		began := time.Now()
		a.publish("orders", flood, 1, 3000)
		shown := b.until("the noisy neighbour", `(() => { const r = document.querySelector('tr[data-key="`+flood+`"]'); return r && !r.querySelector('.badge.noisy').hidden; })()`, 20*time.Second)
		if best = min(best, shown.Sub(began)); best <= 2*time.Second {
			break
		}
	}
	if best > 2*time.Second {
		t.Errorf("a noisy neighbour showed after %v at best, want within 2 s", best)
	}
	// Its backlog is worked on, the quiet tenants' messages come in between, and the page says so in numbers.
	b.until("waits of both", `[...document.querySelectorAll('.compare b')].slice(0, 2).every((n) => n.textContent !== '–')`, 10*time.Second)
	var seen struct{ Quiet, Noisy float64 }
	raw := b.text(`(async () => { const e = new EventSource('/events'); const o = JSON.parse((await new Promise((r) => e.onmessage = r)).data); e.close(); const q = o.queues.find((q) => q.name === 'orders'); return JSON.stringify({Quiet: q.quiet.waited_seconds, Noisy: q.noisy.waited_seconds}); })()`)
	if err := json.Unmarshal([]byte(raw), &seen); err != nil {
		t.Fatal(err)
	}
	t.Logf("shown after %v; quiet tenants waited %.0f ms, noisy ones %.0f ms", best.Round(time.Millisecond), 1000*seen.Quiet, 1000*seen.Noisy)
	if seen.Noisy < 3*seen.Quiet {
		t.Errorf("quiet tenants waited %v s, noisy ones %v s: it should have waited far longer", seen.Quiet, seen.Noisy)
	}
	b.until("the verdict", `document.querySelector('.verdict[data-noisy=yes]') && /(is|are) noisy: .*quiet tenants got had waited/.test(document.querySelector('.verdict[data-noisy=yes]').textContent)`, 5*time.Second)
	b.clean(a)
}

func TestLiveInBothSchemes(t *testing.T) {
	a := newAgent(t)
	a.publish("orders", "acme", 0, 5)
	brightness := map[string]uint32{}
	for _, scheme := range []string{"light", "dark"} {
		b := open(t, a, scheme)
		b.until("the queue", `document.querySelector('#q-orders')`, 20*time.Second)
		b.until("what waits", `document.querySelector('.tile b').textContent.length > 0`, 5*time.Second)
		before := b.text(`document.querySelector('.tile b').textContent`)
		a.publish("orders", "acme", 0, 5)
		b.until("five more", `document.querySelector('.tile b').textContent !== '`+before+`'`, 5*time.Second)
		img, _, err := image.Decode(bytes.NewReader(b.shoot("")))
		if err != nil {
			t.Fatal(err)
		}
		r, g, bl, _ := img.At(5, img.Bounds().Max.Y-5).RGBA()
		brightness[scheme] = (r + g + bl) / 3
		if bad := b.text(contrast); bad != "" {
			t.Errorf("%s: text is hard to read: %s", scheme, bad)
		}
		b.clean(a)
	}
	if brightness["light"] < 0xc000 || brightness["dark"] > 0x3000 {
		t.Errorf("backgrounds: %x", brightness)
	}
}

// contrast finds text whose contrast with what is behind it is below 4.5.
const contrast = `(() => {
  const rgb = (s) => (s.match(/[\d.]+/g) || []).map(Number);
  const lum = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }).reduce((n, v, i) => n + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const bad = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode());) {
    const e = n.parentElement;
    if (!n.textContent.trim() || !e.checkVisibility() || e.closest('svg, noscript, script')) continue;
    const a = lum(rgb(getComputedStyle(e).color)), b = lum(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.add(n.textContent.trim().slice(0, 40) + ' ' + ratio.toFixed(2));
  }
  return [...bad].join('; ');
})()`

// Keys and reasons are shown as text, whatever they are.
func TestHostileKeysAreText(t *testing.T) {
	a := newAgent(t)
	keys := []string{`<img src=x onerror=window.pwned=1>`, `<script>window.pwned=1</script>`, `"><b>x`, `' onload='pwned`, `__proto__`, `constructor`,
		"\u202egnitrevni", "zero\u200bwidth", "{{7*7}}", "a b", "_", "javascript:1", "&lt;i&gt;", "new\nline"}
	for _, key := range keys {
		a.publish("orders", key, 1, 2)
	}
	a.publish("orders", "broken", 0, 1)
	ctx, cancel := context.WithCancel(context.Background())
	b := open(t, a, "light")
	b.until("all tenants", `document.querySelectorAll('tr[data-key]').length >= 14`, 20*time.Second)
	shown := b.text(`document.body.innerText`)
	for _, want := range []string{keys[0], keys[1], `\u{202e}gnitrevni`, `zero\u{200b}width`, `new\u{a}line`, "&lt;i&gt;"} {
		if !bytes.Contains([]byte(shown), []byte(want)) {
			t.Errorf("%q is not shown as text", want)
		}
	}
	wait := a.work(ctx, 4, time.Millisecond)
	b.until("the dead letter", `!document.getElementById('dead').hidden && document.getElementById('dead').innerText.includes('card expired <b>in</b> March')`, 20*time.Second)
	cancel()
	wait()
	if b.text(`String(window.pwned) + document.querySelectorAll('main img, main script, main b b').length`) != "undefined0" {
		t.Error("a key was taken for HTML")
	}
	b.clean(a)
}

// The page says when the agent is away, and goes on by itself when it is back.
func TestTheAgentRestarts(t *testing.T) {
	a := newAgent(t)
	b := open(t, a, "dark")
	b.until("that it is live", `document.getElementById('link').textContent === 'live'`, 20*time.Second)
	a.kill()
	b.until("that it reconnects", `document.getElementById('link').textContent.startsWith('reconnecting')`, 10*time.Second)
	a.start()
	b.until("that it is live again", `document.getElementById('link').textContent === 'live'`, 20*time.Second)
	b.until("that the agent was started again", `document.getElementById('notices').innerText.includes('started again')`, 5*time.Second)
	a.publish("orders", "acme", 0, 7)
	b.until("what came after", `document.querySelector('tr[data-key="acme"]')`, 5*time.Second)
}

// The keyboard is enough, and screen readers are told what the pictures show.
func TestAccessible(t *testing.T) {
	a := newAgent(t)
	a.publish("orders", "acme", 0, 3)
	a.publish("orders", "zeta", 0, 5)
	b := open(t, a, "light")
	b.until("both tenants", `document.querySelectorAll('tr[data-key]').length === 2`, 20*time.Second)
	order := `[...document.querySelectorAll('tr[data-key]')].map((r) => r.dataset.key).join()`
	if got := b.text(order); got != "zeta,acme" {
		t.Errorf("order %s", got)
	}
	b.text(`(() => { const x = document.querySelector('.tenants th button'); x.focus(); x.click(); return ''; })()`)
	if got := b.text(order); got != "acme,zeta" {
		t.Errorf("sorted by tenant: %s", got)
	}
	b.until("a later overview", `new Promise((r) => setTimeout(() => r(true), 1200))`, 10*time.Second)
	if got := b.text(`document.activeElement.textContent + document.querySelector('.tenants th').getAttribute('aria-sort') + ` + order); got != "Tenantascendingacme,zeta" {
		t.Errorf("after an update focus and order are %s", got)
	}
	if got := b.text(`[...document.querySelectorAll('[role=img]')].filter((n) => !n.getAttribute('aria-label')).length + ' ' + [...document.querySelectorAll('th')].filter((n) => n.scope !== 'col').length + ' ' + document.documentElement.lang + ' ' + document.querySelectorAll('h1, h2').length`); got[:6] != "0 0 en" {
		t.Errorf("pictures without a name, heads without a scope, language: %s", got)
	}
	b.clean(a)
}

// 10,000 tenants: the largest show, the rest is counted, and the page stays quick.
func TestTenThousandTenants(t *testing.T) {
	a := newAgent(t)
	a.publishMany("orders", 10_000)
	a.publish("orders", "big", 1, 50)
	b := open(t, a, "light")
	b.until("the rest", `/and 9,977 more tenants/.test(document.body.innerText)`, 60*time.Second)
	b.until("the largest one first", `document.querySelector('tr[data-key]').dataset.key === 'big'`, 5*time.Second)
	if n := b.text(`String(document.querySelectorAll('*').length)`); len(n) > 4 {
		t.Errorf("the page has %s elements", n)
	}
	b.clean(a)
}

// TestScreenshots makes the pictures of the documentation, when it is asked for them.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("-screenshots FOLDER makes them")
	}
	a := newAgent(t)
	ctx := background(t)
	quiet := a.trickle(ctx, 70*time.Millisecond, "anna", "bert", "carl", "dora")
	working := a.work(ctx, 12, 25*time.Millisecond)
	_, _ = quiet, working
	a.publish("orders", "zenith", 0, 3)
	a.publish("orders", "premium", 1, 6000)
	b := open(t, a, "light")
	d := open(t, a, "dark")
	b.until("a while", `new Promise((r) => setTimeout(() => r(true), 25000))`, 40*time.Second)
	a.publish("orders", "flood", 1, 9000)
	a.publish("orders", "flood", 2, 2500)
	b.until("a while", `new Promise((r) => setTimeout(() => r(true), 25000))`, 40*time.Second)
	b.shoot("dashboard-light.png")
	d.shoot("dashboard-dark.png")
}
