"""Logs as people pass them on, in a zip or a tar: read as if the folder had been given."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from specdiag import archive, source, unpack
from specdiag.errors import SpecdiagError

LOG = "sample_logs/retraction_storm.log"


def tarred(folder: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as out:
        out.add(folder, folder.name)
    return packed.getvalue()


def zipped(folder: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(folder.rglob("*")):
            out.write(path, path.relative_to(folder.parent))
    return packed.getvalue()


PACKERS = {
    "logs.zip": zipped,
    "Logs.ZIP": zipped,
    "logs.tar": tarred,
    "logs.tgz": lambda folder: gzip.compress(tarred(folder)),
    "logs.tar.gz": lambda folder: gzip.compress(tarred(folder)),
    "logs.tar.bz2": lambda folder: bz2.compress(tarred(folder)),
    "logs.tar.xz": lambda folder: lzma.compress(tarred(folder)),
    "logs.tar.zst": lambda folder: zstandard.compress(tarred(folder)),
}


@pytest.fixture
def logs(tmp_path, root):
    """A folder with logs, and with files that nobody wants to have read."""
    folder = tmp_path / "logs"
    (folder / "rank").mkdir(parents=True)
    log = (root / LOG).read_bytes()
    (folder / "rank" / "server.log").write_bytes(log)
    (folder / "rank" / "packed.log.gz").write_bytes(gzip.compress(log))
    (folder / ".DS_Store").write_bytes(b"\0\1Bud1")
    return folder


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Where archives are unpacked; nothing of them is left there."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def names(path):
    found = source.find([str(path)])
    source.discard(found)
    return [one.name for one in found]


@pytest.mark.parametrize("name", PACKERS)
def test_an_archive_says_what_its_folder_says(tmp_path, logs, diagnose, name):
    packed = tmp_path / name
    packed.write_bytes(PACKERS[name](logs))
    ours, theirs = diagnose(packed), diagnose(logs)
    assert theirs.findings
    for one, other in zip(ours.findings, theirs.findings, strict=True):
        assert (one.rule.name, one.message, one.severity) == (
            other.rule.name, other.message, other.severity,
        )  # fmt: skip
        assert [(proof.line, proof.text) for proof in one.evidence] == [
            (proof.line, proof.text) for proof in other.evidence
        ]
        assert one.evidence[0].path.startswith(f"{packed}/logs/rank/")
    assert not ours.notices


def test_a_command_leaves_nothing_of_an_archive_behind(tmp_path, logs, specdiag, temporary):
    packed = tmp_path / "logs.zip"
    packed.write_bytes(zipped(logs))
    specdiag("analyze", str(packed), "--no-html")
    assert [*temporary.glob("specdiag-*")] == []


def test_an_archive_in_a_folder_is_opened_and_one_in_an_archive_is_named(tmp_path, logs, diagnose):
    (tmp_path / "artifacts").mkdir()
    inner = zipped(logs)
    (logs / "inner.zip").write_bytes(inner)
    (tmp_path / "artifacts" / "job.zip").write_bytes(zipped(logs))
    found = diagnose(tmp_path / "artifacts")
    assert {run.sources[0]["path"] for run in found.runs} == {
        f"{tmp_path}/artifacts/job.zip/logs/rank/{name}" for name in ("packed.log.gz", "server.log")
    }
    assert [(one.what, one.where) for one in found.notices] == [
        ("this is a zip archive", f"{tmp_path}/artifacts/job.zip/logs/inner.zip")
    ]


@pytest.mark.parametrize("name", ["logs.zip", "logs.tar", "logs.tar.gz", "logs.tar.zst"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_cut_archive_gives_what_came_before_and_says_so(tmp_path, logs, name, share):
    (logs / "rank" / "packed.log.gz").unlink()
    for number in range(5):
        shutil.copy(logs / "rank" / "server.log", logs / f"server{number}.log")
    whole = PACKERS[name](logs)
    packed = tmp_path / name
    packed.write_bytes(whole[: int(share * len(whole))])
    found = source.find([str(packed)])
    read = sum(one.size() for one in found if one.temporary)
    source.discard(found)
    assert 1 <= len(found) <= 6
    if 0 < read < sum(path.stat().st_size for path in logs.rglob("*.log")):
        assert found[-1].notices[0].what.startswith("unpacking stopped: ")
        assert found[-1].notices[0].where == str(packed)


def test_names_that_lead_elsewhere_lead_nowhere(tmp_path, temporary):
    packed = tmp_path / "logs.tar"
    with tarfile.open(packed, "w") as out:
        for name in ("../../outside.log", "/etc/absolute.log", "plain.log"):
            entry = tarfile.TarInfo(name)
            entry.size = 5
            out.addfile(entry, io.BytesIO(b"line\n"))
        link = tarfile.TarInfo("link.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        out.addfile(link)
    found = source.find([str(packed)])
    assert [one.path.parent for one in found] == [temporary] * 3
    assert [one.path.read_bytes() for one in found] == [b"line\n"] * 3
    source.discard(found)
    assert [*temporary.iterdir()] == []


def test_what_needs_a_password_is_named(tmp_path, logs):
    data = bytearray(zipped(logs))
    for at in range(len(data) - 4):  # the flag of every entry, here and in the index
        if data[at : at + 4] == b"PK\3\4":
            data[at + 6] |= 1
        if data[at : at + 4] == b"PK\1\2":
            data[at + 8] |= 1
    (tmp_path / "logs.zip").write_bytes(data)
    with pytest.raises(archive.Broken, match="password"):
        [*archive.files(tmp_path / "logs.zip")]


def test_a_bomb_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "FLOOR", 1 << 20)
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("a.log", "b.log"):
        (folder / name).write_bytes(b"a log line\n" * (1 << 20))
    packed = tmp_path / "logs.zip"
    packed.write_bytes(zipped(folder))
    found = source.find([str(packed)])
    assert sum(one.size() for one in found) < 12 << 20
    assert "bomb" in found[-1].notices[0].what
    source.discard(found)


def test_very_many_files_are_not_all_read(tmp_path, monkeypatch, logs):
    monkeypatch.setattr(archive, "MOST", 1)
    (tmp_path / "logs.zip").write_bytes(zipped(logs))
    (one,) = source.find([str(tmp_path / "logs.zip")])
    source.discard([one])
    assert one.notices[0].what == "unpacking stopped: it has more than 1 files"


def test_only_what_is_called_an_archive_is_opened(tmp_path, logs):
    for name in ("model.pt", "report.docx", "logs.zip.txt"):
        (tmp_path / name).write_bytes(zipped(logs))
        assert names(tmp_path / name) == [str(tmp_path / name)]
    log = tmp_path / "no.zip"
    shutil.copy(logs / "rank" / "server.log", log)
    assert names(log) == [str(log)]


def test_an_empty_archive_is_no_reason_to_fail_without_a_word(tmp_path, analyze):
    for name, made in (("e.zip", zipped), ("e.tar.gz", PACKERS["logs.tar.gz"])):
        (tmp_path / "empty").mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(made(tmp_path / "empty"))
        with pytest.raises(SpecdiagError):
            analyze(tmp_path / name)
