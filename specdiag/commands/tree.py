"""`specdiag tree`: one step of a trace, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdiag.commands import tokens
from specdiag.commands.options import Parsers, Paths, Tokenizer, traced
from specdiag.errors import Notice, SpecdiagError

if TYPE_CHECKING:
    from specdiag.store import Store

NAMED = 5  # requests that a message names


def tree(
    paths: Paths,
    step: Annotated[int | None, typer.Option(help="Number of the step in its request.")] = None,
    request: Annotated[str | None, typer.Option(help="Name of the request.")] = None,
    run: Annotated[str | None, typer.Option(help="Name of the run, where there are more.")] = None,
    tokenizer: Tokenizer = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every node.")] = False,
    parsers: Parsers = None,
) -> None:
    """Draw a traced step: its tree, the target's choices, what was and should be accepted.

    Example: specdiag tree sample_logs/healthy-tree-trace.jsonl --step 3
    """
    from specdiag.report import drawing

    text_of = tokens.read(tokenizer)
    with traced(paths, parsers) as filled:
        found, notice = find(filled, step, request, run)
    if notice:
        typer.echo(str(notice), err=True)
    typer.echo("\n".join(drawing.draw(found, text_of, everything=everything)))


def find(
    filled: Store, step: int | None, request: str | None, run: str | None
) -> tuple[dict[str, Any], Notice | None]:
    """The columns of the step that is meant, with the text from it on, and what else was meant.

    Without a number it is the first step that has a tree. Raises SpecdiagError if there is none.
    """
    from specdiag import trees

    rows = filled.rows(
        """WITH numbered AS (
            SELECT run, request, source, line, parents IS NOT NULL AS drawn,
                coalesce(step, row_number() OVER requests - 1) AS step
            FROM step WHERE NOT coalesce(warmup, false)
            WINDOW requests AS (PARTITION BY run, request ORDER BY source, line)
        )
        SELECT * FROM numbered
        WHERE ($run IS NULL OR run = $run) AND ($request IS NULL OR request = $request)
            AND ($step IS NULL OR step = $step)
        ORDER BY CASE WHEN $step IS NULL THEN NOT drawn END, source, line LIMIT 10000""",
        {"run": run, "request": request, "step": step},
    )
    if not rows:
        raise _absent(filled, step, request, run)
    place = rows[0]
    (found,) = filled.rows(
        "SELECT * FROM step WHERE source = $source AND line = $line LIMIT 1",
        {"source": place["source"], "line": place["line"]},
    )
    text = filled.rows(
        """SELECT emitted FROM step WHERE run = $run AND request IS NOT DISTINCT FROM $request
            AND (source, line) >= ($source, $line) AND NOT coalesce(warmup, false)
        ORDER BY source, line LIMIT $count""",
        {"run": place["run"], "request": place["request"], "source": place["source"],
         "line": place["line"], "count": trees.STEPS},
    )  # fmt: skip
    found["step"] = place["step"]
    found["text"] = trees.text([one["emitted"] for one in text])
    return found, _notice(rows) if step is not None else None


def _notice(rows: list[dict[str, Any]]) -> Notice | None:
    """That more than one step was meant, and how to name another."""
    for key, option in (("run", "--run"), ("request", "--request")):
        names = list(dict.fromkeys(str(row[key]) for row in rows))
        if len(names) > 1:
            more = "" if len(names) <= NAMED else f" and {len(names) - NAMED:,} more"
            return Notice(
                f"{len(names):,} {key}s have a step {rows[0]['step']}: this is the first's",
                ", ".join(names[:NAMED]) + more, f"name another with {option}",
            )  # fmt: skip
    return None


def _absent(filled: Store, step: int | None, request: str | None, run: str | None) -> SpecdiagError:
    for key, option, wanted in (("run", "--run", run), ("request", "--request", request)):
        if wanted is None:
            continue
        rows = filled.rows(f"SELECT DISTINCT {key} AS name FROM step ORDER BY name")
        names = [str(row["name"]) for row in rows if row["name"] is not None]
        if wanted not in names:
            more = "" if len(names) <= NAMED else f" and {len(names) - NAMED:,} more"
            known = f"there are: {', '.join(names[:NAMED])}{more}" if names else "none has a name"
            return SpecdiagError(f"no {key} is called {wanted}", option, known)
    (row,) = filled.rows(
        """SELECT min(step) AS first, max(step) AS last FROM step
        WHERE ($run IS NULL OR run = $run) AND ($request IS NULL OR request = $request)""",
        {"run": run, "request": request},
    )
    if row["first"] is None:
        return SpecdiagError(
            f"there is no step {step}", "--step", "steps without numbers count from 0"
        )
    return SpecdiagError(
        f"there is no step {step}", "--step", f"there are steps {row['first']} to {row['last']}"
    )
