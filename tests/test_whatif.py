"""`specdiag whatif`: predictions equal trees that are really built, and claims end where data does."""

from __future__ import annotations

import heapq
import itertools
import json
import math
import random
import statistics
from pathlib import Path

import pytest

from specdiag.estimate import Estimate, ratio
from specdiag.student import quantile
from specdiag.whatif import ask
from specdiag.whatif.cost import Cost, Point

SAMPLES = Path(__file__).parents[1] / "sample_logs"
DEPTHS, WIDTH, BUDGET = 5, 4, 14  # of the drafter; of its trees


# A small world: texts, drafts, and trees that are built anew for every question -------------------


def build(table, budget, top_k=WIDTH):
    """The best-first tree of a table of (token, log-probability) [L][K]: rows of its columns."""
    rows = [(-1, None, 0, 0.0)]  # parent, token, rank, score
    heap = [(-table[0][0][1], (0,), 0)]
    while heap and len(rows) <= budget:
        negative, ranks, parent = heapq.heappop(heap)
        depth, rank = len(ranks), ranks[-1]
        rows.append((parent, table[depth - 1][rank][0], rank, -negative))
        if rank + 1 < top_k:
            step = table[depth - 1][rank][1] - table[depth - 1][rank + 1][1]
            heapq.heappush(heap, (negative + step, (*ranks[:-1], rank + 1), parent))
        if depth < len(table):
            heapq.heappush(heap, (negative - table[depth][0][1], (*ranks, 0), len(rows) - 1))
    return rows


def accepted(rows, text):
    """The rows of the longest path that the text follows."""
    path = [0]
    for token in text:
        row = next((n for n, one in enumerate(rows) if one[:2] == (path[-1], token)), None)
        if row is None:
            break
        path.append(row)
    return path


def draft(draw, text):
    """Candidates of each depth; the text is often the first or the second of them."""
    table = []
    for depth in range(DEPTHS):
        tokens = draw.sample(range(100, 200), WIDTH)
        weights = sorted((draw.random() ** 2 + 0.02 for _ in range(WIDTH)), reverse=True)
        if draw.random() < 0.9 and depth < len(text):
            tokens[min(int(draw.expovariate(1.5)), WIDTH - 1)] = text[depth]
        total = sum(weights) * 1.1
        table.append([(t, math.log(w / total)) for t, w in zip(tokens, weights, strict=True)])
    return table


class World:
    """Requests that were decoded with trees of BUDGET nodes, and the tables they came from."""

    def __init__(self, requests=8, length=60, seed=0):
        draw = random.Random(seed)
        self.steps, self.tables, self.texts = [], [], []
        for number in range(requests):
            text, place, step = [draw.randrange(50) for _ in range(length)], 0, 0
            while place < length - 1:
                table = draft(draw, text[place + 1 :])
                rows = build(table, BUDGET)
                path = accepted(rows, text[place + 1 :])
                emitted = text[place + 1 : place + 1 + len(path)]
                tokens = [text[place], *(row[1] for row in rows[1:])]
                # Rows off the path choose something that is no child; on it they choose the text.
                targets = [999] * len(rows)
                for depth, row in enumerate(path):
                    targets[row] = text[place + 1 + depth] if place + 1 + depth < length else 998
                self.steps.append({
                    "record": "step", "schema": 1, "run": "traced", "request": f"r{number}",
                    "step": step, "mode": "ddtree", "batch": 1, "ctx_len": 40 + place,
                    "budget": BUDGET, "top_k": WIDTH, "nodes": len(rows) - 1, "width": len(rows),
                    "block_tokens": [text[place]], "kv_before": 40 + place,
                    "spine_tokens": [depth[0][0] for depth in table],
                    "node_tokens": tokens, "parents": [row[0] for row in rows],
                    "ranks": [row[2] for row in rows], "log_probs": [row[3] for row in rows],
                    "target_tokens": targets, "accepted": path, "emitted": emitted,
                    "commit_len": len(path), "draft_ms": 2.0, "verify_ms": 10.0, "step_ms": 13.0,
                })  # fmt: skip
                self.tables.append(table)
                self.texts.append(text[place + 1 :])
                place, step = place + len(path), step + 1

    def mean(self, budget_of, top_k=WIDTH):
        """Mean commit length of trees that are built for the budget of each step."""
        return statistics.fmean(
            len(accepted(build(table, budget_of(n), top_k), text))
            for n, (table, text) in enumerate(zip(self.tables, self.texts, strict=True))
        )


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture
def answer(load, tmp_path):
    """Answers for records, as a file of steps."""
    numbers = itertools.count()

    def answer(records):
        path = tmp_path / f"steps{next(numbers)}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return ask(load(path))

    return answer


