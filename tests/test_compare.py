"""`specdiag compare` and `trend`: chance is not called a difference, and a difference is not missed."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import statistics
import sys
from pathlib import Path

import pytest

from specdiag import student
from specdiag.compare import arms, change, compare_all, verdict
from specdiag.compare.trend import turns
from specdiag.report import compare as report

SAMPLES = Path(__file__).parents[1] / "sample_logs"
FOUNDING = SAMPLES / "founding-1-depth-against-commit"
TREE, LINEAR = FOUNDING / "ddtree-b7-k1.log", FOUNDING / "dflash-linear.log"
TRIALS = 1000


# Statistics against known truth ------------------------------------------------------------------


def request(draw, accepts=0.0):
    """The steps and tokens of a request; the text is easy or hard for all of its steps."""
    easy = min(max(draw.gauss(0.6, 0.1), 0.1), 0.9)
    return answer(draw, easy, accepts)


def answer(draw, easy, more=0.0):
    steps = draw.randint(8, 24)
    tokens = sum(1 + int(math.log(1 - draw.random()) / math.log(easy)) for _ in range(steps))
    return float(steps), tokens * (1 + more)


def apart(draw, size, more=0.0):
    return change.independent(
        [request(draw) for _ in range(size)], [request(draw, more) for _ in range(size)]
    )


def together(draw, size, more=0.0):
    texts = [min(max(draw.gauss(0.6, 0.1), 0.1), 0.9) for _ in range(size)]
    return change.paired(
        [answer(draw, easy) for easy in texts], [answer(draw, easy, more) for easy in texts]
    )


def slow(draw, size, alike, more=0.0):
    """Rows that resemble their neighbours."""
    value, rows = draw.gauss(0, 1), []
    for _ in range(size):
        value = alike * value + math.sqrt(1 - alike**2) * draw.gauss(0, 1)
        rows.append((1.0, (3 + 0.4 * value) * (1 + more)))
    return rows


def blocked(alike, *sizes):
    return lambda draw: change.rows(*(slow(draw, size, alike) for size in sizes))


@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(lambda draw: apart(draw, 4), id="4 requests"),
        pytest.param(lambda draw: apart(draw, 8), id="8 requests"),
        pytest.param(lambda draw: together(draw, 4), id="4 pairs"),
        pytest.param(lambda draw: together(draw, 10), id="10 pairs"),
        pytest.param(lambda draw: apart(draw, 12), id="12 requests, resampled"),
        pytest.param(blocked(0.0, 40, 40), id="rows"),
        pytest.param(blocked(0.5, 40, 60), id="rows that are alike"),
        pytest.param(blocked(0.8, 80, 60), id="rows that are much alike"),
    ],
)
def test_no_difference_is_called_one_in_at_most_5_percent_of_the_trials(trial):
    draw = random.Random(20260618)
    called = 0
    for _ in range(TRIALS):
        found = trial(draw)
        said = verdict.judge(found, found.p, True, 0.05, 1)
        called += said.kind in ("better", "worse")
    assert called <= 0.05 * TRIALS


def test_a_family_of_figures_is_wrong_in_any_of_them_in_at_most_5_percent_of_the_trials():
    draw = random.Random(7)
    wrong = 0
    for _ in range(300):
        ps = verdict.holm([together(draw, 6).p for _ in range(6)])
        wrong += min(ps) < verdict.ALPHA
    assert wrong <= 0.05 * 300


@pytest.mark.parametrize("trial", [apart, together])
def test_the_difference_that_is_said_to_be_seen_is_seen_four_times_in_five(trial):
    draw = random.Random(11)
    size = 10
    said = [verdict.detectable(trial(draw, size)) for _ in range(300)]
    usual = math.sqrt(statistics.fmean(one**2 for one in said))  # without the luck of one sample
    seen = 0
    for _ in range(300):
        found = trial(draw, size, math.expm1(usual))
        seen += verdict.judge(found, found.p, True, 0.05, 1).kind == "better"
    assert seen >= 0.76 * 300  # 80 % less what 300 trials may miss


def test_as_many_units_as_are_said_to_be_needed_decide():
    draw = random.Random(5)
    pilot = change.paired(
        *zip(*(((20.0, 60 * draw.uniform(0.8, 1.25)), (20.0, 60 * draw.uniform(0.8, 1.25)))
               for _ in range(10)), strict=True)
    )  # fmt: skip
    said = verdict.judge(pilot, pilot.p, True, 0.1, 1, steps=200)
    assert said.kind == "undecided" and said.more_steps == pytest.approx(20 * said.more_units, 0.1)
    size = pilot.units + said.more_units
    decided = 0
    for _ in range(100):
        one, other = ([(20.0, 60 * draw.uniform(0.8, 1.25)) for _ in range(size)] for _ in range(2))
        found = change.independent(one, other, resampled=False)
        decided += verdict.judge(found, found.p, True, 0.1, 1).kind in ("same", "better", "worse")
    assert decided >= 76


def test_a_known_change_lies_in_its_interval_in_95_percent_of_the_trials():
    draw = random.Random(3)
    inside = 0
    for _ in range(TRIALS):
        low, high = together(draw, 9, 0.2).interval
        inside += low <= math.log(1.2) <= high
    assert inside >= 0.94 * TRIALS


# R: t.test(extra ~ group, sleep, paired = TRUE), and without pairs (Student 1908, Welch 1947).
SLEEP = (
    [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
)


def test_the_textbook_case_of_pairs():
    one, other = ([(1.0, value) for value in group] for group in SLEEP)
    found = change.paired(one, other, log=False)
    assert found.value / found.error == pytest.approx(4.0621, abs=1e-4)
    assert found.p == pytest.approx(0.002833, abs=1e-6)
    assert found.interval == pytest.approx((0.7001142, 2.4598858), abs=1e-6)


def test_the_textbook_case_of_two_groups():
    one, other = ([(1.0, value) for value in group] for group in SLEEP)
    found = change.independent(one, other, log=False)
    assert found.freedom == pytest.approx(17.776, abs=1e-3)
    assert found.p == pytest.approx(0.07939, abs=1e-5)
    assert found.interval == pytest.approx((-0.2054832, 3.3654832), abs=1e-6)


# The example in the documentation of Go's benchstat: -13.31 % (p=0.016), and ~ (p=0.286).
BENCHSTAT = {
    "GobEncode": (
        [13552735, 13553943, 13606356, 13683198],
        [11773189, 11942588, 11786159, 11628583, 11815924], -0.1331, "better",
    ),
    "JSONEncode": (
        [32395067, 32334214, 31992891, 31735022],
        [32036529, 32156552, 31288355, 31559706, 31765634], None, "same",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BENCHSTAT)
def test_the_case_of_benchstat(case):
    old, new, delta, said = BENCHSTAT[case]
    found = change.independent([(1.0, v) for v in old], [(1.0, v) for v in new])
    assert verdict.judge(found, found.p, False, 0.05, 1).kind == said
    if delta is not None:
        assert found.shown(found.value) == pytest.approx(delta, abs=5e-5)


@pytest.mark.parametrize(
    ("freedom", "alpha", "value"),
    [(1, 0.05, 12.7062), (2, 0.05, 4.30265), (9, 0.05, 2.26216), (9, 0.01, 3.24984),
     (30, 0.1, 1.69726), (1e6, 0.05, 1.95997)],
)  # fmt: skip
def test_quantiles_are_those_of_the_tables(freedom, alpha, value):
    assert student.quantile(freedom, alpha) == pytest.approx(value, rel=1e-5)


def test_holm_corrects_as_in_the_textbook():
    assert verdict.holm([0.01, None, 0.04, 0.03, 0.005]) == pytest.approx(
        [0.03, None, 0.06, 0.06, 0.02]
    )


def test_a_thousand_requests_are_resampled_within_a_second():
    draw = random.Random(1)
    units = [request(draw) for _ in range(1000)]
    from time import perf_counter

    start = perf_counter()
    change.independent(units, [request(draw) for _ in range(1000)])
    assert perf_counter() - start < 1


# The command -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trace(path, requests, steps, more=0.0, ms=20.0, seed=1, names="p"):
    """A step trace: requests of other difficulty, the same in every trace."""
    draw = random.Random(seed)
    with open(path, "w") as file:
        for number in range(requests):
            easy, at = random.Random(number).uniform(0.4, 0.7), 100 + number
            for step in range(steps):
                length = 1
                while draw.random() < easy + more and length < 8:
                    length += 1
                verify = ms * draw.uniform(0.98, 1.02)
                record = {
                    "step": step, "rid": f"{names}{number}", "mode": "linear", "algo": "DFLASH",
                    "batch": 1, "ctx_len": at, "width": 8, "accepted_depth": length - 1,
                    "commit_len": length, "draft_ms": 3.0, "verify_ms": round(verify, 3),
                    "step_ms": round(verify + 3.5, 3),
                }  # fmt: skip
                file.write(json.dumps(record) + "\n")
                at += length
    return path


def changed(path, change):
    """A trace again, each of its records changed."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for nth, row in enumerate(rows):
        change(nth, row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def asked(specdiag, *arguments):
    answer = specdiag("compare", *map(str, arguments), "--format", "json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)["comparisons"]


def by_name(comparison):
    return {one["metric"]: one for one in comparison["metrics"] + comparison["details"]}


def test_the_tree_of_founding_case_1_is_faster_while_it_commits_less(specdiag):
    (one,) = asked(specdiag, LINEAR, TREE)
    found = by_name(one)
    assert one["verdict"] == "better" and one["inversion"]
    assert found["tokens_per_s"]["verdict"] == "better"
    assert found["commit_len"]["verdict"] == "worse"
    assert any("faster than dflash-linear while it commits less" in text for text in one["message"])


def test_slower_while_committing_more_is_the_same_inversion(specdiag):
    answer = specdiag("compare", str(FOUNDING))
    assert "B (dflash-linear) is slower" in answer.out
    assert "ddtree-b7-k1 is faster than dflash-linear while it commits less" in " ".join(
        answer.out.split()
    )


def test_the_parts_of_the_speed_add_up(specdiag):
    for pair in ((TREE, LINEAR), (SAMPLES / "tree_buys_nothing",)):
        (one,) = asked(specdiag, *pair)
        parts = one["decomposition"]
        whole = parts["ln_commit_len"] - parts["ln_step_ms"] + parts["ln_batch"]
        assert parts["ln_speed"] == pytest.approx(whole, abs=1e-9)
    stages = {stage["stage"]: stage["ln_part"] for stage in parts["stages"]}
    assert stages["build"] < stages["verify"] < stages["walk"] < 0
    assert sum(stages.values()) == pytest.approx(-parts["ln_step_ms"], abs=1e-3)


def test_settings_that_differ_are_named(specdiag):
    (one,) = asked(specdiag, TREE, LINEAR)
    found = {each["key"]: (each["a"], each["b"]) for each in one["differences"]}
    assert found["speculative_algorithm"] == ("DDTREE", "DFLASH")


def test_a_file_does_not_differ_from_itself(specdiag):
    for other in (TREE, shutil.copy(TREE, "copy.log")):
        (one,) = asked(specdiag, TREE, other)
        assert one["verdict"] == "same" and one["identical"]
        assert all(each["verdict"] in ("same", "undecided") for each in one["metrics"])
        assert one["message"] == ["no difference: both arms hold the same figures"]


def test_pairs_find_what_texts_would_hide(specdiag, folder):
    one = trace(folder / "a.jsonl", 12, 60, seed=1)
    other = trace(folder / "b.jsonl", 12, 60, more=0.12, seed=2)
    (found,) = asked(specdiag, one, other)
    assert found["pairs"] == 12 and found["verdict"] == "better"
    assert by_name(found)["step_ms"]["verdict"] == "same"
    assert by_name(found)["tokens_per_s"]["method"] == "paired"


def test_requests_without_their_like_are_compared_all_the_same(specdiag, folder):
    one = trace(folder / "a.jsonl", 12, 60, seed=1)
    other = trace(folder / "b.jsonl", 12, 40, more=0.2, seed=2, names="q")
    (found,) = asked(specdiag, one, other)
    assert found["pairs"] == 0
    assert by_name(found)["commit_len"]["method"] == "requests"
    assert by_name(found)["commit_len"]["verdict"] == "better"


def test_longer_answers_are_compared_as_far_as_both_go(specdiag, folder):
    """The arm that goes on gets slow where the other one has ended."""
    one = trace(folder / "a.jsonl", 8, 30)

    def slows_down(nth, row):
        row["step_ms"] += 100 * (row["step"] >= 70)

    other = changed(trace(folder / "b.jsonl", 8, 90), slows_down)
    (found,) = asked(specdiag, one, other)
    assert by_name(found)["step_ms"]["verdict"] == "same"


@pytest.mark.parametrize(("times", "hindered"), [(2.0, True), (1.1, False)])
def test_an_arm_that_still_warms_up_is_not_comparable(times, hindered, specdiag, folder):
    def slower(nth, row):
        row["step_ms"] *= times if nth < 36 else 1

    one = trace(folder / "a.jsonl", 12, 30)
    other = changed(trace(folder / "b.jsonl", 12, 30), slower)
    (found,) = asked(specdiag, one, other)
    assert ("warm-up" in {each["what"] for each in found["hindrances"]}) == hindered


def test_equal_texts_are_compared_where_both_arms_begin_a_step(specdiag, folder):
    """Drafts of 1 and of 3 tokens that are all accepted: every second step of the one is shared."""

    def said(length):
        def told(nth, row):
            at = row["step"] * length
            row |= {
                "emitted": list(range(at, at + length)), "ctx_len": 100 + at,
                "commit_len": length, "accepted_depth": length - 1,
            }  # fmt: skip

        return told

    one = changed(trace(folder / "a.jsonl", 8, 40), said(2))
    other = changed(trace(folder / "b.jsonl", 8, 20), said(4))
    (found,) = asked(specdiag, one, other)
    assert found["pairs"] == 8 and any("gave the same text" in note for note in found["notes"])
    shared = by_name(found)["commit_len_at_shared_starts"]
    assert (shared["a"]["value"], shared["b"]["value"], shared["method"]) == (2, 4, "paired")


def test_one_request_says_nothing_of_others(specdiag, folder):
    (found,) = asked(
        specdiag, trace(folder / "a.jsonl", 1, 50), trace(folder / "b.jsonl", 1, 50, 0.3, seed=2)
    )
    assert found["verdict"] == "undecided"
    assert by_name(found)["tokens_per_s"]["more_units"] >= 1
    assert "needs at least 3 more pairs" in found["message"][0]


def test_what_is_undecided_says_how_many_steps_would_decide(specdiag):
    answer = specdiag("compare", str(SAMPLES / "tree_below_chain"))
    assert re.search(r"undecided \(needs about [1-9][0-9,]* more steps\)", answer.out)


def test_another_model_is_not_comparable(specdiag, folder):
    text = TREE.read_text().replace("Qwen/Qwen3-8B", "Qwen/Qwen3-14B")
    (folder / "other.log").write_text(text)
    (one,) = asked(specdiag, LINEAR, folder / "other.log")
    assert one["verdict"] == "not comparable"
    assert [each["what"] for each in one["hindrances"]] == ["model"]
    assert {each["verdict"] for each in one["metrics"] + one["details"]} == {"none"}
    assert one["metrics"] and not one["inversion"]


def record(number, **more):
    return {
        "prompt": f"Prompt {number} " + "word " * 20, "text": "An answer.",
        "meta_info": {
            "id": f"r{number}", "prompt_tokens": 30, "completion_tokens": 101 + number,
            "spec_verify_ct": 40, "e2e_latency": 2.0, "finish_reason": {"type": "stop"},
        },
        **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ({"text": "<think>Well, let me see.</think>Yes."}, {"text": "Yes, it is."}, "thinking mode"),
        ({"sampling_params": {"temperature": 0.0}}, {"sampling_params": {"temperature": 0.9}},
         "sampling"),
    ],
)  # fmt: skip
def test_what_was_asked_otherwise_is_not_comparable(one, other, what, specdiag, folder):
    for name, more in (("a.jsonl", one), ("b.jsonl", other)):
        (folder / name).write_text(
            "".join(json.dumps(record(number, **more)) + "\n" for number in range(12))
        )
    (found,) = asked(specdiag, "a.jsonl", "b.jsonl")
    assert what in [each["what"] for each in found["hindrances"]]


def test_no_request_at_all_is_an_error(specdiag, folder):
    start = "".join(TREE.read_text().splitlines(keepends=True)[:12])
    (folder / "start.log").write_text(start)
    answer = specdiag("compare", str(TREE), "start.log")
    assert answer.code == 3 and "there is nothing to compare" in answer.err


def test_more_arms_make_a_matrix(specdiag, folder):
    paths = [
        trace(folder / f"{name}.jsonl", 8, 40, ms=ms, seed=seed)
        for seed, (name, ms) in enumerate((("a", 20.0), ("b", 30.0), ("c", 20.0)))
    ]
    assert [(each["a"]["run"], each["b"]["run"]) for each in asked(specdiag, *paths)] == [
        ("a", "b"), ("a", "c"),
    ]  # fmt: skip
    every = asked(specdiag, *paths, "--all")
    assert [(each["a"]["run"], each["b"]["run"]) for each in every] == [
        ("a", "b"), ("a", "c"), ("b", "c"),
    ]  # fmt: skip
    steps = [by_name(each)["step_ms"]["verdict"] for each in every]
    assert steps == ["worse", "same", "better"]
    text = specdiag("compare", *map(str, paths), "--all").out
    assert re.search(r"^  B +A +verdict", text)


def test_runs_are_chosen_by_name(specdiag):
    (one,) = asked(specdiag, "dflash-linear", "ddtree-b7-k1", FOUNDING)
    assert (one["a"]["run"], one["b"]["run"]) == ("dflash-linear", "ddtree-b7-k1")
    (one,) = asked(specdiag, FOUNDING, LINEAR, "--run-a", "ddtree-b7-k1")
    assert (one["a"]["run"], one["b"]["run"]) == ("ddtree-b7-k1", "dflash-linear")


def test_two_folders_are_compared_run_by_run(specdiag, folder):
    for name in ("old", "new"):
        shutil.copytree(FOUNDING, folder / name)
    found = asked(specdiag, "old", "new")
    assert [each["a"]["run"] for each in found] == ["ddtree-b7-k1", "dflash-linear"]
    assert all(each["a"]["run"] == each["b"]["run"] for each in found)
    assert all(each["verdict"] == "same" for each in found)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dflash-linaer", "ddtree-b7-k1", FOUNDING], "did you mean dflash-linear?"),
        ([FOUNDING, LINEAR, "--run-a", "ddtree-b7"], "did you mean ddtree-b7-k1?"),
        ([FOUNDING, LINEAR], "name one with --run-a: runs: ddtree-b7-k1, dflash-linear"),
        ([LINEAR], "give a second path"),
        (["no.log", "other.log"], "error: no such file or folder"),
        ([TREE, LINEAR, "--margin", "0"], "--margin"),
        ([TREE, LINEAR, "--format", "xml"], "one of terminal, markdown, json"),
    ],
)
def test_a_mistake_is_told_with_what_helps(arguments, said, specdiag):
    answer = specdiag("compare", *map(str, arguments))
    assert answer.code == 2 and said in answer.err and answer.out == ""


