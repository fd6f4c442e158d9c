"""Runs, rules, findings: causes before consequences, the worst first, each with its proof."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb

from specdiag import bundled, definition, outcome, parser, quoting, rule, ruling, store
from specdiag.assertions import Verdict
from specdiag.clock import NO_DAY
from specdiag.errors import NOTHING_READ, Notice, SpecdiagError
from specdiag.finding import Evidence, Finding, Run, explain, rank, ranked
from specdiag.means import Means
from specdiag.reading import Progress
from specdiag.rule import SEVERITIES, Decision, Hit, Rule
from specdiag.runs import in_order
from specdiag.source import Source
from specdiag.store import Store

QUOTED = 4  # proof lines a finding


@dataclass(repr=False)
class Diagnosis:
    """What was found, and all that a report needs. `str` of it is the report as text."""

    runs: list[Run]
    findings: list[Finding]  # causes, the worst first; then what follows from them
    results: list[Decision]
    rules: list[Rule]
    notices: list[Notice]
    broken: list[SpecdiagError] = field(default_factory=list)  # rules that did not run
    tables: Store | None = field(default=None, compare=False)  # which copies share
    fail_on: str = "high"  # the severity from which on it is not ok, or never
    require: tuple[str, ...] = ()  # rules without which it is not ok where they are undecided
    assertions: list[Verdict] = field(default_factory=list)  # what the user holds runs to

    @property
    def causes(self) -> list[Finding]:
        """Findings that follow from no other."""
        return [finding for finding in self.findings if finding.explained_by is None]

    @property
    def counted(self) -> list[Finding]:
        """The causes that nobody has accepted: exit codes are about them."""
        return [finding for finding in self.causes if finding.accepted is None]

    @property
    def ok(self) -> bool:
        """Whether `specdiag check` would exit with 0, under the same settings."""
        return outcome.exit_code(self, self.fail_on) == 0

    def at_least(self, severity: str) -> list[Finding]:
        """Causes of this severity or worse that nobody accepted; none at severity `never`.

        Raises SpecdiagError where it is no severity.
        """
        if severity == "never":
            return []
        if severity not in SEVERITIES:
            raise SpecdiagError(
                f"{severity!r} is no severity", "", f"one of {', '.join(SEVERITIES)}, never"
            )
        reached = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return [cause for cause in self.counted if cause.severity in reached]

    def finding(self, rule: str, run: str | None = None) -> Finding | None:
        """The worst finding of a rule, on one run or on any.

        Raises SpecdiagError where no rule of that name was applied: its silence would mean nothing.
        """
        if all(one.name != rule for one in self.rules):
            raise SpecdiagError(f"no rule is called {rule}", "", "see `specdiag rules`")
        return next(
            (one for one in self.findings if one.rule.name == rule and run in (None, one.run)), None
        )

    @property
    def facts(self) -> dict[str, dict[str, Any]]:
        """Of every run the columns of table run that it has: `facts["server"]["accept_len"]`."""
        return {run.name: run.facts for run in self.runs}

    @property
    def store(self) -> duckdb.DuckDBPyConnection:
        """The tables of schema.sql, for SQL that reads no file and no network.

        Raises SpecdiagError where there are none, as of a result that was saved as JSON.
        """
        if self.tables is None:
            raise SpecdiagError("this diagnosis has no tables", "", "diagnose the logs again")
        return self.tables.seal()

    def to_dict(self) -> dict[str, Any]:
        """The same as `to_json`, as dicts and lists."""
        from specdiag.report import json

        return json.document(self)

    def to_json(self) -> str:
        """What `specdiag analyze --output json=FILE` writes."""
        from specdiag.report import json

        return json.render(self)

    def __str__(self) -> str:
        """What `specdiag analyze` prints, warnings first, without colour, 100 columns wide."""
        from specdiag.report import terminal

        return "\n".join([*map(str, self.notices), *map(str, self.broken), terminal.render(self)])

    def __repr__(self) -> str:
        from specdiag.report import text

        return f"<Diagnosis: {text.verdict(self)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from specdiag.report import notebook

        return notebook.render(self)

    def consequences(self, finding: Finding) -> list[Finding]:
        return [one for one in self.findings if one.explained_by == finding.id]

    @property
    def unaccepted(self) -> list[Finding]:
        """The findings that count, and what follows from them; also at second hand."""
        by_id = {finding.id: finding for finding in self.findings}

        def accepted(finding: Finding) -> bool:
            seen: set[str] = set()
            while finding.accepted is None and finding.id not in seen:
                seen.add(finding.id)
                finding = by_id.get(finding.explained_by or "", finding)
            return finding.accepted is not None

        return [finding for finding in self.findings if not accepted(finding)]

    def worst(self) -> str | None:
        """The worst severity that nobody has accepted."""
        severities = (finding.severity for finding in self.unaccepted)
        return min(severities, key=SEVERITIES.index, default=None)


def definitions(
    parser_folders: list[Path], rule_folders: list[Path]
) -> tuple[list[parser.Parser], list[Rule], list[SpecdiagError]]:
    """Every parser and rule, and the user's files among them that are broken."""
    broken: list[SpecdiagError] = []
    parsers: list[parser.Parser] = []
    for path in bundled.definitions(bundled.PARSERS, parser_folders, ".toml"):
        try:
            parsers.append(definition.load(path))
        except SpecdiagError as error:
            broken.append(error)
    rules: list[Rule] = []
    for path in bundled.definitions(bundled.RULES, rule_folders, ".sql"):
        try:
            rules.append(rule.load(path))
        except SpecdiagError as error:
            broken.append(error)
    return parsers, rules, broken


