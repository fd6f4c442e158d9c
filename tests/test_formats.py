"""What the formats for CI promise: they are what their readers define, and no log text is obeyed."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
import xmlschema
from jsonschema import Draft7Validator, Draft202012Validator
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_reports import HOSTILE, METRICS, analyze, on_runs

from specdiag import __version__, bundled, report
from specdiag.diagnosis import Diagnosis
from specdiag.errors import Notice, SpecdiagError
from specdiag.finding import Accepted, Evidence
from specdiag.report import alarms, github, markdown
from specdiag.report import json as document
from specdiag.rule import SEVERITIES, Decision
from specdiag.store import Store

pytestmark = pytest.mark.usefixtures("analyses_once")

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_logs"
SICK = SAMPLES / "founding-1-depth-against-commit"
HEALTHY = SAMPLES / "healthy-dflash.log"
SCHEMAS = Path(__file__).parent / "schemas"
CI = ("junit", "sarif", "github", "gitlab", "openmetrics")
KINDS = ("json", "markdown", *CI)

# All that some format gives a meaning, or cannot hold at all.
VILE = (
    f"{HOSTILE} ]]> <!-- &amp; {{0}} [here](http://example.org) ::error::pwned ##[add-mask]x\n"
    "::stop-commands::x\r\n::set-env name=A::b %0A::notice::c \"quoted\" back\\slash\n# EOF\n"
    "\ufffe\uffff \ud800 \x0b\x0c\x85\u2028 @everyone"
)  # fmt: skip
COMMAND = re.compile(
    r"::(error|warning|notice) ((?:(?:file|line|title)=[^,:\r\n]*,?)+)::([^\r\n]*)"
)
REFERENCE = re.compile(r"(file:///)?[A-Za-z0-9._~/!$&'()*+,;=@%-]+")


# Inputs ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sick() -> Diagnosis:
    """Two runs, one with a cause and two findings that follow from it."""
    return analyze(SICK)


def vile(sick: Diagnosis) -> Diagnosis:
    """The same, every text in it written by somebody who means harm."""
    made = deepcopy(sick)
    rule = replace(
        made.findings[0].rule, title=f"a {VILE}", why=VILE, fix=(VILE, VILE), enable=VILE
    )
    made.runs[0] = replace(
        made.runs[0], name=VILE, facts={**made.runs[0].facts, "model": VILE, "version": '1"\\'},
        sources=[{**one, "path": VILE} for one in made.runs[0].sources],
    )  # fmt: skip
    made.findings = [
        replace(
            one, id=f"{n}{VILE}", rule=rule, run=VILE, message=VILE, against=VILE,
            explained_by=f"0{VILE}" if n else None, values={VILE: VILE},
            evidence=[Evidence(VILE, 3, VILE), Evidence(VILE, 4, '{"a": ' * 400)],
        )
        for n, one in enumerate(made.findings)
    ]  # fmt: skip
    made.rules = [rule, *(one for one in made.rules if one.name != rule.name)]
    made.results = [
        Decision(rule.name, VILE, "finding", ""),
        Decision(made.rules[1].name, VILE, "undecided", VILE),
    ]
    made.notices = [Notice(VILE, VILE, VILE)] * 300
    made.broken = [SpecdiagError(VILE, VILE, VILE)]
    return made


def crowded(sick: Diagnosis, number: int = 6000) -> Diagnosis:
    """Many findings of all severities on one run, a third of them of one rule."""
    made = deepcopy(sick)
    first = made.findings[0]
    names = [one.name for one in made.rules]
    rules = {one.name: one for one in made.rules}
    made.findings = []
    for n in range(number):
        rule = first.rule if n % 3 else rules[names[n % len(names)]]
        severity = SEVERITIES[n * len(SEVERITIES) // number]
        made.findings.append(replace(
            first, id=f"{rule.name}@{first.run}#{n}", rule=rule, severity=severity,
            message=f"number {n}", explained_by=None,
        ))  # fmt: skip
    return made


def undecodable(sick: Diagnosis) -> Diagnosis:
    """Names of files and runs that are not UTF-8."""
    made = deepcopy(sick)
    name = os.fsdecode(b"caf\xe9 1.log")
    made.runs[0] = replace(
        made.runs[0], name=name, sources=[{**one, "path": name} for one in made.runs[0].sources]
    )
    made.findings = [
        replace(one, run=name, evidence=[Evidence(name, 1, one.evidence[0].text)])
        for one in made.findings
    ]
    return made


def unread(sick: Diagnosis) -> Diagnosis:
    """Rules that do not run, files that were not read, and no finding."""
    return replace(
        sick, findings=[], results=[], broken=[SpecdiagError("rule x does not run", "x.sql", "mend")],
        notices=[Notice("binary", "a.bin", "convert it")],
    )  # fmt: skip


def unproved(sick: Diagnosis) -> Diagnosis:
    """A finding that no line proves, on a run without files."""
    made = deepcopy(sick)
    made.runs = [replace(one, sources=[], facts={}) for one in made.runs]
    made.findings = [replace(one, evidence=[]) for one in made.findings]
    return made


def accepted(sick: Diagnosis) -> Diagnosis:
    """The same, every finding of it accepted by somebody who means harm."""
    made = vile(sick)
    made.findings = [replace(one, accepted=Accepted(VILE, VILE)) for one in made.findings]
    return made


INPUTS: dict[str, Callable[[Diagnosis], Diagnosis]] = {
    "sick": lambda sick: sick,
    "healthy": lambda sick: analyze(HEALTHY),
    "many runs": lambda sick: on_runs(sick, 200),
    "hostile": vile,
    "6,000 findings": crowded,
    "names not in UTF-8": undecodable,
    "all accepted": accepted,
    "no findings": lambda sick: replace(sick, findings=[]),
    "nothing at all": lambda sick: Diagnosis([], [], [], [], []),
    "broken rules": unread,
    "no proof": unproved,
    "explained in a circle": lambda sick: replace(sick, findings=[
        replace(one, explained_by=sick.findings[n - 1].id) for n, one in enumerate(sick.findings)
    ]),
}  # fmt: skip
_MADE: dict[str, Diagnosis] = {}


@pytest.fixture(params=INPUTS)
def given(request: pytest.FixtureRequest, sick: Diagnosis) -> Diagnosis:
    """Every kind of input in turn."""
    if request.param not in _MADE:
        _MADE[request.param] = INPUTS[request.param](sick)
    return _MADE[request.param]


# Each against its definition ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def sarif_schema() -> Draft7Validator:
    schema = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def schema(path: Path) -> Draft202012Validator:
    found = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def junit(found: Diagnosis) -> ElementTree.Element:
    """The XML, checked."""
    text = report.render("junit", found)
    xmlschema.XMLSchema(SCHEMAS / "junit.xsd").validate(io.StringIO(text))
    return ElementTree.fromstring(text)


def annotations(text: str) -> list[tuple[str, dict[str, str], str]]:
    """What a runner makes of workflow commands: level, properties and message."""
    found = []
    for line in text.splitlines():
        match = COMMAND.fullmatch(line)
        assert match, line
        given = dict(part.split("=", 1) for part in match[2].split(","))
        found.append(
            (match[1], {key: unquote(one) for key, one in given.items()}, unquote(match[3]))
        )
    return found


def samples(found: Diagnosis) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What a scraper makes of OpenMetrics text."""
    text = report.render("openmetrics", found)
    assert text.endswith("\n# EOF\n")
    known = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.name.startswith("specdiag")
        for one in family.samples:
            key = one.name, tuple(sorted(one.labels.items()))
            assert key not in known
            known[key] = one.value
    return known


