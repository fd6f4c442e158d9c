"""Training: the corpus, the tokenizer, and pairs made from scratch that load and decode."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import corpus, pair, train, training  # noqa: E402
from specdiag.ddtree.decode import Options, Request, decode  # noqa: E402
from specdiag.ddtree.recipes import RECIPES, Pool, Schedule  # noqa: E402
from specdiag.ddtree.tokenizer import END, MASK, Tokenizer  # noqa: E402
from specdiag.errors import SpecdiagError  # noqa: E402


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(corpus.passages("code", 20, 2_000), 400)


def test_held_out_modules_are_never_trained_on():
    held_out, others = corpus.modules(held_out=True), corpus.modules(held_out=False)
    assert len(held_out) > 20 and len(others) > 10 * len(held_out)
    assert not {*held_out} & {*others}


@pytest.mark.parametrize("kind", corpus.KINDS)
def test_passages_are_held_out_and_the_same_for_the_same_seed(kind):
    first = corpus.passages(kind, 5, 500, seed=3)
    assert first == corpus.passages(kind, 5, 500, seed=3) != corpus.passages(kind, 5, 500, seed=4)
    assert all(0 < len(text) <= 500 for text in first)
    everything = "\n".join(corpus.modules(held_out=True))
    for text in first:
        words = text.split()[1:-1]
        assert all(word in everything for word in words)


def test_repeated_passages_repeat_and_shuffled_words_have_no_order():
    (again,) = corpus.passages("repeated", 1, 3_000)
    line = max(again.splitlines(), key=len)
    assert again.count(line) >= 3000 // 400
    (mixed,) = corpus.passages("shuffled", 1, 3_000)
    everything = " ".join(" ".join(corpus.modules(held_out=True)).split())
    words = mixed.split()
    runs = [" ".join(words[at : at + 6]) for at in range(len(words) - 6)]
    assert sum(run in everything for run in runs) < len(runs) / 50


@given(text=st.text())
def test_any_text_survives_the_tokenizer(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_saved_tokenizer_is_the_same_one(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.id(END), loaded.id(MASK), loaded.size) == (0, 1, 400)
    assert loaded.encode("def main():") == tokenizer.encode("def main():")


def test_a_tokenizer_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SpecdiagError, match=r"no tokenizer.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(SpecdiagError, match="cannot be read"):
        Tokenizer.load(tmp_path)


def test_the_rate_rises_once_and_falls_to_almost_nothing():
    schedule = Schedule(100, warmup=10)
    rates = [training.factor(schedule, step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1, abs=0.01) and max(rates) == rates[9]
    assert rates[9:] == sorted(rates[9:], reverse=True) and rates[-1] < 0.03


def test_a_loss_curve_shows_the_fall():
    curve = train.curve([8 - step / 50 for step in range(300)])
    assert curve.startswith("7.96 █") and curve.endswith("▁ 2.06") and len(curve) == 70
    assert train.curve([]) == "" and train.curve([1.0]) == "1.00 ▁ 1.00"


@pytest.fixture(scope="module", params=RECIPES)
def smallest(request):
    """A recipe that takes a second or two, with every part in it."""
    recipe = RECIPES[request.param].quick()
    target = dataclasses.replace(recipe.target, steps=3, tokens=256, length=64, long_length=128)
    drafter = dataclasses.replace(recipe.drafter, steps=3, tokens=128)
    return dataclasses.replace(
        recipe, target=target, drafter=drafter, continuation=24, measured=2, measured_tokens=24,
        pools=(Pool(20, 3, 0.6), Pool(60, 2, 0.4)),
    )  # fmt: skip


def test_the_same_seed_makes_the_same_pair(smallest, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "MEASURED", (("code", 0.0, 96),))
    heard = []
    train.make("one", smallest, tmp_path / "one", 7, heard.append)
    train.make("two", smallest, tmp_path / "two", 7, lambda progress: None)
    for part in ("target", "drafter"):
        files = [(tmp_path / name / part / "model.safetensors") for name in ("one", "two")]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert [each.stage for each in heard] == [
        "target", "target", "target", "continuations", "continuations",
        "drafter", "drafter", "drafter", "measuring",
    ]  # fmt: skip
    assert all(each.loss is not None for each in heard if each.stage in ("target", "drafter"))
    assert all(each.done == each.total for each in heard if each.stage == "measuring")
    record = json.loads((tmp_path / "one" / train.RECORD).read_text())
    assert list(map(len, record["losses"].values())) == [3, 3]
    assert record["measured"][0]["tree"] >= 1

    made = pair.load(tmp_path / "one" / "target", tmp_path / "one" / "drafter", dtype=torch.float32)
    request = Request("r", made.tokenizer.encode("import os\n"), 12)
    texts = [
        decode(made.target, made.drafter, [request], Options(mode=mode))[0].tokens
        for mode in ("autoregressive", "linear", "ddtree")
    ]
    assert texts[0] == texts[1] == texts[2]


def test_a_target_learns_what_is_repeated(tokenizer, monkeypatch):
    """The loss falls far below that of guessing when there is one thing to learn."""
    monkeypatch.setattr(corpus, "stream", lambda seed: iter(["import os\nimport sys\n"] * 2000))
    torch.manual_seed(0)
    recipe = RECIPES["plain"]
    target = pair.Target.random(dataclasses.replace(recipe.architecture(), vocab_size=400))
    losses = []
    training.train_target(target, tokenizer, Schedule(12, 256, 64, 64, warmup=2), 0, losses.append)
    assert losses[0] > 5 and losses[-1] < 2.5


def test_the_command_makes_pairs_that_the_others_take(tmp_path):
    """The two minutes' version of the whole: two processes, bars, curves, and the table."""
    command = [sys.executable, "-m", "specdiag", "ddtree"]
    done = subprocess.run(
        [*command, "train", "--quick", "--out", tmp_path / "pairs"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "plain target loss: " in done.stdout and "| hybrid | shuffled | 1 |" in done.stdout
    assert {"plain: drafter", "hybrid: measuring"} <= {*done.stderr.splitlines()}
    written = (tmp_path / "pairs" / train.TABLE).read_text()
    assert all(line in written for line in done.stdout.splitlines() if line.startswith("| "))
    folder = tmp_path / "pairs" / "hybrid"
    done = subprocess.run(
        [*command, "generate", "import os", "--max-new-tokens", "5",
         "--target", folder / "target", "--drafter", folder / "drafter"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "after prefill" in done.stderr


def test_a_pair_that_nobody_knows_is_named():
    command = [sys.executable, "-m", "specdiag", "ddtree", "train", "--pairs", "plain,other"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: no pair is called 'other'", " --> --pairs", "help: one of plain, hybrid"
    ]  # fmt: skip


def test_a_training_that_dies_is_an_error_and_no_hang(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "_work", _die)
    with pytest.raises(SpecdiagError, match="ended with exit status 3"):
        train.train(["plain"], tmp_path, 0, True, lambda progress: None)
    assert not any(tmp_path.iterdir())


def _die(*_):
    raise SystemExit(3)