def only(answers):
    (run,) = answers.runs
    return run


def named(answers):
    """The runs by their own names; those of one file have its name in front."""
    return {run.run.split(":")[-1]: run for run in answers.runs}


def without(steps, *keys):
    return [{k: v for k, v in step.items() if k not in keys} for step in steps]


# Budgets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "missing",
    [
        (),
        ("target_tokens",),  # the text decides, and the recorded rows where it ends
        ("emitted",),
        ("accepted",),
        ("node_tokens", "parents"),  # the recorded rows alone
        ("ctx_len",),
        ("request", "ranks", "spine_tokens"),
    ],
)
def test_every_smaller_budget_is_the_tree_of_that_budget(world, answer, missing):
    run = only(answer(without(world.steps, *missing)))
    assert [one.budget for one in run.budgets] == list(range(1, BUDGET + 1))
    for one in run.budgets:
        assert one.commit_len.value == pytest.approx(world.mean(lambda n: one.budget))  # noqa: B023


def test_trees_that_ran_out_of_candidates_count_as_they_are(world, answer):
    """Without a recorded budget it is that of the largest tree."""
    columns = ("node_tokens", "parents", "ranks", "log_probs", "target_tokens")
    small = [
        step | {key: step[key][:7] for key in columns} | {"nodes": 6} if n % 2 else step
        for n, step in enumerate(world.steps)
    ]
    run = only(answer(without(small, "budget")))
    assert (run.budget, run.steps) == (BUDGET, len(world.steps))
    real = world.mean(lambda n: 6 if n % 2 else BUDGET)
    assert run.budgets[-1].commit_len.value == pytest.approx(real)


def test_the_walk_is_made_again_whatever_was_recorded(world, answer):
    early = [step | {"accepted": [0], "commit_len": 1} for step in world.steps]
    assert only(answer(early)).budgets[-1].commit_len.value == pytest.approx(
        world.mean(lambda n: BUDGET)
    )


def test_of_siblings_with_one_token_all_are_followed(answer):
    step = {
        "record": "step", "schema": 1, "step": 0, "block_tokens": [1], "kv_before": 9, "budget": 4,
        "node_tokens": [7, 5, 5, 8, 9], "parents": [-1, 0, 0, 2, 2], "target_tokens": [5, 1, 9, 0, 4],
    }  # fmt: skip
    kept = [one.commit_len.value for one in only(answer([step])).budgets]
    assert kept == [2, 2, 2, 3]


def test_the_interval_comes_from_requests(world, answer):
    run = only(answer(world.steps))
    means = {}
    for step in world.steps:
        means.setdefault(step["request"], []).append(step["commit_len"])
    low, high = run.budgets[-1].commit_len.interval
    assert (
        low
        < min(max(map(statistics.fmean, means.values())), run.budgets[-1].commit_len.value)
        < high
    )
    few = only(answer([step for step in world.steps if step["request"] < "r4"]))
    assert few.budgets[-1].commit_len.interval is None


def test_trees_out_of_order_answer_for_no_budget(world, answer):
    turned = [step | {"log_probs": [0.0, *step["log_probs"][:0:-1]]} for step in world.steps]
    run = only(answer(turned))
    assert (run.order, run.budgets, run.best) == ("unordered", [], None)
    plain = without(world.steps, "log_probs")
    by_depth = [
        step | {"parents": [-1, 0, 0, 1, 1], "depths": [0, 1, 1, 2, 2], "ranks": [0, 0, 1, 0, 1],
                "node_tokens": [1, 2, 3, 4, 5], "target_tokens": [2, 5, 0, 0, 0]}
        for step in plain
    ]  # fmt: skip
    assert only(answer(by_depth)).order == "by_depth"
    assert only(answer(plain)).order == "assumed"
    assert only(answer(world.steps)).order == "scores"


