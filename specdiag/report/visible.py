"""Text of logs on one line, with nothing in it that is not seen."""

from __future__ import annotations

import re

# Characters that show nothing, or move what stands around them: C1 controls, bidi controls,
# zero-width characters, separators, tags, and halves of characters (undecodable file names).
INVISIBLE = (
    "\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f"
)
_HIDDEN = re.compile(f"[\x00-\x1f{INVISIBLE}]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str, limit: int = 300) -> str:
    """Text on one line, invisible characters as escapes, the middle of a long one left out."""
    text = text.rstrip("\r\n")
    if len(text) > 2 * limit:
        text = text[:limit] + text[-limit:]  # still too long, so its middle is left out below
    shown = _HIDDEN.sub(_escape, text)
    if len(shown) <= limit:
        return shown
    tail = limit // 3
    return f"{shown[: limit - tail - 1]}…{shown[len(shown) - tail :]}"


def folded(name: str, room: int) -> list[str]:
    """A name in lines of about `room` characters, broken behind separators where it has any."""
    lines = [""]
    for part in re.findall(r"[^-_./#]+[-_./#]*|[-_./#]+", name):
        pieces = [part[start : start + room] for start in range(0, len(part), room)]
        for piece in pieces:
            if lines[-1] and len(lines[-1]) + len(piece) > room:
                lines.append("")
            lines[-1] += piece
    return lines


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte of a name that is not UTF-8
        code -= 0xDC00
    if code < 0x100:
        return _SHORT.get(match[0], f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
