"""Faults to order: what goes wrong in runtimes, put into this one from a given step on.

Each F number of the catalogue (ddtree, section 11) is one small function in the file of its
family. It says what is put around which function or method of the runtime, by name; nothing in
the runtime knows of it, and nothing is left of it when the `with` block ends. The oracle stays a
plain pass, and what a trace says is what the runtime then records of itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from specdiag.ddtree.faults.registry import FAULTS, Fault, Injection, named
from specdiag.errors import SpecdiagError

# Four need what one process on a CPU has not: pages, several processes, or wrong sizes of memory.
ELSEWHERE = {
    47: "slots of pages that are never freed: needs a paged cache",
    54: "ranks that build different trees: needs several processes",
    64: "buffers sized by the block: reads memory that is not there",
    65: "slot table filled from the wide list: needs a paged cache",
}


def parse(given: str) -> tuple[Fault, int]:
    """The fault and its first step of `F12@40`, or of `F12`: from the first step on.

    Raises SpecdiagError for anything else.
    """
    found = re.fullmatch(r"[Ff](\d{1,3})(?:@(\d{1,9}))?", given.strip())
    if found is None:
        raise SpecdiagError(
            f"{given!r:.60} is no fault", "--fault", "write F12, or F12@40: from step 40 on"
        )
    number = int(found[1])
    if number in ELSEWHERE:
        raise SpecdiagError(
            f"F{number} cannot be shown here: {ELSEWHERE[number]}", "--fault",
            "`specdiag ddtree faults` lists those that can",
        )  # fmt: skip
    if number not in all_faults():
        raise SpecdiagError(
            f"no fault is called F{number}", "--fault", "`specdiag ddtree faults` lists them"
        )
    return FAULTS[number], int(found[2] or 0)


def all_faults() -> dict[int, Fault]:
    """Every fault by its number."""
    from specdiag.ddtree.faults import (  # noqa: F401 (they register themselves)
        benign,
        commit,
        counters,
        drafter,
        inputs,
        sampling,
        tree,
        walk,
    )

    return dict(sorted(FAULTS.items()))


@contextmanager
def inject(fault: Fault, start: int = 0) -> Iterator[Injection]:
    """Whatever is decoded inside has the fault, in every request from step `start` on."""
    with Injection(start) as at:
        fault.put(at)
        yield at


__all__ = [
    "ELSEWHERE",
    "FAULTS",
    "Fault",
    "Injection",
    "all_faults",
    "inject",
    "named",
    "parse",
]