def test_budgets_that_cannot_hold_the_longest_accepted_path_are_marked(world, answer):
    run = only(answer(world.steps))
    assert run.deepest == max(step["commit_len"] for step in world.steps) - 1 > 1
    marked = [one.budget for one in run.budgets if one.shallow]
    assert marked == list(range(1, run.deepest))


def test_a_shadow_run_answers_for_the_chain_that_it_verified(world, answer):
    chains = [
        step | {"mode": "shadow_linear", "node_tokens": [7, *step["spine_tokens"]], "nodes": DEPTHS,
                "parents": list(range(-1, DEPTHS)), "target_tokens": [*step["spine_tokens"], 1]}
        for step in without(world.steps, "ranks", "log_probs")
    ]  # fmt: skip
    run = only(answer(chains))
    assert run.shadow and run.order == "chain" and run.chain is None
    assert [one.commit_len.value for one in run.budgets] == [2, 3, 4, 5, 6]


def test_warm_up_is_no_step(world, answer):
    extra = [
        world.steps[0] | {"warmup": True, "accepted": [0], "target_tokens": [0] * (BUDGET + 1)}
    ]
    assert only(answer(extra + world.steps)).steps == len(world.steps)


# Caps and the chain ------------------------------------------------------------------------------


def test_a_smaller_top_k_is_exact_for_the_nodes_that_it_leaves(world, answer):
    run = only(answer(world.steps))
    assert [cap.top_k for cap in run.caps] == [1, 2, 3]
    for cap in run.caps:
        left = []
        for step in world.steps:
            worst = [0]
            for parent, rank in zip(step["parents"][1:], step["ranks"][1:], strict=True):
                worst.append(max(rank, worst[parent]))
            left.append(sum(rank < cap.top_k for rank in worst) - 1)
        assert cap.nodes == pytest.approx(statistics.fmean(left))
        found = cap.commit_len.value
        assert found == pytest.approx(world.mean(lambda n: left[n], cap.top_k))  # noqa: B023
        assert found <= world.mean(lambda n: BUDGET, cap.top_k) + 1e-9
        assert 0 < cap.open < 1


def test_nothing_is_said_of_caps_where_nodes_have_no_ranks(world, answer):
    assert only(answer(without(world.steps, "ranks"))).caps == []


def test_the_chain_goes_on_where_the_tree_ends(world, answer):
    run = only(answer(world.steps))
    known = [n for n, text in enumerate(world.texts) if len(text) >= DEPTHS]
    chain = [len(accepted(build(world.tables[n], DEPTHS, 1), world.texts[n])) for n in known]
    tree = [world.steps[n]["commit_len"] for n in known]
    assert run.chain.exact and run.chain.steps == len(known)
    assert run.chain.commit_len.value == pytest.approx(statistics.fmean(chain))
    assert run.chain.tree_commit_len.value == pytest.approx(statistics.fmean(tree))
    assert run.chain.gain.value == pytest.approx(statistics.fmean(tree) - statistics.fmean(chain))
    more = statistics.fmean(a > b for a, b in zip(tree, chain, strict=True))
    assert run.chain.better == pytest.approx(more)


@pytest.mark.parametrize("missing", [("spine_tokens",), ("spine_tokens", "ranks")])
def test_without_the_spine_the_chain_is_at_least_what_the_tree_shows(world, answer, missing):
    run = only(answer(without(world.steps, *missing)))
    exact = world.mean(lambda n: DEPTHS, 1)
    assert not run.chain.exact and run.chain.commit_len.value <= exact + 1e-9
    assert exact - run.chain.commit_len.value <= run.chain.open * DEPTHS
    assert run.chain.gain.value >= world.mean(lambda n: BUDGET) - exact - 1e-9


