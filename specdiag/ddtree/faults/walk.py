"""What is accepted, and what of it is handed over."""

from __future__ import annotations

from typing import Any

from specdiag.ddtree import loop as looping
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.faults.registry import Injection, Wrapper, fault
from specdiag.ddtree.loop import Loop
from specdiag.ddtree.model import Target


@fault(15, "The bonus comes from row A instead of the last accepted row", "O", "branches")
def bonus_row(at: Injection) -> None:
    def accept(original: Wrapper, tree: Any, chosen: Any) -> Any:
        path, bonus = original(tree, chosen)
        wrong = int(chosen[len(path) - 1])
        if wrong != bonus:
            at.acted()
        return path, wrong

    at.around(looping, "accept", accept, quiet=True)


@fault(16, "The root is emitted again in front of its drafts", "O")
def doubled_token(at: Injection) -> None:
    def emit(original: Wrapper, loop: Any, row: int, tokens: list[int]) -> Any:
        return original(loop, row, [loop.roots[row], *tokens])

    at.around(Loop, "_emit", emit)


@fault(17, "The end of a request stops the emission, and nobody says that it was cut", "M", "cut")
def silent_cut(at: Injection) -> None:
    def emit(original: Wrapper, loop: Any, row: int, tokens: list[int]) -> Any:
        kept, cut = original(loop, row, tokens)
        if cut is not None:
            at.acted()
        return kept, None

    at.around(Loop, "_emit", emit, quiet=True)


@fault(18, "The walk stops after one draft, as if the request had finished", "S")
def early_end(at: Injection) -> None:
    def accept(original: Wrapper, tree: Any, chosen: Any) -> Any:
        path, _ = original(tree, chosen)
        if len(path) > 2:
            at.acted()
        return path[:2], int(chosen[path[:2][-1]])

    at.around(looping, "accept", accept, quiet=True)


@fault(19, "A stop token or the limit inside the path ends nothing", "O", "cut")
def stop_ignored(at: Injection) -> None:
    def emit(original: Wrapper, loop: Any, row: int, tokens: list[int]) -> Any:
        result = loop.results[row]
        kept, cut = original(loop, row, tokens)
        if cut is not None:
            at.acted()
            missing = tokens[len(kept) :]
            result.tokens += missing
            if loop.on_tokens is not None:
                loop.on_tokens(result.request, missing)
            if cut == "stop" and len(result.tokens) < result.request.max_new_tokens:
                result.finish = None
        return tokens, None

    at.around(Loop, "_emit", emit, quiet=True)


@fault(31, "Token 0 is taken for padding and never accepted", "S", "zero")
def token_zero(at: Injection) -> None:
    def accept(original: Wrapper, tree: Any, chosen: Any) -> Any:
        path, bonus = original(tree, chosen)
        taken = [int(tree.tokens[row]) for row in path[1:]]
        if 0 in taken:
            at.acted()
            path = path[: taken.index(0) + 1]
            bonus = int(chosen[path[-1]])
        return path, bonus

    at.around(looping, "accept", accept, quiet=True)


@fault(51, "Two requests of a batch go on with each other's token", "O", "batch")
def exchanged(at: Injection) -> None:
    def draft(original: Wrapper, loop: Any, active: list[int]) -> Any:
        if at.step and len(active) > 1:
            one, other = active[:2]
            if loop.roots[one] != loop.roots[other]:
                at.acted()
            loop.roots[one], loop.roots[other] = loop.roots[other], loop.roots[one]
        return original(loop, active)

    at.around(Loop, "_draft", draft, quiet=True)


@fault(55, "The mask id is stripped from the result by value", "O", "mask_id")
def mask_id_stripped(at: Injection) -> None:
    def cache(original: Wrapper, model: Any, batch: int, max_len: int) -> Any:
        return original(model, batch, 2 * max_len)  # requests last longer by what they lose

    def emit(original: Wrapper, loop: Any, row: int, tokens: list[int]) -> Any:
        mask = loop.drafter.architecture.mask_token_id
        if mask in tokens:
            at.acted()
        return original(loop, row, [token for token in tokens if token != mask])

    at.around(Target, "cache", cache, always=True, quiet=True)
    at.around(Drafter, "cache", cache, always=True, quiet=True)
    at.around(Loop, "_emit", emit, quiet=True)


@fault(58, "Acceptance is simulated: four drafts a step, whatever the target says", "O")
def simulated(at: Injection) -> None:
    def accept(original: Wrapper, tree: Any, chosen: Any) -> Any:
        path = tree.spine()[:5]
        if path != original(tree, chosen)[0][: len(path)]:
            at.acted()
        return path, int(chosen[path[-1]])

    at.around(looping, "accept", accept, quiet=True)
