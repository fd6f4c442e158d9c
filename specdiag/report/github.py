"""A diagnosis for GitHub Actions: workflow commands that annotate, and the summary of a step."""

from __future__ import annotations

from collections import defaultdict

from specdiag.diagnosis import Diagnosis
from specdiag.report import markdown, text
from specdiag.report.alarms import Alarm, alarms, lines, title
from specdiag.report.text import visible

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
MOST = 10  # annotations of one level that a step may have
SUMMARY = 1024 * 1024  # bytes of a step's summary
MESSAGE = 4000  # characters


def render(diagnosis: Diagnosis) -> str:
    """A command a cause that nobody has accepted.

    What is too many for a level is summed up in its last one.
    """
    found: dict[str, list[str]] = {command: [] for command in COMMANDS.values()}
    rules: dict[str, list[str]] = defaultdict(list)
    for error in diagnosis.broken:
        words = [visible(part, 1000) for part in (error.what, error.where, error.help) if part]
        found["error"].append(_command("error", "specdiag: a definition is broken", words))
        rules["error"].append("broken")
    for alarm in (one for one in alarms(diagnosis) if one.counts):
        command = COMMANDS[alarm.level]
        found[command].append(_annotation(command, alarm))
        rules[command].append(alarm.finding.rule.name)
    written = [line for command in found for line in _few(command, found[command], rules[command])]
    if not written:
        written = [_command("notice", "specdiag", [text.verdict(diagnosis)])]
    return "\n".join(written) + "\n"


def summary(diagnosis: Diagnosis, limit: int = SUMMARY) -> str:
    """The diagnosis as Markdown, at most `limit` bytes in UTF-8."""
    return markdown.render(diagnosis, limit, lambda part: len(part.encode("utf-8", "replace")))


def _annotation(command: str, alarm: Alarm) -> str:
    finding = alarm.finding
    place = {"file": alarm.path, "line": str(alarm.line)}
    if alarm.path.startswith("<"):  # standard input
        place = {}
    return _command(command, f"{finding.severity}: {title(finding)}", list(lines(alarm)), place)


def _few(command: str, commands: list[str], rules: list[str]) -> list[str]:
    if len(commands) <= MOST:
        return commands
    rest = rules[MOST - 1 :]
    words = f"{text.count(len(rest), 'more finding')}: {text.named(sorted(set(rest)))}"
    return [*commands[: MOST - 1], _command(command, "specdiag", [words])]


def _command(
    command: str, heading: str, words: list[str], place: dict[str, str] | None = None
) -> str:
    properties = {**(place or {}), "title": visible(heading, 250)}
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    message = "\n".join(words)
    if len(message) > MESSAGE:
        message = message[: MESSAGE - 1] + "…"
    return f"::{command} {given}::{_data(message)}"


def _data(words: str) -> str:
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    return _data(words).replace(":", "%3A").replace(",", "%2C")
