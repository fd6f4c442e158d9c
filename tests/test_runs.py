"""What becomes a run, and which files and lines belong to it."""

from __future__ import annotations

import gzip
import json

import pytest

from specdiag.runs import in_order

STARTED = (
    "[{at} {rank}] server_args=ServerArgs(model_path='a/target', page_size=1, "
    "speculative_algorithm={algorithm!r}, speculative_num_draft_tokens=4)"
)
READY = "[{at} {rank}] The server is fired up and ready to roll!"
DECODE = (
    "[{at} {rank}] Decode batch, #running-req: 1, #token: 640, token usage: 0.01, accept len: 2.50, "
    "accept rate: 0.50, cuda graph: True, gen throughput (token/s): 100.00, #queue-req: 0"
)


def life(minute, count=3, rank="TP0", algorithm="EAGLE3", arguments=True):
    """A server's log from this minute on: its start and its decode lines."""
    lines = [STARTED, READY] if arguments else []
    lines += [DECODE] * count
    texts = [
        line.format(at=f"2026-03-14 10:{minute:02}:{n:02}", rank=rank, algorithm=algorithm)
        for n, line in enumerate(lines)
    ]
    return "".join(text.replace(" ]", "]") + "\n" for text in texts)


def step(**values):
    return (
        json.dumps({"step": 1, "rid": "r", "accepted_depth": 1, "commit_len": 2, **values}) + "\n"
    )


def request(**values):
    record = {"id": "c1", "prompt_tokens": 5, "completion_tokens": 9, "spec_verify_ct": 4, **values}
    return json.dumps(record) + "\n"


def benchmark(algorithm="EAGLE3"):
    record = {
        "backend": "sglang", "output_throughput": 100.0, "mean_e2e_latency_ms": 9.0,
        "request_throughput": 1.0, "total_output_tokens": 900, "completed": 9, "duration": 9.0,
        "server_info": {"model_path": "a/target", "speculative_algorithm": algorithm},
    }  # fmt: skip
    return json.dumps(record) + "\n"


@pytest.fixture
def runs(tmp_path, load):
    """Write files, read them all, and say which run each row of a table is in."""

    def runs(files, *paths, table="decode"):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        filled = load(*(tmp_path / name for name in paths or ["."]))
        assert not filled.notices
        named = {row["run"] for row in filled.rows("SELECT run FROM run")}
        found = filled.rows(f"SELECT run, count(*) AS rows FROM {table} GROUP BY run ORDER BY run")
        assert {row["run"] for row in found} <= named
        return {row["run"]: row["rows"] for row in found}

    return runs


# One server --------------------------------------------------------------------------------------


def test_a_file_is_a_run_of_its_name(runs):
    assert runs({"server.log": life(1)}, "server.log") == {"server": 3}


def test_a_log_in_a_folder_is_a_run_of_the_folders_name(runs):
    assert runs({"exp/server.log": life(1)}, "exp") == {"exp": 3}


def test_a_second_start_is_a_second_run(runs):
    text = life(1) + life(20, count=2)
    assert runs({"server.log": text}, "server.log") == {"server": 3, "server#2": 2}


def test_a_start_of_which_nothing_came_is_no_run(runs):
    text = STARTED.format(at="2026-03-14 10:01:00", rank="TP0", algorithm="EAGLE3") + "\n" + life(2)
    assert runs({"server.log": text}, "server.log") == {"server": 3}


def test_rows_before_the_first_start_are_a_run(runs):
    text = life(1, arguments=False) + life(20, count=2)
    assert runs({"server.log": text}, "server.log") == {"server": 3, "server#2": 2}


@pytest.mark.parametrize(
    "names",
    [
        ("server_rank0.log", "server_rank1.log"),
        ("server.tp0.log", "server.tp1.log"),
        ("server-node-0.log", "server-node-1.log"),
    ],
)
def test_rank_files_of_a_server_are_one_run(runs, names):
    files = {f"exp/{name}": life(1, rank=f"TP{n}") for n, name in enumerate(names)}
    assert runs(files, "exp") == {"exp": 6}
    assert runs(files, *files) == {"server": 6}


def test_servers_of_other_sizes_are_runs_of_their_own(runs):
    wide = life(1).replace("page_size=1", "page_size=1, tp_size=8, dp_size=8")
    files = {"exp/tp8.log": life(1), "exp/dp8.log": wide}
    assert runs(files, "exp") == {"tp": 3, "dp": 3}
    one = life(1).replace("page_size=1", "page_size=1, tp_size=8, dp_size=1")
    files = {"abc/server_tp8.log": one, "abc/server_dp8.log": wide}
    assert len(runs(files, "abc")) == 2


