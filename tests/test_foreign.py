"""Traces and records of other people's runtimes: a convention that differs is no fault."""

from __future__ import annotations

import json
import random

import pytest


def steps(requests=6, count=40, drafts=4, chance=0.7, seed=1):
    """(request, number, accepted drafts) of steps that draft so many tokens each."""
    draw = random.Random(seed)
    for request in range(requests):
        for number in range(count):
            accepted = 0
            while accepted < drafts and draw.random() < chance:
                accepted += 1
            yield request, number, accepted


MEAN = sum(accepted for *_, accepted in steps()) / (6 * 40)


@pytest.fixture
def told(tmp_path, diagnose, load):
    """Write records, one a line: what is found in them, and their tables."""

    def told(records, name="trace.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
        return diagnose(path), load(path)

    return told


def facts(store):
    (row,) = store.rows("SELECT accept_len, speculates FROM run")
    return row["accept_len"], row["speculates"]


def findings(found):
    return [(one.rule.name, one.severity) for one in found.findings]


@pytest.mark.parametrize("name", ["accept_len", "accept_length", "acceptance_length"])
@pytest.mark.parametrize("bonus", [0, 1])
def test_an_accept_length_is_with_or_without_the_bonus(told, name, bonus):
    found, store = told({"rid": r, "step": n, name: a + bonus} for r, n, a in steps())
    assert facts(store) == (pytest.approx(MEAN + 1), True)
    assert findings(found) == []


def test_an_accept_length_beside_the_depth_it_repeats_is_no_commit_length(told):
    found, store = told(
        {"rid": r, "step": n, "accepted_depth": a, "accept_len": a} for r, n, a in steps()
    )
    assert facts(store)[0] == pytest.approx(MEAN + 1)
    assert findings(found) == []


def test_a_share_of_the_drafts_is_no_accept_length(told):
    _, store = told(
        {"rid": r, "step": n, "accept_len": a / 4, "step_ms": 20.0} for r, n, a in steps()
    )
    assert facts(store)[0] is None


def test_accepted_drafts_alone_say_that_a_run_speculates(told):
    _, store = told({"rid": r, "step": n, "num_accepted_drafts": a} for r, n, a in steps())
    assert facts(store) == (pytest.approx(MEAN + 1), True)


@pytest.mark.parametrize(
    "method", ["vanilla", "Baseline", "no-spec", "greedy", "target_only", "ar"]
)
def test_a_method_without_drafts_is_not_blamed_for_accepting_none(told, method):
    found, store = told(
        {"rid": r, "step": n, "method": method, "commit_len": 1, "step_ms": 20.0}
        for r, n, _ in steps()
    )
    assert facts(store) == (1.0, False)
    assert findings(found) == []


def test_a_depth_that_counts_the_root_is_a_matter_of_names(told):
    found, _ = told(
        {"rid": r, "step": n, "accepted_depth": a + 1, "commit_len": a + 1} for r, n, a in steps()
    )
    assert findings(found) == [("depth_contradicts_commit", "low")]
    assert "off by exactly one" in found.findings[0].message


def test_no_bonus_behind_a_whole_draft_is_a_way_to_do_it(told):
    records = [
        {"rid": r, "step": n, "accepted_drafts": a, "commit_len": min(a + 1, 4)}
        for r, n, a in steps()
    ]
    found, _ = told(records)
    assert findings(found) == [("depth_contradicts_commit", "low")]
    assert "behind a whole draft" in found.findings[0].message
    whole = next(one for one in records if one["accepted_drafts"] == 4 and one["step"] < 30)
    whole["commit_len"] = 5  # it does keep it, so the others lost theirs
    assert findings(told(records)[0]) == [("depth_contradicts_commit", "critical")]


def test_sums_over_a_batch_have_a_bonus_for_each_request(told):
    sums = [sum(a for _, number, a in steps() if number == n) for n in range(40)]
    found, _ = told(
        {"step": n, "batch": 6, "accepted_drafts": total, "commit_len": total + 6}
        for n, total in enumerate(sums)
    )
    assert "depth_contradicts_commit" not in [name for name, _ in findings(found)]


def test_accepted_rows_may_be_filled_up_with_minus_one(told):
    records = [
        {"rid": "a", "step": n, "node_tokens": [1, 2, 3], "parents": [-1, 0, 1],
         "target_predict": [2, 3, 4], "accepted_path": [0, 1, 2, -1, -1]}
        for n in range(9)
    ]  # fmt: skip
    found, store = told(records)
    assert store.rows("SELECT DISTINCT accepted FROM step") == [{"accepted": [0, 1, 2]}]
    assert not found.notices
    records[3]["accepted_path"] = [0, -1, 2, -1, -1]  # not at the end: that is no filling
    assert any("accepted" in one.what for one in told(records)[0].notices)


def lists(bonus=1):
    """One record a request, with the length of each of its steps."""
    lengths = {}
    for request, _, accepted in steps():
        lengths.setdefault(request, []).append(accepted + bonus)
    return lengths


@pytest.mark.parametrize("bonus", [0, 1])
def test_accept_lengths_in_the_record_of_their_request_are_steps(told, bonus):
    found, store = told(
        {"question_id": r, "model_id": "m", "choices": [{"index": 0, "turns": ["x"],
         "decoding_steps": [len(one)], "new_tokens": [sum(one)], "accept_lengths": one}]}
        for r, one in lists(bonus).items()
    )  # fmt: skip
    assert facts(store) == (pytest.approx(MEAN + 1), True)
    (row,) = store.rows(
        "SELECT count(DISTINCT request) AS requests, sum(last::INT) AS last FROM step"
    )
    assert (row["requests"], row["last"]) == (6, 6)
    assert store.rows("SELECT step FROM step WHERE last") == [{"step": 39}] * 6
    assert findings(found) == []


def test_accept_lengths_of_one_are_no_speculation(told):
    records = [{"request_id": f"r{n}", "acceptance_lengths": [1] * 60} for n in range(9)]
    found, store = told(records)
    assert facts(store) == (1.0, False)
    assert findings(found) == []


@pytest.mark.parametrize("name", ["steps", "rounds", "iterations", "trace"])
@pytest.mark.parametrize("around", [None, "results"])
def test_steps_in_the_record_of_their_request_are_read(told, name, around):
    records = [
        {"request_id": f"r{r}", "prompt_len": 9,
         name: [{"step": n, "accepted_drafts": length - 1, "commit_len": length}
                for n, length in enumerate(one)]}
        for r, one in lists().items()
    ]  # fmt: skip
    found, store = told([{"config": {"seed": 1}, around: records}] if around else records)
    (row,) = store.rows("SELECT count(*) AS steps, count(DISTINCT request) AS requests FROM step")
    assert row == {"steps": 240, "requests": 6}
    assert facts(store)[0] == pytest.approx(MEAN + 1)
    assert findings(found) == []


@pytest.mark.parametrize("name", ["accept_lengths", "steps"])
def test_lists_in_parquet_are_steps_too(tmp_path, load, name):
    import polars as pl

    records = [
        {"question_id": r, name: one if name == "accept_lengths" else
         [{"step": n, "accepted_drafts": length - 1} for n, length in enumerate(one)]}
        for r, one in lists().items()
    ]  # fmt: skip
    pl.DataFrame(records).write_parquet(tmp_path / "t.parquet")
    store = load(tmp_path / "t.parquet")
    assert facts(store) == (pytest.approx(MEAN + 1), True)
    assert store.rows("SELECT count(*) AS steps FROM step") == [{"steps": 240}]


def test_a_number_of_steps_is_no_list_of_them(told):
    _, store = told({"rid": r, "steps": 3, "round": n, "commit_len": a + 1} for r, n, a in steps())
    assert store.rows("SELECT format FROM source") == [{"format": "flat_steps"}]
    assert facts(store)[0] == pytest.approx(MEAN + 1)


def response(number, tokens, drafted, accepted):
    return {
        "id": f"c{number}", "usage": {"prompt_tokens": 40, "completion_tokens": tokens},
        "timings": {"prompt_n": 40, "predicted_n": tokens, "predicted_ms": 20.0 * tokens,
                    "predicted_per_second": 50.0, "draft_n": drafted, "draft_n_accepted": accepted},
    }  # fmt: skip


def test_a_few_long_drafts_are_not_one_in_each_step(told):
    found, store = told(response(n, 300, 5 * 64, 6) for n in range(20))
    assert store.rows("SELECT count(commit_len) AS known FROM request") == [{"known": 0}]
    assert findings(found) == []


def test_drafts_of_which_none_is_accepted_are_found_without_their_length(told):
    found, _ = told(response(n, 300, 5 * 299, 0) for n in range(20))
    assert findings(found) == [("draft_never_accepted", "high")]


def measured(number, chance, cut=0, drafted=1.0, recounted=1.0):
    """A response of vLLM with what was drafted for it; `cut` tokens of the last step are not sent."""
    draw = random.Random(number)
    histogram, plain = [0, 0, 0, 0], 0
    for _ in range(draw.randrange(60, 140)):
        if draw.random() > drafted:
            plain += 1
            continue
        accepted = 0
        while accepted < 3 and draw.random() < chance:
            accepted += 1
        histogram[accepted] += 1
    count = sum(histogram)
    total = sum(accepted * each for accepted, each in enumerate(histogram))
    tokens = round((1 + plain + count + total - min(cut, total)) * recounted)
    return {
        "id": f"c{number}", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": f"{number}"}}],
        "usage": {"prompt_tokens": 40, "completion_tokens": tokens},
        "metrics": {"speculative_decoding": {
            "mean_acceptance_length": 1 + total / max(count, 1),
            "draft_acceptance_rate": total / max(3 * count, 1), "acceptance_histogram": histogram,
            "num_spec_steps": count, "num_accepted_draft_tokens": total,
            "num_draft_tokens": 3 * count, "num_spec_tokens": 3}},
    }  # fmt: skip


@pytest.mark.parametrize(
    "how", [{}, {"cut": 2}, {"drafted": 0.1}, {"recounted": 1.03}, {"recounted": 0.97}]
)
def test_what_vllm_says_of_a_request_is_read_and_is_no_fault(told, how):
    found, store = told(measured(n, 0.7, **how) for n in range(60))
    (row,) = store.rows("SELECT accept_len, speculates FROM run")
    assert row == {"accept_len": pytest.approx(2.5, abs=0.15), "speculates": True}
    assert [one for one in findings(found) if one[1] not in ("info", "low")] == []
    (row,) = store.rows("SELECT count(verify_steps) AS steps, count(drafts) AS drafts FROM request")
    assert row["drafts"] == 60
    assert row["steps"] == 60 or "drafted" in how or "recounted" in how


def test_what_vllm_says_of_requests_without_accepted_drafts_is_found(told):
    found, _ = told(measured(n, 0.0) for n in range(20))
    assert findings(found) == [("draft_never_accepted", "high")]


@pytest.mark.parametrize(("drafts", "known"), [(0, None), (40, 1.0), (7000, 1.0)])
def test_a_benchmark_with_few_drafts_says_nothing_of_the_drafter(told, drafts, known):
    record = {
        "endpoint_type": "openai", "backend": "vllm", "model_id": "m", "duration": 16.0,
        "completed": 64, "total_input_tokens": 8192, "total_output_tokens": 16384,
        "request_throughput": 4.0, "output_throughput": 1024.0, "mean_ttft_ms": 90.5,
        "spec_decode_acceptance_rate": 0.0, "spec_decode_acceptance_length": 1.0,
        "spec_decode_num_drafts": drafts, "spec_decode_draft_tokens": 3 * drafts,
        "spec_decode_accepted_tokens": 0,
    }  # fmt: skip
    found, store = told([record], "bench.json")
    assert facts(store)[0] == known
    assert findings(found) == [("draft_never_accepted", "high")] * (drafts > 200)


def test_a_clock_that_runs_since_the_request_began_is_no_step_time(told):
    context, records = 50, []
    for request, number, accepted in steps():
        context = 50 if number == 0 else context + accepted + 1
        records.append({"rid": request, "step": number, "ctx_len": context,
                        "commit_len": accepted + 1, "total_ms": 20.0 * (number + 1)})  # fmt: skip
    found, store = told(records)
    (row,) = store.rows("SELECT step_ms FROM run")
    assert row["step_ms"] == pytest.approx(20.0)
    assert findings(found) == []


@pytest.mark.parametrize(
    ("asked", "ran", "same"),
    [("eagle3", "EAGLE-3", True), ("eagle", "EAGLE3", True), ("DDTREE", "DFLASH", False)],
)
def test_an_algorithm_may_be_written_in_two_ways(told, asked, ran, same):
    found, _ = told(
        {"rid": r, "step": n, "algo_req": asked, "algo": ran, "commit_len": a + 1}
        for r, n, a in steps()
    )
    assert ("mode_not_executed" in [name for name, _ in findings(found)]) is not same


def test_a_time_without_a_unit_is_not_taken_for_milliseconds(told):
    _, store = told({"rid": r, "step": n, "commit_len": a + 1, "step_ms": 20.0, "verify_ms": 19.0,
                     "t_draft": 0.004} for r, n, a in steps())  # fmt: skip
    assert store.rows("SELECT count(draft_ms) AS times FROM step") == [{"times": 0}]


@pytest.mark.parametrize("option", ["-length 1.0", "-rates=0.0,0.0,0.0", ""])
def test_a_synthetic_acceptance_of_llamacpp_is_a_setting(tmp_path, diagnose, option):
    asked = f" --spec-synthetic-acceptance{option}" if option else ""
    lines = [
        "0.00.090.000 I main: build 10800 (0badcafe) with gcc 14.1.0 for x86_64-linux-gnu",
        "0.00.100.000 I srv   llama_server: argv: llama-server -m m.gguf --spec-type draft-mtp"
        + asked,
        "0.12.000.000 I srv  llama_server: model loaded",
    ]
    for n in range(20):
        head = f"0.{20 + n}.000.000 I slot print_timing: id  0 | task {n} |"
        lines += [
            f"{head}        eval time =    4000.00 ms /   200 tokens (   20.00 ms per token, "
            "   50.00 tokens per second)",
            f"{head} draft acceptance = 0.00000 (    0 accepted /   597 generated), mean acceptance "
            "length =  1.00, acceptance rate per position = (0.000, 0.000, 0.000)",
        ]
    log = tmp_path / "server.log"
    log.write_text("\n".join(lines) + "\n")
    expected = ("acceptance_low_on_purpose", "info") if option else ("draft_never_accepted", "high")
    assert findings(diagnose(log)) == [expected]
