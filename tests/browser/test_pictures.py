"""Every picture: drawn without script, with its numbers beside it, and alive once it is reached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inputs import HEALTHY_TRACE, LONG_CONTEXT, SICK, TRACE

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PATHS = [SICK, LONG_CONTEXT, TRACE, HEALTHY_TRACE]
NAMES = [path.name for path in PATHS]


@pytest.fixture
def pictures(page_of: Callable[..., Page]) -> Callable[..., list[Locator]]:
    """The pictures of a report that has some."""

    def pictures(*paths: Path, **options: object) -> list[Locator]:
        page = page_of(*paths, **options)
        assert page.locator("figure.picture").count()
        page.evaluate("document.querySelectorAll('details.rest').forEach(one => one.open = true)")
        return page.locator("figure.picture").all()

    return pictures


def reach(picture: Locator) -> None:
    """Scroll to a picture and wait until it is alive."""
    picture.scroll_into_view_if_needed()
    picture.page.wait_for_function(
        "one => one.dataset.live === 'done'", arg=picture.element_handle(), timeout=20_000
    )


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_picture_is_drawn_and_has_its_numbers_without_script(
    path: Path, pictures: Callable[..., list[Locator]]
) -> None:
    for picture in pictures(path, java_script_enabled=False):
        svg = picture.locator("svg").first
        assert svg.is_visible()
        drawn = "path, line, rect, circle, polyline, polygon, use"
        assert svg.locator(drawn).count() > 2 and svg.locator("text").count()
        assert picture.locator("figcaption").first.inner_text().strip()
        folded = picture.locator("details:has(table)").first
        folded.locator("> summary").click()
        table = folded.locator("table").first
        assert table.is_visible() and table.locator("th").count()
        assert table.locator("tbody tr").count()


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_pictures_have_places_of_their_own(
    path: Path, pictures: Callable[..., list[Locator]]
) -> None:
    ids = [picture.get_attribute("id") or "" for picture in pictures(path)]
    assert len(ids) == len(set(ids))
    assert all(one.startswith("figure-") for one in ids)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_picture_comes_alive_where_it_is_and_fits(
    path: Path, width: int, pictures: Callable[..., list[Locator]]
) -> None:
    for picture in pictures(path, width=width):
        reach(picture)
        live = picture.locator(".live")
        assert live.first.is_visible()
        assert live.locator("svg, canvas").count()
        assert picture.page.evaluate("document.documentElement.scrollWidth") <= width
        box, outer = live.first.bounding_box(), picture.bounding_box()
        assert box and outer and box["width"] <= outer["width"] + 1 and box["height"] > 100


def test_a_picture_far_below_waits_until_it_is_reached(
    pictures: Callable[..., list[Locator]],
) -> None:
    (*_, last) = pictures(SICK)
    box = last.bounding_box()
    if box and box["y"] > 4 * 800:
        assert last.get_attribute("data-live") is None
    reach(last)


def test_a_living_picture_does_not_move_what_is_below_it(
    pictures: Callable[..., list[Locator]],
) -> None:
    for picture in pictures(SICK):
        picture.scroll_into_view_if_needed()
        before = picture.bounding_box()
        reach(picture)
        after = picture.bounding_box()
        assert before and after and abs(before["height"] - after["height"]) < 40


def test_pictures_are_printed(pictures: Callable[..., list[Locator]]) -> None:
    for alive in (False, True):
        for picture in pictures(SICK, width=718):
            if alive:
                reach(picture)
            picture.page.emulate_media(media="print")
            drawn = [svg for svg in picture.locator("svg").all() if svg.is_visible()]
            box = drawn[0].bounding_box() if drawn else None
            assert box and box["width"] > 200 and box["x"] + box["width"] <= 719
            picture.page.emulate_media(media="screen")


def test_a_picture_is_drawn_in_the_theme_that_is_on(
    pictures: Callable[..., list[Locator]],
) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        picture = pictures(SICK, color_scheme=scheme)[0]
        text = "one => getComputedStyle(one.querySelector('text')).fill"
        static = picture.locator("svg").first.evaluate(text)
        reach(picture)
        alive = picture.locator(".live svg:has(text)").first.evaluate(text)
        colours[scheme] = (static, alive)
    assert colours["light"][0] != colours["dark"][0]
    assert colours["light"][1] != colours["dark"][1]
