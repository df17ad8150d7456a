"""Messages in which a server gives up the path it meant to take for another one.

Three kinds: explained by a row of `EXPLAINED` (told, recorded, no reason to block), about something else than how
numbers are computed (`_OTHER`, not recorded), and all the rest, which somebody has to look at and approve.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_gate.path.lines import Message, Speaker

_MOST = 500
"""Distinct fallbacks kept of one log: more are a sign of a broken log, and memory stays flat."""

VOCABULARY: tuple[tuple[str, str], ...] = (
    ("back", r"fall(?:s|ing|en)?[ -]?back|fell back"),
    ("evert", r"revert(?:s|ing|ed) to"),
    ("mulation", r"emulation (?:backend|Triton)|Using \w*Emulation\w*|to emulation"),
    ("noptimi", r"unoptimi[sz]ed"),
    ("force ", r"tried to force"),
    ("defaulting to FA", r"defaulting to FA"),
    ("precluded", r"precluded higher-priority"),
    ("unner instead", r"using the V1 model runner instead"),
    ("no effect", r"has no effect"),
    ("implementation", r"No implementation in priority list|using native implementation"),
    ("fusion", r"fusions?(?: pass)?(?: is| are| will be)? disabled|fusion not enabled|skipping \S+ fusion pass"),
    ("fusion", r"fusion is not supported|fusion might not work"),
    ("isabling ", r"disabling (?:\S* ?Triton|VLLM_TRITON_USE_TD|native MegaMoE|ROCm BF16x3|fuse_)"),
    ("isabled", r"Auto-disabled|(?:allreduce|all-reduce|all reduce|collectives|kernels) (?:is|are|was) disabled"),
    ("isabled", r"HPC \w+(?: \w+)? disabled"),
    ("SymmMem", r"SymmMemCommunicator: .*not (?:available|supported)"),
    ("Failed to", r"Failed to (?:lower|initialize (?:FlashInfer|MiniMax)|compile NCCL|import vendored)"),
    ("eight-only FP", r"Weight-only FP\d compression will be used"),
    ("using auto", r"using automatic selection"),
    ("auto-sel", r"using the auto-selected"),
    ("Overriding with", r"Found incompatible backend.* Overriding with"),
    ("BATCH_INV", r"VLLM_BATCH_INVARIANT (?:overrides|forces)"),
    ("ignored", r"requested activation quantization .* is ignored"),
    ("draft eagerly", r"running the draft eagerly"),
    ("P2P access", r"do not agree on the P2P access"),
    ("Unknown vLLM IR", r"Unknown vLLM IR op"),
)
"""Needle (see `scan`) and pattern of the words with which vLLM says so, 0.11 to 0.32; case does not matter."""

EXPLAINED: tuple[tuple[str, str], ...] = (
    (r"AllReduce fusion pass is disabled for tp_size <= 1", "there is nothing to reduce on one GPU"),
    (r"This is not an error and we will fall back to triton", "a choice for single shapes, made by DeepGEMM's rules"),
    (r"fallback to triton for this specific shape", "a choice for single shapes, made by DeepGEMM's rules"),
    (r"does not support per-request generators", "caused by requests that set a seed"),
    (r"torch\.nn\.functional\.linear \(fallback\)", "the name of the ordinary path on that platform"),
    (r"not supported on more than two PCIe-only GPUs", "GPUs without NVLink have no custom all-reduce"),
    (r"SymmMemCommunicator: ", "one of several all-reduce backends; the record names the ones in use"),
    (r"Custom quick allreduce", "one of several all-reduce backends; the record names the ones in use"),
    (r"Weight-only FP\d compression will be used", "GPUs without such units decompress weights; numbers stay right"),
    (r"doesn't include CPU backend\. Disabling Triton", "CPU builds bring no Triton kernels"),
)
"""Messages with such a word that are as they should be, with the reason why."""

_OTHER = (
    r"^\s|^(?:INFO: +)?[\w.:\[\]-]+ - \"|^(?:Received|Added|Generated|Request) |"  # tracebacks, access lines, prompts
    r"chat template|chat_template|decoder start token|auto-detected fields|raw content|Progress bar|"
    r"standard serialization|ShmTensorArena|to disk loading|memory profiling|NUMA|numactl|memory node|pin_memory|"
    r"Pinned memory|get total memory|device capability from|debug/fallback|resolve revision|unk_token_id|"
    r"cropping=False|expert placement|Falling back to linear\.|safetensors loader|lora_request|sigmoid|browsing|"
    r"model architecture default|--device-ids|MaxSim"
)
_FALLBACKS = tuple((needle, re.compile(pattern, re.IGNORECASE)) for needle, pattern in VOCABULARY)
_ELSE = re.compile(_OTHER)
_VARIABLE = (
    (re.compile(r"Exception: .*|\(original error.*|Reason: .*|\(unavailable reasons: .*", re.DOTALL), ""),
    (re.compile(r"(?:/[\w.@-]+){2,}"), "PATH"),
    (re.compile(r"\b(?:model\.)?layers\.\d+(?:\.\w+)*"), "LAYER"),
    (re.compile(r"\brequest [\w-]*\d[\w-]*"), "request ID"),
    (re.compile(r"0x[0-9a-f]+|\b(?=[a-f-]*\d)[0-9a-f-]{12,}\b"), "ADDRESS"),
    (re.compile(r"(?<![\w.])\d+(?:\.\d+)*(?![\w])"), "N"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """One kind of fallback: `id` stays the same from start to start and between releases with the same wording."""

    id: str
    line: str
    line_number: int
    ranks: tuple[str, ...] = ()
    """The workers that said so; empty where none did. vLLM prints many messages on one rank only."""
    explanation: str = ""
    """Why it needs no approval; "" where it does."""


@dataclass(slots=True)
class _Seen:
    line: str
    line_number: int
    explanation: str
    speakers: set[Speaker] = field(default_factory=set)


class FallbackReader:
    """Collects the distinct fallbacks of a log, the first line of each as its proof."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def read(self, number: int, message: Message) -> None:
        """Take in one message."""
        if not is_fallback(message.text):
            return
        identity = fallback_id(message.text)
        seen = self._seen.get(identity)
        if seen is None:
            if len(self._seen) >= _MOST:
                return
            seen = self._seen[identity] = _Seen(message.text.strip()[:500], number, explanation(message.text))
        if message.speaker:
            seen.speakers.add(message.speaker)

    def found(self, ranks: Mapping[Speaker, str]) -> tuple[Fallback, ...]:
        """Every distinct fallback so far, in the order of the log. `ranks` names the workers among the speakers."""
        return tuple(
            Fallback(
                id=identity,
                line=seen.line,
                line_number=seen.line_number,
                ranks=tuple(sorted({ranks[one] for one in seen.speakers if one in ranks})),
                explanation=seen.explanation,
            )
            for identity, seen in self._seen.items()
        )


def is_fallback(text: str) -> bool:
    """Whether a message says that a way of computing was given up for another, explained or not."""
    said = any(needle in text and pattern.search(text) for needle, pattern in _FALLBACKS)
    return said and not _ELSE.search(text)


def explanation(text: str) -> str:
    """Why a fallback is as it should be; "" for one that nobody has explained."""
    return next((reason for pattern, reason in EXPLAINED if re.search(pattern, text)), "")


def fallback_id(text: str) -> str:
    """The message without what differs from start to start: sizes, paths, layer names, exception texts."""
    for pattern, replacement in _VARIABLE:
        text = pattern.sub(replacement, text)
    return " ".join(text.split()).rstrip(" .")[:200]
