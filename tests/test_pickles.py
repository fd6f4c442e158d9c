"""Pickles are read and never run: what they ask for is named, what they hold is bounded."""

from __future__ import annotations

import argparse
import collections
import io
import os
import pathlib
import pickle
import struct
import types
import zipfile

import pytest

from specdiag import pickles, quoting, standins

RESULT = {
    "responses": [
        {
            "baseline": types.SimpleNamespace(
                output_ids=[[1, 2, 3, 4, 5, 6]], num_input_tokens=2, acceptance_lengths=[1, 1, 1]
            ),
            "ddtree_tb2": types.SimpleNamespace(
                output_ids=[[1, 2, 3, 4, 5, 6]], num_input_tokens=2, num_output_tokens=4,
                time_per_output_token=0.01, acceptance_lengths=[2, 2],
                round_timestamps=[0.05, 0.07],
                round_trees=[
                    {"accepted_indices": [0, 1], "tree": {"node_token_ids": [4, 9], "node_depths": [1, 2], "parents": [-1, 0, 1]}},
                    {"accepted_indices": [0, 1], "tree": {"node_token_ids": [6, 9], "node_depths": [1, 2], "parents": [-1, 0, 1]}},
                ],
            ),
        }
    ],
    "block_size": 3,
    "args": {"model_name_or_path": "example/target", "max_new_tokens": 64, "save_path": pathlib.PurePosixPath("a/b.pt")},
}  # fmt: skip


