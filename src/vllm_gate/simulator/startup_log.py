"""The startup log of a simulated server, line by line as a vLLM on H100s writes it."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.settings import SimulatorSettings

_TIME = "12-01 10:00:00"


def startup_log(settings: SimulatorSettings, faults: Faults) -> Iterator[str]:
    """The lines, ending with the one that says the server is up, or with the reason why it died."""
    if "dies_at_start" in faults:
        yield from _died_importing_torchcodec()
        return
    arguments = {"model_tag": settings.model, "tensor_parallel_size": settings.tp}
    yield _api("api_utils.py:286", f"non-default args: {arguments}")
    yield _api("model.py:733", "Resolved architecture: Qwen3ForCausalLM")
    yield _api("model.py:2152", f"Using max model len {settings.max_model_len}")
    fusions = "norm_quant, act_quant" + (", allreduce_rms" if settings.tp > 1 else "")
    yield _api("compilation.py:317", f"Enabled custom fusions: {fusions}")
    yield _core("core.py:133", _engine_line(settings))
    for rank in range(settings.tp):
        yield from _worker(settings, rank)
    yield _core("core.py:402", "init engine (profile, create kv cache, warmup model) took 21.40 s")
    yield _api("launcher.py:186", "Available routes are:")
    yield "INFO:     Application startup complete."


def _api(source: str, text: str) -> str:
    return f"(APIServer pid=1) INFO {_TIME} [{source}] {text}"


def _core(source: str, text: str) -> str:
    return f"(EngineCore pid=120) INFO {_TIME} [{source}] {text}"


def _engine_line(settings: SimulatorSettings) -> str:
    quantization = settings.quantization or "None"
    return (
        f"Initializing a V1 LLM engine (v{settings.version}) with config: model='{settings.model}', "
        f"speculative_config=None, tokenizer='{settings.model}', skip_tokenizer_init=False, tokenizer_mode=auto, "
        f"revision=None, tokenizer_revision=None, trust_remote_code=False, dtype=torch.bfloat16, "
        f"max_seq_len={settings.max_model_len}, download_dir=None, load_format=auto, "
        f"tensor_parallel_size={settings.tp}, pipeline_parallel_size=1, data_parallel_size=1, "
        f"disable_custom_all_reduce=False, quantization={quantization}, enforce_eager=False, kv_cache_dtype=auto, "
        f"device_config=cuda, seed=0, served_model_name={settings.model}, enable_prefix_caching=True, "
        "enable_chunked_prefill=True, pooler_config=None, "
        "compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, "
        "'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>}"
    )


def _worker(settings: SimulatorSettings, rank: int) -> Iterator[str]:
    name = f"Worker_TP{rank}" if settings.tp > 1 else "Worker"

    def line(source: str, text: str) -> str:
        return f"({name} pid={200 + rank}) INFO {_TIME} [{source}] {text}"

    yield line("gpu_worker.py:518", "Using V2 Model Runner")
    yield line(
        "cuda.py:506", "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN']."
    )
    if settings.quantization == "modelopt_fp4":
        yield line("nvfp4_utils.py:61", "Using FlashInferCutlassNvFp4LinearKernel for NVFP4 GEMM")
    if settings.tp > 1:
        yield line(
            "cuda_communicator.py:245",
            "Using ['FLASHINFER', 'PYNCCL'] all-reduce backends (in dispatch order) for group 'tp:0' out of potential "
            "backends: ['NCCL_SYMM_MEM', 'QUICK_REDUCE', 'FLASHINFER', 'CUSTOM', 'SYMM_MEM', 'PYNCCL'].",
        )
        yield line(
            "flashinfer_all_reduce.py:88",
            "Initialized FlashInfer Allreduce norm quantization fusion workspace with backend=trtllm",
        )
    yield line("default_loader.py:501", "Loading weights took 12.07 seconds")
    yield line("gpu_model_runner.py:5149", "Model loading took 17.2 GiB memory and 14.331 seconds")


def _died_importing_torchcodec() -> Iterator[str]:
    yield "Traceback (most recent call last):"
    yield '  File "/usr/local/bin/vllm", line 10, in <module>'
    yield "    sys.exit(main())"
    yield '  File "/usr/local/lib/python3.12/dist-packages/vllm/multimodal/video.py", line 21, in <module>'
    yield "    from torchcodec.decoders import VideoDecoder"
    yield '  File "/usr/local/lib/python3.12/dist-packages/torchcodec/_internally_replaced_utils.py", line 93, in load'
    yield "    raise RuntimeError("
    yield "RuntimeError: Could not load libtorchcodec. Likely causes:"
    yield "          1. FFmpeg is not properly installed in your environment."
