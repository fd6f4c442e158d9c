"""The draft-tree explorer: which steps travel in a page, and what is said of them."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import correct
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdiag import definition, diagnosis, rule, source
from specdiag.bundled import PARSERS, RULES
from specdiag.report.html import explorer, filters, heat

SAMPLES = Path(__file__).parents[1] / "sample_logs"
KNOWN = [definition.load(path) for path in sorted(PARSERS.glob("*.toml"))]
WALK = rule.load(RULES / "walk_stopped_early.sql")
HOSTILE = "</script><img src=x onerror=alert(1)> \u202ereversed \x1b[31m"


def stored(folder, records):
    """A store of traces: records, or lists of them by the name of their run."""
    for name, some in (records if isinstance(records, dict) else {"r": records}).items():
        text = some if isinstance(some, str) else correct.lines(some)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return diagnosis.fill(source.find([str(folder)]), KNOWN)


def section(found):
    """The part of the page that needs no script."""
    template = filters.environment().get_template("explorer.html.jinja")
    return template.render(explorer=found)


def steps_of(records):
    return [one for one in records if one["record"] == "step"]


def stop_early(step):
    """Leave off behind the root, though a draft would fit."""
    step["accepted"] = [0]


def places(found, what=lambda step: True):
    """Requests and numbers of the steps in a page."""
    steps = found.data["steps"]
    return [(found.data["requests"][one["request"]], one["step"]) for one in steps if what(one)]


def contradicted(one):
    return bool(one["wrong"])


def long_trace(seed=3, requests=12):
    """A trace in which every tenth step that took a draft is contradicted."""
    records = correct.trace(seed, requests=requests, length=60)
    broken = [step for step in steps_of(records) if len(step["accepted"]) > 1][::10]
    for step in broken:
        stop_early(step)
    return records, {(step["request"], step["step"]) for step in broken}


# Which steps -------------------------------------------------------------------------------------


def test_a_small_trace_travels_whole(tmp_path):
    records = correct.trace(1)
    found = explorer.build(stored(tmp_path, records), [])
    assert places(found) == [(one["request"], one["step"]) for one in sorted(
        steps_of(records), key=lambda one: (one["request"], one["step"])
    )]  # fmt: skip
    assert found.told == f"{len(steps_of(records))} traced steps, all in this page."


@pytest.mark.parametrize("most", [700, 1500, 3000])
def test_contradictions_come_first_and_the_cap_is_kept(tmp_path, most):
    records, broken = long_trace()
    found = explorer.build(stored(tmp_path, records), [], most_nodes=most)
    assert broken <= set(places(found))
    assert (
        0.8 * most < sum(len(one["parent"]) + explorer.HEAD for one in found.data["steps"]) <= most
    )
    assert len(places(found)) < len(steps_of(records))


def test_it_is_told_how_many_are_left_out(tmp_path):
    records, _ = long_trace()
    found = explorer.build(stored(tmp_path, records), [], most_nodes=700)
    (run,) = found.data["runs"]
    steps = found.data["steps"]
    assert run["steps"] == len(steps_of(records)) and run["shown"] == len(steps)
    assert run["wrong_shown"] == run["wrong"] == len(places(found, contradicted))
    assert run["leaves_shown"] == sum(one["leaves"] for one in steps) <= run["leaves"]
    assert found.told.startswith(
        f"{len(steps)} of {run['steps']} traced steps are in this page: "
        f"{run['wrong']} of {run['wrong']} that contradict themselves, "
    )


def test_paths_that_leave_the_spine_come_before_the_rest(tmp_path):
    records = correct.trace(5, requests=12, length=60)
    branching = {
        (one["request"], one["step"]) for one in steps_of(records)
        if any(one["ranks"][row] for row in one["accepted"])
    }  # fmt: skip
    found = explorer.build(stored(tmp_path, records), [], most_nodes=600)
    assert len(places(found)) < len(branching) and set(places(found)) <= branching


def test_the_choice_is_spread_over_the_trace(tmp_path):
    records = correct.trace(5, requests=40, length=60)
    found = explorer.build(stored(tmp_path, records), [], most_nodes=800)
    requests = [int(request[1:]) for request, _ in places(found)]
    assert min(requests) < 5 and max(requests) >= 35 and len(set(requests)) > 15


def test_every_run_and_every_kind_of_contradiction_has_its_turn(tmp_path):
    loud, quiet = correct.trace(1, requests=12), correct.trace(2, requests=2)
    for step in steps_of(loud):
        step["kv_after"] += 1  # what every step breaks
    rare = steps_of(loud)[-1]
    rare["positions"] = [one + 1 for one in rare["positions"]]
    steps_of(quiet)[-1]["kv_after"] += 1
    for name, records in (("loud", loud), ("quiet", quiet)):
        records[0]["run"] = name
        for one in records:
            one["run"] = name
    found = explorer.build(stored(tmp_path, {"loud": loud, "quiet": quiet}), [], most_nodes=250)
    shown = [(found.data["runs"][one["run"]]["name"], one) for one in found.data["steps"]]
    assert {name for name, _ in shown} == {"loud", "quiet"}
    assert any(field == "positions" for _, one in shown for _, field, *_ in one["wrong"])


def test_what_a_finding_cites_is_there_and_leads_to_it(tmp_path):
    found, store = diagnosis.analyze(
        source.find([str(SAMPLES / "walk_stopped_early.jsonl")]), KNOWN, [WALK], {}
    )
    shown = explorer.build(store, found.findings, None, 60, {found.findings[0].id: "here"})
    lines = {one.line for one in found.findings[0].evidence}
    cited = {one["line"] for one in shown.data["steps"] if one["findings"] == [0]}
    assert cited and cited == lines & {one["line"] for one in shown.data["steps"]}
    assert shown.data["findings"] == [{"title": f"critical: {WALK.title}", "href": "#here"}]


def test_warm_up_takes_no_part_and_without_trees_there_is_nothing(tmp_path):
    records = correct.trace(1)
    for step in steps_of(records):
        step["warmup"] = True
    assert explorer.build(stored(tmp_path, records), []) is None
    assert explorer.build(
        diagnosis.fill(source.find([str(SAMPLES / "healthy-dflash.log")]), KNOWN), []
    ) is None  # fmt: skip


# What is said of them ----------------------------------------------------------------------------


def test_a_step_has_what_its_record_has(tmp_path):
    records = correct.trace(1)
    record = steps_of(records)[1]
    record |= {"verify_ms": 12.34567, "step_ms": 20.0}
    found = explorer.build(stored(tmp_path, records), [])
    (step,) = [
        one for one in found.data["steps"]
        if (found.data["requests"][one["request"]], one["step"]) == (record["request"], record["step"])
    ]  # fmt: skip
    assert (step["token"], step["parent"], step["rank"], step["target"]) == tuple(
        record[key] for key in ("node_tokens", "parents", "ranks", "target_tokens")
    )
    assert step["log_prob"] == [round(one, 4) for one in record["log_probs"]]
    assert step["accepted"] == step["expected"] == record["accepted"]
    assert step["bonus"] == step["expected_bonus"] == record["bonus"]
    assert step["ms"] == {"verify": 12.3457, "step": 20.0}
    assert found.data["paths"][step["path"]].endswith("r.jsonl") and step["line"] == 3
    assert (step["ctx"], step["budget"], step["top_k"]) == (record["ctx_len"], 8, 3)


def test_a_contradiction_shows_both_paths_and_what_is_violated(tmp_path):
    records = correct.trace(1)
    record = next(one for one in steps_of(records) if len(one["accepted"]) > 2)
    right = record["accepted"]
    stop_early(record)
    found = explorer.build(stored(tmp_path, records), [])
    (step,) = [one for one in found.data["steps"] if one["accepted"] == [0] != one["expected"]]
    assert step["expected"] == right and step["by"] == "the target's choices"
    assert ["I3", "accepted", 1, str(right[1]), None] in step["wrong"]


def test_the_first_contradiction_is_drawn_without_a_script():
    store = diagnosis.fill(source.find([str(SAMPLES / "walk_stopped_early.jsonl")]), KNOWN)
    found = explorer.build(store, [])
    assert found.where == "The first step that contradicts itself"
    assert found.drawn.startswith("step 6 of request r0 ") and "\n&gt;    4 " in found.drawn
    assert found.data["steps"][found.data["first"]]["step"] == 6
    assert found.drawn in section(found)


def test_without_target_choices_the_later_text_says_the_path(tmp_path):
    records = correct.trace(1)
    for step in steps_of(records):
        step["target_tokens"] = None
    found = explorer.build(stored(tmp_path, records), [])
    by = {(one["request"], one["step"]): one for one in steps_of(records)}
    assert all(one["target"] is None for one in found.data["steps"])
    for place, step in zip(places(found), found.data["steps"], strict=True):
        assert step["by"] == "the text that follows"
        assert step["expected"][: len(by[place]["accepted"])] == by[place]["accepted"]


def test_steps_without_numbers_count_from_0_in_their_request(tmp_path):
    records = correct.trace(1)
    wanted = sorted((one["request"], one["step"]) for one in steps_of(records))
    for step in steps_of(records):
        step["step"] = None
    assert places(explorer.build(stored(tmp_path, records), [])) == wanted


def test_tokens_have_their_text(tmp_path):
    texts = {5: " def\n", 6: "a\u202eb", 7: "", 8: "y" * 99}
    found = explorer.build(
        stored(tmp_path, correct.trace(1)), [], lambda token: texts.get(token, "")
    )
    assert found.data["texts"]["5"] == r" def" and found.data["texts"]["6"] == r"a\u202eb"
    assert "7" not in found.data["texts"] and len(found.data["texts"]["8"]) == 24


def test_the_same_input_makes_the_same_page(tmp_path):
    records, _ = long_trace()
    made = [
        explorer.build(stored(tmp_path, records), [], most_nodes=900) for _ in range(2)
    ]  # fmt: skip
    assert json.dumps(made[0].data) == json.dumps(made[1].data)
    assert section(made[0]) == section(made[1])


def test_the_store_is_left_as_it_was(tmp_path):
    store = stored(tmp_path, correct.trace(1))
    before = store.rows("SHOW ALL TABLES")
    explorer.build(store, [])
    assert store.rows("SHOW ALL TABLES") == before


# What others write -------------------------------------------------------------------------------


def test_hostile_names_stay_text(tmp_path):
    records = correct.trace(1)
    for one in records:
        if one["record"] != "run":
            one["request"] = f"{one['request']} {HOSTILE}"
    for step in steps_of(records):
        step["mode"] = step["cut"] = HOSTILE
    found = explorer.build(stored(tmp_path, records), [], lambda token: HOSTILE)
    shown = section(found)
    assert "<img" not in shown and "\u202e" not in shown and "\x1b" not in shown
    data = json.dumps(found.data, ensure_ascii=False)
    assert "\u202e" not in data and "\x1b" not in data
    assert all(len(name) <= explorer.NAME for name in found.data["requests"])


def test_a_link_is_made_of_what_the_page_shows():
    assert explorer.anchor("a b", "q/1", 3) == "step-a%20b/q%2F1/3"
    assert explorer.anchor("r\udc80", None, 0) == r"step-r%5Cx80//0"


def test_every_step_in_a_page_has_its_link(tmp_path):
    found = explorer.build(stored(tmp_path, correct.trace(1)), [])
    links = explorer.anchors(found)
    path = str(tmp_path / "r.jsonl")
    assert len(links) == len(set(links.values())) == len(found.data["steps"])
    name = found.data["runs"][0]["name"]
    assert links[path, 2] == f"step-{name}/q0/0"


def test_a_number_that_a_script_cannot_hold_is_text(tmp_path):
    records = correct.trace(1)
    steps_of(records)[0]["node_tokens"][1] = 2**62
    found = explorer.build(stored(tmp_path, records), [])
    assert found.data["steps"][0]["token"][1] == str(2**62)


whole = st.none() | st.integers(-3, 8) | st.just(2**62)
lists = st.none() | st.lists(whole, max_size=9)


@settings(max_examples=12)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"accepted": lists, "parents": st.lists(whole, min_size=1, max_size=9)},
            optional={
                **dict.fromkeys(
                    ("node_tokens", "target_tokens", "ranks", "depths", "emitted"), lists
                ),
                "log_probs": st.none() | st.lists(st.none() | st.floats(-9, 0), max_size=9),
                "accepted_depth": st.none() | st.floats(allow_nan=False, allow_infinity=False),
                "request": st.none() | st.text(max_size=3), "step": st.none() | st.integers(0, 3),
            },
        ),
        min_size=1, max_size=4,
    )
)  # fmt: skip
def test_no_step_is_too_strange(tmp_path, steps):
    store = stored(tmp_path, [{"record": "step", "schema": 1, "run": "r"} | one for one in steps])
    found = explorer.build(store, [])
    (known,) = store.rows("SELECT count(*) AS steps FROM step WHERE len(parents) > 0")
    if found is None:
        assert not known["steps"]
        return
    json.dumps(found.data, allow_nan=False)
    assert section(found)
    assert len(found.data["steps"]) == known["steps"]


# Where accepted tokens come from -----------------------------------------------------------------


def counted(records):
    """Offered and accepted nodes by depth and rank."""
    cells = {}
    for step in steps_of(records):
        for row in range(1, step["width"]):
            place = step["depths"][row], min(step["ranks"][row], heat.LAST)
            offered, accepted = cells.get(place, (0, 0))
            cells[place] = offered + 1, accepted + (row in step["accepted"])
    return cells


def cells_of(found):
    return {
        (int(depth), rank): (cell.offered, cell.accepted)
        for depth, row in found.rows for rank, cell in enumerate(row) if cell
    }  # fmt: skip


@pytest.mark.parametrize("gone", [(), ("depths",), ("ranks", "depths"), ("ranks",)])
def test_nodes_are_counted_by_depth_and_rank(tmp_path, gone):
    records = correct.trace(4, budget=40, top_k=12)
    wanted = counted(records)  # ranks of a correct tree are the places among siblings
    thin = copy.deepcopy(records)
    for step in steps_of(thin):
        step |= dict.fromkeys(gone)
    ((found,), _) = heat.maps(stored(tmp_path, thin))
    assert cells_of(found) == wanted
    assert found.ranked is ("ranks" not in gone) and found.every == 1
    assert found.columns[-1] == "8+" and all(
        0 <= cell.level <= 9 for _, row in found.rows for cell in row if cell
    )


def test_a_large_trace_without_depths_is_sampled_and_it_is_told(tmp_path, monkeypatch):
    records = correct.trace(4, requests=20, length=60)
    for step in steps_of(records):
        step["depths"] = None
    monkeypatch.setattr(heat, "NODES", 500)
    store = stored(tmp_path, records)
    ((found,), _) = heat.maps(store)
    nodes = sum(step["width"] for step in steps_of(records))
    offered = sum(one for one, _ in cells_of(found).values())
    assert found.every == -(-nodes // 500) > 2
    assert nodes / found.every / 2 < offered < 2 * nodes / found.every
    assert f"Counted in one step of {found.every}" in section(explorer.build(store, []))


def test_what_it_shows_is_told_in_words(tmp_path):
    records = correct.trace(4)
    taken = [step["ranks"][row] for step in steps_of(records) for row in step["accepted"][1:]]
    ((found,), _) = heat.maps(stored(tmp_path, records))
    assert f"{len(taken)} of " in found.told
    assert f" {taken.count(0)} of these " in found.told and "first choices" in found.told
    for step in steps_of(records):
        step["accepted"] = [0]
    ((found,), _) = heat.maps(stored(tmp_path, records))
    assert found.told.startswith("None of ")