def save(specdiag, path, to, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["specdiag", "check"])
    specdiag("check", str(path), "--output", to)


def test_saved_results_give_the_same_as_their_logs(specdiag, folder, monkeypatch):
    save(specdiag, TREE, "duckdb=tree.duckdb", monkeypatch)
    logs, mixed = asked(specdiag, TREE, LINEAR)[0], asked(specdiag, "tree.duckdb", LINEAR)[0]
    assert mixed["metrics"] == logs["metrics"] and mixed["differences"] == logs["differences"]
    assert mixed["decomposition"] == logs["decomposition"]


def test_json_has_no_samples(specdiag, folder, monkeypatch):
    save(specdiag, TREE, "json=tree.json", monkeypatch)
    answer = specdiag("compare", "tree.json", str(LINEAR))
    assert answer.code == 2 and "a result saved as JSON has no samples" in answer.err


@pytest.fixture(scope="module")
def twice(definitions):
    """The same comparison, made two times from the files on."""
    made = []
    for _ in range(2):
        with arms.read([str(SAMPLES / "tree_below_chain")], definitions[0]) as given:
            made.append(compare_all(arms.choose(given, [], None, None), verdict.MARGIN, False))
    return made


@pytest.mark.parametrize("format", report.FORMATS)
def test_the_same_input_gives_the_same_text(format, twice):
    first, second = (report.render(one, format) for one in twice)
    assert first == second and "tree" in first