def test_junit_is_what_its_readers_take(given: Diagnosis) -> None:
    root = junit(given)
    suites = root.findall("testsuite")
    assert len(suites) == len(given.runs) + bool(given.broken or given.notices)
    for suite in suites:
        for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert len(suite.findall(f"testcase/{tag}")) == int(suite.get(count, "-1"))
        assert len(suite.findall("testcase")) == int(suite.get("tests", "-1"))
    assert int(root.get("errors", "-1")) == len(given.broken)
    failed = {
        (one.finding.run, one.finding.rule.name)
        for one in alarms.alarms(given) if one.counts and one.finding.severity != "info"
    }  # fmt: skip
    assert int(root.get("failures", "-1")) == len(failed)


def test_sarif_is_what_its_schema_says(given: Diagnosis, sarif_schema: Draft7Validator) -> None:
    text = report.render("sarif", given)
    found = json.loads(text)
    sarif_schema.validate(found)
    (run,) = found["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({one["id"] for one in rules}) == len(rules)
    assert len(run["results"]) == min(5000, len(alarms.alarms(given)))
    for one in run["results"]:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]
        for place in one["locations"]:
            uri = place["physicalLocation"]["artifactLocation"]["uri"]
            assert REFERENCE.fullmatch(uri), uri
            assert place["physicalLocation"]["region"]["startLine"] >= 1
    marks = [one["partialFingerprints"]["specdiag/v1"] for one in run["results"]]
    assert len(set(marks)) == len(marks)
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] == (not given.broken)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_github_takes_every_annotation(given: Diagnosis) -> None:
    found = annotations(report.render("github", given))
    levels = [level for level, _, _ in found]
    assert levels and max(levels.count(level) for level in levels) <= github.MOST
    for _, properties, message in found:
        assert properties["title"] and message and len(message) <= github.MESSAGE
        assert ("file" in properties) == ("line" in properties)


