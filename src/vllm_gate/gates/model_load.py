"""Gate 1: the server is up, serves the configured model, and has loaded its weights, tokenizer and quantisation.

What could not be measured is never a pass: a server without `/tokenize` leaves `tokenizer_load` inconclusive, and a
quantisation that `[matrix]` declares but nothing shows leaves `quant_config_parse` inconclusive. Where nothing was
declared, or no log was given, there is less to compare: that passes, with a warning that says what was not seen.
A declared combination that is known to corrupt output is warned of first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.asking import answer_evidence, no_token, one_token
from vllm_gate.gates.interface import Check, Context
from vllm_gate.gates.known_faults import CHECK, before_load
from vllm_gate.gates.questions import probe, suite
from vllm_gate.gates.readiness import (
    Elsewhere,
    NotReady,
    Readiness,
    Ready,
    log_lines,
    log_location,
    look_around,
    ready_endpoint,
)
from vllm_gate.judge.quantization import agree, is_unquantized, kind_in_name
from vllm_gate.judge.round_trip import SAMPLES, survives, survives_normalized
from vllm_gate.judge.weights import weight_problems
from vllm_gate.path.record import read_chunks
from vllm_gate.server.reply import Reply

_CONFIGURED = ("ready_endpoint", "weights_load", "tokenizer_load", "quant_config_parse")
CHECK_NAMES = (CHECK, *_CONFIGURED)

_NO_LOG = "no log was given: set `log` under [service.under_test] in config.toml to have it read"


class ModelLoad:
    """See the module. `elsewhere` looks for a server that refuses on loopback; see `readiness.look_around`."""

    key = "gate_1_model_load"
    number = 1
    title = "model load"

    def __init__(self, elsewhere: Elsewhere = look_around) -> None:
        self._elsewhere = elsewhere

    def checks(self, plan: Plan) -> Sequence[Check]:
        """Known faults before anything is asked, then the configured checks; `ready_endpoint` first, since the others
        need what it waits for.
        """
        readiness = Readiness(self._elsewhere)
        configured = [
            Check(name, partial(_once_ready, name, readiness, _CHECKS[name]))
            for name in _CONFIGURED
            if name in plan.gates.model_load.checks
        ]
        return [Check(CHECK, before_load), *configured]

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        """None."""
        return ()


def _once_ready(
    check: str, readiness: Readiness, ask: Callable[[Context, Ready], Finding], context: Context
) -> Iterator[Finding]:
    state = readiness.of(context)
    yield readiness.refusal(check, state) if isinstance(state, NotReady) else ask(context, state)


def _weights_load(context: Context, _: Ready) -> Finding:
    """Nothing uninitialised or skipped in the log, and one token can be generated."""
    problems = weight_problems(log_lines(context))
    if problems:
        first = problems[0]
        return Finding(
            check="weights_load",
            verdict=Verdict.FAIL,
            symptom=first.symptom,
            message=f"{first.meaning} ({len(problems)} such lines in the log)",
            evidence=(Evidence(EvidenceKind.LOG, "log", "\n".join(problem.line for problem in problems)),),
            location=log_location(context, first.line_number),
            remedy="Serve a checkpoint that matches the architecture and this vLLM version, and load it whole.",
        )
    answer = one_token(context.under_test)
    if not isinstance(answer, Reply):
        return no_token("weights_load", answer)
    if not (answer.token_ids or answer.usage.completion_tokens or answer.text or answer.reasoning):
        return Finding(
            check="weights_load",
            verdict=Verdict.INCONCLUSIVE,
            message="the server answered one request for a token, but nothing shows that it generated one",
            evidence=(answer_evidence("what came back", answer),),
        )
    lines = sum(1 for _ in log_lines(context))
    return Finding(
        check="weights_load",
        verdict=Verdict.PASS,
        message="one token was generated" + (f"; {lines} log lines hold no weight problem" if lines else ""),
        warning="" if lines else f"skipped weights can't be seen: {_NO_LOG}",
    )


def _tokenizer_load(context: Context, _: Ready) -> Finding:
    """Texts in many scripts survive the way to token ids and back."""
    service = context.under_test
    context.facts["golden_prompt_tokens"] = _token_hashes(context)
    changed: dict[str, tuple[str, str]] = {}
    for language, text in SAMPLES.items():
        tokens = service.tokenize(text)
        back = service.detokenize(tokens) if tokens is not None else None
        if back is None:
            return Finding(
                check="tokenizer_load",
                verdict=Verdict.INCONCLUSIVE,
                message="the server has no /tokenize and /detokenize, so its tokenizer can't be checked",
                remedy="Point base_url at vLLM itself, or take tokenizer_load out of gate_1_model_load.checks.",
            )
        if not survives(text, back):
            changed[language] = (text, back)
    return _round_trips(changed)


def _round_trips(changed: Mapping[str, tuple[str, str]]) -> Finding:
    broken = {name: pair for name, pair in changed.items() if not survives_normalized(*pair)}
    if broken:
        return Finding(
            check="tokenizer_load",
            verdict=Verdict.FAIL,
            symptom="tokenizer_mismatch",
            message=f"{len(broken)} of {len(SAMPLES)} texts come back changed from the tokenizer: {', '.join(broken)}",
            evidence=tuple(
                Evidence(EvidenceKind.RESPONSE, name, f"sent: {sent}\nback: {back}")
                for name, (sent, back) in broken.items()
            ),
            remedy=(
                "Serve the model with its own tokenizer: check --tokenizer, --tokenizer-mode, --tokenizer-revision and "
                "the tokenizer files of the checkpoint."
            ),
        )
    return Finding(
        check="tokenizer_load",
        verdict=Verdict.PASS,
        message=f"{len(SAMPLES)} texts in as many scripts survive the way to token ids and back",
        warning=f"the tokenizer normalises {', '.join(changed)}" if changed else "",
        samples=len(SAMPLES),
    )


def _token_hashes(context: Context) -> dict[str, object]:
    """By golden prompt: how many tokens its rendered chat has, and a hash that changes when any of them does."""
    hashes: dict[str, object] = {}
    for question in (probe(context.plan), *suite(context.plan)):
        tokens = context.under_test.tokenize_chat(question.messages)
        if tokens is not None:
            digest = hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest()
            hashes[question.id] = {"tokens": len(tokens), "sha256": digest}
    return hashes


def _quant_config_parse(context: Context, _: Ready) -> Finding:
    """The observed quantisation is the declared one: by `[matrix]`, or where it is silent by the model's name."""
    declared = str(context.plan.matrix.get("quantization", ""))
    stated = declared or kind_in_name(context.under_test.model)
    observed = _observed_quantization(context)
    if observed is None:
        return _unobserved(declared, stated)
    context.facts["quantization"] = observed
    told = "unquantised" if is_unquantized(observed) else f"quantised as {observed}"
    if stated and not agree(stated, observed):
        source = "[matrix] declares" if declared else "the model's name says"
        return Finding(
            check="quant_config_parse",
            verdict=Verdict.FAIL,
            symptom="wrong_quantization",
            message=f"the server runs the model {told}, but {source} {stated}",
            measured=observed,
            threshold=stated,
            location=context.plan.where("matrix.quantization" if declared else "service.under_test.model"),
            remedy="Serve the declared checkpoint with the --quantization it needs, or correct the declaration.",
        )
    return Finding(
        check="quant_config_parse",
        verdict=Verdict.PASS,
        message=f"the model runs {told}" + (f", as declared ({stated})" if stated else "; nothing else is declared"),
        measured=observed,
        threshold=stated or None,
    )