def test_names_out_of_logs_are_harmless(specdiag, folder):
    name = "a|b`<b>\x1b[31m.jsonl"
    trace(folder / name, 6, 30)
    trace(folder / "plain.jsonl", 6, 30, seed=2)
    for format in ("terminal", "markdown"):
        out = specdiag("compare", "plain.jsonl", name, "--format", format).out
        assert "\x1b" not in out
        outside = re.sub(r"(`+).*?(?<!`)\1(?!`)", "", out)  # of code, where nothing is markup
        assert format == "terminal" or "<b>" not in outside


# Trend -------------------------------------------------------------------------------------------


def results(folder, values):
    """A saved result for each value of the throughput, an hour apart."""
    folder.mkdir()
    for number, value in enumerate(values):
        document = {
            "schema": 1, "specdiag": "0.1.0", "findings": [], "results": [], "notices": [], "decidable": {"to_switch_on": []},
            "runs": [{
                "run": "server", "sources": [],
                "facts": {"tokens_per_s": value, "accept_len": 3.0,
                          "started": f"2026-06-{1 + number:02d}T10:00:00"},
            }],
        }  # fmt: skip
        # Names do not tell the order, starts do.
        (folder / f"{(7 * number) % 30:02d}.json").write_text(json.dumps(document))
    return folder