def fill(
    files: list[Source], parsers: list[parser.Parser], progress: Progress | None = None,
    baseline: str = "", saved: Sequence[Path] = (), means: Means | None = None,
) -> Store:  # fmt: skip
    """Read files into a locked store that also knows the words of rules."""
    using = means or Means()
    filled = store.load(
        files, parsers, progress, baseline, saved, using.threads, using.memory, using.cache,
        using.timings,
    )  # fmt: skip
    filled.db.execute(rule.MACROS)
    return filled


def analyze(
    files: list[Source], parsers: list[parser.Parser], rules: list[Rule],
    params: Mapping[str, Mapping[str, Any]], progress: Progress | None = None,
    baseline: str = "", saved: Sequence[Path] = (), means: Means | None = None,
) -> tuple[Diagnosis, Store]:  # fmt: skip
    """Read files, run the rules, and put what they find in order.

    `baseline` is the name of a run that all others are compared with; `saved` are the databases
    that the store will be copied to. Raises SpecdiagError (exit code 3) when no file could be read.
    """
    chosen = rule.parameters(rules, params)
    rules = [replace(one, params=chosen[one.name]) for one in rules]  # reports show those in force
    using = means or Means()
    filled = fill(files, parsers, progress, baseline, saved, using)
    if not any(reading.lines for reading in filled.readings):
        own = Notice(
            "there is nothing to read but results of specdiag itself",
            ", ".join(file.name for file in files[:3]),
            "give the logs and traces that they were made from",
        )
        first = filled.notices[0] if filled.notices else own
        raise SpecdiagError(first.what, first.where, first.help, NOTHING_READ)
    hits: list[tuple[Rule, Hit]] = []
    results: list[Decision] = []
    broken: list[SpecdiagError] = []
    for result in ruling.apply(rules, filled, using):
        if isinstance(result, SpecdiagError):
            broken.append(result)
            continue
        one, found, decided = result
        hits += [(one, hit) for hit in found]
        results += decided
    findings = _findings(hits, filled)
    explain(findings)
    told = ranked(findings)
    return Diagnosis(_runs(filled), told, results, rules, filled.notices, broken), filled


def _findings(hits: list[tuple[Rule, Hit]], filled: Store) -> list[Finding]:
    texts = _quote([hit for _, hit in hits], filled)
    steps = steps_at({hit.places[0] for _, hit in hits if _tells_of_step(hit)}, filled)
    hits.sort(key=lambda h: rank(h[1].severity, h[1].impact, h[0].name, h[1].run))
    seen: dict[str, int] = defaultdict(int)
    findings = []
    for one, hit in hits:
        name = f"{one.name}@{hit.run}"
        seen[name] += 1
        findings.append(
            Finding(
                id=name if seen[name] == 1 else f"{name}#{seen[name]}",
                rule=one, run=hit.run, against=hit.against, severity=hit.severity,
                message=hit.message, impact=hit.impact, values=hit.values, causes=hit.causes,
                evidence=[
                    Evidence(filled.readings[source].source.name, line, texts[source, line])
                    for source, line in hit.places[:QUOTED] if (source, line) in texts
                ],
                step=steps.get(hit.places[0]) if _tells_of_step(hit) else None,
            )
        )  # fmt: skip
    return findings


def _tells_of_step(hit: Hit) -> bool:
    return hit.values.get("step") is not None and bool(hit.places)


def steps_at(places: set[tuple[int, int]], filled: Store) -> dict[tuple[int, int], dict[str, Any]]:
    """The steps that findings tell of, by (source, line): the columns of table step."""
    wanted = sorted(places)
    if not wanted:
        return {}
    rows = filled.rows(
        """SELECT s.* FROM step s
           JOIN (SELECT unnest(?) AS source, unnest(?) AS line) w USING (source, line)
           WHERE len(s.parents) > 0""",
        [[source for source, _ in wanted], [line for _, line in wanted]],
    )
    return {(row["source"], row["line"]): row for row in rows}


def _quote(hits: list[Hit], filled: Store) -> dict[tuple[int, int], str]:
    wanted: dict[int, set[int]] = defaultdict(set)
    for hit in hits:
        for source, line in hit.places[:QUOTED]:
            if 0 <= source < len(filled.readings):  # a user's rule may cite what is not there
                wanted[source].add(line)
    return {
        (source, line): text
        for source, numbers in wanted.items()
        for line, text in quoting.quote(filled.readings[source].source, numbers).items()
    }


def _runs(filled: Store) -> list[Run]:
    files: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in filled.rows(
        """SELECT DISTINCT p.run, s.source, s.path, s.format, s.lines, s.parsed
           FROM part p JOIN source s USING (source) ORDER BY p.run, s.source"""
    ):
        files[row["run"]].append({k: row[k] for k in ("path", "format", "lines", "parsed")})
    runs = []
    for row in sorted(filled.rows("FROM run"), key=lambda row: in_order(row["run"])):
        facts = {k: rule.plain(v) for k, v in row.items() if k != "run" and v is not None}
        if facts.get("started", "").startswith(NO_DAY):
            del facts["started"], facts["ended"]
        runs.append(Run(row["run"], files[row["run"]], facts))
    return runs
