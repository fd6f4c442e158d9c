"""How each server prints its life, by version. `lines(server)` is the whole log.

SGLang's shapes follow its releases from 0.4.0 to 0.5.23, vLLM's the three generations of its
speculation metrics, llama.cpp's the old and the new prefix.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from compose import READY, Record, Request, Server, life, stamp

EAGER_SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128)


def lines(server: Server) -> list[str]:
    writer = {"sglang": SGLang, "vllm": VLLM, "llamacpp": LlamaCpp}[server.engine](server)
    return [text for part in writer.log() for text in part.split("\n")]


class Writer:
    """What all writers share: the order of things, and where a server may die."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.version = tuple(int(part) for part in server.version.split("."))

    def log(self) -> Iterator[str]:
        server = self.server
        where, how = server.dies or ("", ())
        for stage, second, text in self.start():
            yield text if text.startswith("\n") else self.line(second, text)
            if where and where == stage:
                yield from self.death(second + 0.4, how)
                return
        for record in life(server):
            yield from getattr(self, record.kind, self.nothing)(record)
        if where:
            yield from self.death(READY + float(where), how)

    def nothing(self, record: Record) -> Iterator[str]:
        yield from ()

    def said(self, record: Record) -> Iterator[str]:
        yield self.line(record.second, record.facts["text"])

    def start(self) -> Iterator[tuple[str, float, str]]:
        raise NotImplementedError

    def line(self, second: float, text: str, rank: str = "") -> str:
        raise NotImplementedError

    def death(self, second: float, how: tuple[str, ...]) -> Iterator[str]:
        raise NotImplementedError


def captured(server: Server) -> list[int]:
    sizes = [size for size in EAGER_SIZES if size <= server.captured]
    return sizes if server.captured in sizes else [*sizes, server.captured]


