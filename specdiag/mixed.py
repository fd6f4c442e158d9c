"""Several servers that write into one file: whose line is whose.

Collectors of containers, pods and actors, and llama.cpp's router, name the writer before each line
or in its record. A file in which two or more of the writers are servers is read once for each of
them, as if each had a file of its own: then nobody's traceback is torn by another one's lines, no
rank is another server's, and a service that is no server is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from specdiag import boxed, content, document, export, raw, recognition
from specdiag.labels import escape
from specdiag.parser import Parser
from specdiag.source import Own, Source

LOOKED_AT = 2000  # lines of a writer
FEWEST = 2  # of them
MOST = 64  # writers of one file; what has more names is no name of a writer
PIECES, PIECE = 64, 64 << 10  # places where a long file is looked at, and the bytes of each

_TIME = r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.,]+(?:Z|[+-][0-9:]+)"
# What stands before a writer's name, the name, and what stands behind it.
_FRONT = (r"^\(", r"APIServer pid=[0-9]+", r"\) ")  # of vLLM: nothing else tells two servers apart
PREFIXES = (
    (r"^\[ *", r"[0-9]{2,5}", r"\] "),  # llama.cpp's router: the port of the child
    (r"^\[pod/", r"[^\]\s]+", r"\] "),  # kubectl --prefix
    (r"^(?:[0-9:]{8} )?(?:[0-9]+\|)?", r"[A-Za-z0-9][A-Za-z0-9._/@-]*", r" +\| ?"),  # compose, pm2
    # Ray: a replica, or an engine of those who train on what it says; each has a process.
    (r"^\((?:ServeReplica:)?",
     r"(?:[^():\s]+:[^()\s]+|SGLang\w*|\w*HttpServer|LLM(?:Server|RayActor)) pid=[0-9]+",
     r"(?:, ip=[0-9.]+)?\) "),
    (rf"^(?:[A-Z][a-z]{{2}} +[0-9]{{1,2}} [0-9:.]{{8,}}|{_TIME}) ", r"[^ \[(]+ [^ \[(:]+",
     r"(?:\[[0-9]+\])?: "),  # syslog: host and unit
    (rf"^{_TIME} ", r"[^ /]+/[^ ]+", " "),  # aws logs tail
    ("^", r"[a-z0-9]+(?:-[a-z0-9]+)+ [a-z0-9]+(?:-[a-z0-9]+)*", " "),  # stern: pod and container
)  # fmt: skip
KEYS = (
    r"pod_name|podName|k8s\.pod\.name|pod", r"container_name|containerName|container",
    "_SYSTEMD_UNIT|UNIT", "service_name|service|app", "host|hostname|_HOSTNAME|instance",
)  # fmt: skip
# What is pasted below the log of a server: what a benchmark prints at its end, a page of /metrics.
PASTED = 4 << 20  # bytes: such a file is short
_RESULT = (
    r"^(?:=+ [A-Z][A-Za-z ]+ Benchmark Result =+|={20,}|-{3,}[A-Z][^=]*[a-z)]-{3,}|"
    r"(?:Mean|Median|P[0-9.]+|Max|Total|Peak|Successful|Failed|Benchmark|Request|Input|Output|"
    r"Accept\w*|Concurrency|Backend|Traffic|Maximum|Draft\w*)[^:\[\]]*:\s{2,}\S+|"
    r"Per-position acceptance \(%\):|  +Position [0-9]+:\s+[0-9.]+|"
    r"(?:Accuracy|Invalid|Latency|Output throughput|Accept length): +[0-9.]+(?: s| token/s)?)\s*$"
)
_METRIC = (
    r"^(?:# (?:HELP|TYPE) [A-Za-z_:][A-Za-z0-9_:]* .*|"
    r"[a-z]+[:_][A-Za-z0-9_:]+(?:\{.*\})? (?:[0-9.+-][0-9.e+-]*|NaN|[+-]?Inf))\s*$"
)
_PASTES = {_RESULT: (b" Benchmark Result =", b"\nAccuracy: "), _METRIC: (b"\n# TYPE ",)}
# Nodes of one server say where they meet.
_SEVERAL = re.compile(r"""nnodes['"]?[=:] ?(?:[2-9]|[1-9][0-9])""")
_MEETING = re.compile(
    r"""(?:dist_init_addr|master_addr|data_parallel_address)['"]?[=:] ?['"]([^'"]+)['"]"""
)


def parted(file: Source, parsers: list[Parser]) -> list[Source]:
    """The file once for each server that writes into it; just the file where it is one's."""
    if file.magic() == content.PARQUET:
        return [file]
    head = boxed.head(file)
    quiet = replace(file, notices=[], marks=[])
    level = document.level(head)
    first = _lines(document.split(head, level) if level else head)
    lines: list[str] = []
    for before, name, after, strips in _kinds(first):
        any_name = re.compile(f"{before}({name}){after}")
        if sum(1 for line in first if any_name.search(line)) < FEWEST:
            continue
        if level and not quiet.records:
            export.have_records(quiet, level)
        lines = lines or [line for piece in _pieces(quiet) for line in _lines(piece)]
        beside = (before, name, after) == _FRONT
        names = _servers(any_name, strips, beside, lines, parsers)
        if len(names) > 1:
            patterns = [f"{before}(?:{'|'.join(map(escape, one))}){after}" for one in names]
            own = [
                Own(one, strips, re.sub(r"[^A-Za-z0-9._/:-]+", "-", members[0]))
                for one, members in zip(patterns, names, strict=True)
            ]
            rest = Own(f"{before}(?:{'|'.join(escape(n) for one in names for n in one)}){after}",
                       False, "", others=True)  # fmt: skip
            if _claimed(_theirs(rest, lines), parsers):  # the router itself, or another actor
                own.append(rest)
            return [
                replace(quiet, own=replace(one, head=_theirs(one, lines)), notices=[], marks=[],
                        again=nth > 0)
                for nth, one in enumerate(own)
            ]  # fmt: skip
    return _below(quiet, parsers) or [file]


def _below(file: Source, parsers: list[Parser]) -> list[Source]:
    """The log of a server, and what was pasted into it."""
    if not file.plain or file.size() > PASTED or file.records:
        return []
    data = b"".join(content.chunks(file, content.BLOCK))
    pastes = [one for one, marks in _PASTES.items() if any(mark in data for mark in marks)]
    if not pastes:
        return []
    lines = _lines(data)
    whose = {one: _whose(_theirs(Own(one, False, ""), lines), parsers) for one in pastes}
    log = Own("|".join(pastes), False, "", others=True)
    server = _whose(_theirs(log, lines), parsers)
    # What a benchmark prints above its result is its own.
    if server is None or None in whose.values() or server in whose.values():
        return []
    return [
        replace(
            file, own=replace(one, head=_theirs(one, lines)), notices=[], marks=[], again=nth > 0
        )
        for nth, one in enumerate([log, *(Own(one, False, "") for one in pastes)])
    ]


def _lines(data: bytes) -> list[str]:
    return [raw.plain(line) for line in data.decode("utf-8", "replace").splitlines()]


def _kinds(lines: list[str]) -> Iterator[tuple[str, str, str, bool]]:
    """How writers may be named, and whether that is no part of what they write."""
    if lines and lines[0].lstrip().startswith("{"):
        for keys in KEYS:
            yield rf'"(?:{keys})"\s*:\s*"', r'[^"\\]+', '"', False
    else:
        for before, name, after in PREFIXES:
            yield before, name, after, True
        yield *_FRONT, False


def _pieces(file: Source) -> Iterator[bytes]:
    """A file as a whole, or the begin of a long one and more from all over it."""
    if file.records:
        yield file.records
        return
    yield next(content.chunks(file, content.BLOCK), b"")
    size = file.size()
    if file.plain and size > content.BLOCK:
        with open(file.path, "rb") as stream:
            for nth in range(1, PIECES + 1):
                stream.seek(size * nth // (PIECES + 1))
                yield stream.read(PIECE).partition(b"\n")[2].rpartition(b"\n")[0]


def _servers(
    pattern: re.Pattern[str], strips: bool, beside: bool, lines: list[str], parsers: list[Parser]
) -> list[list[str]]:
    """The names of each server among the writers: nodes of one server have one each.

    Those that must be `beside` each other are lives of one server where they are not.
    """
    texts: dict[str, list[str]] = {}
    spans: dict[str, tuple[int, int]] = {}
    for nth, line in enumerate(lines):
        found = pattern.search(line)
        if found is None:
            continue
        mine = texts.setdefault(found[1], [])
        spans[found[1]] = spans.get(found[1], (nth, nth))[0], nth
        if len(texts) > MOST:
            return []
        if len(mine) < LOOKED_AT:
            mine.append(line[found.end() :] if strips else line)
    lives = sorted(spans.values())
    if beside and any(start > end for (_, end), (start, _) in pairwise(lives)):
        return []
    servers: dict[str, list[str]] = {}
    for name, mine in sorted(texts.items()):
        data = "\n".join(mine)
        if len(mine) < FEWEST or not _claimed(data.encode(), parsers):
            continue
        meeting = _MEETING.search(data) if _SEVERAL.search(data) else None
        servers.setdefault(meeting[1] if meeting else f" {name}", []).append(name)
    return list(servers.values())


def _claimed(data: bytes, parsers: list[Parser]) -> bool:
    return _whose(data, parsers) is not None


def _whose(data: bytes, parsers: list[Parser]) -> str | None:
    form, _ = recognition.look(parsers, data) if data else (None, [])
    return form.parser.name if form is not None and form.parser.format == "lines" else None


def _theirs(own: Own, lines: list[str]) -> bytes:
    """The first lines of a writer, as a file of its own would begin."""
    pattern = re.compile(own.pattern)
    found: list[str] = []
    for line in lines:
        if (pattern.search(line) is None) == own.others:
            found.append(pattern.sub("", line, count=1) if own.strips else line)
        if len(found) == LOOKED_AT:
            break
    return "\n".join(found).encode()
