"""Replay says nothing of a correct trace, and names step, identity and field of what is not."""

from __future__ import annotations

import copy
import random

import correct
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdiag import bundled, definition, diagnosis, replay, source

PARSERS = [definition.load(path) for path in sorted(bundled.PARSERS.glob("*.toml"))]
MODES = ("ddtree", "linear")


def proved(folder, records):
    """What replay finds in a trace, as (request, step, identity, field), and the warnings."""
    path = folder / "steps.jsonl"
    path.write_text(records if isinstance(records, str) else correct.lines(records))
    return replayed(path)


def proved_together(folder, traces):
    """The same of traces that are read at once, which takes little longer than reading one."""
    for number, text in enumerate(traces):
        text = text if isinstance(text, str) else correct.lines(text)
        (folder / f"{number}.jsonl").write_text(text)
    return replayed(folder)


def replayed(path):
    filled = diagnosis.fill(source.find([str(path)]), PARSERS)
    rows = filled.db.execute(
        "SELECT request, step, identity, field FROM replay ORDER BY line, identity, field"
    ).fetchall()
    return rows, filled.notices


def traces(seeds, **more):
    """A correct trace of each seed, as runs of their own."""
    return [
        [one | {"run": f"r{number}"} for one in correct.trace(seed, **more)]
        for number, seed in enumerate(seeds)
    ]


TOGETHER = 4  # traces that are read at once
FIXTURES = [HealthCheck.function_scoped_fixture]


def seeds(most=2**32):
    return st.lists(st.integers(0, most), min_size=TOGETHER, max_size=TOGETHER)


def steps_of(records):
    return [one for one in records if one["record"] == "step"]


SHAPE = st.tuples(
    st.integers(0, 2**32), st.sampled_from(MODES), st.integers(0, 20), st.integers(1, 5),
    st.integers(1, 3), st.integers(2, 40),
)  # fmt: skip


@settings(max_examples=5, deadline=None, suppress_health_check=FIXTURES)
@given(shapes=st.lists(SHAPE, min_size=TOGETHER, max_size=TOGETHER))
def test_correct_traces_break_nothing(tmp_path, shapes):
    several = [
        [one | {"run": f"r{number}"} for one in correct.trace(*shape)]
        for number, shape in enumerate(shapes)
    ]
    assert proved_together(tmp_path, several) == ([], [])


@settings(max_examples=3, deadline=None, suppress_health_check=FIXTURES)
@given(seeds=seeds(), order=st.randoms())
def test_the_order_of_the_records_does_not_matter(tmp_path, seeds, order):
    several = traces(seeds)
    for records in several:
        order.shuffle(records)
    assert proved_together(tmp_path, several) == ([], [])


@settings(max_examples=10, deadline=None, suppress_health_check=FIXTURES)
@given(seed=st.integers(0, 2**32), kept=st.data())
def test_missing_columns_and_missing_steps_are_no_fault(tmp_path, seed, kept):
    records = correct.trace(seed)
    steps = steps_of(records)
    spare = sorted(set(steps[0]) - {"record", "schema", "run", "request", "step"})
    gone = kept.draw(st.sets(st.sampled_from(spare)))
    left = [one for one in steps if kept.draw(st.booleans())]
    thin = [{key: value for key, value in one.items() if key not in gone} for one in left]
    found, _ = proved(tmp_path, [records[0], *thin])
    assert found == []


def test_a_checkpoint_of_a_step_without_its_path_is_not_judged(tmp_path):
    """Though the other steps have one, so that there is something to judge."""
    records = correct.trace(0)
    step = next(
        one for one in steps_of(records)
        if max(one.get("checkpoint_tokens") or [0]) > one["ctx_len"]
    )  # fmt: skip
    del step["accepted"]
    assert proved(tmp_path, records)[0] == []


# One thing changed --------------------------------------------------------------------------------


def change(**values):
    def apply(step):
        for key, value in values.items():
            step[key] = value(step) if callable(value) else value

    return apply


