"""`specdiag tree`: a step as a drawing that can be trusted, whatever the trace holds."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdiag.report.drawing import draw

SAMPLES = Path(__file__).parents[1] / "sample_logs"

# Root 7; children 5 and 6; below 5 are 8 and 9. The target wants 5, then 9, then 4.
STEP = {
    "run": "b4", "request": "r0", "step": 3, "mode": "ddtree", "ctx_len": 1040, "budget": 4,
    "node_tokens": [7, 5, 6, 8, 9], "parents": [-1, 0, 0, 1, 1], "ranks": [0, 0, 1, 0, 1],
    "log_probs": [0.0, -0.5, -1.25, -1.5, -2.0], "target_tokens": [5, 9, 1, 2, 4],
    "accepted": [0, 1, 4], "bonus": 4, "accepted_depth": 2.0, "commit_len": 3.0,
    "emitted": [5, 9, 4],
}  # fmt: skip


def changed(**columns):
    return {**STEP, **columns}


def marks(lines):
    """The sign of every row that is drawn."""
    rows = (re.match(r"(.) +(\d+)  ", line) for line in lines)
    return {int(found[2]): found[1].strip() for found in rows if found}


def wide(children=500):
    """A root with many children, each with one child, and a path through the last of them."""
    nodes = 2 * children
    return {
        "node_tokens": list(range(nodes + 1)),
        "parents": [-1, *[0] * children, *range(1, children + 1)],
        "target_tokens": [children, *[nodes] * nodes],
        "accepted": [0, children, nodes],
    }


# What is drawn -----------------------------------------------------------------------------------


def test_a_sound_step():
    assert draw(STEP) == [
        "step 3 of request r0 in run b4, ddtree, context 1,040, 4 nodes, budget 4",
        "",
        "   row  rank  log-prob  target  tree",
        "*    0     0      0.00  5       7",
        "*    1     0     -0.50  9       ├─ 5",
        "     3     0     -1.50  2       │  ├─ 8",
        "*    4     1     -2.00  4       │  └─ 9",
        "     2     1     -1.25  1       └─ 6",
        "",
        "recorded: accepted depth 2, commit length 3; path 0 1 4, bonus 4",
        "expected: accepted depth 2, commit length 3; path 0 1 4, bonus 4",
    ]


def test_a_walk_that_stopped_early_shows_where_it_should_have_gone():
    lines = draw(changed(accepted=[0, 1], bonus=9, accepted_depth=1, commit_len=2))
    assert marks(lines) == {0: "*", 1: "*", 3: "", 4: ">", 2: ""}
    assert lines[-3:] == [
        "* accepted, > should have been accepted",
        "recorded: accepted depth 1, commit length 2; path 0 1, bonus 9",
        "expected: accepted depth 2, commit length 3; path 0 1 4, bonus 4",
    ]


def test_a_row_that_the_target_did_not_choose_is_accused():
    lines = draw(changed(accepted=[0, 2]))
    assert marks(lines) == {0: "*", 1: ">", 3: "", 4: ">", 2: "!"}
    assert lines[-3] == (
        "* accepted, > should have been accepted, ! accepted against the target's choice"
    )


def test_counters_are_shown_as_recorded_beside_the_path():
    lines = draw(changed(accepted_depth=7.0, commit_len=2.0))
    assert lines[-2] == "recorded: accepted depth 7, commit length 2; path 0 1 4, bonus 4"


def test_without_target_choices_the_text_that_follows_decides():
    step = changed(target_tokens=None, accepted=[0, 1], bonus=None, text=[5, 9, 4, 8])
    assert marks(draw(step))[4] == ">"
    assert draw(step)[-1].endswith("path 0 1 4, by the text that follows")
    short = draw(step | {"text": [5, 9]})
    assert short[-1].startswith("expected: at least accepted depth 2")


def test_without_both_nothing_is_expected():
    lines = draw(changed(target_tokens=None))
    assert marks(lines) == {0: "*", 1: "*", 3: "", 4: "*", 2: ""}
    assert lines[-1] == "expected: not known, the step has neither target choices nor text"


def test_of_siblings_with_one_token_the_longer_path_is_expected():
    step = changed(
        node_tokens=[7, 5, 5, 8, 9], parents=[-1, 0, 0, 2, 2], target_tokens=[5, 1, 9, 0, 4]
    )
    assert marks(draw(step | {"accepted": [0, 2, 4]})) == {0: "*", 1: "", 2: "*", 3: "", 4: "*"}


def test_tokens_have_their_text_without_control_characters():
    texts = {7: "\x1b[31m", 5: " x\n", 6: "a\u202eb", 9: "", 8: "y" * 99}
    lines = draw(STEP, texts.get)
    assert any(line.endswith(r'7 "\x1b[31m"') for line in lines)
    assert any(line.endswith(r'5 " x\n"') for line in lines)
    assert any(line.endswith(r'6 "a\u202eb"') for line in lines)
    assert any(line.endswith("└─ 9") for line in lines)
    assert max(map(len, lines)) < 100


# Wide trees --------------------------------------------------------------------------------------


def test_a_wide_tree_is_readable_and_counts_what_it_leaves_out():
    lines = draw(wide())
    assert len(lines) < 20
    assert {0, 500, 1000} <= set(marks(lines)) and marks(lines)[1000] == "*"
    assert any(line.endswith("└─ … 496 siblings more, 992 nodes in all") for line in lines)
    below = sum(int(line.split("… ")[1].split()[0]) for line in lines if line.endswith(" below"))
    assert len(marks(lines)) + 992 + below == 1001


def test_everything_can_be_shown():
    assert set(marks(draw(wide(), everything=True))) == set(range(1001))


def test_a_deep_tree_does_not_leave_the_screen():
    rows = 500
    step = {"node_tokens": [1] * rows, "parents": list(range(-1, rows - 1))}
    lines = draw(step, everything=True)
    assert set(marks(lines)) == set(range(rows)) and max(map(len, lines)) < 130


# Bad trees ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parents", "outside"),
    [
        ([-1, 0, 4, 1, 2], "2 rows: 2 (parent 4), 4 (parent 2)"),  # a circle
        ([-1, 0, 2, 1, 1], "1 row: 2 (parent 2)"),  # its own parent
        ([-1, 0, 99, 1, -7], "2 rows: 2 (parent 99), 4 (parent -7)"),  # out of range
        ([-1, 0, None, 1], "2 rows: 2 (parent –), 4 (parent –)"),  # missing, too short
    ],
)
def test_rows_that_hang_nowhere_are_named(parents, outside):
    lines = draw(changed(parents=parents))
    assert f"not below the root: {outside}" in lines
    assert lines[-1].startswith("expected: accepted depth")


def test_a_child_before_its_parent_is_drawn_below_it():
    lines = draw(
        changed(
            parents=[-1, 4, 0, 1, 0], node_tokens=[7, 5, 6, 8, 9], target_tokens=[9, 1, 1, 1, 5]
        )
    )
    assert [row for row in marks(lines)] == [0, 2, 4, 1, 3]
    assert "path 0 4 1, bonus 1" in lines[-1]


@pytest.mark.parametrize("step", [{}, {"accepted": []}, {"parents": []}, {"node_tokens": [1]}])
def test_a_step_with_nothing_is_drawn(step):
    assert draw(step)[-1] == "expected: not known, the step has no tokens of a tree"


whole = st.none() | st.integers(-3, 8) | st.just(2**62)
columns = st.none() | st.lists(whole, max_size=9)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(
                ("parents", "node_tokens", "target_tokens", "ranks", "accepted", "text"), columns
            ),
            "log_probs": st.none() | st.lists(st.none() | st.floats(), max_size=9),
            "accepted_depth": st.none() | st.floats(),
            "run": st.text(max_size=5),
        },
    ),
    st.booleans(),
)
def test_no_columns_are_too_strange(step, everything):
    lines = draw(step, chr if not everything else None, everything=everything) if not any(
        (token or 0) > 1_000_000 or (token or 0) < 0
        for name in ("node_tokens", "target_tokens") for token in step.get(name) or []
    ) else draw(step, everything=everything)  # fmt: skip
    assert lines[-2].startswith("recorded: ") and lines[-1].startswith("expected: ")
    assert not any(sign < " " for line in lines for sign in line)
    rows = max(len(step.get("parents") or []), len(step.get("node_tokens") or []))
    outside = re.search(r"not below the root: (\d+) row", "\n".join(lines))
    assert len(marks(lines)) + (int(outside[1]) if outside else 0) == rows


# The command -------------------------------------------------------------------------------------


def test_every_format_of_step_traces_is_drawn(specdiag, tmp_path):
    records = {
        "steps": {"record": "step", "schema": 1, **STEP, "block_tokens": [7, 1], "kv_before": 40},
        "flat_steps": {
            "step": 3, "rid": "r0", "node_tokens": STEP["node_tokens"], "parents": STEP["parents"],
            "target_predict": STEP["target_tokens"], "accepted_path": [0, 1, 4], "commit_len": 3,
        },
        "reference_steps": {
            "round": 3, "rid": "r0", "accepted_indices": [0, 1, 4], "posterior": STEP["target_tokens"],
            "tree": {"node_token_ids": [5, 6, 8, 9], "node_depths": [1, 1, 2, 2], "parents": STEP["parents"]},
        },
    }  # fmt: skip
    for name, record in records.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps(record) + "\n")
        answer = specdiag("tree", path, "--step", 3, "--request", "r0")
        assert (answer.code, answer.err) == (0, "")
        assert marks(answer.out.splitlines()) == {0: "*", 1: "*", 3: "", 4: "*", 2: ""}, name
        assert answer.out.splitlines()[-1].startswith("expected: accepted depth 2, commit length 3")


def test_later_steps_say_where_the_walk_should_have_gone(specdiag, tmp_path):
    keys = ("node_tokens", "parents", "step", "request")
    first = {key: STEP[key] for key in keys} | {"emitted": [5], "accepted_path": [0]}
    second = {"step": 4, "request": "r0", "emitted": [9, 4], "commit_len": 2}
    path = tmp_path / "early.jsonl"
    path.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    lines = specdiag("tree", path, "--step", 3).out.splitlines()
    assert marks(lines) == {0: "*", 1: ">", 3: "", 4: ">", 2: ""}


def test_without_a_number_it_is_the_first_step_with_a_tree(specdiag):
    answer = specdiag("tree", SAMPLES / "healthy-tree-trace.jsonl")
    assert answer.out.startswith("step 0 of request req-0 in run healthy-tree-trace, ")
    assert answer.err == ""


def test_a_step_that_several_requests_have_is_the_first_of_them(specdiag):
    answer = specdiag("tree", SAMPLES / "healthy-tree-trace.jsonl", "--step", 2)
    assert answer.out.startswith("step 2 of request req-0 ")
    assert answer.err == (
        "warning: 3 requests have a step 2: this is the first's\n"
        " --> req-0, req-1, req-2\nhelp: name another with --request\n"
    )
    other = specdiag(
        "tree", SAMPLES / "healthy-tree-trace.jsonl", "--step", 2, "--request", "req-1"
    )
    assert other.out.startswith("step 2 of request req-1 ") and other.err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["healthy-tree-trace.jsonl", "--step", "999"], 2, ["there is no step 999", "--step", "there are steps 0 to "]),
        (["healthy-tree-trace.jsonl", "--request", "x"], 2, ["no request is called x", "--request", "there are: req-0"]),
        (["healthy-tree-trace.jsonl", "--run", "x"], 2, ["no run is called x", "--run", "there are: healthy-"]),
        (["healthy-tree-trace.jsonl", "--tokenizer", "no.json"], 2, ["no such tokenizer", "no.json", "name a tokenizer.json"]),
        (["healthy-dflash.log"], 3, ["there is no step trace", "healthy-dflash.log", "record one with"]),
    ],
)  # fmt: skip
def test_a_mistake_is_three_lines(specdiag, arguments, code, said):
    if "--tokenizer" in arguments:
        pytest.importorskip("tokenizers", reason="a part of the runtime")
    answer = specdiag("tree", SAMPLES / arguments[0], *arguments[1:])
    lines = answer.err.splitlines()
    assert (answer.code, answer.out, len(lines)) == (code, "", 3)
    assert all(part in line for part, line in zip(said, lines, strict=True))


def test_a_missing_package_is_named(specdiag, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    answer = specdiag("tree", SAMPLES / "healthy-tree-trace.jsonl", "--tokenizer", "t.json")
    assert answer.code == 2 and answer.err == (
        "error: tokenizers is not installed\n --> --tokenizer\n"
        "help: pip install tokenizers, or draw the step without it\n"
    )


def test_a_tokenizer_gives_the_text(specdiag, tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="a part of the runtime")
    vocab = {"def": 5, " main": 9, "?": 0}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="?"))
    backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "t.jsonl").write_text(json.dumps(STEP) + "\n")
    for named in (tmp_path, tmp_path / "tokenizer.json"):
        lines = specdiag("tree", tmp_path / "t.jsonl", "--tokenizer", named).out.splitlines()
        assert any(line.endswith('├─ 5 "def"') for line in lines)
        assert any(line.endswith('└─ 9 " main"') for line in lines)
        assert any(line.endswith("├─ 8") for line in lines)  # an id that it does not know