def _unobserved(declared: str, stated: str) -> Finding:
    """Only an explicit declaration asks for a comparison; a name alone must not block a server that gave no log."""
    if declared:
        return Finding(
            check="quant_config_parse",
            verdict=Verdict.INCONCLUSIVE,
            message=f"[matrix] declares {declared}, but neither a log nor /server_info shows what the server runs",
            threshold=declared,
            remedy=f"{_NO_LOG.capitalize()}, or serve with VLLM_SERVER_DEV_MODE=1.",
        )
    return Finding(
        check="quant_config_parse",
        verdict=Verdict.PASS,
        message="[matrix] declares no quantisation to compare with",
        warning=f"the server's quantisation was not seen{f' (the name says {stated})' if stated else ''}: {_NO_LOG}",
    )


def _observed_quantization(context: Context) -> str | None:
    """What the log, or else `/server_info`, says; None where neither says anything."""
    seen = read_chunks(context.log.chunks() if context.log else ()).quantization
    if seen.value is not None:
        return str(seen.value)
    info = context.under_test.server_info()
    engine = info.get("vllm_config") if info else None
    model = engine.get("model_config") if isinstance(engine, Mapping) else None
    return str(model["quantization"]) if isinstance(model, Mapping) and "quantization" in model else None


_CHECKS: Mapping[str, Callable[[Context, Ready], Finding]] = {
    "ready_endpoint": ready_endpoint,
    "weights_load": _weights_load,
    "tokenizer_load": _tokenizer_load,
    "quant_config_parse": _quant_config_parse,
}
