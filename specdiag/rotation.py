"""Parts of one log that was rotated: the oldest is read first, for the others go on from it."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePath

from specdiag.source import Source

_DATE = r"20[0-9]{2}-?[0-9]{2}-?[0-9]{2}(?:[-_T][0-9]{2,6})?"
# logrotate numbers or dates the old parts, behind a dot or a hyphen; so do Kubernetes and Python.
ROTATED = re.compile(
    rf"(?:\.(?:gz|zst|bz2|xz|[0-9]{{1,3}}|{_DATE})|(?<=\.log)-(?:[0-9]{{1,3}}|{_DATE}))+$"
)


def log(file: Source) -> tuple[str, str]:
    """What all parts of a log have in common: its path, and the one of its writers."""
    path = PurePath(file.name)
    name = ROTATED.sub("", path.name)
    return str(path.with_name(name) if name else path), file.own.name if file.own else ""


def oldest_first(files: list[Source]) -> list[Source]:
    """The files, those that are parts of one log in the order in which they were written."""
    logs: dict[tuple[str, str], list[Source]] = defaultdict(list)
    for file in files:
        logs[log(file)].append(file)
    parts = {key: iter(sorted(members, key=_age)) for key, members in logs.items()}
    return [next(parts[log(file)]) for file in files]


def _age(file: Source) -> tuple[int, str, int]:
    """The greater, the newer: dated parts by date, numbered ones from the highest down, the log."""
    suffix = ROTATED.search(PurePath(file.name).name)
    text = suffix[0] if suffix else ""
    if date := re.search(_DATE, text):
        return 0, re.sub("[^0-9]", "", date[0]), 0
    if number := re.search(r"[.-]([0-9]{1,3})(?=\.|$)", text):
        return 1, "", -int(number[1])
    return 2, "", 0
