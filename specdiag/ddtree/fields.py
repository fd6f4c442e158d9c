"""A JSON object whose values are checked as they are read. This module does not import torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from specdiag.errors import SpecdiagError

LARGEST = 2**31  # no size of a model comes near it


class Fields:
    """Values of a JSON object, each with its type and bounds checked."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def wrong(self, key: str, wanted: str) -> SpecdiagError:
        """An error that names the key, the value and what was wanted."""
        found = f"is {self.values[key]!r:.60}" if key in self.values else "is missing"
        return SpecdiagError(f"`{key}` {found}, wanted {wanted}", self.where, "mend config.json")

    def whole(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A whole number of at least `least`."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < LARGEST:
            raise self.wrong(key, f"a whole number from {least} on")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A positive, finite number."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, "a number")
        if not (math.isfinite(value) and value > 0):
            raise self.wrong(key, "a number above 0")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def section(self, key: str) -> Fields:
        """An object below this one; an empty one if it is missing."""
        value = self._value(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        return Fields(value, self.where)

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value
