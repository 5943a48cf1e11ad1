// The page's script. It never writes markup: every text becomes a text node, so nothing that a server or a grid says can act here.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const charts = {};
  let D; // the data

  // ---- small helpers
  function el(tag, attrs, ...kids) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs || {})) {
      if (v === undefined || v === null || v === false) continue;
      if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
      else if (k === "class") e.className = v;
      else e.setAttribute(k, v === true ? "" : v);
    }
    for (const kid of kids) if (kid !== undefined && kid !== null) e.append(kid);
    return e;
  }
  const clear = (e) => { while (e.firstChild) e.removeChild(e.firstChild); return e; };
  const has = (v) => v !== undefined && v !== null;

  function number(v, decimals) {
    return v.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).replace(/^-0(\.0+)?$/, "0$1");
  }
  // decimals of a metric: those it was given, more for small numbers where it scales.
  function decimalsOf(m, top) {
    if (!m.scales || top === 0) return m.decimals;
    return top < 10 ? m.decimals + 2 : top < 100 ? m.decimals + 1 : m.decimals;
  }
  function show(m, v, top) { return has(v) ? number(v, decimalsOf(m, has(top) ? top : Math.abs(v))) : "–"; }
  const percent = (x) => (x >= 0 ? "+" : "−") + number(Math.abs(x * 100), 1) + " %";
  const metricOf = (key) => D.metrics.find((m) => m.key === key) || { key, title: key, unit: "", better: 0, decimals: 2, scales: true };
  const metricLabel = (m) => m.unit && m.title.indexOf(m.unit) < 0 && m.unit !== "tokens/s" ? m.title + ", " + m.unit : m.title;

  function compareTexts(a, b) {
    const x = Number(a), y = Number(b);
    const nx = a !== "" && !isNaN(x), ny = b !== "" && !isNaN(y);
    if (nx && ny) return x - y;
    if (nx !== ny) return nx ? 1 : -1;
    return a < b ? -1 : a > b ? 1 : 0;
  }

  // ---- state, kept in the address so that a view can be sent to a colleague
  const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  function get(key, fallback, allowed) {
    const v = state.get(key);
    return v !== null && (!allowed || allowed.includes(v)) ? v : fallback;
  }
  function set(key, value) {
    if (value === "" || value === null || value === undefined) state.delete(key); else state.set(key, value);
    history.replaceState(null, "", "#" + state.toString());
  }

  function select(label, key, options, fallback, changed) {
    const values = options.map((o) => o.value);
    const s = el("select", { id: "c-" + key, "aria-label": label, onchange: () => { set(key, s.value); changed(); } });
    for (const o of options) s.append(el("option", { value: o.value }, o.text));
    s.value = get(key, fallback, values);
    return el("label", {}, label, s);
  }
  const valueOf = (key) => $("c-" + key).value;

  // ---- look
  let printing = false;
  const dark = () => !printing && matchMedia("(prefers-color-scheme: dark)").matches;
  function theme() {
    return dark()
      ? { ink: "#e8eaed", muted: "#a3a9b0", grid: "#33373c", bg: "#16181b", bad: "#ff8a80", shade: "rgba(255,255,255,.07)" }
      : { ink: "#1a1a1a", muted: "#5f6368", grid: "#e4e6e9", bg: "#ffffff", bad: "#c1121f", shade: "rgba(60,64,67,.09)" };
  }
  function lineColor(c) { return dark() && c === "#000000" ? "#e8eaed" : c; }
  const font = '12px "Liberation Sans", Arial, Helvetica, sans-serif';
  function axis(extra) {
    const t = theme();
    return Object.assign({ stroke: t.muted, font, labelFont: font, grid: { stroke: t.grid, width: 1 }, ticks: { stroke: t.grid, width: 1 } }, extra);
  }
  const widthOf = (box) => Math.max(320, Math.min(printing ? 1000 : 1180, box.clientWidth || 1000)); // paper is narrower

  function chart(name, box, opts, data) {
    if (charts[name]) charts[name].destroy();
    clear(box);
    charts[name] = new uPlot(Object.assign({ width: widthOf(box) }, opts), data, box);
    return charts[name];
  }

  function fillTable(box, heads, rows) {
    clear(box).append(el("table", { class: "data" },
      el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h)))),
      el("tbody", {}, ...rows.map((r) => el("tr", {}, ...r.map((c, i) => el("td", { class: i > 0 && typeof c === "object" ? "num" : "" }, typeof c === "object" && c !== null ? c.n : c)))))));
  }
  const num = (text) => ({ n: text });

  // ---- the night's tables
  const sheetOf = (w) => D.sheets.find((s) => s.workload === w) || D.sheets[0];
  const config = (i) => D.configs[i];
  function paramOf(c, load, name) {
    if (name === "workload") return load.workload;
    if (name === "concurrency") return load.label;
    if (name === "config") return c.key;
    return c.axes[name];
  }
  const loadsOf = (sheet) => sheet.loads;
  // levelOf names what the levels of loads count.
  const levelOf = (loads) => [...new Set(loads.map((l) => l.level))].join(" or ") || "in flight";
  const levelName = (loads) => "requests " + levelOf(loads);

  // ---- map
  function mapControls() {
    const box = clear($("map-controls"));
    const sheets = D.sheets.map((s) => ({ value: s.workload, text: s.workload }));
    const axes = D.params.map((p) => ({ value: p, text: p }));
    axes.push({ value: "concurrency", text: levelName(D.loads) });
    const metrics = D.metrics.filter((m) => m.median).map((m) => ({ value: m.key, text: metricLabel(m) }));
    const first = D.params[0] || "config", second = D.params[1] || "concurrency";
    if (!D.params.length) axes.unshift({ value: "config", text: "config" });
    box.append(
      select("Workload", "w", sheets, sheets[0].value, () => { mapControls(); drawMap(); drawCurves(); drawFrontier(); }),
      select("Metric", "m", metrics, "output_throughput", drawMap),
      select("Rows", "r", axes, first, drawMap),
      select("Columns", "c", axes, second, drawMap));
    const sheet = sheetOf(valueOf("w"));
    box.append(select("Load", "l", [{ value: "best", text: "the best of each config" }].concat(sheet.loads.map((l) => ({ value: l.key, text: l.label + (l.level === "in flight" ? " in flight" : " planned") }))), "best", drawMap));
  }

  const fine = (sq) => sq.med && has(sq.med.output_throughput) && sq.meets && !sq.died;
  function better(a, b) {
    if (!b) return true;
    if (fine(a) !== fine(b)) return fine(a);
    const x = a.med ? a.med.output_throughput : undefined, y = b.med ? b.med.output_throughput : undefined;
    if (has(x) !== has(y)) return has(x);
    return has(x) && x > y;
  }

  function ramp(t) {
    const stops = [[238, 245, 251], [198, 219, 239], [158, 202, 225], [107, 174, 214], [66, 146, 198], [33, 113, 181], [8, 81, 156], [8, 48, 107]];
    t = Math.max(0, Math.min(1, t)) * (stops.length - 1);
    const i = Math.min(stops.length - 2, Math.floor(t)), f = t - i;
    return stops[i].map((a, k) => Math.round(a * (1 - f) + stops[i + 1][k] * f));
  }
  function inkOn(rgb) {
    const lin = rgb.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); });
    return 0.2126 * lin[0] + 0.7152 * lin[1] + 0.0722 * lin[2] < 0.179 ? "#ffffff" : "#1a1a1a";
  }

  // wordsOf says how cells failed, each way once with the lowest load at which it came; what follows from it is told only alone.
  function wordsOf(list, levels) {
    const seen = new Map();
    for (const x of list) if (x.sq.words && !seen.has(x.sq.words)) seen.set(x.sq.words, x.sq.words + (levels && x.sq.died ? " @" + x.load.label : ""));
    if (seen.size > 1) seen.delete("implied");
    return [...seen.values()].join("; ");
  }

  function drawMap() {
    const sheet = sheetOf(valueOf("w")), m = metricOf(valueOf("m")), rows = valueOf("r"), cols = valueOf("c"), at = valueOf("l");
    const box = clear($("map-view"));
    if (rows === cols) { box.append(el("p", { class: "muted" }, "Choose two different parameters.")); return; }
    const cells = new Map(), rv = new Set(), cv = new Set();
    for (const row of sheet.rows) {
      const c = config(row.config);
      row.squares.forEach((sq, k) => {
        const load = sheet.loads[k];
        if (at !== "best" && load.key !== at && rows !== "concurrency" && cols !== "concurrency") return;
        const r = paramOf(c, load, rows), q = paramOf(c, load, cols);
        if (!has(r) || !has(q)) return;
        rv.add(r); cv.add(q);
        const key = r + "\u0000" + q, cell = cells.get(key) || { all: [] };
        const item = { sq, row, load, apart: !!c.unacceptable };
        cell.all.push(item);
        if (!cell.top || (cell.top.apart && !item.apart) || (cell.top.apart === item.apart && better(sq, cell.top.sq))) cell.top = item;
        cells.set(key, cell);
      });
    }
    const rs = [...rv].sort(compareTexts), cs = [...cv].sort(compareTexts);
    let lo = Infinity, hi = -Infinity;
    for (const c of cells.values()) {
      const v = c.top.sq.med && c.top.sq.med[m.key];
      if (has(v) && !c.top.apart) { lo = Math.min(lo, v); hi = Math.max(hi, v); }
    }
    const table = el("table", { class: "heat" }, el("caption", { class: "muted" }, metricLabel(m) + " by " + rows + " (rows) and " + cols + " (columns), " + sheet.workload));
    table.append(el("thead", {}, el("tr", {}, el("td", {}), ...cs.map((c) => el("th", { scope: "col" }, c)))));
    const body = el("tbody");
    for (const r of rs) {
      const tr = el("tr", {}, el("th", { scope: "row" }, r));
      for (const c of cs) {
        const cell = cells.get(r + "\u0000" + c);
        if (!cell) { tr.append(el("td", { class: "none" }, "not in the grid")); continue; }
        const { sq, row, load, apart } = cell.top, v = sq.med && sq.med[m.key];
        const words = wordsOf(cell.all, rows !== "concurrency" && cols !== "concurrency");
        const td = el("td");
        if (has(v) && !apart && cell.all.some((x) => x.sq.died)) { // a number that was reached beside a death is no offer
          td.className = "failed";
          td.append(el("b", {}, words), el("small", {}, show(m, v) + " @ " + load.label));
        } else if (has(v)) {
          td.append(el("b", {}, show(m, v, Math.max(Math.abs(lo), Math.abs(hi)))));
          const small = [];
          if (rows !== "concurrency" && cols !== "concurrency") small.push("@ " + load.label);
          if (words) small.push(words);
          if (apart) small.push("not acceptable: " + config(row.config).unacceptable);
          else if (!sq.meets) small.push("misses the SLO");
          else if (row.unfit && !words) small.push("fails elsewhere");
          td.append(el("small", {}, small.join(" · ")));
          if (apart) td.className = "apart";
          else {
            const base = m.better > 0 ? Math.min(lo, 0.75 * hi) : lo;
            let t = hi > base ? (v - base) / (hi - base) : 1;
            if (m.better < 0) t = 1 - t;
            const rgb = ramp(t);
            td.style.background = "rgb(" + rgb.join(",") + ")";
            td.style.color = inkOn(rgb);
          }
          if (sheet.best >= 0 && sheet.rows[sheet.best] === row && sheet.rows[sheet.best].best === sheet.loads.indexOf(load)) td.classList.add("best");
        } else if (words) { td.className = cell.all.every((x) => x.sq.skipped || !x.sq.words) ? "failed left" : "failed"; td.append(el("b", {}, words)); }
        else { td.className = "none"; td.append("not run yet"); }
        tr.append(td);
      }
      body.append(tr);
    }
    table.append(body);
    box.append(table);
    $("map-note").textContent = "Framed: the " + D.bestWord + ". Where several cells have the two values, the fastest stands for them" + (sheet.slo ? ", among those that meet the service levels." : ".") + " Hatched: failed; grey: left out.";
  }

  // ---- curves
  function curvesControls() {
    const metrics = D.metrics.filter((m) => m.median).map((m) => ({ value: m.key, text: metricLabel(m) }));
    clear($("curves-controls")).append(select("Metric", "cm", metrics, "output_throughput", drawCurves));
  }
  function drawCurves() {
    const sheet = sheetOf(valueOf("w")), m = metricOf(valueOf("cm")), t = theme();
    const xs = [...new Set(sheet.loads.map((l) => l.total))].sort((a, b) => a - b);
    const single = new Map(); // of loads with the same total the last counts
    sheet.loads.forEach((l, k) => single.set(l.total, k));
    const lines = [], fails = [];
    for (const row of sheet.rows) {
      const c = config(row.config);
      const ys = xs.map((x) => { const sq = row.squares[single.get(x)]; return sq.med && has(sq.med[m.key]) ? sq.med[m.key] : null; });
      xs.forEach((x) => { const sq = row.squares[single.get(x)]; if (sq.died) fails.push({ x, label: c.label, words: sq.words }); });
      if (ys.some(has)) lines.push({ c, row, ys });
    }
    const box = $("curves-view");
    if (!lines.length) { if (charts.curves) { charts.curves.destroy(); delete charts.curves; } clear(box).append(el("p", { class: "muted" }, "No value of this metric.")); fillTable($("curves-table").querySelector(".scroll"), ["config"], []); return; }
    const most = lines.length > 16 ? 0 : 2;
    const series = [{ label: levelOf(sheet.loads) }].concat(lines.map((l) => ({
      label: l.c.label, stroke: lineColor(l.c.color), width: l.row === sheet.rows[sheet.best] ? 3 : 1.6, dash: l.c.dash, spanGaps: false,
      points: { show: true, size: 4 + most, fill: l.c.open ? t.bg : lineColor(l.c.color) }, value: (u, v) => has(v) ? show(m, v) : "–",
    })));
    chart("curves", box, {
      height: 380, title: metricLabel(m) + " by " + levelName(sheet.loads) + (fails.length ? " (× died)" : ""), series,
      scales: { x: { time: false, distr: xs.length > 1 && xs[0] > 0 ? 3 : 1, log: 2, range: (u, lo, hi) => xs.length > 1 ? [lo * 0.93, hi * 1.07] : [lo - 1, hi + 1] }, y: { range: (u, lo, hi) => [Math.min(0, lo), (hi || 1) * 1.06] } },
      axes: [axis({ label: levelName(sheet.loads), splits: () => xs, values: (u, v) => v.map((x) => xs.includes(x) ? String(x) : "") }), axis({ size: 70, values: (u, v) => v.map((x) => number(x, x < 10 && x % 1 ? 1 : 0)) })],
      hooks: { draw: [(u) => {
        const g = u.ctx; g.save(); g.strokeStyle = t.bad; g.lineWidth = 2 * devicePixelRatio;
        const y = u.bbox.top + u.bbox.height - 7 * devicePixelRatio, r = 4 * devicePixelRatio;
        for (const x of new Set(fails.map((f) => f.x))) {
          const px = u.valToPos(x, "x", true);
          g.beginPath(); g.moveTo(px - r, y - r); g.lineTo(px + r, y + r); g.moveTo(px - r, y + r); g.lineTo(px + r, y - r); g.stroke();
        }
        g.restore();
      }] },
    }, [xs].concat(lines.map((l) => l.ys)));
    if (fails.length) {
      const names = new Map();
      for (const f of fails) names.set(f.label + ": " + f.words, true);
      box.append(el("p", { class: "lane" }, "Died: " + [...names.keys()].slice(0, 12).join(" · ") + (names.size > 12 ? " · and more" : "")));
    }
    fillTable($("curves-table").querySelector(".scroll"), ["config"].concat(sheet.loads.map((l) => l.label)),
      sheet.rows.map((row) => [config(row.config).label].concat(row.squares.map((sq) => num(sq.med && has(sq.med[m.key]) ? show(m, sq.med[m.key]) : sq.words || "–")))));
  }

  // ---- frontier
  function drawFrontier() {
    const sheet = sheetOf(valueOf("w")), t = theme(), pts = sheet.frontier.slice().sort((a, b) => a.x - b.x);
    const box = $("frontier-view");
    if (!pts.length) { if (charts.frontier) { charts.frontier.destroy(); delete charts.frontier; } clear(box).append(el("p", { class: "muted" }, "Nothing was measured that has a time per output token.")); return; }
    const pick = (f) => pts.map((p) => f(p) ? p.y : null);
    const name = (p) => config(sheet.rows[p.row].config).label + " @ " + sheet.loads[p.load].label;
    const bans = sheet.bans || [];
    const kind = (p) => p.on ? "on the frontier" : p.why || "beaten";
    const banLook = { "died under some load": [t.bad, t.bg], "refused before some start": [t.bad, t.bad], "not acceptable": ["#CC79A7", t.bg], "not trusted": ["#D55E00", t.bg] };
    const banDot = (b) => { const [edge, fill] = banLook[b] || [t.muted, t.bg]; return dot(b, edge, 7, fill); };
    const dot = (label, color, size, fill) => ({ label, stroke: color, width: 0, paths: () => null, points: { show: true, size, fill, stroke: color, width: 1.5 }, value: (u, v) => has(v) ? number(v, 1) : "–" });
    chart("frontier", box, {
      height: 380, title: "Output tokens/s " + (sheet.perGPU ? "per GPU" : "of the server") + " by output tokens/s per user",
      series: [{ label: "tok/s per user", value: (u, v) => has(v) ? number(v, 1) : "–" }, dot("on the frontier", lineColor("#0072B2"), 9, lineColor("#0072B2")), dot("beaten", t.muted, 6, t.muted)].concat(bans.map(banDot)),
      scales: { x: { time: false, range: (u, lo, hi) => [0, hi * 1.06] }, y: { range: (u, lo, hi) => [0, hi * 1.08] } },
      axes: [axis({ label: "output tokens/s per user (faster for each user →)" }), axis({ size: 70 })],
      cursor: { y: false },
      hooks: {
        draw: [(u) => {
          const on = pts.filter((p) => p.on).reverse(), g = u.ctx;
          if (on.length < 2) return;
          g.save(); g.strokeStyle = lineColor("#0072B2"); g.lineWidth = 1.6 * devicePixelRatio; g.beginPath();
          on.forEach((p, i) => {
            const x = u.valToPos(p.x, "x", true), y = u.valToPos(p.y, "y", true);
            if (i === 0) g.moveTo(x, y); else { g.lineTo(x, u.valToPos(on[i - 1].y, "y", true)); g.lineTo(x, y); }
          });
          g.stroke(); g.restore();
        }],
        setCursor: [(u) => { const i = u.cursor.idx; $("frontier-at").textContent = has(i) && pts[i] ? name(pts[i]) + ": " + number(pts[i].x, 1) + " tok/s per user, " + number(pts[i].y, 1) + " tok/s" + (sheet.perGPU ? " per GPU" : "") + ", " + kind(pts[i]) : ""; }],
      },
    }, [pts.map((p) => p.x), pick((p) => p.on), pick((p) => !p.ban && !p.on)].concat(bans.map((b) => pick((p) => p.ban === b))));
    fillTable($("frontier-table").querySelector(".scroll"), ["cell", "tok/s per user", sheet.perGPU ? "tok/s per GPU" : "tok/s", ""],
      pts.slice().reverse().map((p) => [name(p), num(number(p.x, 1)), num(number(p.y, 1)), kind(p)]));
  }

  // ---- runs
  const R = { sort: null, down: false, text: "", filters: {} };
  function runsControls() {
    const box = clear($("runs-controls"));
    const text = el("input", { type: "search", id: "c-q", "aria-label": "Filter runs", placeholder: "filter: any words", oninput: () => { set("q", text.value); drawRuns(); } });
    text.value = get("q", "");
    box.append(text);
    for (const p of ["workload", "outcome"].concat(D.params)) {
      const values = [...new Set(D.records.map((r) => recordParam(r, p)).filter(has))].sort(compareTexts);
      if (values.length < 2 || values.length > 60) continue;
      box.append(select(p, "f." + p, [{ value: "", text: "all" }].concat(values.map((v) => ({ value: v, text: v }))), "", drawRuns));
    }
    const metrics = D.recordKeys.map((k) => ({ value: k, text: k }));
    box.append(select("One more column", "x", [{ value: "", text: "none" }].concat(metrics), "", drawRuns));
  }
  function recordParam(r, p) {
    if (p === "workload") return D.loads[r.load].workload;
    if (p === "outcome") return r.outcome;
    if (p === "concurrency") return D.loads[r.load].label;
    return config(r.config) ? config(r.config).axes[p] : undefined;
  }
  function columns() {
    const cols = [];
    if (D.configs.some((c) => c.named)) cols.push({ key: "config", head: "config", text: (r) => config(r.config).named ? config(r.config).label : "" });
    for (const p of D.params) cols.push({ key: p, head: p, text: (r) => config(r.config).axes[p] || "–" });
    cols.push({ key: "workload", head: "workload", text: (r) => D.loads[r.load].workload });
    cols.push({ key: "concurrency", head: levelOf(D.loads), num: true, text: (r) => D.loads[r.load].pools, value: (r) => D.loads[r.load].total });
    cols.push({ key: "repeat", head: "repeat", num: true, text: (r) => String(r.repeat) + (r.drift ? " (drift)" : ""), value: (r) => r.repeat });
    cols.push({ key: "outcome", head: "outcome", wide: true, text: (r) => r.words });
    const keys = D.columns.slice(), extra = valueOf("x");
    if (extra && !keys.includes(extra)) keys.push(extra);
    for (const k of keys) {
      const m = metricOf(k);
      cols.push({ key: k, head: m.key === k && m.title !== k ? metricLabel(m) : k, num: true, text: (r) => show(m, r.v[k]), value: (r) => r.v[k], raw: true });
    }
    return cols;
  }
  function drawRuns() {
    const cols = columns(), words = $("c-q").value.toLowerCase().split(/\s+/).filter((w) => w);
    const filters = ["workload", "outcome"].concat(D.params).filter((p) => $("c-f." + p) && $("c-f." + p).value !== "").map((p) => [p, $("c-f." + p).value]);
    let rows = D.records.filter((r) => filters.every(([p, v]) => recordParam(r, p) === v));
    if (words.length) rows = rows.filter((r) => { const hay = (cols.map((c) => c.text(r)).join(" ") + " " + r.outcome + " " + (r.detail || "")).toLowerCase(); return words.every((w) => hay.includes(w)); });
    R.sort = get("s", null); R.down = get("d", "") === "1";
    const by = cols.find((c) => c.key === R.sort);
    if (by) {
      rows = rows.slice().sort((a, b) => {
        if (by.value) {
          const x = by.value(a), y = by.value(b);
          if (has(x) !== has(y)) return has(x) ? -1 : 1;
          return has(x) ? (R.down ? y - x : x - y) : 0;
        }
        return compareTexts(by.text(a), by.text(b)) * (R.down ? -1 : 1);
      });
    }
    const table = $("cells");
    clear(table.tHead).append(el("tr", {}, ...cols.map((c) => el("th", { scope: "col", class: c.num ? "num" : "", "aria-sort": c.key === R.sort ? (R.down ? "descending" : "ascending") : "none" },
      el("button", { type: "button", onclick: () => { const down = c.key === R.sort && !R.down; set("s", c.key); set("d", down ? "1" : ""); drawRuns(); } }, c.head)))));
    const body = clear(table.tBodies[0]), shown = get("run", "");
    const part = document.createDocumentFragment();
    for (const r of rows) {
      const tr = el("tr", { tabindex: "0", "data-cell": r.cell, "data-repeat": r.repeat, class: (r.tone ? r.tone + " " : "") + (shown === r.id ? "open" : "") });
      for (const c of cols) {
        const td = el("td", { class: c.num ? "num" : c.wide ? "wide" : "" }, c.text(r));
        if (c.raw && has(c.value(r))) td.dataset.value = c.value(r);
        if (c.raw) td.dataset.key = c.key;
        tr.append(td);
      }
      const open = () => { set("run", r.id); for (const x of body.querySelectorAll("tr.open")) x.classList.remove("open"); tr.classList.add("open"); drawRun(r, true); };
      tr.addEventListener("click", open);
      tr.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); open(); } });
      part.append(tr);
    }
    body.append(part);
    $("runs-count").textContent = rows.length === D.records.length ? rows.length + " records." : rows.length + " of " + D.records.length + " records.";
  }

  function drawRun(r, jump) {
    for (const k of Object.keys(charts)) if (k.startsWith("run.")) { charts[k].destroy(); delete charts[k]; }
    const box = clear($("run"));
    box.hidden = false;
    box.append(el("h3", {}, r.cell + ", repeat " + r.repeat));
    box.append(el("p", {}, el("strong", { class: r.tone === "alarm" ? "bad" : "" }, r.words), " ", el("code", {}, r.outcome), r.detail ? " · " + r.detail : ""));
    if (r.steady) box.append(el("p", { class: "muted" }, r.steady));
    for (const n of r.notes || []) box.append(el("p", { class: "muted" }, n));
    if (r.evidence) box.append(el("pre", { class: "log", tabindex: "0" }, r.evidence.text), el("p", { class: "muted" }, r.evidence.where));
    const tl = D.timelines[r.id];
    if (tl) drawTimeline(box, tl); else box.append(el("p", { class: "muted" }, r.measured ? "This page holds no timeline of this run; the night's folder does." : "No timeline: nothing was measured."));
    const keys = Object.keys(r.v).sort();
    if (keys.length) {
      const d = el("details", {}, el("summary", {}, "All values"));
      const holder = el("div", { class: "scroll" });
      fillTable(holder, ["key", "value"], keys.map((k) => [k, num(String(r.v[k]))]));
      d.append(holder);
      box.append(d);
    }
    if (jump) box.scrollIntoView({ block: "nearest" });
  }

  function drawTimeline(box, tl) {
    const t = theme(), n = tl.t.length, sync = uPlot.sync("run");
    const strips = [["usage", "KV pool in use", "#0072B2"], ["running", "Running requests", "#009E73"], ["queued", "Queued requests", "#D55E00"], ["rate", "Output tokens/s that reached the client", "#CC79A7"]].filter(([k]) => tl[k] && tl[k].some(has));
    strips.forEach(([k, title, color], i) => {
      const holder = el("div", { class: "chart" });
      box.append(holder);
      chart("run." + k, holder, {
        height: i === strips.length - 1 ? 150 : 120, title, legend: { show: true }, cursor: { sync: { key: sync.key } },
        series: [{ label: "s" }, { label: title, stroke: color, width: 1.4, fill: color + "22", points: { show: n < 40 }, value: (u, v) => has(v) ? number(v, k === "usage" ? 3 : 0) : "–" }],
        scales: { x: { time: false }, y: { range: (u, lo, hi) => [0, k === "usage" ? Math.max(1, hi || 0) : (hi || 1) * 1.08] } },
        axes: [axis({ label: i === strips.length - 1 ? "seconds since the load began" : undefined }), axis({ size: 60 })],
        hooks: { drawClear: [(u) => {
          const g = u.ctx; g.save(); g.fillStyle = t.shade;
          const left = u.bbox.left, right = left + u.bbox.width, pos = (v) => Math.max(left, Math.min(right, u.valToPos(v, "x", true)));
          if (has(tl.open)) {
            g.fillRect(left, u.bbox.top, pos(tl.open) - left, u.bbox.height);
            g.fillRect(pos(tl.close), u.bbox.top, right - pos(tl.close), u.bbox.height);
          }
          g.strokeStyle = t.bad; g.lineWidth = devicePixelRatio; g.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
          for (const x of tl.retracts || []) { g.beginPath(); g.moveTo(pos(x), u.bbox.top); g.lineTo(pos(x), u.bbox.top + u.bbox.height); g.stroke(); }
          g.restore();
        }] },
      }, [tl.t, tl[k]]);
    });
    box.append(el("p", { class: "muted" }, "Shaded: warm-up and drain, left out of the numbers." + ((tl.retracts || []).length ? " Red: requests pushed out of the batch (retraction)." : "") + (tl.thinned ? " Thinned: each point is the mean of several samples." : "")));
    const d = el("details", { class: "astable" }, el("summary", {}, "As a table")), holder = el("div", { class: "scroll tall" });
    d.addEventListener("toggle", () => { if (d.open && !holder.firstChild) fillTable(holder, ["s"].concat(strips.map((s) => s[1])), tl.t.map((x, i) => [String(x)].concat(strips.map(([k]) => num(has(tl[k][i]) ? String(tl[k][i]) : "–"))))); });
    d.append(holder);
    box.append(d);
  }

  // ---- figures
  function drawFigures() {
    const box = clear($("figures-view"));
    for (const f of D.figures) {
      const src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(f.svg);
      const holderOf = el("div", {}, el("figure", {}, el("img", { src, alt: f.title, loading: "eager" }), el("figcaption", {}, f.name + ".png, " + f.name + ".svg")));
      box.append(holderOf);
      if (f.table) {
        const d = el("details", { class: "astable" }, el("summary", {}, "As a table")), holder = el("div", { class: "scroll" });
        fillTable(holder, f.table.heads, f.table.rows.map((r) => r.map((c, i) => i ? num(c) : c)));
        d.append(holder);
        holderOf.append(d);
      }
    }
    if (!D.figures.length) box.append(el("p", { class: "muted" }, "None."));
  }

  // ---- copy
  function copyButtons() {
    for (const b of document.querySelectorAll("button.copy")) b.addEventListener("click", () => {
      const code = b.parentNode.querySelector("code"), text = code.textContent;
      const done = (ok) => { b.textContent = ok ? "Copied" : "Selected"; setTimeout(() => { b.textContent = "Copy"; }, 1500); };
      const range = document.createRange();
      range.selectNodeContents(code);
      const sel = getSelection();
      sel.removeAllRanges(); sel.addRange(range);
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => done(true), () => done(false)); else done(false);
    });
  }

  function redraw() {
    drawCurves(); drawFrontier();
    const r = D.records.find((x) => x.id === get("run", ""));
    if (r) drawRun(r, false);
  }

  async function data() {
    const raw = atob($("data").textContent.trim()), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  data().then((d) => {
    D = d;
    D.records.forEach((r) => { r.v = r.v || {}; });
    copyButtons();
    if (D.sheets.length) {
      mapControls(); curvesControls(); runsControls();
      drawMap(); drawCurves(); drawFrontier(); drawRuns();
    } else for (const id of ["map-view", "curves-view", "frontier-view"]) $(id).append(el("p", { class: "muted" }, "Nothing yet."));
    drawFigures();
    const r = D.records.find((x) => x.id === get("run", ""));
    if (r) drawRun(r, false);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    addEventListener("beforeprint", () => { printing = true; if (D.sheets.length) redraw(); });
    addEventListener("afterprint", () => { printing = false; if (D.sheets.length) redraw(); });
    let wide = innerWidth;
    addEventListener("resize", () => { if (Math.abs(innerWidth - wide) > 40) { wide = innerWidth; if (D.sheets.length) redraw(); } });
    window.__sweep = { data: D, charts };
    document.body.dataset.ready = "1";
  }).catch((e) => { document.body.dataset.failed = String(e); throw e; });
})();
