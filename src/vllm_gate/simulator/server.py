"""A simulated vLLM, up and down: `with Simulator(settings) as server: … server.base_url …`."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm_gate.simulator import messages
from vllm_gate.simulator.engine import Engine
from vllm_gate.simulator.exposition import Counters
from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.generation import Generations
from vllm_gate.simulator.http_server import Body, HttpServer, Route
from vllm_gate.simulator.requests import BadRequest, generation_request
from vllm_gate.simulator.settings import SimulatorSettings
from vllm_gate.simulator.startup_log import startup_log
from vllm_gate.simulator.tokenizer import tokenizer
from vllm_gate.simulator.wire import Wire


class Simulator:
    """One server in this process. Raises ValueError for an unknown fault, OSError when the port is taken."""

    def __init__(self, settings: SimulatorSettings) -> None:
        self.settings = settings
        self._faults = Faults(settings.faults)
        self._served = "some-other-model" if "wrong_model" in self._faults else settings.model
        self.log_lines = list(startup_log(settings, self._faults))
        self._engine = Engine(settings, self._faults)
        self._counters = Counters()
        wire = Wire(self._served, self._fingerprint(), gateway=settings.gateway)
        self._generations = Generations(self._engine, wire, self._faults, self._counters)
        self._http = HttpServer((settings.host, settings.port), self._routes(), settings.api_key)
        self._start: threading.Timer | None = None
        self._serving: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port, also where a free one was asked for."""
        return int(self._http.server_address[1])

    @property
    def base_url(self) -> str:
        """As OpenAI's clients take it."""
        return f"http://{self.settings.host}:{self.port}/v1"

    @property
    def requests(self) -> int:
        """How many requests came in."""
        return self._http.requests

    def start(self) -> None:
        """Write the startup log and begin to listen, unless a fault delays or forbids that."""
        if self.settings.log_path:
            Path(self.settings.log_path).write_text("\n".join(self.log_lines) + "\n", encoding="utf-8")
        if "dies_at_start" in self._faults:
            return
        if "slow_start" in self._faults:
            self._start = threading.Timer(self._faults.value("slow_start"), self._listen)
            self._start.daemon = True
            self._start.start()
        else:
            self._listen()

    def stop(self) -> None:
        """Close every connection and the port."""
        self._http.stopping.set()
        if self._start:
            self._start.cancel()
            self._start.join()
        if self._serving:
            self._http.shutdown()
            self._serving.join()
        self._http.server_close()

    def __enter__(self) -> Simulator:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _listen(self) -> None:
        self._http.server_activate()
        self._serving = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._serving.start()

    def _routes(self) -> Mapping[str, Route]:
        openai: dict[str, Route] = {
            "GET /v1/models": lambda _: Body(self._models()),
            "POST /v1/chat/completions": lambda body: self._generate(body, chat=True),
            "POST /v1/completions": lambda body: self._generate(body, chat=False),
            "POST /v1/messages": self._messages,
        }
        if self.settings.gateway:
            return openai
        own: dict[str, Route] = {
            "GET /health": lambda _: Body(),
            "GET /ping": lambda _: Body(),
            "GET /version": lambda _: Body({"version": self.settings.version}),
            "GET /metrics": lambda _: Body(text=self._metrics()),
            "POST /tokenize": self._tokenize,
            "POST /detokenize": self._detokenize,
        }
        if self.settings.dev_mode:
            own["GET /server_info"] = lambda _: Body(self._server_info())
        return openai | own

    def _generate(self, body: Mapping[str, Any], *, chat: bool) -> Body:
        self._check_model(body)
        if "http_500" in self._faults:
            message = "EngineCore encountered an issue. See stack trace (above) for the root cause."
            raise BadRequest(500, message, kind="InternalServerError")
        if "hang" in self._faults:
            self._http.stopping.wait()
        prompt = self._chat_prompt(body) if chat else self._text_prompt(body)
        if self._faults.strikes("baseline_flaky", prompt):
            raise BadRequest(503, "The server is overloaded. Try again later.", kind="ServiceUnavailableError")
        body = {key: value for key, value in body.items() if key not in self._dropped()}
        request = generation_request(body, prompt, chat=chat, settings=self.settings)
        if request.stream:
            return Body(events=self._generations.stream(request))
        return Body(self._generations.whole(request))

    def _dropped(self) -> tuple[str, ...]:
        """Fields that this server does not know, and so ignores."""
        if self.settings.gateway:
            return ("prompt_logprobs", "return_token_ids")
        return () if self.settings.prompt_logprobs else ("prompt_logprobs",)

    def _messages(self, body: Mapping[str, Any]) -> Body:
        answer = self._generate(messages.chat_body(body), chat=True)
        if answer.events is not None:
            return Body(events=messages.events(answer.events))
        return Body(messages.message(answer.value))

    def _chat_prompt(self, body: Mapping[str, Any]) -> list[int]:
        messages = body.get("messages")
        if messages is None:
            message = "1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required'}"
            raise BadRequest(400, message, kind="Bad Request", param="body.messages")
        if not messages:
            raise BadRequest(400, "Cannot apply chat template to an empty conversation. Provide at least one message.")
        return tokenizer().chat(messages, str(body["tools"]) if body.get("tools") else "")

    def _text_prompt(self, body: Mapping[str, Any]) -> list[int]:
        prompt = body.get("prompt", "")
        ids = tokenizer().encode(prompt) if isinstance(prompt, str) else list(prompt)
        for token in ids:
            if not 0 <= token < tokenizer().size:
                raise BadRequest(400, f"Token id {token} is out of vocabulary")
        return ids

    def _check_model(self, body: Mapping[str, Any]) -> None:
        asked = body.get("model")
        if asked not in (None, "", self._served):
            message = f"The model `{asked}` does not exist. Valid aliases: {self._served}."
            raise BadRequest(404, message, kind="NotFoundError", param="model")

    def _tokenize(self, body: Mapping[str, Any]) -> Body:
        self._check_model(body)
        ids = self._chat_prompt(body) if "messages" in body else tokenizer().encode(str(body.get("prompt", "")))
        strings = [tokenizer().decode([token]) for token in ids] if body.get("return_token_strs") else None
        return Body(
            {"count": len(ids), "max_model_len": self.settings.max_model_len, "tokens": ids, "token_strs": strings}
        )

    def _detokenize(self, body: Mapping[str, Any]) -> Body:
        self._check_model(body)
        return Body({"prompt": tokenizer().decode(body.get("tokens") or [], skip_special=False)})

    def _models(self) -> dict[str, Any]:
        card = {"id": self._served, "object": "model", "created": 1, "owned_by": "vllm", "root": self._served}
        if not self.settings.gateway:
            card["max_model_len"] = self.settings.max_model_len
        return {"object": "list", "data": [card]}

    def _metrics(self) -> str:
        cache = self._engine.cache
        gauges = {
            "vllm:num_requests_running": float(self._engine.running),
            "vllm:num_requests_waiting": 0.0,
            "vllm:prefix_cache_queries_total": float(cache.queries),
            "vllm:prefix_cache_hits_total": float(cache.hits),
        }
        if self.settings.count_nans:
            gauges["vllm:corrupted_requests_total"] = float(self._engine.corrupted)
        return self._counters.text(self._served, gauges)

    def _server_info(self) -> dict[str, Any]:
        model = {"model": self._served, "dtype": "torch.bfloat16", "quantization": self.settings.quantization or None}
        parallel = {"tensor_parallel_size": self.settings.tp}
        return {"vllm_config": {"model_config": model, "parallel_config": parallel}, "vllm_env": {}, "system_env": {}}

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(repr(self.settings).encode()).hexdigest()[:8]
        parallel = f"-tp{self.settings.tp}" if self.settings.tp > 1 else ""
        return f"vllm-{self.settings.version}{parallel}-{digest}"
