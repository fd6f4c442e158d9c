"""A diagnosis as one HTML page that opens anywhere: no script, no request, nothing to install."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from specdiag import __version__, drawing
from specdiag.diagnosis import Diagnosis, Evidence, Run
from specdiag.provenance import Provenance
from specdiag.report import quote, table, text
from specdiag.report.text import visible
from specdiag.rule import SEVERITIES
from specdiag.store import Store

FOLDED = 25  # rows of a table that are shown before the rest is folded
LONGEST = 600  # characters of any text


def render(
    diagnosis: Diagnosis, store: Store | None = None, provenance: Provenance | None = None
) -> str:
    """The page; the same text for the same input."""
    runs, more_runs = _runs(diagnosis)
    return _environment().get_template("page.html.jinja").render(
        version=__version__,
        verdict=text.verdict(diagnosis), head=text.head(diagnosis),
        worst=diagnosis.worst(),
        headings=table.runs_table(diagnosis, [])[0],
        runs=runs, more_runs=more_runs, notes=_notes(diagnosis),
        groups=text.groups(diagnosis), ids=_ids(diagnosis),
        undecided=text.open_rules(diagnosis), passed=text.passed(diagnosis),
        inapplicable=text.inapplicable(diagnosis),
        notices=text.notices(diagnosis), inputs=_inputs(diagnosis),
        folded=FOLDED,
    )  # fmt: skip


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "prose": _prose, "figure": text.figure, "named": text.named, "things": text.count,
        "severities": text.severities, "by_file": _by_file, "compact": _compact,
        "share": text.share, "drawn": _drawn,
    }  # fmt: skip
    environment.globals["quoted"] = partial(quote.line, limit=LONGEST)
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
    """Where each finding is on the page: names that differ in odd characters only get numbers."""
    taken: set[str] = set()
    found = {}
    for finding in diagnosis.findings:
        base = anchor = text.anchor(finding.id)
        number = 2
        while anchor in taken:
            anchor, number = f"{base}-{number}", number + 1
        taken.add(anchor)
        found[finding.id] = anchor
    return found


def _runs(diagnosis: Diagnosis) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the table of runs; of a long one the worst, and the rest to be folded."""
    rows = table.runs_table(diagnosis)[1]
    worst = {finding.run: finding.id for finding in reversed(diagnosis.findings)}
    bars = _bars(diagnosis)
    made: list[dict[str, Any]] = []
    for run, (name, algorithm, accepted, *cells, said) in zip(diagnosis.runs, rows, strict=True):
        length, _, origin = accepted.removesuffix(")").partition(" (")
        word, _, rest = said.partition(", ")
        made.append({
            "name": name, "model": run.facts.get("model"), "algorithm": algorithm,
            "accepted": length, "origin": origin, "cells": cells, "bars": bars.get(run.name, {}),
            "said": word, "rest": rest, "finding": worst.get(run.name),
        })  # fmt: skip
    if len(made) <= FOLDED:
        return made, []
    order = {name: n for n, name in enumerate(SEVERITIES)} | {"ok": len(SEVERITIES) + 1}
    made.sort(key=lambda row: order.get(row["said"], len(SEVERITIES)))
    return made[:FOLDED], made[FOLDED:]


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


def _inputs(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Every file once, though it may hold several runs."""
    files = {one["path"]: one for run in diagnosis.runs for one in run.sources}
    return [files[path] for path in sorted(files)]
