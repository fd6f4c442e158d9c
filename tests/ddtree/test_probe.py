"""The probe tells hard text from a drafter that length damages, and from stages that it slows."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import corpus, passages, probe, tables  # noqa: E402
from specdiag.ddtree.architecture import (  # noqa: E402
    FULL,
    SLIDING,
    Architecture,
    DraftArchitecture,
    Rope,
)
from specdiag.ddtree.conclusion import Cell, Expected, conclude  # noqa: E402
from specdiag.ddtree.drafter import Drafter  # noqa: E402
from specdiag.ddtree.estimate import growth  # noqa: E402
from specdiag.ddtree.model import Target  # noqa: E402
from specdiag.ddtree.pair import Pair  # noqa: E402
from specdiag.errors import SpecdiagError  # noqa: E402

LENGTHS = (128, 512, 1024, 2048)
WORK = dict(zip(LENGTHS, (1.0, 1.1, 1.3, 1.6), strict=True))
FLAT, DRAFT = (5.0, 5.2, 5.5, 6.0), (2.0, 2.0, 2.1, 2.2)
GROWING = (5.0, 20.0, 60.0, 150.0)


def cells(
    easy=(9, 9, 9, 9), hard=(1.2, 1.2, 1.2, 1.2), verify=FLAT, draft=DRAFT, plain=FLAT,
    texts=5, steps=30, noise=0.05, lengths=LENGTHS, seed=1,
):  # fmt: skip
    """Cells as a probe would measure them, with noise between texts."""
    draw = random.Random(seed)
    found = []
    for kind, commits in (("predictable", easy), ("hard", hard), ("plain", (1, 1, 1, 1))):
        for at, length in enumerate(lengths):
            stages = {"draft": draft[at], "verify": verify[at], "step": plain[at]}
            times = {
                stage: [ms * 2 ** draw.gauss(0, noise) for _ in range(texts)]
                for stage, ms in stages.items()
            }
            mine = [max(1.0, 1 + (commits[at] - 1) * draw.gauss(1, 0.1)) for _ in range(texts)]
            found.append(Cell(kind, length, steps, mine, times))
    return found


def codes(measured, depths=15, work=WORK):
    return {one.code for one in conclude(measured, depths, Expected(work, work))} - {"healthy"}


@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_pair_is_accused_of_nothing(seed):
    measured = cells(hard=(6, 6, 6, 6), seed=seed)
    (only,) = conclude(measured, 15, Expected(WORK, WORK))
    assert only.code == "healthy" and only.text.startswith("Nothing is wrong.")


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(10))
def test_noise_is_no_growth(noise, seed):
    assert codes(cells(noise=noise, seed=seed)) <= {"text_hard", "undecided"}


@pytest.mark.parametrize("seed", range(10))
def test_each_fault_is_named_and_no_other(seed):
    assert codes(cells(seed=seed)) == {"text_hard"}
    assert codes(cells(easy=(9, 8, 5, 2), seed=seed)) == {"drafter_damaged"}
    assert codes(cells(easy=(9, 9, 9, 1), seed=seed)) == {"drafter_damaged"}
    assert codes(cells(easy=(1.5, 1.5, 1.5, 1.5), seed=seed)) == {"drafter_weak"}
    slow = cells(verify=GROWING, plain=GROWING, hard=(6, 6, 6, 6), seed=seed)
    assert codes(slow) == {"target_slow"}
    slow = cells(draft=(2, 9, 20, 40), hard=(6, 6, 6, 6), seed=seed)
    assert codes(slow) == {"draft_slow"}


def test_the_founding_case_is_hard_text_and_slow_attention_together():
    """Commit 7.88, 7.00, 7.00, 7.88 on predictable text, block 8; 118 times the step time."""
    lengths = (1_000, 16_000, 64_000, 128_000)
    slow = (8.0, 130.0, 500.0, 1_000.0)
    measured = cells((7.88, 7.0, 7.0, 7.88), (1, 1, 1, 1), slow, DRAFT, slow, lengths=lengths)
    work = dict(zip(lengths, (1.0, 1.1, 1.6, 2.2), strict=True))
    said = conclude(measured, 7, Expected(work, work))
    assert [one.code for one in said][:2] == ["text_hard", "target_slow"]
    assert "Plain decoding slows down too" in said[1].text and "2.20x" in said[1].text


def test_growth_that_arithmetic_explains_is_no_fault():
    work = dict(zip(LENGTHS, (1.0, 3.0, 6.0, 12.0), strict=True))
    slow = cells(verify=(5, 15, 30, 60), plain=(5, 15, 30, 60), draft=(2, 6, 12, 24))
    assert codes(slow, work=work) == {"text_hard"}
    assert codes(slow) == {"text_hard", "target_slow", "draft_slow"}


def test_slow_verification_beside_plain_decoding_that_is_not_says_where_to_look():
    said = conclude(cells(verify=GROWING), 15, Expected(WORK, WORK))
    (slow,) = [one for one in said if one.code == "target_slow"]
    assert "Plain decoding is not so" in slow.text


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (cells(steps=5), "5 texts with 5 steps"),
        (cells(texts=2), "2 texts"),
        (cells(lengths=(1000, 1100, 1200, 1300)), "lengths that differ"),
        (cells(easy=(5, 5, 3.9, 5)), "intervals leave it open"),
        ([cell for cell in cells() if cell.kind != "hard"], "Whether the text is hard"),
    ],
)
def test_too_little_is_undecided_and_says_what_is_missing(measured, words):
    work = {cell.length: 1.0 for cell in measured}
    said = conclude(measured, 15, Expected(work, work))
    assert any(one.code == "undecided" and words in one.text for one in said), said


def test_growth_is_measured_text_by_text():
    grown = growth([1.0, 10.0, 100.0], [2.0, 20.0, 200.0])
    assert grown.value == pytest.approx(2) and grown.low == pytest.approx(grown.high)
    alone = growth([1.0], [2.0])
    assert alone.low == 0 and alone.high > 1e300


# The measurement


@pytest.fixture
def pair(tokenizer, tmp_path):
    torch.manual_seed(3)
    shape = dict(
        vocab_size=300, hidden_size=32, intermediate_size=48, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, rope={FULL: Rope(), SLIDING: Rope()},
        max_position_embeddings=160, sliding_window=12,
    )  # fmt: skip
    target = Target.random(Architecture(**shape, layer_types=(SLIDING, FULL)), std=0.4).eval()
    of = DraftArchitecture(
        **shape,
        layer_types=(SLIDING, FULL),
        block_size=6,
        mask_token_id=1,
        num_target_layers=2,
        target_layer_ids=(0, 1),
    )
    drafter = Drafter.random(of).eval()
    return Pair("tiny", target, drafter, tokenizer, tmp_path / "target", tmp_path / "drafter")


SETTINGS = probe.Settings(lengths=(16, 64), max_new_tokens=8, repeats=3, budget=4, top_k=2)


def test_every_cell_is_measured_printed_and_traced(pair, tmp_path, load):
    out, turns = tmp_path / "out", []
    found = probe.run(pair, SETTINGS, out, lambda: turns.append(1))
    assert found == json.loads((out / "probe.json").read_text())
    assert len(turns) == probe.decodes(pair, SETTINGS) == 2 * 3 * 3
    shown = tables.probe(found)
    assert "sampled at temperature 1." in " ".join(shown.split())
    for cell in found["cells"]:
        assert len(cell["commits"]) == 3 and cell["steps"] >= 3
        assert all(len(cell["times"][stage]) == 3 for stage in probe.STAGES)
        if cell["kind"] != "plain":
            assert any(
                line.split()[:2] == [cell["kind"], str(cell["length"])]
                for line in shown.splitlines()
            )
    for one in found["conclusions"]:
        assert one["text"].split()[-1] in shown
    store = load(out)
    for kind in probe.KINDS:
        query = f"SELECT count(*) FROM step WHERE run = '{kind}'"
        (steps,) = store.db.execute(query).fetchone()
        assert steps == sum(cell["steps"] for cell in found["cells"] if cell["kind"] == kind)


def test_without_a_folder_nothing_is_left(pair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert probe.run(pair, replace(SETTINGS, mode="linear"))["cells"]
    assert sorted(tmp_path.rglob("*")) == before


def test_own_texts_are_used_and_said_to_be(pair):
    own = replace(
        SETTINGS, text="again and again\nand on\n", hard_text=corpus.passages("code", 1, 900)[0]
    )
    found = probe.run(pair, own)
    assert (
        found["settings"]["text"] is True
        and " ".join(tables.probe(found).split()).count("your file") == 2
    )
    with pytest.raises(SpecdiagError, match="16 are needed"):
        probe.run(pair, replace(SETTINGS, hard_text="too short"))


def test_a_part_of_a_text_ends_elsewhere_for_each_repeat(tokenizer):
    text = corpus.passages("code", 1, 3000)[0]
    parts = [passages.part(tokenizer, text, 50, number, 4) for number in range(4)]
    assert [len(each) for each in parts] == [50] * 4 and len(set(map(tuple, parts))) == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lengths": (16, 153)}, "allow 1 to 152"),
        ({"mode": "autoregressive"}, "drafts nothing"),
        ({"repeats": 0}, "1 repeat"),
    ],
)
def test_what_cannot_be_probed_is_said_in_three_lines(pair, change, words):
    with pytest.raises(SpecdiagError, match=words):
        probe.run(pair, replace(SETTINGS, **change))
    with pytest.raises(SpecdiagError, match="drafter"):
        probe.run(replace(pair, drafter=None), SETTINGS)


def test_default_lengths_are_those_that_have_room(pair):
    some = probe.Settings()
    with pytest.raises(SpecdiagError, match="allow 1 to 64"):
        probe.lengths_of(pair, some)
    assert probe.lengths_of(pair, replace(some, max_new_tokens=20)) == (128,)


def test_work_grows_with_full_layers_and_stops_at_the_window(pair):
    of = pair.target.architecture
    found = probe.work(of, 1000, (8, 16, 64))
    assert found == {8: 1000 + 64 * 16, 16: 1000 + 64 * 28, 64: 1000 + 64 * 76}


def test_command_prints_the_conclusion(specdiag, pair, tmp_path, monkeypatch):
    from specdiag.ddtree.commands import probe as command

    monkeypatch.setattr(command, "load_pair", lambda *options: pair)
    told = specdiag(
        "ddtree", "probe", "--lengths", "16,40", "--max-new-tokens", 6, "--repeats", 1,
        "--out", tmp_path / "p",
    )  # fmt: skip
    assert told.code == 0 and "undecided" in told.out
    assert (tmp_path / "p" / "probe.json").is_file()
    wrong = specdiag("ddtree", "probe", "--text", tmp_path / "none")
    assert wrong.code == 2 and "--text" in wrong.err


def test_a_text_that_the_target_leaves_accuses_no_drafter():
    """Drafts that fall with length are the drafter's fault only if the text stays the same."""
    commits = {128: 6.0, 1024: 2.5}
    cells = [
        Cell(
            "predictable", length, 60, [commit, commit + 0.1, commit - 0.1], {},
            [1.0, 0.9, 1.0] if length == 128 else [0.2, 0.4, 0.3],
        )
        for length, commit in commits.items()
    ]  # fmt: skip
    same = [replace(cell, followed=[1.0, 1.0, 1.0]) for cell in cells]
    work = Expected({128: 1.0, 1024: 1.0}, {128: 1.0, 1024: 1.0})
    assert conclude(same, 7, work)[0].code == "drafter_damaged"
    found = conclude(cells, 7, work)[0]
    assert found.code == "undecided" and "at 1,024 tokens the target itself leaves" in found.text


def test_what_follows_a_repeated_text_is_counted():
    prompt = [1, 2, 3, 4] * 6
    assert probe.followed(prompt, [1, 2, 3, 4, 1]) == 1.0
    assert probe.followed(prompt, [1, 2, 9, 9]) == 0.5
    assert probe.followed(list(range(30)), [5, 6]) == 1.0, "no period is no reason to doubt"
