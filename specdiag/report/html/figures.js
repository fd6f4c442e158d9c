"use strict";
// Interactive pictures: plotly is unpacked and run when the first one comes into view.

(() => {
  if (!document.getElementById("data-figures")) return;
  let library;
  let figures;

  function load() {
    library ??= specdiag.unpack("plotly").then((code) => {
      const script = document.createElement("script");
      script.textContent = code;  // allowed by its hash
      document.head.append(script);
      if (!window.Plotly) throw new Error("the plotting library did not load");
    });
    figures ??= specdiag.unpack("figures").then((text) => new Map(JSON.parse(text).map((one) => [one.id, one])));
    return Promise.all([library, figures]).then(([, all]) => all);
  }

  function colours() {
    const probe = document.createElement("span");  // light-dark() is resolved where it is used
    document.body.append(probe);
    const found = {};
    for (const name of ["ink", "soft", "line", "card", "critical", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"]) {
      probe.style.color = `var(--${name})`;
      found[name] = getComputedStyle(probe).color;
    }
    found.s8 = found.soft;
    probe.remove();
    return found;
  }

  // Log text is no markup, and plotly reads some.
  const plain = (text) => String(text ?? "").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const faint = (colour, share) => colour.replace("rgb(", "rgba(").replace(")", `, ${share})`);
  const DRAWN = ["point", "line", "bar"];
  const YEAR_2001 = Date.UTC(2001);
  const DASHES = ["solid", "dash", "dot", "dashdot"];

  function traces(figure, tone, axes) {
    const made = [];
    const at = (values) => (figure.x.scale === "time" ? values.map((ms) => new Date(ms).toISOString().slice(0, 23)) : values);
    const told = new Set();
    for (const one of figure.series) {
      const colour = tone["s" + one.slot];
      const place = { xaxis: "x", yaxis: axes.get(one.part) ?? "y", legendgroup: plain(one.name), name: plain(one.name) };
      if (one.hidden) place.visible = "legendonly";
      if (one.draw === "point" || one.draw === "line") {
        if (one.draw === "line" && one.low) {
          const low = at(one.x), back = [...low].reverse();
          made.push({ ...place, type: "scatter", mode: "lines", x: [...low, ...back], y: [...one.low, ...[...one.high].reverse()],
            fill: "toself", fillcolor: faint(colour, .16), line: { width: 0 }, hoverinfo: "skip", showlegend: false });
        }
        const gaps = new Set(one.breaks);  // a point without a value breaks a line
        const open = (values, filled) => values.flatMap((value, n) => (gaps.has(n) ? [filled ? value : null, value] : [value]));
        const trace = { ...place, type: "scatter", x: open(at(one.x), true), y: open(one.y, false), mode: one.draw === "line" ? "lines" : "markers",
          line: { color: colour, width: 2, dash: DASHES[one.dash] }, marker: { color: colour, size: one.x.length > 60 ? 4 : 8, opacity: one.x.length > 60 ? .6 : .9 },
          showlegend: !told.has(one.name), text: one.label && open(one.label.map(plain), true), hovertemplate: `%{x}<br>%{y}${one.label ? "<br>%{text}" : ""}` };
        if (one.draw === "point" && one.low) {
          trace.error_y = { type: "data", symmetric: false, array: one.high.map((v, n) => v - one.y[n]), arrayminus: one.low.map((v, n) => one.y[n] - v), color: colour, thickness: 1.5, width: 3 };
        }
        told.add(one.name);
        made.push(trace);
      } else if (one.draw === "bar") {
        made.push({ ...place, type: "bar", x: at(one.x), y: one.y, marker: { color: colour }, text: one.label?.map(plain), textposition: "none",
          hovertemplate: `%{x}<br>%{y}${one.label ? "<br>%{text}" : ""}`,
          ...(one.low ? { error_y: { type: "data", symmetric: false, array: one.high.map((v, n) => v - one.y[n]), arrayminus: one.low.map((v, n) => one.y[n] - v), color: tone.ink, thickness: 1.2, width: 3 } } : {}) });
      }
      if (one.flags && one.y.length) {
        const rows = Object.keys(one.flags).map(Number);
        made.push({ ...place, type: "scatter", mode: "markers", x: at(rows.map((n) => one.x[n])), y: rows.map((n) => one.y[n]),
          marker: { symbol: "diamond-open", size: 14, color: tone.critical, line: { width: 2 } }, showlegend: false,
          text: rows.map((n) => one.flags[n].map((name) => plain(figure.flags[name]?.title ?? name)).join("<br>")),
          customdata: rows.map((n) => figure.flags[one.flags[n][0]]?.id ?? ""), hovertemplate: "%{text}<br>%{x}, %{y}<extra></extra>" });
      }
    }
    return made;
  }

  function shapes(figure, tone, axes) {
    const drawn = [], notes = [];
    const at = (ms) => (figure.x.scale === "time" ? new Date(ms).toISOString().slice(0, 23) : ms);
    const data = figure.series.filter((one) => DRAWN.includes(one.draw)).flatMap((one) => one.x).filter((x) => typeof x === "number");
    const [first, last] = [data.reduce((a, b) => Math.min(a, b), Infinity), data.reduce((a, b) => Math.max(a, b), -Infinity)];
    // Findings are named before events, and neither where names would cover each other.
    const marks = figure.series.filter((one) => one.draw === "mark")
      .flatMap((one) => one.x.map((x, n) => ({ x, label: one.label?.[n] ?? one.name, cited: Boolean(one.flags?.[n]) })))
      .sort((a, b) => b.cited - a.cited || a.x - b.x);
    const named = [];
    for (const { x, label, cited } of marks) {
      drawn.push({ type: "line", xref: "x", yref: "paper", x0: at(x), x1: at(x), y0: 0, y1: 1, line: { color: cited ? tone.critical : tone.soft, width: 1.2, dash: cited ? "solid" : "dot" } });
      if (named.some((other) => Math.abs(other - x) < (last - first) / 45)) continue;
      named.push(x);
      notes.push({ x: at(x), y: 1, xref: "x", yref: "paper", text: plain(label).slice(0, 40), textangle: 90, showarrow: false, xanchor: "left", yanchor: "top", font: { size: 10, color: tone.ink }, bgcolor: faint(tone.card, .8) });
    }
    for (const one of figure.series) {
      one.x.forEach((x, n) => {
        if (one.draw === "shade") {
          drawn.push({ type: "rect", xref: "x", yref: "paper", x0: at(x), x1: at(one.high[n]), y0: 0, y1: 1, fillcolor: faint(tone.soft, .16), line: { width: 0 }, layer: "below" });
        }
      });
      if (one.draw === "level") {
        const axis = axes.get(one.part) ?? "y";
        const log = figure.parts.find((part) => part.name === one.part)?.scale === "log";
        drawn.push({ type: "line", xref: "paper", yref: axis, x0: 0, x1: 1, y0: one.y[0], y1: one.y[0], line: { color: tone.ink, width: 1.3, dash: "dash" } });
        notes.push({ x: 1, y: log ? Math.log10(one.y[0]) : one.y[0], xref: "paper", yref: axis, text: plain(one.label?.[0] ?? one.name), showarrow: false, xanchor: "right", yanchor: "bottom", font: { size: 11, color: tone.ink } });
      }
    }
    return { drawn, notes };
  }

  // Ticks of a log axis: contexts double, everything else goes 1, 2, 5.
  function doublings(values) {
    const [low, high] = span(values);
    if (!(low > 0)) return {};
    const every = Math.ceil(Math.log2(high / low) / 7) || 1;
    return every > 2 ? { dtick: 1 } : { tick0: 3, dtick: every * Math.log10(2) };
  }
  function rounds(values) {
    const [low, high] = span(values);
    if (!(low > 0)) return {};
    const ones = high / low > 300 ? [1] : high / low > 30 ? [1, 3] : [1, 2, 5];
    const tickvals = [];
    for (let power = Math.floor(Math.log10(low)) - 2; power <= Math.log10(high) + 2; power += 1) {
      for (const one of ones) tickvals.push(Number((one * 10 ** power).toPrecision(3)));
    }
    return { tickvals, ticktext: tickvals.map((v) => v.toLocaleString("en")) };
  }
  function span(values) {
    const known = values.filter((v) => v > 0);
    return [known.reduce((a, b) => Math.min(a, b), Infinity), known.reduce((a, b) => Math.max(a, b), 0)];
  }

  const KINDS = { linear: "linear", log: "log", time: "date", category: "category" };

  async function draw(element) {
    const figure = (await load()).get(element.id);
    const live = element.querySelector(".live"), still = element.querySelector(".still");
    const tone = colours();
    const axes = new Map(figure.parts.map((part, n) => [part.name, n ? `y${n + 1}` : "y"]));
    const common = { color: tone.soft, gridcolor: tone.line, zerolinecolor: tone.line, automargin: true, linecolor: tone.soft };
    const { drawn, notes } = shapes(figure, tone, axes);
    const many = figure.parts.length;
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: tone.ink, size: 12, family: getComputedStyle(document.body).fontFamily },
      margin: { l: 56, r: 12, t: 8, b: 40 }, height: many === 1 ? 330 : 150 * many + 90, barmode: figure.stack ? "stack" : "group", hovermode: "closest",
      showlegend: figure.series.length > 1, legend: { orientation: "h", x: 0, y: 1.01, yanchor: "bottom", font: { color: tone.ink } }, dragmode: "zoom",
      shapes: drawn, annotations: notes, hoverlabel: { bgcolor: tone.card, font: { color: tone.ink }, bordercolor: tone.line },
      xaxis: { ...common, title: { text: plain(figure.x.title) }, type: KINDS[figure.x.scale], anchor: many > 1 ? `y${many}` : "y", zeroline: false },
    };
    const drawnSeries = figure.series.filter((one) => DRAWN.includes(one.draw));
    const across = drawnSeries.flatMap((one) => one.x);
    if (figure.x.scale === "linear" && across.length && across.every(Number.isInteger)) {
      layout.xaxis.dtick = Math.ceil((span(across)[1] + 1) / 12);
    }
    if (figure.x.scale === "log") Object.assign(layout.xaxis, doublings(across));
    if (figure.x.scale === "time" && across.length && span(across)[1] < YEAR_2001) {  // no date is known
      Object.assign(layout.xaxis, { tickformat: "%H:%M:%S", hoverformat: "%H:%M:%S" });
    }
    figure.parts.forEach((part, n) => {
      const height = (1 - .05 * (many - 1)) / many, top = 1 - n * (height + .05);
      layout[n ? `yaxis${n + 1}` : "yaxis"] = { ...common, title: { text: plain(part.title), font: { size: 11 } }, type: KINDS[part.scale],
        domain: [Math.max(0, top - height), top], ...(part.scale === "log" ? rounds(drawnSeries.filter((one) => one.part === part.name).flatMap((one) => one.y)) : {}), rangemode: part.scale === "log" ? "normal" : "tozero" };
    });
    live.hidden = false;
    await window.Plotly.react(live, traces(figure, tone, axes), layout, { displayModeBar: false, responsive: true, displaylogo: false });
    still.setAttribute("hidden", "");
    const legend = element.querySelector("ul.legend");
    if (legend) legend.hidden = true;
    live.setAttribute("role", "img");
    live.setAttribute("aria-label", still.getAttribute("aria-label"));
    if (element.dataset.live !== "done") {
      live.on("plotly_click", (event) => {
        const id = event.points[0]?.customdata;
        if (typeof id === "string" && id) location.hash = id;
      });
    }
    element.dataset.live = "done";
  }

  const attempt = (element) => draw(element).catch((error) => {
    element.dataset.live = "failed";  // the still picture stays
    element.querySelector(".live").hidden = true;
    console.warn("specdiag: a picture stays still:", error);
  });
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      attempt(entry.target);
    }
  }, { rootMargin: "250px" });
  document.querySelectorAll("figure.picture").forEach((element) => watcher.observe(element));
  specdiag.onTheme(() => document.querySelectorAll("figure[data-live=done]").forEach(attempt));
})();
