"""How a page looks: what tests measure in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

OPEN_ALL = "document.querySelectorAll('details').forEach(one => one.open = true)"
LUMINANCE = """([selector, property]) => {
  let element = document.querySelector(selector);
  for (; element; element = element.parentElement) {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = getComputedStyle(element)[property];
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    if (alpha === 255) return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
  }
  return 1;
}"""


def luminance(page: Page, selector: str, what: str) -> float:
    """0 (black) to 1 (white), roughly; of the first ancestor that is not transparent."""
    return page.evaluate(LUMINANCE, [selector, what])


def bottom(page: Page, selector: str) -> float:
    """Where the first such element ends, in pixels from the top of the page."""
    box = page.locator(selector).first.bounding_box()
    assert box, f"{selector} is not shown"
    return box["y"] + box["height"]
