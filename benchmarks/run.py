"""Time `specdiag check` beside tools that read the same file, and weigh its memory.

    python benchmarks/run.py            # on a 100 MB log that it makes
    python benchmarks/run.py FILE ...   # on your own

Whole processes, taken in turns, the best of each: a busy machine disturbs all alike. What counts
are the ratios.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from make_log import write

ROUNDS = 5
SPECDIAG = [sys.executable, "-m", "specdiag"]
MAWK = (
    'BEGIN{FS=", |: "} /Decode batch/{n++; r+=$3; t+=$5; g+=$15; q+=$17} END{print n, r, t, g, q}'
)
# What people write first: one pattern, a loop over the lines, a few casts.
LOOP = r"""
import re, sys
one = re.compile(r"#running-req: (\d+), #token: (\d+).*?accept len: ([\d.]+)"
                 r".*?throughput \(token/s\): ([\d.]+)")
with open(sys.argv[1], errors="replace") as log:
    found = [m for m in map(one.search, log) if m]
print(len([(int(m[1]), int(m[2]), float(m[3]), float(m[4])) for m in found]))
"""


def spend(command: list[str]) -> tuple[float, float]:
    """(wall seconds, CPU seconds) of a process that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command} exited with {done.returncode}")
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def peak_mb(command: list[str]) -> float:
    """Peak resident memory of a process, in MB."""
    pid = os.posix_spawnp(
        command[0], command, os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)],
    )  # fmt: skip
    _, _, usage = os.wait4(pid, 0)
    return usage.ru_maxrss / 1024


def measure(path: Path) -> None:
    size = path.stat().st_size / 1e6
    commands = {
        "wc -l": ["wc", "-l", str(path)],
        "rg -c 'Decode batch'": ["rg", "-c", "Decode batch", str(path)],
        "mawk, four sums": ["mawk", MAWK, str(path)],
        "python, a loop with re": [sys.executable, "-c", LOOP, str(path)],
        "specdiag check": [*SPECDIAG, "check", str(path)],
    }
    commands = {name: c for name, c in commands.items() if shutil.which(c[0])}
    best = {name: (float("inf"), float("inf")) for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            wall, cpu = spend(command)
            best[name] = min(best[name][0], wall), min(best[name][1], cpu)
    ours = best["specdiag check"]
    print(f"\n{path.name}: {size:.0f} MB, best of {ROUNDS}\n")
    print("| | wall s | CPU s | MB/s | specdiag / it (wall) |\n|---|---|---|---|---|")
    for name, (wall, cpu) in best.items():
        print(f"| {name} | {wall:.3f} | {cpu:.2f} | {size / wall:,.0f} | {ours[0] / wall:.2f} |")
    print(f"\nPeak memory of specdiag check: {peak_mb(commands['specdiag check']):.0f} MB")


def start_up() -> None:
    plain = [sys.executable, "-c", "pass"]
    shown = [*SPECDIAG, "--help"]
    bare = min(spend(plain)[0] for _ in range(15))
    help = min(spend(shown)[0] for _ in range(15))
    print(f"\n`specdiag --help`: {1000 * help:.0f} ms, {help / bare:.1f} x a bare `python -c pass`")


if __name__ == "__main__":
    given = [Path(name) for name in sys.argv[1:]]
    if not given:
        given = [Path("build/server.log")]
        write(given[0], 100)
    for one in given:
        measure(one)
    start_up()
    print("\n" + re.sub(r"\s+", " ", f"{os.cpu_count()} cores, Python {sys.version.split()[0]}"))
