"""What is told of a rule: `explain`, `specdiag rules --format`, and the pages in docs/rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdiag.report import catalogue

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "rules"


def test_the_pages_are_what_the_headers_say(definitions):
    pages = catalogue.documents(definitions[1])
    written = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    stale = sorted(name for name in {*pages, *written} if pages.get(name) != written.get(name))
    assert not stale, "docs/rules is not up to date: run `make docs`"


def test_a_page_says_all_that_the_header_says(definitions):
    one = next(rule for rule in definitions[1] if rule.name == "draft_never_accepted")
    page = catalogue.document(one, {"tree_below_chain"})
    told = catalogue.explain(definitions[1], one.name)
    for heading, _, texts in catalogue.sections(one):
        assert heading in told and f"## {heading.split('(')[0]}" in page
        for text in texts:
            assert " ".join(text.split())[:50] in " ".join(told.split())
    assert (
        "[tree_below_chain](tree_below_chain.md)" in page and "[slower_than_baseline]" not in page
    )
    assert "https://github.com/sgl-project/sglang/issues/27829" in page
    headings = {heading for heading, _, _ in catalogue.sections(one)}
    assert {"What is compared", "What looks like it and is not", "Public reports"} <= headings


def test_rules_as_json(specdiag, definitions):
    found = json.loads(specdiag("rules", "--format", "json").out)
    assert [one["name"] for one in found] == [rule.name for rule in definitions[1]]
    one = next(rule for rule in found if rule["name"] == "draft_never_accepted")
    assert one["formula"] and one["unlike"] and one["reports"]
    assert set(one["causes"][0]) == {"name", "cause", "test"}
    assert "sql" not in one and "path" not in one


def test_rules_as_markdown(specdiag, tmp_path):
    assert "# The target never accepts a draft" in specdiag("rules", "--format", "markdown").out
    assert specdiag("rules", "--output", tmp_path / "pages").code == 0
    made = {path.name for path in (tmp_path / "pages").iterdir()}
    assert made == {path.name for path in DOCS.iterdir()}


@pytest.mark.parametrize("format", ["yaml", ""])
def test_a_format_that_does_not_exist(specdiag, format):
    answer = specdiag("rules", "--format", format)
    assert answer.code == 2 and "one of text, markdown, json" in answer.err
