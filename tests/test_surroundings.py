"""What a server dies of that is no fault of its own, in its own words and in those of the system."""

from __future__ import annotations

import pytest
from test_deaths import (
    CAPTURE,
    CRASHED,
    DECODED,
    ENDED,
    INIT,
    LLAMA,
    STARTED,
    VERIFY,
    VLLM,
    sglang,
    vllm,
)

UVICORN = "INFO:     Application startup complete.\nERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use\nINFO:     Waiting for application shutdown.\n"
STARTING = sglang("", ready=False).partition("[2026-03-14 10:20:02")[0]
SERVING = sglang("", decoded=True).partition("[2026-03-14 10:20:02")[0]
GONE = "[2026-03-14 10:20:02] Subprocess scheduler_0 (pid=812) crashed with exit code -9. Triggering SIGQUIT for cleanup...\n"
OOM_KILLED = "[Sat Mar 14 10:20:02 2026] Out of memory: Killed process 812 ({}) total-vm:131072000kB, anon-rss:120000000kB\n"
XID = "[Sat Mar 14 10:20:02 2026] NVRM: Xid (PCI:0000:18:00): {}, pid=812, name=python3, {}\n"
LAUNCH_FAILED = "torch.AcceleratorError: CUDA error: unspecified launch failure"
SYSTEMD = "Mar 14 10:19:00 gpu01 llama-server[812]: "
UNIT = "Mar 14 10:21:07 gpu01 systemd[1]: llama-server.service: "
DRAFTER = ("speculative/eagle_worker", "__init__")
FC = [*CAPTURE, ("models/llama_eagle3", "forward")]
V0 = "INFO 02-03 09:20:01 metrics.py:455] Avg prompt throughput: 20.0 tokens/s, Avg generation throughput: 88.5 tokens/s, Running: 3 reqs, Swapped: 0 reqs, Pending: 1 reqs, GPU KV cache usage: 25.0%, CPU KV cache usage: 0.0%.\n"
BUILD = "build: 5890 (0b885577) with cc 13.3.0 for x86_64-linux-gnu\n"
GAVE_UP = "srv    load_model: failed to load model, 'target.gguf'\nmain: exiting due to model loading error\n"


def refused(config, told):
    """What vLLM's front end prints of an option that it does not take."""
    return (
        VLLM.partition("(EngineCore")[0]
        + f"(APIServer pid=71) pydantic_core._pydantic_core.ValidationError: 1 validation error for {config}\n"
        + f"{told}\n(APIServer pid=71)     For further information visit https://errors.pydantic.dev/2.12/v/value_error\n"
    )


def journal(text):
    return "".join(f"{SYSTEMD}{line}\n" for line in text.splitlines())


