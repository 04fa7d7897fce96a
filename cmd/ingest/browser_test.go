package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdpinput "github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gudang/internal/testenv"
)

// browser is a Chromium of the test's own.
func browser(t *testing.T) context.Context {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "google-chrome", "google-chrome-stable", "chromium-browser"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		program = testenv.Need(t, "chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("cannot start Chromium: %v", err)
	}
	return ctx
}

// tab is one tab, and what its console has said.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu   sync.Mutex
	said []string
}

const patience = 60 * time.Second // of a step, on a busy machine

// open opens a tab of a size. Whatever it says in its console, a violation of
// the page's policy among it, fails the test at its end.
func (p *program) open(t *testing.T, browser context.Context, width, height int64) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	b := &tab{t: t, ctx: ctx, base: "http://" + p.service.web.Addr()}
	t.Cleanup(func() {
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, line := range b.said {
			t.Errorf("in the console: %s", line)
		}
	})
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the context of this
		t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(width, height))
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	call(b, cdplog.Enable, cdp.Empty{})
	return b
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		b.said = append(b.said, fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventExceptionThrown:
		b.said = append(b.said, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.said = append(b.said, string(e.Type))
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// call sends a command of the protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// follow does what leads to another page, and waits for that.
func (b *tab) follow(step chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, step); err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.WaitReady("footer")) // all of it is there
}

func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// eval is what an expression is in a tab.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for an expression to become true.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	testenv.Eventually(b.t, patience, what, func() bool { return eval[bool](b, expression) })
}

func (b *tab) scheme(name string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// publish sends a message to the broker inside, as a user would.
func (p *program) publish(sensor, payload string) {
	p.t.Helper()
	host, port := split(p.service.broker.Addr())
	out, err := exec.Command(testenv.Need(p.t, "mosquitto_pub"), "-h", host, "-p", port, "-q", "1", "-t", "warehouse/"+sensor+"/reading", "-m", payload).CombinedOutput()
	if err != nil {
		p.t.Fatalf("mosquitto_pub: %v\n%s", err, out)
	}
}

// history publishes what a sensor has measured in the last minutes.
func (p *program) history(sensor string) {
	p.t.Helper()
	var lines strings.Builder
	for ago := 600; ago > 0; ago -= 10 {
		fmt.Fprintf(&lines, `{"sensorId": %q, "temperature": %d.5, "humidity": 55, "ts": %d}`+"\n", sensor, 20+ago%7, time.Now().Unix()-int64(ago))
	}
	host, port := split(p.service.broker.Addr())
	cmd := exec.Command(testenv.Need(p.t, "mosquitto_pub"), "-h", host, "-p", port, "-q", "1", "-t", "warehouse/x/reading", "-l")
	cmd.Stdin = strings.NewReader(lines.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("mosquitto_pub: %v\n%s", err, out)
	}
}

// The pages in a real browser: what a reader sees, without a reload, without
// JavaScript, without a mouse, on a phone.
func TestThePagesInABrowser(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	p := start(t)
	p.untilReady()

	t.Run("a published reading appears without reload", func(t *testing.T) { p.readingsAppear(t, ctx) })
	p.history("S-01")
	p.history(`<b>"/../ x`)
	testenv.Eventually(t, patience, "the history is stored, and the sensors' own documents know it", func() bool {
		_, body := p.get("/api/v1/sensors")
		return p.metric("gudang_readings_stored_total") >= 4*60 && strings.Count(body, `"humidity"`) == 2
	})
	for _, test := range []struct {
		name string
		run  func(*testing.T, context.Context)
	}{
		{"without JavaScript", p.withoutScript},
		{"by keyboard", p.byKeyboard},
		{"charts answer to the mouse", p.byMouse},
		{"nothing is wider than a phone", p.onAPhone},
		{"everything can be read and has a name", p.readable},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, ctx) }) // one by one: only the tab in front has the focus
	}
}