def at(key, entry, value):
    """Changes one entry of a list."""

    def apply(step):
        old = step[key][entry]
        step[key] = [*step[key]]
        step[key][entry] = value(old) if callable(value) else value

    return apply


def stop_early(step):
    """The walk leaves off behind the first draft; all that follows from it does, too."""
    step["accepted"] = step["accepted"][:2]
    step["bonus_row"] = step["accepted"][-1]
    step["bonus"] = step["target_tokens"][step["bonus_row"]]
    step["emitted"] = [step["node_tokens"][step["accepted"][1]], step["bonus"]]
    step["accepted_depth"] = step["accepted_drafts"] = 1.0
    step["commit_len"] = 2.0


def swap_rows(step):
    """Two leaves of different scores change places."""
    for key in ("node_tokens", "parents", "depths", "ranks", "log_probs"):
        step[key] = [*step[key]]
        step[key][-1], step[key][-2] = step[key][-2], step[key][-1]


def plus(n):
    return lambda value: value + n


MUTATIONS = {
    "a path that leaps": (at("accepted", 1, lambda row: row % 7 + 1), "I1", "accepted"),
    "a path without its root": (at("accepted", 0, 1), "I1", "accepted"),
    "depth of the whole tree": (change(accepted_depth=lambda s: 99.0), "I1", "accepted_depth"),
    "drafts that count the root": (change(accepted_drafts=lambda s: len(s["accepted"])), "I1", "accepted_drafts"),
    "a commit cut short": (change(commit_len=1.0), "I1", "commit_len"),
    "a draft nobody chose": (at("target_tokens", 0, plus(1)), "I2", "node_tokens"),
    "the bonus of another row": (change(bonus=lambda s: s["bonus"] + 1), "I3", "bonus"),
    "a bonus row that is a depth": (change(bonus_row=77), "I3", "bonus_row"),
    "a walk that stops": (stop_early, "I3", "accepted"),
    "the root once more": (change(emitted=lambda s: [s["root"], *s["emitted"]]), "I4", "emitted"),
    "a token swallowed": (change(emitted=lambda s: s["emitted"][1:]), "I4", "emitted"),
    "a root from elsewhere": (change(root=lambda s: s["root"] + 1), "I5", "root"),
    "a start too far": (change(ctx_len=lambda s: s["ctx_len"] + 1), "I5", "ctx_len"),
    "rows left in the cache": (change(kv_after=lambda s: s["kv_verified"]), "I6", "kv_after"),
    "a cache that lags": (change(kv_before=lambda s: s["kv_before"] - 1), "I6", "kv_before"),
    "other rows as context": (
        change(context_source=lambda s: [row + 1 for row in s["context_source"]]),
        "I7",
        "context_source",
    ),
    "blocks left in the draft cache": (change(draft_kv_after=lambda s: s["draft_kv_after"] + 6), "I7", "draft_kv_after"),
    "the context once more": (change(context_rows=lambda s: s["ctx_len"], context_start=0), "I7", "context_rows"),
    "another mask id": (at("block_tokens", 2, 9), "I7", "block_mask"),
    "a mask for the root": (at("block_tokens", 0, correct.MASK), "I7", "block_root"),
    "a wider block": (change(block_tokens=lambda s: s["block_tokens"] + [correct.MASK]), "I7", "block_width"),
    "positions off by one": (change(positions=lambda s: [p + 1 for p in s["positions"]]), "I8", "positions"),
    "positions by row": (change(positions_read=lambda s: [s["ctx_len"] + n for n in range(len(s["positions"]))]), "I8", "positions_read"),
    "a parent not renumbered": (at("parents", -1, 0), "I8", "depths"),
    "a parent behind its child": (at("parents", 1, 2), "I8", "parents"),
    "rows in another order": (swap_rows, "I9", "order"),
    "scores of another law": (at("log_probs", -1, plus(-1.0)), "I9", "log_probs"),
    "a token that is no candidate": (at("node_tokens", -1, plus(60)), "I9", "node_tokens"),
    "probabilities above one": (change(candidate_log_probs=lambda s: [[x + 3 for x in row] for row in s["candidate_log_probs"]]), "I9", "candidate_log_probs"),
    "ids of the step before": (at("ids_read", -1, plus(1)), "I9", "ids_read"),
    "a budget that is clipped": (change(budget=lambda s: s["budget"] - 1, budget_requested=lambda s: s["budget_requested"]), "I10", "nodes"),
    "a sibling that is seen": (at("visible", -1, lambda bits: f"{int(bits, 16) | 2 ** 58:x}"), "mask", "visible_more"),
    "an ancestor that is not seen": (at("visible", -1, lambda bits: f"{int(bits, 16) ^ 1:x}"), "mask", "visible"),
    "stale columns": (at("past_visible", 1, plus(-2)), "mask", "past_visible"),
    "a window not applied": (at("window_low", 0, 0), "window", "draft_sliding_layer"),
    "a window on a full layer": (at("window_low", 1, plus(3)), "window", "draft_full_layer"),
    "a target without its window": (at("window_low", 3, 0), "window", "target_sliding_layer"),
    "cache rows of the chain": (change(kv_source=lambda s: [row + 1 for row in s["kv_source"]]), "commit", "kv_source"),
    "a state by count": (change(state_row=lambda s: s["state_row"] + 1), "commit", "state_row"),
    "a checkpoint by count": (
        change(checkpoint_tokens=lambda s: [s["ctx_len"] + 2], checkpoint_rows=lambda s: [s["accepted"][1] + 1]),
        "commit",
        "checkpoint_rows",
    ),
    "a checkpoint of more than there is": (
        change(checkpoint_tokens=lambda s: [s["kv_after"] + 1], checkpoint_rows=[2]), "commit", "checkpoint_rows",
    ),
    "a token that is not allowed": (at("legal", 0, False), "grammar", "legal"),
    "a choice that is not allowed, beside the path": (
        lambda s: at("legal", next(row for row in range(len(s["legal"])) if row not in s["accepted"]), False)(s),
        "grammar",
        "legal_beside",
    ),
    "a grammar that ends before the path does": (
        lambda s: at("legal", s["accepted"][1], None)(s), "grammar", "legal_end",
    ),
    "a sibling's state": (at("state_sources", -1, plus(1)), "commit", "state_sources"),
    "bytes of other rows": (change(checksums=lambda s: s["checksums"] | {"kv_after": [*s["checksums"]["kv_after"][::-1], 1]}), "commit", "kv_after"),
    "features of other rows": (change(checksums=lambda s: s["checksums"] | {"feature_in": [one ^ 1 for one in s["checksums"]["feature_in"]]}), "commit", "feature_in"),
    "text that is not the target's": (at("oracle_tokens", 0, plus(1)), "oracle", "emitted"),
}  # fmt: skip