DEATHS = {
    "a port that is taken": ("start_failed", STARTING + UVICORN, "the port is taken"),
    "a port that vLLM takes after it says that it is ready": ("start_failed", VLLM + UVICORN, "the port is taken"),
    "a port that llama.cpp cannot bind": (
        "start_failed",
        BUILD + "main: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080\n",
        "port: 8080",
    ),
    "a gated target": (
        "start_failed",
        sglang("OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/a/target.", [("model_executor/model_runner", "load_model")], ready=False),
        "the hub refuses access",
    ),
    "a gated drafter": (
        "draft_does_not_match",
        sglang("OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/a/draft.", [DRAFTER], ready=False),
        "gated repo",
    ),
    "shared memory that is too small for NCCL": (
        "start_failed",
        STARTING + "gpu01:812:900 [1] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-AbCdEf to 9637892 bytes\n"
        + sglang("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", ready=False).removeprefix(STARTING),
        "NCCL warned: Error: failed to extend /dev/shm/nccl-AbCdEf",
    ),
    "a GPU that fell off the bus": (
        "server_died",
        SERVING + XID.format(79, "GPU has fallen off the bus.") + sglang(LAUNCH_FAILED, [VERIFY], decoded=True).removeprefix(SERVING),
        "the GPU failed (Xid (PCI:0000:18:00): 79",
    ),
    "a scheduler that the kernel killed": ("out_of_memory_serving", SERVING + GONE + ENDED + OOM_KILLED.format("sglang::schedul"), "the kernel killed a process"),
    "an engine that the kernel killed in its start": ("out_of_memory_at_start", VLLM + OOM_KILLED.format("VLLM::EngineCor"), "the host ran out of memory"),
    "a unit that the kernel killed": (
        "out_of_memory_serving",
        journal(LLAMA) + UNIT + "A process of this unit has been killed by the OOM killer.\n" + UNIT + "Main process exited, code=killed, status=9/KILL\n",
        "the kernel killed a process",
    ),
    "a unit that crashed": ("server_died", journal(LLAMA) + UNIT + "Main process exited, code=dumped, status=11/SEGV\n", "Segmentation fault"),
    "a head that drafts by twos": (
        "combination_unsupported",
        refused("SpeculativeConfig", "(APIServer pid=71)   Value error, num_speculative_tokens:3 must be divisible by n_predict=2 [type=value_error, input_value=ArgsKwargs((), {'method': 'mtp'}), input_type=ArgsKwargs]"),
        "must be divisible by n_predict=2",
    ),
    "a method that is none": (
        "combination_unsupported",
        refused("SpeculativeConfig", "(APIServer pid=71) method\n(APIServer pid=71)   Input should be 'ngram', 'eagle' or 'mtp' [type=literal_error, input_value='eagle2', input_type=str]"),
        "input_value='eagle2'",
    ),
    "adapters and a drafter": (
        "combination_unsupported",
        sglang("ValueError: Currently LoRA is only compatible with NGRAM speculative decoding.", ready=False),
        "LoRA",
    ),
    "a quantised cache without flash attention": (
        "combination_unsupported",
        BUILD + "llama_init_from_model: failed to initialize the context: quantized V cache was requested, but this requires Flash Attention\n" + GAVE_UP,
        "requires Flash Attention",
    ),
    "pictures and a drafter": (
        "combination_unsupported",
        BUILD + "srv    load_model: err: speculative decode is not supported by multimodal\nmain: exiting due to model loading error\n",
        "multimodal",
    ),
    "a drafter for a wider target": (
        "draft_does_not_match",
        sglang("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x12288 and 15360x5120)", FC, ready=False),
        "4x12288 and 15360x5120",
    ),
    "two vocabularies in V0": (
        "draft_does_not_match",
        VLLM + 'Traceback (most recent call last):\n  File "/app/vllm/spec_decode/spec_decode_worker.py", line 335, in init_device\n  File "/app/vllm/spec_decode/spec_decode_worker.py", line 1210, in _vocab_size\nAssertionError\n',
        "spec_decode_worker.py:_vocab_size",
    ),
    "a drafter with a short context": (
        "draft_does_not_match",
        sglang("ValueError: User-specified context_length (131072) is greater than the derived context_length (2048).", [DRAFTER, ("configs/model_config", "__init__")], ready=False),
        "(2048)",
    ),
    "a context that the pool of V0 does not hold": (
        "out_of_memory_at_start",
        vllm("ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (41712). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`."),
        "no room for the KV cache",
    ),
    "a card of Vulkan that is full": (
        "out_of_memory_at_start",
        BUILD + "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\nllama_model_load: error loading model: unable to allocate Vulkan0 buffer\n" + GAVE_UP,
        "ErrorOutOfDeviceMemory",
    ),
    "GPUs that the process does not see": ("start_failed", sglang("RuntimeError: No CUDA GPUs are available", ready=False), "does not see the GPUs"),
    "heads that cannot be split": ("start_failed", sglang("AssertionError: 28 is not divisible by 8", [("models/qwen2", "__init__")], ready=False), "cannot be split over so many ranks"),
    "a compiler that a library finds too old": ("compiler_too_old", sglang("AssertionError: NVCC version 12.2 is too old, at least 12.3 is required", ready=False), "at least 12.3"),
    "a backend that is refused while the drafter loads": (
        "combination_unsupported",
        vllm('  File "/app/vllm/v1/spec_decode/eagle.py", line 12, in load_model', "NotImplementedError: FlashMLA does not support speculative decoding with fp8 KV cache"),
        "FlashMLA",
    ),
    "layers of a drafter in two groups": ("combination_unsupported", vllm("AssertionError: All drafting layers should belong to the same kv cache group"), "same kv cache group"),
    "an engine that somebody killed": (
        "start_failed",
        VLLM + "(APIServer pid=71) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': -9}\n",
        "somebody killed the engine",
    ),
    "a child of which nothing is known": ("peer_lost", SERVING + ENDED, "nothing here says of what"),
    "a worker of V0 that is gone": (
        "peer_lost",
        V0 + "ERROR 02-03 09:20:07 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 812 died, exit code: -9\nCRITICAL 02-03 09:20:09 launcher.py:99] MQLLMEngine is already dead, terminating server process\n",
        "pid 812 died",
    ),
    "the end of a log in which no token comes any more": (
        "server_hung",
        V0 + "".join(V0.replace("09:20:01", f"09:{20 + n}:01").replace("88.5", "0.0").replace("20.0 tokens", "0.0 tokens") for n in range(1, 25)),
        "24 windows without a token",
    ),
    "an option that the worker cannot bring into line": (
        "combination_unsupported",
        vllm("RuntimeError: Worker failed with error 'Can't determine cudagraph shapes that are both a multiple of 3 (num_speculative_tokens + 1) required by spec-decode and 4 (tensor_parallel_size) required by sequence parallelism please adjust num_speculative_tokens or disable sequence parallelism', please check the stack trace above for the root cause"),
        "a multiple of 3",
    ),
    "a drafter that is split in another way": (
        "combination_unsupported",
        refused("SpeculativeConfig", "(APIServer pid=71)   Value error, speculative_draft_tensor_parallel_size=4 cannot be other value than 1 or target model tensor_parallel_size [type=value_error, input_value={}, input_type=dict]"),
        "cannot be other value than 1 or target model tensor_parallel_size",
    ),
    "features of another width": (
        "draft_does_not_match",
        vllm('  File "/app/vllm/v1/worker/gpu_model_runner.py", line 12, in _dummy_run', '  File "/app/vllm/v1/spec_decode/eagle.py", line 12, in set_inputs_first_pass', "RuntimeError: The expanded size of the tensor (1024) must match the existing size (4096) at non-singleton dimension 1.  Target sizes: [5, 1024].  Tensor sizes: [5, 4096]"),
        "(1024) must match the existing size (4096)",
    ),
    "an error that only the parent tells of": (
        "server_died",
        vllm("RuntimeError: Worker failed with error 'PP+async expects sampled_token_ids to have shape [num_reqs, 1]', please check the stack trace above for the root cause", ready=True)
        + "(APIServer pid=71) ERROR 07-20 09:10:40 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n",
        "PP+async expects",
    ),
    "a check of the C++ library": (
        "server_died",
        LLAMA + "/usr/include/c++/16/bits/stl_vector.h:1282: std::vector<int>::operator[](size_type): Assertion '__n < this->size()' failed.\nAborted (core dumped)\n",
        "stl_vector.h:1282",
    ),
    "an end without a word": ("server_died", LLAMA + "Aborted (core dumped)\n", "core dumped"),
    "a hub that does not answer": (
        "start_failed",
        sglang("requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out. (read timeout=10)", ready=False),
        "the hub cannot be reached",
    ),
    "nodes that did not come": (
        "start_failed",
        sglang("torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 8/16 clients joined.", ready=False),
        "not all nodes or ranks came",
    ),
}  # fmt: skip
# The same words, and another cause or none.
OTHERS = {
    "a process of somebody else": ("out_of_memory_serving", SERVING + DECODED + OOM_KILLED.format("chrome")),
    "a prompt about a killed process": (
        "out_of_memory_serving",
        SERVING + "[2026-03-14 10:20:02] Receive: obj=GenerateReqInput(rid='1', text='Out of memory: Killed process 812 (python3)', sampling_params={})\n",
    ),
    "a prompt about a dead worker": ("peer_lost", V0 + "INFO 02-03 09:20:07 logger.py:37] Received request 1: prompt: 'Worker VllmWorkerProcess pid 812 died', params: SamplingParams(n=1)\n"),
    "a request with an option that is none": (
        "start_failed",
        VLLM + STARTED + "(APIServer pid=71) ERROR 07-20 09:20:31 [serving_chat.py:300]   Input should be less than or equal to 2 [type=less_than_equal, input_value=3, input_type=int]\n",
    ),
    "a fault of a kernel in the driver's words": (
        "server_died",
        SERVING + XID.format(31, "MMU Fault: ENGINE GRAPHICS") + CRASHED.format(rank=0) + LAUNCH_FAILED + "\n" + ENDED,
    ),
    "a context that was tried while memory was measured": (
        "start_failed",
        BUILD + "llama_init_from_model: failed to initialize the context: the assistant requires ctx_other to be set (this warning is normal during memory fitting)\n" + LLAMA.partition("\n")[2],
    ),
    "a target without drafts that cannot have any": (
        "speculation_never_engages",
        BUILD + "srv    load_model: speculative decoding not supported by this context\n" + LLAMA.partition("\n")[2]
        + "".join(f"0.{n}.000.000 I slot print_timing: id  0 | task {n} |        eval time =    4000.00 ms /   200 tokens (   20.00 ms per token,    50.00 tokens per second)\n" for n in range(30, 40)),
    ),
    "a child that its user stopped": (
        "peer_lost",
        SERVING + "[2026-03-14 10:20:02] SIGTERM received. Draining requests and shutting down...\n" + ENDED,
    ),
    "a product of other widths in the target": (
        "draft_does_not_match",
        sglang("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x12288 and 15360x5120)", [INIT, ("models/llama", "forward")], ready=False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", DEATHS)
def test_what_surrounds_a_server_is_named(how, tmp_path, diagnose):
    rule, text, figure = DEATHS[how]
    path = tmp_path / "server.log"
    path.write_text(text, encoding="utf-8")
    first = [one for one in diagnose(path).findings if one.explained_by is None]
    assert [(one.rule.name, one.severity) for one in first] == [(rule, "critical")]
    assert figure in first[0].message


@pytest.mark.parametrize("how", OTHERS)
def test_the_same_words_of_another_cause(how, tmp_path, diagnose):
    rule, text = OTHERS[how]
    path = tmp_path / "server.log"
    path.write_text(text, encoding="utf-8")
    found = [one.rule.name for one in diagnose(path).findings if one.explained_by is None]
    assert rule not in found


def test_drafts_that_the_context_does_not_allow_are_said_where_they_were_asked_for(
    tmp_path, diagnose
):
    asked = (
        "0.00.100.000 I srv   llama_server: argv: llama-server -m target.gguf -md drafter.gguf\n"
    )
    rule, text = OTHERS["a target without drafts that cannot have any"]
    path = tmp_path / "server.log"
    path.write_text(text.replace(BUILD, BUILD + asked), encoding="utf-8")
    (found,) = diagnose(path).findings
    assert found.rule.name == rule
    assert "speculative decoding not supported by this context" in found.message
