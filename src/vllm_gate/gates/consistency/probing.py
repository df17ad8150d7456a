"""Two quick questions before any comparison: are the numbers numbers, and are the texts the same texts."""

from __future__ import annotations

from functools import partial

from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import answer_evidence, ask_all, request_evidence
from vllm_gate.gates.consistency.tracing import prompts
from vllm_gate.gates.interface import Context
from vllm_gate.judge.nonfinite import SENTINEL
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal, Reply

NAN_REMEDY = (
    "Do not release: the model computes NaN or infinity. Compare with TP=1, switch suspect fusions and kernels off one "
    "at a time (-cc.pass_config.fuse_allreduce_rms=false, another --attention-backend), and look for dtype casts in "
    "the startup log; vllm-gate's report names the request that shows it."
)
_COUNTER = "vllm:corrupted_requests_total"
_ALIGNED_PROMPTS = 16


class NanProbe:
    """One short request for logprobs a prompt: a server that computes NaN can't answer it, or answers nonsense."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = context.under_test

    def finding(self) -> Finding:
        """The first proof of NaN, or how many requests showed none."""
        before = self._corrupted()
        asked = prompts()
        clean, proof = 0, None
        unjudged: list[Answer | CouldNotJudge] = []

        def seen(index: int, result: Answer | CouldNotJudge) -> bool:
            nonlocal clean, proof
            sentence = _proof(result)
            if sentence:
                proof = (asked[index][1], sentence, result)
            elif isinstance(result, Reply):
                clean += 1
            else:
                unjudged.append(result)
            self._context.progress("looking for NaN", clean, len(asked), "requests")
            return proof is not None or len(unjudged) >= 3

        concurrency = self._context.plan.gates.numerical.concurrency
        ask_all([partial(self._ask, text) for _, text in asked], concurrency, seen)
        if proof:
            return self._failure(*proof)
        after = self._corrupted()
        if before is not None and after is not None and after > before:
            return self._counted(after - before)
        if unjudged:
            return Finding(
                check="nan_inf",
                verdict=Verdict.ERROR,
                message=f"requests for logprobs are not answered: {_said(unjudged[0])}",
                evidence=(answer_evidence("what came back", unjudged[0]),),
                remedy="Ask vLLM itself instead of a gateway, or set gate_2_numerical.check_nan_inf to false.",
            )
        counted = "" if before is None else f"; {_COUNTER} did not rise"
        return Finding(
            check="nan_inf",
            verdict=Verdict.PASS,
            message=f"{clean} requests for logprobs hold no NaN and no infinity{counted}",
            samples=clean,
        )

    def _ask(self, text: str) -> Answer:
        return self._service.complete(text, max_tokens=1, logprobs=5)

    def _failure(self, prompt: str, sentence: str, answer: Answer | CouldNotJudge) -> Finding:
        body = {"prompt": prompt, "max_tokens": 1, "logprobs": 5, "temperature": 0}
        return Finding(
            check="nan_inf",
            verdict=Verdict.FAIL,
            symptom="nan_logits",
            message=f"the model computes NaN or infinity: {sentence}",
            evidence=(
                request_evidence(self._service, "completion", body),
                answer_evidence("what came back", answer),
            ),
            location=self._context.plan.where("gate_config.gate_2_numerical.check_nan_inf"),
            remedy=NAN_REMEDY,
        )

    def _counted(self, count: float) -> Finding:
        return Finding(
            check="nan_inf",
            verdict=Verdict.FAIL,
            symptom="nan_logits",
            message=f"the server itself counted NaN logits in {count:.0f} requests ({_COUNTER})",
            measured=count,
            threshold=0.0,
            unit="requests",
            remedy=NAN_REMEDY,
        )

    def _corrupted(self) -> float | None:
        """vLLM's own count; None where it does not count (VLLM_COMPUTE_NANS_IN_LOGITS is off)."""
        try:
            return (self._service.metrics() or {}).get(_COUNTER)
        except CouldNotJudge:
            return None


class AlignmentProbe:
    """Whether both sides turn the same texts into the same token ids."""

    def __init__(self, context: Context, reference: Service) -> None:
        self._context = context
        self._reference = reference

    def finding(self) -> Finding:
        """Prompts through both tokenizers, and the probe through both chat templates."""
        compared, differing = 0, []
        candidate = self._context.under_test
        for prompt_id, text in prompts()[:_ALIGNED_PROMPTS]:
            ours, theirs = candidate.tokenize(text), self._reference.tokenize(text)
            if ours is None or theirs is None:
                break
            compared += 1
            if ours != theirs:
                differing.append(prompt_id)
        probe = [{"role": "user", "content": self._context.plan.gates.golden_prompt.deterministic_probe}]
        ours, theirs = candidate.tokenize_chat(probe), self._reference.tokenize_chat(probe)
        if ours is not None and theirs is not None:
            compared += 1
            if ours != theirs:
                differing.append("the chat template")
        return self._concluded(compared, differing)

    def _concluded(self, compared: int, differing: list[str]) -> Finding:
        if not compared:
            who = f"{self._reference.name} or {self._context.under_test.name}"
            return Finding(check="alignment", verdict=Verdict.SKIPPED, message=f"{who} has no /tokenize to compare")
        if differing:
            return Finding(
                check="alignment",
                verdict=Verdict.FAIL,
                symptom="tokenizer_mismatch",
                message=f"{self._reference.name} and the release tokenise differently: {', '.join(differing[:5])}",
                measured=float(len(differing)),
                threshold=0.0,
                unit="texts",
                samples=compared,
                remedy=(
                    "Serve both with the same tokenizer and chat template (--tokenizer, --tokenizer-revision, "
                    "--chat-template), or take a baseline of the same model. A changed template changes every answer."
                ),
            )
        return Finding(
            check="alignment",
            verdict=Verdict.PASS,
            message=f"{compared} texts have the same token ids on both sides",
            samples=compared,
        )


def _proof(result: Answer | CouldNotJudge) -> str:
    """Why an answer proves broken numbers; "" when it does not."""
    if isinstance(result, Refusal):
        return f"HTTP {result.status}, {result.message!r}" if result.says_nonfinite else ""
    if not isinstance(result, Reply):
        return ""
    if result.nonfinite:
        return f"{result.nonfinite} numbers of the answer are not finite"
    for position in result.logprobs or ():
        best = max(position.top.values(), default=position.logprob)
        if (position.logprob is not None and position.logprob <= SENTINEL) or (best is not None and best <= SENTINEL):
            return f"the logprob {position.logprob} stands for what is no number"
    return ""


def _said(result: Answer | CouldNotJudge) -> str:
    return f"HTTP {result.status}, {result.message}" if isinstance(result, Refusal) else str(result)
