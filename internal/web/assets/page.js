// What the pages do beyond HTML: they stay up to date, charts say their values
// and can be zoomed by dragging, and the keyboard moves about. The server draws
// everything; this takes over what has changed in it.
"use strict";
(() => {
  const page = document.body;

  // Ages. The server's clock counts, whatever the reader's says.
  const skew = Date.now() - Number(page.dataset.now);
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  function ago(ms) {
    const s = (Date.now() - skew - ms) / 1000;
    if (s < -2) return "in " + lasting(-s);
    return s < 1 ? "now" : lasting(s) + " ago";
  }
  function lasting(s) {
    for (const [name, len] of units) {
      const n = Math.floor(s / len);
      if (n >= 2) return n + " " + name;
    }
    return Math.floor(s) + " s";
  }
  function tick() {
    for (const t of document.querySelectorAll("time[data-ago]")) {
      const text = ago(Date.parse(t.dateTime));
      if (t.textContent !== text) t.textContent = text;
    }
  }
  setInterval(tick, 1000);

  // Taking over what is new. Nodes that stay keep their focus and their state.
  function take(have, want) {
    if (have.nodeType !== want.nodeType || have.nodeName !== want.nodeName || have.id !== want.id) {
      have.replaceWith(document.importNode(want, true));
      return;
    }
    if (have.nodeType !== Node.ELEMENT_NODE) {
      if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
      return;
    }
    if (have === document.activeElement && /^(INPUT|SELECT)$/.test(have.nodeName)) return;
    for (const a of [...have.attributes]) {
      if (!want.hasAttribute(a.name) && a.name !== "open" && a.name !== "class") have.removeAttribute(a.name);
    }
    for (const a of want.attributes) {
      if (have.getAttribute(a.name) !== a.value) have.setAttribute(a.name, a.value);
    }
    if (!want.hasAttribute("class")) have.removeAttribute("class");
    if (have.classList.contains("readout")) return;
    if (have.nodeName === "DATA" && have.textContent !== want.textContent) flash(have);
    const old = [...have.childNodes], young = [...want.childNodes];
    young.forEach((node, i) => old[i] ? take(old[i], node) : have.append(document.importNode(node, true)));
    old.slice(young.length).forEach((node) => node.remove());
  }
  function flash(node) {
    requestAnimationFrame(() => {
      node.classList.remove("fresh");
      void node.offsetWidth; // or it would not begin again
      node.classList.add("fresh");
    });
  }

  let under = null, whole = Date.now(), again = false, later = 0;
  async function refresh(all) {
    if (under) {
      again = again || all;
      return;
    }
    const every = Number(page.dataset.every) * 1000;
    const full = all || every > 0 && Date.now() - whole >= every;
    const url = new URL(location.href);
    url.hash = "";
    if (!full && document.querySelector("#charts")) {
      url.searchParams.set("part", "head");
      if (every && !later) later = setTimeout(() => document.hidden || refresh(false), Math.max(0, whole + every - Date.now()));
    }
    under = new AbortController();
    const patience = setTimeout(() => under.abort(), 20000);
    try {
      const answer = await fetch(url, { signal: under.signal, headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (new URL(location.href).search === new URL(url).search.replace(/[?&]part=head$/, "")) show(fresh, full);
      connected(true);
    } catch {
      connected(false);
    }
    clearTimeout(patience);
    under = null;
    if (again) {
      again = false;
      refresh(true);
    }
  }
  function show(fresh, full) {
    take(document.querySelector("#well"), fresh.querySelector("#well"));
    const have = document.querySelector("#main"), want = fresh.querySelector("#main");
    if (full || have.querySelector("#charts") === null) {
      if (dragging) return;
      whole = Date.now();
      clearTimeout(later);
      later = 0;
      take(have, want);
      charts();
    } else {
      take(have.querySelector("#head"), want.querySelector("#head"));
    }
    tick();
  }
  function connected(yes) {
    document.querySelector("#offline").hidden = yes;
  }

  // News: told by the server, else asked for now and then.
  const live = page.dataset.live;
  let news = null, poll = null;
  function listen() {
    if (!live || news) return;
    news = new EventSource(live);
    news.addEventListener("hello", () => { stopPolling(); connected(true); refresh(false); });
    news.addEventListener("change", () => refresh(false));
    news.onerror = () => {
      connected(false);
      if (news.readyState === EventSource.CLOSED) { // the server has no room for one more listener
        news = null;
        if (!poll) poll = setInterval(() => document.hidden || refresh(false), 5000);
      }
    };
  }
  function stopPolling() {
    clearInterval(poll);
    poll = null;
  }
  function rest() {
    if (news) news.close();
    news = null;
    stopPolling();
  }
  if (live) {
    // A page that nobody sees holds no connection.
    document.addEventListener("visibilitychange", () => document.hidden ? rest() : listen());
    addEventListener("pagehide", rest);
    addEventListener("pageshow", () => document.hidden || listen());
    // That somebody has fallen silent is no news, and still to be seen.
    setInterval(() => document.hidden || refresh(false), 30000);
  }

  // The search answers as one types.
  const search = document.querySelector("#search");
  if (search) {
    let wait = 0;
    const go = () => {
      const query = new URLSearchParams(new FormData(search));
      for (const [name, value] of [...query]) if (!value) query.delete(name);
      history.replaceState(null, "", query.size ? "/?" + query : "/");
      refresh(true);
    };
    search.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(go, 150); });
    search.addEventListener("submit", (e) => { e.preventDefault(); clearTimeout(wait); go(); });
  }

  // The keyboard: / to the search, arrows through the list, Escape out.
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const field = document.querySelector("#search input[type=search]"), at = document.activeElement;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(at.nodeName);
    if (e.key === "/" && field && !typing) {
      e.preventDefault();
      field.focus();
      field.select();
    } else if (e.key === "Escape" && at === field) {
      at.blur();
    } else if ((e.key === "ArrowDown" || e.key === "ArrowUp") && (at === field || !typing)) {
      const links = [...document.querySelectorAll(".fleet tbody .name a")], i = links.indexOf(at);
      if (i < 0 && at !== field) return; // the arrows scroll, as ever
      const next = links[e.key === "ArrowDown" ? i + 1 : i - 1];
      if (next) next.focus();
      else if (e.key === "ArrowUp") field.focus();
      e.preventDefault();
    }
  });

  // Charts. The table beside each has its points.
  const svg = "http://www.w3.org/2000/svg";
  let dragging = false;
  function charts() {
    for (const plot of document.querySelectorAll(".plot")) {
      if (!plot.ready) chart(plot);
      plot.ready = true;
    }
  }
  function element(name, set) {
    const e = document.createElementNS(svg, name);
    for (const k in set) e.setAttribute(k, set[k]);
    return e;
  }
  function chart(plot) {
    const figure = plot.closest("figure"), frame = document.querySelector("#charts"), readout = figure.querySelector(".readout");
    const from = () => Number(frame.dataset.from), to = () => Number(frame.dataset.to);
    const rows = () => [...figure.querySelectorAll("tbody tr")];
    const unit = () => (figure.querySelector("h2 .unit") || {}).textContent || "";
    let mark = null, start = null;
    const x = (e) => {
      const box = plot.getBoundingClientRect();
      return Math.min(1, Math.max(0, (e.clientX - box.left) / box.width));
    };
    function clear() {
      if (mark) mark.remove();
      mark = null;
      readout.textContent = "";
    }
    function point(e) {
      const at = from() + x(e) * (to() - from());
      let best = null, far = Infinity;
      for (const row of rows()) {
        const d = Math.abs(Date.parse(row.querySelector("time").dateTime) - at);
        if (d < far) [best, far] = [row, d];
      }
      clear();
      if (!best || far > (to() - from()) / 20) return;
      const time = best.querySelector("time"), cells = [...best.querySelectorAll("td")].map((c) => c.textContent);
      const where = 100 * (Date.parse(time.dateTime) - from()) / (to() - from()) + "%";
      mark = element("line", { class: "cursor", x1: where, x2: where, y1: 0, y2: 200 });
      plot.append(mark);
      const text = cells.length > 1 ? `${cells[0]} ${unit()} (${cells[1]} to ${cells[2]}), ${cells[3]} readings` : `${cells[0]} ${unit()}`;
      readout.textContent = `${time.textContent} · ${text}`;
    }
    function choose(e) {
      const a = Math.min(start, x(e)), b = Math.max(start, x(e));
      if (!mark || mark.nodeName !== "rect") {
        clear();
        mark = element("rect", { class: "chosen", y: 0, height: 200 });
        plot.append(mark);
      }
      mark.setAttribute("x", 100 * a + "%");
      mark.setAttribute("width", 100 * (b - a) + "%");
      return [a, b];
    }
    plot.addEventListener("pointermove", (e) => start === null ? point(e) : choose(e));
    plot.addEventListener("pointerleave", () => start === null && clear());
    plot.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || e.pointerType === "touch") return;
      start = x(e);
      dragging = true;
      plot.setPointerCapture(e.pointerId);
      e.preventDefault();
    });
    plot.addEventListener("pointercancel", () => { start = null; dragging = false; clear(); });
    plot.addEventListener("pointerup", (e) => {
      if (start === null) return;
      const [a, b] = choose(e), len = to() - from();
      start = null;
      dragging = false;
      clear();
      if ((b - a) * plot.getBoundingClientRect().width < 8) return;
      const query = new URLSearchParams({
        from: new Date(Math.floor(from() + a * len)).toISOString(), to: new Date(Math.ceil(from() + b * len)).toISOString(),
      });
      if (frame.dataset.id) query.set("id", frame.dataset.id);
      if (frame.dataset.metric) query.set("metric", frame.dataset.metric);
      location.assign(frame.dataset.self + "?" + query);
    });
  }
  charts();
})();
