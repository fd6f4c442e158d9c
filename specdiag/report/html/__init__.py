"""A diagnosis as one HTML page: no request, nothing to install, readable without its scripts."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from specdiag import __version__
from specdiag.diagnosis import Diagnosis, Evidence, Finding, Run
from specdiag.provenance import Provenance
from specdiag.report import drawing, json, quote, sides, table, text
from specdiag.report.html import packing, pairs, pictures
from specdiag.report.text import visible
from specdiag.rule import SEVERITIES
from specdiag.store import Store

FOLDED = 25  # rows of a table that are shown before the rest is folded
SHOWN = 10  # runs that are shown before the rest is folded
SUMMARY = 3  # kinds of findings that the first screen names
LONGEST = 600  # characters of any text
CAP = 5_000_000  # bytes of a page, whatever the input
# How many of the points of pictures, and of equal things in a list: the first that fits is taken.
BUDGETS = ((1.0, 300), (0.4, 100), (0.1, 30), (0.0, 8))

_HERE = Path(__file__).parent


def render(
    diagnosis: Diagnosis, store: Store | None = None, origin: Provenance | None = None
) -> str:
    """The page; the same text for the same input. Without a store it has no pictures."""
    for share, most in BUDGETS:
        page = _page(diagnosis, store, origin, share, most)
        if len(page.encode("utf-8", "backslashreplace")) <= CAP:
            break
    return page


def _page(
    diagnosis: Diagnosis, store: Store | None, origin: Provenance | None, share: float, most: int
) -> str:
    runs, more_runs = _runs(diagnosis)
    ids = _ids(diagnosis)
    drawn = pictures.pictures(diagnosis, store, ids, share) if store and share else []
    groups = text.groups(diagnosis)
    packed = {"diagnosis": packing.pack(json.render(diagnosis))}
    if drawn:
        packed |= {"figures": packing.pack_json([one["data"] for one in drawn]),
                   "plotly": packing.plotly_packed()}  # fmt: skip
    scripts = [packing.script("page.js")] + [packing.script("figures.js")] * bool(drawn)
    hashes = [packing.digest(one) for one in scripts]
    hashes += [packing.digest(packing.plotly())] if drawn else []
    marked: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in drawn:
        for name in one["findings"]:
            marked[name].append((one["id"], one["title"]))
    decided, applying = text.coverage(diagnosis)
    return _environment().get_template("page.html.jinja").render(
        version=__version__, allowed=hashes, style=Markup(packing.style("page.css")),
        packed={name: Markup(one) for name, one in packed.items()},
        scripts=[Markup(one) for one in scripts],
        verdict=text.verdict(diagnosis), tone=_tone(diagnosis),
        decided=f"decidable: {decided:,} of {text.count(applying, 'rule')}" if applying else "",
        switch_on=text.to_switch_on(diagnosis),
        top=[one for one in groups if one.first.severity != "info"][:SUMMARY],
        headings=table.runs_table(diagnosis, [])[0],
        runs=runs, more_runs=more_runs, notes=_notes(diagnosis),
        groups=groups, ids=ids, marked=marked, most=most,
        pictures=drawn, pairs=pairs.pairs(diagnosis, store) if store else [], trees=None,
        undecided=text.open_rules(diagnosis), passed=text.passed(diagnosis),
        inapplicable=text.inapplicable(diagnosis),
        notices=text.notices(diagnosis), inputs=_inputs(diagnosis, origin), origin=origin,
        configuration=_configuration(origin) if origin else [], stored=store is not None,
        folded=FOLDED,
    )  # fmt: skip


def _tone(diagnosis: Diagnosis) -> str:
    """The colour and the icon of the verdict: silence is no health where nothing was decided."""
    worst = diagnosis.worst()
    if worst in (None, "info"):
        return "ok" if text.passed(diagnosis) else "info"
    return str(worst)


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "prose": _prose, "figure": text.figure, "named": text.named, "things": text.count,
        "severities": text.severities, "by_file": _by_file, "compact": _compact,
        "share": text.share, "drawn": _drawn, "code": _code, "sides": sides.sides,
    }  # fmt: skip
    environment.globals["quoted"] = partial(quote.line, limit=LONGEST)
    environment.globals["commands"] = _commands
    return environment


def _shown(value: Any) -> Any:
    """Whatever the template prints, with invisible characters as escapes; markup stays."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value, LONGEST)
    return value


def _prose(words: str) -> Markup:
    """Text of a rule: it may have several lines, and code between backticks."""
    escaped = str(escape(visible(" ".join(words.split()), 2000)))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped))


def _code(sql: str) -> Markup:
    """SQL without its header, line by line."""
    lines = sql.splitlines()
    while lines and (lines[0].startswith("--") or not lines[0].strip()):
        lines.pop(0)
    return Markup("\n".join(str(escape(visible(line, LONGEST))) for line in lines))


def _commands(finding: Finding) -> list[str]:
    """What to type next."""
    if finding.step is None or not finding.evidence:
        return []
    words = ["specdiag", "tree", finding.evidence[0].path, "--run", finding.run]
    if finding.step.get("request") is not None:
        words += ["--request", str(finding.step["request"])]
    if finding.step.get("step") is not None:
        words += ["--step", str(finding.step["step"])]
    return [shlex.join(words)]


