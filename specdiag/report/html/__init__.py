"""A diagnosis as one HTML page: no request, nothing to install, readable without its scripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from markupsafe import Markup

from specdiag import __version__
from specdiag.diagnosis import Diagnosis
from specdiag.provenance import Provenance
from specdiag.report import table, text
from specdiag.report.html import carried, explorer, filters, packing, pairs, pictures, runs
from specdiag.store import Store

FOLDED = 25  # rows of a table that are shown before the rest is folded
SUMMARY = 3  # kinds of findings that the first screen names
NODES = 20_000  # of draft trees
CAP = 1_400_000  # bytes of a page, whatever the input
# How many of the points of pictures, and how many of equal things in a list: the first that fits is
# taken. Lists become shorter before pictures are drawn again, which takes much longer.
BUDGETS = ((1.0, (100, 40, 15)), (0.4, (40,)), (0.1, (15,)), (0.0, (8,)))


def render(
    diagnosis: Diagnosis, store: Store | None = None, origin: Provenance | None = None,
    tokens: Callable[[int], str] | None = None,
) -> str:  # fmt: skip
    """The page; the same text for the same input. Without a store it has no pictures.

    `tokens` turns the ids in draft trees into text.
    """
    template = filters.environment().get_template("page.html.jinja")
    with ThreadPoolExecutor(1) as pool:
        data = pool.submit(carried.pack, diagnosis)  # pictures mostly wait for DuckDB
        for share, lists in BUDGETS:
            content = _content(diagnosis, store, origin, tokens, data, share)
            for most in lists:
                page = template.render(content, most=most)
                if len(page.encode("utf-8", "backslashreplace")) <= CAP:
                    return page
    return page


def _content(
    diagnosis: Diagnosis, store: Store | None, origin: Provenance | None,
    tokens: Callable[[int], str] | None, data: Future[carried.Carried], share: float,
) -> dict[str, Any]:  # fmt: skip
    """What the template shows, with a share of the points and nodes that a page may have."""
    shown, more, rest = runs.split(diagnosis)
    ids = runs.anchors("finding", [finding.id for finding in diagnosis.findings])
    drawn = pictures.pictures(diagnosis, store, ids, share) if store and share else []
    nodes = int(share * NODES)
    trees = explorer.build(store, diagnosis.findings, tokens, nodes, ids) if store else None
    groups = text.groups(diagnosis)
    packed = {"diagnosis": data.result().packed}
    if drawn:
        packed |= {"figures": packing.pack_json([one["data"] for one in drawn]),
                   "plotly": packing.plotly_packed()}  # fmt: skip
    if trees:
        packed["trees"] = packing.pack_json(trees.data)
    scripts = [
        packing.asset(name)
        for name, wanted in (("page.js", True), ("figures.js", drawn), ("explorer.js", trees))
        if wanted
    ]
    style = packing.asset("page.css") + packing.asset("explorer.css") * bool(trees)
    hashes = [packing.digest(one) for one in scripts]
    hashes += [packing.digest(packing.plotly())] if drawn else []
    marked: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in drawn:
        for name in one["findings"]:
            marked[name].append((one["id"], one["title"]))
    decided, applying = text.coverage(diagnosis)
    top = _top(groups)
    return dict(
        version=__version__, allowed=hashes, style=Markup(style),
        packed={name: Markup(one) for name, one in packed.items()},
        scripts=[Markup(one) for one in scripts],
        verdict=text.verdict(diagnosis), tone=_tone(diagnosis),
        decided=f"decidable: {decided:,} of {text.count(applying, 'rule')}" if applying else "",
        switch_on=text.to_switch_on(diagnosis),
        top=top[:SUMMARY], more_kinds=len(top[SUMMARY:]),
        headings=table.HEADINGS,
        runs=shown, more_runs=more, other_runs=rest, notes=_notes(diagnosis),
        groups=groups, ids=ids, marked=marked, names=runs.NAMED, json_runs=data.result().runs,
        pictures=drawn, kinds=pictures.grouped(drawn),
        pairs=pairs.pairs(diagnosis, store) if store else [],
        explorer=trees,
        steps=explorer.anchors(trees) if trees else {},
        undecided=text.open_rules(diagnosis), passed=text.passed(diagnosis),
        inapplicable=text.inapplicable(diagnosis),
        notices=text.notices(diagnosis), inputs=_inputs(diagnosis, origin), origin=origin,
        configuration=_configuration(origin) if origin else [], stored=store is not None,
        assertions=diagnosis.assertions, folded=FOLDED,
    )  # fmt: skip


def _top(groups: list[text.Group]) -> list[tuple[text.Group, int]]:
    """The kinds of findings that the first screen names, and on how many runs."""
    found: dict[str, tuple[text.Group, set[str]]] = {}
    for one in groups:
        if one.first.severity != "info" and not one.accepted:
            runs_of = found.setdefault(one.first.rule.name, (one, set()))[1]
            runs_of.update(finding.run for finding in one.findings)
    return [(one, len(names)) for one, names in found.values()]


def _tone(diagnosis: Diagnosis) -> str:
    """The colour and the icon of the verdict: silence is no health where nothing was decided."""
    worst = diagnosis.worst()
    if worst in (None, "info"):
        return "ok" if text.passed(diagnosis) else "info"
    return str(worst)


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