def test_gitlab_takes_the_code_quality_report(given: Diagnosis) -> None:
    found = json.loads(report.render("gitlab", given))
    schema(SCHEMAS / "gitlab-code-quality.json").validate(found)
    counting = [one for one in alarms.alarms(given) if one.counts]
    assert len({one["fingerprint"] for one in found}) == len(found) == len(counting)


def test_openmetrics_can_be_scraped(given: Diagnosis) -> None:
    found = samples(given)
    names = ("specdiag_findings", "specdiag_accepted_findings")
    told = sum(value for (name, _), value in found.items() if name in names)
    assert told == len(alarms.alarms(given))
    results = sum(value for (name, _), value in found.items() if name == "specdiag_rule_results")
    assert results == len(given.results)


def test_json_is_what_its_schema_says(given: Diagnosis) -> None:
    assert not list(schema(document.FILE).iter_errors(json.loads(report.render("json", given))))


def test_markdown_fits_into_a_comment_and_a_summary(given: Diagnosis) -> None:
    assert len(report.render("markdown", given)) < markdown.LIMIT
    assert len(github.summary(given).encode()) <= 1024 * 1024


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_input_gives_the_same_bytes(kind: str, given: Diagnosis) -> None:
    text = report.render(kind, given)
    assert text == report.render(kind, deepcopy(given))
    assert text.encode().decode() == text and text.endswith("\n")


@pytest.mark.parametrize(
    ("of", "to"),
    [
        ('tests="3"', 'tests="three"'),
        ('<failure type="high" message="m"/>', '<failure type="high" message="m"/><skipped message="s"/>'),
        ('<failure type="high" message="m"/>', '<failure message="m"/>'),
        ('name="b"', 'name="a"'),
        ('<properties/>', ''),
        ('<skipped message="s"/>', '<ignored/>'),
    ],
)  # fmt: skip
def test_the_schema_of_junit_refuses_what_readers_would_not_take(of: str, to: str) -> None:
    text = (
        '<testsuites name="n" tests="3" failures="1" errors="0"><testsuite name="s" tests="3" '
        'failures="1" errors="0" skipped="1"><properties/><testcase classname="c" name="a">'
        '<failure type="high" message="m"/></testcase><testcase classname="c" name="b">'
        '<skipped message="s"/></testcase><testcase classname="c" name="d"/></testsuite>'
        "</testsuites>"
    )
    checker = xmlschema.XMLSchema(SCHEMAS / "junit.xsd")
    assert checker.is_valid(io.StringIO(text)) and of in text
    assert checker.is_valid(io.StringIO(text.replace(of, to))) == (of == "<properties/>")


# What they say -----------------------------------------------------------------------------------