def test_text_between_missing_steps_is_not_made_up(world, answer):
    """A trace of every second step: the text behind a step ends with it, and no chain is told."""
    run = only(answer(world.steps[::2]))
    told = world.steps[::2]
    known = sum(len(step["emitted"]) >= DEPTHS for step in told)
    assert run.chain is None or not run.chain.exact or run.chain.steps <= known


# Time --------------------------------------------------------------------------------------------


def arm(world, name, budget, verify_ms, mode="ddtree", batch=1):
    """A run of the world at another budget; its steps cost 3 ms beside verification."""
    steps = []
    for step in world.steps:
        rows = budget + 1
        columns = ("node_tokens", "parents", "ranks", "log_probs", "target_tokens")
        cut = {key: step[key][:rows] for key in columns}
        path = [row for row in step["accepted"] if row < rows]
        steps.append(step | cut | {
            "run": name, "mode": mode, "budget": budget, "nodes": budget, "width": rows,
            "accepted": path, "commit_len": len(path), "batch": batch, "emitted": None,
            "verify_ms": verify_ms, "step_ms": 3.0 + verify_ms,
        })  # fmt: skip
    return without(steps, "emitted")


def test_time_is_interpolated_between_measured_budgets_and_never_beyond(world, answer):
    answers = answer(
        [*arm(world, "b4", 4, 8.0), *arm(world, "b8", 8, 10.0), *arm(world, "b14", 14, 22.0)]
    )
    runs = named(answers)
    run = runs["b14"]
    assert run.costed == [4, 8, 14]
    ms = {one.budget: (one.step_ms, one.bound) for one in run.budgets}
    assert ms[4] == (pytest.approx(11), False) and ms[8] == (pytest.approx(13), False)
    assert ms[6] == (pytest.approx(12), False) and ms[11] == (pytest.approx(19), False)
    assert ms[2] == (pytest.approx(11), True)  # no more than the narrowest that was measured
    for one in run.budgets:
        assert one.tokens_per_s.value == pytest.approx(1000 * one.commit_len.value / one.step_ms)
    assert run.best.budget in range(4, 15)
    best = max(one.tokens_per_s.value for one in run.budgets if not one.bound)
    assert run.best.tokens_per_s.value == best
    assert runs["b4"].best is None and runs["b8"].best.budget in range(4, 9)


def test_other_runs_say_how_far_a_prediction_is_off(world, answer):
    answers = answer([*arm(world, "b4", 4, 8.0), *arm(world, "b14", 14, 22.0)])
    run = named(answers)["b14"]
    row = run.budgets[3]
    assert (row.budget, row.measured_run.split(":")[-1]) == (4, "b4")
    assert row.measured.value == pytest.approx(row.commit_len.value)


def test_runs_of_another_batch_measure_another_cost(world, answer):
    answers = answer([*arm(world, "b4", 4, 8.0, batch=4), *arm(world, "b14", 14, 22.0)])
    run = named(answers)["b14"]
    assert run.costed == [14] and run.best is None
    assert all(one.bound for one in run.budgets[:-1]) and not run.budgets[-1].bound


def test_a_few_steps_that_waited_say_nothing_about_a_width(world, answer):
    slow = [
        step | {"step_ms": 900.0, "verify_ms": 897.0} if n % 9 == 0 else step
        for n, step in enumerate(arm(world, "b8", 8, 10.0))
    ]
    run = named(answer([*arm(world, "b4", 4, 8.0), *slow, *arm(world, "b14", 14, 22.0)]))["b14"]
    assert run.budgets[7].step_ms == pytest.approx(13)


def test_one_measured_width_gives_bounds_only(world, answer, specdiag, tmp_path):
    run = only(answer(world.steps))
    assert run.costed == [BUDGET] and run.best is None
    assert all(one.bound and one.step_ms == 13 for one in run.budgets[:-1])
    assert (run.budgets[-1].bound, run.budgets[-1].step_ms) == (False, 13)


def test_without_times_there_are_commit_lengths(world, answer):
    run = only(answer(without(world.steps, "draft_ms", "verify_ms", "step_ms")))
    assert run.costed == [] and run.best is None
    assert not any(one.step_ms or one.tokens_per_s or one.bound for one in run.budgets)


