"""An ACP agent for tests, made with the SDK's agent side: it runs the steps of each prompt in order.

A prompt is a JSON list of steps. The file `done.jsonl` in the session's directory records what the agent
really did and which answers it got, one per line.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

# Each of many agents imports all this; collections would take a third of that time.
gc.disable()
atexit.register(gc.freeze)

from acp import PROTOCOL_VERSION, run_agent  # noqa: E402
from acp.schema import (  # noqa: E402
    AgentCapabilities,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    ResumeSessionResponse,
    SessionNotification,
    ToolCallUpdate,
)

ONCE = [("yes", "allow_once"), ("always", "allow_always"), ("no", "reject_once")]


class ScriptedAgent:
    """The agent that the module describes."""

    def __init__(self) -> None:
        self.directory = Path()
        self.cancelled = asyncio.Event()

    def on_connect(self, conn: object) -> None:
        self.client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: object = None, **_: object
    ) -> InitializeResponse:
        self.capabilities = client_capabilities
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities.model_validate(
                {
                    "loadSession": "load" in sys.argv,
                    "sessionCapabilities": {"resume": {} if "resume" in sys.argv else None},
                }
            ),
            # The name of a real agent is that of its package, with its scope.
            agent_info=Implementation(name="@acme/scripted", version="1"),
        )

    async def new_session(self, cwd: str, **_: object) -> NewSessionResponse:
        self.directory = Path(cwd)
        return NewSessionResponse(session_id="s1")

    async def load_session(self, cwd: str, session_id: str, **_: object) -> LoadSessionResponse:
        self.directory = Path(cwd)
        self.note("loaded", session_id)
        await self.step("say", "what was said before")
        return LoadSessionResponse()

    async def resume_session(self, cwd: str, session_id: str, **_: object) -> ResumeSessionResponse:
        self.directory = Path(cwd)
        self.note("resumed", session_id)
        return ResumeSessionResponse()

    async def cancel(self, session_id: str, **_: object) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list, **_: object) -> PromptResponse:
        self.cancelled.clear()
        self.note("prompted", [block.text for block in prompt])
        stop = "end_turn"
        for block in prompt:
            try:
                steps = json.loads(block.text)
            except ValueError:
                steps = [["say", f"You said: {block.text}"]]
            for step in steps:
                stop = await self.step(*step) or stop
        return PromptResponse(stop_reason="cancelled" if self.cancelled.is_set() else stop)

    async def step(self, what: str, *given: object) -> str | None:
        match what, *given:
            case "say", str(text):
                await self.update(
                    sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}
                )
            case "update", dict(update):
                await self.update(**update)
            case "ask", dict(call), *rest:
                await self.ask(call, rest[0] if rest else ONCE)
            case "ask_twice", dict(call):
                await asyncio.gather(self.ask(call, ONCE), self.ask(call, ONCE))
            case "stop", str(reason):
                return reason
            case ("until_cancelled",):
                await self.cancelled.wait()
                self.note("cancelled", True)
            case "raw", str(text):
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
            case "request", str(method), dict(params):
                try:
                    self.note("answer", await self.client._conn.send_request(method, params))
                except Exception as error:
                    self.note("error", str(error))
            case "complain", str(text):
                print(text, file=sys.stderr, flush=True)
            case "start_child", *rest:
                child = await asyncio.create_subprocess_exec(
                    "sleep", "1000", stdin=subprocess.DEVNULL, start_new_session=rest == ["session"]
                )
                self.note("child", child.pid)
            case ("start_daemon",):
                self.note("child", start_daemon())
            case "signal_supervisors", [*signals]:
                above = supervisors()
                for which, number in signals:
                    os.kill(above[which], number)
            case ("pid",):
                self.note("pid", os.getpid())
            case "die", int(code):
                os._exit(code)
            case _:
                raise ValueError(what)
        return None

    async def ask(self, call: dict, options: list) -> None:
        """Request permission; run and report an allowed call, report any other call as failed."""
        call = {"kind": "execute", "title": "a call", **call}
        await self.update(sessionUpdate="tool_call", status="pending", **call)
        outcome = await self.client.request_permission(
            session_id="s1",
            tool_call=ToolCallUpdate.model_validate(call),
            options=[PermissionOption(option_id=i, name=i, kind=kind) for i, kind in options],
        )
        chosen = getattr(outcome.outcome, "option_id", "cancelled")
        self.note("chosen", chosen)
        if chosen != "cancelled" and chosen in ("yes", "always"):
            self.note("ran", call["toolCallId"])
            content = [{"type": "content", "content": {"type": "text", "text": "it worked"}}]
            status = "completed"
        else:
            content, status = [], "failed"
        await self.update(
            sessionUpdate="tool_call_update",
            toolCallId=call["toolCallId"],
            status=status,
            content=content,
        )

    async def update(self, **update: object) -> None:
        said = SessionNotification.model_validate({"sessionId": "s1", "update": update})
        await self.client.session_update(session_id="s1", update=said.update)

    def note(self, what: str, value: object) -> None:
        with (self.directory / "done.jsonl").open("a") as file:
            file.write(json.dumps([what, value]) + "\n")


def start_daemon() -> int:
    """Start a process in its own session, whose parent is not this agent, and return its number."""
    started = "setsid sleep 1000 > /dev/null & echo $!"
    return int(subprocess.run(["sh", "-c", started], stdout=subprocess.PIPE, check=True).stdout)


def supervisors() -> dict[str, int]:
    """Return the numbers of the processes above this agent."""
    inner = os.getppid()
    outer = Path(f"/proc/{inner}/stat").read_text().rsplit(")", 1)[1].split()[1]
    return {"inner": inner, "outer": int(outer)}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["dies"]:
            print("no key was given", file=sys.stderr)
            sys.exit(3)
        case ["old"]:
            asked = json.loads(sys.stdin.readline())
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": 0}}))
            sys.stdout.flush()
            sys.stdin.read()
        case ["locked"]:
            asked = json.loads(sys.stdin.readline())
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": 1}}))
            sys.stdout.flush()
            asked = json.loads(sys.stdin.readline())
            error = {"code": -32000, "message": "Authentication required"}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}))
            sys.stdout.flush()
            sys.stdin.read()
        case _:
            asyncio.run(run_agent(ScriptedAgent(), use_unstable_protocol="resume" in sys.argv))
