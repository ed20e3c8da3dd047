"""A stand-in for the part of Vercel's sandbox service that a runtime uses.

It speaks the service's HTTP API on loopback and runs the commands in this machine's shell. A temporary
directory stands for /vercel/sandbox: the path is replaced in requests and responses. Like the service it
tracks one process per command, and a signal reaches only that one.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import itertools
import json
import os
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs, urlsplit

INSIDE = "/vercel/sandbox"
TOKEN, TEAM, PROJECT = "token-for-tests", "team_for_tests", "prj_for_tests"


@dataclass
class Command:
    """A started command."""

    id: str
    args: list[str]
    cwd: str
    process: subprocess.Popen[bytes]

    def shown(self, code: int | None = None) -> dict[str, object]:
        """Return its metadata in the service's format; 128 plus a signal's number if that killed it."""
        return {
            "command": {
                "id": self.id,
                "name": self.args[0],
                "args": self.args[1:],
                "cwd": self.cwd,
                "sessionId": "sbx_session",
                "exitCode": 128 - code if code is not None and code < 0 else code,
                "startedAt": int(time.time() * 1000),
            }
        }


@dataclass
class State:
    """State of the stand-in."""

    root: Path
    commands: dict[str, Command] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    made: list[dict[str, object]] = field(default_factory=list)
    stopped: int = 0
    refuse_with: int | None = None

    def outside(self, text: str) -> str:
        return text.replace(INSIDE, str(self.root))

    def inside(self, text: str) -> str:
        return text.replace(str(self.root), INSIDE)


class VercelServer(ThreadingHTTPServer):
    """The stand-in; a context manager."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = State(root)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/api"

    def __enter__(self) -> VercelServer:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        for command in self.state.commands.values():
            if command.process.poll() is None:
                command.process.kill()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: VercelServer

    def log_message(self, *_: object) -> None:
        """Suppress the log."""

    def do_POST(self) -> None:
        self._route("POST")

    def do_GET(self) -> None:
        self._route("GET")

    def _route(self, method: str) -> None:
        body = self._body()
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        state = self.server.state
        if self.headers["authorization"] != f"Bearer {TOKEN}" or query.get("teamId") != [TEAM]:
            return self._refuse(403, "forbidden", "Not authorized")
        if state.refuse_with is not None:
            return self._refuse(state.refuse_with, "out_of_order", "Out of order")
        match [method, *url.path.removeprefix("/api/").split("/")]:
            case ["POST", "v3", "sandboxes"]:
                state.made.append(json.loads(body))
                return self._json(self._sandbox("running"))
            case ["POST", "v2", "sandboxes", "sessions", "sbx_session", *action]:
                return self._session(action, body)
        return self._refuse(404, "no_route", f"{method} {url.path}")

    def _session(self, action: list[str], body: bytes) -> None:
        state = self.server.state
        match action:
            case ["stop"]:
                state.stopped += 1
                return self._json(self._sandbox("stopped"))
            case ["cmd"]:
                return self._run(json.loads(body))
            case ["cmd", number, "kill"]:
                command = state.commands[number]
                if command.process.poll() is None:
                    os.kill(command.process.pid, json.loads(body)["signal"])
                return self._json(command.shown())
            case ["fs", "read"]:
                return self._read(json.loads(body))
            case ["fs", "mkdir"]:
                Path(state.outside(json.loads(body)["path"])).mkdir(parents=True, exist_ok=True)
                return self._json({})
            case ["fs", "write"]:
                return self._write(body)
        return self._refuse(404, "no_route", "/".join(action))

    def _sandbox(self, status: str) -> dict[str, object]:
        session = {"id": "sbx_session", "projectId": PROJECT, "status": status, "cwd": INSIDE}
        sandbox = {
            "name": "sandbox-for-tests",
            "currentSessionId": "sbx_session",
            "status": status,
            "projectId": PROJECT,
            "cwd": INSIDE,
        }
        return {"sandbox": sandbox, "session": session, "routes": []}

    def _run(self, asked: dict[str, object]) -> None:
        """Start a command and send its output, line by line, between two records of its metadata."""
        state = self.server.state
        args = [str(asked["command"]), *asked.get("args", [])]
        env = {"PATH": os.environ["PATH"], **asked.get("env", {})}
        process = subprocess.Popen(
            [state.outside(arg) for arg in args],
            cwd=state.root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        command = Command(f"cmd_{next(state.numbers)}", args, INSIDE, process)
        state.commands[command.id] = command
        if asked.get("timeout"):
            timer = threading.Timer(asked["timeout"] / 1000, process.kill)
            timer.daemon = True
            timer.start()
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        lock = threading.Lock()
        self._record(lock, command.shown())
        pumps = [
            threading.Thread(target=self._pump, args=(lock, name, stream), daemon=True)
            for name, stream in (("stdout", process.stdout), ("stderr", process.stderr))
        ]
        for pump in pumps:
            pump.start()
        for pump in pumps:
            pump.join()
        self._record(lock, command.shown(process.wait()))
        with contextlib.suppress(OSError):
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _pump(self, lock: threading.Lock, name: str, stream: IO[bytes]) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with stream:
            while data := stream.read1(65536):
                self._record(
                    lock, {"stream": name, "data": self.server.state.inside(decoder.decode(data))}
                )
        if rest := decoder.decode(b"", final=True):
            self._record(lock, {"stream": name, "data": rest})

    def _record(self, lock: threading.Lock, record: dict[str, object]) -> None:
        line = json.dumps(record).encode() + b"\n"
        with lock, contextlib.suppress(OSError):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()

    def _read(self, asked: dict[str, str]) -> None:
        path = Path(self.server.state.outside(asked["path"]))
        if not path.is_file():
            return self._refuse(404, "not_found", f"No such file: {asked['path']}")
        content = path.read_bytes()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        return None

    def _write(self, archive: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files:
            for member in files:
                path = Path(self.server.state.outside("/" + member.name))
                source = files.extractfile(member)
                assert source is not None
                with path.open("wb") as target:
                    shutil.copyfileobj(source, target)
        self._json({})

    def _body(self) -> bytes:
        if self.headers["transfer-encoding"] != "chunked":
            return self.rfile.read(int(self.headers["content-length"] or 0))
        parts: list[bytes] = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._json({"error": {"code": code, "message": message}}, status)

    def _json(self, content: dict[str, object], status: int = 200) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