def test_what_the_tree_buys_is_compared_with_the_chain(world, answer):
    linear = arm(world, "linear", 0, 8.0, mode="linear")
    for step in linear:
        rows = [n for n in range(DEPTHS + 1)]
        step |= {
            "node_tokens": [step["node_tokens"][0], *step["spine_tokens"]], "budget": DEPTHS,
            "parents": [n - 1 for n in rows], "nodes": DEPTHS, "accepted": [0], "algorithm": "DFLASH",
            "target_tokens": [*step["spine_tokens"], 999], "commit_len": DEPTHS + 1,
        }  # fmt: skip
        for key in ("ranks", "log_probs"):
            step.pop(key)
    answers = answer([*arm(world, "tree", BUDGET, 10.5), *linear])
    run = named(answers)["tree"]
    assert run.chain.against.endswith(":linear") and run.chain.extra_ms.value == pytest.approx(2.5)
    assert run.chain.rate == pytest.approx((DEPTHS + 1) / 11)


def test_break_even_is_the_time_of_a_step_in_plain_steps(world, answer):
    plain = [
        {"record": "step", "schema": 1, "run": "plain", "request": "r0", "step": n, "batch": 1,
         "mode": "autoregressive", "algorithm": "NONE", "ctx_len": 40 + n, "commit_len": 1,
         "step_ms": 4.0, "block_tokens": [], "kv_before": 0, "node_tokens": [1], "parents": [-1]}
        for n in range(80)
    ]  # fmt: skip
    cells = answer([*arm(world, "tree", BUDGET, 9.0), *plain]).break_even
    assert {(one.run[-5:], one.against[-6:]) for one in cells} == {(":tree", ":plain")}
    assert {(one.low, one.high) for one in cells} == {(32, 63), (64, 127)}
    assert all(one.needed == 3.0 and one.measured and one.batch == 1 for one in cells)
    inside = [s["commit_len"] for s in world.steps if 32 <= s["ctx_len"] < 64]
    assert cells[0].commit_len == pytest.approx(statistics.fmean(inside))


def test_context_ranges_have_their_own_best(answer):
    worlds = World(requests=12, length=80)
    long = [
        step | {"ctx_len": step["ctx_len"] * 100}
        for step in [*arm(worlds, "b4", 4, 8.0), *arm(worlds, "b14", 14, 80.0)]
    ]
    short = [*arm(worlds, "b4", 4, 8.0), *arm(worlds, "b14", 14, 8.5)]
    for step in long:
        step["request"] += "-long"
    run = named(answer([*short, *long]))["b14"]
    bests = [one.best.budget for one in run.ranges if one.best]
    assert bests[0] > bests[-1] == 4
    assert sum(one.steps for one in run.ranges) <= run.steps


# Bad traces --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        {"parents": [1, 2, 0]},
        {"parents": [-1, 9, -5]},
        {"parents": [-1, 2, 1]},
        {"parents": [-1, None, 0]},
        {"parents": [-1]},
        {"parents": []},
        {"target_tokens": [5]},
        {"target_tokens": []},
        {"target_tokens": [None, None, None]},
        {"accepted": [0, 99, -3], "node_tokens": None},
        {"accepted": [], "node_tokens": None, "emitted": None},
        {"ranks": [0]},
        {"log_probs": [0.0, None]},
        {"emitted": [], "target_tokens": None},
        {"emitted": [None, 5], "target_tokens": None},
        {"budget": -4},
        {"batch": 0},
        {"step_ms": 0.0, "draft_ms": -1.0},
        {"ctx_len": -3},
        {"spine_tokens": []},
    ],
)
def test_a_broken_step_breaks_nothing_else(world, answer, columns):
    broken = {"node_tokens": [1, 5, 6], "parents": [-1, 0, 0], "target_tokens": [5, 0, 0],
              "ranks": [0, 0, 1], "log_probs": [0.0, -1.0, -2.0], "accepted": [0, 1]}  # fmt: skip
    record = world.steps[0] | {"request": "broken", "step": 0} | broken | columns
    run = only(answer([*world.steps, {k: v for k, v in record.items() if v is not None}]))
    assert run.steps >= len(world.steps)
    assert run.budgets[-1].commit_len.value == pytest.approx(world.mean(lambda n: BUDGET), abs=0.1)


