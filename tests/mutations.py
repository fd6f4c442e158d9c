"""What makes a healthy log sick, by a stated amount: one operator a rule, under the rule's name.

An operator takes a server and an amount, and gives the files of that server (of several, where the
rule compares). At `healthy` there is nothing to report; at `sick` there surely is. The smallest
amount between the two that is found is what a rule can see: `make catalogue` finds it. Traces are
another matter: what the rules find there is in benchmarks/detection.md.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import writers
from compose import Server, life

Files = dict[str, str]
Make = Callable[[Server, float], Files]


@dataclass(frozen=True)
class Operator:
    """A way to make a healthy log sick."""

    unit: str  # of the amount
    healthy: float
    sick: float
    make: Make
    on: str  # the version that its power is measured on
    whole: bool = False  # amounts are whole numbers
    digits: int = 2

    def show(self, amount: float) -> str:
        """An amount in words; of what is there or not, the words alone."""
        if self.whole and abs(self.sick - self.healthy) == 1:
            return self.unit
        return (
            f"{amount:.0f} {self.unit}" if self.whole else f"{amount:.{self.digits}f} {self.unit}"
        )


OPERATORS: dict[str, Operator] = {}


def operator(
    unit: str, healthy: float, sick: float, on: str = "sglang 0.5.12", **more: Any
) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        OPERATORS[make.__name__] = Operator(unit, healthy, sick, make, on, **more)
        return make

    return register


def server(version: str, name: str, seed: int = 0) -> Server:
    """The healthy server that everything starts from, of an engine and a version.

    vLLM reports every ten seconds: its server is slower, so that there is something to report.
    """
    engine, number = version.split()
    made = Server(
        engine=engine,
        version=number,
        seed=zlib.crc32(f"{name}/{seed}".encode()),
        model=f"example/{name}",
        draft=f"example/{name}-drafter",
    )
    if engine == "vllm":
        return made.but(base=90.0, drafting=3.0, row=0.2, context=0.15, traffic=((4, 40),))
    if engine == "llamacpp":
        return made.but(base=25.0, drafting=1.5, traffic=((1, 12),), max_running=4)
    return made


def log(*servers: Server, **named: Server) -> Files:
    """A log a server: server.log, or one with the name of the arm."""
    pairs = [("server", one) for one in servers] + list(named.items())
    return {f"{name}.log": "\n".join(writers.lines(one)) + "\n" for name, one in pairs}


def replaced(files: Files, old: str, new: str) -> Files:
    return {name: text.replace(old, new) for name, text in files.items()}


def long_text(one: Server) -> Server:
    """One request after the other, of 500 to 60,000 tokens of context."""
    return one.but(traffic=((1, 40),), prompt=(500, 60_000), output=(250, 400), pool=400_000)


# Acceptance ----------------------------------------------------------------------------------------


@operator("is the accept length", 2.8, 1)
def draft_never_accepted(one: Server, amount: float) -> Files:
    return log(one.but(kept=(amount - 1) / 1.8))


@operator(
    "of the accept length that another run of the drafter has is lost", 0, 0.5, on="vllm 0.33.0"
)
def acceptance_low_from_start(one: Server, amount: float) -> Files:
    return log(good=one, low=one.but(lost=amount, seed=one.seed + 1))


@operator("of 15 positions reject everything", 0, 12, on="vllm 0.33.0", whole=True)
def position_cliff(one: Server, amount: float) -> Files:
    deep = one.but(algorithm="DFLASH", drafts=15, accept=0.9, fade=0.99)
    return log(deep.but(dead=(15 - round(amount), 0)) if amount else deep)


@operator("of the accept length is lost from the shortest to the longest context", 0, 0.65)
def acceptance_decays_with_context(one: Server, amount: float) -> Files:
    return log(long_text(one).but(decay=amount))


@operator("seconds in which nothing is accepted", 0, 60, on="vllm 0.33.0", whole=True)
def acceptance_collapses_in_episodes(one: Server, amount: float) -> Files:
    long = one.but(traffic=((4, 60 if one.engine == "vllm" else 200),))
    if one.engine == "sglang":
        amount /= 8  # it reports eight times as often
    middle = 0.4 * life(long)[-1].second - 15
    return log(long.but(spells=((middle, middle + amount),) if amount else ()))


@operator("is the accept length, where 2.8 to 8.0 are published", 7, 1.9)
def acceptance_below_published(one: Server, amount: float) -> Files:
    known = one.but(
        model="Qwen/Qwen3-8B", draft="z-lab/Qwen3-8B-DFlash-b16", algorithm="DFLASH", drafts=15,
        accept=0.93, fade=0.992, kept=(amount - 1) / 6.5,
    )  # fmt: skip
    return log(known)


@operator("of the accept length is lost from one version to the next", 0, 0.4, on="vllm 0.9.2")
def acceptance_regressed(one: Server, amount: float) -> Files:
    later = one.but(version="0.33.0", lost=amount, start=one.start + timedelta(days=60))
    return log(before=one, after=later)


@operator("of the accept length is lost with data-parallel attention", 0, 0.5)
def acceptance_lost_under_layout(one: Server, amount: float) -> Files:
    wide = one.but(traffic=((8, 48),))
    split = wide.but(dp=2, tp=2, lost=amount, arguments=(("enable_dp_attention", True),))
    return log(together=wide.but(tp=2), split=split)


@operator("of the prefix hits are lost with speculation", 0, 0.9)
def prefix_cache_conflict(one: Server, amount: float) -> Files:
    turns = one.but(prompt=(2000, 8000), output=(100, 200), cached=0.8, traffic=((4, 40),))
    return log(plain=turns.but(algorithm="NONE"), speculative=turns.but(cached=0.8 * (1 - amount)))


@operator("of the accept length is lost at temperature 0.8", 0, 0.5)
def sampling_lowers_acceptance(one: Server, amount: float) -> Files:
    rows = [row | {"temperature": 0.0} for row in writers.answers(one)]
    rows += [
        row | {"id": row["id"] + "-hot", "temperature": 0.8}
        for row in writers.answers(one.but(lost=amount, seed=one.seed + 1))
    ]
    return {"requests.jsonl": writers.text(rows)}


@operator("of what is missing to full acceptance is not missing", 0, 1)
def acceptance_too_perfect(one: Server, amount: float) -> Files:
    return log(one.but(drafts=5, perfect=amount))


@operator("running requests at which drafting stops", 99, 3, whole=True)
def acceptance_low_on_purpose(one: Server, amount: float) -> Files:
    return log(one.but(idle_from=round(amount), traffic=((2, 24), (6, 48))))


@operator("times the accept length on predictable text", 1, 2.6)
def text_is_hard(one: Server, amount: float) -> Files:
    easy = long_text(one).but(
        algorithm="DFLASH", drafts=15, accept=0.93, fade=0.995, output=(1500, 2000)
    )
    return log(predictable=easy, prose=easy.but(lost=1 - 1 / amount, seed=one.seed + 1))


# Trees ---------------------------------------------------------------------------------------------


def tree(one: Server) -> Server:
    return one.but(
        algorithm="DDTREE", drafts=24, depth=7, top_k=4, accept=0.8, fade=0.95, siblings=0.35
    )


def chain(one: Server) -> Server:
    return one.but(algorithm="DFLASH", drafts=7, accept=0.8, fade=0.95)


@operator("of the commit length is not printed", 0, 0.6)
def depth_contradicts_commit(one: Server, amount: float) -> Files:
    return log(tree(one).but(commits=1 - amount))


@operator("the budget printed as the depth", 0, 1, whole=True)
def counter_is_not_acceptance(one: Server, amount: float) -> Files:
    return log(tree(one).but(counter=24 if amount else 0))


@operator("of the step time is printed", 1, 0.4)
def throughput_contradicts_commit(one: Server, amount: float) -> Files:
    return log(tree(one).but(clock=amount, traffic=((1, 30),)))


@operator("of the accept length is lost in the tree", 0, 0.6)
def tree_below_chain(one: Server, amount: float) -> Files:
    return log(chain=chain(one), tree=tree(one).but(siblings=0.0, lost=amount))


@operator("times the step time, with an accept length that is the chain's", 1, 2)
def tree_buys_nothing(one: Server, amount: float) -> Files:
    alone = one.but(row=0.005, traffic=((1, 16),), output=(500, 900))
    flat = tree(alone).but(siblings=0.35 if amount == 1 else 0.0, slow=amount)
    return log(chain=chain(alone), tree=flat)


@operator(
    "a verification captured for a block instead of the tree", 0, 1, on="sglang 0.5.16", whole=True
)
def tree_runs_linear(one: Server, amount: float) -> Files:
    files = log(tree(one))
    name = "num_tokens_per_req" if one.version >= "0.5.16" else "num_tokens_per_bs"
    return replaced(files, f"{name}=25", f"{name}=8") if amount else files


@operator("a verification that is the chain's", 0, 1, whole=True)
def mode_not_executed(one: Server, amount: float) -> Files:
    files = log(tree(one))
    if not amount:
        return files
    kept = [text for text in files["server.log"].split("\n") if "DDTREE metrics" not in text]
    return replaced(
        {"server.log": "\n".join(kept)}, "DDTREE verify completed", "DFLASH verify completed"
    )


@operator("tokens a page, with four candidates a depth", 1, 64, on="sglang 0.5.2", whole=True)
def tree_setting_impossible(one: Server, amount: float) -> Files:
    wide = one.but(
        algorithm="EAGLE3", drafts=15, depth=4, top_k=4, siblings=0.3, page_size=round(amount)
    )
    if amount == 1:
        return log(wide)
    return log(
        wide.but(
            dies=(
                "6.0",
                (*FRAME, "RuntimeError: CUDA error: an illegal memory access was encountered"),
            )
        )
    )


# Speed ---------------------------------------------------------------------------------------------


@operator("of the speed of plain decoding is lost", -0.5, 0.6)
def slower_than_baseline(one: Server, amount: float) -> Files:
    long = one.but(output=(500, 900))
    speed_up = 2.37  # of the healthy server
    return log(
        baseline=long.but(algorithm="NONE"), speculative=long.but(slow=speed_up / (1 - amount))
    )


@operator("ms a verified row", 0.02, 1)
def speculation_loses_at_concurrency(one: Server, amount: float) -> Files:
    many = one.but(
        row=amount, traffic=((1, 4), (4, 16), (16, 48), (32, 128)), prompt=(400, 600),
        output=(500, 700), max_running=64, captured=64,
    )  # fmt: skip
    return log(baseline=many.but(algorithm="NONE"), speculative=many)


@operator("of the decode windows ran without a graph", 0, 1)
def decode_graph_disabled(one: Server, amount: float) -> Files:
    return log(one.but(graphs=1 - amount, slow=1 + amount))


@operator("times the step time beyond the captured sizes", 1, 3)
def batch_outside_graphs(one: Server, amount: float) -> Files:
    wide = one.but(
        traffic=((8, 40), (24, 96)), output=(700, 900), captured=32 if amount == 1 else 16
    )
    return log(wide.but(eager=amount))


@operator("is the exponent of the context in the step time", 1, 2)
def step_time_superlinear(one: Server, amount: float) -> Files:
    return log(long_text(one).but(exponent=amount, context=0.05))


@operator("of the step time is added in an hour of uptime", 0, 2)
def throughput_decays_with_uptime(one: Server, amount: float) -> Files:
    now_and_then = one.but(traffic=((2, 6),) * 40, pause=60.0, output=(400, 500), prompt=(300, 500))
    return log(now_and_then.but(ageing=amount / 60))


@operator("tokens a prompt that arrives while others decode", 1000, 90_000, whole=True)
def prefill_starves_decode(one: Server, amount: float) -> Files:
    busy = one.but(
        prompt=(round(amount / 1.2), round(amount)),
        output=(400, 600),
        traffic=((10, 100),),
        think=0.1,
        pool=2_000_000,
    )
    return log(busy)


# Capacity ------------------------------------------------------------------------------------------


@operator("of the pool that the requests need is missing", 0, 0.7)
def retraction_storm(one: Server, amount: float) -> Files:
    full = one.but(traffic=((12, 60),), prompt=(300, 600), output=(1500, 2500), base=20.0)
    return log(full.but(pool=round(12 * 3100 * (1 - amount))))


@operator("times the step time after the first retraction", 1, 6)
def no_recovery_after_retraction(one: Server, amount: float) -> Files:
    full = one.but(traffic=((4, 16),), prompt=(300, 600), output=(2500, 3500), pool=9000)
    return log(full.but(scar=amount) if amount > 1 else full.but(pool=40_000))


@operator("requests wait behind the running limit", 0, 40, whole=True)
def running_cap_lowered(one: Server, amount: float) -> Files:
    return log(
        one.but(max_running=48, traffic=((round(40 + amount), 200),), output=(300, 600), think=0.05)
    )


@operator("requests wait for a state", 0, 16, whole=True)
def state_slots_cap(one: Server, amount: float) -> Files:
    return log(
        one.but(
            slots=8, traffic=((round(6 + amount), 80),), output=(300, 600), think=0.05, captured=8
        )
    )


@operator("times as many requests on one rank as on the other", 1, 8)
def dp_imbalance(one: Server, amount: float) -> Files:
    share = (amount / (1 + amount), 1 / (1 + amount))
    slow = one.but(base=60.0, traffic=((36, 480),), output=(300, 600))
    return log(slow.but(dp=2, tp=2, share=share))


@operator("lines of output for requests that are gone", 0, 60, whole=True)
def zombie_requests(one: Server, amount: float) -> Files:
    names = [f"{zlib.crc32(str(n % 4).encode()):08x}" for n in range(round(amount))]
    says = tuple(
        (
            2 + n * 0.3,
            f"Received output for rid={name!r} but the state was deleted in TokenizerManager.",
        )
        for n, name in enumerate(names)
    )
    return log(one.but(says=says, traffic=((4, 60),)))


@operator("tokens of the pool are missing when it is idle", 0, 512, whole=True)
def pool_leak(one: Server, amount: float) -> Files:
    free = 300_000 - round(amount)
    how = (
        '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 1466, in check_memory',
        f"ValueError: token_to_kv_pool_allocator memory leak detected! available_size={free}, protected_size=0, self.max_total_num_tokens=300000",
        f"available_token_size={free - 18_840}", "self.tree_cache.evictable_size()=18840",
    )  # fmt: skip
    return log(one.but(dies=("8.0", how)) if amount else one)


# Starts that die -----------------------------------------------------------------------------------

DEATH = "a death of this kind"
FRAME = (
    '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/speculative/eagle_worker.py", line 411, in verify',
)
LOADER = (
    '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/model_loader/loader.py", line 602, in load_model',
)
CAPTURE = (
    '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/model_executor/cuda_graph_runner.py", line 381, in __init__',
)


def deadly(name: str, where: str, *how: str, on: str = "sglang 0.5.12") -> None:
    """An operator of a start (or a life) that ends with these lines."""

    def make(one: Server, amount: float) -> Files:
        return log(one.but(dies=(where, how)) if amount else one)

    OPERATORS[name] = Operator(DEATH, 0, 1, make, on, whole=True)


deadly(
    "start_failed",
    "weights",
    *LOADER,
    "OSError: example/target does not appear to have a file named config.json",
)
deadly("module_missing", "import", "ModuleNotFoundError: No module named 'outlines_core'")
deadly(
    "binary_mismatch",
    "import",
    "ImportError: /opt/venv/lib/python3.12/site-packages/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab",
)
deadly(
    "kernel_missing_for_gpu",
    "capture",
    *CAPTURE,
    "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
)
deadly(
    "compiler_too_old",
    "capture",
    "nvcc fatal   : Unsupported gpu architecture 'compute_120a'",
    "ninja: build stopped: subcommand failed.",
    *CAPTURE,
    "RuntimeError: Ninja build failed. Ninja output:",
)
deadly(
    "combination_unsupported", "draft", *LOADER,
    "ValueError: Speculative decoding is not supported with attention backend 'flex_attention'.",
)  # fmt: skip
deadly(
    "out_of_memory_at_start",
    "capture",
    *CAPTURE,
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 0 has a total capacity of 79.11 GiB of which 811.00 MiB is free.",
)
deadly(
    "draft_does_not_match", "draft",
    '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/speculative/eagle_worker.py", line 102, in __init__',
    '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/model_loader/weight_utils.py", line 744, in default_weight_loader',
    "AssertionError: Attempted to load weight (torch.Size([32000, 4096])) into parameter (torch.Size([128256, 4096]))",
)  # fmt: skip
deadly(
    "graph_capture_failed",
    "capture",
    *CAPTURE,
    "Exception: Capture cuda graph failed: The size of tensor a (24) must match the size of tensor b (16) at non-singleton dimension 0",
)

DRAFT_DECODING = (
    "decode: failed to find a memory slot for batch of size 40",
    "llama_decode: failed to decode, ret = 1",
    "process: llama_decode(ctx_dft) failed rc=1 (n_tokens=40, ubatch_pos[0]=4096)",
    "srv  update_slots: failed to process speculative batch",
)

# Lives that end ------------------------------------------------------------------------------------

deadly(
    "illegal_memory_access",
    "9.0",
    *FRAME,
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
)
deadly(
    "server_died", "9.0",
    '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 2204, in process_batch_result',
    "IndexError: list index out of range",
)  # fmt: skip
deadly(
    "speculative_assertion",
    "9.0",
    *FRAME,
    "RuntimeError: shape '[8, 4, 4096]' is invalid for input of size 114688",
)
deadly(
    "out_of_memory_serving", "9.0", *FRAME,
    '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/layers/logits_processor.py", line 518, in _get_logits',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 79.11 GiB of which 402.00 MiB is free.",
)  # fmt: skip


@operator("batches of the drafter fail", 0, 5, on="llamacpp 9950", whole=True)
def draft_decode_fails(one: Server, amount: float) -> Files:
    lines, left = [], int(amount)
    for line in log(one)["server.log"].splitlines():
        lines.append(line)
        if left and "slot launch_slot_" in line:
            left -= 1
            begin = line.partition(" I ")[0] + " E "
            lines += [begin + text for text in DRAFT_DECODING]
    return {"server.log": "\n".join(lines) + "\n"}


@operator("seconds without a step while requests run", 0, 600, whole=True)
def server_hung(one: Server, amount: float) -> Files:
    if not amount:
        return log(one.but(traffic=((4, 40),)))
    ((name, text),) = log(one.but(dies=("9.0", ()))).items()
    kept = text.split("\n")[:-5]  # what a dead scheduler says
    now = writers.SGLang(one)
    watchdog = (
        "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"
        if now.at(0, 5, 7)
        else "Watchdog timeout (self.watchdog_timeout=300)"
    )
    kept.append(now.line(47 + amount, watchdog, now.rank()))
    return {name: "\n".join(kept) + "\n"}


@operator("ranks report a lost peer", 0, 4, whole=True)
def peer_lost(one: Server, amount: float) -> Files:
    wide = one.but(dp=4, tp=4, traffic=((16, 100),))
    if not amount:
        return log(wide)
    ((name, text),) = log(wide.but(dies=("9.0", ()))).items()
    lines = text.split("\n")
    first = next(n for n, line in enumerate(lines) if "hit an exception" in line)
    now, kept = writers.SGLang(wide), lines[:first]
    kept.append(
        now.line(
            75,
            "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 09:00:55. last_heartbeat time: 09:00:47",
        )
    )
    for rank in range(round(amount)):
        kept += [
            now.line(77 + rank, "Scheduler hit an exception: Traceback (most recent call last):", now.rank(rank)),
            '  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 2894, in all_gather',
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, remote process exited or there was a network error, NCCL version 2.27.3",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.", "",
        ]  # fmt: skip
    return {
        name: "\n".join(
            [
                *kept,
                now.line(
                    82, "Received sigquit from a child process. It usually means the child failed."
                ),
            ]
        )
        + "\n"
    }


@operator("messages of NaN in the logits", 0, 40, whole=True)
def nan_logits(one: Server, amount: float) -> Files:
    says = tuple(
        (3 + 0.2 * n, "Detected errors during sampling! NaN in the logits.")
        for n in range(round(amount))
    )
    return log(one.but(says=says))


@operator("requests whose tokens the grammar rejects", 0, 12, whole=True)
def grammar_conflict(one: Server, amount: float) -> Files:
    says = tuple(
        (
            2 + 0.4 * n,
            f"Grammar accept_token failed for req {zlib.crc32(str(n).encode()):08x}{n:024x} with token {1000 + n}: Tokens not accepted",
        )
        for n in range(round(amount))
    )
    return log(one.but(says=says))


# Output --------------------------------------------------------------------------------------------

WORDS = [
    "draft",
    "tokens",
    "that",
    "the",
    "target",
    "keeps",
    "and",
    "count",
    "each",
    "step",
    "of",
    "a",
    "server",
]


def prose(seed: int, words: int) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(words))


@operator("of the answers are loops, and none of plain decoding", 0, 0.6)
def output_garbled(one: Server, amount: float) -> Files:
    return _answered(one, amount, loop)


def loop(text: str, number: int) -> str:
    return "the the the the " * (len(text) // 16)


def fork(text: str, number: int) -> str:
    return text[: len(text) // 8] + prose(5000 + number, 50)


def _answered(one: Server, amount: float, change: Callable[[str, int], str]) -> Files:
    """The same prompts with and without speculation; a share of the former's answers is changed."""
    files: Files = {}
    hit = [number * 0.618 % 1 < amount for number in range(61)]  # evenly spread
    for arm, spec in (("plain", one.but(algorithm="NONE")), ("speculative", one)):
        asked = spec.but(traffic=((4, 60),))
        rows = []
        for row in sorted(writers.answers(asked), key=lambda row: int(row["id"][1:])):
            number, text = int(row["id"][1:]), prose(int(row["id"][1:]), 80)
            if arm == "speculative" and hit[number]:
                text = change(text, number)
                if change is loop:
                    row["finish_reason"] = {"type": "length", "length": row["completion_tokens"]}
            prompt = prose(1000 + number, 12)
            rows.append(
                {"prompt": prompt, "temperature": 0.0, "answer": {"text": text, "meta_info": row}}
            )
        files[f"{arm}.requests.jsonl"] = writers.text(rows)
        files |= log(**{arm: asked})
    return files


