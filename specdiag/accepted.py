"""What a finding is recognised by from one day to the next."""

from __future__ import annotations

import hashlib
import json

from specdiag.diagnosis import Finding

# Values that name what a finding is about; a figure, a line or a time would change every day.
ENTITY = ("stage", "field", "kind", "name", "module", "key", "metric", "rank")


def fingerprint(finding: Finding) -> str:
    """32 hexadecimal digits from rule, run, the run compared with, and what it is about."""
    about = [(name, value) for name in ENTITY if isinstance(value := finding.values.get(name), str)]
    told = json.dumps([finding.rule.name, finding.run, finding.against, about])
    return hashlib.sha256(told.encode()).hexdigest()[:32]
