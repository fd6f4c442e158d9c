"""One traced step as a drawing: the tree, the target's choices, and the path that was accepted.

Row 0 is the root. In the first column `*` is a row that was accepted as it should be, `!` one that
was accepted against the target's choice, and `>` one that should have been accepted and was not.
What a trace does not say is left out, and what contradicts itself is drawn as far as it goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specdiag import trees
from specdiag.report.text import MISSING, count, duration_ms, figure, visible
from specdiag.trees import Tree

WHOLE = 40  # rows up to which nothing is left out
SIBLINGS = 3  # children shown beside the path in a wider tree
DEEPEST = 24  # levels that are indented
TEXT = 24  # characters of a token
LISTED = 16  # rows of a path, or outside the tree, that are listed

# What is read of a step.
COLUMNS = (
    "run", "request", "step", "mode", "algorithm", "ctx_len", "nodes", "budget", "top_k", "step_ms",
    "parents", "node_tokens", "target_tokens", "ranks", "log_probs", "accepted", "bonus", "cut",
    "accepted_depth", "commit_len",
)  # fmt: skip

LEGEND = {
    trees.MISSED: f"{trees.MISSED} should have been accepted",
    trees.AGAINST: f"{trees.AGAINST} accepted against the target's choice",
}


@dataclass(frozen=True)
class _Line:
    row: int
    lead: str  # branches in front of it
    note: str = ""


def draw(
    step: Mapping[str, Any],
    tokens: Callable[[int], str] | None = None,
    *,
    everything: bool = False,
) -> list[str]:
    """The lines of a drawing, the last two being the recorded and the expected values.

    `step` has columns of table `step`, all of them optional, and may have `text`: the token ids
    that the request received from this step on, which say where the walk should have gone if the
    step has no target_tokens. `tokens` turns an id into text. Wide trees show their paths and a
    few siblings, unless `everything` is wanted.
    """
    tree = trees.read(step)
    accepted = trees.whole(step.get("accepted"))
    recorded = {row for row in accepted or [] if row is not None}
    expected, source = trees.expected(step, tree)
    marks = trees.marks(tree, recorded, set(expected) if expected is not None else recorded)
    lines = [_heading(step, tree), ""]
    if tree.parents:
        lines += _table(tree, marks, tokens, everything)
        lines += _outside(tree)
    else:
        lines.append("the step has no tree")
    signs = {*marks.values()}
    legend = [words for sign, words in LEGEND.items() if sign in signs]
    lines += ["", *([", ".join([f"{trees.TAKEN} accepted", *legend])] if legend else [])]
    return [*lines, _recorded(step, accepted), _expectation(expected, source, step, tree)]


# Drawing


def _heading(step: Mapping[str, Any], tree: Tree) -> str:
    number = step.get("step")
    parts = [f"step {figure(number) if number is not None else '?'}"]
    if step.get("request") is not None:
        parts[0] += f" of request {visible(str(step['request']), 60)}"
    if step.get("run") is not None:
        parts[0] += f" in run {visible(str(step['run']), 60)}"
    mode = step.get("mode") or step.get("algorithm")
    parts += [visible(str(mode), 40)] if mode else []
    parts += [f"context {figure(step['ctx_len'])}"] if step.get("ctx_len") is not None else []
    nodes = len(tree.parents) - 1 if tree.parents else step.get("nodes")
    parts += [count(nodes, "node")] if isinstance(nodes, int) else []
    parts += [f"budget {step['budget']}"] if step.get("budget") is not None else []
    parts += [f"top-k {step['top_k']}"] if step.get("top_k") is not None else []
    parts += [duration_ms(step["step_ms"])] if step.get("step_ms") is not None else []
    return ", ".join(parts)


def _table(
    tree: Tree, marks: dict[int, str], tokens: Callable[[int], str] | None, everything: bool
) -> list[str]:
    rows = [["", "row", "rank", "log-prob", "target", "tree"]]
    for line in _lines(tree, marks, everything or len(tree.parents) <= WHOLE):
        if line.row < 0:
            rows.append(["", "", "", "", "", line.lead + line.note])
            continue
        score = tree.log_probs[line.row]
        known = isinstance(score, (int, float)) and math.isfinite(score)
        rank, target = tree.ranks[line.row], tree.targets[line.row]
        rows.append([
            marks.get(line.row, ""), str(line.row), MISSING if rank is None else str(rank),
            f"{score:.2f}" if known else MISSING,
            MISSING if target is None else _token(target, tokens),
            f"{line.lead}{_token(tree.tokens[line.row], tokens)}{line.note}",
        ])  # fmt: skip
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    return [
        "  ".join([
            row[0].ljust(1), *(row[at].rjust(widths[at]) for at in (1, 2, 3)),
            row[4].ljust(widths[4]), row[5],
        ]).rstrip()
        for row in rows
    ]  # fmt: skip


def _lines(tree: Tree, marks: dict[int, str], whole: bool) -> list[_Line]:
    """The rows in the order of a drawing, each child below its parent."""
    sizes = trees.sizes(tree)
    found: list[_Line] = []
    waiting: list[tuple[int, str, str, str]] = [(0, "", "", "")]
    while waiting:
        row, lead, below, words = waiting.pop()
        if row < 0:
            found.append(_Line(row, lead, words))
            continue
        depth = tree.depths[row]
        own = [c for c in tree.children.get(row, []) if tree.depths.get(c) == depth + 1]
        opened = whole or row in marks
        hidden = sizes[row] - 1
        found.append(_Line(row, lead, "" if opened or not hidden else f"  … {hidden:,} below"))
        if not opened:
            continue
        shown = own if whole else [c for n, c in enumerate(own) if n < SIBLINGS or c in marks]
        after: list[tuple[int, str, str, str]] = []
        left = [child for child in own if child not in shown]
        for child in shown:
            last = child == shown[-1] and not left
            after.append((child, *_branch(below, depth, last), ""))
        if left:
            rows = sum(sizes[child] for child in left)
            words = f"… {count(len(left), 'sibling')} more, {count(rows, 'node')} in all"
            after.append((-1, _branch(below, depth, True)[0], "", words))
        waiting += reversed(after)
    return found


def _branch(below: str, depth: int, last: bool) -> tuple[str, str]:
    """What stands in front of a child, and in front of what hangs below it."""
    if depth >= DEEPEST:
        return f"{below}·{depth + 1} ", below
    return below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")


def _token(token: int | None, tokens: Callable[[int], str] | None) -> str:
    if token is None:
        return "no token"
    text = tokens(token) if tokens is not None else ""
    # Quoted before it is cut, so that blanks and line ends at both ends are seen.
    return visible(f'{token} "{text}"', TEXT + len(str(token))) if text else str(token)


def _outside(tree: Tree) -> list[str]:
    """The rows that no path leads to from the root."""
    lost = [row for row in range(len(tree.parents)) if row not in tree.depths]
    if not lost:
        return []
    named = [f"{row} (parent {MISSING if (p := tree.parents[row]) is None else p})"
             for row in lost[:LISTED]]  # fmt: skip
    more = f" and {len(lost) - LISTED:,} more" if len(lost) > LISTED else ""
    return ["", f"not below the root: {count(len(lost), 'row')}: {', '.join(named)}{more}"]


# Values


def _recorded(step: Mapping[str, Any], accepted: list[int | None] | None) -> str:
    depth, commit = step.get("accepted_depth"), step.get("commit_len")
    if depth is None and accepted:
        depth = len(accepted) - 1
    said = _values(depth, commit)
    if accepted:
        said += f"; path {_path(accepted)}"
    if step.get("bonus") is not None:
        said += f", bonus {step['bonus']}"
    if step.get("cut"):
        said += f"; cut: {visible(str(step['cut']), 40)}"
    return f"recorded: {said}"


def _expectation(
    expected: list[int] | None, source: str, step: Mapping[str, Any], tree: Tree
) -> str:
    if expected is None:
        if not tree.drafted:
            return "expected: not known, the step has no tokens of a tree"
        return "expected: not known, the step has neither target choices nor text"
    said = _values(len(expected) - 1, len(expected))
    bonus = tree.targets[expected[-1]]
    if bonus is not None:
        return f"expected: {said}; path {_path(list(expected))}, bonus {bonus}"
    least = "at least " if len(expected) > len(trees.whole(step.get("text")) or []) else ""
    return f"expected: {least}{said}; path {_path(list(expected))}, by {source}"


def _values(depth: Any, commit: Any) -> str:
    return f"accepted depth {figure(depth)}, commit length {figure(commit)}"


def _path(rows: list[int | None]) -> str:
    shown = " ".join(MISSING if row is None else str(row) for row in rows[:LISTED])
    return shown if len(rows) <= LISTED else f"{shown} … ({len(rows):,} rows)"