func (p *program) readingsAppear(t *testing.T, ctx context.Context) {
	b := p.open(t, ctx, 1280, 900)
	b.visit("/")
	if !eval[bool](b, `document.querySelector("#main").innerText.includes("No sensor has sent anything yet")`) {
		t.Error("a fresh install doesn't say what to do")
	}
	eval[bool](b, `window.loaded = true`)
	p.publish("S-01", `{"temperature": 26.4}`)
	b.until("the first sensor appears", `(document.querySelector(".fleet tbody") || {innerText: ""}).innerText.includes("26.4")`)
	p.publish("S-01", `{"temperature": 27.9}`)
	b.until("the next reading appears", `document.querySelector(".fleet tbody").innerText.includes("27.9")`)
	p.publish("S-02", `{"temperature": 5}`)
	b.until("another sensor appears", `document.querySelectorAll(".fleet tbody tr").length === 2`)
	if !eval[bool](b, `window.loaded === true`) {
		t.Error("the page was loaded anew")
	}
	b.visit("/sensors/S-01")
	eval[bool](b, `window.loaded = true`)
	before := eval[string](b, `document.querySelector("#charts tbody").textContent`)
	p.publish("S-01", `{"temperature": 31.25}`)
	b.until("the sensor's page has the value", `document.querySelector("#head").innerText.includes("31.25")`)
	b.until("its chart as well", `document.querySelector("#charts tbody").textContent.includes("31.25")`)
	if before == "" || !eval[bool](b, `window.loaded === true && document.querySelector(".plot .line").getAttribute("d").length > 10`) {
		t.Error("the page was loaded anew, or has no line")
	}
}

func (p *program) withoutScript(t *testing.T, ctx context.Context) {
	b := p.open(t, ctx, 1280, 900)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.visit("/")
	b.do(chromedp.WaitVisible("#search button"), chromedp.SendKeys("#search input", "s-0"))
	b.follow(chromedp.Click("#search button"))
	if got := eval[string](b, `[...document.querySelectorAll(".fleet tbody bdi")].map((e) => e.textContent).join()`); got != "S-01,S-02" {
		t.Errorf("the search for s-0 found %q", got)
	}
	b.follow(chromedp.Click(".fleet th.metric a"))
	if got := eval[string](b, `document.querySelector(".fleet tbody bdi").textContent + document.querySelector("th.metric").ariaSort`); got != "S-01descending" {
		t.Errorf("in order of temperature there is %q first", got)
	}
	b.follow(chromedp.Click(".fleet tbody a"))
	if got := eval[string](b, `location.pathname + document.querySelectorAll(".plot .line").length`); got != "/sensors/S-012" {
		t.Errorf("a sensor's page and its charts: %s", got)
	}
	b.follow(chromedp.Click(".range .choices a:nth-child(2)"))
	b.follow(chromedp.Click(`.list .choices a:nth-child(2)`))
	if got := eval[string](b, `location.search + document.querySelectorAll(".list tbody tr").length`); got != "?range=6h&view=readings40" {
		t.Errorf("the readings of six hours: %s", got)
	}
	b.follow(chromedp.Click(`.list a[rel=next]`))
	if !eval[bool](b, `document.querySelectorAll(".list tbody tr").length > 0 && location.search.includes("after=")`) {
		t.Error("there is no next page")
	}
}

