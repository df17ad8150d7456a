"""Users that ask through a proxy, each over one kept-alive connection, and what they get."""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from tests.server.loopback import Answer, Request, chat
from tests.server.loopback import http as answer


@dataclass(frozen=True, slots=True)
class Seen:
    """What one request got, after how many seconds. `status` 0: the connection broke."""

    number: int
    status: int
    text: str
    seconds: float


def production(request: Request) -> Answer:
    """Answers with the number of the request, after what a small model needs."""
    time.sleep(0.002)
    return answer(chat(f"answer to {request.json['messages'][0]['content']}"))


def expected(number: int) -> tuple[int, int, str]:
    """Of every request: its number, status and text."""
    return number, 200, f"answer to question {number}"


def ask(port: int, count: int, *, users: int = 8) -> list[Seen]:
    """`count` requests, dealt to `users` that ask one after the other; in the order of their numbers."""
    with ThreadPoolExecutor(users) as pool:
        shares = pool.map(lambda user: _user(port, range(user, count, users)), range(users))
        return sorted((seen for share in shares for seen in share), key=lambda seen: seen.number)


def _user(port: int, numbers: range) -> list[Seen]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        return [_one(connection, number) for number in numbers]


def _one(connection: http.client.HTTPConnection, number: int) -> Seen:
    body = {"model": "m", "messages": [{"role": "user", "content": f"question {number}"}]}
    headers = {"Authorization": "Bearer sk-planted", "Cookie": "planted", "Content-Type": "application/json"}
    start = time.perf_counter()
    try:
        connection.request("POST", "/v1/chat/completions?key=planted", json.dumps(body), headers)
        got = connection.getresponse()
        content = json.loads(got.read())
    except (OSError, ValueError, http.client.HTTPException) as problem:
        connection.close()
        return Seen(number, 0, str(problem), time.perf_counter() - start)
    text = content["choices"][0]["message"]["content"] if got.status == 200 else ""
    return Seen(number, got.status, text, time.perf_counter() - start)
