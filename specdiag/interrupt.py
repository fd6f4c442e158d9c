"""Ctrl-C, and a request to end, reach a query in whichever thread DuckDB is at work on it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import weakref
from typing import Any

AGAIN = 0.1  # seconds; what comes before a query has really begun is lost on it

_databases: weakref.WeakSet[Any] = weakref.WeakSet()


def reaches(db: Any) -> None:
    """Queries of this connection are among them, as long as it lives."""
    _databases.add(db)


def listen() -> None:
    """From now on, in this process, which then leaves. Called by its main thread."""
    if sys.platform == "win32":  # where a signal cannot wake a pipe
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    threading.Thread(target=_stop, args=(ours,), daemon=True).start()


def _stop(pipe: int) -> None:
    while os.read(pipe, 1)[0] not in (signal.SIGINT, signal.SIGTERM):
        pass
    while True:
        for db in list(_databases):
            with contextlib.suppress(Exception):  # closed meanwhile
                db.interrupt()
        time.sleep(AGAIN)
