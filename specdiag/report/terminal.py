"""The report that `specdiag analyze` prints: verdict, runs, findings, what is undecided."""

from __future__ import annotations

import io
import shutil
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specdiag.diagnosis import Diagnosis
from specdiag.finding import Evidence, Finding
from specdiag.report import drawing, quote, table, text
from specdiag.report.text import Group
from specdiag.report.visible import folded, visible

STYLES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": "blue"}
PROOFS = 2  # lines quoted a finding; the other reports have more
QUOTED = 230  # characters of a line
ROWS = 40  # runs in the table
NAME = 12  # characters of a run's name that have room beside the other columns
SPARE = ("context", "step", "tok/s")  # columns that make room for it, the first one first
GAP = 3  # characters between columns
PROOFS_TOLD = 3  # rules on traced steps that are told one by one where they are undecided
DRAWN = 18  # lines of a step's drawing; of a longer one the last two are told


def width() -> int:
    """Columns of the terminal; 100 where the output is none."""
    return max(72, shutil.get_terminal_size((100, 24)).columns)


def render(diagnosis: Diagnosis, colour: bool = False, width: int = 100) -> str:
    """The whole report as text."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False,
        emoji=False, markup=False, color_system="standard" if colour else None,
    )  # fmt: skip
    every = text.groups(diagnosis)
    groups = [group for group in every if not group.accepted]
    style = STYLES[groups[0].first.severity] if groups else "bold green"
    console.print(Text(text.verdict(diagnosis), style=style))
    if head := text.head(diagnosis, most=1):
        filled = textwrap.fill(
            head, console.width - 1, break_long_words=False, break_on_hyphens=False
        )
        console.print(Text(filled, style="dim"), soft_wrap=True)
    _runs(console, diagnosis)
    for group in groups:
        _group(console, group)
    _accepted(console, [one for group in every if group.accepted for one in group.findings])
    _assertions(console, diagnosis)
    _undecided(console, diagnosis)
    counts: dict[str, int] = defaultdict(int)
    for one in diagnosis.results:
        counts[one.result] += 1
    decided = counts["pass"] + counts["finding"]
    passed, idle = counts["pass"], counts["not applicable"]
    console.print(f"\n{passed:,} of {decided:,} checks passed; {idle:,} do not apply.")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _runs(console: Console, diagnosis: Diagnosis) -> None:
    shown = table.foremost(diagnosis, ROWS)
    headings, rows = table.runs_table(diagnosis, shown)
    columns = dict(zip(headings, zip(*rows, strict=True), strict=True)) if rows else {}
    room = _room(columns, console.width)
    while room < NAME and (spare := [one for one in SPARE if one in columns]):
        del columns[spare[0]]
        room = _room(columns, console.width)
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in columns:
        left = heading in ("run", "algorithm", "verdict")
        grid.add_column(heading, justify="left" if left else "right", overflow="fold")
    for name, *cells in zip(*columns.values(), strict=True):
        lines = folded(name, max(room, NAME))
        grid.add_row(Text("\n".join(lines)), *(Text(cell) for cell in cells))
    console.print(grid)
    if rest := len(diagnosis.runs) - len(shown):
        console.print(f"and {text.count(rest, 'more run')}")
    for note, names in table.shared_notes(diagnosis):
        of = "" if len(names) == len(diagnosis.runs) else f" ({text.named(names, 3)})"
        _say(console, f"note   {note}{of}", style="dim")


def _room(columns: Mapping[str, Sequence[str]], width: int) -> int:
    """Characters of a line that the other columns leave to the first one."""
    taken = [max(map(cell_len, (heading, *cells))) for heading, cells in columns.items()]
    return width - 1 - sum(taken[1:]) - GAP * len(taken)


def _group(console: Console, group: Group) -> None:
    finding = group.first
    title = Text(f"\n{finding.severity.upper()}  ", style=STYLES[finding.severity])
    title.append(finding.rule.title, style="bold")
    title.append(f"  [{finding.rule.name}]", style="dim")
    console.print(title)
    _one(console, finding)
    if len(group.findings) > 1:
        others = [other.run for other in group.findings[1:]]
        runs = text.count(len(others), "other run")
        _say(console, f"also   in {runs}: {text.named(others, 5)}")
    for cause in finding.causes[: text.CAUSES]:
        _say(console, f"maybe  {visible(text.told(cause), 600)}")
    for number, step in enumerate(finding.rule.fix, start=1):
        _say(console, f"{'next' if number == 1 else '    '}   {number}. {step}", indent=10)
    for other in group.consequences[:6]:
        where = "" if other.run == finding.run else f"{visible(other.run, 60)}: "
        _say(console, f"so     {where}{other.rule.name}: {visible(other.message, 400)}")
    if len(group.consequences) > 6:
        _say(console, f"so     and {len(group.consequences) - 6} more")


def _accepted(console: Console, findings: list[Finding]) -> None:
    if not findings:
        return
    names = text.named([f"{one.severity} {one.id}" for one in findings], 5)
    console.print(Text("\nAccepted", style="bold"), end="")
    console.print(
        Text(f": {text.count(len(findings), 'finding')} that no check fails for: {names}"),
        soft_wrap=True,
    )


def _one(console: Console, finding: Finding) -> None:
    where = visible(finding.run, 80)
    if finding.against:
        where += f" against {visible(finding.against, 80)}"
    _say(console, f"run    {where}")
    _say(console, f"what   {visible(finding.message, 1000)}", style="bold")
    if finding.impact:
        _say(console, f"costs  about {text.share(round(finding.impact, 2))} of the throughput")
    if finding.step is not None:
        _draw(console, drawing.draw(finding.step))
    for proof in finding.evidence[:PROOFS]:
        _quote(console, finding, proof)


def _draw(console: Console, lines: list[str]) -> None:
    """The tree of the step, where the path through it is what is wrong."""
    recorded, expected = (line.partition(":")[2] for line in lines[-2:])
    if recorded == expected:
        return
    for line in lines if len(lines) <= DRAWN else lines[-2:]:
        console.print(Text(f"         {line}".rstrip()), soft_wrap=True)


def _quote(console: Console, finding: Finding, proof: Evidence) -> None:
    console.print(
        Text(f"  proof  {visible(proof.path, 200)}:{proof.line}", style="cyan"), soft_wrap=True
    )
    line = quote.line(finding, proof, QUOTED)
    for part in textwrap.wrap(line, console.width - 10) or [""]:
        console.print(Text(f"         {part}", style="dim"), soft_wrap=True)


def _say(console: Console, words: str, indent: int = 7, style: str = "") -> None:
    filled = textwrap.fill(
        words, console.width - 1, initial_indent="  ", subsequent_indent=" " * (indent + 2),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    console.print(Text(filled, style=style), soft_wrap=True)


def _assertions(console: Console, diagnosis: Diagnosis) -> None:
    if not diagnosis.assertions:
        return
    console.print(Text("\nAssertions", style="bold"))
    for one in diagnosis.assertions:
        where = "" if one.run is None else f"{visible(one.run, 80)}: "
        if one.run is None or one.metric is None:  # else the message says what is held
            where += f"{one.name}: "
        style = {"failed": "red", "unmatched": "red", "undecided": "yellow"}.get(one.result, "")
        words = f"{one.result:<9}  {where}{visible(one.message, 400)}"
        _say(console, words, indent=11, style=style)


def _undecided(console: Console, diagnosis: Diagnosis) -> None:
    open_rules = text.open_rules(diagnosis)
    if not open_rules:
        return
    console.print(Text("\nUndecided: the input does not say", style="bold"))
    # What proves steps lacks columns of the same trace: one advice for all of it is enough.
    proofs = [one for one in open_rules if "replay" in one.rule.needs]
    proofs = proofs if len(proofs) > PROOFS_TOLD else []
    for one in open_rules:
        if one in proofs:
            continue
        runs = text.count(one.runs, "run")
        reason, _ = one.reasons[0]
        help = one.rule.enable or f"needs more: {reason}"
        _say(console, f"{one.rule.name} ({runs}): {help}", indent=2)
    if proofs:
        columns = sorted({name for one in proofs for name in one.rule.needs.get("step", ())})
        _say(
            console,
            f"{len(proofs)} proofs of traced steps need in each: {', '.join(columns)}",
            indent=2,
        )