class SGLang(Writer):
    """SGLang 0.4.0 to 0.5.23."""

    def at(self, *version: int) -> bool:
        return self.version >= version

    def rank(self, dp: int = 0, inside: bool = True) -> str:
        """The ranks of a record of the scheduler."""
        parts = []
        if self.server.dp > 1:
            parts.append(f"DP{dp}")
        if self.server.tp > 1 or not self.at(0, 4, 6):
            parts.append(f"TP{dp if self.server.dp > 1 and self.server.tp > 1 else 0}")
        return "".join(f" {part}" for part in parts) if inside else ""

    def line(self, second: float, text: str, rank: str = "") -> str:
        return f"[{stamp(self.server, second):%Y-%m-%d %H:%M:%S}{rank}] {text}"

    def arguments(self) -> str:
        server = self.server
        values: dict[str, Any] = {
            "model_path": server.model, "tokenizer_path": server.model, "tokenizer_mode": "auto",
            "trust_remote_code": False, "context_length": None, "quantization": None, "kv_cache_dtype": "auto",
            "mem_fraction_static": 0.82, "max_running_requests": None, "chunked_prefill_size": server.chunk,
            "page_size": server.page_size, "tp_size": server.tp, "dp_size": server.dp, "disable_radix_cache": False,
            "attention_backend": "fa3" if self.at(0, 4, 4) else None, "cuda_graph_max_bs": server.captured,
            "decode_log_interval": server.interval, "disable_cuda_graph": False,
            "speculative_algorithm": server.algorithm if server.speculates else None,
            "speculative_draft_model_path": server.draft if server.speculates else None,
            "speculative_num_steps": None, "speculative_eagle_topk": None, "speculative_num_draft_tokens": None,
        }  # fmt: skip
        if server.speculates:
            chain = server.drafts if server.algorithm not in ("DFLASH", "DDTREE") else 1
            values |= {
                "speculative_num_steps": server.depth
                if server.tree and server.algorithm != "DDTREE"
                else chain,
                "speculative_eagle_topk": server.top_k,
                "speculative_num_draft_tokens": server.width,
            }
        if server.algorithm == "DDTREE":
            values["speculative_ddtree_budget"] = server.drafts
        values |= dict(server.arguments)
        if self.at(0, 5, 19):
            return f"server_args={values!r}"
        return f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    def weights(
        self, begin: float, end: float, name: str, free: float, size: float
    ) -> Iterator[tuple[float, str]]:
        yield begin, f"Load weight begin. avail mem={free:.2f} GB"
        elapsed = f"elapsed={end - begin:.2f} s, " if self.at(0, 5, 9) else ""
        dtype = "" if self.at(0, 5, 10) else ", dtype=torch.bfloat16"
        usage = f", mem usage={size:.2f} GB." if self.at(0, 4, 3) else ""
        yield (
            end,
            f"Load weight end. {elapsed}type={name}{dtype}, avail mem={free - size:.2f} GB{usage}",
        )

    def pools(self, second: float, k: float, free: float) -> Iterator[tuple[float, str]]:
        dtype = "dtype: torch.bfloat16, " if self.at(0, 5, 13) else ""
        if self.at(0, 4, 1):
            yield (
                second,
                f"KV Cache is allocated. {dtype}#tokens: {self.server.pool}, K size: {k:.2f} GB, V size: {k:.2f} GB",
            )
        yield second, f"Memory pool end. avail mem={free:.2f} GB"

    def capture(
        self, second: float, what: str, old: str, width: int, free: float
    ) -> Iterator[tuple[float, str]]:
        sizes = captured(self.server)
        if self.at(0, 5, 14):
            per = "num_tokens_per_req" if self.at(0, 5, 16) else "num_tokens_per_bs"
            on_begin = "" if self.at(0, 5, 22) else f"bs={sizes}, "
            on_end = f"bs={sizes}, " if self.at(0, 5, 22) else ""
            yield (
                second,
                f"Capture {what} CUDA graph begin. backend=full, {per}={width}, {on_begin}avail mem={free:.2f} GB",
            )
            yield (
                second + 3,
                f"Capture {what} CUDA graph end. {on_end}elapsed=2.91 s, mem usage=0.84 GB, avail mem={free - 0.84:.2f} GB.",
            )
            return
        graph = f"{old}cuda graph"
        if not self.at(0, 4, 3):
            yield second, f"Capture {graph} begin. This can take up to several minutes."
            yield second + 3, f"Capture {graph} end. Time elapsed: 2.91 s"
            return
        yield (
            second,
            f"Capture {graph} begin. This can take up to several minutes. avail mem={free:.2f} GB",
        )
        if self.at(0, 4, 6) and not old:
            yield second, f"Capture cuda graph bs {sizes}"
        used = " mem usage=0.84 GB." if self.at(0, 4, 6) else ""
        yield (
            second + 3,
            f"Capture {graph} end. Time elapsed: 2.91 s.{used} avail mem={free - 0.84:.2f} GB{'.' if used else ''}",
        )

    def start(self) -> Iterator[tuple[str, float, str]]:
        server, rank = self.server, self.rank()

        def own(stage: str, parts: Iterator[tuple[float, str]]) -> Iterator[tuple[str, float, str]]:
            for second, text in parts:
                for dp in range(server.dp):
                    yield stage, second, f"\n{self.line(second, text, self.rank(dp))}"

        yield "", 0, self.arguments()
        if server.speculates and not self.at(0, 5, 3) and self.at(0, 4, 1):
            yield (
                "",
                0.5,
                "Overlap scheduler is disabled because of using eagle speculative decoding.",
            )
        if server.speculates and self.at(0, 5, 4) and server.max_running == 48:
            yield (
                "",
                0.5,
                "Max running requests is reset to 48 for speculative decoding. You can override this by explicitly setting --max-running-requests.",
            )
        yield (
            "import",
            2,
            "Attention backend not specified. Use fa3 backend by default."
            if self.at(0, 5, 7)
            else "Using default HuggingFace chat template with detected content format: string",
        )
        if not self.at(0, 5, 21):
            yield from own("", iter([(5.0, "Init torch distributed begin.")]))
            if self.at(0, 4, 3):
                took = "elapsed=0.61 s, " if self.at(0, 5, 9) else ""
                yield from own(
                    "", iter([(5.6, f"Init torch distributed ends. {took}mem usage=0.06 GB")])
                )
        yield from own("weights", self.weights(6, 14, "Qwen3ForCausalLM", 138.4, 15.4))
        if server.slots:
            parts = f"conv_state size: 0.44GB, ssm_state size: {server.slots * 0.07:.2f}GB "
            if server.speculates:
                parts += f"intermediate_ssm_state_cache size: {server.slots * 0.07 * server.width:.2f}GB intermediate_conv_window_cache size: 1.10GB "
            yield from own(
                "",
                iter(
                    [
                        (
                            15.0,
                            f"Mamba Cache is allocated. max_mamba_cache_size: {server.slots * (2 if server.speculates else 1)}, {parts}",
                        )
                    ]
                ),
            )
        yield from own("", self.pools(15, server.pool * 7e-5, 40.2))
        if server.speculates and server.algorithm != "NGRAM":
            names = {
                "DFLASH": "DFlashDraftModel",
                "DDTREE": "DFlashDraftModel",
                "EAGLE3": "LlamaForCausalLMEagle3",
                "EAGLE": "LlamaForCausalLMEagle",
            }
            yield from own(
                "draft",
                self.weights(16, 17, names.get(server.algorithm, "Qwen3ForCausalLM"), 40.2, 1.1),
            )
            if server.algorithm == "DFLASH" and self.at(0, 5, 11):
                yield (
                    "",
                    17.2,
                    f"\n{self.line(17.2, f'Initialized DFLASH draft runner. attention_backend=fa3, model=DFlashDraftModel, block_size={server.width}, draft_window_size=None, compact_cache=False', rank)}",
                )
            if server.algorithm == "DDTREE":
                yield (
                    "",
                    17.2,
                    f"\n{self.line(17.2, f'Initialized DDTREE draft runner. attention_backend=triton, model=DFlashDraftModel, block_size={server.depth + 1}, budget={server.drafts}, top_k={server.top_k}', rank)}",
                )
            yield from own("", self.pools(17, 1.2, 37.0))
        for text in server.loads:
            yield "", 18, f"\n{self.line(18, text, rank)}"
        phase = "verify" if server.speculates else "decode"
        if not dict(server.arguments).get("disable_cuda_graph"):
            yield from own("capture", self.capture(20, f"target {phase}", "", server.width, 37.0))
            if server.speculates and self.at(0, 4, 3):
                draft = (
                    "draft verify" if server.algorithm in ("DFLASH", "DDTREE") else "draft decode"
                )
                yield from own(
                    "",
                    self.capture(
                        25,
                        draft,
                        "draft ",
                        server.width if "verify" in draft else server.top_k,
                        36.1,
                    ),
                )
        if server.slots and self.at(0, 5, 12):
            each = 2 if server.speculates else 1
            limit = (
                f"max_running_requests is capped to {server.slots} by the mamba state cache "
                f"(max_mamba_cache_size={server.slots * each}, {each} state slots per request)."
            )
            yield from own("", iter([(28.5, limit)]))
        sizes = f"chunked_prefill_size={server.chunk}, " if self.at(0, 4, 2) else ""
        free = ", available_gpu_mem=35.30 GB" if self.at(0, 4, 7) else ""
        most = min(server.max_running, server.slots or server.max_running) * server.dp
        yield from own(
            "capacity",
            iter(
                [
                    (
                        29.0,
                        f"max_total_num_tokens={server.pool}, {sizes}max_prefill_tokens=16384, max_running_requests={most}, context_len=131072{free}",
                    )
                ]
            ),
        )
        for text in (
            "Started server process [71]",
            "Waiting for application startup.",
            "Application startup complete.",
            "Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)",
        ):
            yield "", 30, f"INFO:     {text}"
        if server.algorithm == "DFLASH" and self.at(0, 5, 11) and not self.at(0, 5, 14):
            name = "correct" if self.at(0, 5, 12) else "accepted"
            yield (
                "",
                33,
                f"\n{self.line(33, f'DFLASH verify completed. num_{name}_drafts_per_req=[2]', rank)}",
            )
        if server.algorithm == "DDTREE":
            yield (
                "",
                33,
                f"\n{self.line(33, 'DDTREE verify completed. num_accepted_drafts_per_req=[2]', rank)}",
            )
        yield "warmup", 34, 'INFO:     127.0.0.1:40112 - "POST /generate HTTP/1.1" 200 OK'
        yield "ready", 34, "The server is fired up and ready to roll!"

    def log(self) -> Iterator[str]:
        for text in super().log():
            yield text.removeprefix("\n")

    def usage(self, tokens: float, states: int, counted: bool) -> str:
        server = self.server
        share = tokens / server.pool
        if not server.slots and not server.window:
            return (
                f"#token: {tokens:.0f}, token usage: {share:.2f}, "
                if counted
                else f"token usage: {share:.2f}, "
            )
        parts = [
            f"#full token: {tokens:.0f}, full token usage: {share:.2f}"
            if counted
            else f"full token usage: {share:.2f}"
        ]
        if server.window:
            inside = min(tokens, states * server.window)
            name = f"#swa token: {inside:.0f}, " if counted else ""
            parts.append(f"{name}swa token usage: {inside / server.pool:.2f}")
        if server.slots:
            number = f"mamba num: {states * 2}, " if counted else ""
            parts.append(f"{number}mamba usage: {states / server.slots:.2f}")
        return ", ".join(parts) + ", "

    def prefill(self, record: Record) -> Iterator[str]:
        facts = record.facts
        head = "Prefill batch, " if self.at(0, 5, 4) else "Prefill batch. "
        speed = f"input throughput (token/s): {facts['new'] / max(facts['seconds'], 0.05):.2f}"
        rate = ""
        if not self.at(0, 4, 3):
            rate = (
                f"cache hit rate: {100 * facts['cached'] / (facts['cached'] + facts['new']):.2f}%, "
            )
        tokens = facts["usage"] * self.server.pool
        text = (
            f"{head}#new-seq: 1, #new-token: {facts['new']}, #cached-token: {facts['cached']}, {rate}"
            f"{self.usage(tokens, facts['states'], False)}#running-req: {facts['running']}, #queue-req: {facts['queue']}"
        )
        if self.at(0, 5, 11):
            text += f", #pending-token: {facts['pending']}, cuda graph: False, {speed}"
        elif self.at(0, 5, 10):
            text += f", cuda graph: False, {speed}"
        elif self.at(0, 5, 9):
            text += f", {speed}, cuda graph: False"
        elif self.at(0, 4, 9) or (self.at(0, 4, 3) and not self.at(0, 4, 6)):
            text += ", "
        yield self.line(record.second, text, self.rank(record.rank))

    def decode(self, record: Record) -> Iterator[str]:
        server, facts = self.server, record.facts
        head = "Decode batch, " if self.at(0, 5, 4) else "Decode batch. "
        text = f"{head}#running-req: {facts['running']}, {self.usage(facts['tokens'], facts['running'], True)}"
        drafts = facts["committed"] - facts["verifies"]
        if server.speculates and not server.silent and self.at(0, 4, 1):
            text += f"accept len: {facts['committed'] / facts['verifies']:.2f}, "
            if self.at(0, 5, 11):
                text += f"accept rate: {drafts / (facts['verifies'] * server.drafts):.2f}, "
            elif self.at(0, 5, 5):
                text += (
                    f"accept rate: {facts['committed'] / (facts['verifies'] * server.width):.2f}, "
                )
            elif self.at(0, 5, 3):
                steps = server.depth if server.tree else server.drafts
                text += (
                    f"accept rate: {facts['committed'] / (facts['verifies'] * (steps + 1)):.2f}, "
                )
        if self.at(0, 4, 6):
            text += f"cuda graph: {facts['graph']}, "
        text += f"gen throughput (token/s): {facts['committed'] / facts['seconds']:.2f}, "
        if (0, 4, 3) <= self.version < (0, 4, 4):
            text += f"largest-len: {round(facts['ctx'] * 1.2)}, "
        text += f"#queue-req: {facts['queue']}"
        if (0, 4, 3) <= self.version < (0, 4, 6) or (0, 4, 9) <= self.version < (0, 5, 9):
            text += ", "
        yield self.line(record.second, text, self.rank(record.rank))
        if server.algorithm == "DDTREE":
            depth = drafts / facts["verifies"]
            printed = server.counter or depth
            yield self.line(
                record.second,
                f"DDTREE metrics: avg_accepted_depth={printed:.2f} avg_accepted_drafts={server.commits * (depth + 1) - 1:.2f} "
                f"avg_commit_len={server.commits * (depth + 1):.2f} avg_tree_size={server.drafts:.2f} budget={server.drafts} "
                f"top_k={server.top_k} ctx_len={facts['ctx']:.0f} step_ms={1000 * server.clock * facts['seconds'] / max(1, facts['forwards']):.2f}",
                self.rank(record.rank),
            )  # fmt: skip

    def retracted(self, record: Record) -> Iterator[str]:
        facts = record.facts
        head = (
            "KV cache pool is full. Retract requests."
            if self.at(0, 4, 7)
            else "Decode out of memory happened."
        )
        gained = f"#new_tokens_gained: {facts['gained']}, " if self.at(0, 5, 7) else ""
        if (0, 5, 3) <= self.version < (0, 5, 4):
            gained = "#aborted_retracted_reqs: 0, "
        text = f"{head} #retracted_reqs: {facts['number']}, {gained}#new_token_ratio: {facts['before']:.4f} -> {facts['after']:.4f}"
        yield self.line(record.second, text, self.rank(record.rank))

    def finished(self, record: Record) -> Iterator[str]:
        port = 40_000 + record.facts["request"].number * 7 % 20_000
        yield self.line(
            record.second + 0.001, f'INFO:     127.0.0.1:{port} - "POST /generate HTTP/1.1" 200 OK'
        )

    def death(self, second: float, how: tuple[str, ...]) -> Iterator[str]:
        where = self.server.dies[0] if self.server.dies else ""
        if where == "import":  # the launcher itself
            yield "Traceback (most recent call last):"
            yield '  File "<frozen runpy>", line 198, in _run_module_as_main'
            yield from how
            return
        for dp in range(self.server.dp):
            yield self.line(
                second,
                "Scheduler hit an exception: Traceback (most recent call last):",
                self.rank(dp),
            )
            yield '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 3120, in run_scheduler_process'
            yield (
                "    scheduler.event_loop_overlap()"
                if where.replace(".", "").isdigit()
                else "    scheduler = Scheduler(server_args, port_args)"
            )
            yield from how
            yield ""
        text = (
            "SIGQUIT received. signum=None, frame=None. It usually means one child failed."
            if self.at(0, 5, 3)
            else "Received sigquit from a child process. It usually means the child failed."
        )
        yield self.line(second + 1, text)


