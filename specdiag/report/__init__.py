"""A diagnosis as text for people and for programs: one module a kind, each with `render`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdiag.diagnosis import Diagnosis
    from specdiag.provenance import Provenance
    from specdiag.store import Store

TEXTS = (
    "json", "markdown", "html", "junit", "sarif", "github", "gitlab", "openmetrics",
)  # fmt: skip
KINDS = (*TEXTS, "duckdb")  # which is a database: its module has `write`


def render(
    kind: str, diagnosis: Diagnosis, store: Store | None = None,
    provenance: Provenance | None = None, tokens: Callable[[int], str] | None = None,
) -> str:  # fmt: skip
    """The report of a kind; only its module is imported.

    Those with figures draw them from the tables, and name where they come from; `tokens` turns
    ids in draft trees into text.
    """
    module = import_module(f"specdiag.report.{kind}")
    more = (store, provenance, tokens) if kind == "html" else ()
    text: str = module.render(diagnosis, *more)
    return text
