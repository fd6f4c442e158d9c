// The draft-tree explorer. Its data is described in explorer.py. Text from logs only ever becomes
// text: nothing here writes markup.
(async () => {
  "use strict";
  const home = document.getElementById("explorer");
  if (!home) return;
  const data = JSON.parse(await specdiag.unpack("trees"));
  const WHOLE = 40, SIBLINGS = 2, DEEPEST = 300; // rows, siblings and depths shown without asking
  const WIDTH = 132, ACROSS = 176, LEFT = 10, TOP = 30; // pixels: a box, from depth to depth, margins
  const MARKS = { taken: "✓ accepted", missed: "! not taken", against: "✗ against target" };

  const make = (name, set = {}, ...inside) => {
    const made = Object.assign(document.createElement(name), set);
    made.append(...inside);
    return made;
  };
  const draw = (name, set = {}, ...inside) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(set)) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  };
  const figure = (value) => value === null || value === undefined ? "–" : typeof value === "string" ? value
    : value.toLocaleString("en", { maximumFractionDigits: 3 });
  const duration = (ms) => ms >= 1000 ? `${figure(+(ms / 1000).toPrecision(3))} s` : `${figure(+ms.toPrecision(3))} ms`;
  const counted = (number, thing) => `${figure(number)} ${thing}${number === 1 ? "" : "s"}`;
  const said = (token) => token === null ? "no token" : data.texts[token] ? `“${data.texts[token]}”` : String(token);
  const full = (token) => token === null ? "–" : data.texts[token] ? `${token} ${said(token)}` : String(token);
  const cut = (text, most) => {
    let width = 0;
    for (let at = 0; at < text.length; at++) {
      width += text.charCodeAt(at) > 0x2e7f ? 2 : 1;
      if (width > most) return `${text.slice(0, at)}…`;
    }
    return text;
  };
  const requestName = (step) => data.requests[step.request] ?? "without a name";
  const link = (step) => "step-" + [data.runs[step.run].name, data.requests[step.request] ?? "", step.step]
    .map(encodeURIComponent).join("/");

  // A step, as rows that hang below the root

  function hang(step) {
    const rows = Math.max(step.parent?.length ?? 0, step.token?.length ?? 0);
    const below = Array.from({ length: rows }, () => []), depth = new Map([[0, 0]]), order = [0];
    for (let row = 1; row < rows; row++) below[step.parent?.[row]]?.push(row);
    for (const row of order) for (const child of below[row]) if (!depth.has(child)) {
      depth.set(child, depth.get(row) + 1);
      order.push(child);
    }
    const sizes = new Map(order.map((row) => [row, 1]));
    for (const row of order.slice().reverse()) if (row) sizes.set(step.parent[row], sizes.get(step.parent[row]) + sizes.get(row));
    const accepted = new Set(step.accepted ?? []), wanted = new Set(step.expected ?? step.accepted ?? []), mark = new Map();
    for (const row of accepted) mark.set(row, wanted.has(row) ? "taken" : "against");
    for (const row of wanted) if (!accepted.has(row)) mark.set(row, "missed");
    return { rows, below, depth, sizes, mark, last: step.accepted?.at(-1) };
  }

  // Boxes top down, each first child on the line of its parent: the spine is the straight line on top.
  function boxes(step, tree, whole) {
    const made = [], heights = [], waiting = [{ row: 0, depth: 0, slot: 0 }];
    let slots = 0;
    while (waiting.length) {
      const box = waiting.pop();
      box.line = box.slot ?? slots;
      slots = Math.max(slots, box.line + 1);
      box.mark = box.more || box.bonus ? undefined : tree.mark.get(box.row);
      box.height = box.mark ? step.target ? 80 : 63 : box.more ? 28 : 46;
      heights[box.line] = Math.max(heights[box.line] ?? 0, box.height);
      made.push(box);
      if (box.more || box.bonus) continue;
      const own = tree.below[box.row].filter((child) => tree.depth.get(child) === box.depth + 1);
      const opened = (whole || box.mark) && box.depth < DEEPEST;
      const shown = !opened ? [] : whole ? own : own.filter((child, n) => n < SIBLINGS || tree.mark.has(child));
      const left = own.filter((child) => !shown.includes(child)).reduce((sum, child) => sum + tree.sizes.get(child), 0);
      const next = shown.map((row) => ({ row, depth: box.depth + 1, from: box }));
      if (left) next.push({ more: left, depth: box.depth + 1, from: box });
      if (box.row === tree.last && step.bonus !== null) next.unshift({ bonus: true, depth: box.depth + 1, from: box });
      if (next.length) next[0].slot = box.line;
      waiting.push(...next.reverse());
    }
    let y = TOP;
    const middles = heights.map((height) => { y += height + 12; return y - 12 - height / 2; });
    for (const box of made) Object.assign(box, { x: LEFT + box.depth * ACROSS, y: middles[box.line] });
    return { made, height: y, deepest: Math.max(...made.map((box) => box.depth)) };
  }

  function words(step, tree) {
    const path = (rows) => rows.slice(1, 25).map((row) => said(step.token?.[row] ?? null)).join(", ") + (rows.length > 25 ? ", …" : "") || "the root alone";
    const parts = [`Draft tree of step ${step.step} with ${counted(tree.rows - 1, "node")}.`];
    if (step.accepted) parts.push(`Accepted: ${path(step.accepted)}.`);
    if (step.bonus !== null) parts.push(`The target's own token: ${said(step.bonus)}.`);
    if (step.expected) parts.push([...tree.mark.values()].every((mark) => mark === "taken")
      ? `That is the path by ${step.by}.` : `By ${step.by} it should have been: ${path(step.expected)}.`);
    return parts.join(" ");
  }

  function picture(step, tree, whole) {
    const { made, height, deepest } = boxes(step, tree, whole);
    const width = LEFT * 2 + deepest * ACROSS + WIDTH;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words(step, tree) });
    const front = [];
    for (let depth = 0; depth <= deepest; depth++) svg.append(draw("text",
      { class: "depth", x: LEFT + depth * ACROSS, y: 18 }, depth ? `depth ${depth}` : "root"));
    for (const box of made.filter((one) => one.from)) {
      const x = box.from.x + WIDTH, middle = x + (ACROSS - WIDTH) / 2, bend = Math.min(8, Math.abs(box.y - box.from.y));
      const line = bend ? `M${x} ${box.from.y}H${middle - bend}q${bend} 0 ${bend} ${bend}V${box.y - bend}q0 ${bend} ${bend} ${bend}H${box.x}`
        : `M${x} ${box.y}H${box.x}`;
      const edge = draw("path", { d: line, class: box.bonus ? "bonus" : box.mark ?? "" });
      if (box.mark) front.push(edge); else svg.append(edge);
    }
    svg.append(...front);
    for (const box of made) svg.append(boxOf(step, box));
    return svg;
  }

  function boxOf(step, box) {
    const lines = [], row = box.row, target = step.target?.[row] ?? null, score = step.log_prob?.[row] ?? null, rank = step.rank?.[row] ?? null;
    if (box.more) lines.push(["small", `… ${figure(box.more)} more`]);
    else if (box.bonus) lines.push(["sign", "bonus"], ["token", cut(said(step.bonus), 13)]);
    else {
      if (box.mark) lines.push(["sign", MARKS[box.mark]]);
      lines.push(["token", cut(said(step.token?.[row] ?? null), 13)]);
      const known = row ? [rank === null ? "" : `rank ${rank}`, score === null ? "" : figure(+score.toFixed(2))] : [];
      lines.push(["small", known.filter(Boolean).join(" · ") || `row ${row}`]);
      if (box.mark && target !== null) lines.push(["small", `target → ${cut(said(target), 10)}`]);
    }
    const top = box.y - box.height / 2, group = draw("g", { class: box.bonus ? "bonus" : box.more ? "more" : box.mark ?? "" },
      draw("rect", { x: box.x, y: top, width: WIDTH, height: box.height, rx: 6 }));
    lines.forEach(([kind, text], n) => group.append(draw("text", { class: kind, x: box.x + 9, y: top + 18 + n * 17 }, text)));
    if (row !== undefined) group.append(draw("title", {}, `row ${row}: ${full(step.token?.[row] ?? null)}${target === null ? "" : `, target → ${full(target)}`}`));
    return group;
  }

  // What is said beside the tree

  function table(title, heads, rows, set = {}) {
    const cell = (value, n) => make(n ? "td" : "th", n ? {} : { scope: "row" }, value);
    return make("div", set, make("table", {}, make("caption", {}, title),
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows.map((row) => make("tr", row.kind ? { className: row.kind } : {}, ...row.map(cell))))));
  }

  function values(step, tree) {
    const path = (rows) => rows ? cut(rows.map((one) => one ?? "–").join(" "), 60) : "–", least = step.least ? "at least " : "";
    const depth = step.depth ?? (step.accepted ? step.accepted.length - 1 : null), wanted = step.expected;
    const row = (name, recorded, expected, differs) => Object.assign([name, recorded, (differs ? "≠ " : "") + expected], { kind: differs ? "differs" : "" });
    const number = (name, recorded, expected) => row(name, figure(recorded), expected === null ? "–" : least + figure(expected),
      recorded !== null && expected !== null && (step.least ? recorded < expected : recorded !== expected));
    return table("Recorded and expected", ["value", "recorded", `by ${step.by ?? "replay"}`], [
      number("accepted depth", depth, wanted ? wanted.length - 1 : null),
      number("commit length", step.commit, wanted ? wanted.length : null),
      row("path (rows)", path(step.accepted), path(wanted), [...tree.mark.values()].some((mark) => mark !== "taken")),
      row("bonus", step.bonus === null ? "–" : full(step.bonus), step.expected_bonus === null ? "–" : full(step.expected_bonus),
        step.bonus !== null && step.expected_bonus !== null && step.bonus !== step.expected_bonus),
    ]);
  }

  function legend(step, tree) {
    const marks = new Set(tree.mark.values());
    const entries = [["taken", "✓ accepted"], ["missed", "! should have been accepted, was not taken"], ["against", "✗ accepted against what the target chose"]]
      .filter(([mark]) => mark === "taken" || marks.has(mark));
    return make("ul", { className: "tree-legend" }, ...entries.map(([mark, text]) => make("li", {},
      draw("svg", { viewBox: "0 0 36 12", "aria-hidden": "true" }, draw("path", { d: "M0 6H36", class: mark })), text)),
    make("li", {}, "target → what the target chose after this node"), make("li", {}, "bonus: the target's own token"),
    ...(step.log_prob ? [make("li", {}, "below a token: its log-probability along the path")] : []));
  }

  function nodes(step, tree) {
    const rows = Array.from({ length: tree.rows }, (_, row) => {
      const at = (column) => step[column]?.[row] ?? null, mark = tree.mark.get(row);
      return [String(row), figure(at("parent")), tree.depth.has(row) ? figure(tree.depth.get(row)) : "not below the root", figure(at("rank")),
        at("log_prob") === null ? "–" : at("log_prob").toFixed(4), full(at("token")), full(at("target")), mark ? MARKS[mark] : ""];
    });
    const details = make("details", {}, make("summary", {}, `All ${counted(tree.rows, "row")} as a table`));
    details.addEventListener("toggle", () => details.lastChild.localName === "summary" && details.append(
      table("Row 0 is the root", ["row", "parent", "depth", "rank", "log-prob", "token", "target's choice", "path"], rows, { className: "tree-rows", tabIndex: 0 })));
    return details;
  }

  function head(step) {
    const run = data.runs[step.run], facts = [step.mode, step.ctx === null ? null : `context ${figure(step.ctx)}`,
      step.budget === null ? null : `budget ${figure(step.budget)}`, step.top_k === null ? null : `top-k ${figure(step.top_k)}`, step.cut ? `cut: ${step.cut}` : null];
    const { step: all, ...stages } = step.ms;
    const times = [...Object.entries(stages).map(([name, ms]) => `${name} ${duration(ms)}`), all === undefined ? null : `the whole step ${duration(all)}`];
    const parts = [make("h3", { tabIndex: -1 }, `Step ${step.step} of request ${requestName(step)}`),
      make("p", {}, [`Run ${run.name}`, ...facts].filter(Boolean).join(", ")),
      make("p", { className: "soft" }, ...(times.some(Boolean) ? [times.filter(Boolean).join(", "), make("br")] : []), make("code", {}, `${data.paths[step.path]}:${step.line}`))];
    if (step.findings.length) parts.push(make("p", {}, "Cited by ", ...step.findings.flatMap((n, at) =>
      [at ? ", " : "", make("a", { href: data.findings[n].href }, data.findings[n].title)])));
    const made = make("div", {}, ...parts);
    made.dataset.step = link(step);
    return made;
  }

  // The controls

  const pick = (label) => {
    const select = make("select");
    select.dataset.pick = label.toLowerCase();
    return { select, label: make("label", {}, label, select) };
  };
  const run = pick("Run"), request = pick("Request"), number = pick("Step");
  const status = make("p", { className: "tree-said" }), body = make("div");
  status.setAttribute("role", "status");
  let at = data.first, whole = false;
  const kinds = { wrong: ["contradiction", (step) => step.wrong.length > 0], leaves: ["step that leaves the spine", (step) => step.leaves] };
  const go = (words, name, kind, way) => {
    const places = data.steps.flatMap((step, n) => kinds[kind][1](step) ? [n] : []);
    const button = make("button", { type: "button", disabled: !places.length }, words);
    button.dataset.go = name;
    button.addEventListener("click", () => {
      const next = way > 0 ? places.find((n) => n > at) ?? places[0] : places.findLast((n) => n < at) ?? places.at(-1);
      choose(next, `${kinds[kind][0]} ${places.indexOf(next) + 1} of ${places.length} in this page`);
    });
    return button;
  };

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, text]) => make("option", { value, selected: value === chosen }, text)));
  }

  function show() {
    const step = data.steps[at], tree = hang(step), of = (one) => one.run === step.run;
    const here = new Map(data.steps.filter(of).map((one) => [one.request, requestName(one)]));
    fill(run.select, data.runs.map((one, n) => [n, one.shown ? one.name : `${one.name} (none in this page)`]), step.run);
    [...run.select.options].forEach((option, n) => { option.disabled = !data.runs[n].shown; });
    fill(request.select, [...here], step.request);
    fill(number.select, data.steps.flatMap((one, n) => of(one) && one.request === step.request
      ? [[n, `${one.step}${one.wrong.length ? " – contradiction" : one.leaves ? " – leaves the spine" : ""}`]] : []), at);
    const scroll = make("div", { className: "tree-scroll", tabIndex: 0 }, tree.rows ? picture(step, tree, whole || tree.rows <= WHOLE) : "");
    scroll.setAttribute("role", "group");
    scroll.setAttribute("aria-label", "The tree; it scrolls");
    const all = make("button", { type: "button" }, whole ? "Show the paths and a few siblings" : `Show all ${counted(tree.rows - 1, "node")}`);
    all.addEventListener("click", () => { whole = !whole; show(); body.querySelector("button").focus(); });
    const tables = make("div", { className: "tree-tables" }, values(step, tree));
    if (step.wrong.length) tables.append(table(`What replay contradicts${step.more ? `, and ${step.more} more` : ""}`, ["identity", "field", "expected", "observed"],
      step.wrong.map(([identity, field, entry, expected, observed]) => Object.assign(
        [identity, entry === null ? field : `${field}[${entry}]`, expected ?? "–", observed ?? "–"], { kind: "identity" }))));
    const lost = tree.rows - tree.depth.size;
    body.replaceChildren(head(step), tables, ...(tree.rows > WHOLE ? [all] : []), scroll, legend(step, tree),
      ...(lost > 0 ? [make("p", {}, `${counted(lost, "row")} not below the root: see the table.`)] : []), nodes(step, tree));
    for (const one of tables.children) if (one.scrollWidth > one.clientWidth) one.tabIndex = 0; // keys push it
  }

  function choose(index, words = "") {
    at = index;
    whole = false;
    status.textContent = words;
    show();
    try { history.replaceState(null, "", `#${link(data.steps[at])}`); } catch { /* a page without an address */ }
  }

  function follow() {
    const plain = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
    const wanted = location.hash.slice(1);
    if (!wanted.startsWith("step-")) return;
    const index = data.steps.findIndex((step) => link(step) === wanted || plain(link(step)) === plain(wanted));
    status.textContent = index < 0 ? `Step ${plain(wanted).slice(5)} is not in this page; specdiag tree draws it from its trace.` : "";
    if (index >= 0) { at = index; whole = false; show(); }
    home.scrollIntoView();
    body.querySelector("h3").focus({ preventScroll: true });
  }

  run.select.addEventListener("change", () => choose(data.steps.findIndex((step) => step.run === +run.select.value)));
  request.select.addEventListener("change", () => choose(data.steps.findIndex((step) =>
    step.run === data.steps[at].run && step.request === +request.select.value)));
  number.select.addEventListener("change", () => choose(+number.select.value));
  home.append(make("div", { className: "tree-pick" }, run.label, request.label, number.label), make("div", { className: "tree-go" },
    go("Previous contradiction", "previous-contradiction", "wrong", -1),
    go("Next contradiction", "next-contradiction", "wrong", 1), go("Next step that leaves the spine", "next-branch", "leaves", 1)), status, body);
  home.hidden = false;
  document.getElementById("trees-drawn")?.setAttribute("hidden", "");
  show();
  addEventListener("hashchange", follow);
  follow();
})();
