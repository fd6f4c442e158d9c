"""The DDTree reference's result files (.pt), as records that a parser reads.

`{responses: [{arm: result}], block_size, args}`: a result is a namespace with the lengths of its
rounds, with its tokens, and, where they were saved, with the trees. An arm is `baseline`, `dflash`
or `ddtree_tbBUDGET`. See parsers/reference_results.toml for the records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from specdiag import pickles, standins
from specdiag.source import Source

MOST_ARMS = 100
LONGEST_NAME = 200
LONGEST_ROUND = 4096
MODES = {"baseline": ("autoregressive", "NONE"), "dflash": ("linear", "DFLASH")}


def records(file: Source) -> bytes:
    """The records of a result file as JSON, one a line; none, and a notice, where it holds none."""
    try:
        with open(file.path, "rb") as stream:
            found = pickles.load(stream, file.size())
        lines = [json.dumps(record) for record in _results(found)]
    except standins.OtherArchive:
        file.warn("this is a zip archive", "unpack it; a whole one called .zip is opened")
        return b""
    except standins.Refused as error:
        _refuse(file, str(error))
        return b""
    except (OSError, TypeError, ValueError, OverflowError):
        _refuse(file, "it holds what no result has")
        return b""
    if not lines:
        file.warn(
            "this file holds no rounds of a speculative decoder",
            "see `specdiag parsers reference_results`",
        )
        return b""
    file.quoted = lambda wanted: {n: lines[n - 1] for n in wanted if 0 < n <= len(lines)}
    return "".join(f"{line}\n" for line in lines).encode()


def _refuse(file: Source, why: str) -> None:
    file.warn(
        f"this pickle is not read: {why}",
        "nothing in it was run; if you trust it, write its rounds as JSON lines",
    )


@dataclass(frozen=True)
class _Arm:
    name: str
    mode: str
    algorithm: str
    budget: int | None
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def drafts(self) -> bool:
        return self.algorithm != "NONE"


def _arm(name: str, arguments: dict[str, Any]) -> _Arm:
    mode, algorithm = MODES.get(name, ("ddtree", "DDTREE"))
    budget = name.rpartition("tb")[2]
    return _Arm(name, mode, algorithm, int(budget) if budget.isdecimal() else None, arguments)


def _results(data: Any) -> Iterator[dict[str, Any]]:
    """A `run` record an arm, then its `request` and `step` records."""
    settings = _object(data)
    arguments = _object(settings.get("args"))
    rows = [row for row in _list(settings.get("responses", data)) if isinstance(row, dict)]
    if rows and all("acceptance_lengths" in row for row in rows):  # one arm, without its name
        rows = [{"ddtree": row} for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in [name for name in names if len(name) < LONGEST_NAME][:MOST_ARMS]:
        answers = [(n, _object(row.get(name))) for n, row in enumerate(rows)]
        answers = [(n, row) for n, row in answers if _list(row.get("acceptance_lengths"))]
        if not answers:
            continue
        arm = _arm(name, arguments)
        known = {
            "algorithm": arm.algorithm,
            "target": arguments.get("model_name_or_path"),
            "drafter": arguments.get("draft_name_or_path") if arm.drafts else None,
            "block": settings.get("block_size") if arm.drafts else None,
            "budget": arm.budget,
            "dataset": arguments.get("dataset"),
            "temperature": arguments.get("temperature"),
            "attention_backend": settings.get("target_attn_implementation"),
        }
        known = {
            key: str(value)[:LONGEST_NAME] for key, value in known.items() if value is not None
        }
        yield {"record": "run", "arm": name, **known}
        for number, answer in answers:
            yield from _answer(arm, str(number), answer)


def _answer(arm: _Arm, request: str, answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One request with its rounds. `output_ids` has the prompt in front, and is cut at the stop."""
    lengths = [int(one) for one in answer["acceptance_lengths"]]
    if not 1 <= min(lengths) <= max(lengths) <= LONGEST_ROUND:
        raise ValueError("no length of a round")
    tokens = _tokens(answer.get("output_ids"))
    start = _int(answer.get("num_input_tokens"))
    written = _int(answer.get("num_output_tokens"))
    if written is None and tokens and start is not None:
        written = len(tokens) - start
    most = _int(arm.arguments.get("max_new_tokens"))
    at_limit = most is not None and written is not None and written >= most
    finish = "length" if at_limit else "stop"
    pace = answer.get("time_per_output_token")
    head = {"arm": arm.name, "request": request}
    row = {
        "record": "request",
        **head,
        "prompt_tokens": start,
        "completion_tokens": written,
        "max_new_tokens": most,
        "temperature": arm.arguments.get("temperature"),
        "finish": finish,
        "ttft_s": answer.get("time_to_first_token"),
        "tokens_per_s": 1 / pace if isinstance(pace, float) and pace > 0 else None,
    }
    if arm.drafts:
        row["verify_steps"] = len(lengths)
        row["correct_drafts"] = sum(lengths) - len(lengths)
        row["histogram"] = [lengths.count(n) for n in range(1, max(lengths) + 1)]
    yield row
    clocks = _each(answer.get("round_timestamps"), lengths)
    trees = _each(answer.get("round_trees"), lengths)
    for step, length in enumerate(lengths):
        last = step == len(lengths) - 1
        record: dict[str, Any] = {"record": "step", **head, "step": step, "mode": arm.mode}
        if arm.drafts:
            record["algorithm"] = arm.algorithm
        record |= {"batch": 1, "budget": arm.budget, "commit_len": length, "ctx_len": start}
        record["finish"] = finish if last else None
        if clocks and step:  # the first round holds the drafter's prompt, too
            record["step_ms"] = 1000 * (clocks[step] - clocks[step - 1])
        if start is not None and start < len(tokens):
            emitted = tokens[start + 1 : start + 1 + length]
            record |= {"root": tokens[start], "emitted": emitted}
            if last and len(emitted) < length:
                record["cut"] = finish
        if trees:
            record |= _tree(_object(trees[step]))
        yield record
        start = start + length if start is not None else None


def _tree(round: dict[str, Any]) -> dict[str, Any]:
    """What a round recorded of its tree: in an object of its own, or beside the accepted rows."""
    tree = _object(round.get("tree")) or round
    found = {
        "accepted": round.get("accepted_indices"),
        "budget": round.get("budget"),
        "node_tokens": tree.get("node_token_ids"),
        "depths": tree.get("node_depths"),
        "parents": tree.get("parents"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _each(value: Any, like: list[int]) -> list[Any]:
    """A list that has an entry a round, or none."""
    found = _list(value)
    return found if len(found) == len(like) else []


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _tokens(value: Any) -> list[int]:
    """The tokens of [[...]] or [...]."""
    found = _list(value)
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    return found if all(isinstance(one, int) for one in found) else []
