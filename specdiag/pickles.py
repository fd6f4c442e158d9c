"""Results that Python wrote as a pickle: read, never run.

`torch.save` writes a zip archive with one pickle and the bytes of its tensors. A pickle is a small
program that may call anything. Ours may only call what `standins.py` names, and what it gets are
plain stand-ins: whatever else is asked for is named, and the file is left alone. torch and numpy
are not needed. What a file unpacks to is bounded.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from typing import Any, BinaryIO

from specdiag.standins import (
    DEEPEST,
    Array,
    Budget,
    Kind,
    Namespace,
    OtherArchive,
    Refused,
    Storage,
    known,
)

ZIP = b"PK\x03\x04"
LARGEST = 256 << 20  # bytes of the pickle, and of all tensors together
RATIO = 200  # a real archive is not packed at all
MOST_STEPS = 5_000_000  # operations of the pickle
LEGACY = 0x1950A86A20F9469CFC6C  # what torch.save wrote first before it wrote archives


class _Reader(pickle.Unpickler):
    """An unpickler that knows no class but the stand-ins."""

    def __init__(self, program: bytes, archive: _Archive | None, budget: Budget) -> None:
        super().__init__(io.BytesIO(program))
        self.archive, self.budget = archive, budget
        self.known = known(budget)

    def find_class(self, module: str, name: str) -> Any:
        found = self.known.get(f"{module}.{name}")
        if found is None:
            raise Refused(f"it asks for {module}.{name}")
        return found

    def persistent_load(self, pid: Any) -> Any:
        match pid:
            case ("storage", Kind(name=kind), str() as key, *_) if self.archive:
                return Storage(kind, self.archive.data(key), self.budget)
        raise Refused("it refers to something outside of it")


def _look_through(program: bytes) -> None:
    """Raises Refused for a program that is too long, or that would fill memory with its notes."""
    for steps, (operation, value, _) in enumerate(pickletools.genops(program), start=1):
        if steps > MOST_STEPS:
            raise Refused(f"it has more than {MOST_STEPS:,} operations")
        if operation.name in ("PUT", "LONG_BINPUT") and isinstance(value, int) and value > steps:
            raise Refused("it numbers its objects as nothing does that writes pickles")


class _Archive:
    """The zip archive that torch.save writes: NAME/data.pkl and NAME/data/KEY."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self.zip = zipfile.ZipFile(stream)
        self.limit = min(LARGEST, max(1 << 20, RATIO * size))
        self.read = 0
        mains = [name for name in self.zip.namelist() if name.endswith("data.pkl")]
        if len(mains) != 1:
            raise OtherArchive("it is a zip archive, but no result that torch.save wrote")
        self.home = mains[0].removesuffix("data.pkl")
        self.kept: dict[str, bytes] = {}

    def main(self) -> bytes:
        return self._bytes(f"{self.home}data.pkl")

    def data(self, key: str) -> bytes:
        if key not in self.kept:
            self.kept[key] = self._bytes(f"{self.home}data/{key}")
        return self.kept[key]

    def _bytes(self, name: str) -> bytes:
        with self.zip.open(name) as member:
            data = member.read(self.limit - self.read + 1)
        self.read += len(data)
        if self.read > self.limit:
            raise Refused(f"it unpacks to more than {self.limit >> 20} MB")
        return data


def is_pickle(magic: bytes) -> bool:
    """Whether a file that starts like this may be one: a zip archive, or a pickle by itself."""
    return magic == ZIP or (
        magic[:1] == b"\x80" and magic[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    )


def load(stream: BinaryIO, size: int) -> Any:
    """What a pickle holds, as plain lists, dicts, numbers, texts and namespaces.

    Raises Refused, with the reason, for whatever is not known or broken.
    """
    try:
        magic = stream.read(4)
        stream.seek(0)
        archive = _Archive(stream, size) if magic == ZIP else None
        program = archive.main() if archive else stream.read(LARGEST + 1)
        if len(program) > LARGEST:
            raise Refused(f"it is larger than {LARGEST >> 20} MB")
        _look_through(program)
        budget = Budget()
        found = _plain(_Reader(program, archive, budget).load(), 0, budget)
    except Refused:
        raise
    except RecursionError:
        raise Refused("it is nested too deeply") from None
    except MemoryError:
        raise Refused("it is too large") from None
    # A pickle can break in as many ways as there are exceptions.
    except Exception as error:
        raise Refused(f"it is broken ({type(error).__name__})") from None
    if found == LEGACY:
        raise Refused("torch.save wrote it before release 1.6")
    return found


def _plain(value: Any, depth: int, budget: Budget) -> Any:
    """Without stand-ins: lists, dicts with texts as keys, numbers, texts."""
    budget.spend(1)  # what is in many places counts in all of them
    if depth > DEEPEST:
        raise Refused("it is nested too deeply")
    match value:
        case Namespace():
            return _plain(vars(value), depth + 1, budget)
        case Array():
            return _plain(value.values, depth + 1, budget)
        case dict():
            return {str(key): _plain(one, depth + 1, budget) for key, one in value.items()}
        case list() | tuple() if all(type(one) is int for one in value):  # most of all there is
            budget.spend(len(value))
            return list(value)
        case list() | tuple() | set() | frozenset():
            return [_plain(one, depth + 1, budget) for one in value]
        case str():
            budget.spend(len(value) // 16)
            return value
        case float():
            return value if value - value == 0 else None
        case None | bool() | int():
            return value
        case _:
            return None
