"""A server on loopback that answers Claude Code like the API: calls in one answer, then the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .contract import Call

END = {"type": "text", "text": "done"}


class AnthropicServer:
    """Answers with `calls` until a request has results; `requests` contains all requests."""

    def __init__(self, calls: Sequence[Call], prefix: str) -> None:
        self.blocks = [
            {"type": "tool_use", "id": c.id, "name": prefix + c.tool, "input": dict(c.input)}
            for c in calls
        ]
        self.requests: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[AnthropicServer]:
        """Run the server in its own thread."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def results(self) -> dict[str, str]:
        """Return the texts that the model read about each call, including a note about an edit."""
        found: dict[str, str] = {}
        texts: list[str] = []
        for request in self.requests:
            blocks = [block for message in request["messages"] for block in _blocks(message)]
            texts += [block["text"] for block in blocks if block["type"] == "text"]
            for block in blocks:
                if block["type"] == "tool_result":
                    found[block["tool_use_id"]] = json.dumps(block["content"], ensure_ascii=False)
        for block in self.blocks:
            hook = f"PostToolUse:{block['name']} hook additional context: "
            said = next((text.partition(hook)[2] for text in texts if hook in text), None)
            if said is not None and block["id"] in found:
                found[str(block["id"])] += said
        return found

    def _answer(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        has_results = any(b["type"] == "tool_result" for m in body["messages"] for b in _blocks(m))
        return self.blocks if self.blocks and body.get("tools") and not has_results else [END]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.send_response(200)
                self.end_headers()

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
                if body.get("stream"):
                    server.requests.append(body)
                    self._reply("text/event-stream", _stream(server._answer(body)))
                else:
                    self._reply("application/json", json.dumps(_message([END]) | {"input_tokens": 1}))

            def _reply(self, kind: str, text: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.end_headers()
                self.wfile.write(text.encode())

        return Handler


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": blocks,
        "stop_reason": "tool_use" if calls else "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _stream(blocks: list[dict[str, Any]]) -> str:
    """Return the events of a streamed message."""
    whole = _message(blocks)
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}}
    ]
    for index, block in enumerate(blocks):
        at = {"index": index}
        if block["type"] == "text":
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "content_block": start, **at},
            {"type": "content_block_delta", "delta": delta, **at},
            {"type": "content_block_stop", **at},
        ]
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
