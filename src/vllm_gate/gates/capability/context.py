"""Long prompts of an exact length, with facts at five depths that are asked for one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.asking import answer_evidence
from vllm_gate.gates.capability.edges import Edges
from vllm_gate.gates.capability.known import Known, baseline_of
from vllm_gate.gates.capability.long_prompt import DEPTHS, Counter, LongPrompt, build, counter
from vllm_gate.gates.capability.needles import ROOM, Asked, Asker, Cost, Pace
from vllm_gate.gates.capability.recall import Recall, judge_against, judge_alone
from vllm_gate.gates.interface import Context
from vllm_gate.server.reply import Refusal, Reply

_NEIGHBOURS = 2


def ask_context(context: Context, known: Known) -> Iterator[Finding]:
    """Every configured length at five depths, and one token beside it in a quick form."""
    lengths = sorted(context.plan.gates.long_context.context_lengths)
    room, window = ROOM + known.room(context), known.window(context)
    possible = [length for length in lengths if window is None or length + room <= window]
    pace = Pace(context, sum(possible) * (len(DEPTHS) + _NEIGHBOURS))
    count, exact = counter(context.under_test)
    edges, costs = Edges(context, window), {}
    for length in lengths:
        if length not in possible and window is not None:
            yield _too_long(context, length, room, window)
            continue
        started = context.now()
        asked = _Length(context, known, pace, count, exact)
        yield asked.finding(length)
        edges.ask(asked.prompt, asked.found, asked.ours, asked.count)
        asked.cost.seconds = context.now() - started
        costs[str(length)] = asked.cost.facts()
    context.facts["context"] = costs
    if edges.asked:
        yield edges.finding()


class _Length:
    """One length: its questions, its verdict, its cost."""

    def __init__(self, context: Context, known: Known, pace: Pace, count: Counter, exact: bool) -> None:
        self.cost = Cost()
        self._context, self._plan = context, context.plan
        self._how = "" if exact else " (counted by the server's usage: it has no /tokenize)"
        self.count = self._counting(count)
        self.ours = Asker(
            context=context, service=context.under_test, room=known.room(context), pace=pace, cost=self.cost
        )
        baseline = baseline_of(context)
        self._theirs = (
            Asker(context=context, service=baseline, room=known.room(context), pace=pace) if baseline else None
        )
        self.prompt = LongPrompt(tokens=0, facts=(), units=0, words=0)
        self.found: Sequence[Asked] = ()

    def finding(self, length: int) -> Finding:
        """Ask, judge, and tell."""
        fresh = partial(build, length, self.count, self._context.rng)
        self.prompt = fresh()
        self.found = self.ours.ask(self.prompt, range(len(DEPTHS)))
        return self._unjudged() or self._finding(self._recall(self.prompt, fresh))

    def _counting(self, count: Counter) -> Counter:
        def counted(messages: Sequence[object]) -> int:
            self.cost.counts += 1
            return count(messages)  # type: ignore[arg-type]

        return counted

    def _recall(self, prompt: LongPrompt, fresh: partial[LongPrompt]) -> Recall:
        threshold = self._plan.gates.long_context.needle_recall_threshold
        if all(one.right for one in self.found):
            return Recall(verdict=Verdict.PASS, share=1.0, threshold=threshold, why="", found=self.found)
        against = judge_against(self.found, self.ours, self._theirs, prompt, fresh) if self._theirs else None
        return against or judge_alone(self.found, self.ours, fresh, threshold)

    @property
    def _where(self) -> str:
        wanted = self.prompt.tokens in self._plan.gates.long_context.context_lengths
        return f"{self.prompt.tokens} prompt tokens{'' if wanted else ', the closest that padding gives'}{self._how}"

    def _unjudged(self) -> Finding | None:
        """None where every question was answered, or some answer is wrong already."""
        open_ones = [one for one in self.found if one.right is None]
        if not open_ones or any(one.right is False for one in self.found):
            return None
        first = open_ones[0].answer
        thinking = isinstance(first, Reply)
        said = "the model was still thinking at max_tokens" if thinking else _said(first)
        return Finding(
            check="context",
            verdict=Verdict.INCONCLUSIVE if thinking else Verdict.ERROR,
            symptom="still_thinking" if thinking else "no_answer",
            message=f"at {self._where}: {len(open_ones)} of {len(self.found)} questions were not answered: {said}",
            evidence=(answer_evidence("what came back", first),),
            location=self._plan.where("gate_config.gate_4_long_context.context_lengths"),
            remedy="Serve with the model's thinking switched off for this gate." if thinking else "",
        )

    def _finding(self, recall: Recall) -> Finding:
        location = self._plan.where("gate_config.gate_4_long_context.context_lengths")
        measured = partial(
            Finding, check="context", measured=recall.share, unit="recall", samples=len(DEPTHS), location=location
        )
        if recall.verdict is Verdict.PASS:
            lost = f"{len(self.found) - sum(bool(one.right) for one in self.found)} of {len(self.found)}"
            return measured(
                verdict=Verdict.PASS,
                message=f"at {self._where}: the facts at all {len(self.found)} depths are found{_took(self.cost)}"
                if not recall.why
                else f"at {self._where}: {lost} facts are lost, which the release is not blamed for{_took(self.cost)}",
                warning=f"lost {recall.why}" if recall.why else "",
                evidence=(_map(recall),) if recall.why else (),
            )
        garbage = any(one.garbage for one in recall.blamed)
        symptom, what = ("garbage", "the answers are garbage") if garbage else ("needle_lost", "facts are lost")
        undecided = recall.verdict is Verdict.INCONCLUSIVE
        first = next(one for one in recall.blamed if one.garbage is garbage)
        return measured(
            verdict=recall.verdict,
            symptom=symptom,
            message=f"at {self._where}: {what} {recall.why}",
            threshold=recall.threshold,
            evidence=(answer_evidence(f"depth {DEPTHS[first.depth]:.0%}", first.answer), _map(recall)),
            remedy=_UNDECIDED if undecided else _REMEDY if self._theirs else f"{_REMEDY} {_ALONE}",
        )


_REMEDY = (
    "Suspect the KV cache (dtype, block size), sliding-window or sparse attention, rope scaling, or chunked prefill; "
    "compare with the release before at this length, and lower --max-model-len below the length that works."
)
_ALONE = (
    "If the release before loses the same facts, the model can't do this length: configure that one as the baseline, "
    "lower needle_recall_threshold, or take the length out of context_lengths."
)
_UNDECIDED = "Run the gate again: other texts are drawn, and a real loss shows again."


def _took(cost: Cost) -> str:
    cached = f", {cost.cached_tokens} of them cached" if cost.cached_tokens else ""
    return f" ({cost.prompt_tokens} prompt tokens in {cost.requests} requests{cached})"


def _too_long(context: Context, length: int, room: int, window: int) -> Finding:
    return Finding(
        check="context",
        verdict=Verdict.INCONCLUSIVE,
        message=f"{length} prompt tokens can't be asked: the server takes {window} tokens, prompt and answer together",
        measured=float(window),
        threshold=float(length + room),
        unit="tokens",
        location=context.plan.where("gate_config.gate_4_long_context.context_lengths"),
        remedy=f"Serve with --max-model-len {length + room} or more, or take {length} out of context_lengths.",
    )


def _map(recall: Recall) -> Evidence:
    rows = [str(one) for one in recall.found]
    rows += ["the baseline:", *(str(one) for one in recall.theirs)] if recall.theirs else []
    return Evidence(EvidenceKind.NOTE, "length and depth", "\n".join(rows))


def _said(answer: object) -> str:
    return f"HTTP {answer.status}, {answer.message}" if isinstance(answer, Refusal) else str(answer)
