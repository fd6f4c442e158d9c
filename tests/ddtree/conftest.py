"""Tiny random models. Torch is imported only when a test asks for one: it may not be installed."""

from __future__ import annotations

import random
import sys

import pytest

VOCAB = 53
SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
}
KINDS = {
    "full": ("full_attention",) * 3,
    "sliding": ("sliding_attention", "full_attention", "sliding_attention"),
    "hybrid": ("linear_attention", "sliding_attention", "linear_attention", "full_attention"),
}


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny matrices: on a busy machine, threads that wait for each other take most of the time."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(params=KINDS)
def kind(request):
    """Every kind of target in turn."""
    return request.param


@pytest.fixture(scope="session")
def make_target():
    """`make_target(kind, **changes)`: a random target with a window of 6 and sharp logits."""
    import torch

    from specdiag.ddtree.architecture import Architecture, Recurrence, Rope
    from specdiag.ddtree.model import Target

    def make(kind="full", **changes):
        torch.manual_seed(7)
        types = KINDS[kind]
        values = {
            **SHAPE,
            "layer_types": types,
            "rope": {each: Rope() for each in sorted({*types} - {"linear_attention"})},
            "sliding_window": 6 if "sliding_attention" in types else None,
            "recurrence": Recurrence(2, 4, 6, 5, 4) if "linear_attention" in types else None,
            **changes,
        }
        return Target.random(Architecture(**values), std=0.3).eval().requires_grad_(False)

    return make


@pytest.fixture(scope="session")
def autoregressive(make_target):
    """`autoregressive(kind, requests, **options)`: what plain decoding of a target makes of them.

    Decoded once: most tests compare what many modes make of the same requests. To be read only.
    """
    from specdiag.ddtree.decode import Options, decode

    known = {}

    def autoregressive(kind, requests, **options):
        asked = tuple(
            (each.name, tuple(each.prompt), each.max_new_tokens, each.sampling, each.grammar)
            for each in requests
        )
        key = (kind, asked, repr(options))
        if key not in known:
            plain = Options(mode="autoregressive", **options)
            known[key] = decode(make_target(kind), None, requests, plain)
        return known[key]

    return autoregressive


@pytest.fixture
def make_drafter():
    """`make_drafter(**changes)`: a random drafter; all its layers slide but the last."""
    import torch

    from specdiag.ddtree.architecture import DraftArchitecture, Rope
    from specdiag.ddtree.drafter import Drafter

    def make(seed=8, **changes):
        torch.manual_seed(seed)
        yarn = Rope(10_000.0, "yarn", 4.0, 16)
        values = {
            **SHAPE,
            "layer_types": ("sliding_attention", "sliding_attention", "full_attention"),
            "rope": {"sliding_attention": Rope(), "full_attention": yarn},
            "sliding_window": 5,
            "block_size": 7,
            "num_target_layers": 3,
            "mask_token_id": VOCAB - 1,
            "target_layer_ids": (0, 2),
            **changes,
        }
        drafter = Drafter.random(DraftArchitecture(**values), std=0.3)
        return drafter.eval().requires_grad_(False)

    return make


@pytest.fixture
def make_knowing(make_drafter):
    """`make_knowing(texts)`: a drafter that often knows how the text of a batch row goes on.

    The next token is its first choice, its second choice, or far behind; by the text and the
    position alone, so that every mode and every batch gets the same drafts.
    """
    import torch

    from specdiag.ddtree.drafter import Drafter

    class Knowing(Drafter):
        def forward(self, ids, cache, target, positions=None, columns=None):
            logits = torch.empty(len(ids), self.depths, VOCAB)
            for row, start in enumerate(cache.known_lengths.tolist()):
                text = self.texts[row]
                draw = (31 * text[0] + 17 * text[1] + start) % len(self.noise)
                logits[row] = self.noise[draw]
                for depth, token in enumerate(text[start + 1 : start + 1 + self.depths]):
                    luck = self.luck[draw][depth]
                    wrong = (token + 1 + start % 5) % VOCAB
                    logits[row, depth, token] += 4.0 if luck < 0.9 else 0.0
                    logits[row, depth, wrong] += 5.0 if luck < 0.4 else 0.0
            return logits

    def make(texts):
        one = make_drafter(layer_types=("full_attention",), sliding_window=None)
        drafter = Knowing.random(one.architecture, std=0.3).eval().requires_grad_(False)
        noise = torch.Generator().manual_seed(1)
        drafter.noise = torch.rand(211, drafter.depths, VOCAB, generator=noise)
        drafter.luck = torch.rand(211, drafter.depths, generator=noise).tolist()
        drafter.texts = texts
        return drafter

    return make


