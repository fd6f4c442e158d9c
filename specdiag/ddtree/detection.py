"""The tables of the detection bench."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from specdiag.ddtree import faults
from specdiag.ddtree.detect import Case

# Why some runs of a fault show nothing.
REASONS = {
    4: "no column holds the phase that keys were turned by, so it shows where the text changes, "
    "and a target with one attention layer in four can keep its text",
    49: "a stage has to grow beyond the noise of a busy machine",
}
TIMED = (48, 49)  # a busy machine can hide them
NAMED = 0.9  # share of faults whose first finding has to name them


@dataclass
class Summary:
    """What came of all cases."""

    cases: Sequence[Case]

    @property
    def faults(self) -> dict[int, list[Case]]:
        """The cases of each fault that had something to act on."""
        found: dict[int, list[Case]] = {}
        for case in self.cases:
            if case.number is not None and not case.benign:
                found.setdefault(case.number, [])
                if case.due is not None or case.error:
                    found[case.number].append(case)
        return found

    @property
    def sound(self) -> list[Case]:
        """The runs that have no fault, or a benign one."""
        return [case for case in self.cases if case.benign]

    @property
    def alarms(self) -> list[Case]:
        """Sound runs that are reported, and such as could not be made."""
        return [case for case in self.sound if case.alarms or case.error]

    @property
    def detected(self) -> list[int]:
        """Faults that are reported in every run that had them."""
        return [n for n, some in self.faults.items() if some and all(c.causes for c in some)]

    @property
    def named(self) -> list[int]:
        """Faults that the first finding names, in most of their runs."""
        return [n for n, some in self.faults.items() if _most([c.named for c in some])]

    @property
    def good(self) -> bool:
        """Whether faults are found in most of their runs, nine in ten named, no sound run is."""
        found = all(
            _most([bool(case.causes) for case in some])
            for number, some in self.faults.items()
            if number not in TIMED
        )
        return found and len(self.named) >= NAMED * len(self.faults) and not self.alarms


def _most(flags: Sequence[bool]) -> bool:
    return 2 * sum(flags) > len(flags)


def conclusion(summary: Summary) -> str:
    """Three lines, and one for each miss."""
    total = len(summary.faults)
    lines = [
        f"{len(summary.detected)} of {total} faults are found in every run that has them.",
        f"{len(summary.named)} of {total} are named by the first finding.",
        f"{len(summary.alarms)} of {len(summary.sound)} sound runs raise an alarm.",
    ]
    for number in summary.faults:
        if number not in summary.detected or number not in summary.named:
            why = f"; {REASONS[number]}" if number in REASONS else ""
            lines.append(f"F{number}: {_misses(summary.faults[number])}{why}")
    for case in summary.alarms:
        lines.append(f"{case.trial.name}: {case.error or ', '.join(case.alarms)}")
    return "\n".join(lines)


def _misses(cases: Sequence[Case]) -> str:
    if not cases:
        return "had nothing to act on"
    seen = Counter(case.error or (case.causes[0][0] if case.causes else "nothing")
                   for case in cases if not case.named)  # fmt: skip
    return ", ".join(f"{what} ({count})" for what, count in seen.most_common())


def markdown(summary: Summary, minutes: float) -> str:
    """The report."""
    lines = [
        "# Detection", "",
        "`specdiag ddtree detect` breaks the bundled runtime in every way of the catalogue, from "
        "a given step on, and has the ordinary rules judge the ordinary traces.", "",
        conclusion(summary).split("\n")[0], conclusion(summary).split("\n")[1],
        conclusion(summary).split("\n")[2], f"{minutes:.0f} minutes on two cores.", "",
        "*Named*: the first finding, causes before consequences and the worst first, has the "
        "fault's number. *Step*: runs whose first finding names the very step in which the fault "
        "first did something that its record can show; faults that only show in the text, in a "
        "law or in times are found later. *Without*: parts of the trace that it is not named "
        "without.", "",
        "| fault | | runs | found | named | step | first finding | not named without |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for number, cases in summary.faults.items():
        known = faults.all_faults()[number]
        first = Counter(case.causes[0][0] for case in cases if case.causes).most_common(1)
        exact = sum(case.found is not None and case.found == case.due for case in cases)
        needed = sorted({part for case in cases for part in case.needed})
        lines.append(
            f"| F{number} | {known.title} | {len(cases)} | {sum(bool(c.causes) for c in cases)} "
            f"| {sum(c.named for c in cases)} | {exact} | {first[0][0] if first else '-'} "
            f"| {', '.join(needed) or '-'} |"
        )
    lines += [
        "",
        "Sound runs, with near ties, simulated acceptance, warm-up rounds and others:",
        "",
    ]
    kinds = Counter(_kind(case) for case in summary.sound)
    loud = Counter(_kind(case) for case in summary.alarms)
    lines += ["| runs | | alarms |", "|---|---|---|"]
    lines += [f"| {kind} | {count} | {loud[kind]} |" for kind, count in sorted(kinds.items())]
    misses = conclusion(summary).split("\n")[3:]
    if misses:
        lines += ["", "Misses and false alarms:", "", *(f"- {miss}" for miss in misses)]
    elsewhere = "; ".join(f"F{n} ({why})" for n, why in faults.ELSEWHERE.items())
    lines += ["", f"Not shown here, for want of what they need: {elsewhere}."]
    return "\n".join(lines)


def _kind(case: Case) -> str:
    if case.number is not None:
        return f"F{case.number}: {faults.all_faults()[case.number].title}"
    return case.trial.label.strip("-").replace("sound-", "")
