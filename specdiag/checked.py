"""JSON that anybody may have written, read key by key: a value of another type is named."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEEPEST = 50  # lists and objects inside each other
_DIGITS = 40  # of a whole number; more would not fit a float


def parse(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, also for NaN and for numbers without bounds."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_float, parse_int=_int)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text[:20])


def _int(text: str) -> int:
    return int(text) if len(text) <= _DIGITS else _refuse(f"{text[:20]}…")


@dataclass(frozen=True)
class Record:
    """An object. Every method raises ValueError where the value is not what is asked for."""

    data: Mapping[str, Any]
    where: str

    def get(self, key: str) -> Any:
        if key not in self.data:
            raise ValueError(f"{self.where} has no {key}")
        return self.data[key]

    def text(self, key: str) -> str:
        return str(self._typed(key, "text", str))

    def maybe_text(self, key: str) -> str | None:
        return None if self.get(key) is None else self.text(key)

    def whole(self, key: str) -> int:
        return int(self._typed(key, "whole number", int))

    def maybe_number(self, key: str) -> float | None:
        found = self.get(key)
        return None if found is None else float(self._typed(key, "number", (int, float)))

    def maybe_whole(self, key: str) -> int | None:
        return None if self.get(key) is None else self.whole(key)

    def flag(self, key: str) -> bool:
        if not isinstance(self.get(key), bool):
            raise self._wrong(key, "true or false")
        return bool(self.data[key])

    def texts(self, key: str) -> tuple[str, ...]:
        found = self._list(key)
        if not all(isinstance(one, str) for one in found):
            raise self._wrong(key, "list of texts")
        return tuple(found)

    def record(self, key: str) -> Record:
        return record(self.get(key), f"{self.where}.{key}")

    def records(self, key: str) -> list[Record]:
        return [
            record(one, f"{self.where}.{key}[{n}]") for n, one in enumerate(self._list(key))
        ]  # fmt: skip

    def free(self, key: str) -> dict[str, Any]:
        """An object of any values, nested so little that they can be told."""
        found = dict(self.record(key).data)
        level: list[Any] = [found]
        for _ in range(DEEPEST):
            level = [
                one
                for outer in level
                for one in (outer.values() if isinstance(outer, dict) else outer)
                if isinstance(one, (dict, list))
            ]
            if not level:
                return found
        raise self._wrong(key, "object that is nested so little")

    def _list(self, key: str) -> list[Any]:
        found = self.get(key)
        if not isinstance(found, list):
            raise self._wrong(key, "list")
        return found

    def _typed(self, key: str, what: str, kind: Any) -> Any:
        found = self.get(key)
        if not isinstance(found, kind) or isinstance(found, bool):
            raise self._wrong(key, what)
        return found

    def _wrong(self, key: str, what: str) -> ValueError:
        return ValueError(f"{self.where}.{key} is no {what}")


def record(value: Any, where: str) -> Record:
    """A value as an object. Raises ValueError where it is none."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no object")
    return Record(value, where)


def fits(value: Any, type: str) -> bool:
    """Whether a value may stand in a column of this DuckDB type, as JSON has it."""
    if value is None:
        return True
    if type.endswith("[]"):
        return isinstance(value, list) and all(fits(one, type[:-2]) for one in value)
    if type == "BOOLEAN":
        return isinstance(value, bool)
    if type in ("INTEGER", "BIGINT"):
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
    if type == "DOUBLE":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, str)
