"""`specdiag ddtree generate`: what it prints and records, and what it says to a mistake."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the bundled runtime needs torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from specdiag.ddtree import pair, prompts  # noqa: E402
from specdiag.ddtree.commands import generate as command  # noqa: E402
from specdiag.ddtree.commands import options  # noqa: E402
from specdiag.ddtree.decode import MODES, Options, Request, decode  # noqa: E402
from specdiag.ddtree.tokenizer import END, MASK, Tokenizer  # noqa: E402

PROMPT = "def read(path):\n"
Q = "model.layers.1.self_attn.q_proj.weight"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def models(pair_folder, folder):
    """A copy of the tiny pair that a test may harm."""
    shutil.copytree(pair_folder, folder / "pair")
    return folder / "pair"


@pytest.fixture
def generate(specdiag, pair_folder):
    """`generate(*arguments)` with the tiny pair; greedy, 40 tokens."""

    def generate(*arguments, target=pair_folder / "target", drafter=pair_folder / "drafter"):
        given = [
            f"--{name}={each}" for name, each in (("target", target), ("drafter", drafter)) if each
        ]
        return specdiag("ddtree", "generate", "--max-new-tokens=40", *given, *arguments)

    return generate


def records(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.fixture
def text(pair_folder):
    """The 40 tokens of plain decoding after PROMPT, as text."""
    found = pair.load(pair_folder / "target", None)
    request = Request("r", found.tokenizer.encode(PROMPT), 40)
    (result,) = decode(found.target, None, [request], Options("autoregressive"))
    return found.tokenizer.decode(prompts.without(result.tokens, found.stop_ids))


# What it prints


def test_greedy_text_is_the_same_in_every_mode(generate, text):
    for mode in (*MODES, "shadow-linear"):
        answer = generate(PROMPT, "--mode", mode)
        assert (answer.code, answer.out) == (0, text), answer.err
        assert answer.err.startswith("39 tokens in ")


def test_a_grammar_holds_in_every_mode(generate):
    pattern = r"[a-z]{3,8}( [a-z]{2,4}){3}\n"
    found = {generate(PROMPT, "--mode", mode, "--grammar", pattern).out for mode in MODES}
    assert len(found) == 1 and re.fullmatch(pattern, found.pop())


@pytest.mark.parametrize("pattern", ["(", "[a-", "", r"\q"])
def test_a_grammar_that_is_none_is_named(generate, pattern):
    answer = generate(PROMPT, "--grammar", pattern)
    assert answer.code == 2 and "--> --grammar" in answer.err and "help: " in answer.err


def test_prompts_that_begin_alike_share_what_is_kept(generate, folder):
    (folder / "prompts.jsonl").write_text("".join(
        json.dumps({"prompt": PROMPT + more}) + "\n" for more in ("", "    x = 1\n", "    x = 2\n")
    ))  # fmt: skip
    plain = generate("--file", "prompts.jsonl")
    kept = generate("--file", "prompts.jsonl", "--prefix-cache", 2, "--trace", "steps.jsonl")
    assert kept.code == 0 and kept.out == plain.out
    hits = [one["cached_tokens"] for one in records("steps.jsonl") if one["record"] == "request"]
    assert hits[0] == 0 and hits[2] > hits[1] > 0


def test_sampled_text_is_the_same_in_every_mode_and_follows_the_seed(generate):
    sampled = ("--temperature", 1, "--top-p", "0.95", "--seed")
    found = {generate(PROMPT, "--mode", mode, *sampled, 5).out for mode in MODES}
    assert len(found) == 1
    assert found != {generate(PROMPT, *sampled, 6).out}


def test_the_summary_counts_tokens_and_steps(generate):
    answer = generate(PROMPT, "--mode", "autoregressive")
    assert answer.err.startswith("39 tokens in 39 steps after prefill: 1.00 a step, ")
    assert answer.err.endswith(" tokens/s\n")


def test_the_prompt_comes_from_a_file_or_from_stdin(generate, text, folder, monkeypatch):
    (folder / "prompt.py").write_text(PROMPT)
    assert generate("--file", "prompt.py").out == text
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROMPT.encode())))
    assert generate("--file", "-").out == text


def test_prompts_of_a_jsonl_file_are_answered_in_lines_of_json(generate, text, folder):
    own = {"max_new_tokens": 7, "budget": 2, "temperature": 0.5, "top_p": 0.9, "seed": 3}
    lines = [{"prompt": PROMPT}, {"prompt": "x"}, {"prompt": "return path", **own}]
    (folder / "p.jsonl").write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    alone = generate("--file", "p.jsonl")
    together = generate("--file", "p.jsonl", "--batch", 2, "--trace", "t.jsonl")
    assert alone.out == together.out
    answers = [json.loads(line) for line in alone.out.splitlines()]
    assert [each["request"] for each in answers] == ["r0", "r1", "r2"]
    assert answers[0]["text"] == text
    assert answers[2]["tokens"] <= 7
    found = {each["request"]: each for each in records("t.jsonl") if each["record"] == "request"}
    own.pop("budget")
    assert own.items() <= found["r2"].items()
    steps = [each for each in records("t.jsonl") if each["record"] == "step"]
    assert {each["budget"] for each in steps if each["request"] == "r2"} == {2}
    assert {each["batch"] for each in steps if each["request"] == "r0"} <= {1, 2}


def test_marks_in_a_prompt_are_tokens_like_others(generate):
    assert generate(f"{MASK}a{END}b").code == 0


def test_text_is_streamed_as_it_is_committed(generate, text, monkeypatch):
    parts = []
    monkeypatch.setattr(command, "_print", parts.append)
    generate(PROMPT, "--mode", "autoregressive")
    assert len(parts) > 20 and "".join(parts) == text


def test_a_character_waits_for_its_last_byte():
    tokenizer = Tokenizer.train(["a"], 258)
    for word in ("aé→😀z", "\ufffdé", "😀" * 40):
        parts: list[str] = []
        stream = prompts.Stream(tokenizer, parts.append)
        for token in tokenizer.encode(word):
            stream.add([token])
        stream.close()
        assert "".join(parts) == word
        assert [part for part in parts if "\ufffd" in part] == (
            ["\ufffd"] if "\ufffd" in word else []
        )


def test_bytes_that_are_no_text_show_once():
    tokenizer = Tokenizer.train(["a"], 258)
    tokens = [token for each in "é😀a" for token in tokenizer.encode(each)[:1]]  # first bytes only
    parts: list[str] = []
    stream = prompts.Stream(tokenizer, parts.append)
    for token in [*tokens, *tokenizer.encode("é")[:1]]:
        stream.add([token])
    assert "".join(parts) == "\ufffd\ufffda"
    stream.close()
    assert "".join(parts) == tokenizer.decode([*tokens, *tokenizer.encode("é")[:1]])


def test_controls_are_written_out_on_a_terminal_only(generate, monkeypatch):
    wild = "a\x1b[31m\tb\r\n\u202ec\x9b"
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: wild if ids else "")
    assert generate(PROMPT, "--max-new-tokens", 1).out == wild
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = generate(PROMPT, "--max-new-tokens", 1).out
    assert shown == "a\\x1b[31m\tb\\r\n\\u202ec\\x9b\n"


# What it leaves behind


@pytest.mark.parametrize("mode", MODES)
def test_an_analysis_of_log_and_trace_finds_nothing(mode, generate, specdiag, folder):
    answer = generate(
        PROMPT, "--mode", mode, "--max-new-tokens", 120, "--trace", "run/steps.jsonl",
        "--server-log", "run/server.log", "--budget", 12, "--temperature", 1,
    )  # fmt: skip
    assert answer.code == 0, answer.err
    checked = specdiag("check", "run", "--fail-on", "medium", "--output", "json=-")
    found = json.loads(checked.out)["findings"]
    assert [
        each["message"] for each in found if each["severity"] in ("critical", "high", "medium")
    ] == []
    assert checked.code == 0
    (run,) = json.loads(checked.out)["runs"]
    assert {each["parsed"] for each in run["sources"]} == {1.0}


@pytest.mark.parametrize("name", ["t.jsonl.zst", "t.parquet"])
def test_traces_come_in_other_formats(name, generate, load, folder):
    assert generate(PROMPT, "--trace", name).code == 0
    assert load(folder / name).rows("SELECT count(*) > 0 AS some FROM step") == [{"some": True}]


def test_details_are_added_to_the_trace(generate):
    assert generate(PROMPT, "--trace", "t.jsonl", "--trace-detail", "mask, inputs,oracle").code == 0
    step = next(each for each in records("t.jsonl") if each["record"] == "step")
    assert {"visible", "ids_read", "oracle_tokens"} <= step.keys()
    assert "checksums" not in step


def test_an_interrupt_leaves_readable_files(generate, monkeypatch, load, folder):
    count = 0

    def stop(text):
        nonlocal count
        count += 1
        if count == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "_print", stop)
    answer = generate(
        PROMPT, "--mode", "autoregressive", "--trace", "a/t.jsonl", "--server-log", "a/s.log"
    )
    assert answer.code == 130
    assert "Traceback" not in answer.err
    store = load(folder / "a")
    assert store.rows("SELECT parsed FROM source") == [{"parsed": 1.0}] * 2
    assert store.rows("SELECT count(*) > 3 AS some FROM step") == [{"some": True}]


# Mistakes


def lines(answer):
    assert answer.code == 2, answer.err
    found = answer.err.splitlines()
    assert len(found) == 3 and "Traceback" not in answer.err, answer.err
    assert found[0].startswith("error: ") and found[1].startswith(" --> ")
    assert found[2].startswith("help: ")
    return found


OPTIONS = {
    "--mode=magic": "'magic' is no mode",
    "--budget=-1": "-1 is out of range",
    "--budget=100000": "100000 is out of range",
    "--top-k=0": "0 is out of range",
    "--depth-limit=0": "0 is out of range",
    "--depth-limit=7": "7 is out of range",
    "--max-new-tokens=0": "0 is out of range",
    "--max-new-tokens=600": "are more than the target's 512 positions",
    "--temperature=-1": "-1.0 is out of range",
    "--temperature=nan": "nan is out of range",
    "--depth-bonus=nan": "nan is out of range",
    "--top-p=0": "0.0 is out of range",
    "--top-p=1.5": "1.5 is out of range",
    "--seed=-1": "-1 is out of range",
    "--batch=0": "0 is out of range",
    "--threads=0": "0 is out of range",
    "--device=toaster": "'toaster' is no device",
    "--device=meta": "'meta' is no device",
    "--device=cuda:99": "there is no cuda:99 here",
    "--dtype=int4": "'int4' is no dtype",
    "--pair=nobody": "no pair is called 'nobody'",
    "--trace-detail=colour": "'colour' is no detail of a trace",
    "--server-log=t.jsonl": "the same file",
    "--file=p.txt": "two prompts",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_makes_no_sense_is_named(option, generate, folder):
    (folder / "t.jsonl").write_text("old")
    found = lines(generate(PROMPT, "--trace=t.jsonl", option))
    assert OPTIONS[option] in found[0]
    assert (folder / "t.jsonl").read_text() == "old"
    assert [each.name for each in folder.iterdir()] == ["t.jsonl"]


def test_cuda_without_a_gpu_is_named(generate, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert "there is no cuda here: torch sees 0 GPUs" in lines(generate(PROMPT, "--device=cuda"))[0]


def test_a_missing_prompt_and_details_without_a_trace(generate):
    assert "no prompt" in lines(generate())[0]
    found = lines(generate(PROMPT, "--trace-detail=mask"))
    assert "without a trace" in found[0] and "--trace FILE" in found[2]


PROMPTS = {
    "missing.txt": (None, "cannot be read: no such file"),
    "folder": ("folder", "cannot be read: is a directory"),
    "latin.txt": (b"caf\xe9", "not UTF-8"),
    "empty.txt": (b"", "the prompt is empty"),
    "empty.jsonl": (b"\n\n", "holds no prompt"),
    "broken.jsonl": (b'{"prompt": "a"}\n{"prompt": ', "not a line of JSON"),
    "deep.jsonl": (b"[" * 100_000, "not a line of JSON"),
    "list.jsonl": (b'["a"]', "not a prompt"),
    "number.jsonl": (b'{"prompt": 5}', "not a prompt"),
    "blank.jsonl": (b'{"prompt": ""}', "the prompt is empty"),
    "typo.jsonl": (b'{"prompt": "a", "max_tokens": 5}', "`max_tokens` is not known"),
    "none.jsonl": (b'{"prompt": "a", "max_new_tokens": 0}', "`max_new_tokens` is 0"),
    "huge.jsonl": (b'{"prompt": "a", "budget": 9999}', "`budget` is 9999"),
    "true.jsonl": (b'{"prompt": "a", "seed": true}', "`seed` is True"),
    "hot.jsonl": (b'{"prompt": "a", "temperature": NaN}', "`temperature` is nan"),
    "top.jsonl": (b'{"prompt": "a", "top_p": "1"}', "`top_p` is 1"),
    "half.jsonl": (b'{"prompt": "\\ud800"}', "not UTF-8"),
    "long.txt": (b"x" * 600, "positions"),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_that_cannot_be_used_is_named(name, generate, folder):
    content, says = PROMPTS[name]
    if content == "folder":
        (folder / name).mkdir()
    elif content is not None:
        (folder / name).write_bytes(content)
    found = lines(generate("--file", name, "--trace", "t.jsonl"))
    assert says in found[0]
    assert not (folder / "t.jsonl").exists()


def test_the_line_of_a_wrong_prompt_is_named(generate, folder):
    (folder / "p.jsonl").write_text('{"prompt": "a"}\n\n{"prompt": 1}\n')
    assert lines(generate("--file", "p.jsonl"))[1] == " --> p.jsonl:3"


def edit(path, **changes):
    values = json.loads(path.read_text())
    values["dflash_config"] = {
        **values.get("dflash_config", {}),
        **changes.pop("dflash_config", {}),
    }
    path.write_text(json.dumps({**values, **changes}))


def edit_weights(path, name, tensor):
    tensors = load_file(path)
    if tensor is None:
        del tensors[name]
    else:
        tensors[name] = tensor
    save_file(tensors, path)


HARM = {  # what is said, and after what
    "no config.json": lambda at: (at / "target" / "config.json").unlink(),
    "no model.safetensors": lambda at: (at / "target" / "model.safetensors").unlink(),
    "no tokenizer.json": lambda at: (at / "target" / "tokenizer.json").unlink(),
    "'LlamaForCausalLM'": lambda at: edit(
        at / "target" / "config.json", architectures=["LlamaForCausalLM"]
    ),
    f"{Q} is missing": lambda at: edit_weights(at / "target" / "model.safetensors", Q, None),
    f"{Q} has shape [32, 31], config.json wants [32, 32]": lambda at: edit_weights(
        at / "target" / "model.safetensors", Q, torch.zeros(32, 31)
    ),
    "layer 3 cannot be tapped": lambda at: edit(
        at / "drafter" / "config.json", dflash_config={"target_layer_ids": [0, 3]}
    ),
    "`vocab_size` of the drafter is 300": lambda at: edit(
        at / "drafter" / "config.json", vocab_size=300
    ),
    "`hidden_size` of the drafter is 16": lambda at: edit(
        at / "drafter" / "config.json", hidden_size=16
    ),
    "mask id 999 is outside": lambda at: edit(
        at / "drafter" / "config.json", dflash_config={"mask_token_id": 999}
    ),
    "`block_size` is 1": lambda at: edit(at / "drafter" / "config.json", block_size=1),
}


@pytest.mark.parametrize("says", HARM)
def test_a_model_that_cannot_be_used_is_named(says, models, generate, folder):
    HARM[says](models)
    answer = generate(
        PROMPT, "--trace=t.jsonl", target=models / "target", drafter=models / "drafter"
    )
    found = lines(answer)
    assert says in found[0]
    assert str(models) in found[1]
    assert not (folder / "t.jsonl").exists()


def test_a_target_without_its_drafter_can_only_decode_plainly(generate, text):
    assert "needs a drafter" in lines(generate(PROMPT, drafter=None))[0]
    assert generate(PROMPT, "--mode=autoregressive", drafter=None).out == text


@pytest.mark.parametrize("option", ["--trace", "--server-log"])
def test_a_file_that_cannot_be_written_is_named(option, generate, folder):
    (folder / "file").write_text("")
    found = lines(generate(PROMPT, option, "file/below"))
    assert found[0].startswith("error: no ") and found[1] == " --> file/below"
    if Path("/dev/full").exists():
        found = lines(generate(PROMPT, option, "/dev/full"))
        assert "broke off: no space left on device" in found[0]


def test_too_little_memory_is_three_lines(generate, monkeypatch):
    def full(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 TB")

    monkeypatch.setattr(command, "_generate", full)
    assert lines(generate(PROMPT))[0] == "error: out of memory"


@pytest.mark.parametrize("name", options.NEEDED)
def test_without_the_runtime_the_extra_is_named(name, generate, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    found = lines(generate(PROMPT))
    assert found[0] == f"error: {name} is not installed"
    assert found[2] == "help: pip install 'specdiag-llm[runtime]'"


def test_a_broken_installation_says_what_is_broken(generate, monkeypatch, folder):
    (folder / "numpy.py").write_text("raise ImportError('libblas.so.3: cannot open shared object')")
    monkeypatch.delitem(sys.modules, "numpy")
    monkeypatch.syspath_prepend(str(folder))
    assert "numpy cannot be loaded: libblas.so.3" in lines(generate(PROMPT))[0]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["ddtree", "--help"], ["ddtree", "generate", "--help"]]
)
def test_help_loads_nothing_heavy(arguments):
    heavy = ("torch", "numpy", "safetensors", "tokenizers", "polars", "duckdb")
    code = (
        "import atexit, sys; from specdiag import cli; sys.argv = ['specdiag', *sys.argv[1:]]; "
        f"atexit.register(lambda: print([m for m in {heavy} if m in sys.modules])); cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("[]\n")
