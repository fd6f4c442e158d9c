"""What a server died of, as people paste it: the finding that explains all others."""

from __future__ import annotations

import pytest

SGLANG = """\
[2026-03-14 10:19:40] server_args=ServerArgs(model_path='a/target', attention_backend='fa3', {args}speculative_algorithm='{algorithm}', speculative_draft_model_path='a/draft', speculative_num_draft_tokens={width})
[2026-03-14 10:19:50 TP0] Load weight end. elapsed=8.00 s, type=LlamaForCausalLM, avail mem=60.00 GB, mem usage=15.00 GB.
"""
READY = "[2026-03-14 10:20:00] The server is fired up and ready to roll!\n"
DECODED = "[2026-03-14 10:20:01 TP0] Decode batch, #running-req: 6, #token: 1920, token usage: 0.94, accept len: 2.10, accept rate: 0.37, cuda graph: True, gen throughput (token/s): 900.00, #queue-req: 5\n"
CRASHED = "[2026-03-14 10:20:02 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):\n"
FRAME = '  File "/app/sglang/srt/{place}.py", line 12, in {function}\n'
ENDED = "[2026-03-14 10:20:03] Received sigquit from a child process. It usually means the child failed.\n"
INIT, LOOP = ("managers/scheduler", "__init__"), ("managers/scheduler", "event_loop_overlap")
VERIFY = ("speculative/eagle_worker", "verify")
CAPTURE = [("speculative/dflash_worker", "init_cuda_graphs"), ("model_executor/cuda_graph_runner", "capture")]  # fmt: skip

VLLM = """\
(APIServer pid=71) INFO 07-20 09:10:01 [utils.py:233] non-default args: {'model': 'a/target', 'speculative_config': {'method': 'eagle3', 'model': 'a/draft', 'num_speculative_tokens': 3}}
(EngineCore pid=90) INFO 07-20 09:10:20 [core.py:133] Initializing a V1 LLM engine (v0.31.1) with config: model='a/target'
"""
STARTED = "(APIServer pid=71) INFO:     Application startup complete.\n"
FAILED = "(EngineCore pid=90) ERROR 07-20 09:10:40 [core.py:1102] "
GIVEN_UP = "(APIServer pid=71) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"

LLAMA = """\
0.00.031.001 I main: build: 10217 (11849f2) with GNU 16.1.1 for Linux x86_64
0.12.000.100 I srv    load_model: speculative decoding context initialized
0.12.000.200 I main: server is listening on http://0.0.0.0:8050
0.20.000.000 I slot launch_slot_: id  0 | task 7 | processing task, is_child = 0
0.21.000.000 I slot print_timing: id  0 | task 7 | prompt eval time =     312.10 ms /   474 tokens (    0.66 ms per token,  1518.74 tokens per second)
"""

BUILD = """\
[  1%] Linking CXX shared library ../../bin/libggml-base.so
[  2%] Building CUDA object ggml/src/ggml-cuda/CMakeFiles/ggml-cuda.dir/acc.cu.o
nvcc fatal   : Unsupported gpu architecture 'compute_120a'
gmake[2]: *** [ggml/src/ggml-cuda/CMakeFiles/ggml-cuda.dir/build.make:188: acc.cu.o] Error 1
gmake: *** [Makefile:146: all] Error 2
u@h:~/llama.cpp$ nvcc --version
Cuda compilation tools, release 12.0, V12.0.140
"""


def sglang(message, frames=(), *, ready=True, decoded=False, algorithm="EAGLE3", width=4, args=""):
    """A log in which two ranks die of the same."""
    frames = [INIT, *frames] if not ready else [LOOP, *frames]
    trace = "".join(FRAME.format(place=place, function=name) for place, name in frames)
    died = "".join(CRASHED.format(rank=rank) + trace + message + "\n\n" for rank in (0, 1))
    start = SGLANG.format(algorithm=algorithm, width=width, args=args)
    return start + READY * ready + DECODED * decoded + died + ENDED


