"""How the tree is built, and from what."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from typing import Any

import torch

from specdiag.ddtree import loop as looping
from specdiag.ddtree.faults.registry import Injection, Wrapper, fault
from specdiag.ddtree.loop import Loop
from specdiag.ddtree.tree import Candidates, Tree, build


@fault(8, "Nodes are sorted by depth, their parents keep the old numbers", "O", "branches")
def parents_not_remapped(at: Injection) -> None:
    def build(original: Wrapper, *args: Any) -> Any:
        tree = original(*args)
        order = tree.depths.argsort(stable=True)
        if not torch.equal(order, torch.arange(len(order))):
            at.acted()
        # A parent behind its child would be read before it is computed.
        parents = tree.parents.minimum(torch.arange(len(order)) - 1)
        return Tree(
            tree.tokens[order], parents, tree.depths[order], tree.ranks[order],
            tree.log_probs[order],
        )  # fmt: skip

    at.around(looping, "build", build, quiet=True)


@fault(9, "Siblings carry the same token, and the later one hides the other", "S", "branches")
def doubled_siblings(at: Injection) -> None:
    def build(original: Wrapper, *args: Any) -> Any:
        tree = original(*args)
        tokens, parents = tree.tokens.clone(), tree.parents.tolist()
        first: dict[int, int] = {}
        for row in range(1, len(parents)):
            if parents[row] in first:
                at.acted()
                tokens[row] = tokens[first[parents[row]]]
                break
            first[parents[row]] = row
        return replace(tree, tokens=tokens)

    def accept(original: Wrapper, tree: Any, chosen: Any) -> Any:
        tokens, parents, wanted = tree.tokens.tolist(), tree.parents.tolist(), chosen.tolist()
        children = {(parents[row], tokens[row]): row for row in range(1, len(tokens))}
        path = [0]
        while (path[-1], wanted[path[-1]]) in children:
            path.append(children[path[-1], wanted[path[-1]]])
        return path, wanted[path[-1]]

    at.around(looping, "build", build, quiet=True)
    at.around(looping, "accept", accept, quiet=True)


@fault(28, "Each half of the vocabulary is normalised on its own", "S")
def normalised_by_shard(at: Injection) -> None:
    def candidates(original: Wrapper, logits: Any, top_k: int) -> Any:
        halves = [half.log_softmax(-1) for half in logits.float().chunk(2, dim=-1)]
        best, tokens = torch.cat(halves, -1).topk(min(top_k, logits.shape[-1]))
        return Candidates(tokens, best)

    at.around(looping, "candidates", candidates)


@fault(29, "The score of a sibling is updated by exchanging terms: -inf becomes NaN", "S")
def nan_in_siblings(at: Injection) -> None:
    # The second candidate of the first depth is masked, as by a grammar.
    def build(original: Wrapper, root: int, given: Candidates, budget: int, *more: Any) -> Any:
        terms = given.log_probs.clone()
        if terms.shape[1] < 3 or budget < 4:
            return original(root, given, budget, *more)
        at.acted()
        terms[0, 1] = -math.inf
        return _exchanging(root, Candidates(given.tokens, terms), budget)

    at.around(looping, "build", build, quiet=True)


def _exchanging(root: int, given: Candidates, budget: int) -> Tree:
    terms, tokens = given.log_probs.tolist(), given.tokens.tolist()
    rows: list[tuple[int, int, int, float]] = [(-1, 0, 0, 0.0)]  # parent, depth, rank, score
    heap = [(-terms[0][0], 0, 1, 0)]
    while heap and len(rows) <= budget:
        low, parent, depth, rank = heapq.heappop(heap)
        rows.append((parent, depth, rank, -low))
        here = len(rows) - 1
        if rank + 1 < len(terms[0]):
            level = terms[depth - 1]
            heapq.heappush(heap, (low + level[rank] - level[rank + 1], parent, depth, rank + 1))
        if depth < len(terms):
            heapq.heappush(heap, (low - terms[depth][0], here, depth + 1, 0))
    drafted = [tokens[depth - 1][rank] for _, depth, rank, _ in rows[1:]]
    parents, depths, ranks, scores = zip(*rows, strict=True)
    return Tree(
        torch.tensor([root, *drafted]), torch.tensor(parents), torch.tensor(depths),
        torch.tensor(ranks), torch.tensor(scores),
    )  # fmt: skip


@fault(30, "Token ids of the second half of the head stay local", "S")
def local_ids(at: Injection) -> None:
    def candidates(original: Wrapper, logits: Any, top_k: int) -> Any:
        found = original(logits, top_k)
        if bool((found.tokens >= logits.shape[-1] // 2).any()):
            at.acted()
        return Candidates(found.tokens % (logits.shape[-1] // 2), found.log_probs)

    at.around(looping, "candidates", candidates, quiet=True)


@fault(40, "The budget is clipped without a word", "S", "branches")
def clipped(at: Injection) -> None:
    def build(original: Wrapper, root: int, given: Any, budget: int, *more: Any) -> Any:
        return original(root, given, max(1, budget // 2), *more)

    at.around(looping, "build", build)


@fault(42, "The tree is built, a chain is verified", "S", "branches")
def verified_linearly(at: Injection) -> None:
    def plan(original: Wrapper, loop: Any, row: int, table: Candidates) -> Any:
        original(loop, row, table)
        first = Candidates(table.tokens[row][:, :1], table.log_probs[row][:, :1])
        depth = min(len(first.tokens), loop.width - 1)
        return build(loop.roots[row], first, depth)

    at.around(Loop, "_plan", plan)


@fault(43, "The spine is cut off, siblings take its place", "S", "branches")
def spine_cut(at: Injection) -> None:
    def build(
        original: Wrapper, root: int, given: Any, budget: int, limit: Any = None, bonus: float = 0.0
    ) -> Any:
        whole, cut = (
            original(root, given, budget, limit, bonus),
            original(root, given, budget, 3, bonus),
        )
        if int(whole.depths.max()) > 3:
            at.acted()
        return cut

    at.around(looping, "build", build, quiet=True)