@pytest.mark.parametrize(
    "names",
    [
        ("server.log.1", "server.log"),
        ("server.log.2026-03-13", "server.log"),
        ("server.log.20260313", "server.log"),
    ],
)
def test_rotated_parts_of_a_log_are_one_run(runs, names):
    first, second = names
    files = {f"exp/{first}": life(1), f"exp/{second}": life(5, count=2, arguments=False)}
    assert runs(files, "exp") == {"exp": 5}
    assert runs(files, *files) == {"server": 5}


@pytest.mark.parametrize(
    "names",
    [
        ("server.log.2.gz", "server.log.1", "server.log"),
        ("server.log.10", "server.log.9", "server.log.8"),
        ("server.log-20260313.gz", "server.log-20260314", "server.log"),
        ("server.log.2026-03-13_10", "server.log.2026-03-13_11", "server.log"),
        ("0.log.20260313-102107.gz", "0.log.20260314-102107", "0.log"),
    ],
)
def test_parts_that_print_no_time_are_read_in_the_order_of_their_names(names, tmp_path, load):
    """Of llama.cpp's log nothing but the names of its parts tells which is the oldest."""
    drafted = "draft acceptance = 0.50000 (   {n} accepted /   10 generated)\n"
    first = "build: 4321 (0badcafe) with cc (Debian) 12.2.0 for x86_64-linux-gnu\n"
    for n, name in enumerate(names, start=1):
        text = (first if n == 1 else "") + drafted.format(n=n)
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    filled = load(tmp_path)
    assert [row["run"] for row in filled.rows("SELECT run FROM run")] == [tmp_path.name]
    rows = filled.rows("SELECT accepted_tokens AS n FROM acceptance ORDER BY source, line")
    assert [row["n"] for row in rows] == [1, 2, 3]


def test_rows_of_rotated_parts_are_in_order_of_time(tmp_path, load):
    (tmp_path / "server.log.1").write_text(life(1))
    (tmp_path / "server.log").write_text(life(5, arguments=False))
    filled = load(tmp_path)
    # The first report of a run covers no known time; that of a later part does.
    rows = filled.rows("SELECT idle FROM decode ORDER BY time")
    assert [row["idle"] for row in rows] == [True, False, False, False, False, False]


def test_other_starts_in_rotated_parts_are_other_runs(runs):
    files = {"server.log.1": life(1), "server.log": life(20, count=2)}
    assert runs(files) == {next(iter(runs(files))): 3, f"{next(iter(runs(files)))}#2": 2}


# Several files -----------------------------------------------------------------------------------


def test_logs_of_other_names_are_other_runs(runs):
    files = {"exp/on.log": life(1), "exp/off.log": life(30, count=2, algorithm=None)}
    assert runs(files, "exp") == {"off": 2, "on": 3}


def test_a_folder_of_one_of_each_kind_is_a_run(runs):
    files = {
        "exp/server.log": life(1), "exp/requests.jsonl": request(), "exp/bench.jsonl": benchmark(),
    }  # fmt: skip
    for table, rows in (("decode", 3), ("request", 1), ("benchmark", 1)):
        assert runs(files, "exp", table=table) == {"exp": rows}


def test_a_benchmark_of_another_algorithm_is_another_run(runs):
    files = {"exp/server.log": life(1), "exp/bench.jsonl": benchmark("NGRAM")}
    assert runs(files, "exp", table="benchmark") == {"bench": 1}
    assert runs(files, "exp") == {"exp": 3}


def test_files_that_share_a_stem_are_a_run(runs):
    files = {
        "exp/on.log": life(1), "exp/on.requests.jsonl": request(),
        "exp/off.log": life(30, algorithm=None), "exp/off.requests.jsonl": request(),
    }  # fmt: skip
    assert runs(files, "exp", table="request") == {"off": 1, "on": 1}


def test_the_same_name_in_two_folders_stays_apart(runs):
    found = runs(
        {"a/server.log": life(1), "b/server.log": life(1, count=2)}, "a/server.log", "b/server.log"
    )
    assert sorted(found.values()) == [2, 3] and len(found) == 2
    assert all(name.endswith("server") for name in found)


def test_folders_in_a_folder_are_runs_of_their_own(runs):
    files = {"all/a/server.log": life(1), "all/b/server.log": life(1, count=2)}
    assert runs(files, "all") == {"a": 3, "b": 2}


def test_a_file_that_is_named_twice_is_read_once(runs):
    assert runs({"exp/server.log": life(1)}, "exp", "exp/server.log", "exp") == {"exp": 3}


