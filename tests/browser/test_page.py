"""What a reader of the report relies on, on any screen, with or without script and network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inputs import HEALTHY, LONG_CONTEXT, SICK, TRACE
from looks import OPEN_ALL, bottom, luminance

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# True: on a phone, too, the first finding is on the first screen, and a run leads to the cause of
# what is wrong with it, not to a consequence.
SCREENS = {"desktop": (1280, 800), "phone": (390, 844)}


@pytest.mark.parametrize("screen", SCREENS)
def test_verdict_runs_and_first_finding_are_on_the_first_screen(
    screen: str, page_of: Callable[..., Page]
) -> None:
    width, height = SCREENS[screen]
    page = page_of(SICK, width=width, height=height)
    assert page.locator("h1").count() == 1
    assert bottom(page, "h1") <= height
    assert bottom(page, ".summary a") <= height, "what is wrong, in words"
    if screen == "phone":  # a run is as high as a hand is wide
        assert bottom(page, "section[aria-labelledby=runs] tbody tr th") <= height
        return
    for row in page.locator("section[aria-labelledby=runs] tbody tr").all():
        box = row.bounding_box()
        assert box and box["y"] + box["height"] <= height, row.inner_text()
    assert bottom(page, "section[aria-labelledby=findings] h3") <= height


@pytest.mark.parametrize("name", ["sick", "trace", "sixty"])
def test_nothing_is_wider_than_the_screen(
    name: str, page_of: Callable[..., Page], sixty: Path
) -> None:
    page = page_of({"sick": SICK, "trace": TRACE, "sixty": sixty}[name])
    for folded in (True, False):
        if not folded:
            page.evaluate(OPEN_ALL)
        for width in (1920, 1280, 768, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_the_page_is_dark_for_who_prefers_dark(page_of: Callable[..., Page]) -> None:
    light, dark = (page_of(SICK, color_scheme=scheme) for scheme in ("light", "dark"))
    assert luminance(light, "body", "backgroundColor") > 0.8
    assert luminance(light, "h1", "color") < 0.3
    assert luminance(dark, "body", "backgroundColor") < 0.2
    assert luminance(dark, "h1", "color") > 0.7


@pytest.mark.parametrize("path", [SICK, LONG_CONTEXT, HEALTHY, TRACE], ids=lambda path: path.name)
def test_reading_the_page_to_its_end_asks_for_nothing(
    path: Path, page_of: Callable[..., Page]
) -> None:
    page = page_of(path)
    page.evaluate(OPEN_ALL)
    seen = 0
    while seen < page.evaluate("document.documentElement.scrollHeight"):
        page.evaluate("top => scrollTo({top, behavior: 'instant'})", seen)
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        seen += 700
    assert page.evaluate("scrollY") > 0, "the page is longer than a screen"
    # page_of fails the test for a request, an error or a warning


def test_requests_and_errors_of_a_page_are_heard(
    browser: Browser, heard: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "bad.html").write_text(
        "<!doctype html><title>bad</title><img src='http://127.0.0.1:9/x.png'>"
        "<script>alert('hello'); console.error('told'); throw new Error('thrown')</script>"
    )
    context, complaints = browser.new_context(offline=True), []
    heard(context, complaints)
    with context.expect_event("weberror"):
        context.new_page().goto((tmp_path / "bad.html").as_uri())
    context.close()
    for expected in ("request: http://127.0.0.1:9/x.png", "dialog: hello", "told", "thrown"):
        assert any(expected in one for one in complaints), complaints


def test_findings_proof_and_tables_need_no_script(page_of: Callable[..., Page]) -> None:
    page = page_of(SICK, java_script_enabled=False)
    findings = page.locator("section[aria-labelledby=findings]")
    assert findings.locator("h3").first.is_visible()
    assert findings.get_by_text("avg_accepted_depth=7.00").first.is_visible()
    assert page.locator("section[aria-labelledby=runs] table").first.is_visible()
    for picture in page.locator(".pictures > figure.picture").all():
        if picture.is_visible():  # the rest of its kind is folded
            assert picture.locator("svg").first.is_visible(), picture.get_attribute("id")
    for table in page.locator("figure.picture details table").all():
        assert table.locator("tr").count() > 1
    for dead in page.locator("button, input, select").all():
        assert not dead.is_visible(), "a control that does nothing without script is shown"


# Links to a place


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_link_to_a_finding_shows_it_even_where_it_is_folded(
    script: bool, page_of: Callable[..., Page]
) -> None:
    ids = page_of(SICK).locator("[id^=finding-]").evaluate_all("all => all.map(one => one.id)")
    assert len(ids) == 3
    for one in ids:
        page = page_of(SICK, at=f"#{one}", java_script_enabled=script)
        heading = page.locator(f"#{one}").locator("h2, h3, h4").first
        assert heading.is_visible(), f"{one} is folded"
        box = heading.bounding_box()
        assert box and 0 <= box["y"] < 800, f"{one} is at {box}"


def test_a_run_leads_to_its_worst_finding(page_of: Callable[..., Page]) -> None:
    page = page_of(SICK)
    link = page.locator("section[aria-labelledby=runs] a[href^='#finding-']").first
    target = link.get_attribute("href")
    link.click()
    assert page.evaluate("location.hash") == target
    heading = page.locator(f"{target} :is(h3, h4)").first
    heading.wait_for()  # the page hears of the link a moment after the click
    assert heading.is_visible()
    first = page.locator("[id^=finding-]").first.get_attribute("id")
    assert target == f"#{first}"


# Keyboard

WALK = """() => {
  const at = document.activeElement;
  if (!at || at === document.body || window.walked.includes(at)) return null;
  window.walked.push(at);
  const style = getComputedStyle(at), box = at.getClientRects()[0] ?? at.getBoundingClientRect();
  const x = Math.min(box.left + box.width / 2, innerWidth - 1), y = box.top + box.height / 2;
  const top = document.elementFromPoint(x, y);
  return {
    what: at.outerHTML.slice(0, 120),
    marked: (style.outlineStyle !== "none" && style.outlineWidth !== "0px")
      || style.boxShadow !== "none",
    seen: box.height > innerHeight || (top !== null && (at.contains(top) || top.contains(at))),
  };
}"""
ORDER = """() => {
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
    .filter(one => one.tabIndex >= 0 && !one.disabled && one.checkVisibility({visibilityProperty: true}));
  return {
    all: all.map(one => one.outerHTML.slice(0, 120)),
    walked: window.walked.filter(one => all.includes(one)).map(one => all.indexOf(one)),
  };
}"""


@pytest.mark.parametrize("folded", [True, False], ids=["folded", "open"])
@pytest.mark.parametrize("path", [SICK, TRACE], ids=lambda path: path.name)
def test_tab_reaches_every_control_in_order_and_shows_where_it_is(
    path: Path, folded: bool, page_of: Callable[..., Page]
) -> None:
    page = page_of(path)
    if not folded:
        page.evaluate(OPEN_ALL)
    for picture in page.locator("figure.picture:visible").all():  # they move what is below them
        picture.scroll_into_view_if_needed()
        page.wait_for_function("one => one.dataset.live", arg=picture.element_handle())
    page.evaluate("scrollTo(0, 0)")
    page.evaluate("window.walked = []")
    for _ in range(1000):
        page.keyboard.press("Tab")
        if not (focus := page.evaluate(WALK)):
            break
        assert focus["marked"], f"nothing shows the focus on {focus['what']}"
        assert focus["seen"], f"out of sight or covered: {focus['what']}"
    order = page.evaluate(ORDER)
    assert order["all"]
    missed = set(range(len(order["all"]))) - set(order["walked"])
    assert not missed, [order["all"][n] for n in sorted(missed)]
    assert order["walked"] == sorted(order["walked"])


def test_enter_opens_and_closes_what_is_folded(page_of: Callable[..., Page]) -> None:
    page = page_of(SICK)
    for number in range(page.locator("details").count()):
        details = page.locator("details").nth(number)
        summary = details.locator("> summary")
        if not summary.is_visible():
            continue
        before = details.evaluate("one => one.open")
        summary.focus()
        page.keyboard.press("Enter")
        assert details.evaluate("one => one.open") is not before
        page.keyboard.press("Enter")
        assert details.evaluate("one => one.open") is before