@pytest.fixture
def make_tree():
    """`make_tree(rows, seed)`: parents of a random tree, -1 at the root, and its mask."""
    import torch

    def make(rows, seed=0):
        draw = random.Random(seed)
        parents = [-1] + [draw.randrange(max(0, row - 4), row) for row in range(1, rows)]
        mask = torch.zeros(rows, rows, dtype=torch.bool)
        for row in range(rows):
            for seen in path(parents, row):
                mask[row, seen] = True
        return parents, mask

    return make


def path(parents, row):
    """The rows from the root to `row`."""
    rows = []
    while row >= 0:
        rows.append(row)
        row = parents[row]
    return rows[::-1]


@pytest.fixture
def path_to():
    """`path_to(parents, row)`: the rows from the root to a row."""
    return path


@pytest.fixture
def tokens():
    """`tokens(count, seed)`: random token ids, without the mask id."""

    def draw(count, seed=0):
        source = random.Random(seed)
        return [source.randrange(VOCAB - 1) for _ in range(count)]

    return draw


@pytest.fixture(scope="session")
def tokenizer():
    """A tokenizer of 300 ids that knows some code."""
    from specdiag.ddtree import corpus
    from specdiag.ddtree.tokenizer import Tokenizer

    return Tokenizer.train(corpus.passages("code", 20, 400), 300)


@pytest.fixture(scope="session")
def pair_folder(tmp_path_factory):
    """A folder with target/ and drafter/ as the command takes them; some drafts are accepted."""
    import torch

    from specdiag.ddtree import checkpoint
    from specdiag.ddtree.architecture import Architecture, DraftArchitecture, Rope
    from specdiag.ddtree.drafter import Drafter
    from specdiag.ddtree.model import Target
    from specdiag.ddtree.tokenizer import Tokenizer

    folder = tmp_path_factory.mktemp("pair")
    tokenizer = Tokenizer.train(["def read(path):\n    return path.read_text()\n"] * 3, 300)
    shape = {**SHAPE, "vocab_size": tokenizer.size, "max_position_embeddings": 512}
    rope = {"full_attention": Rope(), "sliding_attention": Rope()}
    torch.manual_seed(7)
    target = Target.random(
        Architecture(**shape, layer_types=KINDS["full"], rope={"full_attention": Rope()}), std=0.1
    )
    drafter = Drafter.random(
        DraftArchitecture(
            **shape, layer_types=KINDS["sliding"][:2], rope=rope, sliding_window=9, block_size=7,
            num_target_layers=3, mask_token_id=1, target_layer_ids=(0, 2),
        ), std=0.1,
    )  # fmt: skip
    with torch.no_grad():  # both like the same tokens: the first channel of the head ranks them
        target.embed_tokens.weight[:, 0] = 1.0
        target.lm_head.weight.normal_(std=0.2, generator=torch.Generator().manual_seed(3))
        target.lm_head.weight[:, 0] = -0.3 * torch.arange(tokenizer.size).roll(70)
    checkpoint.save_target(target, folder / "target")
    checkpoint.save_drafter(drafter, folder / "drafter")
    tokenizer.save(folder / "target")
    return folder
