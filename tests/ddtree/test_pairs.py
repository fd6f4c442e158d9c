"""The pairs of the package: small, loadable by other tools, and good enough to matter."""

from __future__ import annotations

import json
import shutil

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from specdiag.ddtree import corpus, pair, train  # noqa: E402
from specdiag.ddtree.decode import Options, Request, decode  # noqa: E402
from specdiag.ddtree.tokenizer import MASK  # noqa: E402


@pytest.fixture(scope="module", params=pair.NAMES)
def bundled(request):
    return pair.bundled(request.param)


def commit_len(bundled, kind, options):
    """Mean tokens a step on a few held-out passages."""
    requests = [
        Request(str(at), bundled.tokenizer.encode(text)[:96], 64)
        for at, text in enumerate(corpus.passages(kind, 6, 600, seed=11))
    ]
    results = decode(bundled.target, bundled.drafter, requests, options)
    return sum(len(one.tokens) - 1 for one in results) / sum(one.steps for one in results)


def test_all_pairs_together_take_ten_megabytes_at_most():
    files = [path for path in pair.BUNDLED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 10_000_000


def test_the_table_is_that_of_the_records():
    records = {
        name: json.loads((pair.BUNDLED / name / train.RECORD).read_text()) for name in pair.NAMES
    }
    assert (pair.BUNDLED / train.TABLE).read_text() == train.readme(records)
    code = next(
        row for row in records["plain"]["measured"]
        if (row["text"], row["temperature"]) == ("code", 0)
    )  # fmt: skip
    assert code["chain"] >= 3 and code["tree"] >= 1.25 * code["chain"]


def test_drafts_are_accepted_and_a_tree_has_more_of_them(bundled):
    chain = commit_len(bundled, "code", Options(mode="linear"))
    tree = commit_len(bundled, "code", Options(mode="ddtree", budget=32))
    assert chain > 2 and tree > 1.1 * chain


def test_the_mask_is_a_token_of_its_own(bundled):
    assert bundled.drafter.architecture.mask_token_id == bundled.tokenizer.id(MASK)
    assert bundled.tokenizer.decode(bundled.tokenizer.encode("x = 1\n")) == "x = 1\n"


def test_transformers_reads_the_plain_target_and_agrees(tmp_path):
    transformers = pytest.importorskip("transformers", reason="pip install transformers")
    bundled = pair.bundled("plain")
    shutil.copytree(bundled.target_folder, tmp_path / "target")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "target", dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = torch.tensor([bundled.tokenizer.encode(corpus.passages("code", 1, 900)[0])[:200]])
    with torch.no_grad():
        expected = model(ids).logits
        found = bundled.target(ids, torch.arange(ids.shape[1])[None]).logits
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-4)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "target")
    assert tokenizer("def f(): pass")["input_ids"] == bundled.tokenizer.encode("def f(): pass")
