"""Find out why speculative decoding is slow or wrong, from its logs and traces.

    from specdiag import diagnose

    found = diagnose("logs/")
    assert found.ok, str(found)

Nothing is imported before it is asked for: `specdiag --help` must answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdiag.diagnosis import Diagnosis
    from specdiag.errors import SpecdiagError
    from specdiag.finding import Evidence, Finding, Run
    from specdiag.library import diagnose

__version__ = "0.1.0"
__all__ = ["Diagnosis", "Evidence", "Finding", "Run", "SpecdiagError", "__version__", "diagnose"]

_HOME = {
    "Diagnosis": "diagnosis", "Evidence": "finding", "Finding": "finding", "Run": "finding",
    "SpecdiagError": "errors", "diagnose": "library",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"specdiag.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
