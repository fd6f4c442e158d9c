"""Runs as reports tell them: a table row each, a verdict, and how the figures came to be."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from specdiag.diagnosis import Diagnosis
from specdiag.finding import Run
from specdiag.report.text import MISSING, count, duration_ms, figure, visible
from specdiag.rule import SEVERITIES

# Where an accept length comes from, if not from the usual: decode lines or steps.
_ACCEPT_FROM = {
    "acceptance": "counters", "request": "requests", "benchmark": "benchmark",
}  # fmt: skip
_PLAIN = {"NONE", "AUTOREGRESSIVE", "PLAIN", "BASELINE"}  # names of decoding without speculation
_RATES = {
    "drafts_per_proposed": "accept rate counts drafts only, over draft tokens − 1 "
    "(SGLang from 0.5.11)",
    "commit_per_proposed": "accept rate counts the bonus too, over draft tokens "
    "(SGLang up to 0.5.10): its floor is 1/N, not 0",
    "commit_per_step": "accept rate counts the bonus too, over draft steps + 1 "
    "(SGLang 0.5.3 and 0.5.4): its floor is 1/(steps + 1), not 0",
}


HEADINGS = ["run", "algorithm", "accept length", "tok/s", "step", "context", "verdict"]


def runs_table(
    diagnosis: Diagnosis, runs: list[Run] | None = None, said: Mapping[str, str] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Headings and cells: what each run is, and what the rules say of it.

    `said` is what `run_verdicts` gave, where that is known already.
    """
    said = run_verdicts(diagnosis) if said is None else said
    rows = []
    for run in diagnosis.runs if runs is None else runs:
        facts = run.facts
        rows.append([
            visible(run.name, 80), algorithm(run), _accept_length(run),
            figure(facts.get("tokens_per_s")), _step(run), _context(run), said[run.name],
        ])  # fmt: skip
    return list(HEADINGS), rows


def run_verdicts(diagnosis: Diagnosis) -> dict[str, str]:
    """Of every run its worst severity, or whether the rules found it in order."""
    worst: dict[str, str] = {}
    for finding in diagnosis.unaccepted:
        known_worst = worst.get(finding.run, finding.severity)
        worst[finding.run] = min(known_worst, finding.severity, key=SEVERITIES.index)
    known = {finding.run for finding in diagnosis.findings} - set(worst)
    counts = Counter((one.run, one.result) for one in diagnosis.results)
    said = {}
    for run in diagnosis.runs:
        passes, undecided = counts[run.name, "pass"], counts[run.name, "undecided"]
        words = ["accepted" if run.name in known else "ok"] * bool(passes or run.name in known)
        words += [f"{undecided} undecided"] * bool(undecided)
        said[run.name] = worst.get(run.name) or ", ".join(words) or "nothing to check"
    return said


def urgency(said: str) -> int:
    """What verdicts are sorted by: the worst first, runs in order last."""
    if said in SEVERITIES:
        return SEVERITIES.index(said)
    return len(SEVERITIES) + said.startswith("ok")


def foremost(diagnosis: Diagnosis, most: int) -> list[Run]:
    """The runs that a table has room for: all as they come, or of too many the worst."""
    if len(diagnosis.runs) <= most:
        return diagnosis.runs
    said = run_verdicts(diagnosis)
    return sorted(diagnosis.runs, key=lambda run: urgency(said[run.name]))[:most]


def algorithm(run: Run) -> str:
    """What was asked for, and what ran where that is something else."""
    asked, executed = run.facts.get("algorithm"), run.facts.get("executed")
    if not asked or not executed or asked == executed or {asked, executed} <= _PLAIN:
        return visible(asked or executed or MISSING, 80)
    return f"{visible(asked, 40)} asked, {visible(executed, 40)} ran"


def notes(run: Run) -> list[str]:
    """What a reader must know about how the figures of a run came to be."""
    found = []
    if formula := _RATES.get(run.facts.get("rate_formula", "")):
        found.append(formula)
    if run.facts.get("step_ms_measured") is False:
        found.append("step time is computed as running × commit length / throughput, not measured")
    drafts = run.facts.get("first_verify_drafts")
    if drafts is not None and run.facts.get("tree"):
        found.append(
            f"the first verification accepted {count(round(drafts), 'draft')}: the path ran once, "
            "which is a sign of life and no statistic"
        )
    return found


def shared_notes(diagnosis: Diagnosis) -> list[tuple[str, list[str]]]:
    """Every note once, with the runs that it is about."""
    owners: dict[str, list[str]] = defaultdict(list)
    for run in diagnosis.runs:
        for note in notes(run):
            owners[note].append(run.name)
    return list(owners.items())


def _accept_length(run: Run) -> str:
    length = run.facts.get("accept_len")
    if length is None or not math.isfinite(length):
        return MISSING
    origin = _ACCEPT_FROM.get(run.facts.get("accept_len_from", ""))
    return f"{length:,.2f} ({origin})" if origin else f"{length:,.2f}"


def _step(run: Run) -> str:
    ms = duration_ms(run.facts.get("step_ms"))
    return f"~{ms}" if ms != MISSING and run.facts.get("step_ms_measured") is False else ms


def _context(run: Run) -> str:
    low, high = (run.facts.get(key) for key in ("ctx_min", "ctx_max"))
    if low is None or high is None:
        return figure(high if low is None else low)
    low, high = figure(round(low)), figure(round(high))
    return low if low == high else f"{low}–{high}"
