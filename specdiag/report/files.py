"""Write a report so that an interrupted or failed run leaves the old one as it was."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from specdiag.errors import SpecdiagError

_REASONS = {
    errno.ENOSPC: ("the disk is full", "free some space, or write to another disk"),
    errno.EDQUOT: ("your disk quota is used up", "free some space, or write to another disk"),
    errno.EROFS: ("this file system is read-only", "write to another folder"),
    errno.ENAMETOOLONG: ("the file name is too long", "choose a shorter one"),
    errno.EACCES: ("no permission to write here", "write to another folder"),
    errno.EPERM: ("no permission to write here", "write to another folder"),
}


def write(path: Path, text: str) -> None:
    """Put text into a file, whole or not at all.

    Raises SpecdiagError when that cannot be done.
    """
    data = text.encode("utf-8", "backslashreplace")
    try:
        if path.is_dir():
            raise SpecdiagError(
                "this is a folder, not a file", str(path), f"name a file in it: {path / 'report'}"
            )
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a pipe or a device: there is nothing to replace
        else:
            _replace(Path(os.path.realpath(path)), data)  # through a link, which stays a link
    except (OSError, ValueError) as error:
        raise wrong(path, error) from None


def reserve(path: Path) -> Path:
    """The absolute name of a file that does not exist, to be written and to replace `path` then.

    Raises SpecdiagError when that cannot be done, which is better known before than after the work.
    """
    try:
        if path.exists() and not path.is_file():
            raise SpecdiagError(
                "this is a folder, a pipe or a device, not a file", str(path), "name a file"
            )
        temporary = _beside(Path(os.path.realpath(path)))
        str(temporary).encode()  # what others are asked to write must have a name in UTF-8
        os.close(_create(temporary))
        temporary.unlink()
    except (OSError, ValueError) as error:
        raise wrong(path, error) from None
    return temporary


def put(temporary: Path, path: Path) -> None:
    """Let a reserved file that is written take its place. Raises OSError."""
    os.replace(temporary, os.path.realpath(path))


def _beside(path: Path) -> Path:
    return path.with_name(f".specdiag-{secrets.token_hex(6)}.tmp")


def _create(path: Path) -> int:
    # By hand, not by tempfile: that would make it private, whatever the umask says.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


def _replace(path: Path, data: bytes) -> None:
    temporary = _beside(path)
    descriptor = _create(temporary)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def wrong(path: Path, error: OSError | ValueError) -> SpecdiagError:
    """What keeps a file from being written, as the user's mistake."""
    code = error.errno if isinstance(error, OSError) else None
    if code in (errno.ENOENT, errno.ENOTDIR) and not path.parent.is_dir():
        folder = str(path.parent)
        what = "a file" if path.parent.exists() else "missing"
        return SpecdiagError(
            f"the folder of this file is {what}", str(path),
            f"create it first: mkdir -p {folder}" if what == "missing" else "choose another folder",
        )  # fmt: skip
    if code in _REASONS:
        what, help = _REASONS[code]
        return SpecdiagError(what, str(path), help)
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return SpecdiagError(f"cannot be written: {reason[:1].lower()}{reason[1:]}", str(path))
