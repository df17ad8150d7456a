"""Mutants of the judgement, made by hand: each breaks one rule that a verdict rests on. (file, old, new, tests)"""

from __future__ import annotations

J, G = "src/vllm_gate/judge", "src/vllm_gate/gates"
P, A = "src/vllm_gate/path", "src/vllm_gate/advisories"
NUMERICAL = "tests/gates/test_numerical.py"

MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    # verdicts add up
    (
        "src/vllm_gate/core/verdict.py",
        "_WORST_FIRST = (Verdict.FAIL, Verdict.ERROR,",
        "_WORST_FIRST = (Verdict.ERROR, Verdict.FAIL,",
        "tests/core",
    ),
    ("src/vllm_gate/core/verdict.py", "in seen), Verdict.ERROR)", "in seen), Verdict.PASS)", "tests/core"),
    ("src/vllm_gate/core/finding.py", "if passing and self.samples == 0:", "if False:", "tests/core"),
    # drift
    (f"{J}/drift.py", "total_variation = 0.5 * (", "total_variation = 1.0 * (", "tests/judge/test_drift.py"),
    (f"{J}/drift.py", "np.abs(rest_a - rest_b)", "0 * rest_a", "tests/judge/test_drift.py"),
    (f"{J}/drift.py", "ra * np.log(ra / rb)", "0 * ra", "tests/judge/test_drift.py"),
    (f"{J}/drift.py", "np.minimum(floor_b, la)", "la", "tests/judge/test_drift.py"),
    (f"{J}/drift.py", "self.flipped & (self.gap > least_gap)", "self.flipped", "tests/judge/test_drift.py"),
    (f"{J}/drift.py", "a.target_logprob - b.target_logprob", "b.target_logprob - a.target_logprob", "tests/judge"),
    # intervals and tolerances
    (f"{J}/drift_verdict.py", "if high <= tolerance:", "if measured.mean <= tolerance:", "tests/judge"),
    (f"{J}/drift_verdict.py", "if low > tolerance:", "if high > tolerance:", "tests/judge"),
    (f"{J}/drift_verdict.py", "low > tolerance / 2 and", "", "tests/judge"),
    (f"{J}/drift_verdict.py", "measured.clusters < LEAST_PROMPTS", "False", "tests/judge"),
    (f"{J}/drift_verdict.py", "_TAIL_POSITIONS = 3", "_TAIL_POSITIONS = 2", "tests/judge"),
    (f"{J}/bootstrap.py", "counts[drawn].sum(axis=1)", "counts.sum()", "tests/judge"),
    (f"{J}/bootstrap.py", "tail = (1 - level) / 2", "tail = 1 - level", "tests/judge"),
    # NaN
    (f"{J}/nonfinite.py", "mass > 1.01", "mass > 2.0", "tests/judge/test_nonfinite.py"),
    (f"{J}/nonfinite.py", "chosen <= SENTINEL", "chosen < -1e9", "tests/judge/test_nonfinite.py"),
    (f"{J}/nonfinite.py", "(every == every[0]).all()", "(every == every[0]).any()", "tests/judge/test_nonfinite.py"),
    # how an answer is wrong
    (f"{J}/diagnosis.py", "zeros >= 8 or", "zeros >= 80 or", "tests/judge/test_diagnosis.py"),
    (f"{J}/rates.py", "tail = (1 - level) / 2", "tail = 1 - level", "tests/judge/test_rates.py"),
    (
        f"{J}/degeneration.py",
        "least = 24 * period if period <= 2",
        "least = 240 * period if period <= 2",
        "tests/judge",
    ),
    # gates
    (
        f"{G}/questions.py",
        "if isinstance(result, Refusal):\n        return Outcome",
        "if False:\n        return Outcome",
        "tests/gates",
    ),
    (f"{G}/golden_prompt.py", "< threshold", "> threshold", "tests/gates/test_golden_prompt.py"),
    (f"{G}/readiness.py", "if death is not None and death.died:", "if False:", "tests/gates/test_model_load.py"),
    (f"{G}/readiness.py", "if card is None:", "if False:", "tests/gates/test_model_load.py"),
    (
        f"{G}/consistency/probing.py",
        'if result.says_nonfinite else ""',
        'if False else ""',
        "tests/gates/test_numerical.py",
    ),
    # rolling back
    ("src/vllm_gate/rollback/conditions.py", "finding.verdict is Verdict.FAIL and", "", "tests/rollback"),
    ("src/vllm_gate/rollback/decision.py", "if pull_request and not on_pull_request:", "if False:", "tests/rollback"),
    ("src/vllm_gate/path/lock.py", "today <= self.expires", "today >= self.expires", "tests/path/test_lock.py"),
    # what can't be asked
    (f"{G}/consistency/tracing.py", "if _CAPPED.search(refusal.message) else None", "", NUMERICAL),
    # the execution path
    (f"{P}/record.py", "(self._debug or not rule.debug)", "True", "tests/path"),
    (f"{P}/record.py", "and not (rule.compiling and self._warm)", "", "tests/path"),
    (f"{P}/record.py", "and _release(rule.since) <= version", "", "tests/path"),
    (f"{P}/record.py", "if not (self.engine_seen and self._up):", "if not self.engine_seen:", "tests/path"),
    (f"{P}/record.py", "if start.engine_seen and RUNS_ARGUMENTS in", "if False and RUNS_ARGUMENTS in", "tests/path"),
    (f"{P}/record.py", "if len(set(ranked.values())) > 1 else {}", "if False else {}", "tests/path"),
    (f"{P}/record.py", "return ATTENTION_NAMES.get(backend, backend)", "return backend", "tests/path"),
    (f"{P}/fallbacks.py", "said and not _ELSE.search(text)", "said", "tests/path"),
    (f"{P}/fallbacks.py", 'text.split()).rstrip(" .")[:200]', "text.split())[:20]", "tests/path"),
    (f"{P}/diff.py", "if seen.state is State.UNKNOWN or seen.value", "if seen.value", "tests/path"),
    (f"{P}/diff.py", 'if approved is None and seen.source != "log":', "if False:", "tests/path"),
    (f"{P}/diff.py", "if not one.explanation and not _holds", "if not _holds", "tests/path"),
    (f"{P}/diff.py", "after < before else", "after > before else", "tests/path"),
    (f"{P}/sources.py", "if seen.state is not State.OBSERVED:", "if True:", "tests/path"),
    (f"{P}/sources.py", 'elif not _same(name, seen.value or "", value):', "elif False:", "tests/path"),
    (f"{P}/sources.py", '(facts if form["sizes"] else {})', "facts", "tests/path"),
    (f"{P}/checkpoint.py", '"fp32" if _adds_one(config) else', "", "tests/path"),
    (f"{P}/lock.py", "facts={**before.facts, **observed}", "facts=observed", "tests/path"),
    (f"{G}/execution_path.py", "if not record.whole:", "if False:", "tests/gates/test_execution_path.py"),
    (f"{G}/execution_path.py", "field not in DTYPE_PATH | IDENTITY", "field not in DTYPE_PATH", "tests/gates"),
    (f"{G}/known_faults.py", "if fault not in declared", "", "tests/gates"),
    # known faults
    (f"{A}/matching.py", "and self._tp() >= advisory.min_tp", "", "tests/advisories"),
    (f"{A}/matching.py", "self._version_fits(advisory)", "True", "tests/advisories"),
    (f"{A}/matching.py", "any(all(_holds", "any(any(_holds", "tests/advisories"),
    (f"{A}/matching.py", 'operator == "=" and value == "absent"', "False", "tests/advisories"),
    (
        f"{A}/matching.py",
        "key=lambda advisory: not advisory.certain",
        "key=lambda advisory: advisory.certain",
        "tests/advisories",
    ),
    (f"{A}/startup.py", 'found, last_error = {}, ("", 0)', "pass", "tests/path"),
    (f"{A}/coverage.py", 'and "tp_variants" not in asked', "", "tests/advisories"),
)