def archive(program, storages=(), name="results"):
    """What torch.save writes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(f"{name}/data.pkl", program)
        for key, data in storages:
            made.writestr(f"{name}/data/{key}", data)
        made.writestr(f"{name}/version", "3\n")
    return packed.getvalue()


def read_back(data):
    return pickles.load(io.BytesIO(data), len(data))


def refused(data):
    with pytest.raises(standins.Refused) as caught:
        read_back(data)
    return str(caught.value)


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def tensor(kind="LongStorage", count=4, first=0, shape=(4,), stride=(1,)):
    """The program of one tensor, as torch writes it."""
    numbers = lambda values: b"(" + b"".join(b"J" + struct.pack("<i", n) for n in values) + b"t"  # noqa: E731
    storage = (
        b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text("0") + text("cpu")
        + b"J" + struct.pack("<i", count) + b"tQ"
    )  # fmt: skip
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"J" + struct.pack("<i", first)
        + numbers(shape) + numbers(stride) + b"\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


# What may be read --------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_are_read(protocol):
    value = {"a": [1, 2.5, None, True, "x"], "b": (1, {"c": -1}), "nan": float("nan")}
    assert read_back(pickle.dumps(value, protocol)) == {
        "a": [1, 2.5, None, True, "x"], "b": [1, {"c": -1}], "nan": None,
    }  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 4])
def test_plain_objects_are_read(protocol):
    value = {
        "a": types.SimpleNamespace(x=1, y=[2]), "b": argparse.Namespace(z=3),
        "c": collections.OrderedDict(k=4), "d": pathlib.PurePosixPath("e/f"),
    }  # fmt: skip
    assert read_back(pickle.dumps(value, protocol)) == {
        "a": {"x": 1, "y": [2]}, "b": {"z": 3}, "c": {"k": 4}, "d": "e/f",
    }  # fmt: skip


def test_tensors_are_read_without_torch():
    data = struct.pack("<6q", *range(6))
    assert read_back(archive(tensor(), [("0", data)])) == [0, 1, 2, 3]
    turned = tensor(shape=(2, 3), stride=(1, 2))
    assert read_back(archive(turned, [("0", data)])) == [[0, 2, 4], [1, 3, 5]]
    half = struct.pack("<2H", 0x3F80, 0xC000)  # 1.0, -2.0
    assert read_back(archive(tensor("BFloat16Storage", shape=(2,)), [("0", half)])) == [1.0, -2.0]


def test_what_torch_saves_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    value = {"ids": torch.tensor([[1, 2], [3, 4]]), "half": torch.tensor([0.5], dtype=torch.bfloat16), "ns": types.SimpleNamespace(t=torch.arange(6).view(2, 3).T)}  # fmt: skip
    path = tmp_path / "x.pt"
    torch.save(value, path)
    assert read_back(path.read_bytes()) == {
        "ids": [[1, 2], [3, 4]], "half": [0.5], "ns": {"t": [[0, 3], [1, 4], [2, 5]]},
    }  # fmt: skip
    torch.save(value, path, _use_new_zipfile_serialization=False)
    assert "1.6" in refused(path.read_bytes())


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_numbers_and_arrays_of_numpy_are_read(protocol):
    numpy = pytest.importorskip("numpy")
    value = {
        "a": numpy.float64(1.5), "b": numpy.int64(7), "c": numpy.arange(6).reshape(2, 3),
        "d": numpy.array([True, False]), "e": numpy.array([1, 2], dtype=">i4"),
    }  # fmt: skip
    assert read_back(pickle.dumps(value, protocol)) == {
        "a": 1.5, "b": 7, "c": [[0, 1, 2], [3, 4, 5]], "d": [True, False], "e": [1, 2],
    }  # fmt: skip


# What may not ------------------------------------------------------------------------------------


class Runs:
    """Unpickling this would make a file."""

    def __init__(self, call, *arguments):
        self.made = call, arguments

    def __reduce__(self):
        return self.made


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (os.system, "posix.system"),
        (eval, "builtins.eval"),
        (exec, "builtins.exec"),
        (getattr, "builtins.getattr"),
        (open, "io.open"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("packed", [False, True])
def test_a_call_is_named_and_never_made(tmp_path, call, name, protocol, packed):
    trap = tmp_path / "trap"
    program = pickle.dumps({"responses": [Runs(call, f"touch {trap}")]}, protocol)
    assert f"it asks for {name}" in refused(archive(program) if packed else program).replace(
        "__builtin__", "builtins"
    )
    assert not trap.exists()


def test_a_class_of_somebody_else_is_named():
    program = b"\x80\x02csglang.srt.managers.io_struct\nGenerateReqInput\n)\x81."
    assert refused(program) == "it asks for sglang.srt.managers.io_struct.GenerateReqInput"


@pytest.mark.parametrize(
    "state", [b"}" + text("__defaults__") + b"Nsb", b"N}" + text("run") + b"Ns\x86b"]
)
@pytest.mark.parametrize("name", [b"c_codecs\nencode\n", b"ctorch\nLongStorage\n", b"ctypes\nSimpleNamespace\n", b"cnumpy\ndtype\n"])  # fmt: skip
def test_what_it_may_call_it_cannot_change(name, state):
    before = standins.known(standins.Budget()).keys()
    assert refused(b"\x80\x02" + name + state + b".")
    assert standins.known(standins.Budget()).keys() == before
    assert read_back(pickle.dumps(types.SimpleNamespace(a=b"\xff", b=1), 2)) == {"a": None, "b": 1}


def test_memory_is_not_filled_by_a_number():
    assert "numbers its objects" in refused(b"\x80\x02]r\xff\xff\xff\x7f.")
    assert "broken" in refused(b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.")
    assert "broken" in refused(b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f].")


def test_a_list_that_doubles_is_refused(monkeypatch):
    monkeypatch.setattr(standins, "MOST_VALUES", 100_000)
    value = [0]
    for _ in range(40):
        value = [value, value]
    assert "more than 100,000 values" in refused(pickle.dumps(value, 2))


def test_a_list_in_itself_is_refused():
    value: list = []
    value += [value, value]
    assert "nested" in refused(pickle.dumps(value, 2))


def test_a_zip_bomb_is_refused():
    assert "unpacks to more than" in refused(archive(b"\x80\x02]." + b"\0" * (40 << 20)))
    bomb = archive(tensor(count=1 << 20, shape=(1 << 20,)), [("0", b"\0" * (40 << 20))])
    assert "unpacks to more than" in refused(bomb)


def test_a_tensor_has_no_more_than_its_storage():
    four = [("0", struct.pack("<4q", *range(4)))]
    assert "larger than its storage" in refused(archive(tensor(shape=(5,)), four))
    assert "larger than its storage" in refused(archive(tensor(first=-1, shape=(1,)), four))
    assert "layout" in refused(archive(tensor(shape=(-2,)), four))
    assert "values" in refused(archive(tensor(shape=(1 << 15, 1 << 15), stride=(0, 0)), four))
    assert refused(archive(tensor(shape=(4, 1)), four))  # a stride too few
    assert refused(archive(tensor(), []))  # no storage at all


def test_too_many_operations_are_refused(monkeypatch):
    monkeypatch.setattr(pickles, "MOST_STEPS", 1000)
    assert "operations" in refused(b"\x80\x02" + b"(" * 2000)


@pytest.mark.parametrize("cut", [3, 20, 100, -30, -1])
@pytest.mark.parametrize("packed", [False, True])
def test_one_that_was_cut_off_is_named(cut, packed):
    program = pickle.dumps(RESULT, 2)
    assert refused((archive(program) if packed else program)[:cut])


def test_another_archive_is_named():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("word/document.xml", "<x/>")
    assert "no result that torch.save wrote" in refused(packed.getvalue())


# In a folder of logs -----------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path, load):
    def read(data):
        path = tmp_path / "results.pt"
        path.write_bytes(data)
        return load(path)

    return read


def test_a_result_becomes_requests_and_steps(results):
    filled = results(archive(pickle.dumps(RESULT, 2)))
    assert not filled.notices
    assert filled.rows(
        "SELECT run, request, step, commit_len, ctx_len, emitted, accepted, step_ms, last FROM step "
        "ORDER BY run, step"
    )[-2:] == [
        {"run": "results:ddtree_tb2", "request": "0", "step": 0, "commit_len": 2.0, "ctx_len": 2,
         "emitted": [4, 5], "accepted": [0, 1], "step_ms": None, "last": False},
        {"run": "results:ddtree_tb2", "request": "0", "step": 1, "commit_len": 2.0, "ctx_len": 4,
         "emitted": [6], "accepted": [0, 1], "step_ms": pytest.approx(20), "last": True},
    ]  # fmt: skip
    assert filled.rows("SELECT run, algorithm, model, budget FROM run ORDER BY run") == [
        {"run": "results:baseline", "algorithm": "NONE", "model": "example/target", "budget": None},
        {
            "run": "results:ddtree_tb2",
            "algorithm": "DDTREE",
            "model": "example/target",
            "budget": 2,
        },
    ]
    assert filled.rows("FROM replay") == []
    (file,) = (reading.source for reading in filled.readings)
    assert '"step": 0' in quoting.quote(file, {3})[3]


def test_a_hostile_one_is_named_and_the_rest_is_read(tmp_path, load, root):
    trap = tmp_path / "trap"
    folder = tmp_path / "logs"
    folder.mkdir()
    program = pickle.dumps({"responses": [Runs(os.system, f"touch {trap}")]}, 2)
    (folder / "evil.pt").write_bytes(archive(program))
    (folder / "server.log").write_bytes((root / "sample_logs/healthy-eagle-0.4.log").read_bytes())
    filled = load(folder)
    (notice,) = filled.notices
    assert "it asks for posix.system" in notice.what and notice.where.endswith("evil.pt")
    assert filled.rows("SELECT count(*) AS rows FROM decode")[0]["rows"] > 0
    assert not trap.exists()


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        7,
        {"responses": 7},
        {"responses": [{"dflash": 1}]},
        {"weights": [1.0, 2.0]},
        [[1], [2]],
    ],
)
def test_one_without_rounds_is_named(results, value):
    filled = results(pickle.dumps(value, 2))
    assert [notice.what for notice in filled.notices] == [
        "this file holds no rounds of a speculative decoder"
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"acceptance_lengths": [-5, 2]}, {"acceptance_lengths": ["x"]}, {"acceptance_lengths": [1 << 40]},
        {"round_timestamps": ["a", "b"]}, {"acceptance_lengths": [[1], [2]]},
    ],
)  # fmt: skip
def test_a_result_of_nonsense_is_named(results, change):
    answer = vars(RESULT["responses"][0]["ddtree_tb2"]) | change
    filled = results(pickle.dumps({"responses": [{"dflash": types.SimpleNamespace(**answer)}]}, 2))
    assert ["what no result has" in notice.what for notice in filled.notices] == [True]
