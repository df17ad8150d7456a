"""Waiting until a server is ready, and telling apart the ways in which it may not become so."""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from vllm_gate.advisories.startup import StartupDiagnosis, diagnose_startup
from vllm_gate.core.finding import Evidence, EvidenceKind, Finding, Location
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge, NoAnswer
from vllm_gate.gates.asking import no_token, one_token
from vllm_gate.gates.interface import Context
from vllm_gate.server.interface import ModelCard
from vllm_gate.server.reach import accepts, default_gateway, inside_container, look_elsewhere
from vllm_gate.server.reply import Refusal, Reply

_POLL_S = 1.0
_LOG_TAIL = 20


@dataclass(frozen=True, slots=True)
class Ready:
    """The server answers. `cards` is None where it does not list its models, and `unlisted` says why."""

    waited_s: float
    cards: tuple[ModelCard, ...] | None
    unlisted: CouldNotJudge | None = None


@dataclass(frozen=True, slots=True)
class NotReady:
    """The server died, or did not become ready in time: the whole story, as a finding."""

    finding: Finding


Elsewhere = Callable[[str], str]
"""A refusing `base_url` to the sentence that says where else its port answers; "" when that does not arise."""


def look_around(base_url: str) -> str:
    """`Elsewhere`, on this machine."""
    found = look_elsewhere(base_url, in_container=inside_container(), gateway=default_gateway(), answers=accepts)
    return found.explain() if found else ""


class Readiness:
    """Waits once, for whichever check of the gate comes first."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self._elsewhere = elsewhere
        self._state: Ready | NotReady | None = None
        self._told = False

    def of(self, context: Context) -> Ready | NotReady:
        """Wait until the server is ready, has died, or the time is up."""
        if self._state is None:
            self._state = _wait(context, self._elsewhere)
        return self._state

    def refusal(self, check: str, state: NotReady) -> Finding:
        """Why `check` can't be asked: in full for the first one, in short for the others."""
        if not self._told:
            self._told = True
            return replace(state.finding, check=check)
        return Finding(
            check=check,
            verdict=Verdict.ERROR,
            symptom="not_ready",
            message="not asked: the server never became ready",
            remedy=state.finding.remedy,
        )


def log_lines(context: Context) -> Iterable[str]:
    """The start-up log so far, read anew and never held as a whole; empty without one."""
    return context.log.lines() if context.log else ()


def log_location(context: Context, line_number: int) -> Location | None:
    """A line of the log as a place, where the log is a file of the user's."""
    path = context.plan.services["under_test"].log
    return Location(path, line_number) if path and not path.startswith("docker:") else None


def ready_endpoint(context: Context, ready: Ready) -> Finding:
    """The configured model is served: by the server's own list, or where it has none by an answer in its name."""
    service = context.under_test
    context.facts["ready_after_s"] = round(ready.waited_s, 1)
    if ready.cards is None:
        return _answers_to_its_name(context, ready.unlisted)
    card = next((card for card in ready.cards if card.id == service.model), None)
    if card is None:
        return _wrong_model(context, [card.id for card in ready.cards])
    context.facts["max_model_len"] = card.max_model_len
    window = f", up to {card.max_model_len} tokens" if card.max_model_len else ""
    return Finding(
        check="ready_endpoint",
        verdict=Verdict.PASS,
        message=f"{service.model} is served{window} (ready after {ready.waited_s:.0f} s)",
    )


def _wrong_model(context: Context, served: Sequence[str], said: str = "") -> Finding:
    """`said` is the server's own word where it does not list its models."""
    wanted = context.under_test.model
    near = difflib.get_close_matches(wanted, served, n=1, cutoff=0.3)
    meant = f" (nearest: {near[0]!r})" if near else ""
    instead = said or f"the server has {', '.join(map(repr, served)) or 'no model'}{meant}"
    return Finding(
        check="ready_endpoint",
        verdict=Verdict.FAIL,
        symptom="wrong_model",
        message=f"{wanted!r} is not served; {instead}",
        measured=", ".join(served) or None,
        threshold=wanted,
        location=context.plan.where("service.under_test.model"),
        remedy=f"Set service.under_test.model to what is served, or start vLLM with --served-model-name {wanted}.",
    )


def _answers_to_its_name(context: Context, unlisted: CouldNotJudge | None) -> Finding:
    service = context.under_test
    answer = one_token(service)
    if isinstance(answer, Reply):
        return Finding(
            check="ready_endpoint",
            verdict=Verdict.PASS,
            message=f"the server answers as {service.model}",
            warning=f"it does not list its models ({unlisted}), so only its answer shows that this one is served",
        )
    if isinstance(answer, Refusal) and answer.status == 404:
        return _wrong_model(context, (), f"HTTP 404: {answer.message!r}")
    return no_token("ready_endpoint", answer)