def _compact(values: dict[str, Any]) -> dict[str, str]:
    return {name: text.figure(value) for name, value in values.items() if value is not None}


def _drawn(step: dict[str, Any]) -> Markup:
    return Markup("\n".join(str(escape(visible(line, LONGEST))) for line in drawing.draw(step)))


def _by_file(evidence: list[Evidence]) -> list[tuple[str, list[Evidence]]]:
    files: dict[str, list[Evidence]] = defaultdict(list)
    for one in evidence:
        files[one.path].append(one)
    return list(files.items())


def _ids(diagnosis: Diagnosis) -> dict[str, str]:
    """Where each finding is on the page."""
    return _anchors("finding", [finding.id for finding in diagnosis.findings])


def _anchors(kind: str, names: list[str]) -> dict[str, str]:
    """HTML ids: names that differ in odd characters only get numbers."""
    taken: set[str] = set()
    found = {}
    for name in names:
        base = anchor = text.anchor(name, kind)
        number = 2
        while anchor in taken:
            anchor, number = f"{base}-{number}", number + 1
        taken.add(anchor)
        found[name] = anchor
    return found


def _decided(diagnosis: Diagnosis) -> dict[str, tuple[int, int]]:
    """Of every run how many rules decided, and how many could not."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in diagnosis.results:
        counts[one.run][one.result] += 1
    return {
        run.name: (counts[run.name]["pass"] + counts[run.name]["finding"],
                   counts[run.name]["undecided"])
        for run in diagnosis.runs
    }  # fmt: skip


def _runs(diagnosis: Diagnosis) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the table of runs; of a long one the worst, and the rest to be folded."""
    rows = table.runs_table(diagnosis)[1]
    worst = {finding.run: finding.id for finding in reversed(diagnosis.findings)}
    bars = _bars(diagnosis)
    counts = _decided(diagnosis)
    anchors = _anchors("run", [run.name for run in diagnosis.runs])
    made: list[dict[str, Any]] = []
    for run, (name, algorithm, accepted, *cells, said) in zip(diagnosis.runs, rows, strict=True):
        length, _, origin = accepted.removesuffix(")").partition(" (")
        word = said.partition(", ")[0]
        passes, undecided = counts[run.name]
        made.append({
            "name": name, "id": anchors[run.name], "algorithm": algorithm,
            "model": run.facts.get("model"), "version": run.facts.get("version"),
            "decided": f"{passes:,} of {passes + undecided:,}" if passes + undecided else "–",
            "accepted": length, "origin": origin, "cells": cells, "bars": bars.get(run.name, {}),
            "said": word, "finding": worst.get(run.name),
        })  # fmt: skip
    if len(made) <= SHOWN:
        return made, []
    order = {name: n for n, name in enumerate(SEVERITIES)} | {"ok": len(SEVERITIES) + 1}
    made.sort(key=lambda row: order.get(row["said"], len(SEVERITIES)))
    return made[:SHOWN], made[SHOWN:]


def _bars(diagnosis: Diagnosis) -> dict[str, dict[str, int]]:
    """Percent of the longest bar, where all runs may be compared: several, of one model."""
    if len(diagnosis.runs) < 2 or len({run.facts.get("model") for run in diagnosis.runs}) > 1:
        return {}
    values = {
        run.name: (max(0.0, _number(run, "accept_len") - 1), _number(run, "tokens_per_s"))
        for run in diagnosis.runs
    }
    most = [max(column) for column in zip(*values.values(), strict=True)]
    return {
        name: {"accepted": _share(accepted, most[0]), "speed": _share(speed, most[1])}
        for name, (accepted, speed) in values.items()
    }


def _number(run: Run, key: str) -> float:
    value = run.facts.get(key)
    return float(value) if isinstance(value, (int, float)) and value == value else 0.0


def _share(part: float, whole: float) -> int:
    return round(100 * part / whole) if 0 < part <= whole < float("inf") else 0


def _notes(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """What must be known of the figures, and of which runs."""
    every = len(diagnosis.runs)
    return [
        (note, "" if len(names) == every else text.named(names))
        for note, names in table.shared_notes(diagnosis)
    ]


def _inputs(diagnosis: Diagnosis, origin: Provenance | None) -> list[dict[str, Any]]:
    """Every file once, though it may hold several runs."""
    if origin:
        return [asdict(one) for one in origin.inputs]
    files = {one["path"]: one for run in diagnosis.runs for one in run.sources}
    return [files[path] for path in sorted(files)]


def _configuration(origin: Provenance) -> list[str]:
    """What the user set, in words."""
    said = [f"file {origin.config}"] if origin.config else []
    said += [
        f"{rule}.{name} = {text.figure(value)}"
        for rule, values in sorted((origin.params or {}).items())
        for name, value in sorted(values.items())
    ]
    said += [f"baseline {origin.baseline}"] if origin.baseline else []
    said += [f"fails on {origin.fail_on}"] if origin.fail_on else []
    return said + [f"requires {name}" for name in origin.require]
