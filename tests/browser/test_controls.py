"""The search box, the theme and the button that saves the findings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inputs import SICK
from looks import luminance

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Of every entry that can be searched: whether it is shown, and the text that is searched.
ENTRIES = """() => [...document.querySelectorAll("[data-search]")].map(one => ({
  hidden: one.closest("[hidden]") !== null, seen: one.checkVisibility({visibilityProperty: true}),
  text: `${one.dataset.search} ${one.textContent}`.toLowerCase(),
}))"""

Opened = Callable[..., "Page"]


# Search


@pytest.fixture
def searched(page_of: Opened) -> Page:
    """A page with a search box."""
    page = page_of(SICK)
    assert page.locator("input#search[type=search]").count()
    return page


def entries(page: Page, words: str) -> list[dict[str, object]]:
    """What is shown and hidden once words are searched."""
    page.locator("#search").fill(words)
    return page.evaluate(ENTRIES)


@pytest.mark.parametrize("words", ["counter_is_not_acceptance", "Accepted Depth", "step_time"])
def test_search_shows_what_has_the_words_and_hides_the_rest(words: str, searched: Page) -> None:
    found = entries(searched, words)
    shown = [one for one in found if not one["hidden"]]
    assert 0 < len(shown) < len(found)
    for one in shown:
        assert all(word in str(one["text"]) for word in words.lower().split())
        assert one["seen"], "a hit that stays folded away"
    assert str(len(shown)) in searched.locator("#search-count").inner_text()


def test_search_reaches_findings_and_rules(searched: Page) -> None:
    for name in ("depth_contradicts_commit", "step_time_superlinear"):  # one found, one passed
        assert any(not one["hidden"] for one in entries(searched, name)), name


def test_an_emptied_search_box_shows_everything_again(searched: Page) -> None:
    entries(searched, "no such words")
    assert all(not one["hidden"] for one in entries(searched, ""))
    assert not searched.locator("#search-count").inner_text().strip()


@pytest.mark.parametrize("words", ["no such words", "(", "[a-", "\\", "<img src=x>", "'\""])
def test_odd_words_are_searched_as_they_are(words: str, searched: Page) -> None:
    for one in entries(searched, words):
        assert one["hidden"] or all(word in str(one["text"]) for word in words.split())


def test_the_number_of_hits_is_said_to_a_screen_reader(searched: Page) -> None:
    count = searched.locator("#search-count")
    live = count.get_attribute("aria-live") or count.get_attribute("role")
    assert live in ("polite", "assertive", "status")
    entries(searched, "no such words")
    assert count.inner_text().strip()


def test_a_link_to_a_finding_beats_the_search(searched: Page) -> None:
    entries(searched, "step_time")
    link = searched.locator("section[aria-labelledby=runs] a[href^='#finding-']").first
    target = link.get_attribute("href")
    link.click()
    heading = searched.locator(f"{target} :is(h3, h4)").first
    heading.wait_for()  # the page hears of the link a moment after the click
    assert heading.is_visible()


# Theme


@pytest.fixture
def themed(page_of: Opened) -> Callable[..., Page]:
    """Open a page that has a button for the theme."""

    def themed(scheme: str) -> Page:
        page = page_of(SICK, color_scheme=scheme)
        assert page.locator("button#theme").count()
        return page

    return themed


def theme(page: Page) -> str:
    """The theme that was chosen: auto, light or dark."""
    return page.evaluate("document.documentElement.dataset.theme ?? 'auto'")


def is_dark(page: Page) -> bool:
    """What the reader sees, whatever was chosen."""
    return luminance(page, "body", "backgroundColor") < 0.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_button_goes_through_all_themes(scheme: str, themed: Callable[..., Page]) -> None:
    page = themed(scheme)
    assert theme(page) == "auto"
    seen = {}
    for _ in range(3):
        page.locator("#theme").click()
        seen[theme(page)] = is_dark(page)
    assert seen == {"light": False, "dark": True, "auto": scheme == "dark"}
    assert theme(page) == "auto"


def test_the_theme_is_remembered(themed: Callable[..., Page]) -> None:
    page = themed("light")
    while theme(page) != "dark":
        page.locator("#theme").click()
    for _ in range(20):  # chromium may take some milliseconds to hand over what it stored
        page.reload()
        if theme(page) == "dark":
            break
    assert theme(page) == "dark" and is_dark(page)


def test_the_button_says_which_theme_is_on(themed: Callable[..., Page]) -> None:
    page = themed("light")
    said = set()
    for _ in range(3):
        page.locator("#theme").click()
        said.add(page.locator("#theme").evaluate("one => one.ariaLabel || one.innerText"))
    assert len(said) == 3


# Save


@pytest.fixture
def saved(page_of: Opened) -> Page:
    """A page that carries its findings."""
    page = page_of(SICK)
    assert page.locator("#save").count()
    return page


def test_the_page_carries_what_output_json_writes(saved: Page, report: Callable[..., Path]) -> None:
    carried = saved.evaluate("specdiag.diagnosis()")
    assert json.loads(carried) == json.loads(report(SICK).with_suffix(".json").read_text())


def test_the_button_saves_what_output_json_writes(saved: Page, report: Callable[..., Path]) -> None:
    with saved.expect_download() as download:
        saved.locator("#save").click()
    assert download.value.suggested_filename.endswith(".json")
    written = json.loads(Path(download.value.path()).read_text())
    assert written == json.loads(report(SICK).with_suffix(".json").read_text())