class VLLM(Writer):
    """vLLM: the V0 engine (before 0.8), V1 to 0.10 and V1 from 0.11 with process prefixes."""

    def process(self, name: str = "APIServer") -> str:
        return (
            f"({name} pid={71 if name == 'APIServer' else 412}) "
            if self.version >= (0, 10, 1)
            else ""
        )

    def line(
        self,
        second: float,
        text: str,
        rank: str = "",
        level: str = "INFO",
        process: str = "APIServer",
    ) -> str:
        place, _, message = (
            text.partition("] ") if text.startswith("[") else ("[api_server.py:120", "", text)
        )
        place = f"{place.removeprefix('[')}]" if self.version < (0, 8) else f"{place}]"
        return f"{self.process(process)}{level} {stamp(self.server, second):%m-%d %H:%M:%S} {place} {message}"

    def start(self) -> Iterator[tuple[str, float, str]]:
        server = self.server
        method = {
            "EAGLE3": "eagle3",
            "DFLASH": "dflash",
            "NGRAM": "ngram",
            "EAGLE": "eagle",
            "STANDALONE": "draft_model",
        }
        if self.version < (0, 8):
            more = (
                f", speculative_model={server.draft!r}, num_speculative_tokens={server.drafts}"
                if server.speculates
                else ""
            )
            yield (
                "import",
                0,
                f"[api_server.py:586] args: Namespace(host=None, port=8000, model={server.model!r}, tensor_parallel_size={server.tp}{more})",
            )
        else:
            values: dict[str, Any] = {
                "model": server.model,
                "max_model_len": 131072,
                "tensor_parallel_size": server.tp,
            }
            if server.speculates:
                values["speculative_config"] = {
                    "method": method[server.algorithm],
                    "model": server.draft,
                    "num_speculative_tokens": server.drafts,
                }
            values |= dict(server.arguments)
            yield "import", 0, f"[utils.py:233] non-default args: {values!r}"
            yield (
                "",
                4,
                f"[core.py:133] Initializing a V1 LLM engine (v{server.version}) with config: model={server.model!r}, seed=0",
            )
        yield "weights", 12, "[loader.py:447] Loading weights took 7.11 seconds"
        if server.speculates and server.algorithm != "NGRAM":
            yield "draft", 13, "[gpu_model_runner.py:2602] Loading drafter model..."
        for text in server.loads:
            yield "", 14, text
        yield "", 20, f"[kv_cache_utils.py:868] GPU KV cache size: {server.pool:,} tokens"
        yield (
            "capture",
            25,
            "[gpu_model_runner.py:2605] Graph capturing finished in 9 secs, took 0.79 GiB",
        )
        yield "ready", 34, "\n" + self.process() + "INFO:     Application startup complete."

    def log(self) -> Iterator[str]:
        for text in super().log():
            yield text.removeprefix("\n")

    def decode(self, record: Record) -> Iterator[str]:
        server, facts = self.server, record.facts
        seconds = max(facts["seconds"], 1e-3)
        head = (
            f"Avg prompt throughput: {facts['prompts'] / seconds:.1f} tokens/s, "
            f"Avg generation throughput: {facts['committed'] / seconds:.1f} tokens/s, Running: {facts['running']} reqs, "
        )
        usage = f"GPU KV cache usage: {100 * facts['tokens'] / server.pool:.1f}%, "
        if self.version < (0, 8):
            yield self.line(
                record.second,
                f"[metrics.py:455] {head}Swapped: 0 reqs, Pending: {facts['queue']} reqs, {usage}CPU KV cache usage: 0.0%.",
            )
        else:
            engine = f"Engine {record.rank:03}: "
            yield self.line(
                record.second,
                f"[loggers.py:118] {engine}{head}Waiting: {facts['queue']} reqs, {usage}Prefix cache hit rate: {100 * server.cached:.1f}%",
            )
        if not server.speculates or server.silent or not facts["drafted"]:
            return
        accepted, drafted = facts["committed"] - facts["verifies"], facts["drafted"]
        if self.version < (0, 8):
            total = self.totals = [
                a + b
                for a, b in zip(
                    getattr(self, "totals", [0, 0, 0, 0]),
                    (accepted, drafted, facts["committed"], facts["verifies"]),
                    strict=True,
                )
            ]
            yield self.line(record.second, (
                f"[metrics.py:477] Speculative metrics: Draft acceptance rate: {total[0] / total[1]:.3f}, System efficiency: {total[2] / (total[3] * server.width):.3f}, "
                f"Number of speculative tokens: {server.drafts}, Number of accepted tokens: {total[0]}, Number of draft tokens: {total[1]}, Number of emitted tokens: {total[2]}."
            ))  # fmt: skip
            return
        drafts = drafted / server.drafts
        rates = ", ".join(f"{one / drafts:.3f}" for one in facts["positions"][: server.drafts])
        rate = f"{100 * accepted / drafted:.1f}%"
        length = f"Mean acceptance length: {1 + accepted / drafts:.2f}, "
        if self.version < (0, 10, 1):
            yield self.line(
                record.second,
                f"[metrics.py:67] SpecDecoding metrics: Draft acceptance rate: {rate}, {length}Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates}",
            )
        else:
            yield self.line(record.second, (
                f"[metrics.py:120] SpecDecoding metrics: {length}Accepted throughput: {accepted / seconds:.2f} tokens/s, Drafted throughput: {drafted / seconds:.2f} tokens/s, "
                f"Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, Avg Draft acceptance rate: {rate}"
            ))  # fmt: skip

    def finished(self, record: Record) -> Iterator[str]:
        port = 40_000 + record.facts["request"].number * 7 % 20_000
        yield f'{self.process()}INFO:     127.0.0.1:{port} - "POST /v1/completions HTTP/1.1" 200 OK'

    def death(self, second: float, how: tuple[str, ...]) -> Iterator[str]:
        def error(text: str) -> str:
            return self.line(
                second, f"[core.py:708] {text}", level="ERROR", process="EngineCore_DP0"
            )

        yield error(
            "EngineCore failed to start."
            if not self.server.dies or not self.server.dies[0].replace(".", "").isdigit()
            else "EngineCore encountered a fatal error."
        )
        yield error("Traceback (most recent call last):")
        yield from (error(text) for text in how)


