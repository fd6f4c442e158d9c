"use strict";
// What the whole page does: theme, search, links into folded parts, copying, saving, printing.

const specdiag = (() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  root.classList.add("js");

  // The text of a packed part: gzip in base64.
  async function unpack(id) {
    const packed = Uint8Array.from(atob(byId("data-" + id).textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  // What `--output json` writes; its results travel as columns.
  async function diagnosis() {
    const { before, after, rules, orders, said, results } = JSON.parse(await unpack("diagnosis"));
    const lines = results.flatMap(([rule, order, which]) => orders[order].map(
      (run, n) => `\n  {"rule": ${rules[rule]}, "run": ${run}, ${said[which[n]]}}`));
    return before + lines.join(",") + after;
  }

  function store(key, value) {  // a browser may refuse to remember
    try {
      if (value !== undefined) localStorage.setItem(key, value);
      return localStorage.getItem(key);
    } catch { return null; }
  }

  // Theme

  const themes = ["auto", "light", "dark"];
  const listeners = [];
  function setTheme(name) {
    if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
    byId("theme").textContent = "Theme: " + name;
    listeners.forEach((listener) => listener());
  }
  let theme = store("specdiag-theme");
  if (!themes.includes(theme)) theme = "auto";
  setTheme(theme);
  byId("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    store("specdiag-theme", theme);
    setTheme(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => listeners.forEach((l) => l()));

  // Links into folded parts

  function unfold(element) {
    for (let at = element; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  }
  function arrive() {
    const target = byId(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.closest("[hidden]")) {  // a link beats the search
      search.value = "";
      filter();
    }
    unfold(target);
    target.scrollIntoView();
    if (target.tabIndex >= -1) target.focus({ preventScroll: true });
  }
  addEventListener("hashchange", arrive);

  // Search

  const search = byId("search");
  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...document.querySelectorAll("[data-search]")];
    let found = 0;
    for (const one of all) {
      const text = one.textContent.toLowerCase();
      const matches = words.every((word) => text.includes(word));
      one.hidden = !matches;
      if (matches) found += 1;
      if (matches && words.length) unfold(one.parentElement);
    }
    byId("search-count").textContent = words.length ? `${found} of ${all.length}` : "";
  }
  search.addEventListener("input", filter);

  // Copying and saving

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button.copy");
    if (!button) return;
    const source = byId(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {  // no permission: what is marked can be copied by hand
      getSelection().selectAllChildren(source);
      if (!document.execCommand("copy")) return;
    }
    button.textContent = "Copied";
    button.addEventListener("blur", () => { button.textContent = "Copy"; }, { once: true });
  });

  function download(name, text, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }
  byId("save").addEventListener("click", async () => {
    download("specdiag.json", await diagnosis(), "application/json");
  });

  // Printing

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of opened) one.open = false; });

  return { unpack, diagnosis, arrive, onTheme: (listener) => listeners.push(listener) };
})();
if (document.readyState === "loading") addEventListener("DOMContentLoaded", specdiag.arrive);
else specdiag.arrive();
