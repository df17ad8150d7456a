"""How a wrong answer is wrong: told on token ids first, since text can hide them, then on the text.

Everything here takes an answer that is already known to be wrong. The thresholds may therefore be far more
sensitive than those that decide *whether* something is wrong: a run of four equal tokens proves nothing in a good
answer and says a lot in a bad one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vllm_gate.judge.degeneration import PeriodicRun, foreign_script, periodic_runs, scripts, undecodable_share

_EXCERPT = 80
_COMPARED = 500  # characters compared letter by letter; difflib is quadratic


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A wrong answer as it was seen. `token_ids` is None where the server gave none.

    `nan_proof` quotes what proved NaN logits (an HTTP error on the same request with logprobs), "" without proof.
    `detokenized` is the server's own text for `token_ids`, None when it was not asked. `chosen_logprobs` and
    `top_logprobs` hold, per generated token, the chosen token's logprob and the top-k ones in nats.
    """

    text: str
    reasoning: str = ""
    finish_reason: str = ""
    token_ids: Sequence[int] | None = None
    completion_tokens: int | None = None
    detokenized: str | None = None
    nan_proof: str = ""
    chosen_logprobs: Sequence[float] = ()
    top_logprobs: Sequence[Sequence[float]] = ()

    @property
    def written(self) -> str:
        """What there is to read: the answer, or else the reasoning."""
        return self.text if self.text.strip() else self.reasoning

    @property
    def length(self) -> int | None:
        """Generated tokens, by the ids where there are any, else by the server's count."""
        return len(self.token_ids) if self.token_ids is not None else self.completion_tokens


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`symptom` is a stable word, `sentence` says it in full, `remedy` what to do."""

    symptom: str
    sentence: str

    @property
    def remedy(self) -> str:
        """What to do about the symptom."""
        return REMEDIES[self.symptom]


REMEDIES: Mapping[str, str] = {
    "nan_argmax": (
        "Do not release: the model computes NaN. Compare with TP=1; switch suspect kernels off one at a time "
        "(-cc.pass_config.fuse_allreduce_rms=false, --enforce-eager, another --attention-backend); look for dtype "
        "casts in the startup log; serve with VLLM_COMPUTE_NANS_IN_LOGITS=1 and watch vllm:corrupted_requests_total."
    ),
    "one_token_repeated": (
        "Do not release: the model's output does not depend on its input any more. Compare with TP=1 and with the "
        "release before, then switch fusions, quantised kernels and the attention backend off one at a time."
    ),
    "loop": (
        "Compare the same prompt with the release before. If only this one loops, suspect the KV cache, position "
        "encoding, or a quantised kernel; check that the chat template and the stop tokens are the model's own."
    ),
    "empty_text": (
        "Look at the token ids: special tokens are stripped from the text. Check the chat template, the tokenizer's "
        "special tokens and the reasoning parser; a run of id 0 would mean NaN logits."
    ),
    "uniform_noise": (
        "Do not release: the logits carry no information. Suspect weights loaded into the wrong place or shape, a "
        "broken kernel, or NaN logits that the sampler replaced; read the weight-loading lines of the startup log."
    ),
    "wrong_script": (
        "Compare with the release before: letters of a foreign writing system point to corrupted logits or to a "
        "tokenizer that is not the model's own."
    ),
    "near_miss": (
        "The model answers, but not to the letter. Check the chat template and the system prompt; if the answer is as "
        "good, correct the expected output or expect it with `contains` or `regex`."
    ),
    "refusal": "Check the chat template and the system prompt, or choose a prompt that this model does not refuse.",
    "truncated": (
        "With finish reason 'length', raise max_tokens for this prompt; for a thinking model, switch thinking off "
        '(chat_template_kwargs = {"enable_thinking": false}) or leave it enough tokens to finish. With any other, '
        "check the stop tokens: generation_config.json, the chat template's end token, and --stop settings."
    ),
    "tokenizer_mismatch": (
        "Serve the model with its own tokenizer: check --tokenizer, --tokenizer-revision and the tokenizer files of "
        "the checkpoint."
    ),
    "wrong_answer": (
        "Compare with the release before: the text is well formed but wrong. Check the served checkpoint and revision, "
        "the chat template, and the quantisation."
    ),
    "http_error": "Read the server's log for this request: it holds the stack trace behind the HTTP error.",
    "refused_request": (
        "The server does not accept this request, which proves nothing about the model: correct the request, the key, "
        "or the server's options as its message says."
    ),
    "no_access": (
        "Set the service's key: `api_key_env` in config.toml names the environment variable that holds it, and a "
        "workflow passes it on with `env:`."
    ),
    "hang": (
        "Read the server's log: the engine accepted the request and did not finish it. Suspect a deadlock between "
        "tensor-parallel workers or a stuck scheduler; a py-spy dump of the engine process shows where it stands."
    ),
}

_REFUSALS = re.compile(
    r"\b(i['’]?m sorry|i am sorry|i can(?:['’]t|not)|i['’]?m (?:unable|not able)|i am (?:unable|not able)|as an ai\b)"
    r"|抱歉|我(?:无法|不能)|申し訳",
    re.IGNORECASE,
)


def diagnose(expected: str, observed: Observed, *, prompt: str = "") -> Diagnosis:
    """How `observed` misses `expected` (the wanted text, or "" where a rule was wanted rather than a text)."""
    return (
        _not_a_number(observed)
        or _empty(observed)
        or _repetition(observed)
        or _only_thought(observed)
        or _mistokenized(observed)
        or _noise(observed, prompt + expected)
        or _foreign(observed, prompt + expected)
        or _worded_otherwise(expected, observed)
        or Diagnosis("wrong_answer", f"a different answer: {_quoted(observed.text)}")
    )


def diagnose_status(status: int, message: str, *, nonfinite: bool = False) -> Diagnosis:
    """What an HTTP error on a plain generation means; `nonfinite` when it says that JSON could not carry a number."""
    said = f"HTTP {status}: {_quoted(message)}"
    if nonfinite:
        return Diagnosis("nan_argmax", f"the logits are NaN: {said}")
    if status >= 500:
        return Diagnosis("http_error", said)
    return Diagnosis("no_access" if status in (401, 403) else "refused_request", said)


def declines(text: str) -> bool:
    """Whether a text begins by refusing the task."""
    return bool(_REFUSALS.search(text[:_COMPARED]))


def diagnose_hang(message: str) -> Diagnosis:
    """A request that the server took and never finished, although it says that it is healthy."""
    return Diagnosis("hang", f"no answer although the server says it is healthy: {_quoted(message)}")


def _not_a_number(observed: Observed) -> Diagnosis | None:
    """NaN logits: argmax over a row of NaN gives index 0, whatever that token is in this vocabulary."""
    proof = f"; proof: {observed.nan_proof}" if observed.nan_proof else ""
    ids = observed.token_ids
    if ids is not None:
        zeros = _longest_run_of(0, ids)
        if zeros >= 8 or (zeros == len(ids) and zeros >= 2):
            shown = f", shown as {_quoted(observed.text)}" if observed.text.strip() else ", shown as an empty text"
            return Diagnosis("nan_argmax", f"{zeros} × token id 0, the argmax of NaN logits{shown}{proof}")
    if proof:
        return Diagnosis("nan_argmax", f"the logits are NaN{proof}; the text is {_quoted(observed.text)}")
    marks = observed.text.strip()
    if ids is None and len(marks) >= 8 and set(marks) == {"!"}:
        return Diagnosis(
            "nan_argmax",
            f"{len(marks)} × '!', which is token id 0 in most vocabularies and so the argmax of NaN logits "
            "(the server gave no token ids to prove it)",
        )
    return None


def _longest_run_of(token: int, ids: Sequence[int]) -> int:
    longest = current = 0
    for given in ids:
        current = current + 1 if given == token else 0
        longest = max(longest, current)
    return longest


def _repetition(observed: Observed) -> Diagnosis | None:
    words = re.findall(r"\w+|[^\w\s]", observed.written)
    units: Sequence[object] = observed.token_ids if observed.token_ids is not None else words
    run = _dominant_run(units)
    if run is None:
        return None
    shown = _quoted(observed.written)
    if run.period > 1:
        return Diagnosis("loop", f"{run.repeats:.0f} × the same {run.period} tokens in a row: {shown}")
    unit = f"token id {units[run.start]}" if observed.token_ids is not None else f"{units[run.start]!r}"
    return Diagnosis("one_token_repeated", f"{run.covered} × {unit}: {shown}")


def _dominant_run(units: Sequence[object]) -> PeriodicRun | None:
    """The shortest-period run with at least three repeats and four tokens that fills half of the answer."""
    seen: dict[object, int] = {}
    numbered = np.array([seen.setdefault(unit, len(seen)) for unit in units], dtype=np.int64)
    for period in range(1, len(units) // 3 + 1):
        least = max(4, 3 * period, (len(units) + 1) // 2)
        if runs := periodic_runs(numbered, period, least):
            return max(runs, key=lambda run: run.covered)
    return None


def _empty(observed: Observed) -> Diagnosis | None:
    if observed.written.strip():
        return None
    if observed.length == 0:
        return Diagnosis("empty_text", "an empty answer: the first token already ended it")
    ids = f", ids {_listed(observed.token_ids)}" if observed.token_ids else ""
    return Diagnosis(
        "empty_text",
        f"an empty text although {_count(observed)} tokens were generated "
        f"(finish reason {observed.finish_reason or 'none'!r}{ids})",
    )


def _only_thought(observed: Observed) -> Diagnosis | None:
    if observed.text.strip():
        return None
    return Diagnosis(
        "truncated",
        f"all {_count(observed)} tokens went into the reasoning ({_quoted(observed.reasoning)}), none into the answer; "
        f"it ended with {observed.finish_reason or 'no finish reason'!r}",
    )


def _count(observed: Observed) -> str:
    return "an unknown number of" if observed.length is None else str(observed.length)


def _mistokenized(observed: Observed) -> Diagnosis | None:
    if observed.detokenized is None or _unmarked(observed.text) in _unmarked(observed.detokenized):
        return None
    return Diagnosis(
        "tokenizer_mismatch",
        f"the server's tokenizer reads its own token ids as {_quoted(observed.detokenized)}, "
        f"but the answer says {_quoted(observed.text)}",
    )


def _noise(observed: Observed, reference: str) -> Diagnosis | None:
    """A row of logits without information: all its top logprobs are equal, or the chosen ones are near -ln V."""
    shown = _quoted(observed.text)
    if observed.chosen_logprobs:
        mean = float(np.mean(observed.chosen_logprobs))
        spreads = [max(row) - min(row) for row in observed.top_logprobs if len(row) >= 5]
        if mean <= -5 or (spreads and float(np.median(spreads)) < 0.3 and mean <= -2):
            return Diagnosis(
                "uniform_noise",
                f"tokens drawn as if from a uniform distribution (mean logprob {mean:.1f} nats): {shown}",
            )
    strangers = len(scripts(observed.text).keys() - scripts(reference).keys())
    whole = observed.text.rstrip().removesuffix("\ufffd")  # max_tokens may cut the last character in two
    if strangers >= 3 or undecodable_share(whole) > 0.1:
        return Diagnosis("uniform_noise", f"a mixture of unrelated tokens: {shown}")
    return None


def _worded_otherwise(expected: str, observed: Observed) -> Diagnosis | None:
    text, wanted = observed.text.strip(), expected.strip()
    if declines(text):
        return Diagnosis("refusal", f"the model declines: {_quoted(text)}")
    if _is_unfinished(wanted, text, cut=observed.finish_reason == "length"):
        how = f"the answer ended before it was complete (finish reason {observed.finish_reason or 'none'!r})"
        return Diagnosis("truncated", f"{how}: {_quoted(text)}")
    if wanted and _is_near(wanted, text):
        return Diagnosis("near_miss", f"close to {_quoted(wanted)}, but not it: {_quoted(text)}")
    return None


def _is_unfinished(wanted: str, text: str, *, cut: bool) -> bool:
    """Whether a text is the beginning of the right one, or was cut in JSON or in a thought that comes before it."""
    if cut and text.startswith("<think>"):
        return "</think>" not in text
    return wanted.startswith(text) if wanted else cut and text.startswith(("{", "["))


def _is_near(wanted: str, text: str) -> bool:
    """Whether the words of `wanted` stand in the text, or its letters are mostly the same."""
    plain_wanted, plain_text = _plain(wanted), _plain(text)
    if plain_wanted and f" {plain_wanted} " in f" {plain_text} ":
        return True
    letters = difflib.SequenceMatcher(None, wanted[:_COMPARED], text[:_COMPARED], autojunk=False)
    return letters.ratio() >= 0.6


def _foreign(observed: Observed, reference: str) -> Diagnosis | None:
    found = foreign_script(observed.text, reference)
    if found is None or found[1] < 0.2:
        return None
    script, share = found
    return Diagnosis(
        "wrong_script",
        f"{share:.0%} of the letters are {script.title() if script != 'CJK' else script}, "
        f"which neither the prompt nor the expected answer uses: {_quoted(observed.text)}",
    )


def _unmarked(text: str) -> str:
    """Without special tokens, half characters and spaces: detokenizers differ in whether they show them."""
    return re.sub(r"<[^<>\s]{1,40}>|\ufffd|\s+", "", text)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…")


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:8])) + (", …" if len(ids) > 8 else "")
