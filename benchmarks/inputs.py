"""The files that are measured, in build/bench: made when they are missing or of another maker."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import make_log, make_trace

HERE = Path(__file__).parent
FOLDER = HERE.parent / "build" / "bench"
SEED = 7
RANKS = 16
SLICE = 64  # lines that one rank prints before the next one does
PART = 2_500_000  # bytes of each file where input grows by files or ranks
SHORT_LIFE = 500  # records between starts where it grows by runs: 0.1 MB


@dataclass(frozen=True)
class Input:
    """Files that are read together, and what they hold."""

    paths: tuple[Path, ...]
    truth: dict[str, int]

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    @property
    def names(self) -> list[str]:
        return [str(path) for path in self.paths]


@functools.cache
def _maker() -> str:
    """What tells inputs of these generators from those of earlier ones."""
    text = b"".join((HERE / f"{name}.py").read_bytes() for name in ("make_log", "make_trace"))
    return hashlib.sha256(text + Path(__file__).read_bytes()).hexdigest()[:16]


def name(size: int) -> str:
    return f"{size / 1e9:g}gb" if size >= 10**9 else f"{size / 1e6:g}mb"


def _made(path: Path, write: Callable[[Path], Any]) -> Input:
    """The file, or the files of the folder, that `write` makes; it returns a truth."""
    note = path.with_name(path.name + ".truth.json")
    known = json.loads(note.read_text()) if note.exists() else {}
    if known.get("maker") != _maker() or not path.exists():
        print(f"making {path.name}", file=sys.stderr)
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in (note, path):
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
        half = path.with_name(f"half-{path.name}")
        shutil.rmtree(half, ignore_errors=True)
        known = {"maker": _maker(), "truth": asdict(write(half))}
        half.rename(path)
        note.write_text(json.dumps(known))
    return Input(tuple(sorted(path.iterdir())) if path.is_dir() else (path,), known["truth"])


def log(size: int) -> Input:
    """A server's log with a start a megabyte."""
    return _made(FOLDER / f"log-{name(size)}.log", lambda path: make_log.write(path, size, SEED))


def gz(size: int) -> Input:
    plain = log(size)

    def write(path: Path) -> make_log.Truth:
        with (
            plain.paths[0].open("rb") as text,
            path.open("wb") as out,
            gzip.GzipFile("", "wb", 6, out, mtime=0) as packed,
        ):
            shutil.copyfileobj(text, packed, 1 << 20)
        return make_log.Truth(**plain.truth)

    return _made(FOLDER / f"log-{name(size)}.log.gz", write)


def zst(size: int) -> Input:
    import zstandard

    plain = log(size)

    def write(path: Path) -> make_log.Truth:
        with plain.paths[0].open("rb") as text, path.open("wb") as out:
            zstandard.ZstdCompressor().copy_stream(text, out)
        return make_log.Truth(**plain.truth)

    return _made(FOLDER / f"log-{name(size)}.log.zst", write)


def ranks(size: int) -> Input:
    """The lines of `log` as 16 ranks printed them, each into a file of its own."""
    return _made(FOLDER / f"log-{name(size)}-ranks", lambda folder: _deal(folder, size))


def _deal(folder: Path, size: int) -> make_log.Truth:
    """The same records; each rank says when it starts."""
    folder.mkdir()
    outs = [(folder / f"server-rank{rank:02}.log").open("wb") for rank in range(RANKS)]
    wanted = log(size).truth["starts"]
    truth = make_log.Truth()
    rank = printed = 0
    for block, truth in make_log.blocks(SEED):
        parts: list[list[str]] = [[block[0]] for _ in outs]
        for line in block[1:]:
            if printed >= SLICE and line.startswith("[20"):  # the lines of a traceback stay
                rank, printed = (rank + 1) % RANKS, 0
            printed += 1
            parts[rank].append(line.replace(" TP0]", f" TP{rank}]"))
        truth.lines += sum(map(len, parts))
        for out, part in zip(outs, parts, strict=True):
            truth.bytes += out.write(("\n".join(part) + "\n").encode())
        if truth.starts == wanted:
            break
    for out in outs:
        out.close()
    return truth


def trace(size: int) -> Input:
    """Flat records of steps with four lists each."""
    return _made(
        FOLDER / f"trace-{name(size)}.jsonl", lambda path: make_trace.write(path, size, SEED)
    )


def steps(number: int) -> Input:
    """That many steps without their trees."""
    return _made(
        FOLDER / f"steps-{number}.jsonl",
        lambda path: make_trace.write(path, 0, SEED, lists=False, steps=number),
    )


def short() -> Input:
    """A log of about 300 lines."""
    return _made(FOLDER / "log-300-lines.log", lambda path: make_log.write(path, 1, SEED, life=300))


# Inputs that grow, each by one thing.


def rows(size: int) -> Input:
    """One server that starts once."""
    return _made(
        FOLDER / f"rows-{name(size)}.log", lambda path: make_log.write(path, size, SEED, None)
    )


def runs(size: int) -> Input:
    """A server that starts again every 0.1 MB."""
    return _made(
        FOLDER / f"runs-{name(size)}.log",
        lambda path: make_log.write(path, size, SEED, SHORT_LIFE),
    )


def many_files(size: int) -> Input:
    """Logs of servers that have nothing to do with each other."""
    return _many("job", size, lambda path, at: make_log.write(path, PART, SEED + at, None))


def many_ranks(size: int) -> Input:
    """One server, a log of each rank."""
    return _many("rank", size, lambda path, at: make_log.write(path, PART, SEED, None, rank=at))


def _many(what: str, size: int, write: Callable[[Path, int], make_log.Truth]) -> Input:
    folder = FOLDER / f"many-{what}s"

    def part(at: int) -> Input:
        return _made(folder / f"{what}-{at:03}.log", lambda path: write(path, at))

    parts = [part(at) for at in range(max(1, size // PART))]
    total = {key: sum(part.truth[key] for part in parts) for key in parts[0].truth}
    return Input(tuple(part.paths[0] for part in parts), total)


GROWING = {"rows": rows, "runs": runs, "files": many_files, "ranks": many_ranks}
