"""The benchmark measures every arm on the same prompts, and leaves traces that can be analysed."""

from __future__ import annotations

import json
import math

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import bench, corpus, decode, passages, tables  # noqa: E402
from specdiag.ddtree.architecture import (  # noqa: E402
    FULL,
    SLIDING,
    Architecture,
    DraftArchitecture,
    Rope,
)
from specdiag.ddtree.drafter import Drafter  # noqa: E402
from specdiag.ddtree.model import Target  # noqa: E402
from specdiag.ddtree.pair import Pair  # noqa: E402
from specdiag.errors import SpecdiagError  # noqa: E402

BLOCK = 6
SETTINGS = bench.Settings(
    prompts=6, prompt_tokens=24, max_new_tokens=14, budgets=(1, 4, 12), shadow_budget=8, top_k=3
)


class Following(Drafter):
    """A drafter for a target whose next token depends on the last one alone; often right."""

    follows: torch.Tensor  # [vocab] the target's choice behind each token

    def forward(self, ids, cache, target, positions=None, columns=None):
        vocab = len(self.follows)
        logits = torch.zeros(len(ids), self.depths, vocab)
        for row, token in enumerate(ids[:, 0].tolist()):
            for depth in range(self.depths):
                token = int(self.follows[token])
                noise = torch.Generator().manual_seed(1000 * token + depth)
                logits[row, depth] = torch.rand(vocab, generator=noise)
                luck = float(torch.rand(1, generator=noise))
                logits[row, depth, token] += 6.0
                if luck < 0.3:
                    logits[row, depth, (token + 7) % vocab] += 7.0
        return logits


@pytest.fixture
def pair(tokenizer, tmp_path):
    """A target without attention, which a drafter can know, and positions for 160 tokens."""
    torch.manual_seed(3)
    shape = dict(
        vocab_size=300, hidden_size=32, intermediate_size=48, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, rope={FULL: Rope(), SLIDING: Rope()},
        max_position_embeddings=160, sliding_window=12,
    )  # fmt: skip
    target = Target.random(Architecture(**shape, layer_types=(SLIDING, FULL)), std=0.4).eval()
    for layer in target.layers:
        layer.self_attn.o_proj.weight.data.zero_()
    of = DraftArchitecture(
        **shape,
        layer_types=(FULL,),
        block_size=BLOCK,
        mask_token_id=1,
        num_target_layers=2,
        target_layer_ids=(0, 1),
    )
    drafter = Following.random(of).eval()
    with torch.no_grad():
        ids = torch.arange(300)[:, None]
        drafter.follows = target(ids, torch.zeros_like(ids)).logits[:, 0].argmax(-1)
    return Pair("tiny", target, drafter, tokenizer, tmp_path / "target", tmp_path / "drafter")


def arm(name, seconds, tokens, texts=None):
    found = bench.Arm(name, decode.Options(run=name))
    found.seconds, found.tokens, found.texts = seconds, tokens, texts or {}
    return found


def row(name, budget, speed, spread=0.01, mode="ddtree", commit=4.0):
    return {
        "arm": name, "mode": mode, "budget": budget, "tokens_per_s": 100 * speed,
        "commit_len": commit, "break_even_commit_len": commit / speed, "speed_up": speed,
        "speed_up_interval": (speed - spread, speed + spread),
    }  # fmt: skip


