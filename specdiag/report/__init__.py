"""A diagnosis as text for people and for programs: one module a kind, each with `render`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdiag.diagnosis import Diagnosis
    from specdiag.store import Store

KINDS = ("json", "markdown", "html")


def render(kind: str, diagnosis: Diagnosis, store: Store | None = None) -> str:
    """The report of a kind; only its module is imported. Pages have pictures of the store."""
    module = import_module(f"specdiag.report.{kind}")
    text: str = module.render(diagnosis, store) if kind == "html" else module.render(diagnosis)
    return text
