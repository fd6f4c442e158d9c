"""What comes out of a printer: everything, and nothing that only a screen can use."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inputs import LONG_CONTEXT, SICK, TRACE
from looks import OPEN_ALL, luminance

if TYPE_CHECKING:
    from playwright.sync_api import Page

A4 = 718  # pixels between margins of 1 cm
FOLDED = """() => [...document.querySelectorAll("details > :not(summary)")]
  .filter(one => !one.matches(".scripted") && !one.checkVisibility({visibilityProperty: true}))
  .map(one => one.outerHTML.slice(0, 120))"""
CUT = """() => [...document.querySelectorAll("table, pre, figure, svg, code")]
  .filter(one => !one.closest("svg svg, .unseen") && one.checkVisibility())
  .filter(one => {
    const box = one.getBoundingClientRect();
    if (box.left < -1 || box.right > innerWidth + 1) return true;
    for (let outer = one; outer && outer !== document.body; outer = outer.parentElement)
      if (getComputedStyle(outer).overflowX !== "visible" && outer.scrollWidth > outer.clientWidth + 1)
        return !outer.matches("svg, svg *, .unseen");
    return false;
  })
  .map(one => one.outerHTML.slice(0, 120))"""


def printed(page: Page) -> Page:
    """The page as it is laid out for paper."""
    page.emulate_media(media="print")
    return page


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
@pytest.mark.parametrize("name", ["sick", "traces", "sixty"])
def test_everything_folded_is_printed(
    name: str, script: bool, page_of: Callable[..., Page], sixty: Path, traces: Path
) -> None:
    path = {"sick": SICK, "traces": traces, "sixty": sixty}[name]
    page = printed(page_of(path, width=A4, java_script_enabled=script))
    assert page.locator("details").count()
    assert page.evaluate(FOLDED) == []


@pytest.mark.parametrize("name", ["sick", "long context", "trace", "sixty"])
def test_nothing_is_cut_off_at_the_edge_of_the_paper(
    name: str, page_of: Callable[..., Page], sixty: Path
) -> None:
    path = {"sick": SICK, "long context": LONG_CONTEXT, "trace": TRACE, "sixty": sixty}[name]
    page = printed(page_of(path, width=A4))
    page.evaluate(OPEN_ALL)
    assert page.evaluate("document.documentElement.scrollWidth") <= A4
    assert page.evaluate(CUT) == []


def test_controls_are_not_printed(page_of: Callable[..., Page]) -> None:
    page = page_of(TRACE)
    page.evaluate(OPEN_ALL)
    printed(page)
    for control in page.locator("button, input, select").all():
        assert not control.is_visible(), control.evaluate("one => one.outerHTML.slice(0, 120)")


def test_paper_is_white_for_who_prefers_dark(page_of: Callable[..., Page]) -> None:
    page = printed(page_of(SICK, color_scheme="dark"))
    assert luminance(page, "body", "backgroundColor") > 0.9
    assert luminance(page, "section[aria-labelledby=runs] td", "backgroundColor") > 0.9
    assert luminance(page, "h1", "color") < 0.3
    assert luminance(page, ".badge", "color") < 0.5


def test_a_pdf_can_be_made(page_of: Callable[..., Page]) -> None:
    made = page_of(SICK).pdf(format="A4")
    assert made.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", made)) >= 2
