"""A run and what it leaves behind: a trace of every step, and a log as a server would write it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from specdiag import __version__
from specdiag.ddtree import decode as decoding
from specdiag.ddtree.architecture import LINEAR, Architecture, DraftArchitecture
from specdiag.ddtree.config_json import DRAFTER_CLASS
from specdiag.ddtree.decode import ALGORITHMS, Options, Request, Result
from specdiag.ddtree.drafter import Drafter
from specdiag.ddtree.loop import room_for, width_of
from specdiag.ddtree.pair import BUNDLED, Pair
from specdiag.ddtree.prefix import Prefixes
from specdiag.ddtree.server_log import INTERVAL, ServerLog
from specdiag.ddtree.tally import Tally
from specdiag.ddtree.trace import RunRecord, StepRecord
from specdiag.ddtree.writer import TraceWriter
from specdiag.errors import SpecdiagError, reason

TREE_MODES = ("ddtree", "shadow_linear")
GRAPHS = ("none", "torch_compile")
ATTENTION = "torch_native"  # what servers call scaled_dot_product_attention


class Recording:
    """One run and everything it leaves behind; use it in a `with` block.

    Nothing is written, nor computed for it, where neither `trace` nor `server_log` is named. Their
    folders are made, and the files when the first requests have proved possible. `context` is kept
    with the options in the trace's run record. Requests of a run need different names.

    Raises SpecdiagError for requests and options that do not fit, and when a file cannot be
    written. Files of a run that broke off are readable up to there.
    """

    def __init__(
        self, pair: Pair, options: Options, trace: Path | None = None,
        server_log: Path | None = None, context: Mapping[str, Any] | None = None,
        prefixes: Prefixes | None = None,
    ) -> None:  # fmt: skip
        self.prefixes = prefixes
        self.pair, self.options = pair, options
        self.trace, self.server_log = trace, server_log
        self.context = dict(context or {})
        self.stack = ExitStack()
        self.started = False
        self.writer: TraceWriter | None = None
        self.log: ServerLog | None = None
        self.tallies: dict[str, Tally] = {}

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stack.__exit__(kind, error, traceback)

    def decode(
        self,
        requests: Sequence[Request],
        on_tokens: Callable[[Request, list[int]], None] | None = None,
    ) -> list[Result]:
        """Continue requests together; see `decode.decode`. Later calls belong to the same run."""
        target, drafter = self.pair.target, self.pair.drafter
        if self.trace is None and self.server_log is None:
            return decoding.decode(
                target, drafter, requests, self.options, on_tokens, None, self.prefixes
            )
        decoding.check(target, drafter, requests, self.options)
        if not self.started:
            self._start(requests)
        new = self._new(requests)
        self._announce(requests)

        def received(request: Request, tokens: list[int]) -> None:
            tally = new[request.name]
            if tally.first_token is None:
                hits = self.prefixes.hits if self.prefixes is not None else {}
                if self.log is not None and all(each.first_token is None for each in new.values()):
                    self.log.prefill([len(each.prompt) for each in requests], sum(hits.values()))
                tally.first_token = tokens[0]
                tally.cached = hits.get(request.name, 0)
            tally.tokens += len(tokens)
            if on_tokens is not None:
                on_tokens(request, tokens)

        results = decoding.decode(
            target, drafter, requests, self.options, received, self._step, self.prefixes
        )
        for result in results:
            tally = new[result.request.name]
            if not tally.steps:  # its first token was its last
                self._finish(tally, result.finish)
        return results

    def _start(self, requests: Sequence[Request]) -> None:
        """Make the files and write what comes first. A file that cannot be made leaves no other."""
        self.started = True
        options = self.options
        made = []
        try:
            if self.server_log is not None:
                algorithm = ALGORITHMS[options.mode]
                self.log = self.stack.enter_context(
                    ServerLog(
                        _with_folder(self.server_log, "server log"),
                        None if algorithm == "NONE" else algorithm,
                        self._width(requests),
                        options.budget if options.mode in TREE_MODES else None,
                        options.top_k if options.mode in TREE_MODES else None,
                        options.mode == "shadow_linear",
                        self.pair.target.device.type,
                    )
                )
                made.append(self.server_log)
            if self.trace is not None:
                writer = TraceWriter(_with_folder(self.trace, "trace"))
                self.writer = self.stack.enter_context(writer)
        except SpecdiagError:
            self.stack.close()
            for path in made:
                if path.is_file():  # not a device
                    path.unlink()
            raise
        if self.writer is not None:
            self.writer.write(self._run_record(requests))
        if self.log is not None:
            drafter = self._drafter
            block = drafter.architecture.block_size if drafter is not None else 0
            self.log.start(self._arguments(requests), DRAFTER_CLASS, block)

    def _new(self, requests: Sequence[Request]) -> dict[str, Tally]:
        new = {request.name: Tally(request) for request in requests}
        twice = next((name for name in new if name in self.tallies), None)
        if len(new) < len(requests):
            twice = next(name for name, n in Counter(r.name for r in requests).items() if n > 1)
        if twice is not None:
            raise SpecdiagError(f"two requests of a run are called {twice!r}", self.options.run)
        self.tallies |= new
        return new

    def _announce(self, requests: Sequence[Request]) -> None:
        """The cache that the loop makes for these requests."""
        if self.log is None:
            return
        of, target = self.pair.target.architecture, self.pair.target
        capacity = len(requests) * room_for(requests, self._width(requests))
        if capacity == self.log.capacity:
            return
        layers = sum(each != LINEAR for each in of.layer_types)
        row = 2 * layers * of.num_key_value_heads * of.head_dim * target.dtype.itemsize
        self.log.ready(capacity, len(requests), of.max_position_embeddings, capacity * row)

    def _step(self, record: StepRecord) -> None:
        if self.writer is not None:
            self.writer.write(record)
        if self.log is not None:
            self.log.step(record)
        tally = self.tallies[record.request]
        tally.step(record)
        if record.finish is not None:
            self._finish(tally, record.finish)

    def _finish(self, tally: Tally, finish: str | None) -> None:
        if self.writer is not None:
            self.writer.write(tally.record(self.options, finish))

    # What is said at the start

    @property
    def _drafter(self) -> Drafter | None:
        return None if self.options.mode == "autoregressive" else self.pair.drafter

    def _width(self, requests: Sequence[Request]) -> int:
        return width_of(self._drafter, requests, self.options)

    def _run_record(self, requests: Sequence[Request]) -> RunRecord:
        options, target, drafter = self.options, self.pair.target, self._drafter
        sampled = any(each.sampling.temperature > 0 for each in requests)
        tree = options.mode in TREE_MODES
        record = RunRecord(
            run=options.run, target=_name(self.pair.target_folder), code_version=__version__,
            algorithm=ALGORITHMS[options.mode],
            accept_rule="sample_and_match" if sampled else "greedy",
            budget=options.budget if tree else None, top_k=options.top_k if tree else None,
            depth_bonus=options.depth_bonus if tree else None,
            target_windows=_windows(target.architecture),
            vocab=target.architecture.vocab_size, dtype=_dtype(target.dtype),
            attention_backend=ATTENTION, graph_mode=GRAPHS[options.backend is not None],
            page_size=1, tp_size=1, dp_size=1, overlap=False, stop_ids=sorted(options.stop_ids),
            requested={**_plain(asdict(options)), **self.context},
        )  # fmt: skip
        if drafter is not None:
            of = drafter.architecture
            record.drafter = _name(self.pair.drafter_folder)
            record.block, record.mask_id = of.block_size, of.mask_token_id
            record.draft_vocab = of.draft_vocab_size or of.vocab_size
            record.tap_layers, record.tap_convention = list(drafter.taps), "after_layer"
            record.draft_layers = [_layer(of, at) for at in range(len(of.layer_types))]
            depths = of.block_size - 1
            limit = depths if options.depth_limit is None else min(options.depth_limit, depths)
            record.effective = {"depth_limit": limit, "width": self._width(requests)}
        return record

    def _arguments(self, requests: Sequence[Request]) -> dict[str, Any]:
        """The options under the names of a server's arguments."""
        options, target, drafter = self.options, self.pair.target, self._drafter
        model = _name(self.pair.target_folder)
        values: dict[str, Any] = {
            "model_path": model, "tokenizer_path": model, "tokenizer_mode": "auto",
            "load_format": "safetensors",
            "context_length": target.architecture.max_position_embeddings,
            "dtype": _dtype(target.dtype), "device": target.device.type, "page_size": 1,
            "max_running_requests": len(requests), "tp_size": 1, "pp_size": 1, "dp_size": 1,
            "attention_backend": ATTENTION, "decode_log_interval": INTERVAL, "log_requests": False,
            "disable_radix_cache": self.prefixes is None, "disable_cuda_graph": True,
            "disable_overlap_schedule": True, "enable_torch_compile": options.backend is not None,
            "speculative_algorithm": None,
        }  # fmt: skip
        if drafter is None:
            return values
        values |= {
            "speculative_algorithm": ALGORITHMS[options.mode],
            "speculative_draft_model_path": _name(self.pair.drafter_folder),
            "speculative_num_steps": 1, "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": self._width(requests),
            "speculative_dflash_block_size": drafter.architecture.block_size,
        }  # fmt: skip
        if options.mode in TREE_MODES:
            values |= {
                "speculative_ddtree_budget": options.budget,
                "speculative_ddtree_topk": options.top_k,
                "speculative_ddtree_shadow_linear": options.mode == "shadow_linear",
            }
        return values


def _with_folder(path: Path, what: str) -> Path:
    """The path, with its folder made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecdiagError(
            f"no {what}: {reason(error)}", str(path), "name a file in a folder that can be written"
        ) from None
    return path


def _name(folder: Path | None) -> str:
    """A model as logs name it: the folder as given, a bundled one without its place."""
    if folder is None:
        return ""
    return str(folder.relative_to(BUNDLED) if folder.is_relative_to(BUNDLED) else folder)


def _dtype(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Sets as sorted lists, since JSON has no sets."""
    return {k: sorted(v) if isinstance(v, frozenset) else v for k, v in values.items()}


def _windows(of: Architecture) -> list[int | None]:
    """Of each kind of attention layer, as the end of `window_low` has them."""
    kinds = sorted({*of.layer_types} - {LINEAR})
    return [of.window(of.layer_types.index(kind)) for kind in kinds]


def _layer(of: DraftArchitecture, at: int) -> dict[str, Any]:
    """What a reader needs to know of a draft layer."""
    rope = asdict(of.rope[of.layer_types[at]])
    return {
        "window": of.window(at), "causal": of.causal(at), "head_dim": of.head_dim, "rope": rope,
    }  # fmt: skip
