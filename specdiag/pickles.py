"""Results that Python wrote as a pickle: read, never run.

`torch.save` writes a zip archive with one pickle and the bytes of its tensors. A pickle is a small
program that may call anything. Ours may only call what is named in KNOWN, and what it gets are
plain stand-ins: whatever else is asked for is named, and the file is left alone. torch and numpy
are not needed. What a file unpacks to is bounded.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO

ZIP = b"PK\x03\x04"
LARGEST = 256 << 20  # bytes of the pickle, and of all tensors together
RATIO = 200  # a real archive is not packed at all
MOST_STEPS = 5_000_000  # operations of the pickle
MOST_VALUES = 10_000_000  # numbers made of tensors and arrays, and values that come out of it all
DEEPEST = 60  # levels of lists and dicts
LEGACY = 0x1950A86A20F9469CFC6C  # what torch.save wrote first before it wrote archives

FORMATS = {
    "LongStorage": "q", "IntStorage": "i", "ShortStorage": "h", "CharStorage": "b",
    "ByteStorage": "B", "BoolStorage": "?", "DoubleStorage": "d", "FloatStorage": "f",
    "HalfStorage": "e", "BFloat16Storage": "H",
}  # fmt: skip
NUMPY = {
    "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u8": "Q", "u4": "I", "u2": "H", "u1": "B",
    "f8": "d", "f4": "f", "f2": "e", "b1": "?",
}  # fmt: skip


class Refused(Exception):
    """A pickle asks for what it may not have, or is broken; the text says what."""


class _Budget:
    """How many values may still be made."""

    def __init__(self) -> None:
        self.left = MOST_VALUES

    def spend(self, count: int) -> None:
        self.left -= max(count, 0)
        if self.left < 0:
            raise Refused(f"it holds more than {MOST_VALUES:,} values")


class Namespace:
    """An object whose attributes are all there is to it."""

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)


class Call:
    """A function that a pickle may call, and do nothing else with."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run

    def __call__(self, *arguments: Any) -> Any:
        return self.run(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise Refused("it changes what it calls")


class Kind:
    """A class of storages: only its name matters."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        raise Refused("it changes what it calls")


class Dtype:
    """numpy.dtype, as far as it says how numbers are stored."""

    def __init__(self, name: Any) -> None:
        self.name = str(name).lstrip("<>=|")
        self.big = str(name).startswith(">")

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) > 1:
            self.big = state[1] == ">"

    def numbers(self, data: Any, budget: _Budget) -> list[Any]:
        data = data.encode("latin-1") if isinstance(data, str) else data
        code = NUMPY.get(self.name)
        if code is None or not isinstance(data, bytes):
            raise Refused(f"it has an array of {self.name}")
        count = len(data) // struct.calcsize(code)
        budget.spend(count)
        order = ">" if self.big else "<"
        return list(struct.unpack(f"{order}{count}{code}", data))


class Array:
    """numpy.ndarray: its numbers in lists."""

    def __init__(self, budget: _Budget) -> None:
        self.budget = budget
        self.values: Any = []

    def __setstate__(self, state: Any) -> None:
        match state:
            case (_, tuple() as shape, Dtype() as dtype, fortran, (bytes() | str()) as data) if (
                not fortran or len(shape) < 2
            ):
                self.values = _shaped(dtype.numbers(data, self.budget), shape)
            case _:
                raise Refused("it has an array in a layout that is not known")


class Storage:
    """The numbers of tensors, as they lie in the archive."""

    def __init__(self, kind: str, data: bytes, budget: _Budget) -> None:
        self.code, self.data, self.budget = FORMATS[kind], data, budget
        self.size = struct.calcsize(self.code)
        self.half = kind == "BFloat16Storage"  # the upper half of a float

    def tensor(self, first: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> Any:
        count = 1
        for length in shape:
            count *= length
        if len(shape) > DEEPEST or min(shape, default=0) < 0 or min(stride, default=0) < 0:
            raise Refused("it has a tensor in a layout that is not known")
        self.budget.spend(count)
        last = first + sum((n - 1) * by for n, by in zip(shape, stride, strict=True))
        if count and (first < 0 or (last + 1) * self.size > len(self.data)):
            raise Refused("it has a tensor that is larger than its storage")
        return self._values(first, shape, stride) if count else []

    def _values(self, first: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> Any:
        if shape:
            return [
                self._values(first + n * stride[0], shape[1:], stride[1:]) for n in range(shape[0])
            ]
        (value,) = struct.unpack_from(f"<{self.code}", self.data, first * self.size)
        return struct.unpack("<f", struct.pack("<I", value << 16))[0] if self.half else value


def _shaped(values: list[Any], shape: tuple[Any, ...]) -> Any:
    if not shape:
        return values[0] if values else None
    for length in reversed(shape[1:]):
        if not length:
            return []
        values = [values[n : n + length] for n in range(0, len(values), length)]
    return values


def _known(budget: _Budget) -> dict[str, Any]:
    """All that a pickle may ask for by name."""

    def tensor(storage: Any, first: Any, shape: Any, stride: Any, *_: Any) -> Any:
        if not isinstance(storage, Storage):
            raise Refused("it has a tensor without a storage")
        return storage.tensor(int(first), tuple(map(int, shape)), tuple(map(int, stride)))

    def scalar(dtype: Any, data: Any) -> Any:
        if not isinstance(dtype, Dtype):
            raise Refused("it has a number of no type")
        return (dtype.numbers(data, budget) or [None])[0]

    calls: dict[str, Callable[..., Any]] = {
        "collections.OrderedDict": lambda items=(): dict(items),
        "_codecs.encode": lambda text, *_: text.encode("latin-1"),  # bytes, before protocol 3
        "torch._utils._rebuild_tensor_v2": tensor,
        "torch._utils._rebuild_tensor": tensor,
        "torch._utils._rebuild_parameter": lambda data, *_: data,
        "numpy.ndarray": lambda *_: Array(budget),
        "numpy.dtype": lambda name, *_: Dtype(name),
    }
    for home in ("numpy.core.multiarray", "numpy._core.multiarray"):
        calls |= {f"{home}.scalar": scalar, f"{home}._reconstruct": lambda *_: Array(budget)}

    def buffer(data: Any, dtype: Any, shape: Any, order: Any = "C", *_: Any) -> Array:
        made = Array(budget)
        data = bytes(data) if isinstance(data, bytearray) else data
        made.__setstate__((1, tuple(shape), dtype, order != "C", data))
        return made

    for home in ("numpy.core.numeric", "numpy._core.numeric"):
        calls[f"{home}._frombuffer"] = buffer
    for home in ("pathlib", "pathlib._local"):
        for kind in ("Path", "PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath"):
            calls[f"{home}.{kind}"] = lambda *parts: "/".join(map(str, parts))
    names = {name: Call(run) for name, run in calls.items()}
    kinds = {f"torch.{kind}": Kind(kind) for kind in FORMATS}
    return {**names, **kinds, "types.SimpleNamespace": Namespace, "argparse.Namespace": Namespace}


class _Reader(pickle.Unpickler):
    """An unpickler that knows no class but the stand-ins."""

    def __init__(self, program: bytes, archive: _Archive | None, budget: _Budget) -> None:
        super().__init__(io.BytesIO(program))
        self.archive, self.budget = archive, budget
        self.known = _known(budget)

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
            raise Refused("it is a zip archive, but no result that torch.save wrote")
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
        budget = _Budget()
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


def _plain(value: Any, depth: int, budget: _Budget) -> Any:
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
