"""How the template shows values: text escaped twice over, SQL, trees, and what to type next."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from specdiag.finding import Evidence, Finding
from specdiag.report import drawing, quote, sides, text
from specdiag.report.text import visible

LONGEST = 600  # characters of any text


@cache
def environment() -> jinja2.Environment:
    """Templates of this folder with all that they use; to compile them takes as long as a page."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "prose": _prose, "every": _every, "figure": text.figure, "named": text.named,
        "things": text.count, "severities": text.severities, "by_file": _by_file,
        "compact": _compact, "share": text.share, "drawn": _drawn, "code": code,
        "sides": sides.sides, "acceptance": text.acceptance,
    }  # fmt: skip
    made.globals["quoted"] = partial(quote.line, limit=LONGEST)
    made.globals["commands"] = _commands
    return made


def _shown(value: Any) -> Any:
    """Whatever the template prints, with invisible characters as escapes; markup stays."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value, LONGEST)
    return value


def _prose(words: str) -> Markup:
    """Text of a rule: it may have several lines, and code between backticks."""
    escaped = str(escape(visible(" ".join(words.split()), 2000)))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped))


def _every(names: Iterable[str], most: int | None = None) -> Markup:
    """Names of runs, each once, also very many."""
    once = list(dict.fromkeys(names))
    shown = ", ".join(str(escape(visible(name, 80))) for name in once[:most])
    rest = len(once) - len(once[:most])
    return Markup(f"{shown} and {rest:,} more" if rest else shown)


def code(sql: str, params: Mapping[str, Any] | None = None) -> Markup:
    """SQL as `specdiag query` takes it: without its header, thresholds in place."""
    lines = sql.splitlines()
    while lines and (lines[0].startswith("--") or not lines[0].strip()):
        lines.pop(0)
    shown = "\n".join(visible(line, 2000) for line in lines)
    for name, value in (params or {}).items():
        shown = re.sub(rf"\${re.escape(name)}\b", _literal(value).replace("\\", r"\\"), shown)
    return Markup(escape(shown))


def _literal(value: Any) -> str:
    """A threshold as SQL."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _commands(finding: Finding) -> list[str]:
    """What to type next."""
    if finding.step is None or not finding.evidence:
        return []
    words = ["specdiag", "tree", finding.evidence[0].path, "--run", finding.run]
    if finding.step.get("request") is not None:
        words += ["--request", str(finding.step["request"])]
    if finding.step.get("step") is not None:
        words += ["--step", str(finding.step["step"])]
    return [shlex.join(words)]


def _compact(values: dict[str, Any]) -> dict[str, str]:
    return {name: text.figure(value) for name, value in values.items() if value is not None}


def _drawn(step: dict[str, Any]) -> Markup:
    return Markup("\n".join(str(escape(visible(line, LONGEST))) for line in drawing.draw(step)))


def _by_file(evidence: list[Evidence]) -> list[tuple[str, list[Evidence]]]:
    files: dict[str, list[Evidence]] = defaultdict(list)
    for one in evidence:
        files[one.path].append(one)
    return list(files.items())
