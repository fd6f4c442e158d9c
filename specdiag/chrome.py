"""Chrome trace events out of a file of any size, one after another; broken ones are named."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from specdiag.parser import Parsed

LONGEST_EVENT = 1 << 20  # characters; a longer one is broken
SHOWN = 5  # broken events that are kept for the report
MOST_BROKEN = 1000  # more, and it is no trace
BETWEEN = re.compile(r"[\s,]*")  # events


class Events:
    """The events of one trace, as its bytes come; `parsed` counts them."""

    def __init__(self, parsed: Parsed) -> None:
        self.parsed = parsed
        self.line = self.at = 1  # of the text so far, and of the event
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._scan = json.JSONDecoder().raw_decode
        self._text, self._opens = "", ""  # what is still looked at; how the file begins
        self._place, self._counted, self._inside, self._done = 0, 0, False, False
        self._lost = 0

    def feed(self, data: bytes, last: bool = False) -> Iterator[dict[str, Any]]:
        """The events in more bytes of the file; `at` is the line of the one that was given."""
        if self._done:
            return
        self.line += self._text.count("\n", self._counted, self._place)
        self._text = self._text[self._place :] + self._decoder.decode(data, last)
        self._place = self._counted = 0
        text = self._text
        if not self._inside:
            self._opens = self._opens or text.lstrip()[:1]
            found = re.search(r"\[" if self._opens == "[" else r'"traceEvents"\s*:\s*\[', text)
            if not found:
                self._place = max(0, len(text) - 64)
                return
            self._inside, self._place = True, found.end()
        while (start := self._next()) >= 0:
            try:
                event, end = self._scan(text, start)
            except (ValueError, RecursionError):
                if len(text) - start < LONGEST_EVENT and not last:
                    self._place = start  # the rest of it comes with the next bytes
                    return
                self._broken(start)
                continue
            self._place = end
            self.line += text.count("\n", self._counted, start)
            self._counted = start
            # The profiler writes an event's bracket on a line of its own, and its name on the next.
            self.at = self.line + text.startswith(("{\n", "{\r\n"), start)
            self.parsed.lines += 1
            if isinstance(event, dict):
                self.parsed.understood += 1
                yield event

    def _next(self) -> int:
        """Where the next event starts; -1 at the end of the text, or of the list."""
        if self._done:
            return -1
        found = BETWEEN.match(self._text, self._place)
        start = found.end() if found else self._place
        if self._text[start : start + 1] == "{":
            return start
        self._place = start
        self._done = self._text[start : start + 1] == "]"
        if start < len(self._text) and not self._done:  # not an event
            self._place = at if (at := self._text.find("{", start)) >= 0 else len(self._text)
            return self._next() if at >= 0 else -1
        return -1

    def _broken(self, start: int) -> None:
        """Go on at the next bracket that looks like an event's."""
        text = self._text
        self.parsed.lines += 1
        self._lost += 1
        if len(self.parsed.strangers) < SHOWN:
            line = self.line + text.count("\n", self._counted, start)
            self.parsed.strangers.append((line, text[start : start + 80]))
        mark = text.find('"ph"', start + 1)
        at = text.rfind("{", start + 1, mark) if mark >= 0 else -1
        self._place = at if at >= 0 else mark if mark >= 0 else len(text)
        self._done = self._lost > MOST_BROKEN
