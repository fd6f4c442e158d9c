"""Traced steps for the draft-tree explorer of a page, and what is shown of them without a script.

`build` chooses the steps (explorer.sql); `explorer.html.jinja` is the section, `explorer.js` fills
its `<div id="explorer">` from `Explorer.data`, which travels as JSON in `#data-trees`:

    first     the step that is shown first, an index into `steps`
    runs      [{name, steps, shown, wrong, wrong_shown, leaves, leaves_shown, rest, rest_shown}]:
              traced steps with a tree and those of them in the page, of all, of those that
              contradict themselves, that leave the spine, and that do neither
    requests  names, null for a request without one;  paths: files
    findings  [{title, href}] that cite one of the steps
    texts     {token id: its text}, where known
    steps     in the order of runs, requests and steps, each a dict:
      run, request, path            indexes;  line, step: numbers
      mode, ctx, budget, top_k, cut as recorded;  ms: {stage: milliseconds}, `step` the whole
      token, parent, rank, log_prob, target   columns, one entry a row; null if the trace has none
      accepted, expected            rows from the root on, null if not known
      by, least                     what says so of `expected`, and whether it may go on
      bonus, expected_bonus         tokens;  depth, commit: the engine's own counters
      leaves                        whether the accepted path leaves the spine
      wrong, more                   [[identity, field, entry, expected, observed]] that replay has,
                                    and how many more;  findings: indexes

What is not known is null. Whole numbers that a script could not hold exactly are text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from specdiag import trees
from specdiag.finding import Finding
from specdiag.report import drawing, text
from specdiag.report.html import filters, heat
from specdiag.report.html.values import column, exact, listed, rounded
from specdiag.report.text import count, visible
from specdiag.store import Store

HEAD = 12  # nodes whose room the rest of a step takes
WRONG = 12  # violations that are told of a step
NAME, LONG = 80, 120  # characters of a name, of a value
HEATS = 12  # heat maps in a page
STAGES = ("draft", "topk", "build", "compile", "verify", "walk", "commit", "idle", "step")

SELECT = Path(__file__).parent / "explorer.sql"

_CHOSEN = """
CREATE OR REPLACE TEMP TABLE chosen AS
SELECT id FROM (
    SELECT id, sum(rows + $head) OVER (ORDER BY class, place, run, id) AS total
    FROM (
        FROM explored WHERE rows + $head <= $most
        ORDER BY class, place, run, id LIMIT $most // $head
    )
) WHERE total <= $most
"""
_COUNTS = """
SELECT run AS name, count(*) AS steps, count(c.id) AS shown,
    count(*) FILTER (wrong) AS wrong, count(c.id) FILTER (wrong) AS wrong_shown,
    count(*) FILTER (leaves) AS leaves, count(c.id) FILTER (leaves) AS leaves_shown,
    count(*) FILTER (NOT wrong AND NOT leaves) AS rest,
    count(c.id) FILTER (NOT wrong AND NOT leaves) AS rest_shown
FROM explored e LEFT JOIN chosen c USING (id) GROUP BY run ORDER BY run
"""
_STEPS = """
WITH placed AS (
    SELECT e.*, min(id) OVER (PARTITION BY run, request) AS first
    FROM chosen JOIN explored e USING (id)
)
SELECT s.* REPLACE (p.number AS step), p.id, p.leaves, f.path
FROM placed p JOIN step s ON s.rowid = p.id LEFT JOIN source f USING (source)
ORDER BY p.run, p.first, p.number, p.id
"""
_WRONG = """
SELECT s.rowid AS id, identity, field, entry, expected, observed
FROM replay r JOIN step s ON s.source = r.source AND s.line = r.line AND s.run = r.run
    AND s.request IS NOT DISTINCT FROM r.request AND s.step IS NOT DISTINCT FROM r.step
