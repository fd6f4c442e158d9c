"""The loop between prefill and the end: draft, build, compile, verify, walk, commit.

The target chooses behind every row, and a path is followed as far as the choices are in the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdiag.ddtree.cache import Cache
from specdiag.ddtree.clock import Clock
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.grammar import along, limit
from specdiag.ddtree.model import Output, Target
from specdiag.ddtree.passes import Passes
from specdiag.ddtree.prefix import Prefixes
from specdiag.ddtree.record import Recorder
from specdiag.ddtree.step import Drafted, Step, count
from specdiag.ddtree.tree import Candidates, Tree, build, candidates
from specdiag.ddtree.verify import Pass, accept, choose, compile

if TYPE_CHECKING:
    from specdiag.ddtree.decode import Options, Request, Result


class Loop:
    """The state of a batch between its steps."""

    def __init__(
        self, target: Target, drafter: Drafter | None, results: Sequence[Result],
        options: Options, on_tokens: Callable[[Request, list[int]], None] | None,
        prefixes: Prefixes | None = None,
    ) -> None:  # fmt: skip
        self.prefixes = prefixes
        self.target, self.options, self.on_tokens = target, options, on_tokens
        self.drafter = None if options.mode == "autoregressive" else drafter
        self.results = results
        requests = [result.request for result in results]
        self.width = width_of(self.drafter, requests, options)
        room = room_for(requests, self.width)
        self.passes = Passes(target, self.drafter, options.backend)
        self.cache = target.cache(len(requests), self.passes.room(room))
        self.draft_cache: Cache | None = None
        self.taps: Sequence[int] = ()
        if self.drafter is not None:
            room = self.passes.room(room + self.drafter.architecture.block_size)
            self.draft_cache = self.drafter.cache(len(requests), room)
            self.taps = self.drafter.taps
        # Where each text stands in its grammar; None has none.
        self.states = [each.grammar.start if each.grammar else None for each in requests]
        self.roots = [0] * len(results)  # last token of each, which the target has yet to read
        self.features: Tensor | None = None  # [batch, row, tap * hidden] not yet in the draft cache
        self.fresh = [0] * len(results)  # how many of these rows are real,
        self.sources: list[list[int]] = [[] for _ in results]  # and the rows they come from
        self.clock = Clock(target.device, running=False)

    def prefill(self) -> None:
        """Run the prompts; the first token of each request comes from here and from no step."""
        requests = [result.request for result in self.results]
        prompts = [request.prompt for request in requests]
        known = [0] * len(prompts)
        if self.prefixes is not None:
            known = self.prefixes.restore(requests, self.cache, self.draft_cache)
        new = [prompt[at:] for prompt, at in zip(prompts, known, strict=True)]
        out = self.target.prefill(new, self.cache, self.taps)
        self.features, self.fresh = out.features, [len(prompt) for prompt in new]
        for row, result in enumerate(self.results):
            last = torch.tensor([len(prompts[row]) - 1])
            if result.request.grammar is not None:
                limit(out.logits[row], result.request.grammar, [self.states[row]])
            (token,) = choose(out.logits[row], last, result.request.sampling).tolist()
            self._emit(row, [token])
            self.roots[row] = token

    def run(self, recorder: Recorder | None = None) -> None:
        """Step until every request has ended."""
        self.clock = Clock(self.target.device, running=recorder is not None)
        while active := [row for row, one in enumerate(self.results) if one.finish is None]:
            self.step(active, recorder)

    def step(self, active: list[int], recorder: Recorder | None) -> None:
        """One draft-verify-commit round of every active request."""
        clock = self.clock
        clock.start()
        starts = self.cache.known_lengths.tolist()
        fresh, sources, drafted = self.fresh, self.sources, self._draft(active)
        given = compile(drafted.trees, starts, self.width, self.target.device)
        clock.lap("compile")
        out = self.passes.verify(given, self.cache, self.taps)
        clock.lap("verify")
        chosen, accepted, bonus = self._walk(active, drafted.trees, given, out)
        clock.lap("walk")
        step = Step(active, starts, fresh, sources, drafted, given, out, chosen, accepted, bonus)
        if recorder is not None:
            recorder.verified(step)
            clock.lap("record")
        self._commit(out, accepted)
        clock.lap("commit")
        for row in active:
            tokens = [*drafted.trees[row].tokens[accepted[row][1:]].tolist(), bonus[row]]
            step.emitted[row], step.cuts[row] = self._emit(row, tokens)
            step.counters[row] = count(step, row)
            self.results[row].steps += 1
            self.roots[row] = bonus[row]
        if recorder is not None:
            recorder.committed(step, clock.marks)

    # Stages

    def _draft(self, active: list[int]) -> Drafted:
        """Candidates of every row, and the tree of each active one."""
        trees = [_alone(root) for root in self.roots]
        drafted = Drafted(trees)
        if self.drafter is not None and self.draft_cache is not None:
            assert self.features is not None
            drafted.kv_before = self.draft_cache.known_lengths.tolist()
            first = self.drafter.append(self.features, self.fresh, self.draft_cache)
            drafted.context_start = first
            drafted.kv_after = self.draft_cache.known_lengths.tolist()
            drafted.block = self.drafter.block(torch.tensor(self.roots, device=self.target.device))
            drafted.logits = self.passes.draft(drafted.block, self.draft_cache)
        self.clock.lap("draft")
        if drafted.logits is not None:
            top_k = self.options.top_k if self.options.draws_trees else 1
            found = candidates(drafted.logits, top_k)
            drafted.table = Candidates(found.tokens.cpu(), found.log_probs.cpu())
        self.clock.lap("topk")
        if drafted.table is not None:
            for row in active:
                trees[row] = self._plan(row, drafted.table)
        self.clock.lap("build")
        return drafted

    def _plan(self, row: int, table: Candidates) -> Tree:
        """The tree to verify; a shadow tree is built as well, and only its time counts."""
        options, root = self.options, self.roots[row]
        own = Candidates(table.tokens[row], table.log_probs[row])
        if options.draws_trees:
            budget = options.budget_of(self.results[row].request)
            tree = build(root, own, budget, options.depth_limit, options.depth_bonus)
            if options.mode == "ddtree":
                return tree
        first = Candidates(own.tokens[:, :1], own.log_probs[:, :1])
        return build(root, first, len(first.tokens), options.depth_limit)

    def _walk(
        self, active: list[int], trees: list[Tree], given: Pass, out: Output
    ) -> tuple[list[Tensor], list[list[int]], list[int]]:
        """The target's choices, the accepted rows and the bonus token of each batch row."""
        chosen: list[Tensor] = []
        paths: list[list[int]] = []
        bonus: list[int] = []
        for row, (tree, result) in enumerate(zip(trees, self.results, strict=True)):
            logits, behind = out.logits[row, : tree.nodes + 1], given.positions[row].cpu()
            if result.request.grammar is not None:
                grammar = result.request.grammar
                limit(logits, grammar, along(grammar, self.states[row], tree))
            chosen.append(choose(logits, behind[: len(logits)], result.request.sampling).cpu())
            path, token = accept(tree, chosen[row])
            paths.append(path if row in active else [])
            bonus.append(token)
        return chosen, paths, bonus

    def _commit(self, out: Output, accepted: list[list[int]]) -> None:
        """Keep the accepted rows, and in path order their features for the next draft."""
        self.cache.commit(accepted, out.states)
        self.fresh, self.sources = [len(path) for path in accepted], accepted
        if out.features is not None:
            most = max(self.fresh)
            filled = [[*path, *[0] * (most - len(path))] for path in accepted]
            rows = torch.tensor(filled, device=out.features.device)[:, :, None]
            self.features = out.features.gather(1, rows.expand(-1, -1, out.features.shape[-1]))

    def _emit(self, row: int, tokens: list[int]) -> tuple[list[int], str | None]:
        """Hand tokens to a request up to its end; what was kept, and why not all."""
        result, cut = self.results[row], None
        for place, token in enumerate(tokens, start=1):
            if token in self.options.stop_ids:
                result.finish = "stop"
            elif self._completes(row, token):
                result.finish = "grammar"
            elif len(result.tokens) + place >= result.request.max_new_tokens:
                result.finish = "length"
            if result.finish is not None:
                cut = result.finish if place < len(tokens) else None
                tokens = tokens[:place]
                break
        result.tokens += tokens
        if self.prefixes is not None and result.finish is not None:
            text = [*result.request.prompt, *result.tokens]
            self.prefixes.keep(row, text, self.cache, self.draft_cache)
        if self.on_tokens is not None:
            self.on_tokens(result.request, tokens)
        return tokens, cut

    def _completes(self, row: int, token: int) -> bool:
        """Whether nothing may follow this token of a request with a grammar."""
        grammar, state = self.results[row].request.grammar, self.states[row]
        if grammar is None or state is None:
            return False
        self.states[row] = state = grammar.advance(state, token)
        return state is not None and grammar.ended(state)


def width_of(drafter: Drafter | None, requests: Sequence[Request], options: Options) -> int:
    """Rows of a verification, the same for all requests and in every step."""
    if drafter is None or options.mode == "autoregressive":
        return 1
    if options.mode != "ddtree":
        return drafter.architecture.block_size
    return 1 + max(options.budget_of(request) for request in requests)


def room_for(requests: Sequence[Request], width: int) -> int:
    """Slots of the target's cache for each request.

    The last path of a request may go on past its end while others are still running.
    """
    return max(len(each.prompt) + each.max_new_tokens for each in requests) + 2 * width


def _alone(root: int) -> Tree:
    """The root without drafts: plain decoding, and finished rows of a batch."""
    one = torch.zeros(1, dtype=torch.int64)
    return Tree(torch.tensor([root]), one - 1, one, one, torch.zeros(1))
