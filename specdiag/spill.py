"""Where DuckDB puts what does not fit into memory: a private folder that goes with the process."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import shutil
import sys
import tempfile
from pathlib import Path

PREFIX = "specdiag-"
LOCK = "lock"  # held as long as the process lives

_numbers = itertools.count()


def place() -> str:
    """A folder for one more database; DuckDB makes it once it is needed."""
    return str(_home() / str(next(_numbers)))


@functools.cache
def _home() -> Path:
    home = Path(tempfile.mkdtemp(prefix=PREFIX))
    _tidy(home.parent)
    _hold(home)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def remove() -> None:
    """Before the process ends without its usual ceremony."""
    if _home.cache_info().currsize:
        shutil.rmtree(_home(), ignore_errors=True)


def _hold(home: Path) -> int | None:
    """The lock of a folder, which is open from now on; None where somebody holds it."""
    if sys.platform == "win32":
        return None
    import fcntl

    lock = os.open(home / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _tidy(folder: Path) -> None:
    """Remove what processes left behind that were killed: nobody holds its lock any more."""
    for home in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if (home / LOCK).exists() and (lock := _hold(home)) is not None:
                shutil.rmtree(home, ignore_errors=True)
                os.close(lock)