def middle(records):
    """A step in the middle that accepted drafts, behind a context longer than the window."""
    return next(
        one for one in steps_of(records)
        if one["step"] >= 1 and len(one["accepted"]) >= 3 and one["ctx_len"] > 2 * correct.WINDOW
        and one["finish"] is None
    )  # fmt: skip


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """Every change in three traces, all read together: what was changed, and what is found."""
    folder = tmp_path_factory.mktemp("changed")
    steps = {}
    for number, (apply, _, _) in enumerate(MUTATIONS.values()):
        for seed in range(3):
            run = f"{number}-{seed}"
            records = [one | {"run": run} for one in correct.trace(seed + 100, length=60)]
            chosen = middle(records)
            steps[run] = (chosen["request"], chosen["step"])
            wrong = copy.deepcopy(chosen)
            apply(wrong)
            records[records.index(chosen)] = wrong
            (folder / f"{run}.jsonl").write_text(correct.lines(records))
    filled = diagnosis.fill(source.find([str(folder)]), PARSERS)
    found = {run: [] for run in steps}
    for run, *row in filled.db.execute(
        "SELECT run, request, step, identity, field FROM replay"
    ).fetchall():
        found[run].append(tuple(row))
    return steps, found, filled.notices


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_changed_is_named(changed, name, seed):
    steps, by_run, notices = changed
    run = f"{list(MUTATIONS).index(name)}-{seed}"
    (request, step), found = steps[run], by_run[run]
    assert (request, step, *MUTATIONS[name][1:]) in found
    assert not notices
    # Of all other steps only the next one can be drawn in, since what it goes on with has changed,
    # and the last one, where the tokens of a request are counted.
    found = [row for row in found if row[2] not in ("I11", "stop")]
    assert {row[:2] for row in found} <= {(request, step), (request, step + 1)}


