"""Text of logs is shown and never obeyed, and no length of it makes the page too large."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inputs import hostile
from looks import OPEN_ALL

from specdiag.report.text import visible

if TYPE_CHECKING:
    from playwright.sync_api import Page

TEXTS = {
    "script": "</script><img src=x onerror=window.__hit=1><script>window.__hit=1</script>",
    "attribute": "\"'><a href=javascript:window.__hit=1 onfocus=window.__hit=1 autofocus>x</a><svg onload=window.__hit=1>",
    "markup": "<b><i><br><a href=\"https://example.com/\">click</a> --><!-- ]]> {{7*7}} ${7*7} %{x}",
    "style": "</style><style>*{display:none}</style><base href=//example.com>",
    "bidi": "\u202egnp.exe\u202c \u2066left\u2069 \u200b\u200f\u061c\ufeff \U000e0041",
    "long": "L" * 1_000_000,
}  # fmt: skip
MOST = 1_400_000  # bytes of a page
ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
FOREIGN = """() => [...document.querySelectorAll("*")].filter(one =>
  one.matches("img, iframe, object, embed, base, form, b, i")
  || [...one.attributes].some(attribute => /^on/i.test(attribute.name))
  || /^(?!#).*(javascript:|example[.]com)/i.test(one.getAttribute("href") ?? "")
).map(one => one.outerHTML.slice(0, 200))"""
WORDS = """() => document.title + document.body.innerText
  + [...document.querySelectorAll("*")].flatMap(one => [...one.attributes].map(a => a.value)).join("\\n")"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The hostile input of a name, made once."""
    made: dict[str, Path] = {}

    def logs(name: str) -> Path:
        if name not in made:
            made[name] = hostile(tmp_path_factory.mktemp("hostile"), TEXTS[name])
        return made[name]

    return logs


def use(page: Page) -> None:
    """Do what shows data that was not shown before, as far as the page has it."""
    page.evaluate(OPEN_ALL)
    for picture in page.locator("figure.picture").all():
        picture.scroll_into_view_if_needed()
        page.wait_for_function("one => one.dataset.live", arg=picture.element_handle())
        picture.locator(".live svg").first.hover(force=True)
    for name in ("next-contradiction", "next-branch", "previous-contradiction"):
        if (button := page.locator(f"#explorer [data-go={name}]")).count():
            button.first.click()
    if (search := page.locator("input#search")).count():
        search.fill("<img")
        search.fill("")


@pytest.mark.parametrize("name", TEXTS)
def test_text_of_logs_makes_no_element_and_runs_nothing(
    name: str,
    logs: Callable[[str], Path],
    report: Callable[..., Path],
    page_of: Callable[..., Page],
) -> None:
    path = logs(name)
    assert report(path).stat().st_size < MOST
    page = page_of(path)
    assert page.locator("[id^=finding-]").count(), "the faults are found all the same"
    words = page.evaluate("document.body.textContent")
    assert visible(TEXTS[name])[:20] in words, "the text is shown"
    page.keyboard.press("Tab")
    use(page)
    assert page.evaluate("window.__hit") is None
    assert page.evaluate(FOREIGN) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert page.locator("h1").is_visible()


def test_characters_that_show_nothing_are_spelled_out(
    logs: Callable[[str], Path], page_of: Callable[..., Page]
) -> None:
    page = page_of(logs("bidi"))
    use(page)
    words = page.evaluate(WORDS)
    assert (found := ODD.search(words)) is None, ascii(words[found.start() - 80 : found.end() + 80])
    assert r"\u202e" in words


def test_text_that_looks_like_a_template_is_shown_as_it_is(
    logs: Callable[[str], Path], page_of: Callable[..., Page]
) -> None:
    words = page_of(logs("markup")).evaluate("document.body.textContent")
    assert "{{7*7}}" in words and "${7*7}" in words and "<b><i>" in words
