"""A server on loopback that speaks OpenAI's streaming chat API and sends prepared answers.

`with OpenAIServer([says("Hel", "lo"), CUT]) as server:` then point a client at `server.base_url`.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


class Cut:
    """Breaks the connection here."""


CUT = Cut()


class End:
    """Ends the stream here in an orderly way, but without its last chunk."""


END = End()


@dataclass(frozen=True)
class Raw:
    """A piece that is sent unchanged, valid or not."""

    data: str


@dataclass(frozen=True)
class Refusal:
    """An answer that is not a stream: a status and OpenAI's error object."""

    status: int
    message: str


@dataclass(frozen=True)
class Request:
    """A request as received."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def conversation(self) -> list[str]:
        """Texts of its messages, without what the system prompt says about rules."""
        texts = [str(m.get("content") or "").partition("## Rules for")[0] for m in self.body["messages"]]
        return [text.strip() for text in texts if text and not text.startswith("Rules for tool calls")]


Piece = dict[str, Any] | Cut | End | Raw
Answer = Sequence[Piece] | Refusal


def chunk(delta: dict[str, Any], finish: str | None = None) -> Piece:
    """Return one chunk of a reply."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def says(*texts: str, finish: str = "stop", cached: int | None = None) -> list[Piece]:
    """Return a text reply, followed by its end and usage."""
    return [*(chunk({"content": text}) for text in texts), *ends(finish, cached)]


def thinks(*texts: str) -> list[Piece]:
    """Return reasoning that precedes a reply."""
    return [chunk({"reasoning_content": text}) for text in texts]


def fails(message: str) -> Piece:
    """Return an error that the provider reports within the stream."""
    return {"error": {"message": message, "type": "server_error", "code": 500}}


def begins_call(index: int, call_id: str | None, name: str, arguments: str = "") -> Piece:
    """Return the first chunk of a tool call."""
    function = {"name": name, "arguments": arguments}
    return chunk(
        {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}
    )


def goes_on(index: int, arguments: str) -> Piece:
    """Return a further chunk of a tool call's arguments."""
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


def ends(finish: str, cached: int | None = None) -> list[Piece]:
    """Return the end of a reply, then its usage, including `cached` tokens."""
    usage = USAGE if cached is None else {**USAGE, "prompt_tokens_details": {"cached_tokens": cached}}
    return [chunk({}, finish), {"choices": [], "usage": usage}]


@dataclass
class OpenAIServer:
    """Sends `answers` one after the other and stores the `requests`."""

    answers: list[Answer]
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> OpenAIServer:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {key.lower(): value for key, value in self.headers.items()}
                server.requests.append(Request(self.path, headers, body))
                answer = server.answers.pop(0)
                self.close_connection = True
                if isinstance(answer, Refusal):
                    self.refuse(answer)
                else:
                    # A client may stop reading at any time.
                    with contextlib.suppress(ConnectionError):
                        self.stream(answer)

            def refuse(self, answer: Refusal) -> None:
                body = json.dumps({"error": {"message": answer.message, "type": "refused"}}).encode()
                self.send_response(answer.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def stream(self, pieces: Sequence[Piece]) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in pieces:
                    match piece:
                        case Cut():
                            return
                        case End():
                            self.wfile.write(b"0\r\n\r\n")
                            return
                        case Raw():
                            self.event(piece.data)
                        case {"error": _}:
                            self.event(json.dumps(piece))
                        case _:
                            self.event(json.dumps({**HEAD, **piece}))
                self.event("[DONE]")
                self.wfile.write(b"0\r\n\r\n")

            def event(self, text: str) -> None:
                data = f"data: {text}\n\n".encode()
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
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
        return f"http://127.0.0.1:{self._server.server_port}/v1"


HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
