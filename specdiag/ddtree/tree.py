"""The draft tree: candidates of every depth, best-first building, visibility, and the walk.

A node is a path of ranks, one a depth, and its score is the sum of their log-probabilities. The
tree of a budget holds the paths with the highest scores; equal scores go in lexicographic order
of the ranks. So a tree is the prefix of every larger one, and candidates and budget define it.

Scores are summed in float64, from the root down, out of float32 candidates: `prefix + term`,
never by exchanging a term. Whoever adds the recorded candidates in double precision gets the same
order; the sums are rounded to float32 only as they are stored.

A path over a masked candidate is never built, since no rule can accept it. Without masks N is
min(B, K + K^2 + ... + K^L); with them, K is at each depth the number of candidates left.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heappushpop

import numpy as np
import torch
from torch import Tensor

# Below are masks only: -inf, or the lowest float, which some mask with and the trace writes.
MASKED = -1e30


@dataclass(frozen=True)
class Candidates:
    """The most probable tokens of each depth, best first. Depth d of the tree is row d - 1."""

    tokens: Tensor  # [L, K] int64
    log_probs: Tensor  # [L, K] float32, never increasing along K


def candidates(logits: Tensor, top_k: int) -> Candidates:
    """The `top_k` tokens of each row of `logits` [L, V], as far as the vocabulary goes.

    Log-probabilities are those of the whole vocabulary, in float32. Of equal ones the smaller
    token id comes first and is the one that stays, which `topk` alone leaves open. Leading
    dimensions stay as they are, and nothing waits for the device.
    """
    if top_k < 1:
        raise ValueError(f"top_k is {top_k}; a depth needs a candidate")
    logits = logits.float()
    total = logits.logsumexp(-1, keepdim=True)
    total = total.masked_fill(total == -math.inf, 0.0)  # all masked: -inf - -inf would be NaN
    log_probs = logits - total
    width = min(top_k, logits.shape[-1])
    best, tokens = log_probs.topk(min(width + 1, logits.shape[-1]))  # and the first that is left
    # A GPU is not asked, a CPU would take longer to settle than for everything else.
    tied = logits.device.type != "cpu" or bool(
        (best[..., width - 1 : -1] == best[..., width:]).any()
    )
    best, tokens = best[..., :width], tokens[..., :width]
    if tied:
        tokens = _smallest(log_probs, best, tokens)
    tokens = tokens.sort(dim=-1).values
    best, order = log_probs.gather(-1, tokens).sort(dim=-1, descending=True, stable=True)
    return Candidates(tokens.gather(-1, order), best)


def _smallest(log_probs: Tensor, best: Tensor, tokens: Tensor) -> Tensor:
    """The tokens of `topk`, but of those that equal the last value the ones of the smallest ids."""
    last, vocab = best[..., -1:], log_probs.shape[-1]
    ids = torch.arange(vocab, dtype=torch.int32, device=best.device)
    level = torch.where(log_probs == last, ids, vocab - 1)
    level = level.topk(best.shape[-1], largest=False).values
    above = (best != last).sum(-1, keepdim=True)
    place = torch.arange(best.shape[-1], device=best.device)
    return torch.where(place < above, tokens, level.gather(-1, (place - above).clamp(min=0)))


@dataclass(frozen=True)
class Tree:
    """A draft tree. Row 0 is the root, the last committed token; nodes stand in heap order.

    Parents come before their children and more probable siblings before less probable ones.
    """

    tokens: Tensor  # [N + 1] int64
    parents: Tensor  # [N + 1] int64, -1 at the root
    depths: Tensor  # [N + 1] int64, 0 at the root
    ranks: Tensor  # [N + 1] int64, place among the candidates of the depth, 0 at the root
    log_probs: Tensor  # [N + 1] float32, of the whole path, 0 at the root

    @property
    def nodes(self) -> int:
        """N: the drafted tokens, which the root is not."""
        return len(self.tokens) - 1

    def visible(self) -> Tensor:
        """[N + 1, N + 1], true where the node of the column is the row's own or an ancestor."""
        seen = np.zeros((len(self.parents), len(self.parents)), dtype=np.bool_)
        seen[0, 0] = True
        for row, parent in enumerate(self.parents.tolist()[1:], start=1):
            seen[row] = seen[parent]  # parents come first
            seen[row, row] = True
        return torch.from_numpy(seen)

    def positions(self, start: int) -> Tensor:
        """[N + 1] int64, absolute, for a root at `start`; siblings share one."""
        return self.depths + start

    def prefix(self, budget: int) -> Tree:
        """The tree of a smaller budget: the first nodes of this one."""
        rows = slice(max(budget, 0) + 1)
        return Tree(
            self.tokens[rows],
            self.parents[rows],
            self.depths[rows],
            self.ranks[rows],
            self.log_probs[rows],
        )

    def spine(self) -> list[int]:
        """The rows of the most probable path, root first, as far as the tree holds it."""
        rows = [0]
        places = zip(self.parents.tolist(), self.ranks.tolist(), strict=True)
        for row, place in enumerate(places):
            if place == (rows[-1], 0):
                rows.append(row)
        return rows

    def is_chain(self) -> bool:
        """Whether no node has a sibling."""
        return torch.equal(self.parents, torch.arange(-1, self.nodes))


