"""A diagnosis as Markdown: for pull requests, issues and chats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from specdiag import __version__
from specdiag.diagnosis import Diagnosis
from specdiag.finding import Evidence, Finding
from specdiag.report import drawing, quote, table, text
from specdiag.report.text import Group, visible

LIMIT = 65_000  # characters; a comment on GitHub holds 65,536
ROWS = 40  # runs that are listed
SHOWN = 10  # findings of one kind, or consequences, that are told in full

_SPECIAL = re.compile(r"[\\`*\[\]~|]|(?<!\w)_|_(?!\w)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# What a renderer turns into a list, a heading or a mention, where it starts a line or a word.
_START = re.compile(r"^(\d*)([#+=-](?!\d)|(?<=\d)[.)](?=\s|$))")
_MENTION = re.compile(r"@(?=\w)")


def render(diagnosis: Diagnosis, limit: int = LIMIT, size: Callable[[str], int] = len) -> str:
    """The diagnosis, log text escaped, its `size` at most `limit`.

    Whole findings are left out from the end, then whole entries below them, and that is said.
    """
    opening = _opening(diagnosis, limit // 4, size)
    closing = f"specdiag {__version__}\n"
    told = text.groups(diagnosis)
    below = [
        *_asserted(diagnosis),
        *_not_decided(diagnosis),
        *_counts(diagnosis),
        *_not_read(diagnosis),
    ]
    room = limit - size(opening) - size(closing) - 4000  # for headings, and what is left out
    reserved = min(sum(map(size, below)), room // 4)
    groups = _fitting(("\n".join([*_group(one), "", ""]) for one in told), room - reserved, size)
    room -= sum(map(size, groups))
    parts = [opening]
    if told:
        parts += ["## Findings\n\n", *groups, _left_out(told[len(groups) :])]
    entries = _fitting(below, room, size)
    parts += entries
    if rest := len(below) - len(entries):
        parts.append(f"\nand {text.count(rest, 'more entry', 'more entries')}\n\n")
    return "".join([*parts, closing])


def _fitting(parts: Iterable[str], room: int, size: Callable[[str], int]) -> list[str]:
    """The first parts, as far as there is room for them."""
    kept: list[str] = []
    for part in parts:
        room -= size(part)
        if room < 0:
            break
        kept.append(part)
    return kept


def _opening(diagnosis: Diagnosis, limit: int, size: Callable[[str], int]) -> str:
    lines = ["# specdiag", "", f"**{_plain(text.verdict(diagnosis))}**", ""]
    if head := text.head(diagnosis):
        lines += [_plain(visible(head, 1000)), ""]
    top = "\n".join([*lines, ""])
    rows, runs = ROWS, ""
    while diagnosis.runs and rows:
        runs = "\n".join(["## Runs", "", *_runs(diagnosis, rows), "", ""])
        if size(top) + size(runs) <= limit:
            break
        rows //= 2
    return top + runs if rows else top


def _left_out(groups: list[Group]) -> str:
    if not groups:
        return ""
    number = sum(len(one.findings) for one in groups)
    names = _names(list(dict.fromkeys(visible(one.first.rule.name, 80) for one in groups)))
    return f"**{text.count(number, 'more finding')} left out here**, to be short: {names}\n\n"


def _runs(diagnosis: Diagnosis, most: int) -> Iterator[str]:
    shown = table.foremost(diagnosis, most)
    headings, rows = table.runs_table(diagnosis, shown)
    yield _row(headings)
    yield _row(["---", "---", "---:", "---:", "---:", "---:", "---"])
    for name, *cells in rows:
        yield _row([code(name).replace("|", r"\|"), *map(_plain, cells)])
    if len(diagnosis.runs) > len(shown):
        yield ""
        yield f"and {text.count(len(diagnosis.runs) - len(shown), 'more run')}"
    shared = table.shared_notes(diagnosis)
    if shared:
        yield ""
    for note, names in shared:
        of = "" if len(names) == len(diagnosis.runs) else f" ({_names(names)})"
        yield f"- {_plain(note)}{of}"


def _group(group: Group) -> Iterator[str]:
    rule = group.first.rule
    title = f"### {group.first.severity}: {prose(rule.title)}"
    if len(group.findings) == 1:
        yield title
        yield ""
        yield from _finding(group.first)
    else:
        yield f"{title} ({text.count(len(group.findings), 'finding')})"
        yield ""
        yield from _list(group.findings)
    yield ""
    yield f"**Why:** {prose(rule.why)} ({code(rule.name)})"
    if causes := group.first.causes:
        yield ""
        yield "**What may be behind it**, the likeliest first:"
        yield ""
        yield from (f"{n}. {prose(text.told(one))}" for n, one in enumerate(causes, start=1))
    if rule.fix:
        yield ""
        yield "**What to do:**"
        yield ""
        yield from (f"{n}. {prose(step)}" for n, step in enumerate(rule.fix, start=1))
    if group.consequences:
        yield ""
        yield f"**What follows from it** ({text.severities(group.consequences)}):"
        yield ""
        yield from _list(group.consequences, titled=True)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{_where(finding)}: {_plain(finding.message)}"
    if finding.accepted:
        yield f"This is {_plain(text.acceptance(finding))}"
    if finding.impact:
        yield f"About {finding.impact:.0%} of the throughput is lost."
    values = [
        f"{code(name)} {_plain(text.figure(value))}"
        for name, value in finding.values.items() if value is not None
    ]  # fmt: skip
    if values:
        yield ""
        yield "Values: " + ", ".join(values)
    if finding.step is not None:
        yield ""
        yield from _fence(drawing.draw(finding.step))
    if finding.evidence:
        yield ""
        yield from _fence(_quote(finding, one) for one in finding.evidence)


def _list(findings: list[Finding], titled: bool = False) -> Iterator[str]:
    for finding in findings[:SHOWN]:
        title = f"{finding.severity}: {prose(finding.rule.title)} – " if titled else ""
        known = f" ({_plain(text.acceptance(finding))})" if finding.accepted else ""
        yield f"- {title}{_where(finding)}: {_plain(finding.message)}{known}"
        if finding.evidence:
            yield f"  {code(_quote(finding, finding.evidence[0]))}"
    if rest := findings[SHOWN:]:
        yield f"- and {len(rest):,} more, on {_names(sorted({one.run for one in rest}))}"


# Below the findings, in parts that are told whole or not at all


def _asserted(diagnosis: Diagnosis) -> Iterator[str]:
    heading = "## Assertions\n\n"
    for one in diagnosis.assertions:
        where = f"{_names([one.run])}: " if one.run else ""
        end = "\n\n" if one is diagnosis.assertions[-1] else "\n"
        told = _plain(visible(one.message, 400))
        yield f"{heading}- **{one.result}** {where}{_plain(visible(one.name, 200))}: {told}{end}"
        heading = ""


def _not_decided(diagnosis: Diagnosis) -> Iterator[str]:
    undecided = text.open_rules(diagnosis)
    heading = "## Not decided\n\n"
    for one in undecided:
        how = f" To decide it: {prose(one.rule.enable)}." if one.rule.enable else ""
        lines = [f"- **{prose(one.rule.title)}** ({code(one.rule.name)}).{how}"]
        lines += [f"  - {_plain(lack)}: {_names(names)}" for lack, names in one.reasons[:SHOWN]]
        if len(one.reasons) > SHOWN:
            lines.append(f"  - and {text.count(len(one.reasons) - SHOWN, 'more run')} or more")
        yield heading + "\n".join(lines) + ("\n\n" if one is undecided[-1] else "\n")
        heading = ""


def _counts(diagnosis: Diagnosis) -> Iterator[str]:
    passes, idle = len(text.passed(diagnosis)), len(text.inapplicable(diagnosis))
    if diagnosis.results:
        yield f"{text.count(passes, 'rule')} passed, {idle:,} apply to none of the runs.\n\n"


def _not_read(diagnosis: Diagnosis) -> Iterator[str]:
    notices = text.notices(diagnosis)
    heading = "## Not read\n\n"
    for notice in notices[:ROWS]:
        where = f" {code(notice.where)}" if notice.where else ""
        help = f" – {prose(notice.help)}" if notice.help else ""
        last = notice is notices[-1]
        yield f"{heading}- {_plain(notice.what)}{where}{help}\n" + ("\n" if last else "")
        heading = ""
    if len(notices) > ROWS:
        yield f"- and {len(notices) - ROWS:,} more\n\n"


# Escaping: no text from a log may end a cell, a fence or a span, or start anything else


def _plain(words: str) -> str:
    """Running text, from logs or not."""
    words = _SPECIAL.sub(lambda match: "\\" + match[0], visible(words, 2000))
    words = re.sub(r"[&<>]", lambda match: _HTML[match[0]], words)
    return _MENTION.sub("@<!-- -->", _START.sub(r"\1\\\2", words))


def prose(words: str) -> str:
    """Running text of a rule: it may have several lines, and code between backticks."""
    parts = re.split(r"`([^`]+)`", " ".join(words.split()))
    return "".join(code(part) if n % 2 else _plain(part) for n, part in enumerate(parts) if part)


def code(words: str) -> str:
    """A span of code, with more backticks around it than within."""
    words = visible(words, 600)
    ticks = "`" * (_longest_run(words) + 1)
    pad = " " if words.startswith("`") or words.endswith("`") or not words.strip() else ""
    return f"{ticks}{pad}{words}{pad}{ticks}"


def _fence(lines: Iterable[str]) -> Iterator[str]:
    shown = [visible(line, 600) for line in lines]
    ticks = "`" * max(3, *(_longest_run(line) + 1 for line in shown))
    yield from (f"{ticks}text", *shown, ticks)


def _longest_run(words: str) -> int:
    return max((len(run) for run in re.findall("`+", words)), default=0)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _quote(finding: Finding, one: Evidence) -> str:
    return f"{visible(one.path, 160)}:{one.line}: {quote.line(finding, one)}"


def _where(finding: Finding) -> str:
    against = f" against {code(finding.against)}" if finding.against else ""
    return f"{code(finding.run)}{against}"


def _names(names: list[str]) -> str:
    shown = ", ".join(code(name) for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN:,} more"
