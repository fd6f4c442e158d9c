"""The draft-tree explorer: to a contradiction and back, and a link to any step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inputs import HEALTHY_TRACE, TRACE

if TYPE_CHECKING:
    from playwright.sync_api import Page

Opened = Callable[..., "Page"]


@pytest.fixture
def explorer(page_of: Opened) -> Opened:
    """Open the report of a trace at its explorer."""

    def explorer(*paths: Path, **options: object) -> Page:
        page = page_of(*paths, **options)
        assert page.locator("#explorer").count()
        return page

    return explorer


def go(page: Page, where: str) -> str:
    """Press the button for a place: the hash that the page is at then."""
    page.locator(f"#explorer [data-go={where}]").click()
    return page.evaluate("location.hash")


def head(page: Page) -> str:
    """What the explorer says of the step that it shows."""
    return page.locator("#explorer [data-step]").first.inner_text()


def test_a_contradiction_shows_what_contradicts_what(explorer: Opened) -> None:
    page = explorer(TRACE)
    at = go(page, "next-contradiction")
    assert at.startswith("#step-")
    rows = page.locator("#explorer .identity")
    assert rows.count() and rows.first.is_visible()
    assert head(page).strip()
    assert page.locator("#explorer svg").first.is_visible()


def test_to_the_next_contradiction_and_back(explorer: Opened) -> None:
    page = explorer(TRACE)
    first, of_first = go(page, "next-contradiction"), head(page)
    second, of_second = go(page, "next-contradiction"), head(page)
    assert second != first and of_second != of_first
    assert page.locator("#explorer .identity").count()
    assert go(page, "previous-contradiction") == first
    assert head(page) == of_first


def test_a_reload_keeps_the_step(explorer: Opened) -> None:
    page = explorer(TRACE)
    at, said = go(page, "next-contradiction"), head(page)
    page.reload()
    assert page.evaluate("location.hash") == at
    assert head(page) == said


def test_a_link_to_a_step_shows_it(explorer: Opened) -> None:
    page = explorer(TRACE)
    places = ("next-contradiction", "next-contradiction", "next-branch")
    for link, said in [(go(page, place), head(page)) for place in places]:
        page = explorer(TRACE, at=link)
        assert head(page) == said
        box = page.locator("#explorer [data-step]").first.bounding_box()
        assert box and 0 <= box["y"] < 800, f"{link} is out of sight"


def test_a_link_to_a_step_that_is_not_there_does_no_harm(explorer: Opened) -> None:
    page = explorer(TRACE, at="#step-no-such-run-r99-12345")
    assert page.locator("#explorer").is_visible()
    assert go(page, "next-contradiction").startswith("#step-")


def test_steps_of_a_correct_trace_have_no_contradiction_but_branches(explorer: Opened) -> None:
    page = explorer(HEALTHY_TRACE)
    contradiction = page.locator("#explorer [data-go=next-contradiction]")
    assert not contradiction.count() or contradiction.is_disabled()
    assert go(page, "next-branch").startswith("#step-")
    assert not page.locator("#explorer .identity").count()


@pytest.mark.parametrize("what", ["run", "request", "step"])
def test_a_run_a_request_and_a_step_can_be_picked(
    what: str, explorer: Opened, traces: Path
) -> None:
    page = explorer(traces)
    runs = options(page, "run")
    assert len(runs) == 2
    if what == "request":  # one of the runs has several
        name = page.locator("#explorer select[data-pick=run] option", has_text="healthy")
        page.locator("#explorer select[data-pick=run]").select_option(
            name.get_attribute("value") or name.inner_text()
        )
    values = options(page, what)[:3]
    assert len(values) > 1
    said = set()
    for value in values:
        pick = page.locator(f"#explorer select[data-pick={what}]")
        pick.select_option(value)
        assert pick.input_value() == value
        assert page.evaluate("location.hash").startswith("#step-")
        said.add(head(page))
    assert len(said) == len(values)


def options(page: Page, what: str) -> list[str]:
    """What can be picked."""
    pick = page.locator(f"#explorer select[data-pick={what}] option")
    return pick.evaluate_all("all => all.map(one => one.value)")


def test_the_pickers_follow_the_buttons(explorer: Opened) -> None:
    page = explorer(TRACE)
    picks = page.locator("#explorer select[data-pick]")
    values = "all => all.map(one => one.value)"
    go(page, "next-contradiction")
    first = picks.evaluate_all(values)
    go(page, "next-contradiction")
    assert picks.evaluate_all(values) != first


def test_the_keyboard_alone_gets_to_a_contradiction(explorer: Opened) -> None:
    page = explorer(TRACE)
    button = page.locator("#explorer [data-go=next-contradiction]")
    for _ in range(500):
        page.keyboard.press("Tab")
        if button.evaluate("one => one === document.activeElement"):
            break
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash").startswith("#step-")
    assert button.evaluate("one => one === document.activeElement"), "the focus is lost"


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_explorer_fits_the_screen(width: int, explorer: Opened) -> None:
    page = explorer(TRACE, width=width)
    go(page, "next-contradiction")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    svg = page.locator("#explorer svg").first
    svg.scroll_into_view_if_needed()
    assert svg.is_visible()


def test_without_script_the_first_contradiction_is_told(page_of: Opened) -> None:
    page = page_of(TRACE, java_script_enabled=False)
    for control in page.locator("#explorer :is(button, select)").all():
        assert not control.is_visible()
    assert page.locator("section[aria-labelledby=findings] .drawn").first.is_visible()