def test_one_cause_is_one_alarm(sick: Diagnosis) -> None:
    (cause,) = sick.causes
    follow = [one for one in sick.findings if one is not cause]
    assert len(follow) == 2
    root = junit(sick)
    (failure,) = root.iter("failure")
    assert failure.get("type") == "critical" and cause.rule.title in failure.get("message", "")
    words = failure.text or ""
    assert f".log:{cause.evidence[0].line}: " in words and cause.rule.fix[0][:40] in words
    assert all(one.rule.title in words for one in follow)
    cases = {(one.get("classname"), one.get("name")): one for one in root.iter("testcase")}
    for one in follow:
        element = cases[one.run, one.rule.name].find("skipped")
        assert element is not None and element.get("message", "").startswith("follows from ")
    (result,) = json.loads(report.render("sarif", sick))["runs"][0]["results"]
    assert result["ruleId"] == cause.rule.name and result["level"] == "error"
    assert result["properties"]["follows"] == [one.id for one in follow]
    assert result["locations"][0]["physicalLocation"]["region"]["snippet"]["text"] in (
        cause.evidence[0].text
    )
    assert len(result["relatedLocations"]) == len(cause.evidence) - 1
    ((level, properties, message),) = annotations(report.render("github", sick))
    assert level == "error" and properties["line"] == str(cause.evidence[0].line)
    assert properties["title"] == f"critical: {cause.rule.title}"
    assert all(one.rule.title in message for one in follow)
    (entry,) = json.loads(report.render("gitlab", sick))
    assert entry["severity"] == "blocker" and entry["check_name"] == cause.rule.name
    assert entry["location"]["lines"]["begin"] == cause.evidence[0].line


def test_what_was_not_decided_did_not_pass(sick: Diagnosis) -> None:
    undecided = [one for one in sick.results if one.result == "undecided"]
    assert undecided
    rules = {rule.name: rule for rule in sick.rules}
    skipped = {
        (case.get("classname"), case.get("name")): element.get("message", "")
        for case in junit(sick).iter("testcase") if (element := case.find("skipped")) is not None
    }  # fmt: skip
    for one in undecided:
        said = skipped[one.run, one.rule]
        assert said.startswith("undecided: ")
        assert " ".join(rules[one.rule].enable.split())[:60] in said
    notes = json.loads(report.render("sarif", sick))["runs"][0]["invocations"][0]
    assert re.match(
        r"\d+ rules? undecided\. ", notes["toolExecutionNotifications"][0]["message"]["text"]
    )


def test_what_does_not_apply_is_no_test_case(sick: Diagnosis) -> None:
    idle = {(one.run, one.rule) for one in sick.results if one.result == "not applicable"}
    cases = {(one.get("classname"), one.get("name")) for one in junit(sick).iter("testcase")}
    assert idle and not idle & cases
    assert len(cases) == len(sick.results) - len(idle)


def test_findings_for_information_fail_nothing(sick: Diagnosis) -> None:
    noted = replace(sick, findings=[replace(sick.findings[0], severity="info")])
    root = junit(noted)
    assert root.get("failures") == "0"
    assert any(noted.findings[0].message in (one.text or "") for one in root.iter("system-out"))
    assert json.loads(report.render("sarif", noted))["runs"][0]["results"][0]["level"] == "note"
    assert [level for level, *_ in annotations(report.render("github", noted))] == ["notice"]


def test_what_is_accepted_is_told_and_does_not_count(sick: Diagnosis) -> None:
    known = deepcopy(sick)
    (cause,) = known.causes
    cause.accepted = Accepted("a known fault of the counter", "2026-05-31")
    root = junit(known)
    assert root.get("failures") == "0"
    cases = {(one.get("classname"), one.get("name")): one for one in root.iter("testcase")}
    skipped = cases[cause.run, cause.rule.name].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "accepted on 2026-05-31: a known fault of the counter"
    (result,) = json.loads(report.render("sarif", known))["runs"][0]["results"]
    (suppression,) = result["suppressions"]
    assert suppression["justification"] == "a known fault of the counter"
    ((level, _, message),) = annotations(report.render("github", known))
    assert level == "notice" and "1 finding accepted" in message
    assert json.loads(report.render("gitlab", known)) == []
    found = samples(known)
    assert found["specdiag_accepted_findings", (("run", cause.run),)] == 1
    assert found["specdiag_findings", (("run", cause.run), ("severity", "critical"))] == 0
    schema(document.FILE).validate(json.loads(report.render("json", known)))


def test_a_rule_that_does_not_run_is_an_error(sick: Diagnosis) -> None:
    found = unread(sick)
    (error,) = junit(found).iter("error")
    assert error.get("message") == "rule x does not run" and "x.sql" in (error.text or "")
    (invocation,) = json.loads(report.render("sarif", found))["runs"][0]["invocations"]
    (words,) = [one["message"]["text"] for one in invocation["toolConfigurationNotifications"]]
    assert words == "rule x does not run\nx.sql\nmend"
    ((level, _, message),) = annotations(report.render("github", found))
    assert level == "error" and message == "rule x does not run\nx.sql\nmend"
    assert samples(found)["specdiag_broken_definitions", ()] == 1