def noisy(level, number, seed):
    draw = random.Random(seed)
    return [level * math.exp(draw.gauss(0, 0.01)) for _ in range(number)]


def test_a_change_for_good_is_found_where_it_happened(specdiag, folder):
    pytest.importorskip("ruptures")
    results(folder / "saved", noisy(100, 10, 1) + noisy(90, 10, 2))
    (line,) = json.loads(specdiag("trend", "saved", "--format", "json").out)["lines"]
    (turn,) = line["changes"]
    assert turn["fact"] == "tokens_per_s" and turn["place"] == 10 and turn["verdict"] == "worse"
    assert turn["after"] / turn["before"] == pytest.approx(0.9, abs=0.01)
    text = specdiag("trend", "saved").out
    assert "tok/s -" in text and "(worse)" in text and "▁" in text


def test_results_with_tables_tell_more_facts(specdiag, folder):
    pytest.importorskip("ruptures")
    (folder / "saved").mkdir()
    for number in range(6):
        trace(folder / "t.jsonl", 4, 20, seed=number)
        specdiag("analyze", "t.jsonl", "--no-html", "--output", f"duckdb=saved/{number}.duckdb")
    (line,) = json.loads(specdiag("trend", "saved", "--format", "json").out)["lines"]
    stages = {"draft_ms", "verify_ms"}
    assert all(stages | {"accept_len", "step_ms"} <= set(one["facts"]) for one in line["points"])
    assert "verify ms" in specdiag("trend", "saved").out


def test_noise_is_rarely_a_change():
    pytest.importorskip("ruptures")
    assert sum(bool(turns(noisy(100, 20, seed), True)) for seed in range(100)) <= 5


def test_a_folder_without_saved_results_is_an_error(specdiag, folder):
    assert specdiag("trend", "nowhere").code == 2
    (folder / "empty").mkdir()
    assert specdiag("trend", "empty").code == 3


def test_a_file_that_is_no_result_is_named_and_skipped(specdiag, folder):
    pytest.importorskip("ruptures")
    results(folder / "saved", noisy(100, 3, 1))
    (folder / "saved" / "other.json").write_text("[1, 2]")
    answer = specdiag("trend", "saved")
    assert answer.code == 0 and "this is no saved result" in answer.err
    assert "too few results" in answer.out


def test_without_the_library_the_command_says_how_to_get_it(specdiag, folder, monkeypatch):
    results(folder / "saved", noisy(100, 3, 1))
    monkeypatch.setitem(sys.modules, "ruptures", None)
    answer = specdiag("trend", "saved")
    assert answer.code == 2 and "pip install 'specdiag-llm[trend]'" in answer.err
