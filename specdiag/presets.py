"""Presets of `specdiag check`: what a benchmark job, a strict one and a smoke test demand.

A smoke test proves that a new algorithm runs at all: its runner is initialised, the mode that was
asked for is the one that works, and at least one verification is reported. It proves no more. One
verification is no proof of correctness.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from specdiag import bundled
from specdiag.assertions import Verdict
from specdiag.diagnosis import Diagnosis
from specdiag.errors import SpecdiagError, nearest
from specdiag.store import Store

EXECUTED, VERIFIED = "requested mode executed", "at least one verification"
NAMED = 5  # undecided rules that a message names


@dataclass(frozen=True)
class Preset:
    """What `check` demands beside the assertions of the user."""

    tells: str
    fail_on: str
    decided: bool = False  # every rule that applies to a run must be decided
    parsed: float | None = None  # the least share of a file's lines that must be understood
    hooks: bool = False  # NEEDS must hold for every run that speculates


PRESETS = {
    "ci": Preset("findings that are high or critical", fail_on="high"),
    "strict": Preset(
        "any finding, files that are read in part, and rules that apply but stay undecided",
        fail_on="low", decided=True, parsed=0.9,
    ),
    "smoke": Preset(
        "a new algorithm that does not show all of its signs of life", fail_on="high", hooks=True
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Need:
    """A sign of life: a condition on the columns of smoke.sql, and what is said without it."""

    title: str
    holds: str
    absent: str
    where: str = "true"  # runs that must show it


NEEDS = (
    # DFLASH_DDTREE announces itself at its first verification only.
    Need(
        title="runner initialised",
        holds="started > 0 OR traced > 0 OR (asked = 'DFLASH_DDTREE' AND verified > 0)",
        absent="no line says that a runner of it was initialised",
    ),
    Need(
        title="mode announced",
        holds="shadowed > 0 OR traced > 0",
        absent="no line says that shadow-linear mode is enabled",
        where="shadow",
    ),
    Need(
        title=EXECUTED,
        holds="started + verified + traced > 0 AND others = 0",
        absent="no line or step shows that it ran",
    ),
    # TREEFLASH reports no verification: the accept length of its decode lines is the sign.
    Need(
        title=VERIFIED,
        holds="""verified > 0 OR counted > 0 OR traced > 0
            OR (asked = 'TREEFLASH' AND accepts > 0)""",
        absent="none is reported",
    ),
)


def find(name: str) -> Preset:
    """The preset of a name.

    Raises SpecdiagError when there is none.
    """
    if name not in PRESETS:
        raise SpecdiagError(
            f"no preset is called {name}",
            "preset",
            nearest(name, PRESETS),
        )
    return PRESETS[name]


def judge(preset: Preset, diagnosis: Diagnosis, store: Store) -> list[Verdict]:
    """How every run stands to what a preset demands, beside its findings."""
    found: list[Verdict] = []
    if preset.parsed is not None:
        found += _read(preset.parsed, diagnosis)
    if preset.decided:
        found += _decided(diagnosis)
    if preset.hooks:
        found += _smoke(diagnosis, store)
    return found


def _read(least: float, diagnosis: Diagnosis) -> list[Verdict]:
    found = []
    for run in diagnosis.runs:
        short = [one for one in run.sources if one["lines"] and one["parsed"] < least]
        worst = min(short, key=lambda one: float(one["parsed"]), default=None)
        if worst is None:
            result, message = "ok", f"of each file at least {least:.0%} of the lines is understood"
        else:
            more = f" ({len(short)} files in all)" if len(short) > 1 else ""
            result = "failed"
            message = (
                f"{worst['parsed']:.1%} of {worst['path']} is understood, wanted {least:.0%}{more}"
            )
        found.append(Verdict("files understood", run.name, result, message))
    return found


def _decided(diagnosis: Diagnosis) -> list[Verdict]:
    # A rule with a condition is undecided only where that holds: it applies, and rows are missing.
    applying = {one.name for one in diagnosis.rules if one.applies}
    undecided: dict[str, list[str]] = defaultdict(list)
    for one in diagnosis.results:
        if one.result == "undecided" and one.rule in applying:
            undecided[one.run].append(one.rule)
    found = []
    for run in diagnosis.runs:
        names = sorted(undecided[run.name])
        message = "every rule that applies is decided"
        if names:
            shown = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
            message = f"{len(names)} rules that apply lack data: {shown}"
        result = "undecided" if names else "ok"
        found.append(Verdict("rules decided", run.name, result, message, required=True))
    return found


def _smoke(diagnosis: Diagnosis, store: Store) -> list[Verdict]:
    conditions = ", ".join(
        f"({need.holds}) AS holds_{n}, ({need.where}) AS asks_{n}" for n, need in enumerate(NEEDS)
    )
    signs = bundled.SMOKE.read_text(encoding="utf-8")
    rows = store.rows(f"SELECT *, {conditions} FROM ({signs}) ORDER BY run")
    if not rows:
        message = "no run speculates: there is no algorithm to look for"
        return [Verdict("smoke test", None, "unmatched", message)]
    denied = {
        one.run: one.message for one in diagnosis.findings if one.rule.name == "mode_not_executed"
    }
    found = []
    for row in rows:
        for n, need in enumerate(NEEDS):
            if row["asked"] is None:
                result, message = "undecided", "no line says which algorithm was asked for"
            elif not row[f"asks_{n}"]:
                continue
            elif need.title == EXECUTED and row["run"] in denied:
                result, message = "failed", denied[row["run"]]
            elif row[f"holds_{n}"]:
                result, message = "ok", _alive(need, row)
            else:
                result = "failed"
                message = f"{row['asked']} was asked for, but {need.absent}"
                if need.title == EXECUTED and row["others"]:
                    message = f"{row['asked']} was asked for, but {row['other']} ran"
            found.append(
                Verdict(f"smoke: {need.title}", row["run"], result, message, required=True)
            )
    return found


def _alive(need: Need, row: dict[str, object]) -> str:
    message = f"{row['asked']} shows it"
    if need.title == VERIFIED:
        message += ", a sign of life: one verification is no proof of correctness"
    return message