def _wait(context: Context, elsewhere: Elsewhere) -> Ready | NotReady:
    service, limit = context.under_test, context.plan.gates.model_load.timeout_sec
    started = context.now()
    tries, trap = 0, None
    while True:
        tries += 1
        answer = _ask(context)
        waited = context.now() - started
        if isinstance(answer, _Answering):
            return Ready(waited, answer.cards, answer.unlisted)
        death = diagnose_startup(log_lines(context))
        if death is not None and death.died:
            return NotReady(_died(context, death))
        if trap is None and answer is not None and answer.reason == "refused":
            trap = elsewhere(service.base_url)
        if waited >= limit or (answer is not None and answer.reason in _HOPELESS):
            return NotReady(_late(context, answer, f"{waited:.0f} s ({tries} tries)", trap or "", death))
        context.progress(trap or f"waiting for {service.base_url}: {_short(answer)}", int(waited), int(limit), "s")
        context.sleep(min(_POLL_S, limit - waited))


@dataclass(frozen=True, slots=True)
class _Answering:
    cards: tuple[ModelCard, ...] | None
    unlisted: CouldNotJudge | None = None


def _ask(context: Context) -> _Answering | NoAnswer | None:
    """None when the server answers that it is not healthy."""
    service = context.under_test
    try:
        if service.health() is False:
            return None
        return _Answering(service.models())
    except NoAnswer as error:
        return error
    except CouldNotJudge as error:
        return _Answering(None, error)


def _died(context: Context, death: StartupDiagnosis) -> Finding:
    first = max(death.line_number - _LOG_TAIL // 2, 0)
    return Finding(
        check="ready_endpoint",
        verdict=Verdict.FAIL,
        symptom=death.name,
        message=f"the server died while starting: {death.cause}",
        remedy=death.remedy,
        evidence=(
            Evidence(EvidenceKind.LOG, "the line that tells why", death.line),
            Evidence(EvidenceKind.LOG, "around it", "\n".join(islice(log_lines(context), first, first + _LOG_TAIL))),
        ),
        location=log_location(context, death.line_number),
    )


def _late(
    context: Context, answer: NoAnswer | None, waited: str, trap: str, suspected: StartupDiagnosis | None
) -> Finding:
    """The time is up. A server that answered "not healthy" was measured; one that never answered was not."""
    url = context.under_test.base_url
    if answer is None:
        verdict, symptom = Verdict.FAIL, "not_ready"
        message = f"{url} answers, but says after {waited} that it is not healthy"
        remedies = ["Read the end of the server's log: /health fails when the engine behind it has stopped."]
    else:
        verdict, symptom = Verdict.ERROR, "unreachable"
        reason = _REASONS.get(answer.reason, "it could not be reached")
        message = f"no answer from {url} in {waited}, {reason}: {trap or answer}"
        remedies = [answer.hint, "" if answer.reason in _HOPELESS or trap else _UNREACHABLE]
    tail = deque(log_lines(context), _LOG_TAIL)
    return Finding(
        check="ready_endpoint",
        verdict=verdict,
        symptom=symptom,
        message=message + (f"; its log shows: {suspected.cause}" if suspected else ""),
        remedy=" ".join(filter(None, (suspected.remedy if suspected else "", *remedies))),
        evidence=(Evidence(EvidenceKind.LOG, "end of the server's log", "\n".join(tail)),) if tail else (),
        location=context.plan.where("service.under_test.base_url"),
    )


_HOPELESS = ("tls", "forbidden")
"""Reasons that no waiting takes away."""
_REASONS = {
    "refused": "nothing listens there",
    "timeout": "something is there but does not answer in time",
    "reset": "something is there but closes the connection",
    "closed": "something is there but breaks off its answer",
    "dns": "the host name does not resolve",
    "tls": "the certificate is not accepted",
    "forbidden": "the key may not be sent there",
}
_UNREACHABLE = (
    "Check base_url, and that the server is up and listens on an address that is reachable from here (inside a "
    "container, 127.0.0.1 is the container itself; vLLM must bind 0.0.0.0). If it only needs longer to start, raise "
    "gate_1_model_load.timeout_sec. Give its log (`log = …` in config.toml) to see a start that failed at once."
)


def _short(answer: NoAnswer | None) -> str:
    return "not healthy yet" if answer is None else _REASONS.get(answer.reason, str(answer))