def test_exchanged_requests_are_told_from_a_broken_chain(tmp_path):
    records = correct.trace(5, requests=2, length=60)
    mine, other = (
        next(s for s in steps_of(records) if s["request"] == name and s["step"] == 2)
        for name in ("q0", "q1")
    )
    assert mine["root"] != other["root"]
    mine["root"], other["root"] = other["root"], mine["root"]
    found, _ = proved(tmp_path, records)
    assert ("q0", 2, "I5", "request") in found and ("q1", 2, "I5", "request") in found


def test_a_near_tie_and_what_follows_it_is_no_fault(tmp_path):
    records = correct.trace(6, length=60)
    first, second = steps_of(records)[:2]
    first["oracle_tokens"] = [token + 1 for token in first["oracle_tokens"]]
    first["oracle_gaps"] = [1e-5] + [5.0] * (len(first["emitted"]) - 1)
    second["oracle_tokens"] = [token + 1 for token in second["oracle_tokens"]]
    assert proved(tmp_path, records)[0] == []
    first["oracle_gaps"] = [5.0] * len(first["emitted"])
    assert ("q0", 0, "oracle", "emitted") in proved(tmp_path, records)[0]


def test_equal_scores_may_stand_in_either_order(tmp_path):
    records = correct.trace(7, budget=3, top_k=2, length=4, requests=1)
    for step in steps_of(records):
        half = [[-0.6931471805599453] * 2 for _ in step["candidate_log_probs"]]
        step |= {
            "candidate_log_probs": half, "ranks": [0, 1, 0, 0], "parents": [-1, 0, 0, 2],
            "depths": [0, 1, 1, 2], "log_probs": [0.0, half[0][0], half[0][0], 2 * half[0][0]],
        }  # fmt: skip
        tokens = step["candidate_tokens"]
        step["node_tokens"] = [step["root"], tokens[0][1], tokens[0][0], tokens[1][0]]
    found, _ = proved(tmp_path, records)
    assert not [row for row in found if row[3] in ("order", "spine_first", "left_out")]


def test_a_better_candidate_left_out_is_found(tmp_path):
    records = correct.trace(8, budget=8, length=30)
    step = steps_of(records)[1]
    drop = len(step["parents"]) - 1
    spare = step["candidate_log_probs"][0][1]
    keys = ("node_tokens", "parents", "depths", "ranks", "log_probs")
    # The second-best first token is taken out, with whatever hangs below it.
    row = next(r for r in range(1, drop + 1) if step["depths"][r] == 1 and step["ranks"][r] == 1)
    below = {row}
    for child in range(row + 1, drop + 1):
        if step["parents"][child] in below:
            below.add(child)
    kept = [r for r in range(drop + 1) if r not in below]
    number = {old: new for new, old in enumerate(kept)}
    for key in keys:
        step[key] = [step[key][r] for r in kept]
    step["parents"] = [number.get(parent, -1) for parent in step["parents"]]
    for key in (
        "positions",
        "target_tokens",
        "slots",
        "gaps",
        "legal",
        "visible",
        "past_visible",
        "ids_read",
        "positions_read",
        "state_sources",
    ):
        step.pop(key)
    step.pop("accepted"), step.pop("checksums")
    found, _ = proved(tmp_path, records)
    assert spare < 0 and ("q0", 1, "I9", "clipped") in found


