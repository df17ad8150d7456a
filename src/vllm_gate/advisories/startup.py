"""Why a server did not come up: from the lines of its log to the cause and the fix."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from vllm_gate.path.lines import parse_line
from vllm_gate.path.scan import Scanner, blocks_of_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupFault:
    """One known way to die while starting. `example` is a line as it really stands in a log."""

    name: str
    pattern: str
    cause: str
    remedy: str
    example: str
    fatal: bool = True
    """Whether the line alone means that the server is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupDiagnosis:
    """What is wrong with a start, and the line that tells. `died` is False where the server may still come up."""

    died: bool
    name: str
    cause: str
    remedy: str
    line: str
    line_number: int


FAULTS: tuple[StartupFault, ...] = (
    StartupFault(
        name="torchcodec_import",
        pattern=r"Could not load libtorchcodec|libnvrtc\.so\.\d+: cannot open shared object file",
        cause="the import of torchcodec failed, which vLLM 0.25.0 needs even for text models: FFmpeg's libraries are "
        "missing, or its wheel was built for another CUDA version",
        remedy="Use vLLM 0.25.1 or later, which imports torchcodec only when a video is decoded; or install FFmpeg "
        "(apt-get install ffmpeg) and a torchcodec wheel for the CUDA version of the image.",
        example="RuntimeError: Could not load libtorchcodec. Likely causes:",
    ),
    StartupFault(
        name="abi_mismatch",
        pattern=r"(?:Failed to import from vllm\._C\w*|ImportError): .*undefined symbol",
        cause="vLLM's compiled extension does not fit the installed torch: a symbol is missing",
        remedy="Install the torch version that this vLLM release was built for, in a fresh environment.",
        example="Failed to import from vllm._C_AVX2: /opt/vllm/_C_AVX2.abi3.so: undefined symbol: _ZNK3c1010TensorImpl",
        fatal=False,
    ),
    StartupFault(
        name="illegal_instruction",
        pattern=r"Fatal Python error: Illegal instruction|Illegal instruction \(core dumped\)",
        cause="the process hit an instruction that this CPU does not have",
        remedy="Use a build for this CPU (AVX2 without AVX-512), or another host.",
        example="Fatal Python error: Illegal instruction",
    ),
    StartupFault(
        name="out_of_gpu_memory",
        pattern=r"not enough GPU memory|torch\.OutOfMemoryError|CUDA out of memory",
        cause="the GPU's memory does not hold the model",
        remedy="Raise --tensor-parallel-size, lower --max-model-len or --gpu-memory-utilization, or free the GPU.",
        example="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ),
    StartupFault(
        name="kv_cache_too_small",
        pattern=r"No available memory for the cache blocks|is larger than the available KV cache memory",
        cause="after the weights, the memory left holds no KV cache for the configured context length",
        remedy="Lower --max-model-len, or raise --gpu-memory-utilization or --tensor-parallel-size.",
        example="ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
    ),
    StartupFault(
        name="weights_mismatch",
        pattern=r"Following weights were not initialized from checkpoint|There is no module or parameter named",
        cause="the checkpoint's weights do not fit the model's architecture",
        remedy="Serve a complete checkpoint of this architecture with a vLLM version that knows it.",
        example="ValueError: Following weights were not initialized from checkpoint: {'lm_head.weight'}",
    ),
    StartupFault(
        name="no_attention_backend",
        pattern=r"No valid attention backend found|Selected backend .+ is not valid for this configuration",
        cause="no attention backend fits the model, its dtypes and this device",
        remedy="Remove --attention-backend or choose another, and check the KV-cache dtype.",
        example="ValueError: Selected backend FLASHINFER is not valid for this configuration. Reason: ['head size']",
    ),
    StartupFault(
        name="no_moe_backend",
        pattern=r"No \w+ MoE backend supports the deployment configuration",
        cause="no backend for the experts fits the quantisation and this device",
        remedy="Use the hardware the quantisation is meant for, or another checkpoint.",
        example="NotImplementedError: No NvFp4 MoE backend supports the deployment configuration.",
    ),
    StartupFault(
        name="port_taken",
        pattern=r"[Aa]ddress already in use",
        cause="another process listens on the port",
        remedy="Stop it (an old vLLM?), or give this server another --port.",
        example="OSError: [Errno 98] Address already in use",
    ),
    StartupFault(
        name="gated_or_missing_model",
        pattern=r"(?:is not a local folder and is not a valid model identifier|GatedRepoError|RepositoryNotFoundError)",
        cause="the model can't be found or may not be downloaded",
        remedy="Check the model's name and path, and the hub token.",
        example="OSError: nvidia/Qwen is not a local folder and is not a valid model identifier listed on the hub",
    ),
    StartupFault(
        name="nan_logits",
        pattern=r"NaNs detected in logits",
        cause="the model computed NaN, and VLLM_RAISE_ON_LOGIT_NANS stopped the engine",
        remedy="Do not release: look for dtype mismatches and fused kernels in the execution path.",
        example="RuntimeError: NaNs detected in logits: {'chatcmpl-1': 1}",
    ),
    StartupFault(
        name="engine_died",
        pattern=r"Engine core initialization failed|EngineCore failed to start|WorkerProc failed to start",
        cause="the engine process died while starting",
        remedy="Read the traceback above this line: the last error of the engine or a worker is the cause.",
        example="RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ),
)
"""Known causes, the most telling first: a dying engine also says `engine_died`, which explains nothing."""

_SCANNER = Scanner(
    (
        "libtorchcodec",
        "libnvrtc",
        "undefined symbol",
        "Illegal instr",
        "not enough GPU",
        "OutOfMemory",
        "out of memory",
        "No available memory",
        "available KV cache",
        "weights were not",
        "no module or",
        "No valid attention",
        "is not valid for",
        "MoE backend supports",
        "ddress already",
        "valid model id",
        "GatedRepo",
        "RepositoryNot",
        "NaNs detected",
        "initialization failed",
        "failed to start",
        "Application startup",
        "Starting vLLM",
        "non-default",
        "Error: ",
        "Exception: ",
        "Interrupt: ",
        "Exit: ",
    )
)
"""Each message of this module holds one of these; only lines that do are taken apart."""
_ANY = re.compile("|".join(f"(?:{fault.pattern})" for fault in FAULTS))
_UP = re.compile(r"Application startup complete|Starting vLLM (?:API )?server|^non-default args:")
_TRACEBACK_END = re.compile(r"^(?:[\w.]+(?:Error|Exception|Interrupt|Exit)): ")


def diagnose_startup(lines: Iterable[str]) -> StartupDiagnosis | None:
    """The most telling fault of a log; None when nothing in it looks like a failed start.

    A server that came up after the line has not died of it: a restart writes into the same log.
    """
    found: dict[str, tuple[str, int]] = {}
    last_error = ("", 0)
    for number, line in _SCANNER.lines(blocks_of_lines(lines)):
        text = parse_line(line).text
        if _UP.search(text):
            found, last_error = {}, ("", 0)
        elif _ANY.search(text):
            for fault in FAULTS:
                if re.search(fault.pattern, text):
                    found.setdefault(fault.name, (line.strip()[:1000], number))
        if _TRACEBACK_END.match(text):
            last_error = (line.strip()[:1000], number)
    died = any(fault.name in found and fault.fatal for fault in FAULTS)
    most_telling = next((fault for fault in FAULTS if fault.name in found), None)
    if most_telling is None:
        return _unknown(*last_error)
    line, number = found[most_telling.name]
    return StartupDiagnosis(
        died=died,
        name=most_telling.name,
        cause=most_telling.cause,
        remedy=most_telling.remedy,
        line=line,
        line_number=number,
    )


def _unknown(line: str, number: int) -> StartupDiagnosis | None:
    """An uncaught exception that no row explains: not proof of a death, but worth showing."""
    if not line:
        return None
    return StartupDiagnosis(
        died=False,
        name="unknown_error",
        cause=f"the log holds an error: {parse_line(line).text[:200]}",
        remedy="Read the traceback above this line.",
        line=line,
        line_number=number,
    )