func (p *program) byKeyboard(t *testing.T, ctx context.Context) {
	b := p.open(t, ctx, 1280, 900)
	b.visit("/")
	b.do(chromedp.KeyEvent(kb.Tab))
	if got := eval[string](b, `document.activeElement.textContent`); got != "Skip to the content" {
		t.Errorf("the first stop is %q", got)
	}
	if !eval[bool](b, `document.activeElement.getBoundingClientRect().height > 20 && getComputedStyle(document.activeElement).outlineStyle === "solid"`) {
		t.Error("it can't be seen")
	}
	// As a keyboard does it: no character follows a key whose event is taken.
	call(b, cdpinput.DispatchKeyEvent, cdpinput.DispatchKeyEventParams{Type: "keyDown", Key: "/", Code: "Slash", Text: "/"})
	b.until("/ leads to the search", `document.activeElement.name === "q"`)
	b.do(chromedp.KeyEvent("S-0"))
	b.until("the list follows", `document.querySelectorAll(".fleet tbody tr").length === 2 && location.search === "?q=S-0"`)
	b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	b.until("the arrows go through the list", `document.activeElement.textContent === "S-02"`)
	// What comes meanwhile must not take the place away.
	p.publish("S-02", `{"temperature": 6.75}`)
	b.until("a reading appears", `document.querySelector(".fleet tbody").innerText.includes("6.8") || document.querySelector(".fleet tbody").innerText.includes("6.75")`)
	if got := eval[string](b, `document.activeElement.textContent`); got != "S-02" {
		t.Errorf("the focus went to %q", got)
	}
	b.follow(chromedp.KeyEvent(kb.Enter))
	if got := eval[string](b, `location.pathname`); got != "/sensors/S-02" {
		t.Errorf("Enter leads to %s", got)
	}
}

func (p *program) byMouse(t *testing.T, ctx context.Context) {
	b := p.open(t, ctx, 1280, 900)
	b.visit("/sensors/S-01")
	box := eval[[]float64](b, `(() => { const r = document.querySelector(".plot").getBoundingClientRect(); return [r.left, r.top, r.width]; })()`)
	x, y := func(f float64) float64 { return box[0] + f*box[2] }, box[1]+100
	b.do(chromedp.MouseEvent("mouseMoved", x(0.99), y))
	b.until("the chart says a value", `/^\d+ \w+ [\d:]+ · 55 %RH$/.test(document.querySelector(".readout").textContent)`)
	b.follow(chromedp.DragAndDropXY(x(0.9), y, x(0.95), y))
	length := eval[float64](b, `(() => { const q = new URLSearchParams(location.search); return (Date.parse(q.get("to")) - Date.parse(q.get("from"))) / 60000; })()`)
	if length < 2.5 || length > 3.5 {
		t.Errorf("a twentieth of the hour became %v minutes", length)
	}
	if !eval[bool](b, `document.querySelectorAll("#charts tbody tr").length > 10`) {
		t.Error("there are no readings in it")
	}
}

// pagesToLookAt are one of each kind.
func pagesToLookAt() []string {
	return []string{"/", "/?q=nothing", "/sensors/S-01", "/sensors/S-01?range=7d", "/sensors/S-01?from=2020-01-01T00:00&to=2020-02-01T00:00&view=readings", "/sensors/none", "/?sort=x"}
}

// quiet forgets what the console said of a page that is not there.
func (b *tab) quiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	var said []string
	for _, line := range b.said {
		if !strings.Contains(line, "the server responded with a status of 40") {
			said = append(said, line)
		}
	}
	b.said = said
}

func (p *program) onAPhone(t *testing.T, ctx context.Context) {
	b := p.open(t, ctx, 390, 844)
	long := strings.Repeat("W", 256)
	p.publish("x", `{"sensorId":"`+long+`", "temperature": 20, "a_metric_with_a_name_that_goes_on_and_on_and_on": 1, "co2": 600}`)
	testenv.Eventually(t, patience, "it is there", func() bool { status, _ := p.get("/sensors/" + long); return status == 200 })
	for _, path := range append(pagesToLookAt(), "/sensors/"+long) {
		b.visit(path)
		if got := eval[int](b, `document.documentElement.scrollWidth`); got > 390 {
			t.Errorf("%s is %d wide", path, got)
		}
		if !eval[bool](b, `[...document.querySelectorAll(".fleet tbody .name a, .pages a, .choices a")].every((e) => e.getBoundingClientRect().height >= 18)`) {
			t.Errorf("%s has links that are hard to hit", path)
		}
	}
	b.quiet()
}