def test_nothing_wrong_is_said_too() -> None:
    healthy = analyze(HEALTHY)
    ((level, _, message),) = annotations(report.render("github", healthy))
    assert level == "notice" and message.startswith("nothing wrong found: ")
    assert json.loads(report.render("gitlab", healthy)) == []


def test_what_is_too_many_is_summed_up(sick: Diagnosis) -> None:
    many = crowded(sick)
    found = annotations(report.render("github", many))
    assert [level for level, *_ in found] == ["error"] * 10 + ["warning"] * 10 + ["notice"] * 10
    assert [message.split(":")[0] for _, _, message in found[9::10]] == [
        "2,391 more findings", "2,391 more findings", "1,191 more findings"
    ]  # fmt: skip
    run = json.loads(report.render("sarif", many))["runs"][0]
    assert run["results"][-1]["properties"]["severity"] == "info"  # the worst are told first
    assert "1,000 more findings" in json.dumps(run["invocations"][0]["toolExecutionNotifications"])


def test_markdown_leaves_out_whole_findings_from_the_end_and_says_so(sick: Diagnosis) -> None:
    rules = [replace(rule, why=rule.why * 20) for rule in sick.rules]
    many = replace(sick, findings=[
        replace(sick.findings[0], id=rule.name, rule=rule, explained_by=None) for rule in rules
    ])  # fmt: skip
    short, whole = markdown.render(many), github.summary(many)
    assert whole.count("\n### ") == len(rules) and "left out here" not in whole
    told = short.count("\n### ")
    assert 5 < told < len(rules)
    assert f"**{len(rules) - told} more findings left out here**" in short
    assert "## Not decided" in short and short.rstrip().endswith(f"specdiag {__version__}")
    assert short.split("\n### ")[1:told] == whole.split("\n### ")[1:told]


@pytest.mark.parametrize("limit", [65_000, 100_000])
def test_a_summary_stays_below_any_limit_in_bytes(limit: int, sick: Diagnosis) -> None:
    made = vile(sick)
    made.findings = [
        replace(one, message="→" * 4000, id=str(n), explained_by=None)
        for n in range(50) for one in made.findings
    ]  # fmt: skip
    assert len(github.summary(made, limit).encode()) <= limit


def test_text_out_of_a_log_is_data_in_every_format(sick: Diagnosis) -> None:
    made = vile(sick)
    found = json.loads(report.render("sarif", made))["runs"][0]["results"][0]["message"]["text"]
    assert "{{0}}" in found and "](" not in found
    for _, properties, message in annotations(report.render("github", made)):
        assert set(properties) <= {"file", "line", "title"}
        assert not any(line.lstrip().startswith("::") for line in message.splitlines())
    run = made.runs[0]
    labels = [dict(labels) for name, labels in samples(made) if name == "specdiag_run_info"]
    assert labels[0]["version"] == '1"\\' and "\n" not in labels[0]["run"]
    assert {one.get("name") for one in junit(made)} >= {made.runs[1].name} and run.name == VILE


def test_paths_are_named_as_services_want_them(sick: Diagnosis) -> None:
    def uri(path: str) -> Any:
        made = replace(
            sick, findings=[replace(sick.findings[0], evidence=[Evidence(path, 7, "x")])]
        )
        (result,) = json.loads(report.render("sarif", made))["runs"][0]["results"]
        (entry,) = json.loads(report.render("gitlab", made))
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        return place, entry["location"]["path"]

    assert uri("logs/a b.log") == ("logs/a%20b.log", "logs/a b.log")
    assert uri("././logs/a.log") == ("logs/a.log", "logs/a.log")
    assert uri("/var/log/a.log") == ("file:///var/log/a.log", "/var/log/a.log")
    assert uri("a:b.log")[0] == "a%3Ab.log"
    assert uri("100%.log")[0] == "100%25.log"


def test_fingerprints_stay_when_figures_change(sick: Diagnosis) -> None:
    def marks(found: Diagnosis) -> list[str]:
        return [one["fingerprint"] for one in json.loads(report.render("gitlab", found))]

    later = deepcopy(sick)
    later.findings = [
        replace(one, message="other figures", values={**one.values, "commit_len": 9.5}, evidence=[])
        for one in later.findings
    ]
    assert marks(later) == marks(sick)
    elsewhere = replace(sick, findings=[replace(one, run="other") for one in sick.findings])
    assert marks(elsewhere) != marks(sick)


