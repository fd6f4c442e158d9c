"""examples/ci: every command there is run, with logs in the place of servers, and ends as it says.

`python -m sglang...`, `curl` and `pip` are stand-ins; `specdiag`, `pytest` and the shell are real.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mutations
import pytest
import yaml
from compose import Server

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "ci"
WORKFLOW = EXAMPLES / "github-actions.yml"
PIPELINE = EXAMPLES / "gitlab-ci.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
DIED = ROOT / "sample_logs" / "founding-5-failed-starts" / "missing-soundfile.log"
SERVER = mutations.server("sglang 0.5.12", "examples")
SICK = SERVER.but(kept=0.0)  # no draft is accepted: high

# What cannot run here. A server writes its log and lives until it is killed, or dies.
STANDINS = {
    "python": """#!/usr/bin/env bash
case "$*" in
"-m pip install "*) ;;
"-m sglang.launch_server "*)
    cat "$LEFT/server.log"
    [ -e "$LEFT/bench.jsonl" ] || exit 1
    touch "$LEFT/ready"
    exec tail -f /dev/null ;;
"-m sglang.bench_serving "*)
    while [ "$1" != --output-file ]; do shift; done
    cat "$LEFT/bench.jsonl" >> "$2" ;;
*) echo "no stand-in for: $*" >&2; exit 99 ;;
esac
""",
    "curl": '#!/bin/sh\n[ -e "$LEFT/ready" ]\n',
    "specdiag": f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m specdiag "$@"\n',
}


@dataclass
class Place:
    """A working directory with stand-ins on its PATH."""

    folder: Path
    left: Path  # what the stand-ins leave behind
    environment: dict[str, str]
    missing: list[str] = field(default_factory=list)

    def shell(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A script as both services run it."""
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.folder, env=self.environment | more, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip


@pytest.fixture
def place(tmp_path):
    """The examples' settings beside logs that are still to be made."""
    folders = work, left, commands = [tmp_path / name for name in ("work", "left", "bin")]
    for folder in folders:
        folder.mkdir()
    for name, text in STANDINS.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    (work / "specdiag.toml").write_text((EXAMPLES / "specdiag.toml").read_text())
    own = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "CI", "PYTEST_"))}
    paths = {"PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return Place(work, left, own | paths | {"LEFT": str(left)})


def leave(folder: Path, server: Server | None) -> None:
    """What a benchmark of this server leaves behind; None died at its start."""
    if server is None:
        (folder / "server.log").write_bytes(DIED.read_bytes())
        return
    for name, text in mutations.log(server).items():
        (folder / name).write_text(text)
    (folder / "bench.jsonl").write_text(json.dumps(mutations.bench(server)) + "\n")


each_outcome = pytest.mark.parametrize(
    ("server", "code"), [(SERVER, 0), (SICK, 1), (None, 1)], ids=["healthy", "sick", "died"]
)


# GitHub Actions -----------------------------------------------------------------------------------


def workflow() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())
    return found


