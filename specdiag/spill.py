"""Where DuckDB puts what does not fit into memory: a private folder that goes with the process."""

from __future__ import annotations

import atexit
import functools
import itertools
import shutil
import tempfile
from pathlib import Path

_numbers = itertools.count()


def place() -> str:
    """A folder for one more database; DuckDB makes it once it is needed."""
    return str(_home() / str(next(_numbers)))


@functools.cache
def _home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="specdiag-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def remove() -> None:
    """Before the process ends without its usual ceremony."""
    if _home.cache_info().currsize:
        shutil.rmtree(_home(), ignore_errors=True)
