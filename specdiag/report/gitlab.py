"""A diagnosis as a Code Quality report of GitLab: a JSON array, an entry a cause."""

from __future__ import annotations

from specdiag.diagnosis import Diagnosis
from specdiag.report.alarms import alarms, message, title
from specdiag.report.json import dumps
from specdiag.report.text import visible

SEVERITY = {
    "critical": "blocker", "high": "critical", "medium": "major", "low": "minor", "info": "info",
}  # fmt: skip


def render(diagnosis: Diagnosis) -> str:
    """The diagnosis without what is accepted; no two entries have the same fingerprint."""
    return dumps([
        {
            "description": f"{title(alarm.finding)}: {message(alarm.finding)}",
            "check_name": visible(alarm.finding.rule.name),
            "fingerprint": alarm.fingerprint,
            "severity": SEVERITY[alarm.finding.severity],
            "location": {"path": alarm.path, "lines": {"begin": alarm.line}},
        }
        for alarm in alarms(diagnosis) if alarm.counts
    ])  # fmt: skip
