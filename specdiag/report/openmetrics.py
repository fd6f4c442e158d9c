"""A diagnosis as OpenMetrics 1.0 text: what a scrape or a push can watch over many runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from specdiag import __version__
from specdiag.diagnosis import Diagnosis
from specdiag.finding import Run
from specdiag.report.alarms import alarms
from specdiag.report.text import visible
from specdiag.rule import SEVERITIES

RESULTS = ("finding", "pass", "undecided", "not applicable")
ABOUT = ("algorithm", "executed", "model", "draft_model", "version")  # facts that are words
LABEL = 500  # characters

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Fact:
    """A figure of a run: its column in table run, its metric, and what turns one into the other."""

    column: str
    metric: str
    unit: str  # the end of the metric's name, or nothing for a bare number
    help: str
    scale: float = 1


FACTS = (
    Fact("accept_len", "accept_length_tokens", "tokens", "Tokens committed a step, the mean"),
    Fact("tokens_per_s", "generated_tokens_per_second", "tokens_per_second",
         "Tokens generated a second, all requests together, the median"),
    Fact("step_ms", "step_seconds", "seconds", "Time of a step, the median", 1 / 1000),
    Fact("ctx_min", "context_min_tokens", "tokens", "Shortest context of a request"),
    Fact("ctx_max", "context_max_tokens", "tokens", "Longest context of a request"),
    Fact("running", "running_requests", "requests", "Requests in a batch, the median"),
)  # fmt: skip


def render(diagnosis: Diagnosis) -> str:
    """The diagnosis; gauges have no time, so they are those of the run that is read."""
    lines = [
        *_family("specdiag_build", "info", "", "What wrote this"),
        _sample("specdiag_build_info", (("version", __version__),), 1),
        *_runs(diagnosis),
        *_findings(diagnosis),
        *_results(diagnosis),
        *_family(
            "specdiag_broken_definitions", "gauge", "", "Rules and parsers that were not used"
        ),
        _sample("specdiag_broken_definitions", (), len(diagnosis.broken)),
        *_family("specdiag_warnings", "gauge", "", "What could not be read as it should"),
        _sample("specdiag_warnings", (), len(diagnosis.notices)),
    ]
    for fact in FACTS:
        lines += _fact(diagnosis, fact)
    return "\n".join([*lines, "# EOF"]) + "\n"


def _runs(diagnosis: Diagnosis) -> Iterator[str]:
    yield from _family("specdiag_run", "info", "", "What each run is")
    seen = {
        _run(run.name): tuple(
            (name, visible(str(run.facts[name]), LABEL))
            for name in ABOUT if run.facts.get(name) is not None
        )
        for run in diagnosis.runs
    }  # fmt: skip
    for name, more in seen.items():
        yield _sample("specdiag_run_info", (*name, *more), 1)


def _findings(diagnosis: Diagnosis) -> Iterator[str]:
    name = "specdiag_findings"
    yield from _family(name, "gauge", "", "Findings that count and follow from no other")
    found = alarms(diagnosis)
    counts = Counter((_run(one.finding.run), one.finding.severity) for one in found if one.counts)
    for run in dict.fromkeys(
        [*(_run(one.name) for one in diagnosis.runs), *(r for r, _ in counts)]
    ):
        for severity in SEVERITIES:
            yield _sample(name, (*run, ("severity", severity)), counts[run, severity])
    name = "specdiag_accepted_findings"
    yield from _family(name, "gauge", "", "Those of them that are accepted, which do not count")
    accepted = Counter(_run(one.finding.run) for one in found if not one.counts)
    for run in dict.fromkeys([*(_run(one.name) for one in diagnosis.runs), *accepted]):
        yield _sample(name, run, accepted[run])


def _results(diagnosis: Diagnosis) -> Iterator[str]:
    name = "specdiag_rule_results"
    yield from _family(name, "gauge", "", "Rules by what they say of a run")
    counts = Counter((_run(one.run), one.result) for one in diagnosis.results)
    for run in dict.fromkeys(run for run, _ in counts):
        for result in RESULTS:
            yield _sample(name, (*run, ("result", result)), counts[run, result])


def _fact(diagnosis: Diagnosis, fact: Fact) -> Iterator[str]:
    values = {_run(run.name): _number(run, fact) for run in diagnosis.runs}
    told = {run: value for run, value in values.items() if value is not None}
    if told:
        yield from _family(f"specdiag_{fact.metric}", "gauge", fact.unit, fact.help)
    for run, value in told.items():
        yield _sample(f"specdiag_{fact.metric}", run, value)


def _number(run: Run, fact: Fact) -> float | None:
    value = run.facts.get(fact.column)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(f"{value * fact.scale:.12g}")  # 8 ms are 0.008 s


def _run(name: str) -> Labels:
    return (("run", visible(name, LABEL)),)


def _family(name: str, kind: str, unit: str, help: str) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {help}."


def _sample(name: str, labels: Labels, value: float) -> str:
    given = ",".join(f'{key}="{_escape(words)}"' for key, words in labels)
    return f"{name}{{{given}}} {value}" if given else f"{name} {value}"


def _escape(words: str) -> str:
    return words.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
