"""One simulated server, asked over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests

from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings


class Client:
    """Plain requests to a server: bodies in, statuses and bodies out."""

    def __init__(self, server: Simulator) -> None:
        self.server = server
        self.root = server.base_url.removesuffix("/v1")
        self._session = requests.Session()

    def post(self, path: str, **body: Any) -> requests.Response:
        return self._session.post(f"{self.root}{path}", json=body, timeout=30)

    def get(self, path: str, **headers: str) -> requests.Response:
        return self._session.get(f"{self.root}{path}", headers=headers, timeout=30)

    def chat(self, text: str, **body: Any) -> dict[str, Any]:
        asked = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 16, **body}
        answer = self.post("/v1/chat/completions", **asked)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def say(self, text: str, **body: Any) -> str:
        return str(self.chat(text, **body)["choices"][0]["message"]["content"])

    def calls(self, text: str, tools: Any, **body: Any) -> list[tuple[str, Any]]:
        """Names and parsed arguments of the calls in an answer."""
        message = self.chat(text, tools=tools, max_tokens=400, **body)["choices"][0]["message"]
        return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls", [])]

    def events(self, path: str, **body: Any) -> list[Any]:
        lines = self.post(path, stream=True, **body).text.splitlines()
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert data.pop() == "[DONE]"
        return [json.loads(event) for event in data]

    def close(self) -> None:
        self._session.close()


@contextmanager
def serving(*faults: str, **settings: Any) -> Iterator[Client]:
    with Simulator(SimulatorSettings(faults=faults, **settings)) as server:
        client = Client(server)
        yield client
        client.close()


def function(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}