def test_table_file_and_traces_tell_the_same(pair, tmp_path, analyze):
    out, turns = tmp_path / "out", []
    found = bench.run(pair, SETTINGS, out, lambda: turns.append(1))
    assert found == json.loads((out / "bench.json").read_text())
    names = ["autoregressive", "linear", "shadow_linear", "ddtree-1", "ddtree-4", "ddtree-12"]
    assert [each["arm"] for each in found["arms"]] == names
    assert len(turns) == bench.turns(SETTINGS) == 6 * 6
    assert found["differences"] == [] and found["environment"]["threads"] == 1

    shown = tables.bench(found)
    for each in found["arms"]:
        (line,) = [line for line in shown.splitlines() if line.split(" ")[0] == each["arm"]]
        cells = line.split()
        assert cells[1:4] == [
            f"{each['tokens_per_s']:,.1f}",
            f"{each['commit_len']:.2f}",
            f"{each['steps']:,}",
        ]
        assert f"{each['speed_up']:.2f}x" in cells
        assert math.isclose(sum(each["shares"].values()), 1) and min(each["shares"].values()) >= 0
        assert each["tokens"] == 6 * 13
        if each["arm"] != "autoregressive":
            low, high = each["speed_up_interval"]
            assert low <= each["speed_up"] <= high
    assert "Best budget" in shown and "Not the same text" not in shown

    judged, store = analyze(out)
    for each in found["arms"]:
        query = f"SELECT count(*), avg(commit_len) FROM step WHERE run = '{each['arm']}'"
        steps, commit = store.db.execute(query).fetchone()
        assert steps == each["steps"] and math.isclose(commit, each["commit_len"])
    by_name = {each["arm"]: each["commit_len"] for each in found["arms"]}
    assert by_name["autoregressive"] == 1 < by_name["ddtree-1"] < by_name["ddtree-12"]
    assert by_name["linear"] == by_name["shadow_linear"] > 1.5

    bad = [(one.rule.name, one.run, one.message) for one in judged.findings
           if one.severity in ("critical", "high", "medium")]  # fmt: skip
    assert bad == []


def test_arms_take_turns_and_no_arm_always_begins(pair, tmp_path, monkeypatch):
    order = []
    measure = bench._measure
    monkeypatch.setattr(
        bench, "_measure", lambda arm, *rest: (order.append(arm.name), measure(arm, *rest))
    )
    bench.run(pair, SETTINGS, tmp_path)
    rounds = [order[at : at + 6] for at in range(0, len(order), 6)]
    assert all(sorted(each) == sorted(rounds[0]) for each in rounds)
    assert len({each[0] for each in rounds}) == 6


def test_requests_of_a_batch_share_the_time_of_a_step(pair, tmp_path):
    from dataclasses import replace

    found = bench.run(pair, replace(SETTINGS, batch=4, temperature=0.7), tmp_path)
    for each in found["arms"]:
        assert len(each["seconds_by_batch"]) == 2 and each["speed_up_interval"] is None
        assert each["shares"]["other"] > 0, "a step's time was counted for each of its rows"
    assert "too few prompts" in tables.bench(found)


def test_arms_of_an_earlier_benchmark_do_not_stay_in_the_folder(pair, tmp_path):
    from dataclasses import replace

    (tmp_path / "ddtree-99").mkdir()
    (tmp_path / "ddtree-99" / "steps.jsonl").write_text("{}\n")
    (tmp_path / "ddtree-99" / "mine.txt").write_text("kept")
    bench.run(pair, replace(SETTINGS, prompts=1, budgets=(4,)), tmp_path)
    assert [file.name for file in (tmp_path / "ddtree-99").iterdir()] == ["mine.txt"]


def test_the_interval_is_paired_and_holds_the_ratio_of_sums():
    plain = arm("plain", [1.0, 2.0, 4.0, 8.0, 3.0, 5.0], [10] * 6)
    twice = arm("twice", [0.5, 1.0, 2.0, 4.0, 1.5, 2.5], [10] * 6)
    ratio, (low, high) = bench.speed_up(twice, plain, seed=1)
    assert ratio == low == high == 2.0, "a drift that hits both arms alike leaves no interval"
    noisy = arm("noisy", [0.4, 1.4, 1.5, 5.0, 1.1, 3.0], [10] * 6)
    ratio, (low, high) = bench.speed_up(noisy, plain, seed=1)
    assert low < ratio < high and ratio == pytest.approx(23 / 12.4)
    assert bench.speed_up(noisy, plain, seed=1) == (ratio, (low, high))
    few = arm("few", [1.0, 1.0], [10, 10])
    assert bench.speed_up(few, few, seed=1) == (1.0, None)


