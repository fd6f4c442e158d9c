"""Write a step trace of any size, with what it holds: flat records as people print them.

    python -m benchmarks.make_trace build/steps.jsonl --size 100MB

Each record is a step of one request: scalars, times, and four lists of a drafted tree of up to 32
nodes. Eight requests decode together; the root of a step is what the step before it committed last,
the context grows by what was committed, and the target's choices lead along the accepted path.
Trees come from a pool, so that writing costs little. `lists=False` leaves the trees out.

The same arguments give the same bytes. `Truth` counts while it writes what a reader must find.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.make_log import command

NODES = (4, 32)
VOCABULARY = 130_000
TREES = 1_021
TOGETHER, LENGTH = 8, 400  # requests that decode together, steps of each
RUN = 100_000  # records of a run
BLOCK = 2_000


@dataclass
class Truth:
    """Counts and exact sums of what was written; verify_ms in hundredths of a millisecond."""

    steps: int = 0
    bytes: int = 0
    context: int = 0  # sum of ctx_len
    drafts: int = 0  # sum of accepted_drafts
    verify: int = 0
    nodes: int = 0  # entries of a list, roots included
    tokens: int = 0  # sum over all entries of node_tokens


@dataclass(frozen=True)
class Tree:
    """A drafted tree and its accepted path; `size` and `lists` are its parts of a record."""

    size: str
    lists: str
    drafts: int
    nodes: int
    tokens: int


def trees(seed: int) -> list[Tree]:
    """A circle of trees: the root of each is the bonus token of the one before."""
    draw = random.Random(seed)
    roots = [draw.randrange(VOCABULARY) for _ in range(TREES)]
    return [_tree(draw, root, roots[(at + 1) % TREES]) for at, root in enumerate(roots)]


def _tree(draw: random.Random, root: int, bonus: int) -> Tree:
    nodes = draw.randint(*NODES) if draw.random() < 0.2 else NODES[1]
    parents = [-1, *(draw.randrange(row) for row in range(1, nodes + 1))]
    path = [0]
    while (later := [row for row, parent in enumerate(parents) if parent == path[-1]]) and (
        draw.random() < 0.75
    ):
        path.append(later[0])
    # Every token once: no other child carries what the target chose.
    drawn = draw.sample(range(VOCABULARY), 2 * nodes + 3)
    drawn = [token for token in drawn if token not in (root, bonus)]
    tokens, targets = [root, *drawn[:nodes]], drawn[nodes : 2 * nodes + 1]
    for row, child in itertools.pairwise(path):
        targets[row] = tokens[child]
    targets[path[-1]] = bonus
    return Tree(
        f'"tree_size": {nodes}, "budget": {NODES[1]}, "accepted_drafts": {len(path) - 1}, '
        f'"commit_len": {len(path)}, ',
        f', "node_tokens": {tokens}, "parents": {parents}, "target_predict": {targets}, '
        f'"accepted_path": {path}',
        len(path) - 1, nodes + 1, sum(tokens),
    )  # fmt: skip


def records(seed: int, lists: bool = True) -> Iterator[tuple[list[str], Truth]]:
    """Records without end, 2,000 at a time, and the truth so far."""
    pool = trees(seed)
    draw = random.Random(seed + 1).random
    truth = Truth()
    context = [0] * TOGETHER
    while True:
        block = []
        for number in range(truth.steps, truth.steps + BLOCK):
            step, slot = divmod(number, TOGETHER)
            life, age = divmod(step, LENGTH)
            if not age:
                context[slot] = 500 + int(7_500 * draw())
            request = life * TOGETHER + slot
            tree = pool[(request * 7 + age) % TREES]
            here = context[slot]
            context[slot] += tree.drafts + 1
            verify = int(1_000 + 0.2 * here + 100 * draw())
            truth.context += here
            truth.drafts += tree.drafts
            truth.verify += verify
            truth.nodes += tree.nodes
            truth.tokens += tree.tokens
            block.append(
                f'{{"run_id": "b32-{number // RUN}", "step": {step}, "req": {request}, '
                f'"ctx_len": {here}, {tree.size}"draft_ms": 2.8, "build_ms": 0.4, '
                f'"verify_ms": {verify / 100:.2f}, "commit_ms": 0.3, '
                f'"step_ms": {verify / 100 + 3.6:.2f}{tree.lists if lists else ""}}}'
            )
        truth.steps += BLOCK
        yield block, truth


def write(path: Path, size: int, seed: int = 7, lists: bool = True, steps: int = 0) -> Truth:
    """A trace of about that many bytes, or of that many steps, to the end of a block."""
    truth = Truth()
    written = 0
    with path.open("wb") as out:
        for block, truth in records(seed, lists):
            written += out.write(("\n".join(block) + "\n").encode())
            if truth.steps >= steps if steps else written >= size:
                break
    truth.bytes = written
    return truth


if __name__ == "__main__":
    command(__doc__, write)
