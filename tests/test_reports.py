"""What a report promises: it is true to the diagnosis, safe to open, and never half written."""

import errno
import json as stdlib_json
import math
import os
import re
from copy import deepcopy
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from specdiag import diagnosis, report, rule, source, store
from specdiag.diagnosis import Diagnosis
from specdiag.errors import Notice, SpecdiagError
from specdiag.finding import Finding, Run, ranked
from specdiag.report import TEXTS, files, html, json, markdown, quote, table, terminal, text
from specdiag.rule import Cause, Decision

METRICS = (
    "[2026-04-02 09:11:00] DDTREE metrics: avg_accepted_depth=7.00 avg_accepted_drafts=2.00 "
    "avg_commit_len=2.00 budget=7"
)
HOSTILE = (
    "</script><img src=x onerror=alert(1)> | ``` `x` \x1b[31mred \u202ereversed\u2066 \x9b2J \0"
)
RENDER = {"json": json.render, "markdown": markdown.render, "html": html.render}


def analyze(*paths: Path) -> Diagnosis:
    parsers, rules, broken = diagnosis.definitions([], [])
    assert not broken
    found, _ = diagnosis.analyze(source.find([str(path) for path in paths]), parsers, rules, {})
    return found


@pytest.fixture(scope="module")
def sick_once(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    log = tmp_path_factory.mktemp("sick") / "server.log"
    log.write_text(f"{METRICS}\n" * 3)
    return analyze(log)


@pytest.fixture
def sick(sick_once: Diagnosis) -> Diagnosis:
    """One run whose counters contradict each other."""
    return deepcopy(sick_once)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    """The same, by somebody who wants to reach the reader's browser or terminal."""
    folder = tmp_path_factory.mktemp("hostile") / "a|b`<img src=y onerror=alert(2)>"
    folder.mkdir()
    (folder / "server.log").write_text(f"{METRICS} {HOSTILE}\n" * 3)
    (folder / "zeros.bin").write_bytes(b"\0" * 100)
    found = analyze(folder)
    found.notices.append(Notice(HOSTILE, HOSTILE, HOSTILE))
    first = found.findings[0]
    found.findings[0] = replace(first, message=HOSTILE, values={"a|b": HOSTILE, HOSTILE: 1})
    return found


def on_runs(sick: Diagnosis, number: int) -> Diagnosis:
    """The finding of one run, on many."""
    finding, run = sick.findings[0], sick.runs[0]
    names = [f"run {n}" for n in range(number)]
    return Diagnosis(
        runs=[Run(name, run.sources, run.facts) for name in names],
        findings=[replace(finding, id=f"{finding.rule.name}@{n}", run=n) for n in names],
        results=[Decision(finding.rule.name, name, "finding", "") for name in names],
        rules=[finding.rule],
        notices=[],
    )


class Page(HTMLParser):
    """What a browser makes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.attributes if name in names]


# JSON


def test_json_keeps_its_contract(sick: Diagnosis) -> None:
    found = stdlib_json.loads(json.render(sick))
    assert list(found) == [
        "schema", "specdiag", "decidable", "runs", "findings", "results", "assertions", "notices",
    ]  # fmt: skip
    assert found["schema"] == 1
    (run,) = found["runs"]
    assert list(run) == ["run", "sources", "facts"]
    assert set(run["sources"][0]) == {"path", "format", "lines", "parsed"}
    finding = found["findings"][0]
    assert set(finding) == {
        "id", "rule", "run", "against", "severity", "title", "message", "impact", "values",
        "evidence", "step", "causes", "fix", "explained_by", "accepted",
    }  # fmt: skip
    assert finding["step"] is None
    assert finding["rule"] == "depth_contradicts_commit"
    assert finding["explained_by"] is None
    assert finding["evidence"][0]["line"] == 1
    assert finding["evidence"][0]["text"] == METRICS
    assert {tuple(one) for one in found["results"]} == {("rule", "run", "result", "reason")}
    sick.notices.append(Notice("a", "b", "c"))
    sick.broken.append(SpecdiagError("d", "e", "f"))
    assert stdlib_json.loads(json.render(sick))["notices"] == [
        {"what": "d", "where": "e", "help": "f", "broken": True},
        {"what": "a", "where": "b", "help": "c", "broken": False},
    ]


def test_json_has_the_step_that_a_finding_tells_of(sick: Diagnosis) -> None:
    step = {"source": 0, "line": 7, "parents": [-1, 0], "log_probs": [0.0, -math.inf], "slots": [1]}
    sick.findings[0] = replace(sick.findings[0], step=step)
    assert stdlib_json.loads(json.render(sick))["findings"][0]["step"] == {
        "source": 0, "line": 7, "parents": [-1, 0], "log_probs": [0.0, None],
    }  # fmt: skip


def test_json_has_null_where_a_figure_is_no_number(sick: Diagnosis) -> None:
    values = {"mean": math.nan, "most": math.inf, "list": [1.5, -math.inf], "map": {1: math.nan}}
    sick.findings[0] = replace(sick.findings[0], values=values, impact=math.nan)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found = stdlib_json.loads(json.render(sick), parse_constant=refuse)["findings"][0]
    assert found["impact"] is None
    assert found["values"] == {
        "mean": None, "most": None, "list": [1.5, None], "map": {"1": None}
    }  # fmt: skip


def test_json_writes_times_as_iso(sick: Diagnosis) -> None:
    sick.runs[0].facts["started"] = "2026-04-02 09:11:00"
    assert '"started": "2026-04-02T09:11:00"' in json.render(sick)


def test_json_gives_log_text_back_but_no_raw_control_character(hostile: Diagnosis) -> None:
    written = json.render(hostile)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", written)
    assert stdlib_json.loads(written)["findings"][0]["message"] == HOSTILE


@pytest.mark.parametrize("kind", RENDER)
def test_file_names_that_are_not_utf8_can_be_written(kind: str, sick: Diagnosis) -> None:
    sick.runs[0] = replace(sick.runs[0], name=os.fsdecode(b"caf\xe9"))
    assert r"caf\xe9" in RENDER[kind](sick).encode().decode().replace("\\\\", "\\")


# Every report


@pytest.mark.parametrize("kind", TEXTS)
def test_the_same_input_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"{METRICS}\n" * 3)
    assert report.render(kind, analyze(log)) == report.render(kind, analyze(log))


@pytest.mark.parametrize("kind", [kind for kind in TEXTS if kind not in ("json", "openmetrics")])
def test_control_characters_are_seen_not_obeyed(kind: str, hostile: Diagnosis) -> None:
    written = report.render(kind, hostile)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", written)
    for escape in (r"\x1b", r"\u202e", r"\u2066", r"\x9b", r"\x00"):
        assert escape in written


def test_log_text_cannot_become_part_of_the_page(sick: Diagnosis, hostile: Diagnosis) -> None:
    written = html.render(hostile)
    page = Page(written)
    assert not {"img", "iframe"} & set(page.tags)
    assert page.tags.count("script") == Page(html.render(sick)).tags.count("script")
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "&lt;img src=x onerror=alert(1)&gt;" in written


def test_log_text_cannot_break_out_of_markdown(hostile: Diagnosis) -> None:
    rendered = (
        MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown.render(hostile))
    )
    page = Page(rendered)
    assert "img" not in page.tags
    assert page.tags.count("td") == 7 * len(hostile.runs)
    assert "&lt;img src=x onerror=alert(1)&gt;" in rendered


# HTML


def test_the_page_loads_nothing(sick: Diagnosis) -> None:
    page = Page(html.render(sick))
    for target in page.values("src", "href", "srcset", "action", "data"):
        assert target.startswith(("#", "data:,")), target
    (policy,) = [value for value in page.values("content") if "default-src" in value]
    assert "default-src 'none'" in policy and "unsafe-inline" not in policy.split("script-src")[1]
    assert "@import" not in html.render(sick) and "url(" not in html.render(sick)


def test_links_within_the_page_lead_somewhere(sick: Diagnosis) -> None:
    for found in (sick, on_runs(sick, 50)):
        page = Page(html.render(found))
        ids = page.values("id")
        assert len(ids) == len(set(ids))
        assert text.anchor(found.findings[0].id) in ids
        assert {link[1:] for link in page.values("href") if link.startswith("#")} <= set(ids)


def test_findings_whose_names_differ_in_odd_characters_have_places_of_their_own(
    sick: Diagnosis,
) -> None:
    one = sick.findings[0]
    sick.findings = [replace(one, id="rule@a b"), replace(one, id="rule@a/b")]
    ids = Page(html.render(sick)).values("id")
    assert "finding-rule-a-b" in ids and "finding-rule-a-b-2" in ids


def test_headings_skip_no_level(hostile: Diagnosis) -> None:
    levels = [int(tag[1]) for tag in Page(html.render(hostile)).tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


@pytest.mark.parametrize("kind", ["markdown", "html"])
def test_a_rule_found_on_many_runs_is_told_once(kind: str, sick: Diagnosis) -> None:
    title = sick.findings[0].rule.title
    few, many = RENDER[kind](on_runs(sick, 3)), RENDER[kind](on_runs(sick, 120))
    assert few.count(title) >= 3
    assert many.count(title) == (2 if kind == "html" else 1)  # a page names it at the top, too


def test_a_page_of_many_runs_stays_small(sick: Diagnosis) -> None:
    found = on_runs(sick, 200)
    found.results = [
        Decision(rule, run.name, "pass", "") for run in found.runs for rule in map(str, range(30))
    ]
    assert len(html.render(found)) < 600_000


def test_a_finding_shows_its_proof_and_what_to_do(sick: Diagnosis) -> None:
    finding = sick.findings[0]
    for written in (html.render(sick), markdown.render(sick)):
        assert "server.log:1" in written
        assert "avg_accepted_depth=7.00" in written
        assert finding.rule.fix[0].split("'")[0] in written
        assert finding.rule.name in written


def test_a_finding_shows_its_causes_and_how_to_tell_them(sick: Diagnosis) -> None:
    causes = tuple(Cause(f"c{n}", f"the <{n}th> cause", f"the `{n}th` test") for n in range(5))
    sick.findings = [replace(sick.findings[0], causes=causes)]
    shown = terminal.render(sick)
    assert "maybe  the <0th> cause. To tell: the `0th` test" in shown
    assert shown.count("To tell") == text.CAUSES
    written = markdown.render(sick)
    assert "1. the &lt;0th&gt; cause. To tell: the `0th` test\n" in written
    page = html.render(sick)
    assert "the &lt;0th&gt; cause" in page and "To tell: the <code>0th</code> test" in page
    (finding,) = stdlib_json.loads(json.render(sick))["findings"]
    assert finding["causes"][4] == {"name": "c4", "cause": causes[4].cause, "test": causes[4].test}
    assert "To tell" not in markdown.render(replace(sick, findings=[]))


def test_every_report_says_what_is_decidable(sick: Diagnosis) -> None:
    first, second, third = [rule for rule in sick.rules if rule.enable][:3]
    run = sick.runs[0].name
    sick.results = [
        Decision(first.name, run, "pass", ""),
        Decision(second.name, run, "undecided", f"0 rows; {second.enable}"),
        Decision(third.name, run, "not applicable", ""),
    ]
    assert text.coverage(sick) == (1, 2)
    assert (
        text.head(sick) == f"decidable: 1 of 2 rules; for the rest: {second.enable} ({second.name})"
    )
    for render in (terminal.render, markdown.render, html.render):
        top = render(sick).split("Runs")[0] if render is not terminal.render else render(sick)
        assert "decidable: 1 of 2 rules" in top
    found = stdlib_json.loads(json.render(sick))["decidable"]
    assert found == {
        "rules": 2, "decided": 1,
        "to_switch_on": [{"enable": second.enable, "rules": [second.name]}],
    }  # fmt: skip
    sick.results = sick.results[:1]
    assert text.head(sick) == "decidable: 1 of 1 rule"
    sick.results = []
    assert text.head(sick) == ""


def test_rules_that_could_not_decide_say_what_they_need(sick: Diagnosis) -> None:
    rule = next(rule for rule in sick.rules if rule.name == "draft_never_accepted")
    run = sick.runs[0].name
    sick.results = [Decision(rule.name, run, "undecided", f"0 of 1 rows; {rule.enable}")]
    for written in (html.render(sick), markdown.render(sick)):
        assert "Not decided" in written
        assert "0 of 1 rows" in written
        assert (
            written.count(rule.enable.split("(")[0]) == 2
        )  # in the head, and where it is told in full


# Words and figures


def severe(finding: Finding, severity: str, run: str, cause: str | None = None) -> Finding:
    name = f"{severity}@{run}"
    return replace(finding, id=name, severity=severity, run=run, explained_by=cause)


def test_the_verdict_counts_causes_and_what_follows(sick: Diagnosis) -> None:
    one, run = sick.findings[0], sick.runs[0]
    sick.runs = [replace(run, name=name) for name in "abc"]
    sick.findings = [severe(one, "critical", "a")]
    assert text.verdict(sick) == "1 critical finding in run a"
    sick.findings += [severe(one, "high", "b"), severe(one, "low", "a", "critical@a")]
    assert text.verdict(sick) == (
        "2 findings: 1 critical, 1 high (and 1 that follows from them) in 2 of 3 runs"
    )


def test_a_mild_cause_comes_first_and_what_it_leads_to_is_as_bad_as_it_is(sick: Diagnosis) -> None:
    one, run = sick.findings[0], sick.runs[0]
    sick.runs = [replace(run, name=name) for name in "ab"]
    mild = severe(one, "medium", "a")
    follows = severe(one, "critical", "a", mild.id)
    sick.findings = ranked([follows, mild, severe(one, "low", "b")])
    assert [finding.id for finding in sick.findings] == ["medium@a", "low@b", "critical@a"]
    assert sick.worst() == "critical"
    assert table.run_verdicts(sick) == {"a": "critical", "b": "low"}


def test_silence_is_not_shown_as_health(sick: Diagnosis) -> None:
    run = sick.runs[0].name
    first, second, *_ = (rule.name for rule in sick.rules)
    sick.findings = []
    sick.results = [Decision(first, run, "pass", ""), Decision(second, run, "undecided", "?")]
    assert text.verdict(sick) == "nothing wrong found: 1 rule passed, 1 undecided"
    assert table.run_verdicts(sick) == {run: "ok, 1 undecided"}
    sick.results = [Decision(first, run, "undecided", "?")]
    assert text.verdict(sick) == "nothing decided: 1 rule undecided"
    sick.results = [Decision(first, run, "not applicable", "")]
    assert text.verdict(sick) == "nothing checked: no rule applies to this input"
    assert table.run_verdicts(sick) == {run: "nothing to check"}
    sick.broken = [SpecdiagError("rule x does not run")]
    assert text.verdict(sick).endswith("; 1 rule did not run")
    assert "rule x does not run" in html.render(sick)


def test_findings_that_explain_each_other_are_still_told(sick: Diagnosis) -> None:
    one = sick.findings[0]
    sick.findings = [
        severe(one, "high", "a", "low@a"),
        severe(one, "medium", "a", "high@a"),
        severe(one, "low", "a", "medium@a"),
    ]
    (group,) = text.groups(sick)
    assert [finding.severity for finding in group.findings] == ["high"]
    assert [finding.severity for finding in group.consequences] == ["medium", "low"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.2345, "1.23"), (12345, "12,345"), (12345.6, "12,346"), (0.0007, "0.0007"),
     (109.71, "109.7"), (7.0, "7"), (0.05, "0.05"), (None, "–"), (math.nan, "–"), (True, "yes"),
     ([1, 2.5], "1, 2.50"), ("a\x1b", r"a\x1b")],
)  # fmt: skip
def test_figures_have_as_many_digits_as_help(value: object, shown: str) -> None:
    assert text.figure(value) == shown


LONG = {
    "request": "r0", "step_id": 4, "step": 6, "note": "n" * 200, "accepted_path": [0, 1],
    "positions": list(range(40)), "other": ["o"] * 99, "commit_len": 2,
}  # fmt: skip


def quoted(sick: Diagnosis, text: str, limit: int = 300) -> str:
    finding = replace(sick.findings[0], values={"field": "accepted", "fields": ["positions"]})
    return quote.line(finding, replace(finding.evidence[0], text=text), limit)


def test_of_a_long_record_what_the_finding_is_about_is_quoted(sick: Diagnosis) -> None:
    assert quoted(sick, stdlib_json.dumps(LONG)) == (
        '{"request": "r0", …, "step": 6, …, "accepted_path": [0, 1], '
        '"positions": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … 40 in all], …, "commit_len": 2}'
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"request": "r0"}',
        '{"cut": "' + "x" * 900,
        '{"nothing": "' + "x" * 900 + '"}',
        "[1, " + "2, " * 400 + "3]",
        "{" * 5000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        '{"accepted": "' + "x" * 900 + '"}',
        '{"accepted": 1' + "0" * 5000 + "}",
    ],
    ids=lambda text: text[:14],
)
def test_any_line_can_be_quoted(sick: Diagnosis, text: str) -> None:
    shown = quoted(sick, text)
    assert 0 < len(shown) <= 300 and shown[:4] == text[:4]


def test_long_text_keeps_both_ends() -> None:
    shown = text.visible("begin" + "x" * 1_000_000 + "end", 50)
    assert len(shown) == 50
    assert shown.startswith("begin") and shown.endswith("end") and "…" in shown


@pytest.mark.parametrize("width", [72, 80, 100, 160])
def test_the_table_of_runs_keeps_names_and_verdicts_whole(sick: Diagnosis, width: int) -> None:
    name = "eagle3-target.70b_fp8/batch-1-thinking-budget-16k#12"
    named = replace(sick.runs[0], name=name)
    lines = terminal.render(replace(sick, runs=[named, *sick.runs]), width=width).splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith(" run "))
    grid = lines[head : lines.index("", head)]
    assert max(map(len, grid)) <= width
    assert grid[0].endswith("  verdict")
    first = [line[1:].split("  ")[0] for line in grid[2:]]
    assert "".join(first).startswith(name)
    assert grid[2].endswith("  nothing to check")
    assert any(line.endswith("  critical") for line in grid)


def test_a_message_that_is_cut_says_so() -> None:
    words = ("the draft needs more " * 20).strip()
    db = store.open_empty()
    db.execute(rule.MACROS)
    sql = "SELECT shortened($1, 45), shortened($1, 1000)"
    ((cut, whole),) = db.execute(sql, [words]).fetchall()
    assert (cut, whole) == ("the draft needs more the draft needs more th…", words)


def test_computed_figures_are_marked(sick: Diagnosis) -> None:
    facts = {
        "algorithm": "DDTREE", "executed": "LINEAR", "accept_len": 2.0, "accept_len_from": "decode",
        "step_ms": 1430.0, "step_ms_measured": False, "rate_formula": "commit_per_proposed",
    }  # fmt: skip
    run = replace(sick.runs[0], facts=facts)
    headings, (row,) = table.runs_table(replace(sick, runs=[run]))
    cells = dict(zip(headings, row, strict=True))
    assert cells["algorithm"] == "DDTREE asked, LINEAR ran"
    assert cells["accept length"] == "2.00"
    assert cells["step"] == "~1.43 s"
    assert any("not measured" in note for note in table.notes(run))
    assert any("its floor is 1/N" in note for note in table.notes(run))


# Writing


def test_a_failed_write_leaves_the_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    files.write(path, "old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(SpecdiagError, match="the disk is full"):
        files.write(path, "new")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_an_interrupted_write_leaves_the_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    files.write(path, "old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write(path, "new")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_reserved_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    temporary = files.reserve(tmp_path / "link")
    assert temporary.is_absolute() and not temporary.exists()
    temporary.write_text("new")
    files.put(temporary, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
    assert {one.name for one in tmp_path.iterdir()} == {"real", "link"}


def test_a_report_is_as_readable_as_any_other_file(tmp_path: Path) -> None:
    files.write(tmp_path / "report.html", "ü\n")
    (tmp_path / "other").touch()
    assert (tmp_path / "report.html").read_bytes() == "ü\n".encode()
    assert (tmp_path / "report.html").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("real")
    files.write(link, "new")
    assert link.is_symlink() and (tmp_path / "real").read_text() == "new"
    files.write(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("missing/report.html", "the folder of this file is missing"),
        ("file/report.html", "the folder of this file is a file"),
        ("folder", "this is a folder"),
        ("x" * 300, "the file name is too long"),
        ("nul\0", "cannot be written"),
    ],
)
def test_a_path_that_cannot_be_written_is_the_users_mistake(
    tmp_path: Path, name: str, what: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for attempt in (lambda path: files.write(path, "text"), files.reserve):
        with pytest.raises(SpecdiagError, match=what) as caught:
            attempt(tmp_path / name)
        assert caught.value.where == str(tmp_path / name)
    assert {one.name for one in tmp_path.iterdir()} == {"folder", "file"}


def test_a_folder_without_permission_is_the_users_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(*_: object) -> int:  # root, who runs many containers, may write anywhere
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", forbid)
    with pytest.raises(SpecdiagError, match="no permission"):
        files.write(tmp_path / "report.html", "text")
