"""What an analysis may use: threads, memory, what was kept of earlier ones; and who hears of it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specdiag.errors import SpecdiagError
from specdiag.timings import Timings

if TYPE_CHECKING:
    from specdiag.cache import Cache

MOST_THREADS = 1024
WORKERS = 2  # string kernels use one core a block, and so does what plans a query
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]i?B)", re.IGNORECASE)
LEAST_MEMORY = 50e6  # bytes; with less DuckDB cannot even hold the tables of a small log
_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


@dataclass
class Means:
    """`threads` is None for as many as there are, `memory` empty for what DuckDB takes."""

    threads: int | None = None
    memory: str = ""
    cache: Cache | None = None
    timings: Timings = field(default_factory=Timings)


def threads(given: object, where: str) -> int | None:
    """A number of threads, or None where nothing was said.

    Raises SpecdiagError for another value.
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST_THREADS:
        raise SpecdiagError(
            f"{given!r} is no number of threads", where, f"from 1 to {MOST_THREADS}, as 2"
        )
    return given


def memory(given: object, where: str) -> str:
    """A limit as DuckDB reads it, or nothing where nothing was said.

    Raises SpecdiagError for another value, and for less than works.
    """
    if given is None or given == "":
        return ""
    match = _MEMORY.fullmatch(given.strip()) if isinstance(given, str) else None
    if match is None:
        raise SpecdiagError(
            f"{given!r} is no amount of memory", where, "a number and a unit: 500MB, 1GB, 1.5GiB"
        )
    if float(match[1]) * _UNITS[match[2][0].lower()] < LEAST_MEMORY:
        raise SpecdiagError(
            f"{given} of memory is too little", where, f"at least {LEAST_MEMORY / 1e6:.0f}MB"
        )
    return f"{match[1]}{match[2]}"


def workers(threads: int | None) -> int:
    """How many of our own threads work side by side, where DuckDB and Polars have theirs."""
    return threads or WORKERS


def restrain(count: int | None) -> None:
    """Let polars have so many threads; it only listens before it is imported."""
    if count is not None:
        os.environ["POLARS_MAX_THREADS"] = str(count)