def steps(place: Place) -> dict[str, subprocess.CompletedProcess[str]]:
    """The steps of the job that a runner would run, by name; of uploads, that there is the file."""
    made = workflow()
    (job,) = made["jobs"].values()
    assert job["defaults"]["run"]["shell"] == "bash"
    summary = place.folder.parent / "summary.md"
    own = made["env"] | {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    done: dict[str, subprocess.CompletedProcess[str]] = {}
    red = False
    for step in job["steps"]:
        if red and "!cancelled()" not in step.get("if", ""):
            continue
        if "run" in step:
            assert "${{" not in step["run"], "what is put into a script is never quoted"
            done[step["name"]] = place.shell(step["run"], **own)
            red = red or done[step["name"]].returncode != 0
        else:
            given = step.get("with", {})
            wanted = [*given.get("path", "").split(), *given.get("sarif_file", "").split()]
            place.missing += [one for one in wanted if not (place.folder / one).exists()]
    return done


@each_outcome
def test_the_workflow_ends_as_the_run_deserves(place, server, code):
    leave(place.left, server)
    done = steps(place)
    assert done["Install specdiag"].returncode == 0
    assert done["Benchmark"].returncode == (1 if server is None else 0), done["Benchmark"].stderr
    assert done["Check"].returncode == code, done["Check"].stdout + done["Check"].stderr
    assert place.missing == []


def test_the_workflow_may_do_no_more_than_it_needs():
    assert workflow()["permissions"] == {"contents": "read", "security-events": "write"}


# GitLab -------------------------------------------------------------------------------------------


@each_outcome
def test_the_pipeline_ends_as_the_run_deserves(place, server, code):
    leave(place.left, server)
    made = yaml.safe_load(PIPELINE.read_text())
    ran = {}
    for name in made.pop("stages"):
        job = made[name]
        assert job["stage"] == name and job["artifacts"]["when"] == "always"
        done = place.shell("\n".join(job["script"]), **job.get("variables", {}), GITLAB_CI="true")
        ran[name] = done
        reports = job["artifacts"].get("reports", {}).values()
        for kept in (*job["artifacts"].get("paths", []), *reports):
            assert (place.folder / kept).exists(), (kept, done.stderr)
    assert set(made) == set(ran)
    assert ran["benchmark"].returncode == (1 if server is None else 0), ran["benchmark"].stderr
    assert ran["check"].returncode == code, ran["check"].stdout + ran["check"].stderr


# A shell ------------------------------------------------------------------------------------------


@each_outcome
def test_the_script_passes_the_exit_code_on_and_says_what_it_means(place, server, code):
    leave(place.left, server)
    done = place.shell(f"{EXAMPLES / 'after-bench.sh'} {place.left} out")
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        f"benchmark check ({code}): {('in order', 'findings')[code]}"
    )
    assert {path.name for path in (place.folder / "out").iterdir()} == {
        "specdiag.html", "specdiag.json", "specdiag.md",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("prepare", "code", "said"),
    [
        ("echo 'fail_onn = 1' > specdiag.toml", 2, "wrong use"),
        ("rm -r logs", 2, "wrong use"),
        ("rm logs/*", 3, "undecided"),
        ("""echo 'require = ["slower_than_baseline"]' > specdiag.toml""", 3, "undecided"),
        (
            "printf '#!/bin/sh\nexit 101' > specdiag; chmod +x specdiag",
            101,
            "specdiag made a mistake",
        ),
        ("printf '#!/bin/sh\nexit 130' > specdiag; chmod +x specdiag", 130, "interrupted"),
    ],
)
def test_the_script_tells_a_bad_run_from_a_bad_command(place, prepare, code, said):
    (place.folder / "logs").mkdir()
    leave(place.folder / "logs", SERVER)
    done = place.shell(f"{prepare}\nPATH=.:$PATH {EXAMPLES / 'after-bench.sh'} logs")
    assert done.returncode == code, done.stderr
    assert f"benchmark check ({code}): {said}" in done.stderr.splitlines()[-1]


def test_the_script_wants_to_know_where_the_logs_are(place):
    done = place.shell(str(EXAMPLES / "after-bench.sh"))
    assert done.returncode == 1 and "usage: after-bench.sh LOGS" in done.stderr


# Settings -----------------------------------------------------------------------------------------


def test_the_settings_are_in_order(place):
    done = place.shell("specdiag validate specdiag.toml")
    assert (done.returncode, done.stdout) == (0, "1 file in order\n"), done.stderr


def test_what_is_left_out_of_the_settings_can_be_put_in(place):
    lines = (EXAMPLES / "specdiag.toml").read_text().splitlines()
    text = "\n".join(re.sub(r"^# (?=rules +=|parsers +=)", "", line) for line in lines)
    named = tomllib.loads(text)
    for kind, suffix in (("rules", ".sql"), ("parsers", ".toml")):
        (name,) = named[kind]
        (place.folder / name).mkdir(parents=True)
        source = sorted((ROOT / kind).glob(f"*{suffix}"))[0]
        (place.folder / name / f"my_own{suffix}").write_text(source.read_text())
    (place.folder / "specdiag.toml").write_text(text)
    done = place.shell("specdiag validate specdiag.toml")
    assert done.returncode == 0, done.stderr


# pytest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "passed", "failed"),
    [(SERVER, 4, 0), (SICK, 2, 2)], ids=["healthy", "sick"],
)  # fmt: skip
def test_the_test_file_tells_a_healthy_benchmark_from_a_sick_one(place, server, passed, failed):
    leave(place.left, server)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.",
         str(EXAMPLES / "test_benchmark.py")],
        cwd=place.folder, env=place.environment | {"BENCHMARK_LOGS": str(place.left)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    counts = {
        word: int(number) for number, word in re.findall(r"(\d+) (passed|failed)", done.stdout)
    }
    assert (counts.get("passed", 0), counts.get("failed", 0)) == (passed, failed), done.stdout
    if failed:
        assert "[draft_never_accepted]" in done.stdout and "server.log:" in done.stdout


# pre-commit ---------------------------------------------------------------------------------------


def hook() -> dict[str, Any]:
    (one,) = yaml.safe_load(HOOKS.read_text())
    return dict(one)


def test_the_hook_is_one():
    one = hook()
    assert {"id", "name", "entry", "language", "files"} <= set(one)
    assert one["language"] == "python"  # pre-commit installs this repository
    (shown,) = re.findall(r"```yaml\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.DOTALL)
    (repo,) = yaml.safe_load(shown)["repos"]
    assert repo["hooks"] == [{"id": one["id"]}]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("specdiag.toml", True), ("bench/specdiag.toml", True), ("specdiag/rules/a.sql", True),
        ("tools/specdiag/parsers/b.toml", True), ("pyproject.toml", False), ("a.sql", False),
        ("myspecdiag/a.sql", False), ("specdiag/rules/README.md", False),
    ],
)  # fmt: skip
def test_the_hook_is_for_files_of_specdiag(path, wanted):
    assert bool(re.search(hook()["files"], path)) is wanted