# Estimates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("freedom", "value"), [(4, 2.776), (9, 2.262), (30, 2.042), (10_000, 1.960)]
)
def test_the_quantile_is_that_of_students_t(freedom, value):
    assert quantile(freedom) == pytest.approx(value, abs=0.01)


def test_a_ratio_of_equal_units_has_the_error_of_a_mean():
    ys = [2.0, 3.0, 7.0, 4.0, 9.0]
    found = ratio({
        "x": 50, "y": 10 * sum(ys), "units": 5, "xx": 500, "xy": sum(100 * y for y in ys),
        "yy": sum(100 * y * y for y in ys),
    })  # fmt: skip
    assert found.value == 5.0
    assert found.error == pytest.approx(statistics.stdev(ys) / math.sqrt(5))


def test_a_cost_that_falls_with_the_width_is_pooled():
    points = [
        Point(9, Estimate(12.0), 100),
        Point(5, Estimate(10.0), 100),
        Point(17, Estimate(11.0), 300),
    ]
    cost = Cost(points)
    assert cost.at(5).value == 10.0 and cost.at(9).value == cost.at(17).value == 11.25
    assert cost.at(7).value == pytest.approx(10.625)
    assert cost.at(4) is None and cost.at(18) is None
    assert cost.most(4).value == 10.0 and cost.most(18) is None


# The command -------------------------------------------------------------------------------------


def test_the_command_prints_a_table_a_run(specdiag, world, tmp_path):
    (tmp_path / "a.jsonl").write_text(
        "".join(
            json.dumps(s) + "\n" for s in [*arm(world, "b4", 4, 8.0), *arm(world, "b14", 14, 22.0)]
        )
    )
    answer = specdiag("whatif", tmp_path / "a.jsonl")
    assert (answer.code, answer.err) == (0, "")
    assert "a:b4: " in answer.out and "a:b14: " in answer.out
    assert "best: budget" in answer.out and "time was measured at budgets 4, 14" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 100
    alone = specdiag("whatif", tmp_path / "a.jsonl", "--run", "a:b4")
    assert alone.out.startswith("a:b4: ") and "b14:" not in alone.out


def test_the_command_writes_json_with_every_budget(specdiag, world, tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(s) + "\n" for s in world.steps))
    answer = specdiag("whatif", tmp_path / "a.jsonl", "--output", "json=-")
    found = json.loads(answer.out, parse_constant=lambda name: pytest.fail(name))
    (run,) = found["runs"]
    assert [one["budget"] for one in run["budgets"]] == list(range(1, BUDGET + 1))
    assert set(run["budgets"][0]["commit_len"]) == {"value", "low", "high"}
    specdiag("whatif", tmp_path / "a.jsonl", "--output", f"json={tmp_path / 'o.json'}")
    assert (tmp_path / "o.json").read_text() == answer.out


def test_break_even_of_server_logs_needs_no_trace(specdiag):
    answer = specdiag("whatif", SAMPLES / "slower_than_baseline")
    assert answer.code == 0 and answer.out.startswith("Break-even: ")
    assert "~ computed as running × commit length / throughput" in answer.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["step_time_superlinear.jsonl"], 3, ["no step has its tree", "step_time", "record node_tokens"]),
        (["healthy-dflash.log"], 3, ["no step has its tree", "healthy-dflash.log", "record node"]),
        (["healthy-tree-trace.jsonl", "--run", "x"], 2, ["nothing is answered for a run x", "--run", "there are: healthy"]),
        (["healthy-tree-trace.jsonl", "--output", "html=x"], 2, ["'html=x' is no output", "--output", "json=PATH"]),
    ],
)  # fmt: skip
def test_a_mistake_is_three_lines(specdiag, arguments, code, said):
    answer = specdiag("whatif", SAMPLES / arguments[0], *arguments[1:])
    lines = answer.err.splitlines()
    assert (answer.code, answer.out, len(lines)) == (code, "", 3)
    assert all(part in line for part, line in zip(said, lines, strict=True))