def test_another_text_is_named_with_its_first_place():
    plain = arm("plain", [], [], {"p000": [1, 2, 3], "p001": [4, 5, 6]})
    wrong = arm("ddtree-4", [], [], {"p000": [1, 2, 3], "p001": [4, 7, 6]})
    (one,) = bench.differences(plain, [arm("linear", [], [], dict(plain.texts)), wrong])
    assert one == {"arm": "ddtree-4", "prompts": 1, "first": "p001", "token": 1}
    result = {"settings": {"temperature": 0, "prompts": 2}, "environment": {"dtype": "float32"}}
    said = tables.difference(one, result)
    assert "ddtree-4" in said and "1 of 2" in said and "p001 at token 1" in said


def test_the_remark_says_where_a_tree_stops_paying():
    arms = [
        row("autoregressive", 0, 1.0, mode="autoregressive"),
        row("linear", 0, 1.8, mode="linear"),
    ]
    arms += [
        row(f"ddtree-{b}", b, s) for b, s in ((1, 1.2), (8, 1.9), (32, 2.3), (64, 1.7), (128, 0.9))
    ]
    best, beyond = tables.remarks(arms)
    assert best.startswith("Best budget 32: 2.30x plain decoding (2.29 to 2.31), 1.28x the linear")
    assert "from budget 64 on it is surely slower than at the best" in beyond
    assert "from budget 64 on it is slower than the chain" in beyond
    assert "from budget 128 on it is slower than plain decoding" in beyond
    assert "largest budget measured" in tables.remarks(arms[:-2])[1]
    level = [*arms[:5], row("ddtree-64", 64, 2.29, 0.2)]
    assert "not decided" in tables.remarks(level)[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "poems"}, "no kind of text"),
        ({"prompt_tokens": 150}, "positions"),
        ({"budgets": ()}, "budget"),
        ({"prompts": 0}, "1 or more"),
        ({"max_new_tokens": 1}, "prefill"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is_written(pair, tmp_path, change, words):
    from dataclasses import replace

    with pytest.raises(SpecdiagError, match=words):
        bench.run(pair, replace(SETTINGS, **change), tmp_path / "out")
    with pytest.raises(SpecdiagError, match="drafter"):
        bench.run(replace(pair, drafter=None), SETTINGS, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", corpus.KINDS)
def test_prompts_have_their_length_and_are_the_same_again(tokenizer, kind):
    drawn = passages.held_out(tokenizer, kind, 3, 150, seed=5)
    assert [len(each) for each in drawn] == [150] * 3
    assert drawn == passages.held_out(tokenizer, kind, 3, 150, seed=5)
    assert len({tuple(each) for each in drawn}) == 3


def test_a_short_predictable_text_is_the_end_of_a_long_one(tokenizer):
    long = passages.predictable(tokenizer, 600, seed=2)
    assert len(long) == 600 and passages.predictable(tokenizer, 128, seed=2) == long[-128:]


def test_command_measures_and_says_where_the_traces_are(specdiag, pair, tmp_path, monkeypatch):
    from specdiag.ddtree.commands import bench as command

    monkeypatch.setattr(command, "load_pair", lambda *options: pair)
    told = specdiag(
        "ddtree", "bench", "--prompts", 2, "--prompt-tokens", 20, "--max-new-tokens", 12,
        "--budgets", "4,2", "--out", tmp_path / "b",
    )  # fmt: skip
    assert told.code == 0 and "ddtree-2" in told.out and "ddtree-4" in told.out
    assert (tmp_path / "b" / "linear" / "steps.jsonl").is_file()
    assert (tmp_path / "b" / "linear" / "server.log").is_file()
    wrong = specdiag("ddtree", "bench", "--budgets", "4,x")
    assert wrong.code == 2 and "--budgets" in wrong.err