def test_order_of_arguments_changes_no_run(runs):
    files = {"exp/on.log": life(1), "exp/off.log": life(30, count=2, algorithm=None)}
    assert runs(files, "exp/on.log", "exp/off.log") == runs(files, "exp/off.log", "exp/on.log")


# Traces ------------------------------------------------------------------------------------------


def test_arms_of_a_trace_are_runs(runs):
    text = step(arm="chain") + step(arm="tree", step=2) + step(arm="tree", step=3)
    assert runs({"t.jsonl": text}, "t.jsonl", table="step") == {"t:chain": 1, "t:tree": 2}


def test_a_trace_of_one_arm_is_a_run(runs):
    text = step(arm="tree") + step(arm="tree", step=2)
    assert runs({"t.jsonl": text}, "t.jsonl", table="step") == {"t": 2}


def test_a_trace_beside_a_server_log_belongs_to_it(runs):
    files = {"exp/server.log": life(1), "exp/steps.jsonl": step(algorithm="EAGLE3")}
    assert runs(files, "exp", table="step") == {"exp": 1}


def test_a_trace_of_another_algorithm_does_not(runs):
    files = {"exp/server.log": life(1), "exp/steps.jsonl": step(algorithm="DDTREE")}
    assert runs(files, "exp", table="step") == {"steps": 1}


@pytest.mark.parametrize(
    ("target", "run"),
    [("meta-llama/Llama-3.1-8B-Instruct", "exp"), ("/models/Llama-3.1-8B-Instruct/", "exp"),
     ("~/hub/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/0e9e", "exp"),
     ("Qwen/Qwen3-8B", "steps")],
)  # fmt: skip
def test_a_trace_belongs_to_the_server_of_its_model(runs, target, run):
    head = json.dumps({"record": "run", "schema": 1, "run": "steps", "target": target}) + "\n"
    body = json.dumps({"record": "step", "schema": 1, "run": "steps", "request": "r", "step": 1, "parents": [-1], "accepted": [0],
                       "commit_len": 1}) + "\n"  # fmt: skip
    server = life(1).replace("a/target", "meta-llama/Llama-3.1-8B-Instruct")
    files = {"exp/server.log": server, "exp/steps.jsonl": head + body}
    assert [name.split(":")[0] for name in runs(files, "exp", table="step")] == [run]


def test_arms_beside_a_server_log_keep_their_own_name(runs):
    files = {"exp/server.log": life(1), "exp/steps.jsonl": step(arm="a") + step(arm="b")}
    assert runs(files, "exp", table="step") == {"steps:a": 1, "steps:b": 1}


# Peers -------------------------------------------------------------------------------------------


def test_runs_of_a_folder_can_be_compared(tmp_path, load):
    (tmp_path / "on.log").write_text(life(1))
    (tmp_path / "off.log").write_text(
        life(30, algorithm=None).replace("accept len: 2.50, accept rate: 0.50, ", "")
    )
    filled = load(tmp_path)
    assert filled.rows("SELECT * FROM baseline") == [{"run": "on", "against": "off"}]
    assert filled.rows("SELECT * FROM chain") == [{"run": "off", "against": "on"}]


def test_runs_of_other_models_cannot_be_compared(tmp_path, load):
    (tmp_path / "on.log").write_text(life(1))
    (tmp_path / "off.log").write_text(life(30).replace("a/target", "b/target"))
    assert load(tmp_path).rows("SELECT * FROM peer") == []


def test_runs_are_told_in_the_order_in_which_a_person_counts(diagnose, tmp_path):
    (tmp_path / "server.log").write_text("".join(life(minute) for minute in range(12)))
    names = [run.name for run in diagnose(tmp_path / "server.log").runs]
    assert names == ["server"] + [f"server#{n}" for n in range(2, 13)]


def test_of_very_many_runs_a_table_shows_the_worst(diagnose, tmp_path):
    died = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB.\n"
    (tmp_path / "server.log").write_text("".join(life(minute) for minute in range(50)) + died)
    told = str(diagnose(tmp_path / "server.log"))
    assert "and 10 more runs" in told
    assert " server#50 " in told[: told.index("and 10 more runs")]


def test_any_name_has_a_place_in_the_order():
    names = ["b", "a#2", "a#10", "a", "a#1", "a#01", "7" * 5000, "", "\u0663"]
    ordered = sorted(names, key=in_order)
    assert [name for name in ordered if name.startswith("a")] == ["a", "a#01", "a#1", "a#2", "a#10"]
    assert ordered == sorted(reversed(names), key=in_order)
