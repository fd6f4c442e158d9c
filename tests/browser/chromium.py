"""Chromium, driven by Playwright, and the reports of the command that are opened in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_logs"
# The windowless build first: the whole browser now and then stops to draw without a screen, and
# then nothing that waits for the next frame ends.
PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


def missing() -> str:
    """What has to be installed before a page can be opened, or nothing."""
    if find_spec("playwright") is None:
        return "needs playwright: pip install 'specdiag-llm[browser]'"
    return "" if PROGRAM else "needs a browser: apt-get install chromium-headless-shell"


def launch(playwright: Playwright) -> Browser:
    """The distribution's browser: none is downloaded."""
    return playwright.chromium.launch(executable_path=PROGRAM)


def write_report(folder: Path, *paths: Path) -> Path:
    """Analyse files by the command, into page.html and page.json of the folder: the page.

    Paths are given as a user would give them in sample_logs, or else in the folder they are in.
    """
    inside = all(path.is_relative_to(SAMPLES) for path in paths)
    start = SAMPLES if inside else Path(os.path.commonpath([path.parent for path in paths]))
    page = folder.resolve() / "page.html"
    done = subprocess.run(
        [
            sys.executable, "-m", "specdiag", "analyze", *(path.relative_to(start) for path in paths),
            "--html", page, "--output", f"json={page.with_suffix('.json')}",
        ],
        cwd=start,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        errors="replace",
    )  # fmt: skip
    assert page.exists(), f"no page, exit code {done.returncode}:\n{done.stderr[-3000:]}"
    return page
