"""From a log message to a field of the record: one table, one row a message.

Patterns match on the text alone; level and module move between releases. A field whose value may be said several
times (once a rank, once a layer kind) collects every distinct value. `example` is a message as vLLM words it in the
releases named, `near_miss` one that looks alike and must not match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row. `pattern` is searched in the message; group 1 is the value, or `value` where the message has none.

    `many` collects all values as a set; without it a second, different value from the same rank replaces the first.
    """

    field: str
    pattern: str
    example: str
    near_miss: str
    versions: str = "0.11-0.32"
    value: str = ""
    many: bool = False

    def compiled(self) -> re.Pattern[str]:
        """The pattern, ready to search with."""
        return re.compile(self.pattern)


ENGINE_LINE = re.compile(
    r"Initializing a V1 LLM engine \(v(?P<version>[^)]+)\) with config: (?P<config>.*)$", re.DOTALL
)
ENGINE_FIELDS: dict[str, str] = {
    "model": "model",
    "dtype": "dtype_activation",
    "tensor_parallel_size": "parallelism_tp",
    "pipeline_parallel_size": "parallelism_pp",
    "data_parallel_size": "parallelism_dp",
    "quantization": "quantization",
    "enforce_eager": "enforce_eager",
    "kv_cache_dtype": "dtype_kv_cache",
    "device_config": "device",
    "enable_prefix_caching": "prefix_caching",
    "enable_chunked_prefill": "chunked_prefill",
    "speculative_config": "speculative_decoding",
    "disable_custom_all_reduce": "custom_allreduce_disabled",
    "load_format": "load_format",
}
"""Keys of the engine's line to fields of the record."""
COMPILATION = (
    ("compile_mode", re.compile(r"'(?:mode|level)': (?:<CompilationMode\.(\w+): \d+>|(\d+))")),
    ("cudagraph_mode", re.compile(r"'cudagraph_mode': <CUDAGraphMode\.(\w+):")),
)
"""What is read out of `compilation_config` in the engine's line."""

