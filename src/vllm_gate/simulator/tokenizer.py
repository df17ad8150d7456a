"""A small lossless tokenizer: common English words, punctuation, and single bytes for everything else.

Token 0 is "!", as in the vocabularies of GPT-2 and Qwen: what argmax gives for a row of NaN is visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_PIECES = (
    "!",
    *"\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    *"0123456789",
    "\n",
    "\n\n",
    ". ",
    ", ",
    '": ',
    '", "',
    '{"',
    '"}',
)


class Tokenizer:
    """Text to token ids and back. Any text survives the way there and back."""

    def __init__(self) -> None:
        words = files("vllm_gate.simulator").joinpath("words.txt").read_text(encoding="utf-8").split()
        forms = [form for word in words for form in (f" {word}", word, f" {word.capitalize()}", word.capitalize())]
        pieces = dict.fromkeys([*_PIECES, *forms])
        self._bytes: list[bytes] = [piece.encode() for piece in pieces]
        self._bytes += [bytes([value]) for value in range(256) if bytes([value]) not in set(self._bytes)]
        self._ids: Mapping[bytes, int] = {piece: token for token, piece in enumerate(self._bytes)}
        self._longest = max(map(len, self._bytes))
        self._specials = {name: len(self._bytes) + index for index, name in enumerate(SPECIALS)}
        self._special_names = {token: name for name, token in self._specials.items()}

    @property
    def size(self) -> int:
        """Number of token ids."""
        return len(self._bytes) + len(SPECIALS)

    def special(self, name: str) -> int:
        """The id of a special token."""
        return self._specials[name]

    def is_special(self, token: int) -> bool:
        """Whether a token is left out of texts."""
        return token in self._special_names

    def encode(self, text: str) -> list[int]:
        """Longest match first, over the bytes. Special tokens in a text are ordinary text."""
        data, ids, at = text.encode("utf-8", errors="surrogatepass"), [], 0
        while at < len(data):
            for length in range(min(self._longest, len(data) - at), 0, -1):
                token = self._ids.get(data[at : at + length])
                if token is not None:
                    ids.append(token)
                    at += length
                    break
        return ids

    def token_bytes(self, token: int, *, skip_special: bool = True) -> bytes:
        """The bytes of one token; none for a special token unless it is not to be skipped."""
        if token in self._special_names:
            return b"" if skip_special else self._special_names[token].encode()
        return self._bytes[token]

    def decode(self, tokens: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of token ids; bytes that form no character become U+FFFD. Raises IndexError for an unknown id."""
        return b"".join(self.token_bytes(token, skip_special=skip_special) for token in tokens).decode(
            "utf-8", errors="replace"
        )

    def chat(self, messages: Sequence[Mapping[str, object]], tools: str = "") -> list[int]:
        """A conversation in ChatML, up to where the assistant's answer begins."""
        start, end = self.special("<|im_start|>"), self.special("<|im_end|>")
        newline = self.encode("\n")
        turns = [("system", tools)] if tools else []
        turns += [(str(message.get("role", "user")), content_text(message)) for message in messages]
        ids: list[int] = []
        for role, content in turns:
            ids += [start, *self.encode(f"{role}\n{content}"), end, *newline]
        return [*ids, start, *self.encode("assistant\n")]


def content_text(message: Mapping[str, object]) -> str:
    """The text of a message whose content is a text or a list of text parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


@cache
def tokenizer() -> Tokenizer:
    """The one tokenizer every simulated server has."""
    return Tokenizer()
