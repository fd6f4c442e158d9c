"""What the HTML report costs beyond the analysis, and how large it is.

    python benchmarks/page.py            # on a log of a million lines that it makes
    python benchmarks/page.py FILE ...   # on your own

`analyze` with and without the page, whole processes, taken in turns, the best of each.
"""

from __future__ import annotations

import sys
from pathlib import Path

from make_log import write
from run import SPECDIAG, spend

ROUNDS = 3
PAGE = Path("build/page.html")


def measure(path: Path) -> None:
    commands = {
        "analysis": [*SPECDIAG, "analyze", str(path), "--no-html"],
        "with the page": [*SPECDIAG, "analyze", str(path), "--html", str(PAGE)],
    }
    best = {name: (float("inf"), float("inf")) for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            wall, cpu = spend(command)
            best[name] = min(best[name][0], wall), min(best[name][1], cpu)
    (bare, bare_cpu), (page, page_cpu) = best.values()
    print(f"\n{path.name}: {path.stat().st_size / 1e6:.0f} MB, best of {ROUNDS}\n")
    print("| | wall s | CPU s |\n|---|---|---|")
    for name, (wall, cpu) in best.items():
        print(f"| {name} | {wall:.2f} | {cpu:.2f} |")
    print(
        f"\nThe page: {page - bare:.2f} s more ({page / bare:.2f} x), "
        f"{page_cpu - bare_cpu:.2f} s of processor time, {PAGE.stat().st_size / 1e6:.2f} MB"
    )


if __name__ == "__main__":
    given = [Path(name) for name in sys.argv[1:]]
    PAGE.parent.mkdir(exist_ok=True)
    if not given:
        given = [Path("build/million.log")]
        write(given[0], 212)
    for one in given:
        measure(one)