RULES: tuple[Rule, ...] = (
    Rule(
        field="architecture",
        pattern=r"^Resolved architecture: (\w+)",
        example="Resolved architecture: Qwen3ForCausalLM",
        near_miss="Could not find the Resolved architecture: Qwen3ForCausalLM",
    ),
    Rule(
        field="max_model_len",
        pattern=r"^Using max model len (\d+)",
        example="Using max model len 32768",
        near_miss="Using max model length",
    ),
    Rule(
        field="attention_backend",
        pattern=r"^Using (?:AttentionBackendEnum\.)?([A-Z][A-Z0-9_]+) attention backend out of potential backends",
        example="Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN'].",
        near_miss="Using TRITON MoE backend out of potential backends: ['TRITON'].",
        versions="0.16-0.32",
        many=True,
    ),
    Rule(
        field="attention_backend",
        pattern=r"^Using (?:AttentionBackendEnum\.)?([A-Z][A-Z0-9_]*(?:ATTN|ATTENTION|INFER|MLA)[A-Z0-9_]*) backend",
        example="Using FLASH_ATTN backend.",
        near_miss="Using NCCL backend.",
        versions="0.16-0.32",
        many=True,
    ),
    Rule(
        field="attention_backend",
        pattern=r"^Using (Flash Attention|FlashInfer|Triton|FlexAttention) (?:attention )?backend on V1 engine",
        example="Using Flash Attention backend on V1 engine.",
        near_miss="Using Flash Attention backend.",
        versions="0.11",
        many=True,
    ),
    Rule(
        field="flash_attention_version",
        pattern=r"^Using FlashAttention version (\d+)",
        example="Using FlashAttention version 3",
        near_miss="Cannot use FA version 3 with ALiBi, defaulting to FA version 2.",
        versions="0.22-0.32",
    ),
    Rule(
        field="allreduce_backends",
        pattern=r"^Using (\[[^\]]*\]) all-reduce backends \(in dispatch order\) for group 'tp",
        example="Using ['CUSTOM', 'PYNCCL'] all-reduce backends (in dispatch order) for group 'tp:0' out of potential "
        "backends: ['NCCL_SYMM_MEM', 'CUSTOM', 'PYNCCL'].",
        near_miss="Using ['PYNCCL'] all-reduce backends (in dispatch order) for group 'world:0' out of potential "
        "backends: ['PYNCCL'].",
        versions="0.22-0.32",
    ),
    Rule(
        field="allreduce_fusion_backend",
        pattern=r"^Initialized FlashInfer Allreduce norm(?: quantization)? fusion workspace with backend=(\w+)",
        example="Initialized FlashInfer Allreduce norm quantization fusion workspace with backend=trtllm",
        near_miss="Failed to initialize FlashInfer Allreduce norm fusion workspace with backend=trtllm",
        versions="0.22-0.32",
        many=True,
    ),
    Rule(
        field="fusions",
        pattern=r"^Enabled custom fusions: (.+)$",
        example="Enabled custom fusions: norm_quant, act_quant, allreduce_rms",
        near_miss="Disabled custom fusions: norm_quant",
        versions="0.22-0.32",
    ),
    Rule(
        field="fusion_matches",
        pattern=r"^fusion pass matches: (\{.*\})",
        example="fusion pass matches: {'AllReduceFusionPass': 33}",
        near_miss="no fusion pass matches",
        versions="0.22-0.32, DEBUG",
        many=True,
    ),
    Rule(
        field="ir_op_priority",
        pattern=r"^Final IR op priority after setting platform defaults: (.+)$",
        example="Final IR op priority after setting platform defaults: IrOpPriorityConfig(rms_norm=['native'])",
        near_miss="Setting IR op priority for rms_norm to native",
        versions="0.22-0.32",
    ),
    Rule(
        field="linear_kernels",
        pattern=r"^(?:Selected|Using) (\w+(?:Kernel|KernelMM|MM)) for ",
        example="Selected CutlassFP8ScaledMMLinearKernel for ModelOptFp8LinearMethod",
        near_miss="Tried to force CutlassFP8ScaledMMLinearKernel, but the kernel couldn't be implemented",
        versions="0.16-0.32",
        many=True,
    ),
    Rule(
        field="linear_kernels",
        pattern=r"^Using ([\w.-]+) for NVFP4 GEMM",
        example="Using flashinfer-cutlass for NVFP4 GEMM",
        near_miss="NVFP4 GEMM is slow",
        versions="0.16",
        many=True,
    ),
    Rule(
        field="moe_backend",
        pattern=r"^Using '?([\w ]+?)'? [\w ]*MoE (?:LoRA )?backend",
        example="Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend out of potential backends: ['MARLIN'].",
        near_miss="No NvFp4 MoE backend supports the deployment configuration.",
        versions="0.16-0.32",
        many=True,
    ),
    Rule(
        field="model_runner",
        pattern=r"^Using V2 Model Runner",
        value="v2",
        example="Using V2 Model Runner",
        near_miss="Model Runner V2 requires Triton; using the V1 model runner instead.",
        versions="0.16-0.32",
    ),
    Rule(
        field="kv_cache_layout",
        pattern=r"^Using (\w+) KV cache layout",
        example="Using LBHNC KV cache layout.",
        near_miss="KV cache layout is unknown",
        versions="0.16-0.32",
    ),
    Rule(
        field="query_dtypes",
        pattern=r"^FlashInfer resolved query dtypes: (prefill=[\w.]+, decode=[\w.]+)",
        example="FlashInfer resolved query dtypes: prefill=torch.bfloat16, decode=torch.bfloat16, "
        "decode_backend=flashinfer-native, kv_cache_dtype=torch.float8_e4m3fn, arch=sm90",
        near_miss="FlashInfer resolved nothing",
        versions="0.25-0.32",
    ),
    Rule(
        field="dtype_cast",
        pattern=r"^((?:Downcasting|Upcasting|Casting) [\w.]+ to [\w.]+?)\.?$",
        example="Casting torch.bfloat16 to torch.float16.",
        near_miss="Broadcasting torch.bfloat16 to torch.float16.",
    ),
    Rule(
        field="dtype_cast",
        pattern=r"^(Your device .+ doesn't support .+ Falling back to .+ for compatibility)",
        example="Your device Tesla T4 doesn't support torch.bfloat16. Falling back to torch.float16 for compatibility.",
        near_miss="Your device Tesla T4 is old.",
    ),
    Rule(
        field="sampling_defaults",
        pattern=r"[Dd]efault (?:vLLM )?sampling parameters have been overridden by (.+?)\. If this",
        example="Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: "
        "`{'temperature': 0.6}`. If this is not intended, please relaunch vLLM with `--generation-config vllm`.",
        near_miss="Using default sampling parameters from vLLM.",
    ),
    Rule(
        field="cudagraph_override",
        pattern=r"^(CUDAGraphMode\.\w+ is not supported with .+?; setting cudagraph_mode=\w+)",
        example="CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend "
        "FlashInferBackend (support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=PIECEWISE",
        near_miss="CUDAGraphMode.FULL is supported",
        many=True,
    ),
    Rule(
        field="cudagraphs_captured",
        pattern=r"^Graph capturing finished",
        value="yes",
        example="Graph capturing finished in 12 secs, took 0.63 GiB",
        near_miss="Skipping CUDA graph capture. To turn on CUDA graph capture, ensure `cudagraph_mode` was not set",
    ),
    Rule(
        field="batch_invariant",
        pattern=r"^VLLM_BATCH_INVARIANT",
        value="yes",
        example="VLLM_BATCH_INVARIANT is enabled and no attention backend was specified; defaulting to TRITON_ATTN.",
        near_miss="Unknown vLLM environment variable detected: VLLM_BATCH_INVARIANCE",
    ),
    Rule(
        field="nccl_version",
        pattern=r"^vLLM is using nccl==([\d.]+)",
        example="vLLM is using nccl==2.27.5",
        near_miss="nccl==2.27.5 is installed",
    ),
)
"""Every rule. Their fields, and those of the engine's line, are all the fields of a record."""