# Foreign traces -----------------------------------------------------------------------------------


def foreign(records):
    """The same steps as somebody else writes them down, with fewer columns."""
    names = {
        "request": "rid", "step": "round", "ctx_len": "ctx_len", "node_tokens": "node_tokens",
        "parents": "parents", "target_tokens": "target_predict", "accepted": "accepted_path",
        "accepted_depth": "accepted_depth", "commit_len": "commit_len", "positions": "positions",
        "depths": "depths",
    }  # fmt: skip
    return [
        {names[key]: value for key, value in one.items() if key in names}
        for one in steps_of(records)
    ]


def test_a_foreign_trace_is_proved_as_far_as_it_goes(tmp_path):
    records = foreign(correct.trace(9, length=60))
    assert proved(tmp_path, records) == ([], [])
    step = next(one for one in records if len(one["accepted_path"]) >= 3 and one["round"] >= 1)
    step["positions"] = [place + 1 for place in step["positions"]]
    assert proved(tmp_path, records)[0] == [(step["rid"], step["round"], "I8", "positions")]


def test_tokens_are_judged_where_nobody_wrote_down_the_parents(tmp_path):
    steps = [{"rid": "a", "round": n, "node_tokens": [1, 2, 3], "target_predict": [2, 3, 4],
              "accepted_path": [0, 1, 2]} for n in range(9)]  # fmt: skip
    steps[3]["node_tokens"] = [1, 2, 7]
    assert proved(tmp_path, steps)[0] == [("a", 3, "I2", "node_tokens")]


def test_accepted_rows_without_the_root_are_proved_like_others(tmp_path):
    records = foreign(correct.trace(10, length=60))
    for step in records:
        step["accepted_path"] = step["accepted_path"][1:]
    assert proved(tmp_path, records) == ([], [])
    step = next(
        one for one in records if len(one["accepted_path"]) >= 2 and one["parents"].count(0) >= 2
    )
    first, *_ = path = step["accepted_path"]
    path[1] = next(
        row for row, parent in enumerate(step["parents"]) if parent == 0 and row != first
    )
    assert (step["rid"], step["round"], "I1", "accepted") in proved(tmp_path, records)[0]


def test_another_numbering_is_no_fault_and_is_said(tmp_path):
    records = foreign(correct.trace(10, length=60))
    for step in records:  # accepted rows from the last to the root
        step["accepted_path"] = step["accepted_path"][::-1]
    found, notices = proved(tmp_path, records)
    assert found == []
    assert any("another convention" in str(one) for one in notices)


def test_a_walk_that_always_stops_is_found_without_a_healthy_step(tmp_path):
    records = foreign(correct.trace(11, length=80))
    long = [one for one in records if len(one["accepted_path"]) >= 3]
    for step in long:
        step["accepted_path"] = step["accepted_path"][:2]
        step["accepted_depth"], step["commit_len"] = 1.0, 2.0
        step.pop("ctx_len")
    found, notices = proved(tmp_path, long)
    assert {row[2:] for row in found} == {("I3", "accepted")} and len(found) >= len(long) - 2
    assert not notices


# Hostile traces -----------------------------------------------------------------------------------

garbage = st.one_of(
    st.none(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5), st.booleans(),
    st.lists(st.integers(-5, 2**66), max_size=12), st.lists(st.none(), max_size=3),
    st.lists(st.floats(), max_size=12), st.lists(st.text("0123456789abcdefgx-", max_size=6), max_size=12),
    st.dictionaries(st.sampled_from(["kv_node", "kv_after", "window"]), st.lists(st.integers(), max_size=3)),
)  # fmt: skip


