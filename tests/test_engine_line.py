"""What vLLM's engine says it runs with is known where nothing else of the start is left."""

from __future__ import annotations

import pytest

HEAD = "(EngineCore_DP0 pid=90) INFO 07-20 09:10:20 [core.py:133] Initializing a V1 LLM engine "
REST = (
    "tokenizer='a/target-8b', skip_tokenizer_init=False, revision=None, dtype=torch.bfloat16, "
    "max_seq_len=65536, download_dir=None, tensor_parallel_size=4, pipeline_parallel_size=1, "
    "quantization=None, enforce_eager=False, kv_cache_dtype=fp8_e4m3, device_config=cuda, "
    "observability_config=ObservabilityConfig(otlp_traces_endpoint=None), seed=0, "
    "compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, 'custom_ops': ['none'], "
    "'cudagraph_mode': <CUDAGraphMode.PIECEWISE: 1>, 'model': 'no/model'}"
)
SERVED = (
    "(APIServer pid=71) INFO 07-20 09:21:30 [loggers.py:271] Engine 000: Avg prompt throughput: "
    "256.0 tokens/s, Avg generation throughput: 640.5 tokens/s, Running: 6 reqs, Waiting: 2 reqs, "
    "GPU KV cache usage: 12.5%, Prefix cache hit rate: 40.0%"
)


def line(speculative):
    return f"{HEAD}(v0.13.0) with config: model='a/target-8b', speculative_config={speculative}, {REST}"


@pytest.mark.parametrize(
    ("speculative", "says"),
    [
        (
            "SpeculativeConfig(method='eagle3', model='a/drafter', num_spec_tokens=3)",
            ("EAGLE3", "a/drafter", 4, True),
        ),
        (
            "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)",
            ("NGRAM", None, 6, True),
        ),
        ("None", ("NONE", None, None, False)),
    ],
)
def test_the_engine_says_what_it_drafts_with(speculative, says, tmp_path, load):
    path = tmp_path / "server.log"
    path.write_text(f"{line(speculative)}\n{SERVED}\n")
    found = load(path)
    (run,) = found.rows("SELECT algorithm, draft_model, draft_tokens, speculates FROM run")
    assert tuple(run.values()) == says
    (run,) = found.rows("SELECT model, version FROM run")
    assert run == {"model": "a/target-8b", "version": "0.13.0"}
    told = {one["key"]: one["value"] for one in found.rows("SELECT key, value FROM config")}
    assert told["max_model_len"] == "65536" and told["tensor_parallel_size"] == "4"
    assert told["dtype"] == "torch.bfloat16" and told["kv_cache_dtype"] == "fp8_e4m3"


def test_what_the_engine_prints_beside_is_no_other_setting(tmp_path, load):
    """One of two like servers was started with more words, the log of the other with the line."""
    arguments = (
        "(APIServer pid=71) INFO 07-20 09:10:01 [utils.py:233] non-default args: {'model': "
        "'a/target-8b', 'max_model_len': 65536, 'kv_cache_dtype': 'fp8_e4m3', "
        "'tensor_parallel_size': 4}"
    )
    for name, first in (("one", arguments), ("other", line("None"))):
        (tmp_path / f"{name}.log").write_text(f"{first}\n{SERVED}\n")
    found = load(tmp_path)
    assert found.rows("SELECT key FROM difference WHERE key <> 'version'") == []
