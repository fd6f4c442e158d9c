"""Pictures of HTML reports, for a person to look at.

    python tests/browser/screens.py build/screens [INPUT...]

An input is one of `sick`, `long-context`, `healthy`, `trace`, `empty`, `sixty` and `huge`; without
any, all are taken. Each gives INPUT-WIDTHxHEIGHT-SCHEME.png, the first screen, and ...-full.png,
the page from its top, at most 8000 pixels of it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import chromium
import inputs

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SIZES = ((1280, 800), (390, 844), (1920, 1080))
SCHEMES = ("light", "dark")
TALLEST = 8000  # pixels
INPUTS: dict[str, Callable[[Path], Path]] = {
    "sick": lambda folder: inputs.SICK,
    "long-context": lambda folder: inputs.LONG_CONTEXT,
    "healthy": lambda folder: inputs.HEALTHY,
    "trace": lambda folder: inputs.traces(folder / "trace"),
    "empty": lambda folder: inputs.nothing(folder / "empty"),
    "sixty": lambda folder: inputs.many_runs(folder / "fleet"),
    "huge": lambda folder: inputs.huge(folder / "huge.log"),
}


def take(browser: Browser, page: Path, out: Path, name: str) -> None:
    """The page at every size, light and dark: its first screen, and all of it."""
    for width, height in SIZES:
        for scheme in SCHEMES:
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
            )
            shown = context.new_page()
            shown.goto(page.as_uri())
            stem = f"{name}-{width}x{height}-{scheme}"
            shown.screenshot(path=out / f"{stem}.png")
            tall = shown.evaluate("document.documentElement.scrollHeight")
            # A window as tall as the page: what waits to be reached is reached.
            shown.set_viewport_size({"width": width, "height": min(max(tall, height), TALLEST)})
            shown.wait_for_function(
                """() => [...document.querySelectorAll("figure.picture")].every(
                  one => one.getBoundingClientRect().top > innerHeight || !one.checkVisibility()
                    || one.dataset.live === "done")"""
            )
            shown.screenshot(path=out / f"{stem}-full.png")
            context.close()


def main() -> None:
    """Make the reports and take their pictures."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("out", type=Path)
    options.add_argument("inputs", nargs="*", metavar="INPUT", help=", ".join(INPUTS))
    given = options.parse_args()
    if unknown := set(given.inputs) - set(INPUTS):
        options.error(f"no input is called {', '.join(sorted(unknown))}")
    if reason := chromium.missing():
        options.error(reason)
    from playwright.sync_api import sync_playwright

    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser = chromium.launch(playwright)
        for name in given.inputs or INPUTS:
            path = INPUTS[name](Path(folder))
            start = time.perf_counter()
            page = chromium.write_report(out, path)
            seconds = time.perf_counter() - start
            page = page.rename(out / f"{name}.html")
            take(browser, page, out, name)
            print(f"{name}: {page.stat().st_size / 1e3:,.0f} kB after {seconds:.1f} s")
        browser.close()
    (out / "page.json").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
