"""What Python prints of lists, dicts, numbers and texts, as JSON."""

from __future__ import annotations

import ast
import json
from threading import Lock

LONGEST = 1 << 20  # characters

_turn = Lock()  # until Python 3.12 two threads that read a literal at once disturb each other


def as_json(text: str) -> str | None:
    """A literal as JSON; none where the text is no literal, or one that JSON has not."""
    if len(text) > LONGEST:
        return None
    try:
        with _turn:
            found = ast.literal_eval(text.strip())
        return json.dumps(found)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
