"""A result says where it comes from, and what it cannot know it says is None."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from specdiag import __version__, bundled, config, diagnosis, provenance, saved, source
from specdiag.provenance import Provenance

ROOT = Path(__file__).parents[1]
SICK = ROOT / "sample_logs" / "draft_never_accepted.log"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(specdiag, *arguments: object) -> Provenance:
    """The provenance in the database that a command writes."""
    specdiag(*arguments, "--output", "duckdb=out.db")
    return saved.load(Path("out.db")).provenance


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_inputs_are_named_and_hashed_as_they_lie_on_disk(specdiag, folder):
    packed = gzip.compress(SICK.read_bytes(), mtime=0)
    (folder / "logs").mkdir()
    (folder / "logs" / "a.log.gz").write_bytes(packed)
    (folder / "logs" / "empty").touch()
    one, empty = told(specdiag, "check", "logs").inputs
    assert (one.path, one.bytes, one.sha256) == ("logs/a.log.gz", len(packed), sha256(packed))
    assert (one.format, one.parsed) == ("sglang_server", 1.0) and one.lines > 10
    assert (empty.path, empty.format, empty.sha256) == ("logs/empty", None, sha256(b""))


def test_what_a_pipe_said_is_hashed_before_it_is_gone(folder):
    subprocess.run(
        [sys.executable, "-m", "specdiag", "check", "-", "--output", f"duckdb={folder / 'out.db'}"],
        input=SICK.read_bytes(), capture_output=True, cwd=ROOT, check=False,
    )  # fmt: skip
    (one,) = saved.load(folder / "out.db").provenance.inputs
    assert (one.path, one.sha256) == ("<stdin>", sha256(SICK.read_bytes()))


def test_what_is_gone_or_no_file_has_no_hash(folder):
    (folder / "link").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    for name in ("link", "pipe", "gone", "."):
        assert provenance.sha256(source.Source(name, Path(name))) is None


def test_a_file_that_vanishes_has_no_hash(definitions, folder):
    (folder / "a.log").write_bytes(SICK.read_bytes())
    filled = diagnosis.fill(source.find(["a.log"]), definitions[0])
    (folder / "a.log").unlink()
    (one,) = provenance.collect(filled.readings, config.Config(), []).inputs
    assert (one.sha256, one.lines > 10) == (None, True)


def test_files_are_hashed_only_for_a_report_that_shows_it(specdiag, monkeypatch):
    monkeypatch.setattr(provenance, "sha256", lambda file: pytest.fail("a file was read again"))
    assert specdiag("check", SICK, "--output", "json=a.json", "--output", "markdown=a.md").code == 1
    assert specdiag("analyze", SICK, "--no-html").code == 0


def test_versions_change_with_name_and_content_of_a_definition(folder):
    seen = set()
    for name, text in (("a.sql", "1"), ("b.sql", "1"), ("a.sql", "2"), ("a.sq", "l1")):
        Path(name).write_text(text)
        seen.add(provenance.version([Path(name)]))
        Path(name).unlink()
    assert len(seen) == 4 and all(len(one or "") == 12 for one in seen)
    assert provenance.version([Path("gone.sql")]) is None


def test_versions_do_not_depend_on_the_folder(folder):
    paths = []
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "a.sql").write_text("1")
        (folder / name / "b.sql").write_text("2")
        paths.append([folder / name / "b.sql", folder / name / "a.sql"][:: 1 if paths else -1])
    assert provenance.version(paths[0]) == provenance.version(paths[1])


def test_rules_and_parsers_of_the_users_are_part_of_the_version(specdiag, folder):
    (folder / "rules").mkdir()
    (folder / "rules" / "mine.sql").write_bytes(
        (bundled.RULES / "step_time_superlinear.sql").read_bytes()
    )
    plain = told(specdiag, "check", SICK)
    mine = told(specdiag, "check", SICK, "--rules", "rules")
    assert (plain.specdiag, plain.parsers) == (__version__, mine.parsers)
    assert plain.rules != mine.rules
    assert plain.rules == told(specdiag, "check", SICK).rules


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["analyze", "a b", "--html", "x", "--param", "r.p=1"], "specdiag analyze 'a b' --param r.p=1"),
        (["check", "--output=json=-", "--output", "html=x", "a;b"], "specdiag check 'a;b'"),
        (["analyze", "--no-html", "--html=x", "a"], "specdiag analyze a"),
        (["analyze", "--", "--html", "b"], "specdiag analyze -- --html b"),
        (["analyze", "a", "--html"], "specdiag analyze a"),
        (["analyze", "$(x)", "it's"], "specdiag analyze '$(x)' 'it'\"'\"'s'"),
    ],
)  # fmt: skip
def test_the_command_can_be_run_again_and_does_not_say_where_reports_go(given, kept):
    assert provenance.command(given) == kept
    assert shlex.split(kept)[0] == "specdiag"


def test_the_configuration_in_force_is_told(specdiag, folder):
    Path("specdiag.toml").write_text(
        'fail_on = "low"\nrequire = ["tree_below_chain"]\n[params.step_time_superlinear]\nexponent = 1.5\n'
    )
    found = told(
        specdiag, "check", SICK, "--param", "tree_below_chain.margin=0.2", "--fail-on", "never",
        "--require", "draft_never_accepted", "--baseline", ROOT / "sample_logs" / "healthy-dflash.log",
    )  # fmt: skip
    assert (found.config, found.fail_on) == ("specdiag.toml", "never")
    assert found.params == {
        "step_time_superlinear": {"exponent": 1.5}, "tree_below_chain": {"margin": 0.2},
    }  # fmt: skip
    assert found.require == ("tree_below_chain", "draft_never_accepted")
    assert (found.baseline or "").endswith("healthy-dflash.log")
    assert "--param tree_below_chain.margin=0.2" in found.command


def test_without_a_configuration_there_is_none(specdiag):
    found = told(specdiag, "analyze", SICK, "--no-html")
    assert (found.config, found.fail_on, found.require, found.baseline) == (None, None, (), None)
    assert found.params == {} and found.command == f"specdiag analyze {SICK}"


def test_names_that_are_not_utf8_are_told(folder):
    found = provenance.collect([], config.Config(), ["check", os.fsdecode(b"caf\xe9")])
    assert found.command == r"specdiag check 'caf\xe9'"
    assert Provenance.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize("junk", [None, [], {}, {"specdiag": 1}])
def test_what_is_no_provenance_is_refused(junk):
    with pytest.raises(ValueError, match="provenance"):
        Provenance.from_dict(junk)
