"""Reports of the command in a real browser, with the network off and every complaint noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chromium
import inputs
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


@pytest.fixture(scope="module")  # Playwright's event loop must be gone before other folders' tests
def browser() -> Iterator[Browser]:
    """One browser for all tests of a module."""
    if reason := chromium.missing():
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = chromium.launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The page of files and folders, made once; page.json lies beside it."""
    known: dict[tuple[Path, ...], Path] = {}

    def report(*paths: Path) -> Path:
        if paths not in known:
            known[paths] = chromium.write_report(tmp_path_factory.mktemp("page"), *paths)
        return known[paths]

    return report


@pytest.fixture(scope="session")
def sixty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sixty runs."""
    return inputs.many_runs(tmp_path_factory.mktemp("sixty") / "fleet")


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a broken trace and a correct one."""
    return inputs.traces(tmp_path_factory.mktemp("traces") / "traces")


@pytest.fixture
def page_of(browser: Browser, report: Callable[..., Path]) -> Iterator[Callable[..., Page]]:
    """Open the report of files: `page_of(SICK, at="#runs", width=390, color_scheme="dark")`.

    After the test no page may have asked for anything or complained.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def page_of(
        *paths: Path, at: str = "", width: int = 1280, height: int = 800, **options: Any
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, offline=True, **options
        )
        contexts.append(context)
        listen(context, complaints)
        page = context.new_page()
        page.goto(report(*paths).as_uri() + at)
        return page

    yield page_of
    for context in contexts:
        context.close()
    assert not complaints, "\n".join(complaints)


@pytest.fixture(scope="session")
def heard() -> Callable[[BrowserContext, list[str]], None]:
    """What `page_of` listens with."""
    return listen


def listen(context: BrowserContext, complaints: list[str]) -> None:
    """Note every request that is not for the page itself, every error, warning and dialog."""
    pages: list[str] = []

    def request(asked: Any) -> None:
        if asked.is_navigation_request() and not pages:
            pages.append(asked.url)
        elif not asked.url.startswith(("data:", "blob:")) and asked.url not in pages:
            complaints.append(f"request: {asked.url[:300]}")

    def console(message: Any) -> None:
        if message.type in ("error", "warning", "assert"):
            complaints.append(f"console {message.type}: {message.text[:1000]}")

    def dialog(shown: Any) -> None:
        complaints.append(f"dialog: {shown.message[:300]}")
        shown.dismiss()

    context.on("request", request)
    context.on("console", console)
    context.on("dialog", dialog)
    context.on("weberror", lambda error: complaints.append(f"page error: {error.error}"[:1000]))
