"""What a step's tree is, as every report reads it: where rows hang, and which path is right."""

from __future__ import annotations

import ast

import correct
import pytest

from specdiag import trees

# Root 7; children 5 and 6; below 5 are 8 and 9. The target wants 5, then 9, then 4.
STEP = {
    "node_tokens": [7, 5, 6, 8, 9], "parents": [-1, 0, 0, 1, 1], "ranks": [0, 0, 1, 0, 1],
    "log_probs": [0.0, -0.5, -1.25, -1.5, -2.0], "target_tokens": [5, 9, 1, 2, 4],
}  # fmt: skip


def path(**columns):
    step = {**STEP, **columns}
    return trees.expected(step, trees.read(step))


def test_rows_hang_under_their_parents():
    tree = trees.read(STEP)
    assert tree.children == {0: [1, 2], 1: [3, 4]}
    assert tree.depths == {0: 0, 1: 1, 2: 1, 3: 2, 4: 2}
    assert trees.sizes(tree) == {0: 5, 1: 3, 2: 1, 3: 1, 4: 1}
    assert tree.drafted


@pytest.mark.parametrize(
    ("parents", "hanging"),
    [
        ([-1, 0, 4, 1, 2], {0: 0, 1: 1, 3: 2}),  # a circle
        ([-1, 0, 99, 1, -7], {0: 0, 1: 1, 3: 2}),  # out of range
        ([-1, 0, 2, None, 1], {0: 0, 1: 1, 4: 2}),  # its own parent, and none
        ([-1, 4, 1, 1, 0], {0: 0, 4: 1, 1: 2, 2: 3, 3: 3}),  # children before their parents
        ([], {0: 0}),
    ],
)
def test_rows_without_a_way_to_the_root_have_no_depth(parents, hanging):
    assert trees.read({**STEP, "parents": parents}).depths == hanging


def test_lists_of_other_lengths_are_fitted_to_the_rows():
    tree = trees.read({**STEP, "ranks": [0], "log_probs": [0.0] * 9, "target_tokens": "5 9"})
    assert tree.ranks == [0, None, None, None, None]
    assert len(tree.log_probs) == 5 and tree.targets == [None] * 5


def test_the_targets_choices_say_where_the_walk_goes():
    assert path() == ([0, 1, 4], trees.CHOICES)
    assert path(text=[6]) == ([0, 1, 4], trees.CHOICES)


def test_without_them_the_text_does_and_without_both_nothing():
    assert path(target_tokens=None, text=[5, 8]) == ([0, 1, 3], trees.TEXT)
    assert path(target_tokens=[None] * 5, text=[5]) == ([0, 1], trees.TEXT)
    assert path(target_tokens=None) == (None, "")
    assert path(node_tokens=None, text=[5]) == (None, "")
    assert not trees.read({}).drafted


def test_marks_tell_the_two_paths_apart():
    found = trees.marks(trees.read(STEP), {0, 2}, {0, 1, 4})
    assert found == {0: trees.TAKEN, 2: trees.AGAINST, 1: trees.MISSED, 4: trees.MISSED}


@pytest.mark.parametrize("seed", range(5))
def test_the_expected_path_of_a_correct_step_is_the_accepted_one(seed):
    for step in correct.trace(seed):
        if step["record"] == "step":
            tree = trees.read(step)
            assert trees.expected(step, tree)[0] == step["accepted"]
            assert [tree.depths[row] for row in range(step["width"])] == step["depths"]


def test_trees_know_nothing_of_reports():
    with open(trees.__file__, encoding="utf-8") as file:
        code = ast.parse(file.read())
    names = [one.module or "" for one in ast.walk(code) if isinstance(one, ast.ImportFrom)]
    assert not [name for name in names if name.startswith("specdiag")]