@operator("of the greedy answers differ from plain decoding", 0, 0.5)
def differs_from_greedy(one: Server, amount: float) -> Files:
    return _answered(one, amount, fork)


@operator("of the answers of a hybrid target are loops, and none of plain decoding", 0, 0.6)
def recurrent_state_corrupted(one: Server, amount: float) -> Files:
    return _answered(one.but(slots=48), amount, loop)


# Measurement ---------------------------------------------------------------------------------------


@operator("of the records' accept length is missing", 0, 0.5)
def sources_disagree(one: Server, amount: float) -> Files:
    rows = writers.answers(one)
    for row in rows:
        row["spec_accept_length"] *= 1 - amount
    return log(one) | {"requests.jsonl": writers.text(rows)}


@operator("two definitions of the accept rate", 1, 2, whole=True)
def rate_definition_differs(one: Server, amount: float) -> Files:
    return log(new=one, old=one.but(version="0.5.8" if amount > 1 else one.version))


def bench(one: Server, **more: Any) -> dict[str, Any]:
    """What bench_serving appends to its file."""
    ended = [record for record in life(one) if record.kind == "finished"]
    requests = [record.facts["request"] for record in ended]
    seconds = ended[-1].second - requests[0].sent
    steps, output = sum(one.verifies for one in requests), sum(one.output for one in requests)
    e2e = [1000 * (record.second - record.facts["request"].sent) for record in ended]
    tpot = [
        1000 * (record.second - two.first) / two.output
        for record, two in zip(ended, requests, strict=True)
    ]
    row = {
        "backend": "sglang", "dataset_name": "sharegpt", "request_rate": float("inf"), "max_concurrency": one.traffic[0][0],
        "duration": seconds, "completed": len(requests), "total_input_tokens": sum(two.prompt for two in requests), "total_output_tokens": output,
        "request_throughput": len(requests) / seconds, "input_throughput": sum(two.prompt for two in requests) / seconds, "output_throughput": output / seconds,
        "mean_e2e_latency_ms": sum(e2e) / len(e2e), "median_e2e_latency_ms": sorted(e2e)[len(e2e) // 2],
        "mean_ttft_ms": sum(1000 * (two.first - two.sent) for two in requests) / len(requests), "mean_tpot_ms": sum(tpot) / len(tpot),
        "concurrency": sum(e2e) / 1000 / seconds, "accept_length": sum(two.ctx - two.prompt - 1 for two in requests) / steps,
    }  # fmt: skip
    return row | more


@operator("is the spread of the texts' difficulty; a client reports the mean of means", 0.05, 1.4)
def aggregation_differs(one: Server, amount: float) -> Files:
    wide = one.but(
        algorithm="DFLASH",
        drafts=15,
        accept=0.93,
        fade=0.995,
        spread=amount,
        traffic=((4, 80),),
        output=(64, 1200),
    )
    rows = writers.answers(wide)
    mean = sum(row["spec_accept_length"] for row in rows) / len(rows)
    return {
        "requests.jsonl": writers.text(rows),
        "bench.jsonl": writers.text([bench(wide, accept_length=mean)]),
    }


@operator("of the benchmark's prompts are random tokens or warm", 0, 1)
def benchmark_artefact(one: Server, amount: float) -> Files:
    warm = one.but(cached=0.9 * amount, traffic=((4, 40),))
    row = bench(
        warm,
        dataset_name="random-ids" if amount > 0.5 else "sharegpt",
        random_input_len=512 if amount else None,
    )
    return log(warm) | {"bench.jsonl": writers.text([row])}


@operator("of the requests are cut in their last step", 0, 0.5)
def last_step_overcounted(one: Server, amount: float) -> Files:
    deep = one.but(algorithm="DFLASH", drafts=15, accept=0.95, fade=0.995, traffic=((4, 60),))
    rows, rng = writers.answers(deep), random.Random(one.seed)
    for row in rows:
        if rng.random() >= amount:  # it ends where its last step does
            row["completion_tokens"] = row["spec_num_correct_drafts"] + row["spec_verify_ct"] + 1
        row["spec_accept_length"] = row["completion_tokens"] / row["spec_verify_ct"]
    return {"requests.jsonl": writers.text(rows)}


@operator("a drafter that nothing is printed of", 0, 1, whole=True)
def speculation_never_engages(one: Server, amount: float) -> Files:
    return log(one.but(silent=bool(amount), lost=0.0))