def test_metrics_are_in_base_units(sick: Diagnosis) -> None:
    found = samples(sick)
    for run in sick.runs:
        labels = (("run", run.name),)
        assert found["specdiag_accept_length_tokens", labels] == run.facts["accept_len"]
        assert found["specdiag_generated_tokens_per_second", labels] == run.facts["tokens_per_s"]
        assert found["specdiag_step_seconds", labels] == pytest.approx(run.facts["step_ms"] / 1000)
    assert (
        found["specdiag_findings", (("run", sick.findings[0].run), ("severity", "critical"))] == 1
    )


# JSON Schema -------------------------------------------------------------------------------------


def test_the_schema_knows_every_fact_and_column(
    load: Callable[..., Store], sick: Diagnosis
) -> None:
    told = json.loads(document.FILE.read_text(encoding="utf-8"))["$defs"]
    filled = load(HEALTHY)
    columns = [row["column_name"] for row in filled.rows("DESCRIBE run")]
    assert list(told["run"]["properties"]["facts"]["properties"]) == columns[1:]
    assert set(told["finding"]["properties"]["step"]["properties"]) == set(document.STEP)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: made.update(schema=2),
        lambda made: made.update(more=1),
        lambda made: made.pop("decidable"),
        lambda made: made["runs"][0]["facts"].update(accept_len="2"),
        lambda made: made["runs"][0]["facts"].update(accept_length=2),
        lambda made: made["runs"][0]["sources"][0].update(parsed=1.5),
        lambda made: made["findings"][0].update(severity="terrible"),
        lambda made: made["findings"][0].update(impact=1.5),
        lambda made: made["findings"][0]["evidence"][0].update(line=0),
        lambda made: made["findings"][0].update(step={"line": 1}),
        lambda made: made["results"][0].update(result="maybe"),
        lambda made: made.update(notices=["text"]),
        lambda made: made["findings"].append({}),
    ],
)  # fmt: skip
def test_the_schema_refuses_what_is_no_result(
    spoil: Callable[[Any], object], sick: Diagnosis
) -> None:
    made = json.loads(report.render("json", sick))
    checker = schema(document.FILE)
    assert checker.is_valid(made)
    spoil(made)
    assert not checker.is_valid(made)


def test_the_schema_is_printed(specdiag: Callable[..., Any]) -> None:
    answer = specdiag("schema")
    assert answer.code == 0 and json.loads(answer.out)["$id"] == "urn:specdiag:result:1"


# The command -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def actions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A step of GitHub Actions; what comes back is the file of its summary."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    return folder / "summary.md"


def test_every_kind_can_be_written_also_from_a_saved_result(
    folder: Path, specdiag: Callable[..., Any]
) -> None:
    def outputs(to: str) -> list[str]:
        return [part for kind in CI for part in ("--output", f"{kind}={to}.{kind}")]

    assert specdiag("check", SICK, *outputs("a"), "--output", "json=a.json").code == 1
    assert specdiag("report", "a.json", *outputs("b")).code == 0
    found = analyze(SICK)
    for kind in CI:
        assert (folder / f"a.{kind}").read_text() == report.render(kind, found)
        if kind != "sarif":  # JSON does not say what every rule means
            assert (folder / f"b.{kind}").read_text() == report.render(kind, found)
    first, second = (json.loads((folder / f"{name}.sarif").read_text()) for name in "ab")
    assert first["runs"][0]["results"] == second["runs"][0]["results"]
    assert specdiag("report", "a.json", "--output", "junit=-").out == report.render("junit", found)


def test_check_annotates_and_sums_up_on_github(actions: Path, specdiag: Callable[..., Any]) -> None:
    actions.write_text("of another command\n")
    answer = specdiag("check", SICK)
    assert answer.code == 1
    first, *printed = answer.out.splitlines()
    word = first.removeprefix("::stop-commands::")
    assert re.fullmatch(r"specdiag-[0-9a-f]{32}", word)
    end = printed.index(f"::{word}::")
    assert any("Accepted depth contradicts" in line for line in printed[:end])
    ((level, properties, _),) = annotations("\n".join(printed[end + 1 :]))
    assert level == "error" and properties["file"].endswith("ddtree-b7-k1.log")
    said = actions.read_text()
    assert said.startswith("of another command\n# specdiag\n")
    assert said.removeprefix("of another command\n") == github.summary(analyze(SICK))