class LlamaCpp(Writer):
    """llama-server: before and after it began to print the time since its start."""

    def line(self, second: float, text: str, rank: str = "") -> str:
        if self.version < (7000,):
            return text
        minutes, rest = divmod(second, 60)
        return f"{minutes:.0f}.{math.floor(rest):02}.{int(rest % 1 * 1000):03}.000 I {text}"

    def start(self) -> Iterator[tuple[str, float, str]]:
        server = self.server
        files = f"-m {server.model.split('/')[-1]}.gguf"
        draft = f"{(server.draft or '').split('/')[-1]}.gguf"
        if server.draft:
            files += f" -md {draft} --spec-draft-n-max {server.drafts}" + (
                "" if server.silent else " --spec-type draft-simple"
            )
        new = self.version >= (7000,)
        yield (
            "import",
            0,
            f"{'main: build' if new else 'build:'} {server.version} (0badcafe) with gcc 13.3.0 for x86_64-linux-gnu",
        )
        if new:
            yield (
                "",
                0.1,
                f"srv   llama_server: argv: llama-server {files} -ngl 99 -c 32768 --port 8080",
            )
        yield "weights", 8, f"srv    load_model: loading model '{server.model.split('/')[-1]}.gguf'"
        if server.draft:
            yield "draft", 14, f"srv    load_model: loading draft model '{draft}'"
        yield (
            "capture",
            16,
            f"srv    load_model: initializing slots, n_slots = {server.max_running}",
        )
        for text in server.loads:
            yield "", 17, text
        yield (
            "ready",
            34,
            "srv  llama_server: model loaded"
            if new
            else "main: server is listening on http://127.0.0.1:8080 - starting the main loop",
        )

    def finished(self, record: Record) -> Iterator[str]:
        server, one, now = self.server, record.facts["request"], record.second
        prompt_ms, decode_ms = 1000 * one.prompt / server.prefill_per_s, 1000 * (now - one.first)
        slot, task = one.client, one.number * 270
        new = self.version >= (7000,)
        own = f"slot print_timing: id  {slot} | task {task} | "

        def say(text: str) -> str:
            return self.line(now, (own if new else "") + text)

        yield self.line(
            one.first,
            f"slot launch_slot_: id  {slot} | task {task} | processing task, is_child = 0",
        )
        if not new:
            yield own
        yield say(
            f"prompt eval time = {prompt_ms:10.2f} ms / {one.prompt:5} tokens ({prompt_ms / one.prompt:8.2f} ms per token, {1000 * one.prompt / prompt_ms:8.2f} tokens per second)"
        )
        yield say(
            f"       eval time = {decode_ms:10.2f} ms / {one.output:5} tokens ({decode_ms / one.output:8.2f} ms per token, {1000 * one.output / decode_ms:8.2f} tokens per second)"
        )
        yield say(
            f"      total time = {prompt_ms + decode_ms:10.2f} ms / {one.prompt + one.output:5} tokens"
        )
        if server.speculates and not server.silent and one.proposed:
            accepted = accepted_drafts(one)
            name = "draft acceptance =" if new else "draft acceptance rate ="
            yield say(
                f"{name} {accepted / one.proposed:.5f} ({accepted:5} accepted / {one.proposed:5} generated)"
            )
        yield self.line(
            now,
            f"slot      release: id  {slot} | task {task} | stop processing: n_tokens = {one.ctx - 1}, truncated = 0",
        )

    def death(self, second: float, how: tuple[str, ...]) -> Iterator[str]:
        yield from how


