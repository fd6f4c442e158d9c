"""What `specdiag check` says by itself where it runs in CI: on GitHub Actions and on GitLab."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specdiag.commands.outputs import STDOUT
from specdiag.errors import Notice, reason

if TYPE_CHECKING:
    from specdiag.commands.outputs import Target
    from specdiag.diagnosis import Diagnosis

OFF = "SPECDIAG_NO_CI"
LEAST = 65_000  # bytes of a step's summary; with less room it is not written
ARTIFACTS = {"gitlab": "gl-code-quality-report.json", "junit": "junit.xml"}


@contextmanager
def told(result: Diagnosis, wanted: list[Target]) -> Iterator[None]:
    """Around the writing of reports: what the service makes something of, where it is one."""
    kinds = {one.kind for one in wanted}
    if os.environ.get(OFF, "") not in ("", "0"):
        yield
    elif os.environ.get("GITHUB_ACTIONS") == "true":
        printed = all(one.path != STDOUT for one in wanted)
        with _text_only(result) if printed else nullcontext():
            yield
        _github(result, annotate=printed and "github" not in kinds)
    else:
        yield
        if os.environ.get("GITLAB_CI") == "true":
            _gitlab(kinds)


@contextmanager
def _text_only(result: Diagnosis) -> Iterator[None]:
    """Nothing printed within is a workflow command: text out of a log may look like one."""
    import hashlib

    from specdiag.report import json

    # Only who knows the whole result could write the word that ends it into a log.
    word = "specdiag-" + hashlib.sha256(json.render(result).encode()).hexdigest()[:32]
    typer.echo(f"::stop-commands::{word}")
    try:
        yield
    finally:
        typer.echo(f"::{word}::")


def _github(result: Diagnosis, annotate: bool) -> None:
    from specdiag.report import github

    if annotate:
        typer.echo(github.render(result), nl=False)
    file = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not file:
        return
    path = Path(file)
    try:
        room = github.SUMMARY - (path.stat().st_size if path.exists() else 0)
        if room < LEAST:
            _warn("the summary of this step is full", file)
            return
        with path.open("ab") as stream:
            stream.write(github.summary(result, room).encode("utf-8", "backslashreplace"))
    except (OSError, ValueError) as error:
        _warn(f"the step summary cannot be written: {reason(error)}", file)


def _warn(what: str, where: str) -> None:
    typer.echo(str(Notice(what, where, f"switch it off: --no-ci, or {OFF}=1")), err=True)


def _gitlab(kinds: set[str]) -> None:
    missing = [f"--output {kind}={path}" for kind, path in ARTIFACTS.items() if kind not in kinds]
    if missing:
        typer.echo(
            f"hint: {' '.join(missing)} for artifacts:reports (codequality, junit): the findings "
            "are then shown in the merge request",
            err=True,
        )
