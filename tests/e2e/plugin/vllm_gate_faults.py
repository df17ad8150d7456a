"""A vLLM general plugin that puts real faults back, chosen by the environment variable VLLM_GATE_FAULT.

`fp32_as_bf16`: the fused add + RMSNorm that follows an all-reduce reads its FP32 weights as BF16, as vLLM 0.25.0
    could with Gemma-style norms. Like there, nothing is wrong where TP = 1.
`noise:X`: every RMSNorm output is off by a relative normal error of X, as from a bad kernel or quantisation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps

import torch

Output = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


def register() -> None:
    """Called by vLLM in each of its processes."""
    fault, _, argument = os.environ.get("VLLM_GATE_FAULT", "").partition(":")
    if not fault:
        return
    from vllm.model_executor.layers.layernorm import RMSNorm

    wrap = {"fp32_as_bf16": _fp32_as_bf16, "noise": _noise}[fault]
    RMSNorm.forward = wraps(RMSNorm.forward)(wrap(RMSNorm.forward, argument))


def _fp32_as_bf16(healthy: Callable[..., Output], _: str) -> Callable[..., Output]:
    from vllm.distributed import get_tensor_model_parallel_world_size

    @cache
    def misread(weight: torch.Tensor) -> torch.Tensor:
        # A trained FP32 weight uses all of its bits; one that was rounded to BF16 has zeros there, so they are filled.
        lost_bits = torch.rand(weight.shape, generator=torch.Generator().manual_seed(0)) * 2**-9
        fp32 = weight.detach().float() * (1 + lost_bits)
        return fp32.view(torch.bfloat16)[: weight.numel()]

    def forward(self: torch.nn.Module, x: torch.Tensor, residual: torch.Tensor | None = None) -> Output:
        if residual is None or get_tensor_model_parallel_world_size() == 1:
            return healthy(self, x, residual)
        hidden = x.float() + residual.float()
        scale = torch.rsqrt(hidden.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return (hidden * scale).to(x.dtype) * misread(self.weight), hidden.to(x.dtype)

    return forward


def _noise(healthy: Callable[..., Output], argument: str) -> Callable[..., Output]:
    relative = float(argument)

    def forward(self: torch.nn.Module, x: torch.Tensor, residual: torch.Tensor | None = None) -> Output:
        normed, *rest = output if isinstance(output := healthy(self, x, residual), tuple) else (output,)
        noisy = normed * (1 + relative * torch.randn_like(normed))
        return (noisy, *rest) if rest else noisy

    return forward
