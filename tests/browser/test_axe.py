"""What keyboards, screen readers and weak eyes need, as far as axe-core can tell: no violation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inputs import HEALTHY, LONG_CONTEXT, SICK
from looks import OPEN_ALL

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
# All rules that are not deprecated or of level AAA: the size of targets is off by default.
RUN = """() => axe.run(document, {
  resultTypes: ["violations"], rules: {"target-size": {enabled: true}},
}).then(found => found.violations.map(one => ({
  rule: one.id, impact: one.impact, help: one.help,
  nodes: one.nodes.map(node => [node.html.slice(0, 160), node.failureSummary.replace(/\\s+/g, " ")]),
})))"""


def violations(page: Page) -> str:
    """What is wrong and where, for people; empty where nothing is."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE.read_text())
    return "\n".join(_told(one) for one in page.evaluate(RUN))


def _told(one: dict[str, Any]) -> str:
    shown = "".join(f"\n    {html}\n      {why}" for html, why in one["nodes"][:5])
    return f"{one['impact']}: {one['rule']}: {one['help']} ({len(one['nodes'])} places){shown}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["sick", "long context", "healthy", "traces", "sixty"])
def test_axe_finds_nothing(
    name: str, scheme: str, page_of: Callable[..., Page], sixty: Path, traces: Path
) -> None:
    paths = {"sick": SICK, "long context": LONG_CONTEXT, "healthy": HEALTHY, "traces": traces}
    page = page_of(paths.get(name, sixty), color_scheme=scheme)
    assert not (told := violations(page)), told
    page.evaluate(OPEN_ALL)
    assert not (told := violations(page)), f"with all opened:\n{told}"


def test_axe_finds_nothing_on_a_phone(page_of: Callable[..., Page], traces: Path) -> None:
    for path in (SICK, traces):
        page = page_of(path, width=390, height=844)
        page.evaluate(OPEN_ALL)
        assert not (told := violations(page)), told


def test_axe_would_find_something(page_of: Callable[..., Page]) -> None:
    page = page_of(HEALTHY)
    page.evaluate("document.querySelector('h1').style.color = '#ccc'")
    page.evaluate("document.documentElement.removeAttribute('lang')")
    told = violations(page)
    assert "color-contrast" in told and "html-has-lang" in told
