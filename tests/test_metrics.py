"""Scrapes, GPU monitors and the state of a server: their times, rates, shares, and what follows."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from specdiag import content

START = datetime(2026, 7, 20, 9, 20, 10)
LABELS = 'engine="0",model_name="m"'


def scrape(n, drafts=100, accepted=(80, 50, 20), labels=LABELS):
    """The n-th scrape of a vLLM server that goes on in the same way."""
    lines = [
        f"vllm:spec_decode_num_drafts_total{{{labels}}} {drafts * n}",
        f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {3 * drafts * n}",
        f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {sum(accepted) * n}",
        *(f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{k}"}} {a * n}' for k, a in enumerate(accepted)),
        f"vllm:generation_tokens_total{{{labels}}} {(drafts + sum(accepted)) * n}",
        *(f'vllm:itl_seconds_bucket{{{labels},le="{le}"}} {count * n}' for le, count in (("0.01", 50), ("0.02", 90), ("+Inf", 100))),
        f"vllm:itl_seconds_count{{{labels}}} {100 * n}",
        f"vllm:itl_seconds_sum{{{labels}}} {1.5 * n}",
    ]  # fmt: skip
    return "".join(line + "\n" for line in lines)


CLOCKS = {
    "date": lambda t: f"{t:%a %b %d %H:%M:%S} UTC {t:%Y}\n",
    "date without zone": lambda t: f"{t:%a %b} {t.day:2} {t:%H:%M:%S %Y}\n",
    "iso": lambda t: f"{t.isoformat()}Z\n",
    "comment": lambda t: f"# scraped at {t:%Y-%m-%d %H:%M:%S.%f}\n",
    "heading": lambda t: f"==== {t:%Y-%m-%d %H:%M:%S} ====\n",
    "epoch": lambda t: f"{(t - datetime(1970, 1, 1)).total_seconds():.0f}\n",
    "epoch milliseconds": lambda t: f"# {(t - datetime(1970, 1, 1)).total_seconds() * 1000:.0f}\n",
}


@pytest.fixture
def filled(tmp_path, load):
    def fill(text, name="metrics.prom"):
        path = tmp_path / name
        path.write_text(text)
        found = load(path)
        assert not found.notices
        return found

    return fill


def test_llamacpp_counts_its_drafts_as_vllm_does(filled):
    text = "".join(
        CLOCKS["iso"](START + timedelta(seconds=10 * n)) + scrape(n + 1) for n in range(3)
    )
    text = text.replace("vllm:generation_tokens_total", "llamacpp:tokens_predicted_total")
    found = filled(text.replace("vllm:", "llamacpp:"))
    query = "SELECT steps, commit_len, positions, tokens_per_s FROM acceptance ORDER BY line"
    first, *later = found.rows(query)
    row = {"steps": 100, "commit_len": 2.5, "positions": [0.8, 0.5, 0.2], "tokens_per_s": 25.0}
    assert later == [row, row]
    assert first == row | {"tokens_per_s": None}
    assert found.rows("SELECT accept_len, speculates FROM run") == [
        {"accept_len": 2.5, "speculates": True}
    ]


@pytest.mark.parametrize("clock", CLOCKS)
def test_scrapes_have_their_times_and_rates(filled, clock):
    text = "".join(
        CLOCKS[clock](START + timedelta(seconds=10 * n)) + scrape(n + 1) for n in range(3)
    )
    found = filled(text).rows(
        "SELECT time, scrape, value, per_s FROM metric WHERE name = 'vllm:generation_tokens_total' ORDER BY line"
    )
    assert [row["scrape"] for row in found] == [1, 2, 3]
    assert [row["time"] for row in found] == [START + timedelta(seconds=10 * n) for n in range(3)]
    assert [row["per_s"] for row in found] == [None, 25, 25]


def test_samples_may_have_times_of_their_own(filled):
    text = "".join(
        f"# TYPE a_total counter\na_total {n * 5} {1784539210000 + 2000 * n}\n" for n in range(3)
    )
    found = filled(text).rows("SELECT time, per_s FROM metric ORDER BY line")
    assert found[2] == {"time": START + timedelta(seconds=4), "per_s": 2.5}


def test_acceptance_is_counted_between_scrapes(filled):
    text = scrape(1) + scrape(2, accepted=(100, 100, 100)) + scrape(1)  # started again
    found = filled(text).rows(
        "SELECT steps, accepted_tokens, accept_rate, commit_len, positions FROM acceptance ORDER BY line"
    )
    assert found[0] == {
        "steps": 100, "accepted_tokens": 150, "accept_rate": 0.5, "commit_len": 2.5, "positions": [0.8, 0.5, 0.2],
    }  # fmt: skip
    assert found[1]["accepted_tokens"] == 450 and found[1]["positions"] == [1.2, 1.5, 1.8]
    assert found[2] == found[0]


def test_histograms_give_quantiles(filled):
    found = filled(scrape(1) + scrape(3)).rows("FROM histogram ORDER BY scrape")
    assert [(row["name"], row["count"], row["labels"]) for row in found] == [
        ("vllm:itl_seconds", 100, LABELS), ("vllm:itl_seconds", 200, LABELS),
    ]  # fmt: skip
    assert found[1]["mean"] == pytest.approx(0.015)
    assert (found[1]["p50"], found[1]["p90"], found[1]["p99"]) == pytest.approx((0.01, 0.02, 0.02))


def test_the_old_counters_of_vllm_give_a_rate(filled):
    names = ("accepted_tokens", "draft_tokens", "emitted_tokens")
    text = "# TYPE x gauge\n" + "".join(
        f'vllm:spec_decode_num_{name}_total{{model_name="m"}} {n}\n' for name, n in zip(names, (60, 100, 85), strict=True)
    )  # fmt: skip
    (row,) = filled(text).rows("SELECT accept_rate, commit_len FROM acceptance")
    assert row == {"accept_rate": 0.6, "commit_len": None}


def gauges(length, rank="0"):
    return "".join(
        f'sglang:{name}{{model_name="m",tp_rank="{rank}"}} {value}\n'
        for name, value in (("spec_accept_length", length), ("spec_accept_rate", length / 4), ("gen_throughput", 100.0))
    )  # fmt: skip


def test_a_gauge_that_stands_still_is_no_evidence(filled):
    text = "".join(gauges(length) + gauges(9, rank="1") for length in (2.5, 2.5, 2.75, 0.0, 2.5))
    found = filled(text).rows("SELECT commit_len FROM acceptance ORDER BY line")
    assert [row["commit_len"] for row in found] == [2.5, 2.75, 2.5]


def test_what_the_log_says_is_not_counted_twice(tmp_path, load, root):
    log = (root / "sample_logs/healthy-eagle-0.4.log").read_text()
    (tmp_path / "server.log").write_text(log)
    (tmp_path / "metrics.prom").write_text(gauges(2.5))
    found = load(tmp_path)
    assert found.rows("FROM acceptance") == [] and len(found.rows("FROM run")) == 1


def test_a_draft_that_is_never_accepted_is_seen_in_metrics(tmp_path, diagnose):
    path = tmp_path / "metrics.prom"
    path.write_text("".join(scrape(n, accepted=(0, 0, 0)) for n in range(1, 7)))
    assert "draft_never_accepted" in [one.rule.name for one in diagnose(path).findings]


# GPU monitors ------------------------------------------------------------------------------------

SMI = (
    "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], pstate\n"
    "2026/07/20 09:20:10.500, 0, NVIDIA H200, 56 %, 70144 MiB, 412.50 W, P0\n"
    "2026/07/20 09:20:10.500, 1, NVIDIA H200, 7 %, [N/A], [Not Supported], P0\n"
    "2026/07/20 09:20:11.500, 0, NVIDIA H200, 58 %, 70144 MiB, 413.50 W, P0\n"
)


@pytest.mark.parametrize(
    ("counter", "pool"),
    [
        ("vllm:num_preemptions_total", "vllm:kv_cache_usage_perc"),
        ("sglang:num_retracted_requests_total", "sglang:token_usage"),
    ],
)
@pytest.mark.parametrize(
    ("each", "usage", "stormy"), [(9, 0.97, True), (9, 0.4, False), (0, 1.0, False)]
)
def test_a_server_that_was_only_scraped_throws_requests_out(
    counter, pool, each, usage, stormy, tmp_path, diagnose
):
    path = tmp_path / "metrics.prom"
    path.write_text(
        "".join(
            CLOCKS["iso"](START + timedelta(seconds=60 * n))
            + f"{counter}{{{LABELS}}} {each * n}\n{pool}{{{LABELS}}} {usage}\n"
            + scrape(n + 1)
            for n in range(8)
        )
    )
    found = [one for one in diagnose(path).findings if one.rule.name == "retraction_storm"]
    assert [one.values["retractions"] for one in found] == [63] * stormy


@pytest.mark.parametrize("units", [True, False])
def test_nvidia_smi_is_read_with_units_and_without(filled, units):
    text = SMI if units else SMI.replace(" %,", ",").replace(" MiB,", ",").replace(" W,", ",")
    found = filled(text, "gpu.csv").rows(
        "SELECT time, name, device, value, unit, scrape FROM metric ORDER BY name, device, line"
    )
    assert len(found) == 7
    assert found[-1] == {
        "time": datetime(2026, 7, 20, 9, 20, 10, 500_000), "name": "utilization.gpu", "device": "1",
        "value": 7.0, "unit": "%", "scrape": 1,
    }  # fmt: skip
    assert [row["value"] for row in found if row["name"] == "power.draw"] == [412.5, 413.5]


@pytest.mark.parametrize("size", [200, 400])
def test_a_heading_counts_for_the_whole_file(filled, monkeypatch, size):

    whole = filled(SMI, "gpu.csv").rows("SELECT * EXCLUDE run FROM metric ORDER BY ALL")
    monkeypatch.setattr(content, "BLOCK", size)
    assert filled(SMI, "gpu.csv").rows("SELECT * EXCLUDE run FROM metric ORDER BY ALL") == whole


def test_another_table_is_none_of_them(tmp_path, load):
    path = tmp_path / "x.csv"
    path.write_text("name, value\na, 1\nb, 2\n")
    assert [one.what for one in load(path).notices] == ["no parser knows this file"]


def test_a_row_that_was_torn_is_named(tmp_path, load):
    path = tmp_path / "gpu.csv"
    path.write_text(SMI + "2026/07/20 09:20:12.500, 0, NVIDIA H2")
    (notice,) = load(path).notices
    assert "not understood" in notice.what and notice.where.endswith(":5")


def test_dcgm_and_dmon_share_their_devices(filled):
    dcgm = "#Entity   GRACT        SMACT\nID\nGPU 0     N/A          N/A\nGPU 0     0.984        0.930\nGPU 1     0.5          0.25\n"
    found = filled(dcgm, "dcgm.log").rows(
        "SELECT device, name, value FROM metric ORDER BY line, name"
    )
    assert found[0] == {"device": "0", "name": "GRACT", "value": 0.984} and len(found) == 4


# The state of a server -----------------------------------------------------------------------------

ARGUMENTS = {"model_path": "m", "tokenizer_path": "m", "tp_size": 1, "speculative_algorithm": "EAGLE", "version": "0.5.9"}  # fmt: skip
STATE = {"last_gen_throughput": 200.5, "avg_spec_accept_length": 2.75, "step_time_dict": {"1": [0.01, 0.012, 0.011], "4": [0.02]}}  # fmt: skip


@pytest.mark.parametrize(
    "answer", [{**ARGUMENTS, **STATE}, {**ARGUMENTS, "internal_states": [{**ARGUMENTS, **STATE}]}]
)
@pytest.mark.parametrize("indent", [None, 2])
def test_the_state_of_any_release_is_read(filled, answer, indent):
    found = filled(json.dumps(answer, indent=indent) + "\n", "server_info.json")
    (row,) = found.rows("SELECT algorithm, speculates, accept_len, tokens_per_s, step_ms FROM run")
    assert row["step_ms"] == pytest.approx(11.5)
    assert (row["algorithm"], row["speculates"], row["accept_len"], row["tokens_per_s"]) == (
        "EAGLE", True, 2.75, 200.5,
    )  # fmt: skip
    assert found.rows("SELECT running, ms FROM time_sample ORDER BY ms")[-1] == {
        "running": 4.0,
        "ms": 20.0,
    }


def test_records_in_records_have_the_keys_around_them(filled, root):
    text = (root / "sample_logs/healthy-server-info.json").read_text()
    found = filled(text, "server_info.json").rows(
        "SELECT step, request, ctx_len, step_ms FROM step ORDER BY step"
    )
    assert len(found) == 12 and found[0]["step"] == 100 and found[0]["request"] == "a1"
    assert all(row["step_ms"] > 10 for row in found)


def test_benchmarks_without_drafts_do_not_speculate(load, root):
    found = load(root / "sample_logs/healthy-clients/speculative.jsonl")
    runs = found.rows("SELECT run, speculates, accept_len FROM run ORDER BY run")
    assert [row["speculates"] for row in runs] == [False, True, True] * 2
    printed = load(root / "sample_logs/healthy-clients/speculative.txt")
    again = printed.rows("SELECT speculates, accept_len FROM run ORDER BY run")
    assert [row["speculates"] for row in again] == [False, True, True] * 2
    assert again[1]["accept_len"] == pytest.approx(runs[1]["accept_len"], rel=0.01)