def test_a_log_cannot_speak_to_github(
    actions: Path, folder: Path, specdiag: Callable[..., Any]
) -> None:
    (folder / "server.log").write_text(f"{METRICS}{' ' * 60}::error::pwned\n" * 3)
    printed = specdiag("check", "server.log").out.splitlines()
    start = printed.index(next(line for line in printed if line.startswith("::stop-commands::")))
    end = printed.index(printed[start].replace("::stop-commands", "") + "::")
    obeyed = printed[:start] + printed[end + 1 :]
    assert "::error::pwned" in "\n".join(printed)
    assert not any("::error::pwned" in line.split("%0A")[0] for line in obeyed)
    annotations("\n".join(obeyed))


@pytest.mark.parametrize("off", ["--no-ci", "variable"])
def test_what_check_says_on_github_can_be_switched_off(
    off: str, actions: Path, specdiag: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--no-ci"] if off == "--no-ci" else []
    if off == "variable":
        monkeypatch.setenv("SPECDIAG_NO_CI", "1")
    answer = specdiag("check", SICK, *arguments)
    assert answer.code == 1 and "::" not in answer.out and not actions.exists()


def test_only_check_speaks_to_github(actions: Path, specdiag: Callable[..., Any]) -> None:
    assert "::" not in specdiag("analyze", SICK, "--no-html").out
    assert not actions.exists()


def test_standard_output_that_is_wanted_stays_clean(
    actions: Path, specdiag: Callable[..., Any]
) -> None:
    answer = specdiag("check", SICK, "--output", "json=-")
    assert json.loads(answer.out)["schema"] == 1
    assert actions.read_text().startswith("# specdiag\n")


def test_annotations_that_were_asked_for_come_once(
    actions: Path, specdiag: Callable[..., Any]
) -> None:
    assert len(annotations(specdiag("check", SICK, "--output", "github=-").out)) == 1
    printed = specdiag("check", SICK, "--output", "github=a.txt").out
    assert "::error " not in printed


@pytest.mark.parametrize("state", ["full", "folder"])
def test_a_summary_that_cannot_be_written_is_a_warning(
    state: str, actions: Path, specdiag: Callable[..., Any]
) -> None:
    if state == "full":
        actions.write_text("x" * (github.SUMMARY - 1000))
    else:
        actions.mkdir()
    answer = specdiag("check", SICK)
    assert answer.code == 1 and "Traceback" not in answer.err
    assert "warning: " in answer.err and "summary" in answer.err
    assert "--no-ci" in answer.err


def test_a_summary_keeps_within_what_is_left(actions: Path, specdiag: Callable[..., Any]) -> None:
    actions.write_text("x" * (github.SUMMARY - 66_000))
    specdiag("check", SICK)
    assert github.SUMMARY - 66_000 < actions.stat().st_size <= github.SUMMARY


def test_check_hints_at_artifacts_on_gitlab(
    folder: Path, specdiag: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = specdiag("check", SICK)
    monkeypatch.setenv("GITLAB_CI", "true")
    answer = specdiag("check", SICK)
    assert answer.out == silent.out
    (hint,) = [line for line in answer.err.splitlines() if line not in silent.err.splitlines()]
    assert "--output gitlab=gl-code-quality-report.json --output junit=junit.xml" in hint
    assert "--output gitlab" not in specdiag("check", SICK, "--output", "gitlab=a.json").err
    both = specdiag("check", SICK, "--output", "gitlab=a.json", "--output", "junit=a.xml")
    assert both.err == silent.err
    assert specdiag("check", SICK, "--no-ci").err == silent.err
    monkeypatch.setenv("SPECDIAG_NO_CI", "1")
    assert specdiag("check", SICK).err == silent.err


def test_rules_have_ids_that_stay(sick: Diagnosis) -> None:
    rules = json.loads(report.render("sarif", sick))["runs"][0]["tool"]["driver"]["rules"]
    assert [one["id"] for one in rules] == sorted(path.stem for path in bundled.RULES.glob("*.sql"))
    for one in rules:
        assert one["help"]["text"] and one["help"]["markdown"] and one["properties"]["tags"]
        assert one["defaultConfiguration"]["level"] in ("error", "warning", "note")
        assert len(one["shortDescription"]["text"]) <= 1024
