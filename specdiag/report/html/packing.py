"""What travels inside the page: style, scripts, and data packed as gzip in base64."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_PLOTLY = _HERE / "vendor" / "plotly-basic.min.js.gz"


def pack(text: str) -> str:
    """Text as gzip in base64, the same for the same text."""
    packed = gzip.compress(text.encode("utf-8", "backslashreplace"), 6, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def pack_json(data: Any) -> str:
    return pack(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


@cache
def asset(name: str) -> str:
    """A script or a style sheet of this folder."""
    return (_HERE / name).read_text(encoding="utf-8")


@cache
def plotly() -> str:
    """The plotting library, as the page unpacks it."""
    return gzip.decompress(_PLOTLY.read_bytes()).decode("utf-8")


@cache
def plotly_packed() -> str:
    return base64.b64encode(_PLOTLY.read_bytes()).decode("ascii")


def digest(text: str) -> str:
    """How a Content-Security-Policy names an inline script."""
    hashed = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(hashed).decode('ascii')}'"
