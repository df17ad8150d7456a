"""Answers to instructions by simple rules: enough of a model that knows its lines."""

from __future__ import annotations

import ast
import operator
import re
import zlib
from collections.abc import Callable, Mapping

_CAPITALS = {
    "france": "Paris",
    "germany": "Berlin",
    "japan": "Tokyo",
    "italy": "Rome",
    "spain": "Madrid",
    "portugal": "Lisbon",
    "austria": "Vienna",
}
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_EXACTLY = re.compile(
    r"(?:reply|answer|respond|say|write|repeat)\b[^:\n]*\b(?:exactly|only|verbatim)[^:\n]*:\s*(.+)", re.IGNORECASE
)
_CAPITAL = re.compile(r"capital (?:city )?of (\w+)", re.IGNORECASE)
_ASKED = re.compile(r"what (?:is|are|was) (?:the )?(.{1,200}?)\?", re.IGNORECASE | re.DOTALL)
_GENERAL = (
    (
        "Thank you for the question.",
        "It is good that you ask this.",
        "There is no short answer to that.",
        "I can say this.",
    ),
    (
        "What is to know of {topic} is in the text.",
        "It is about {topic}, and not of it alone.",
        "I know this of {topic}.",
    ),
    ("The whole text is to be read with care.", "This is not the whole answer.", "There is more to find in the text."),
)
_SUM = re.compile(r"\d+(?:\s*[-+*x×]\s*\d+)+")


def answer_to(question: str, context: str) -> str:
    """The answer to the last message, given everything the prompt holds."""
    if found := recall(question, context):  # first: a long context holds sums and orders that nobody asks about
        return found
    if exactly := _EXACTLY.search(question):
        return exactly[1].strip().strip("\"'")
    if (capital := _CAPITAL.search(question)) and capital[1].lower() in _CAPITALS:
        return _CAPITALS[capital[1].lower()]
    if total := _SUM.search(question):
        return str(_computed(total[0]))
    return _in_general(question)


def recall(question: str, context: str) -> str:
    """What sentences of the context say of the things that the question asks for; "" when none does.

    A fact has the form "The NAME is VALUE."; the question names it: "What is the NAME?". Several answers are joined.
    """
    found = []
    for asked in _ASKED.findall(question):
        name = re.escape(asked.strip())
        facts = re.findall(rf"\bthe {name} (?:is|are|was) ([^.\n]+)", context, re.IGNORECASE)
        found += facts[-1:]
    return ", ".join(fact.strip() for fact in found)


def _in_general(question: str) -> str:
    """Nothing in particular, about the longest word at the question's end: always the same for the same question."""
    topic = max(re.findall(r"\b[A-Za-z]{4,14}\b", question[-80:]), key=len, default="that").lower()
    digest = zlib.crc32(question.encode())
    chosen = [parts[(digest >> 8 * place) % len(parts)] for place, parts in enumerate(_GENERAL)]
    return " ".join(chosen).format(topic=topic)


def _computed(text: str) -> int:
    """A sum, difference or product of whole numbers."""
    tree = ast.parse(re.sub("[x×]", "*", text), mode="eval").body

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        assert isinstance(node, ast.Constant)
        return int(str(node.value))

    return value(tree)
