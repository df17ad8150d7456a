"""What a conversation is known by when its client names none: how it began."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import takewhile
from typing import Any


def conversation_of(body: Mapping[str, Any]) -> str:
    """The same for every turn of a chat, which repeats what came before: a hash up to the user's first message.

    "" for a request without messages, which stands for itself.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return ""
    opening = list(takewhile(lambda message: not _is_users(message), messages))
    beginning = messages[: len(opening) + 1]
    text = json.dumps(beginning, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _is_users(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") == "user"
