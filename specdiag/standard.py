"""Standard output and error as they may be: closed, full, or in letters that lack some of ours."""

from __future__ import annotations

import contextlib
import errno
import os
import sys

from specdiag.errors import SpecdiagError, reason

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def prepare() -> None:
    """What is said to nobody is lost, and a sign that a terminal has not becomes a `?`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8"))
        else:
            stream.reconfigure(errors="replace")


def refused(error: OSError) -> SpecdiagError | None:
    """The user's mistake, where standard output takes no more; what it still holds is dropped."""
    if error.filename is not None or error.errno not in _FULL:
        return None
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return SpecdiagError(
        f"what was found could not be told: {reason(error)}", "standard output",
        "send it to another place",
    )  # fmt: skip