RULE = """-- title    = "The queue grows"
-- severity = "medium"
-- needs    = {{ decode = ["queued"] }}
-- why      = "More requests arrive than are served."
-- fix      = ["Admit fewer, or add a replica."]
SELECT {columns} FROM decode GROUP BY run
"""
FORMAT = """title = "Ticks"
format = "lines"
recognise = ['^tick ']
[[event]]
table = "decode"
title = "A tick"
has = "tick "
[event.fields]
{column} = ["int", 'r=([0-9]+)']
[[event.sample]]
line = "tick r=1"
gives = {{ running = {value} }}
"""


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.sql", RULE.format(columns="run, 'it waits' AS message"), ""),
        ("a.sql", RULE.format(columns="run, 'it waits' AS massage"), "does not select message"),
        ("a.sql", RULE.format(columns="run, waits AS message"), '"waits" not found'),
        ("a.sql", RULE.format(columns="run, 'x' AS message FROM '/etc/passwd' --"), "does not run"),
        ("a.sql", RULE.replace("queued", "waits").format(columns="run, 'x' AS message"), '"waits" not found'),
        ("a.sql", "SELECT 1", "rule header is wrong"),
        ("a.toml", FORMAT.format(column="running", value=1), ""),
        ("a.toml", FORMAT.format(column="running", value=2), "is not read as it says: tick r=1"),
        ("a.toml", FORMAT.format(column="runing", value=1), "no column runing"),
        ("a.toml", "title = 3", "parser definition is wrong"),
        ("specdiag.toml", 'fail_on = "critical"', ""),
        ("specdiag.toml", 'fail_on = "terrible"', "'terrible' is no severity"),
        ("specdiag.toml", 'require = ["nobody"]', "no rule is called nobody"),
        ("specdiag.toml", "[params.draft_never_accepted]\nflor = 1.0", "has no parameter flor"),
        ("specdiag.toml", 'rules = ["nowhere"]', "no such file or folder"),
        ("a.txt", "", "neither a rule nor a format"),
    ],
)  # fmt: skip
def test_the_hook_names_what_is_wrong_with_a_file(
    specdiag, tmp_path, monkeypatch, name, text, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    answer = specdiag(*hook()["entry"].split()[1:], name)
    assert answer.code == (2 if said else 0) and said in answer.err
    assert (name in answer.err) == bool(said) and "Traceback" not in answer.err


def test_every_file_that_is_wrong_is_named(specdiag, tmp_path):
    for name in ("a.sql", "b.toml", "c.sql"):
        (tmp_path / name).write_text("nothing = 1")
    answer = specdiag("validate", tmp_path)
    assert answer.code == 2 and [answer.err.count(f"{name}\n") for name in ("a.sql", "b.toml", "c.sql")] == [1, 1, 1]  # fmt: skip


def test_to_check_nothing_is_a_mistake(specdiag, tmp_path):
    assert specdiag("validate", tmp_path).code == 2
    assert specdiag("validate", tmp_path / "nowhere").code == 2


# Its README ---------------------------------------------------------------------------------------


def test_the_readme_names_every_file():
    named = set(re.findall(r"\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text()))
    assert named == {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}


def test_the_python_of_the_readme_runs(place, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.DOTALL)
    (place.folder / "logs").mkdir()
    leave(place.folder / "logs", SERVER)
    monkeypatch.chdir(place.folder)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert "diagnose" in names


def test_no_command_is_left_out():
    """Every specdiag command of the examples is in a file that a test above runs."""
    run = {WORKFLOW.name, PIPELINE.name, "after-bench.sh"}
    with_command = {
        path.name for path in EXAMPLES.iterdir()
        if path.suffix in (".yml", ".sh") and re.search(r"^\s*specdiag ", path.read_text(), re.MULTILINE)
    }  # fmt: skip
    assert with_command == run
