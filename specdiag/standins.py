"""What a pickle gets instead of what it asks for: plain stand-ins for arrays, tensors, functions.

Whatever has no stand-in here is refused, and what is made of them all is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

MOST_VALUES = 10_000_000  # numbers made of tensors and arrays, and values that come out of it all
DEEPEST = 60  # levels of lists and dicts

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


class OtherArchive(Refused):
    """A zip archive without a pickle."""


class Budget:
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

    def numbers(self, data: Any, budget: Budget) -> list[Any]:
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

    def __init__(self, budget: Budget) -> None:
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

    def __init__(self, kind: str, data: bytes, budget: Budget) -> None:
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


def known(budget: Budget) -> dict[str, Any]:
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
