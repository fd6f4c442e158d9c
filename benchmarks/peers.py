"""The tools that specdiag is measured beside: how each is called, and which are not there."""

from __future__ import annotations

import json
import math
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
HOME = HERE.parent / "build" / "bench" / "home"
SUMS = (  # `decode` counts lines that are complete: of torn ones `running` is NULL there, too
    "SELECT count(running) AS decode, sum(running) AS running, sum(tokens) AS tokens, "
    "sum(speed) AS speed, sum(queued) AS queued FROM sglang"
)
HUNDREDTHS = ("speed", "verify")  # of the truth; tools add decimals


@dataclass(frozen=True)
class Peer:
    name: str
    does: str
    before: tuple[str, ...]  # of the file's name
    after: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()  # what of the truth its one number is; () is JSON with sums
    own_home: bool = False  # keeps files in the user's home
    bounds: bool = True  # some bound is a ratio to it

    @property
    def there(self) -> bool:
        return shutil.which(self.before[0]) is not None

    def command(self, path: Path) -> list[str]:
        home = []
        if self.own_home:  # where it is not there, lnav writes into the current folder
            HOME.mkdir(parents=True, exist_ok=True)
            home = ["env", f"HOME={HOME}"]
        return [*home, *self.before, str(path), *self.after]

    def differences(self, out: str, truth: dict[str, int]) -> list[str]:
        """What of its answer is not the truth."""
        if self.counts:
            wanted = sum(truth[key] for key in self.counts)
            said = int(out.split()[0])
            return [] if said == wanted else [f"it counts {said}, not {wanted}"]
        return differences(answer(out), truth)


def _script(name: str) -> tuple[str, ...]:
    return sys.executable, str(SCRIPTS / f"{name}.py")


LOG = (
    Peer("wc -l", "counts line ends", ("wc", "-l"), counts=("lines",)),
    Peer(
        "rg -c", "counts decode lines", ("rg", "-c", "Decode batch"), counts=("decode", "torn")
    ),
    Peer("mawk", "adds four columns", ("mawk", "-f", str(SCRIPTS / "sums.awk"))),
    Peer("re loop", "Python, adds four columns", _script("loop")),
    Peer(
        "lnav", "one SQL query without a screen, adds four columns",
        ("lnav", "-n", "-I", str(SCRIPTS / "lnav"), "-c", f";{SUMS}", "-c", ":write-json-to -"),
        own_home=True,
    ),
    Peer(
        "DuckDB", "read_csv and regexp_extract, adds four columns", _script("log_duckdb"),
        bounds=False,
    ),
)  # fmt: skip
TRACE = (
    Peer("DuckDB", "read_json with columns, into a table", _script("trace_duckdb")),
    Peer("Polars", "scan_ndjson with a schema, into a frame", _script("trace_polars")),
)
WALK = Peer("dict walk", "Python, proves 20,000 steps", _script("walk"))


def answer(out: str) -> dict[str, Any]:
    """What a peer printed: an object, or a list of one."""
    read = json.loads(out)
    return dict(read[0] if isinstance(read, list) else read)


def differences(found: dict[str, Any], truth: dict[str, int]) -> list[str]:
    """What of an answer is not the truth."""
    wrong = []
    for key, value in found.items():
        said = round(100 * value) if key in HUNDREDTHS else value
        # Millions of decimals added one after the other are off by some of the last digits.
        apart = 1e-9 if key in HUNDREDTHS else 0.0
        if key in truth and not math.isclose(said, truth[key], rel_tol=apart):
            wrong.append(f"{key} is {said}, not {truth[key]}")
    return wrong