@settings(max_examples=10, deadline=None, suppress_health_check=FIXTURES)
@given(seeds=seeds(2**16), data=st.data())
def test_garbage_in_a_trace_is_never_a_crash(tmp_path, seeds, data):
    texts = []
    for records in traces(seeds, length=12):
        for _ in range(data.draw(st.integers(1, 6))):
            victim = data.draw(st.sampled_from(records))
            key = data.draw(st.sampled_from(sorted(victim)))
            victim[key] = data.draw(garbage)
        text = correct.lines(records).replace("NaN", "null").replace("Infinity", "1e999")
        texts.append(text[: len(text) - data.draw(st.integers(0, 200))])
    found, _ = proved_together(tmp_path, texts)
    assert {row[2] for row in found} <= {one.name for one in replay.identities()}


@settings(max_examples=3, deadline=None, suppress_health_check=FIXTURES)
@given(seeds=seeds(2**16), data=st.data())
def test_lists_of_another_length_are_named_and_prove_nothing(tmp_path, seeds, data):
    several, longer = traces(seeds, length=30), []
    for records in several:
        step = data.draw(st.sampled_from(steps_of(records)))
        key = data.draw(
            st.sampled_from(["depths", "ranks", "positions", "target_tokens", "node_tokens"])
        )
        step[key] = step[key] + [3]
        longer.append(key)
    found, notices = proved_together(tmp_path, several)
    assert found == []
    for number, key in enumerate(longer):
        said = [str(one) for one in notices if f"{number}.jsonl" in one.where]
        assert [key in text for text in said] == [True]
    assert len(notices) == TOGETHER


@pytest.mark.parametrize("parents", [[-1, 2, 1], [-1, 5, 0], [0, 1, 2], [-1, -1, 0], [-1, 1, 1]])
def test_parents_that_make_no_tree(tmp_path, parents):
    step = {"rid": "a", "round": 0, "node_tokens": [1, 2, 3], "parents": parents,
            "target_predict": [2, 3, 4], "accepted_path": [0]}  # fmt: skip
    found, _ = proved(tmp_path, [step | {"round": n} for n in range(4)])
    assert all(row[2] in ("I3", "I8") for row in found)


@pytest.mark.parametrize("number", [2**31 - 1, 2**63 - 1])
@pytest.mark.parametrize("where", [("parents", 2), ("accepted_path", 0), ("accepted_path", 1)])
def test_the_largest_numbers_name_no_row(tmp_path, where, number):
    step = {"rid": "a", "node_tokens": [1, 2, 3], "parents": [-1, 0, 1], "bonus": 4,
            "target_predict": [2, 3, 4], "accepted_path": [0, 1, 2]}  # fmt: skip
    key, at = where
    garbled = {**step, "round": 1, key: [*step[key][:at], number, *step[key][at + 1 :]]}
    found, notices = proved(tmp_path, [step | {"round": 0}, garbled, step | {"round": 2}])
    assert found == []
    assert any("does not fit" in str(one) for one in notices)


def test_a_step_that_is_there_twice_breaks_no_chain(tmp_path):
    records = correct.trace(12, length=40)
    again = copy.deepcopy(steps_of(records)[1])
    again["ctx_len"] += 3
    for key in ("positions", "positions_read", "block_start", "kv_before"):
        again.pop(key)
    found, notices = proved(tmp_path, [*records, again])
    assert not [row for row in found if row[2] == "I5"]
    assert any("number of another" in str(one) for one in notices)


def test_two_runs_in_one_file_are_kept_apart(tmp_path):
    records = correct.trace(13)
    others = [one | {"run": "other"} for one in correct.trace(14)]
    mixed = [*records, *others]
    random.Random(0).shuffle(mixed)
    assert proved(tmp_path, mixed) == ([], [])


def test_every_identity_says_what_it_needs():
    for one in replay.identities():
        assert one.needs and one.sql.count("SELECT")
        assert {f"I{n}" for n in range(1, 17)} | {
            "commit",
            "mask",
            "window",
            "oracle",
            "stop",
            "taps",
            "rope",
            "vocabulary",
            "grammar",
        } >= {one.name}
