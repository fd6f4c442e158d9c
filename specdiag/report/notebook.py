"""What a notebook shows of a diagnosis: verdict, runs, findings with a proof each, warnings.

A fragment that takes its colours from the page around it, without a script or a style sheet.
"""

from __future__ import annotations

from markupsafe import Markup

from specdiag.diagnosis import Diagnosis
from specdiag.report import quote, table, text
from specdiag.report.text import Group, visible

ROWS = 40  # runs
SHOWN = 30  # findings; those of one rule on many runs count as one
FOLLOWING = 6  # consequences that are named
NOTICES = 5  # warnings
QUOTED = 230  # characters of a line
COLOURS = {
    "critical": "#c62828", "high": "#d84315", "medium": "#b26a00", "low": "#00838f",
    "info": "#1565c0",
}  # fmt: skip

_LEFT = Markup(' style="text-align: left"')
_MUTED = "opacity: 0.75"
_TITLE = Markup('<p><strong style="color: {}">{}</strong> <strong>{}</strong> <code>{}</code>')


def render(diagnosis: Diagnosis) -> str:
    """A fragment of HTML; all text of logs in it is escaped."""
    groups = text.groups(diagnosis)
    parts = [Markup("<p><strong>{}</strong></p>").format(text.verdict(diagnosis))]
    if head := text.head(diagnosis, most=1):
        parts.append(Markup('<p style="{}">{}</p>').format(_MUTED, head))
    parts.append(_runs(diagnosis))
    parts += [_group(group) for group in groups[:SHOWN]]
    if (rest := len(groups) - SHOWN) > 0:
        parts.append(Markup("<p>and {}</p>").format(text.count(rest, "more finding")))
    parts += [
        Markup('<p style="{}">{}: {}</p>').format(_MUTED, visible(one.where), visible(one.what))
        for one in text.notices(diagnosis)[:NOTICES]
    ]
    if (rest := len(text.notices(diagnosis)) - NOTICES) > 0:
        parts.append(Markup("<p>and {}</p>").format(text.count(rest, "more warning")))
    inside = Markup("\n").join(parts)
    return str(Markup('<div class="specdiag">\n{}\n</div>').format(inside))


def _runs(diagnosis: Diagnosis) -> Markup:
    headings, rows = table.runs_table(diagnosis, table.foremost(diagnosis, ROWS))
    top = Markup("").join(Markup("<th{}>{}</th>").format(_LEFT, one) for one in headings)
    lines = Markup("\n").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(Markup("<td{}>{}</td>").format(_LEFT, cell) for cell in row)
        )
        for row in rows
    )
    made = Markup("<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table>")
    shown = made.format(top, lines)
    if rest := len(diagnosis.runs) - len(rows):
        shown += Markup("\n<p>and {}</p>").format(text.count(rest, "more run"))
    return shown


def _group(group: Group) -> Markup:
    finding = group.first
    where = visible(finding.run, 80)
    if finding.against:
        where += f" against {visible(finding.against, 80)}"
    if others := [one.run for one in group.findings[1:]]:
        where += f", also {text.named(others, 5)}"
    parts = [
        _TITLE.format(
            COLOURS[finding.severity], finding.severity, finding.rule.title, finding.rule.name
        ),
        Markup("<br>{}: {}").format(where, visible(finding.message, 1000)),
    ]
    for proof in finding.evidence[:1]:
        parts.append(
            Markup('<br><code style="{}">{}:{}: {}</code>').format(
                _MUTED, visible(proof.path, 200), proof.line, quote.line(finding, proof, QUOTED)
            )
        )
    for other in group.consequences[:FOLLOWING]:
        parts.append(
            Markup("<br>so <code>{}</code>: {}").format(
                other.rule.name, visible(other.message, 400)
            )
        )
    if (rest := len(group.consequences) - FOLLOWING) > 0:
        parts.append(Markup("<br>and {} more").format(rest))
    return Markup("\n").join(parts) + Markup("</p>")
