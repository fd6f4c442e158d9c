"""What tests share: --update, the definitions, diagnoses, and the command run in this process."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from once import Analysis, Once

from specdiag import bundled, cli, definition, diagnosis, rule, source
from specdiag.diagnosis import Diagnosis
from specdiag.parser import Parser
from specdiag.rule import Rule
from specdiag.store import Store

ROOT = Path(__file__).parents[1]

for _name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITLAB_CI", "SPECDIAG_NO_CI"):
    os.environ.pop(_name, None)  # what `check` adds in CI is tested where it is wanted

# The same examples in every run, so that a change that breaks a test is the change just made.
settings.register_profile(
    "specdiag", derandomize=True, deadline=None, print_blob=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
settings.load_profile("specdiag")

# What tests parse is nobody's to find again.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="specdiag-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)


# Where every tool is installed, a test that is skipped is a promise that nobody keeps.
ALL_TOOLS = "SPECDIAG_ALL_TOOLS" in os.environ
SKIPPED_ALL_THE_SAME = ("root may read everything", "no logs of others beside this repository")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _unskipped(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _unskipped(report)


def _unskipped(report: Any) -> Any:
    if ALL_TOOLS and report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if not any(known in reason for known in SKIPPED_ALL_THE_SAME):
            report.outcome, report.longrepr = "failed", f"skipped where nothing may be: {reason}"
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite tests/expected")


@pytest.fixture(scope="session", autouse=True)
def load_bundled_files_once() -> Iterator[None]:
    """Reading all of parsers/ and rules/ for every command would be a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (definition, rule):
            patch.setattr(module, "load", _once(module.load))
        yield


def _once(load: Callable[[Path], Any]) -> Callable[[Path], Any]:
    cached = functools.cache(load)
    return lambda path: (
        cached(path) if path.parent in (bundled.PARSERS, bundled.RULES) else load(path)
    )


@pytest.fixture(scope="module")
def known_analyses() -> Once:
    """What `analyses_once` knows: of one module, so that no store outlives it."""
    return Once(diagnosis.analyze)


@pytest.fixture
def analyses_once(monkeypatch: pytest.MonkeyPatch, known_analyses: Once) -> None:
    """For tests of what commands do with findings: the same files are not analysed again."""
    monkeypatch.setattr(diagnosis, "analyze", known_analyses)


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder that has parsers/, rules/ and sample_logs/."""
    return ROOT


@pytest.fixture(scope="session")
def definitions() -> tuple[list[Parser], list[Rule]]:
    """Every bundled parser and rule."""
    parsers, rules, broken = diagnosis.definitions([], [])
    assert not broken, "\n".join(str(error) for error in broken)
    return parsers, rules


@pytest.fixture(scope="session")
def load(definitions: tuple[list[Parser], list[Rule]]) -> Callable[..., Store]:
    """Files and folders as a filled store, without any rule."""

    def load(*paths: Path) -> Store:
        return diagnosis.fill(source.find([str(path) for path in paths]), definitions[0])

    return load


@pytest.fixture(scope="session")
def analyze(definitions: tuple[list[Parser], list[Rule]]) -> Callable[..., Analysis]:
    """Files and folders with all rules applied: the diagnosis and the store, of one reading."""

    def analyze(*paths: Path, **params: dict[str, object]) -> Analysis:
        files = source.find([str(path) for path in paths])
        return diagnosis.analyze(files, *definitions, params)

    return analyze  # a rule that does not run is what test_rules.py names


@pytest.fixture(scope="session")
def diagnose(analyze: Callable[..., Analysis]) -> Callable[..., Diagnosis]:
    """Files and folders with all rules applied: the diagnosis alone."""
    return lambda *paths, **params: analyze(*paths, **params)[0]


@pytest.fixture(scope="session")
def sample(diagnose: Callable[..., Diagnosis]) -> Callable[[str], Diagnosis]:
    """The diagnosis of an entry of sample_logs, made once for all tests."""
    known: dict[str, Diagnosis] = {}

    def sample(name: str) -> Diagnosis:
        if name not in known:
            known[name] = diagnose(ROOT / "sample_logs" / name)
        return known[name]

    return sample


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def specdiag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """The command, run in this process: `specdiag("check", "a.log")`."""
    monkeypatch.setenv("COLUMNS", "100")  # a terminal's own width must not change what is printed

    def run(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["specdiag", *map(str, arguments)])
        capsys.readouterr()
        code: object = 0
        try:
            cli.main()
        except SystemExit as left:
            code = left.code
        out, err = capsys.readouterr()
        return Answer(code if isinstance(code, int) else int(code is not None), out, err)

    return run