def build(
    root: int,
    candidates: Candidates,
    budget: int,
    depth_limit: int | None = None,
    depth_bonus: float = 0.0,
) -> Tree:
    """The tree of the `budget` best paths below `root`, fewer if there are no more.

    The order is that of a heap: the best of the paths whose parent and better sibling are in the
    tree. For the order alone, `depth_bonus` times the depth is added to a score; above 0, a child
    may outdo its parent, and scores need no longer fall from row to row.
    """
    if budget < 0:
        raise ValueError(f"budget is {budget}; without nodes it is 0")
    levels = None if depth_limit is None else max(depth_limit, 0)
    terms = candidates.log_probs[:levels].cpu()
    if math.isnan(terms.sum().item()):
        raise ValueError("candidates hold NaN, as from NaN or +inf among the logits")
    parents, depths, ranks, scores = _grow(terms, budget, depth_bonus)
    table = candidates.tokens.tolist()
    drafted = [table[depth - 1][rank] for depth, rank in zip(depths[1:], ranks[1:], strict=True)]
    log_probs = torch.frombuffer(array("f", scores), dtype=torch.float32)
    tokens = _whole([root, *drafted])
    return Tree(tokens, _whole(parents), _whole(depths), _whole(ranks), log_probs)


def _grow(
    log_probs: Tensor, budget: int, bonus: float
) -> tuple[list[int], list[int], list[int], list[float]]:
    """Parent, depth, rank and score of each row: the search itself, in plain numbers."""
    levels, width = log_probs.shape
    # From depth 1 on; a masked candidate ends each list, an empty depth the table.
    terms = [[0.0], *([*row, -math.inf] for row in log_probs.tolist()), [-math.inf]]
    # A path as one whole number, so that equal scores compare fast: its ranks plus one are the
    # digits, and 0 fills the depths below, which puts a path before those that go on from it.
    digits = [(width + 1) ** (levels - depth) for depth in range(levels + 1)] + [0]
    extra = [bonus * depth for depth in range(levels + 2)]
    parents, depths, ranks, scores = [-1], [0], [0], [0.0]
    heap: list[tuple[float, int, float, int, int, int]] = []
    row, depth, path, score = 0, 0, 0, 0.0
    while row < budget:
        depth += 1
        child = score + terms[depth][0]
        if child > MASKED:
            # Often the child is the next node itself, and then it never enters the heap.
            node = (-child - extra[depth], path + digits[depth], child, row, depth, 0)
            _, path, score, parent, depth, rank = heappushpop(heap, node)
        elif heap:
            _, path, score, parent, depth, rank = heappop(heap)
        else:
            break
        row += 1
        parents.append(parent)
        depths.append(depth)
        ranks.append(rank)
        scores.append(score)
        rank += 1
        sibling = scores[parent] + terms[depth][rank]
        if sibling > MASKED:
            node = (-sibling - extra[depth], path + digits[depth], sibling, parent, depth, rank)
            heappush(heap, node)
    return parents, depths, ranks, scores


def _whole(values: list[int]) -> Tensor:
    """The same as an int64 tensor; `torch.tensor` takes several times as long for a list."""
    return torch.frombuffer(array("q", values), dtype=torch.int64)


def walk(tree: Tree, target: Tensor) -> tuple[list[int], int]:
    """The accepted rows, root first, and the bonus token behind the last of them.

    `target` [N + 1] is the target's choice behind each row. A child is followed if it carries
    what the target chose behind its parent. Siblings with one token, which a sound tree has not,
    are all followed, and the longest path counts; of equally long ones that of the lower row.
    """
    chosen, tokens, parents = target.tolist(), tree.tokens.tolist(), tree.parents.tolist()
    paths = {0: [0]}  # to each row that is reached
    longest = paths[0]
    for row in range(1, len(tokens)):
        above = paths.get(parents[row])
        if above is not None and tokens[row] == chosen[parents[row]]:
            paths[row] = [*above, row]
            if len(above) == len(longest):
                longest = paths[row]
    return longest, chosen[longest[-1]]


@dataclass(frozen=True)
class Batch:
    """Trees side by side, each padded to `width` rows."""

    tokens: Tensor  # [batch, width] int64; padding repeats the root, a token like any other
    parents: Tensor  # [batch, width] int64, -1 at the root and in padding
    depths: Tensor  # [batch, width] int64, 0 in padding
    visible: Tensor  # [batch, width, width] bool; padding sees the root and is seen by nobody
    rows: Tensor  # [batch] int64, rows of the tree itself: N + 1


def pad(trees: Sequence[Tree], width: int) -> Batch:
    """The trees as a batch. Padding rows see one column, so that no softmax is over nothing."""
    widest = max((len(tree.tokens) for tree in trees), default=0)
    if widest > width:
        raise ValueError(f"a tree of {widest} rows does not fit into {width}")
    shape = (len(trees), width)
    tokens = torch.empty(shape, dtype=torch.int64)
    parents = torch.full(shape, -1)
    depths = torch.zeros(shape, dtype=torch.int64)
    visible = torch.zeros((*shape, width), dtype=torch.bool)
    visible[:, :, :1] = True
    for at, tree in enumerate(trees):
        rows = len(tree.tokens)
        tokens[at] = tree.tokens[0]
        tokens[at, :rows] = tree.tokens
        parents[at, :rows] = tree.parents
        depths[at, :rows] = tree.depths
        visible[at, :rows, :rows] = tree.visible()
    return Batch(tokens, parents, depths, visible, torch.tensor([len(one.tokens) for one in trees]))
