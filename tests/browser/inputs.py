"""What reports are made of: sample logs, and inputs that are too odd or too large to be kept."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chromium import ROOT, SAMPLES

SICK = SAMPLES / "founding-1-depth-against-commit"
LONG_CONTEXT = SAMPLES / "founding-2-long-context.log"
HEALTHY = SAMPLES / "healthy-dflash.log"
TRACE = SAMPLES / "walk_stopped_early.jsonl"
HEALTHY_TRACE = SAMPLES / "healthy-tree-trace.jsonl"

KEPT = {"record", "algorithm", "algorithm_requested", "mode", "accept_rule", "clock", "dtype"}


def many_runs(folder: Path, number: int = 60) -> Path:
    """As many folders with a server's log each, sick ones and healthy ones, as there are to be."""
    logs = sorted(SAMPLES.glob("*.log"))
    for n, log in enumerate(itertools.islice(itertools.cycle(logs), number)):
        run = folder / f"node{n // 8:02}-gpu{n % 8}"
        run.mkdir(parents=True)
        shutil.copy(log, run / "server.log")
    return folder


def nothing(folder: Path) -> Path:
    """A folder in which nothing is understood."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.txt").write_text("Restarted the server twice, still slow.\nAsk Kim.\n" * 20)
    (folder / "core.bin").write_bytes(bytes(range(256)) * 16)
    return folder


def huge(path: Path, lines: int = 1_000_000) -> Path:
    """One server's log of that many lines."""
    make = runpy.run_path(str(ROOT / "benchmarks" / "make_log.py"))["lines"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in itertools.islice(make(7), lines))
    return path


def traces(folder: Path) -> Path:
    """One folder with a broken trace and a correct one."""
    folder.mkdir(parents=True, exist_ok=True)
    for trace in (TRACE, HEALTHY_TRACE):
        shutil.copy(trace, folder)
    return folder


def hostile(folder: Path, text: str) -> Path:
    """Logs and traces that carry a text wherever a line can carry one, and still have findings."""
    place = folder / re.sub(r"[/\0]", "", text)[:60]
    place.mkdir(parents=True)
    for name in ("start_failed.log", "server_died.log", "throughput_contradicts_commit.log"):
        lines = (SAMPLES / name).read_text().splitlines()
        _write(place / name, lines, lambda line: _in_line(line, text))
    (sick,) = SICK.glob("ddtree*.log")
    _write(place / "depth.log", sick.read_text().splitlines(), lambda line: _in_line(line, text))
    for trace in (TRACE, HEALTHY_TRACE):
        name = f"{place.name[:40]}-{trace.name}"
        _write(folder / name, trace.read_text().splitlines(), lambda line: _in_record(line, text))
    return folder


def _write(path: Path, lines: list[str], change: Callable[[str], str]) -> None:
    """A long text is put into a few lines only: else the file would be as large as it is long."""
    every = max(1, len(lines) // 8) if len(change(lines[0])) > 100_000 else 1
    path.write_text(
        "".join((change(line) if n % every == 0 else line) + "\n" for n, line in enumerate(lines))
    )


def _in_line(line: str, text: str) -> str:
    quoted = text.replace("'", "").replace('"', "")
    line = re.sub(r"(model_path|tokenizer_path)='[^']*'", rf"\1='{_plain(quoted)}'", line)
    line = re.sub(r"Error: ", f"Error: {_plain(text)} ", line)
    return f"{line} note={text} {text}=1"


def _plain(text: str) -> str:
    return text.replace("\\", r"\\")


def _in_record(line: str, text: str) -> str:
    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: one if key in KEPT else change(one) for key, one in value.items()}
        return f"{value}{text}" if isinstance(value, str) else value

    record = change(json.loads(line))
    return json.dumps(record | {"note": text}, ensure_ascii=False)