def vllm(*messages, ready=False):
    """A log of which the engine's part is told line by line."""
    how = "encountered a fatal error" if ready else "failed to start"
    lines = [f"EngineCore {how}.", "Traceback (most recent call last):", *messages]
    return VLLM + STARTED * ready + "".join(f"{FAILED}{line}\n" for line in lines) + GIVEN_UP


DEATHS = {
    "a leak whose figures stand on its own line": (
        "pool_leak",
        sglang(
            "ValueError: token_to_kv_pool_allocator memory leak detected! self.max_total_num_tokens=270331, available_size=644, evictable_size=269628, protected_size=0",
            [("managers/scheduler_runtime_checker_mixin", "self_check_during_idle")],
        ),
        "59 are lost",
    ),
    "a pool that one request fills": (
        "out_of_memory_serving",
        sglang(
            "AssertionError: No space left for only one request, self.token_to_kv_pool_allocator.available_size()=0",
            [("managers/schedule_batch", "retract_decode")], decoded=True,
        ),
        "no free slots",
    ),
    "fewer state blocks than requests": (
        "out_of_memory_at_start",
        vllm("ValueError: max_num_seqs (256) exceeds the number of available Mamba cache blocks (161)."),
        "running limit",
    ),
    "a kernel library that does not know the architecture": (
        "kernel_missing_for_gpu",
        sglang("RuntimeError: Assertion error (/deepgemm/csrc/apis/attention.hpp:219): Unsupported architecture", [VERIFY]),
        "deepgemm has no kernel",
    ),
    "a runner of another library": (
        "kernel_missing_for_gpu",
        sglang("tvm.error.InternalError: Error in function 'TllmGenFmhaRunner' at /flashinfer/fmhaRunner.cuh:37: Unsupported architecture", [VERIFY]),
        "TllmGenFmhaRunner has no kernel",
    ),
    "a compiler of vLLM": (
        "compiler_too_old",
        vllm("RuntimeError: Ninja build failed. Ninja output:", "nvcc fatal   : Unsupported gpu architecture 'compute_100a'", "ninja: build stopped: subcommand failed."),
        "compute_100a",
    ),
    "the build of llama.cpp": ("compiler_too_old", BUILD, "Installed: cuda-nvcc 12.0"),
    "a part that could not be imported and is missed later": (
        "binary_mismatch",
        "WARNING 06-13 11:42:20 _custom_ops.py:11] Failed to import from vllm._C with ImportError('/opt/vllm/_C.abi3.so: undefined symbol: _ZN5torch7LibraryC1ENS0_4KindE')\n"
        + vllm("AttributeError: '_OpNamespace' '_C' object has no attribute 'silu_and_mul'"),
        "torch namespace",
    ),
    "another torch, as the report of the environment says": (
        "binary_mismatch",
        sglang("ImportError: /opt/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c106ivalue14ConstantString6createE", ready=False)
        + "$ python3 -m sglang.check_env\nCUDA available: True\nNVCC: Cuda compilation tools, release 12.4, V12.4.99\nPyTorch: 2.6.0+cu124\nflashinfer_python: 0.2.3+cu121torch2.5\n",
        "the installed 2.6.0+cu124; the CUDA suffixes of the packages differ (cu121, cu124)",
    ),
    "an import that fails before the first record, in a container": (
        "module_missing",
        "".join(
            f"llm-1  | {line}\n" for line in (
                "Traceback (most recent call last):",
                '  File "/app/sglang/launch_server.py", line 6, in <module>',
                "    from sglang.srt.server import launch_server",
                '  File "/app/sglang/srt/constrained/xgrammar_backend.py", line 22, in <module>',
                "    from xgrammar import (",
                "ImportError: cannot import name 'CachedGrammarCompiler' from 'xgrammar' (/app/xgrammar/__init__.py)",
            )
        ) + "llm-1 exited with code 1\n",
        "CachedGrammarCompiler",
    ),
    "an import that the first request makes": (
        "module_missing",
        sglang("ModuleNotFoundError: No module named 'deep_ep'", [("speculative/eagle_worker", "verify")]),
        "the server died because there is no module named deep_ep",
    ),
    "an interface that the first draft looks up": (
        "module_missing",
        vllm("AttributeError: module 'flashinfer' has no attribute 'batch_decode'"),
        "flashinfer has no batch_decode",
    ),
    "a drafter's configuration": (
        "draft_does_not_match",
        sglang("ValueError: the DFLASH draft config has no target_layer_ids", [("speculative/dflash_worker", "__init__")], ready=False, algorithm="DFLASH"),
        "a/draft",
    ),
    "a quantised head": (
        "combination_unsupported",
        sglang("RuntimeError: DFlash2 selector requires a dense FP16/BF16/FP32 target lm_head.", [("models/dflash2", "select_candidates")], algorithm="DFLASH", args="quantization='modelopt_fp4', "),
        "quantization modelopt_fp4",
    ),
    "a backend without a part for verification": (
        "combination_unsupported",
        sglang("AttributeError: 'FlashMLABackend' object has no attribute 'init_forward_metadata_target_verify'", [VERIFY]),
        "FlashMLABackend",
    ),
    "a pipeline stage without the drafter": (
        "combination_unsupported",
        vllm("AttributeError: 'GPUModelRunner' object has no attribute 'drafter'", ready=True),
        "drafter",
    ),
    "a width that is no power of two": (
        "combination_unsupported",
        sglang("ValueError: arange's range must be a power of 2", [VERIFY], width=3),
        "3 drafted tokens",
    ),
    "a width that the quantisation blames on its input": (
        "combination_unsupported",
        sglang("RuntimeError: Check failed: (input.IsContiguous()) is false: input must be contiguous", [*CAPTURE, ("layers/quantization/fp4_utils", "quantize")], ready=False, algorithm="DFLASH", width=2),
        "2 drafted tokens",
    ),
    "an engine that refuses drafts": (
        "combination_unsupported",
        vllm("NotImplementedError: FlashMLA with fp8 KV cache does not support speculative decoding (query length 4)", ready=True),
        "FlashMLA",
    ),
    "a kernel library none of whose variants loads, said in many lines": (
        "binary_mismatch",
        """\
Traceback (most recent call last):
  File "/opt/sgl_kernel/__init__.py", line 5, in <module>
    common_ops = _load_architecture_specific_ops()
  File "/opt/sgl_kernel/load_utils.py", line 188, in _load_architecture_specific_ops
    raise ImportError(error_msg)
ImportError: 
[sgl_kernel] CRITICAL: Could not load any common_ops library!

Error details from previous import attempts:
- ImportError: /opt/sgl_kernel/sm90/common_ops.abi3.so: undefined symbol: _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib
- ModuleNotFoundError: No module named 'common_ops'
""",
        "c10 namespace",
    ),
    "a drafter that is not where it should be": (
        "draft_does_not_match",
        vllm("OSError: a/draft is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'"),
        "a/draft",
    ),
    "more shared memory than the GPU has": (
        "kernel_missing_for_gpu",
        vllm("triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376.", ready=True),
        "Required: 131072",
    ),
    "an assertion of V0, which serves in a background task": (
        "speculative_assertion",
        """\
INFO 08-01 21:26:03 metrics.py:406] Avg prompt throughput: 20.0 tokens/s, Avg generation throughput: 88.5 tokens/s, Running: 3 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 25.0%, CPU KV cache usage: 0.0%.
ERROR 08-01 21:27:03 async_llm_engine.py:56] Engine background task failed
ERROR 08-01 21:27:03 async_llm_engine.py:56] Traceback (most recent call last):
ERROR 08-01 21:27:03 async_llm_engine.py:56]   File "/app/vllm/engine/async_llm_engine.py", line 46, in _log_task_completion
ERROR 08-01 21:27:03 async_llm_engine.py:56]   File "/app/vllm/spec_decode/batch_expansion.py", line 88, in score_proposals
ERROR 08-01 21:27:03 async_llm_engine.py:56] IndexError: index 0 is out of bounds for dimension 0 with size 0
""",
        "score_proposals; last report: 3 running",
    ),
    "an assertion in a script that has the engine inside": (
        "speculative_assertion",
        """\
Processed prompts:   0%|          | 0/112 [00:00<?, ?it/s][rank0]: Traceback (most recent call last):
[rank0]:   File "/root/test_vllm.py", line 54, in <module>
[rank0]:     outputs = llm.generate(prompts, sampling_params)
[rank0]:   File "/app/vllm/entrypoints/llm.py", line 1388, in _run_engine
[rank0]:     step_outputs = self.llm_engine.step()
[rank0]:   File "/app/vllm/spec_decode/spec_decode_worker.py", line 611, in _run_speculative_decoding_step
[rank0]:     accepted_token_ids, target_logprobs = self._verify_tokens(
[rank0]:   File "/app/vllm/spec_decode/batch_expansion.py", line 90, in score_proposals
[rank0]:     assert len(spec_expanded) == 3
[rank0]: AssertionError
""",
        "called from spec_decode_worker.py",
    ),
    "an assertion of ggml below which the stack is printed": (
        "speculative_assertion",
        LLAMA + """\
/build/ggml/src/ggml.c:1750: GGML_ASSERT(obj_new) failed
[New LWP 1234]
[Thread debugging using libthread_db enabled]
0x00007f7f5b0d2ab3 in __GI___wait4 (pid=88) at wait4.c:30
#0  0x00007f7f5b0d2ab3 in __GI___wait4 (pid=88) at wait4.c:30
#2  0x00007f7f5b1d2ab3 in ggml_abort () from /app/libggml-base.so
#7  0x00007f7f5b1d2ab3 in llama_decode () from /app/libllama.so
#8  0x00007f7f5b1d2ab3 in common_speculative_impl_draft_mtp::process(llama_batch const&) () from /app/libllama-common.so
#9  0x000055d45b1d2ab3 in server_context_impl::update_slots() ()
[Inferior 1 (process 88) detached]
Aborted (core dumped)
""",
        "in llama_decode",
    ),
}  # fmt: skip
# The same words, and another cause: the rule that they must not lead to.
OTHERS = {
    "a width that served before": (
        "combination_unsupported",
        sglang("ValueError: arange's range must be a power of 2", [VERIFY], width=3, decoded=True),
    ),
    "a usual width": (
        "combination_unsupported",
        sglang("RuntimeError: input must be contiguous", [*CAPTURE, ("layers/quantization/fp4_utils", "quantize")], ready=False, algorithm="DFLASH", width=8),
    ),
    "an attribute that was there at first": (
        "combination_unsupported",
        sglang("AttributeError: 'FlashMLABackend' object has no attribute 'forward_metadata'", [VERIFY], decoded=True),
    ),
    "an assertion of ggml in the target's part": (
        "speculative_assertion",
        LLAMA + """\
/build/ggml/src/ggml.c:1750: GGML_ASSERT(obj_new) failed
#2  0x00007f7f5b1d2ab3 in ggml_abort () from /app/libggml-base.so
#7  0x00007f7f5b1d2ab3 in llama_decode () from /app/libllama.so
#8  0x000055d45b1d2ab3 in server_context_impl::update_slots() ()
Aborted (core dumped)
""",
    ),
    "a client's own exception, printed below the server's log": (
        "server_died",
        sglang("", decoded=True).partition("[2026-03-14 10:20:02")[0] + """\
Traceback (most recent call last):
  File "/root/client.py", line 54, in <module>
    answer = post(url)
  File "/root/client.py", line 12, in post
    return reply.json()["choices"]
KeyError: 'choices'
""",
    ),
    "a target that is not where it should be": (
        "draft_does_not_match",
        vllm("OSError: a/target is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'"),
    ),
    "an import that failed for nobody": (
        "binary_mismatch",
        "WARNING 06-13 11:42:20 _custom_ops.py:11] Failed to import from vllm._C with ImportError('/opt/vllm/_C.abi3.so: undefined symbol: _ZN5torch7LibraryC1ENS0_4KindE')\n"
        + vllm("ValueError: the model's length is too long"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", DEATHS)
def test_one_finding_explains_the_death(how, tmp_path, diagnose):
    rule, text, figure = DEATHS[how]
    path = tmp_path / "server.log"
    path.write_text(text, encoding="utf-8")
    found = diagnose(path).findings
    first = [one for one in found if one.explained_by is None]
    assert [(one.rule.name, one.severity) for one in first] == [(rule, "critical")]
    assert figure in first[0].message


@pytest.mark.parametrize("how", OTHERS)
def test_the_same_words_of_another_cause(how, tmp_path, diagnose):
    rule, text = OTHERS[how]
    path = tmp_path / "server.log"
    path.write_text(text, encoding="utf-8")
    assert rule not in {one.rule.name for one in diagnose(path).findings}


# What was special at the end ---------------------------------------------------------------------

SERVED = """\
(APIServer pid=71) INFO 07-20 09:10:30 [loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 141.0 tokens/s, Running: 5 reqs, Waiting: 0 reqs, GPU KV cache usage: 20.0%, Prefix cache hit rate: 0.0%
(APIServer pid=71) INFO 07-20 09:10:30 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 2.20, Accepted throughput: 77.00 tokens/s, Drafted throughput: 192.00 tokens/s, Accepted: 770 tokens, Drafted: 1920 tokens, Per-position acceptance rate: 0.700, 0.350, 0.150, Avg Draft acceptance rate: 40.1%
"""
DUMPED = "Dumping scheduler output for model execution: SchedulerOutput(scheduled_cached_reqs=CachedRequestData(num_computed_tokens=[41000, 43000]), total_num_scheduled_tokens=12)"


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        (
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
            "illegal_memory_access",
        ),
        ("IndexError: index 17 is out of bounds for dimension 0 with size 16", "speculative_assertion"),
    ],
)  # fmt: skip
def test_a_fault_of_vllm_has_the_acceptance_and_the_context_before_it(
    fault, rule, tmp_path, diagnose
):
    frame = '  File "/app/vllm/v1/spec_decode/eagle.py", line 288, in propose'
    text = vllm(DUMPED, frame, fault, ready=True).replace(STARTED, STARTED + SERVED)
    path = tmp_path / "server.log"
    path.write_text(text, encoding="utf-8")
    (first, *_) = [one for one in diagnose(path).findings if one.explained_by is None]
    assert first.rule.name == rule
    assert "5 running, 42,000 tokens of context, accept length 2.20" in first.message


def test_nan_after_a_prompt_out_of_the_cache_says_so(tmp_path, diagnose):
    prompt = "[2026-03-14 10:20:02 TP0] Prefill batch, #new-seq: 1, #new-token: 210, #cached-token: 8192, token usage: 0.02, #running-req: 2, #queue-req: 0, cuda graph: False, input throughput (token/s): 2000.00\n"
    nan = "[2026-03-14 10:20:03 TP0] Detected errors during sampling! NaN in the logits.\n"
    path = tmp_path / "server.log"
    start = SGLANG.format(algorithm="EAGLE3", width=4, args="") + READY + DECODED
    path.write_text(start + prompt + nan, encoding="utf-8")
    (found,) = [one for one in diagnose(path).findings if one.rule.name == "nan_logits"]
    assert "8,192 tokens of the prompt before the first came from the cache" in found.message
    assert [one.line for one in found.evidence] == [6, 5]


def test_what_follows_from_a_cause_stands_behind_all_causes(tmp_path, diagnose):
    path = tmp_path / "server.log"
    path.write_text(
        DEATHS["an assertion of V0, which serves in a background task"][1], encoding="utf-8"
    )
    assert [one.rule.name for one in diagnose(path).findings] == [
        "speculative_assertion",
        "server_died",
    ]
