"""A diagnosis as text for people and for programs: one module a kind, each with `render`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdiag.diagnosis import Diagnosis

KINDS = ("json", "markdown", "html")


def render(kind: str, diagnosis: Diagnosis) -> str:
    """The report of a kind; only its module is imported."""
    text: str = import_module(f"specdiag.report.{kind}").render(diagnosis)
    return text