WHERE s.rowid IN (SELECT id FROM chosen) ORDER BY ALL
"""
# Where no target choices are: what the request received from the step on.
_TEXTS = """
WITH blind AS (
    SELECT rowid AS id, run, request FROM step
    WHERE rowid IN (SELECT id FROM chosen) AND coalesce(list_count(target_tokens), 0) = 0
),
placed AS (
    SELECT rowid AS id, run, request, emitted,
        row_number() OVER (PARTITION BY run, request ORDER BY source, line) AS nth
    FROM step SEMI JOIN blind b ON b.run = step.run AND b.request IS NOT DISTINCT FROM step.request
    WHERE NOT coalesce(warmup, false)
),
wanted AS (
    SELECT p.id, p.run, p.request, unnest(range(nth, nth + $steps)) AS nth
    FROM placed p JOIN blind USING (id)
)
SELECT w.id, list(p.emitted ORDER BY p.nth) AS emitted
FROM wanted w JOIN placed p ON p.run = w.run AND p.request IS NOT DISTINCT FROM w.request
    AND p.nth = w.nth
GROUP BY w.id
"""


@dataclass(frozen=True)
class Explorer:
    """The steps of a page, and the part of the section that needs no script."""

    data: dict[str, Any]
    told: str  # how many of how many steps are there
    where: str  # which step is drawn
    drawn: Markup
    heats: list[heat.Map]
    more: list[str]  # runs whose heat map is left out


def anchor(run: str, request: str | None, step: int) -> str:
    """The fragment that leads to a step, in cards and in the address of the page."""
    names = (visible(run, NAME), visible(request or "", NAME), str(step))
    return "step-" + "/".join(quote(name, safe="!'()*~") for name in names)


def anchors(explorer: Explorer) -> dict[tuple[str, int], str]:
    """The fragments of all steps in the page, by file and line."""
    data = explorer.data
    found = {}
    for step in data["steps"]:
        run, request = data["runs"][step["run"]]["name"], data["requests"][step["request"]]
        found[data["paths"][step["path"]], step["line"]] = anchor(run, request, step["step"])
    return found


def build(
    store: Store, findings: Sequence[Finding], tokens: Callable[[int], str] | None = None,
    most_nodes: int = 20_000, anchors: Mapping[str, str] | None = None,
) -> Explorer | None:  # fmt: skip
    """What the explorer shows of a store; None if no step has a tree.

    `tokens` turns an id into text; `anchors` are the ids of findings in the page. Steps are left
    out so that there are fewer than `most_nodes` nodes, the head of a step counting as some.
    """
    db = store.db
    db.execute("CREATE OR REPLACE TEMP TABLE pointed (path VARCHAR, line BIGINT, place BIGINT)")
    cited = [
        (one.path, one.line, place)
        for finding in findings for place, one in enumerate(finding.evidence)
    ]  # fmt: skip
    if cited:
        db.execute(
            "INSERT INTO pointed SELECT unnest(?), unnest(?), unnest(?)",
            [list(column) for column in zip(*cited, strict=True)],
        )
    db.execute(SELECT.read_text(encoding="utf-8"))
    db.execute(_CHOSEN, {"most": most_nodes, "head": HEAD})
    runs, rows = store.rows(_COUNTS), store.rows(_STEPS)
    texts = {
        row["id"]: trees.text(row["emitted"]) for row in store.rows(_TEXTS, {"steps": trees.STEPS})
    }
    wrong: dict[int, list[list[Any]]] = {}
    for row in store.rows(_WRONG):
        wrong.setdefault(row["id"], []).append(_violation(row))
    for table in ("pointed", "explored", "chosen"):
        db.execute(f"DROP TABLE {table}")
    if not rows:
        return None
    for row in rows:
        row["text"] = texts.get(row["id"])
    pack = _Pack([row["name"] for row in runs], findings, anchors or {})
    steps = [pack.step(row, wrong.get(row["id"], [])) for row in rows]
    told = _told(runs)
    for row in runs:
        row["name"] = visible(row["name"], NAME)
    first = min(range(len(steps)), key=lambda n: (not steps[n]["wrong"], not steps[n]["leaves"], n))
    lines = drawing.draw(rows[first], tokens)
    maps, more = heat.maps(store, HEATS)
    return Explorer(
        {
            "first": first, "runs": runs, "requests": list(pack.requests),
            "paths": list(pack.paths), "findings": pack.findings,
            "texts": _texts(steps, tokens), "steps": steps,
        },
        told, _where(steps[first]),
        Markup("\n".join(str(escape(visible(line, filters.LONGEST))) for line in lines)),
        maps, more,
    )  # fmt: skip


class _Pack:
    """Steps as they travel, and the tables that they point into."""

    def __init__(
        self, runs: list[str], findings: Sequence[Finding], anchors: Mapping[str, str]
    ) -> None:
        self.runs = {run: number for number, run in enumerate(runs)}
        self.requests: dict[str | None, int] = {}
        self.paths: dict[str, int] = {}
        self.findings: list[dict[str, str]] = []
        self._anchors = anchors
        self._packed: dict[str, int] = {}
        self._citing: dict[tuple[str, int], list[Finding]] = {}
        for finding in findings:
            for one in finding.evidence:
                self._citing.setdefault((one.path, one.line), []).append(finding)

    def step(self, row: Mapping[str, Any], wrong: list[list[Any]]) -> dict[str, Any]:
        tree = trees.read(row)
        accepted = trees.whole(row.get("accepted"))
        expected, by = trees.expected(row, tree)
        bonus = tree.targets[expected[-1]] if expected is not None else None
        request = None if row["request"] is None else visible(row["request"], NAME)
        path = visible(row["path"] or "", 2 * LONG)
        citing = self._citing.get((row["path"], row["line"]), [])
        return {
            "run": self.runs[row["run"]],
            "request": self.requests.setdefault(request, len(self.requests)),
            "path": self.paths.setdefault(path, len(self.paths)),
            "line": row["line"], "step": exact(row["step"]),
            "mode": visible(str(row["mode"] or row["algorithm"] or ""), NAME) or None,
            "ctx": exact(row["ctx_len"]), "budget": exact(row["budget"]),
            "top_k": exact(row["top_k"]),
            "cut": visible(str(row["cut"]), NAME) if row["cut"] else None,
            "ms": {name: ms for name in STAGES if (ms := rounded(row[f"{name}_ms"])) is not None},
            "token": column(tree.tokens), "parent": column(tree.parents),
            "rank": column(tree.ranks), "log_prob": column(tree.log_probs),
            "target": column(tree.targets),
            "accepted": None if accepted is None else listed(accepted[: len(tree.parents) + 1]),
            "expected": expected, "by": by or None,
            "least": by == trees.TEXT and len(expected or []) > len(row["text"] or []),
            "bonus": exact(row["bonus"]), "expected_bonus": exact(bonus),
            "depth": rounded(row["accepted_depth"]), "commit": rounded(row["commit_len"]),
            "leaves": row["leaves"], "wrong": wrong[:WRONG], "more": max(0, len(wrong) - WRONG),
            "findings": sorted({self._finding(finding) for finding in citing}),
        }  # fmt: skip

    def _finding(self, finding: Finding) -> int:
        if finding.id not in self._packed:
            self._packed[finding.id] = len(self.findings)
            place = self._anchors.get(finding.id, text.anchor(finding.id))
            title = visible(f"{finding.severity}: {finding.rule.title}", LONG)
            self.findings.append({"title": title, "href": f"#{place}"})
        return self._packed[finding.id]


def _violation(row: Mapping[str, Any]) -> list[Any]:
    said = [
        None if row[key] is None else visible(row[key], LONG) for key in ("expected", "observed")
    ]
    return [row["identity"], visible(row["field"], NAME), exact(row["entry"]), *said]


def _texts(
    steps: Sequence[Mapping[str, Any]], tokens: Callable[[int], str] | None
) -> dict[str, str]:
    if tokens is None:
        return {}
    known: set[Any] = set()
    for step in steps:
        known.update(step["token"] or [], step["target"] or [], [step["bonus"]])
    ids = sorted(one for one in known if isinstance(one, int) and one >= 0)
    return {str(one): visible(said, drawing.TEXT) for one in ids if (said := tokens(one))}


def _told(runs: Sequence[Mapping[str, Any]]) -> str:
    total = {key: sum(run[key] for run in runs) for key in runs[0] if key != "name"}
    if total["shown"] == total["steps"]:
        return f"{count(total['steps'], 'traced step')}, all in this page."
    return (
        f"{total['shown']:,} of {total['steps']:,} traced steps are in this page: "
        f"{total['wrong_shown']:,} of {total['wrong']:,} that contradict themselves, "
        f"{total['leaves_shown']:,} of {total['leaves']:,} whose path leaves the spine, "
        f"{total['rest_shown']:,} of {total['rest']:,} others. `specdiag tree` draws any step."
    )


def _where(step: Mapping[str, Any]) -> str:
    if step["wrong"]:
        return "The first step that contradicts itself"
    return "The first step that leaves the spine" if step["leaves"] else "The first step"
