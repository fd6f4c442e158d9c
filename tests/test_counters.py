"""Commit lengths where a server or a client counts something else, or counts nothing."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def requests(tmp_path, load):
    """The requests of a file with that text: (completion tokens, accepted, proposed, C)."""

    def read(text, name="server.log"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return (
            load(path)
            .db.execute(
                """SELECT completion_tokens, correct_drafts, proposed_drafts, round(commit_len, 3)
               FROM request ORDER BY line"""
            )
            .fetchall()
        )

    return read


def timing(tokens, accepted=None, proposed=None, more=""):
    """What llama-server says at the end of a request."""
    said = f"       eval time =    4000.00 ms /   {tokens} tokens (   20.00 ms per token,    50.00 tokens per second)\n"
    said += f"      total time =    4100.00 ms /   {tokens + 9} tokens\n"
    if accepted is not None:
        said += f"draft acceptance rate = {accepted / proposed:.5f} ({accepted:5} accepted / {proposed:5} generated){more}\n"
    return said


@pytest.mark.parametrize(
    ("tokens", "accepted", "proposed", "commit_len"),
    [
        (201, 100, 150, 2.0),  # 100 steps of two tokens, and the first token
        (101, 0, 400, 1.0),  # drafted and never accepted
        (101, 50, 49, None),  # fewer drafts than steps: what each is worth is not known
        (51, 50, 60, None),  # more accepted than there is room for
    ],
)
def test_llamacpp_counts_drafts_and_not_steps(requests, tokens, accepted, proposed, commit_len):
    assert requests(timing(tokens, accepted, proposed)) == [
        (tokens, accepted, proposed, commit_len)
    ]


def test_counts_belong_to_the_request_before_them(requests):
    log = timing(201, 100, 150) + timing(50) + timing(101, 0, 400)
    assert requests(log) == [(201, 100, 150, 2.0), (50, None, None, None), (101, 0, 400, 1.0)]


def test_a_mean_that_llamacpp_gives_itself_is_not_counted_again(requests):
    mean = ", mean acceptance length =  2.60, acceptance rate per position = (0.9, 0.7)"
    assert requests(timing(201, 100, 150, mean)) == [(201, None, None, None)]


@pytest.mark.parametrize("inside", [False, True])
def test_timings_of_a_response_are_read_wherever_a_client_puts_them(requests, inside):
    timings = {
        "prompt_n": 9, "predicted_n": 201, "predicted_ms": 3000.0, "draft_n": 150,
        "draft_n_accepted": 100,
    }  # fmt: skip
    answer = {"id": "chatcmpl-1", "usage": {"completion_tokens": 201}, "timings": timings}
    record = {"prompt": "Say x", "response": answer} if inside else answer
    assert requests(json.dumps(record), "answers.jsonl") == [(201, 100, 150, 2.0)]


def test_a_window_that_accepts_nothing_weighs_as_much_as_any(tmp_path, load):
    path = tmp_path / "server.log"
    lines = [
        f"INFO 07-20 09:21:{n:02} [metrics.py:120] SpecDecoding metrics: Mean acceptance length: {1 + accepted / 1000:.2f}, "
        f"Accepted: {accepted} tokens, Drafted: 2000 tokens, Per-position acceptance rate: {first:.3f}, {accepted / 1000 - first:.3f}, "
        f"Avg Draft acceptance rate: {accepted / 20:.1f}%\n"
        for n, (accepted, first) in enumerate([(1200, 0.8), (0, 0), (0, 0), (4, 0.004)])
    ]
    path.write_text("".join(lines), encoding="utf-8")
    (row,) = load(path).rows("SELECT accept_len FROM run")
    assert row["accept_len"] == pytest.approx(1 + 1204 / 4000, abs=0.002)


@pytest.fixture
def rules(tmp_path, diagnose):
    """The rules that a printed result breaks."""

    def rules(text):
        path = tmp_path / "result.txt"
        path.write_text(text, encoding="utf-8")
        return [one.rule.name for one in diagnose(path).findings]

    return rules


RESULT = "Latency: 100.000 s\nOutput throughput: 900.000 token/s\nAccept length: {:.3f}\n"


MT_BENCH = "#questions: 80, Throughput: 250.10 token/s, Acceptance length: {:.2f}\n"


@pytest.mark.parametrize("printed", [RESULT, MT_BENCH])
def test_a_question_benchmark_prints_one_where_nothing_speculates(rules, printed):
    assert rules(printed.format(1)) == []


def test_a_question_benchmark_shows_a_drafter_that_is_never_accepted(rules):
    assert rules(RESULT.format(1.04)) == ["draft_never_accepted"]


def test_results_one_after_the_other_are_runs_of_their_own(rules):
    text = "python3 run_humaneval.py\n" + RESULT.format(3.2) + "\n" + RESULT.format(1.04)
    assert rules(text) == ["draft_never_accepted"]


# A drafter of which nothing is accepted, or everything ------------------------------------------


def counted(text, tmp_path, diagnose, name):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return diagnose(path)


def test_responses_whose_last_step_nobody_waited_for_are_at_the_floor(tmp_path, diagnose):
    """With overlap one more step runs than tokens were needed: 200 tokens, the first of prefill, in 200."""
    rows = [
        {"text": f"answer {n}", "meta_info": {"id": f"{n}", "prompt_tokens": 90, "completion_tokens": 200, "spec_verify_ct": 200, "spec_accept_length": 1.0, "spec_accept_token_num": 0, "spec_draft_token_num": 600}}
        for n in range(8)
    ]  # fmt: skip
    text = "".join(json.dumps(one) + "\n" for one in rows)
    (found,) = counted(text, tmp_path, diagnose, "responses.jsonl").findings
    assert found.rule.name == "draft_never_accepted" and found.values["commit_len"] == 1


SCRAPE = """\
# scraped at 2026-06-01T09:{n:02d}:00Z
# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{{model_name="m"}} 1.0
sglang:spec_accept_rate{{model_name="m"}} 0.0
sglang:gen_throughput{{model_name="m"}} {throughput}
sglang:generation_tokens_total{{model_name="m"}} {tokens}
"""


@pytest.mark.parametrize(("grows", "rules"), [(8000, ["draft_never_accepted"]), (0, [])])
def test_scrapes_that_always_show_the_floor_while_tokens_are_made(grows, rules, tmp_path, diagnose):
    text = "".join(
        SCRAPE.format(n=n, throughput=410.5 if grows else 0.0, tokens=8000 + grows * n)
        for n in range(8)
    )
    found = counted(text, tmp_path, diagnose, "metrics.prom").findings
    assert [one.rule.name for one in found] == rules


V0 = "INFO 01-22 09:05:{n:02d} metrics.py:489] Speculative metrics: Draft acceptance rate: {rate:.3f}, System efficiency: 0.500, Number of speculative tokens: 5, Number of accepted tokens: {accepted}, Number of draft tokens: {drafted}, Number of emitted tokens: {emitted}.\n"


def test_the_v0_engine_of_vllm_drafts_a_chain(tmp_path, diagnose):
    text = "".join(
        V0.format(n=n, rate=0.999, accepted=2997 * n, drafted=3000 * n, emitted=3597 * n)
        for n in range(1, 41)
    )
    found = counted(text, tmp_path, diagnose, "server.log")
    facts = found.runs[0].facts
    assert (facts["tree"], facts["draft_tokens"]) == (False, 6)
    assert [one.rule.name for one in found.findings] == ["acceptance_too_perfect"]
