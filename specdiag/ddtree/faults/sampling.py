"""By which law tokens are chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from specdiag.ddtree import loop as looping
from specdiag.ddtree.faults.registry import Injection, Wrapper, fault
from specdiag.ddtree.verify import Sampling, law


@fault(32, "A sampled request is verified greedily", "O", "sampling")
def greedy_verification(at: Injection) -> None:
    def choose(original: Wrapper, logits: Any, positions: Any, sampling: Sampling) -> Any:
        return original(logits, positions, replace(sampling, temperature=0.0))

    at.around(looping, "choose", choose)


@fault(33, "Fixed candidates are accepted with min(1, p / q)", "O", "sampling")
def over_acceptance(at: Injection) -> None:
    last: dict[str, Any] = {}

    def choose(original: Wrapper, logits: Any, positions: Any, sampling: Sampling) -> Any:
        last["law"] = law(logits, sampling)
        return original(logits, positions, sampling)

    def accept(original: Wrapper, tree: Any, chosen: Any) -> Any:
        target, path = last["law"], [0]
        tokens, parents = tree.tokens.tolist(), tree.parents.tolist()
        logs = tree.log_probs.tolist()
        draws = torch.Generator().manual_seed(int(tree.tokens.sum()) + len(path))
        while True:
            row = path[-1]
            for child in [one for one, parent in enumerate(parents) if parent == row]:
                p = float(target[row, tokens[child]])
                q = float(torch.tensor(logs[child] - logs[row]).exp())
                if float(torch.rand((), generator=draws)) < min(1.0, p / q):
                    chosen[row] = tokens[child]
                    path.append(child)
                    break
            else:
                left = target[row].clone()  # a rejected draft is not drawn again
                left[[tokens[one] for one, parent in enumerate(parents) if parent == row]] = 0
                if float(left.sum()) > 0:
                    chosen[row] = int(torch.multinomial(left, 1, generator=draws))
                return path, int(chosen[row])

    at.around(looping, "choose", choose, quiet=True)
    at.around(looping, "accept", accept)


@fault(34, "The request's top-p is dropped", "O", "top_p")
def top_p_dropped(at: Injection) -> None:
    def choose(original: Wrapper, logits: Any, positions: Any, sampling: Sampling) -> Any:
        return original(logits, positions, replace(sampling, top_p=1.0))

    at.around(looping, "choose", choose)


@fault(44, "All branches have the spine's grammar mask, and in a chain only the root has one", "O",
       "grammar")  # fmt: skip
def one_mask(at: Injection) -> None:
    own: list[Any] = []

    def along(original: Wrapper, grammar: Any, state: Any, tree: Any) -> Any:
        states = original(grammar, state, tree)
        own[:] = [grammar, states]
        if tree.is_chain():
            return [states[0], *[None] * tree.nodes]
        spine = dict(enumerate(states[row] for row in tree.spine()))
        return [spine.get(depth) for depth in tree.depths.tolist()]

    def choose(original: Wrapper, logits: Any, positions: Any, sampling: Sampling) -> Any:
        chosen = original(logits, positions, sampling)
        if own:
            grammar, states = own
            for state, token in zip(states, chosen.tolist(), strict=True):
                if state is not None and not grammar.legal(state)[token]:
                    at.acted()
        own.clear()
        return chosen

    at.around(looping, "along", along, quiet=True)
    at.around(looping, "choose", choose, quiet=True)
