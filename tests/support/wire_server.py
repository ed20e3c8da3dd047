"""A server on loopback that answers every POST with a stream of a provider other than OpenAI.

`with WireServer(anthropic_reply()) as server:` then point a client at `server.base_url`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Stream:
    """The pieces of a reply as sent over the network. Without its last ones it is incomplete."""

    pieces: Sequence[str]
    content_type: str
    needed: int

    @property
    def cut(self) -> Stream:
        """Return the same reply, ended in an orderly way before it is complete."""
        return Stream(self.pieces[: -self.needed], self.content_type, 0)


def anthropic_reply() -> Stream:
    """Return text and a call of `bash`, in the events of Anthropic's messages API."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m"}
    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": call},
        _json_delta('{"comm'),
        _json_delta('and": "echo hi"}'),
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 12},
        },
        {"type": "message_stop"},
    ]
    pieces = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return Stream(pieces, "text/event-stream", 2)


def _json_delta(text: str) -> dict[str, Any]:
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": 1, "delta": delta}


def gemini_reply() -> Stream:
    """Return text and a call of `bash`, in the pieces of Gemini's streamed answers."""
    call = {"functionCall": {"name": "bash", "args": {"command": "echo hi"}}}
    pieces = [
        {"content": {"parts": [{"text": "hel"}], "role": "model"}, "index": 0},
        {
            "content": {"parts": [{"text": "lo"}, call], "role": "model"},
            "finishReason": "STOP",
            "index": 0,
        },
    ]
    usage = {"promptTokenCount": 14, "candidatesTokenCount": 12, "totalTokenCount": 26}
    return Stream(
        [f"data: {json.dumps({'candidates': [p], 'usageMetadata': usage})}\r\n\r\n" for p in pieces],
        "text/event-stream",
        1,
    )


def ollama_reply() -> Stream:
    """Return text and a call of `bash`, in the lines of Ollama's chat API."""
    call = {"function": {"name": "bash", "arguments": {"command": "echo hi"}}}
    lines: list[dict[str, Any]] = [
        {"message": {"role": "assistant", "content": "hel"}, "done": False},
        {"message": {"role": "assistant", "content": "lo"}, "done": False},
        {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False},
        {
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 14,
            "eval_count": 12,
        },
    ]
    head = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
    return Stream([json.dumps({**head, **line}) + "\n" for line in lines], "application/x-ndjson", 1)


@dataclass
class WireServer:
    """Answers with `stream`; `paths` are the requested paths."""

    stream: Stream
    paths: list[str] = field(default_factory=list)

    def __enter__(self) -> WireServer:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: object) -> None:
                pass

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/api/show":
                    # Ollama is first queried whether its model supports tools.
                    self.answer("application/json", json.dumps({"capabilities": ["tools"]}))
                    return
                server.paths.append(self.path.partition("?")[0])
                self.answer(server.stream.content_type, *server.stream.pieces)

            def answer(self, content_type: str, *pieces: str) -> None:
                self.send_response(200)
                self.send_header("content-type", content_type)
                self.end_headers()
                for piece in pieces:
                    self.wfile.write(piece.encode())
                    self.wfile.flush()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def base_url(self) -> str:
        """URL to be used as a client's `api_base`."""
        return f"http://127.0.0.1:{self._server.server_port}"