// faults lists what on a page can't be read or has no name: text whose contrast
// is below what WCAG 2 asks for (AA, 4.5), fields, pictures, links without a
// name, and ids that are there twice.
const faults = `(() => {
	const found = [], lum = (c) => {
		const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	}, parse = (s) => (s.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
	const back = (e) => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.length < 4 || c[3] > 0) return c;
		}
		return [255, 255, 255];
	};
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.data.trim() || e.closest(".hidden, .skip, title, desc, option") || !e.checkVisibility()) continue;
		const style = getComputedStyle(e), svg = e instanceof SVGElement;
		const a = lum(parse(svg ? style.fill : style.color).slice(0, 3)), b = lum(back(e).slice(0, 3));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) found.push("contrast " + ratio.toFixed(2) + " of " + walk.currentNode.data.trim().slice(0, 40));
	}
	const name = (e) => e.getAttribute("aria-label") || e.textContent.trim() || (e.getAttribute("aria-labelledby") || "").split(" ").map((id) => (document.getElementById(id) || {}).textContent || "").join("");
	for (const e of document.querySelectorAll("input:not([type=hidden]), select")) if (![...e.labels].some((l) => l.textContent.trim())) found.push("no label: " + e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll("a, button, [role=img], nav, section[aria-labelledby], [role=region]")) if (!name(e)) found.push("no name: " + e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll("svg")) if (e.getAttribute("role") !== "img" && !e.closest("[aria-hidden]")) found.push("a picture without a word: " + e.outerHTML.slice(0, 80));
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => found.push("twice: #" + id));
	if (document.querySelectorAll("h1").length !== 1 || document.querySelectorAll("main").length !== 1) found.push("not one h1 and one main");
	if (!document.documentElement.lang || !document.title.includes("Gudang")) found.push("no language or title");
	return found;
})()`

func (p *program) readable(t *testing.T, ctx context.Context) {
	b := p.open(t, ctx, 1280, 900)
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, path := range pagesToLookAt() {
			b.visit(path)
			for _, fault := range eval[[]string](b, faults) {
				t.Errorf("%s, %s: %s", scheme, path, fault)
			}
		}
	}
	// The check itself sees what is wrong.
	b.visit("/?sort=x") // nothing live, which would put it right
	eval[bool](b, `(() => { const m = document.querySelector("main"); m.insertAdjacentHTML("beforeend", "<p id=main>x</p><input><a href=x></a>"); return true; })()`)
	if got := eval[[]string](b, faults); len(got) != 3 {
		t.Errorf("three faults are found as %q", got)
	}
	b.quiet()
}

// When the service goes away its page says so, and goes on when it is back.
func TestThePageOutlivesARestart(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	p := start(t, fmt.Sprintf("HTTP_ADDR=127.0.0.1:%d", testenv.FreePort(t)), fmt.Sprintf("EMBEDDED_MQTT_ADDR=127.0.0.1:%d", testenv.FreePort(t)))
	p.untilReady()
	p.publish("S-01", `{"temperature": 26.4}`)
	b := p.open(t, ctx, 1280, 900)
	b.visit("/")
	b.until("the sensor is there", `document.body.innerText.includes("26.4")`)
	b.until("it is connected", `document.querySelector("#offline").hidden`)
	p.end()
	b.until("it says that it is alone", `!document.querySelector("#offline").hidden`)
	if !eval[bool](b, `document.body.innerText.includes("26.4")`) {
		t.Error("what was known is gone")
	}
	p.start()
	p.untilReady()
	p.publish("S-01", `{"temperature": 30.5}`)
	b.until("it goes on", `document.querySelector("#offline").hidden && document.body.innerText.includes("30.5")`)
	b.mu.Lock()
	b.said = nil // the browser notes each connection that is refused
	b.mu.Unlock()
	p.end()
}
