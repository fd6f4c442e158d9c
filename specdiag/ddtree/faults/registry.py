"""The catalogue of faults, and how one is put around the runtime and taken away again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import Any
from unittest.mock import patch

from specdiag.ddtree import detail
from specdiag.ddtree.loop import Loop

Wrapper = Callable[..., Any]  # takes what it stands around, then that one's arguments


@dataclass(frozen=True)
class Fault:
    """One F number: what is wrong, and what a run needs so that it can be seen."""

    number: int
    title: str
    effect: str  # O: another text; S: acceptance or time; M: numbers only; -: none, benign
    put: Callable[[Injection], None]
    needs: frozenset[str] = frozenset()  # batch, branches, sampling, top_p, window, recurrent, ...
    shown: int = 0  # steps between the act and what shows it

    @property
    def name(self) -> str:
        """As it is written everywhere."""
        return f"F{self.number}"


FAULTS: dict[int, Fault] = {}


def fault(
    number: int, title: str, effect: str, *needs: str, shown: int = 0
) -> Callable[[Callable[[Injection], None]], Callable[[Injection], None]]:
    """Enter the decorated function into the catalogue."""

    def enter(put: Callable[[Injection], None]) -> Callable[[Injection], None]:
        FAULTS[number] = Fault(number, title, effect, put, frozenset(needs), shown)
        return put

    return enter


def named(number: int) -> Fault:
    """The fault of this number."""
    return FAULTS[number]


class Injection:
    """What a fault is put around: functions by their owner and name, for the steps from `start` on.

    Outside of steps, and while the oracle looks at the text, everything is as it was.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.step: int | None = None  # the running step of its requests, None between steps
        self.first: int | None = None  # the first step in which the fault changed something
        self.loop: Any = None  # decode's
        self.active: list[int] = []
        self.stack = ExitStack()

    @property
    def on(self) -> bool:
        """Whether the running step has the fault."""
        return self.step is not None and self.step >= self.start

    def acted(self) -> None:
        """Remember the first step that the fault changed."""
        if self.first is None and self.step is not None:
            self.first = self.step

    def around(
        self, owner: Any, name: str, wrapper: Wrapper, *, always: bool = False, quiet: bool = False
    ) -> None:
        """Put `wrapper` around owner.name; `always`: before the first faulty step as well.

        Its first call counts as the fault's first act, unless it is `quiet` and says so itself.
        """
        original = getattr(owner, name)

        @wraps(original)
        def chosen(*args: Any, **options: Any) -> Any:
            if not (always or self.on):
                return original(*args, **options)
            if not quiet and self.on:
                self.acted()
            return wrapper(original, *args, **options)

        self.stack.enter_context(patch.object(owner, name, chosen))

    def __enter__(self) -> Injection:
        def step(original: Wrapper, loop: Any, active: list[int], recorder: Any) -> None:
            self.loop, self.active = loop, active
            self.step = loop.results[active[0]].steps
            try:
                original(loop, active, recorder)
            finally:
                self.step = None

        def plain(original: Wrapper, *args: Any) -> None:
            self.step, kept = None, self.step
            original(*args)
            self.step = kept

        self.around(Loop, "step", step, always=True, quiet=True)
        self.around(detail, "add_oracle", plain, always=True, quiet=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stack.close()
