"""Accepted findings: fingerprints, files of them, [[suppress]], and what a check makes of both."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import corpus
import mutations
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdiag import accepted, saved, suppress
from specdiag.finding import Evidence, Finding
from specdiag.header import load as load_rule

pytestmark = pytest.mark.usefixtures("analyses_once")

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_logs"
SICK = SAMPLES / "draft_never_accepted.log"  # high
HEALTHY = SAMPLES / "healthy-dflash.log"
RULE = load_rule(ROOT / "rules" / "module_missing.sql")
OTHER = load_rule(ROOT / "rules" / "pool_leak.sql")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def finding(run="server", against=None, rule=RULE, message="it is missing", **values):
    return Finding(
        id=f"{rule.name}@{run}", rule=rule, run=run, against=against, severity="high",
        message=message, impact=None, values=values, evidence=[Evidence("a.log", 3, "a line")],
    )  # fmt: skip


# Fingerprints ------------------------------------------------------------------------------------

SEEDS = (1, 2)
# One rule a kind of finding: of one run, of two runs, of traces, of exceptions, of records.
FAULTS = (
    "draft_never_accepted", "tree_below_chain", "step_time_superlinear", "module_missing",
    "slower_than_baseline", "pool_leak", "server_hung", "dp_imbalance", "sources_disagree",
    "illegal_memory_access", "zombie_requests", "graph_capture_failed", "out_of_memory_serving",
)  # fmt: skip


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """What is said of every fault with other requests, times and figures, a seed each."""
    made = []
    for seed in SEEDS:
        wanted = [(name, lambda name=name, seed=seed: _sick(name, seed)) for name in FAULTS]
        made.append(corpus.judge(tmp_path_factory.mktemp("seed"), wanted))
    return made


def _sick(name, seed):
    one = mutations.OPERATORS[name]
    return one.make(mutations.server(one.on, name, seed), one.sick)


@pytest.mark.parametrize("name", FAULTS)
def test_a_finding_is_known_again_after_another_run(again, name):
    found = [
        {accepted.fingerprint(one) for one in said[name].findings if one.rule.name == name}
        for said in again
    ]
    assert found[0] and found[0] == found[1]


def test_what_is_known_again_has_other_figures(again):
    told = [
        {name: [one.message for one in said[name].findings] for name in FAULTS} for said in again
    ]
    assert sum(told[0][name] != told[1][name] for name in FAULTS) > len(FAULTS) / 2


def test_findings_of_other_rules_runs_and_entities_differ(again):
    every = [one for said in again[0].values() for one in said.findings]
    keys = {(one.rule.name, accepted.run_key(one.run), one.against and accepted.run_key(one.against), str(accepted.entity(one))) for one in every}  # fmt: skip
    assert len({accepted.fingerprint(one) for one in every}) == len(keys)


@given(
    st.fixed_dictionaries({
        "count": st.integers(), "ms": st.floats(), "share": st.none() | st.floats(),
        "text": st.text(), "request": st.text(), "rank": st.text(), "ranks": st.text(),
        "expected": st.text(), "first_time": st.text(), "steps": st.lists(st.integers()),
    }),
    st.text(), st.integers(1), st.randoms(use_true_random=False),
)  # fmt: skip
def test_no_figure_text_line_or_order_changes_a_fingerprint(values, message, line, order):
    names = [*values.items(), ("missing", "soundfile"), ("stage", "weights")]
    order.shuffle(names)
    one = finding(message=message, **dict(names))
    one.evidence, one.impact, one.severity = [Evidence("b.log", line, message)], 0.5, "low"
    assert accepted.fingerprint(one) == accepted.fingerprint(
        finding(missing="soundfile", stage="weights")
    )


@pytest.mark.parametrize(
    "other",
    [
        finding(rule=OTHER, missing="soundfile"),
        finding(run="server#2", missing="soundfile"),
        finding(run="other", missing="soundfile"),
        finding(against="plain", missing="soundfile"),
        finding(against="", missing="soundfile"),
        finding(missing="xgrammar"),
        finding(missing="soundfile", stage="weights"),
        finding(),
    ],
    ids=lambda one: f"{one.rule.name}@{one.run} {one.values}",
)
def test_whatever_is_another_thing_has_another_fingerprint(other):
    assert accepted.fingerprint(other) != accepted.fingerprint(finding(missing="soundfile"))


def test_fingerprints_stay_what_they_are():
    """Files of users hold them: a change here makes every accepted finding new."""
    assert accepted.fingerprint(finding()) == "f4ca65b8792b4717"
    assert (
        accepted.fingerprint(finding("server#2", "plain", missing="soundfile"))
        == "16da0d08ea015832"
    )


@pytest.mark.parametrize(
    ("run", "key"),
    [
        ("server", "server"),
        ("server#2", "server#2"),
        ("ddtree-b7-k1", "ddtree-b7-k1"),
        ("trace:linear", "trace:linear"),
        ("qwen3-8b-2507", "qwen3-8b-2507"),
        ("server-2026-05-01", "server"),
        ("server_20260501#2", "server#2"),
        ("20260501-123005_server", "server"),
        ("server.2026-05-01T12:30:05Z", "server"),
        ("bench-2026-05-01_12-30-05-ddtree", "bench-ddtree"),
        ("job-15234567890", "job"),
        ("run-8f14e45f-ceea-467a-9575-0b3a1c2d3e4f:tree", "run:tree"),
        ("/home/ci/builds/77/logs/server", "logs/server"),
        ("2026-05-01/server", "server"),
        ("server-20261301", "server-20261301"),
        ("2026-05-01", ""),
    ],
)
def test_the_run_key_is_what_the_next_run_has_too(run, key):
    assert accepted.run_key(run).removeprefix("/") == key


def test_where_a_file_is_installed_is_no_part_of_what_it_is():
    here, there = (finding(library=f"{home}/lib/libcudart.so.12") for home in ("/usr", "/opt/x"))
    assert accepted.fingerprint(here) == accepted.fingerprint(there)


def test_a_hostile_name_has_a_fingerprint():
    assert re.fullmatch("[0-9a-f]{16}", accepted.fingerprint(finding(run="\udcff\x00‮", name="x\ud800")))  # fmt: skip


# Files -------------------------------------------------------------------------------------------


def test_a_file_reads_as_what_was_written(folder):
    entries = accepted.entries(
        [finding(missing="x"), finding(missing="x"), finding("b\x1b[31m", "‮", reason="no")],
        "2026-05-01", "we know; „so“ \x07 \udcff",
    )  # fmt: skip
    assert [one.count for one in entries] == [1, 2]
    text = accepted.dump(entries)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    (folder / "a.json").write_text(text, encoding="utf-8")
    assert accepted.read(Path("a.json")) == entries
    assert accepted.dump(accepted.read(Path("a.json"))) == text


def entry(fingerprint="0" * 16, **more):
    return {
        "fingerprint": fingerprint, "rule": "r", "run": "s", "against": None, "entity": {},
        "count": 1, "date": "2026-05-01", "reason": "known",
    } | more  # fmt: skip


def document(*entries, schema=1):
    return json.dumps({"schema": schema, "specdiag": "accepted findings", "accepted": entries})


@pytest.mark.parametrize(
    ("text", "what", "help"),
    [
        (document(schema=2), "schema version 2 is newer than 1", "update specdiag"),
        (document(schema="1"), "file.schema is no whole number", "baseline write"),
        (document()[:-1], "cannot be read", "baseline write"),
        (document(3), "file.accepted[0] is no object", "baseline write"),
        (document(entry(count=0)), "count is no number of findings", "baseline write"),
        (document(entry(count=True)), "count is no whole number", "baseline write"),
        (document(entry(date="yesterday")), "yesterday", "baseline write"),
        (document(entry(entity={"stage": 3})), "entity.stage is no text", "baseline write"),
        (document(entry(reason=None)), "reason is no text", "baseline write"),
        (document({}), "has no date", "baseline write"),
        (document(entry(), entry()), "0000000000000000 is accepted twice", "keep one of the two"),
        (document(entry())[:-2] + "]" * 9, "cannot be read", "baseline write"),
        (document().replace('"accepted": []', '"accepted": ' + "[" * 9999), "cannot be read", ""),
    ],
)
def test_a_file_that_is_spoilt_is_named(specdiag, folder, text, what, help):
    (folder / "a.json").write_text(text)
    answer = specdiag("check", SICK, "--baseline", "a.json")
    assert (answer.code, answer.out) == (2, "")
    assert what in answer.err and "\n --> a.json\n" in answer.err and help in answer.err


# specdiag baseline -------------------------------------------------------------------------------


@pytest.fixture
def written(specdiag, folder):
    """A file with all findings of the sick sample."""
    answer = specdiag("baseline", "write", "a.json", SICK, "--date", "2026-05-01", "--reason", "a new drafter is trained")  # fmt: skip
    assert (answer.code, answer.out) == (0, "1 finding accepted in a.json\n")
    return Path("a.json")


def test_what_is_accepted_fails_no_check(specdiag, written):
    assert specdiag("check", SICK).code == 1
    answer = specdiag("check", SICK, "--baseline", written)
    assert answer.code == 0
    assert answer.out.startswith("nothing new found: ") and "; 1 finding accepted\n" in answer.out
    line = next(one for one in answer.out.splitlines() if one.startswith("Accepted"))
    assert "high draft_never_accepted@draft_never_accepted" in line
    assert "HIGH" not in answer.out


def test_what_is_accepted_is_marked_in_every_report(specdiag, written, folder):
    kinds = {"json": "o.json", "markdown": "o.md", "html": "o.html", "duckdb": "o.duckdb"}
    options = [part for kind, path in kinds.items() for part in ("--output", f"{kind}={path}")]
    assert specdiag("check", SICK, "--baseline", written, *options).code == 0
    (one,) = json.loads((folder / "o.json").read_text())["findings"]
    assert one["accepted"] == {"date": "2026-05-01", "reason": "a new drafter is trained"}
    for name in ("o.md", "o.html"):
        assert "accepted on 2026-05-01: a new drafter is trained" in (folder / name).read_text()
    for name in ("o.json", "o.duckdb"):
        (again,) = saved.load(folder / name).diagnosis.findings
        assert again.accepted is not None and again.accepted.date == "2026-05-01"


def test_what_nobody_accepted_is_marked_as_such(specdiag):
    (one,) = json.loads(specdiag("check", SICK, "--output", "json=-").out)["findings"]
    assert one["accepted"] is None


def test_another_finding_still_fails(specdiag, written):
    answer = specdiag("check", SICK, SAMPLES / "tree_below_chain", "--baseline", written)
    assert answer.code == 1 and "[tree_below_chain]" in answer.out
    assert "[draft_never_accepted]" not in answer.out


def test_more_than_were_accepted_are_new():
    entries = accepted.entries([finding(), finding()], "2026-05-01", "known")
    found = [finding() for _ in range(3)]
    accepted.mark(found, entries)
    assert [one.accepted is not None for one in found] == [True, True, False]


def test_a_baseline_may_be_a_run_and_a_file_at_once(specdiag, written):
    pair = SAMPLES / "slower_than_baseline"
    runs = [one["run"] for one in json.loads(specdiag("check", pair, "--output", "json=-").out)["runs"]]  # fmt: skip
    both = ["--baseline", written, "--baseline", runs[0]]
    answer = specdiag("check", SICK, pair, *both, "--output", "json=-")
    marks = {one["rule"]: one["accepted"] for one in json.loads(answer.out)["findings"]}
    assert marks["draft_never_accepted"] is not None
    answer = specdiag("check", SICK, pair, *both, "--baseline", runs[1])
    assert answer.code == 2 and "one run or path to compare with" in answer.err


def test_a_file_among_the_logs_is_no_log(specdiag, written, folder):
    (folder / "server.log").write_bytes(SICK.read_bytes())
    answer = specdiag("check", folder)
    assert answer.code == 1 and answer.err == ""


def test_writing_leaves_an_old_file_alone(specdiag, written):
    before = written.read_bytes()
    answer = specdiag("baseline", "write", written, HEALTHY)
    assert answer.code == 2 and answer.err.startswith("error: the file is there already")
    assert written.read_bytes() == before


def test_updating_adds_and_keeps_dates_and_reasons(specdiag, written):
    answer = specdiag("baseline", "update", written, SICK, SAMPLES / "tree_below_chain", "--date", "2026-06-02", "--reason", "looked at")  # fmt: skip
    assert answer.code == 0
    assert answer.out == "accepted tree_below_chain@tree against linear\n1 more finding accepted in a.json\n"  # fmt: skip
    assert [(one.rule, one.date, one.reason) for one in accepted.read(written)] == [
        ("draft_never_accepted", "2026-05-01", "a new drafter is trained"),
        ("tree_below_chain", "2026-06-02", "looked at"),
    ]


def test_pruning_drops_what_is_not_found_any_more(specdiag, written):
    specdiag("baseline", "update", written, SICK, SAMPLES / "tree_below_chain")
    answer = specdiag("baseline", "prune", written, SICK)
    assert answer.code == 0
    assert answer.out == (
        "dropped tree_below_chain@tree against linear\n"
        "1 finding dropped from a.json; 1 finding accepted in it\n"
    )
    assert [one.rule for one in accepted.read(written)] == ["draft_never_accepted"]


def test_pruning_keeps_what_was_not_looked_for(specdiag, written):
    answer = specdiag("baseline", "prune", written, HEALTHY, "--select", "tree")
    assert answer.out == "0 findings dropped from a.json; 1 finding accepted in it\n"
    assert len(accepted.read(written)) == 1


def test_counts_go_up_by_updating_and_down_by_pruning():
    two, three = (accepted.entries([finding()] * n, "2026-05-01", "a") for n in (2, 3))
    later = [replace(one, date="2026-06-01", reason="b") for one in three]
    assert accepted.updated(two, later) == three and accepted.updated(three, two) == three
    kept, dropped = accepted.pruned(three, two)
    assert (kept, [one.count for one in dropped]) == (two, [1])
    assert accepted.pruned(two, three) == (two, [])


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["write", "b.json", HEALTHY, "--date", "soon"], "'soon' is no date"),
        (["write", "b.json", HEALTHY, "--reason", " "], "the reason is empty"),
        (["write", "no/b.json", HEALTHY], "the folder of this file is missing"),
        (["update", "b.json", HEALTHY], "the accepted findings cannot be read: "),
        (["prune", SICK, HEALTHY], "these are no accepted findings"),
        (["update", ".", HEALTHY], "these are no accepted findings"),
        (["write", "b.json", HEALTHY, "--rules", "broken.sql"], "rule header is wrong"),
    ],
)
def test_mistakes_with_a_baseline_are_named(specdiag, folder, arguments, what):
    (folder / "broken.sql").write_text("-- title = 3\n")
    answer = specdiag("baseline", *arguments)
    assert (answer.code, answer.out) == (2, "") and what in answer.err
    assert not (folder / "b.json").exists()


@pytest.mark.parametrize("command", ["write", "update", "prune"])
def test_every_command_has_help_with_an_example(specdiag, command):
    assert f"Example: specdiag baseline {command} " in specdiag("baseline", command, "--help").out


# [[suppress]] ------------------------------------------------------------------------------------


@pytest.fixture
def settings(folder):
    def settings(rule="draft_never_accepted", run="*", until="", reason="a new drafter"):
        text = f'[[suppress]]\nrule = "{rule}"\nrun = "{run}"\nreason = "{reason}"\n'
        (folder / "specdiag.toml").write_text(text + (f"until = {until}\n" if until else ""))

    return settings


def told(specdiag, *more):
    answer = specdiag("check", SICK, "--output", "json=-", *more)
    return answer.code, {one["id"]: one for one in json.loads(answer.out)["findings"]}


@pytest.mark.parametrize(
    "entry",
    [{}, {"rule": "acceptance"}, {"run": "draft_*"}, {"until": "9999-12-31"}],
    ids=str,
)
def test_what_is_suppressed_fails_no_check(specdiag, settings, entry):
    settings(**entry)
    code, found = told(specdiag)
    assert code == 0 and list(found) == ["draft_never_accepted@draft_never_accepted"]
    (one,) = found.values()
    assert one["accepted"] == {"date": None, "reason": "a new drafter"}


@pytest.mark.parametrize("entry", [{"run": "other-*"}, {"rule": "pool_leak"}], ids=str)
def test_an_entry_that_nothing_matches_is_a_finding(specdiag, settings, entry):
    settings(**entry)
    code, found = told(specdiag)
    one = found["suppress_unused@draft_never_accepted"]
    assert code == 1 and one["severity"] == "low" and one["run"] == "draft_never_accepted"
    assert one["evidence"] == [{"path": "specdiag.toml", "line": 1, "text": "[[suppress]]"}]
    assert found["draft_never_accepted@draft_never_accepted"]["accepted"] is None
    assert specdiag("check", HEALTHY, "--fail-on", "low").code == 1


def test_an_entry_after_its_last_day_is_a_finding_and_suppresses_nothing(specdiag, settings):
    settings(until="2020-01-31")
    code, found = told(specdiag)
    assert code == 1 and found["draft_never_accepted@draft_never_accepted"]["accepted"] is None
    one = found["suppress_expired@draft_never_accepted"]
    assert one["message"] == (
        "draft_never_accepted is suppressed on * until 2020-01-31, which is over: "
        "of 1 finding none is suppressed"
    )


@pytest.mark.parametrize(("day", "holds"), [(31, True), (30, True), (1, False)])
def test_an_entry_holds_to_the_end_of_its_last_day(sample, settings, definitions, day, holds):
    from specdiag import config

    settings(until="2026-01-31")
    found = sample(SICK.name)
    found = replace(found, findings=[replace(one) for one in found.findings],
                    rules=list(found.rules), results=list(found.results))  # fmt: skip
    today = date(2026, 1, day) if holds else date(2026, 2, day)
    suppress.apply(found, config.load(None).suppress, definitions[1], today)
    assert (found.counted == []) is holds


def test_an_entry_of_a_rule_that_did_not_run_is_not_called_unused(specdiag, settings):
    settings()
    assert told(specdiag, "--select", "tree") == (0, {})


def test_an_entry_of_no_rule_is_a_mistake(specdiag, settings):
    settings(rule="draft_never_acepted")
    answer = specdiag("check", SICK)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "error: no rule and no family is called draft_never_acepted\n --> specdiag.toml:1\n"
        "help: did you mean draft_never_accepted?\n"
    )


def test_what_the_settings_suppress_is_not_accepted_once_more(specdiag, settings):
    settings()
    assert specdiag("baseline", "write", "a.json", SICK).out == "0 findings accepted in a.json\n"
    settings(until="2020-01-31")
    assert specdiag("baseline", "update", "a.json", SICK).out.endswith("1 more finding accepted in a.json\n")  # fmt: skip
    assert [one.rule for one in accepted.read(Path("a.json"))] == ["draft_never_accepted"]


def test_entries_are_findings_in_every_report(specdiag, settings, folder):
    settings(rule="pool_leak", reason="<b>`|\\u202e")
    kinds = {"json": "o.json", "markdown": "o.md", "html": "o.html", "duckdb": "o.duckdb"}
    options = [part for kind, path in kinds.items() for part in ("--output", f"{kind}={path}")]
    answer = specdiag("check", SICK, *options)
    assert "LOW  A suppression that nothing matches  [suppress_unused]" in answer.out
    for name in ("o.md", "o.html"):
        assert "A suppression that nothing matches" in (folder / name).read_text()
        assert "\u202e" not in (folder / name).read_text()
    for name in ("o.json", "o.duckdb"):
        found = saved.load(folder / name).diagnosis
        assert [one.rule.name for one in found.findings] == ["draft_never_accepted", "suppress_unused"]  # fmt: skip
        assert specdiag("report", name, "--output", "markdown=-").code == 0


def test_the_worst_still_comes_first(specdiag, settings, folder):
    settings(rule="pool_leak")
    code, found = told(specdiag, SAMPLES / "founding-1-depth-against-commit")
    order = ["critical", "high", "medium", "low", "info"]
    ranks = [
        (one["explained_by"] is not None, order.index(one["severity"])) for one in found.values()
    ]
    assert code == 1 and ranks == sorted(ranks) and len({follows for follows, _ in ranks}) == 2


@pytest.mark.parametrize("rule", suppress.RULES, ids=lambda rule: rule.name)
def test_findings_of_entries_are_explained(specdiag, rule):
    assert rule.why.split(":")[0] in " ".join(specdiag("explain", rule.name).out.split())
