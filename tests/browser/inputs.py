"""What reports are made of: sample logs, and inputs that are too odd or too large to be kept."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

from chromium import ROOT, SAMPLES

SICK = SAMPLES / "founding-1-depth-against-commit"
LONG_CONTEXT = SAMPLES / "founding-2-long-context.log"
HEALTHY = SAMPLES / "healthy-dflash.log"
TRACE = SAMPLES / "walk_stopped_early.jsonl"
HEALTHY_TRACE = SAMPLES / "healthy-tree-trace.jsonl"

KEPT = {
    "record",
    "algorithm",
    "algorithm_requested",
    "mode",
    "accept_rule",
    "clock",
    "dtype",
}  # or a record is no trace
LOGS = ("start_failed", "server_died", "throughput_contradicts_commit")
LONG = (
    100_000  # characters of a text that is put into few lines and fields: a line has 8 MB at most
)


def many_runs(folder: Path, number: int = 60) -> Path:
    """As many folders with a server's log each, sick ones and healthy ones, as there are to be."""
    logs = sorted(SAMPLES.glob("*.log"))
    for n, log in enumerate(itertools.islice(itertools.cycle(logs), number)):
        run = folder / f"node{n // 8:02}-gpu{n % 8}"
        run.mkdir(parents=True)
        shutil.copy(log, run / "server.log")
    return folder


def nothing(folder: Path) -> Path:
    """A folder of which next to nothing is understood: a page needs one file of a known format."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.txt").write_text("Restarted the server twice, still slow.\nAsk Kim.\n" * 20)
    (folder / "core.bin").write_bytes(bytes(range(256)) * 16)
    first = HEALTHY.read_text().splitlines()[0]
    (folder / "server.log").write_text(f"{first}\n" + "something else\n" * 50)
    return folder


def huge(path: Path, lines: int = 1_000_000) -> Path:
    """One server's log of that many lines."""
    make = runpy.run_path(str(ROOT / "benchmarks" / "make_log.py"))["lines"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in itertools.islice(make(7), lines))
    return path


def traces(folder: Path) -> Path:
    """Folders with a broken trace and a correct one, so that they are two runs."""
    for trace in (TRACE, HEALTHY_TRACE):
        own = folder / trace.stem
        own.mkdir(parents=True, exist_ok=True)
        shutil.copy(trace, own)
    return folder


def hostile(folder: Path, text: str) -> Path:
    """Logs and traces that carry a text wherever a line can carry one, and still have findings."""
    name = re.sub(r"[/\0]", "", text)[:60]
    (sick,) = SICK.glob("ddtree*.log")
    logs = {SAMPLES / f"{log}.log": folder / name / f"{log}.log" for log in LOGS}
    for source, path in (logs | {sick: folder / f"run {name}" / "server.log"}).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = source.read_text().splitlines()
        every = max(1, len(lines) // 8) if len(text) > LONG else 1
        changed = (_in_line(one, text) if n % every == 0 else one for n, one in enumerate(lines))
        path.write_text("".join(f"{line}\n" for line in changed))
    for source in (TRACE, HEALTHY_TRACE)[: 1 if len(text) > LONG else 2]:
        records = map(json.loads, source.read_text().splitlines())
        (folder / f"{name[:40]}-{source.name}").write_text(
            "".join(f"{json.dumps(_in_record(one, text), ensure_ascii=False)}\n" for one in records)
        )
    return folder


def _in_line(line: str, text: str) -> str:
    quoted = text.replace("'", "").replace('"', "")
    line = re.sub(r"(model_path|tokenizer_path)='[^']*'", rf"\1='{_plain(quoted)}'", line)
    line = re.sub(r"Error: ", f"Error: {_plain(text)} ", line)
    return f"{line} note={text} {text}=1"


def _plain(text: str) -> str:
    return text.replace("\\", r"\\")


def _in_record(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        named = {"request"} if len(text) > LONG else value.keys() - KEPT
        return {key: _in_record(one, text) if key in named else one for key, one in value.items()}
    if isinstance(value, list):
        return [_in_record(one, text) for one in value]
    return f"{value}{text}" if isinstance(value, str) else value