# Beside the log ------------------------------------------------------------------------------------


def accepted_drafts(one: Request) -> int:
    return sum(drafts * steps for drafts, steps in enumerate(one.accepted))


def answers(server: Server) -> list[dict[str, Any]]:
    """The response records of SGLang clients, one a request, under the names of 0.5.12 and later."""
    found = []
    for record in life(server):
        if record.kind != "finished":
            continue
        one, correct = record.facts["request"], accepted_drafts(record.facts["request"])
        row: dict[str, Any] = {
            "id": f"r{one.number}", "finish_reason": {"type": "stop", "matched": 151645}, "prompt_tokens": one.prompt,
            "completion_tokens": one.output, "cached_tokens": one.cached, "e2e_latency": round(record.second - one.sent, 4),
            "num_retractions": one.retractions,
        }  # fmt: skip
        if server.speculates and one.verifies:
            row |= {
                "spec_accept_rate": round(correct / one.proposed, 6) if one.proposed else 0.0,
                "spec_accept_length": one.output / one.verifies,
                "spec_num_correct_drafts": correct, "spec_num_proposed_drafts": one.proposed,
                "spec_verify_ct": one.verifies, "spec_correct_drafts_histogram": one.accepted,
            }  # fmt: skip
        found.append(row)
    return found


def text(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
