"""Analyses of the same files by the same rules, made once: for tests of what is done with findings."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specdiag.diagnosis import Diagnosis
from specdiag.means import Means
from specdiag.parser import Parser
from specdiag.rule import Rule
from specdiag.source import Source
from specdiag.store import Store

Analysis = tuple[Diagnosis, Store]


class Once:
    """`diagnosis.analyze`, which reads again only what it has not read.

    A file is known by its name and its bytes, a rule and a parser by being the same object. Each
    caller has a diagnosis of its own; the store is shared, since commands only read from it.
    """

    def __init__(self, analyze: Any) -> None:
        self.analyze = analyze
        self.known: dict[Any, tuple[Analysis, Any]] = {}

    def __call__(
        self, files: list[Source], parsers: list[Parser], rules: list[Rule],
        params: Mapping[str, Any], progress: Any = None, baseline: str = "",
        saved: Sequence[Path] = (), means: Means | None = None,
    ) -> Analysis:  # fmt: skip
        given = (files, parsers, rules, params, progress, baseline, saved, means)
        if saved or not all(file.path.is_file() for file in files):  # a pipe is read only once
            return self.analyze(*given)  # type: ignore[no-any-return]
        key = (
            tuple((one.name, one.given, one.baseline, one.path.read_bytes()) for one in files),
            tuple(map(id, (*parsers, *rules))), repr(params), baseline,
        )  # fmt: skip
        if key not in self.known:
            # The definitions are kept, so that no other object can have their ids.
            self.known[key] = self.analyze(*given), (*parsers, *rules)
        found, store = self.known[key][0]
        return copy.deepcopy(found), store
