"""Client of a hook: one connection for one call.

The frames are those of `agent_methods`, written and read without its models, which take longer to load
than a whole call takes. A frame that does not fit is an error, and an error lets nothing run.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar, cast

from .websocket import HookError, HookSocket, NotLetInError

T = TypeVar("T")
JsonObject = dict[str, object]

VERSION = 1
UNKNOWN, REFUSED, METHOD, PARAMS = -32001, -32000, -32601, -32602
"""Values of `protocol.framing.Code`, which is not loaded here."""
GRACE = 3.0
"""Seconds that an answer may take to arrive."""


class NoTokenError(HookError):
    """This user has no token yet, because no server has run."""


class HookRefusedError(HookError):
    """The server refused a request; `code` is one of `protocol.framing.Code`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Opening:
    """Terms of a session that the server does not know yet; `shell` runs the agent's commands."""

    session: str
    agent: str
    workdir: str | None = None
    shell: str | None = None
    model: str = ""
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HookVerdict:
    """Decision on a call; `waiting` if no operator decided by the deadline.

    `approved` means that an operator approved the call, `shadow` that the server runs in shadow mode.
    """

    outcome: Literal["allow", "block", "waiting"]
    input: JsonObject
    edited: bool
    reason: str
    shadow: bool
    approved: bool


@dataclass(frozen=True, slots=True)
class HookSession:
    """A live session; `judged` is true if any net judges it."""

    judged: bool
    shadow: bool


class HookClient:
    """A connection that has exchanged greetings by `until`, a monotonic time. Raises `HookError`."""

    def __init__(self, url: str, token: str, until: float) -> None:
        self.url = url
        self._number = 0
        self._socket = HookSocket(url, token, until)
        try:
            welcome = self.ask("hello", {"versions": [VERSION], "client": "hook"}, until)
        except HookRefusedError as error:
            self.close()
            raise NotLetInError(f"{url}: {error}") from error
        except BaseException:
            self.close()
            raise
        frame = welcome.get("frame")
        self.frame = frame if isinstance(frame, int) else 1 << 20

    def watch(self) -> None:
        """From now on, raise `SilentError` if the server answers nothing, not even pings."""
        self._socket.watched = True

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, method: str, params: Mapping[str, object], until: float) -> JsonObject:
        """Send a request and return its result."""
        self._number += 1
        try:
            text = json.dumps(
                {"jsonrpc": "2.0", "method": method, "id": self._number, "params": params},
                allow_nan=False,
                separators=(",", ":"),
            )
        except ValueError as error:
            raise HookError(f"the request cannot be encoded as JSON: {error}") from error
        if self._number > 1 and len(text) > self.frame:
            raise HookError(
                f"the call is {len(text)} bytes long and the server at {self.url} takes {self.frame}; "
                "do it in smaller parts"
            )
        self._socket.send(text, until)
        while True:
            message = _object(self._socket.receive(until), self.url)
            if "method" in message:
                continue
            if message.get("id") == self._number or message.get("id") is None:
                return self._result(message)

    def _result(self, message: JsonObject) -> JsonObject:
        error = message.get("error")
        if isinstance(error, dict):
            fields = cast("JsonObject", error)
            code, text = fields.get("code"), fields.get("message")
            raise HookRefusedError(code if isinstance(code, int) else 0, str(text))
        result = message.get("result")
        if not isinstance(result, dict) or message.get("id") is None:
            raise HookError(f"{self.url} sent an invalid answer")
        return cast("JsonObject", result)

    # Sessions

    def open(self, opening: Opening, until: float) -> HookSession:
        """Resume the session, which keeps the markings of its nets, or open it."""
        try:
            answer = self._resume(opening, until)
        except HookRefusedError as error:
            if error.code != UNKNOWN:
                raise
            answer = self._begin(opening, until)
        return HookSession(judged=bool(answer.get("active")), shadow=answer.get("mode") != "enforce")

    def _resume(self, opening: Opening, until: float) -> JsonObject:
        params = {"session": opening.session, "rules": list(opening.rules)}
        return self.ask("session.resume", params, until)

    def _begin(self, opening: Opening, until: float) -> JsonObject:
        params = {
            "session": opening.session,
            "agent": opening.agent,
            "model": opening.model[:200],
            "rules": list(opening.rules),
            "workdir": opening.workdir,
            "shell": opening.shell,
        }
        try:
            return self.ask("session.open", params, until)
        except HookRefusedError as error:
            # Two hooks of one agent may run at the same time: then the other one has opened the session.
            with suppress(HookRefusedError):
                return self._resume(opening, until)
            raise error from None

    def end_turn(self, opening: Opening, until: float) -> None:
        """Report the end of the agent's turn; do nothing for a session that was never opened."""
        params = {"session": opening.session}
        try:
            self.ask("session.end_turn", params, until)
        except HookRefusedError as error:
            if error.code != UNKNOWN:
                raise
            with suppress(HookRefusedError):
                self._resume(opening, until)
                self.ask("session.end_turn", params, until)

    def end(self, session: str, until: float) -> None:
        """Close a session and its calls without results; a session that is not live counts as closed."""
        with suppress(HookRefusedError):
            self.ask("session.end_turn", {"session": session}, until)
        try:
            self.ask("session.close", {"session": session}, until)
        except HookRefusedError as error:
            if error.code != UNKNOWN:
                raise

    # Calls

    def judge(
        self,
        opening: Opening,
        call: str,
        tool: str,
        call_input: JsonObject,
        until: float,
        *,
        subagent: str = "",
    ) -> HookVerdict:
        """Request a decision on a call; the answer is `waiting` if there is none by `until`."""
        params = {"session": opening.session, "call": call, "tool": tool, "input": call_input}
        subagent_field = {"subagent": subagent} if subagent else {}

        def send() -> HookVerdict:
            wait = max(0.0, until - time.monotonic())
            timed_params = params | {"wait": wait}
            try:
                answer = self.ask(
                    "tool.call", timed_params | subagent_field, time.monotonic() + wait + GRACE
                )
            except HookRefusedError as error:
                if not subagent_field or error.code != PARAMS:
                    raise
                # An older server, which does not support the field.
                answer = self.ask("tool.call", timed_params, time.monotonic() + wait + GRACE)
            return _read_verdict(answer, self.url)

        return self._in_session(send, lambda: self.open(opening, until + GRACE))

    def give_up(self, session: str, call: str, reason: str, until: float) -> datetime | None:
        """Stop waiting for an undecided call; return the time until which its request stays open.

        Returns `None` if the call is withdrawn.
        """
        params = {"session": session, "call": call, "reason": reason[:2000]}
        try:
            open_until = self.ask("tool.give_up", params, until).get("until")
        except HookRefusedError as error:
            if error.code != METHOD:
                raise
            # An older server, which does not support the method.
            self.withdraw(session, call, reason, until)
            return None
        if open_until is None:
            with suppress(HookRefusedError):
                self.not_run(session, call, reason, until)
            return None
        try:
            return datetime.fromisoformat(str(open_until))
        except ValueError as error:
            raise HookError(f"{self.url} sent an invalid answer") from error

    def withdraw(self, session: str, call: str, reason: str, until: float) -> None:
        """Withdraw a call.

        A last-moment decision may already be recorded, so this also reports that nothing ran.
        """
        self.ask("tool.withdraw", {"session": session, "call": call, "reason": reason}, until)
        with suppress(HookRefusedError):
            self.not_run(session, call, reason, until)

    def not_run(self, session: str, call: str, reason: str, until: float) -> None:
        """Report that an allowed call did not run."""
        params = {"session": session, "call": call, "output": f"Not run: {reason}", "is_error": True}
        self.ask("tool.result", params, until)

    def settle(self, opening: Opening, call: str, output: str, until: float, *, is_error: bool) -> None:
        """Report the result of a call, shortened to the server's limit."""
        output = output.encode("utf-8", "replace").decode()
        room = self.frame - 4096
        if len(json.dumps(output)) > room:
            # JSON takes at most twelve bytes for a character.
            size = max(0, room // 12)
            output = f"{output[:size]}\n… {len(output) - size} more characters were left out"
        params = {"session": opening.session, "call": call, "output": output, "is_error": is_error}
        self._in_session(
            lambda: self.ask("tool.result", params, until), lambda: self._resume(opening, until)
        )

    @staticmethod
    def _in_session(work: Callable[[], T], restore: Callable[[], object]) -> T:
        """Do `work`; if the server does not know the session, repeat it once after `restore`.

        After a restart, a server knows a session only from its record.
        """
        try:
            return work()
        except HookRefusedError as error:
            if error.code != UNKNOWN:
                raise
        restore()
        return work()


def token_of(path: Path) -> str:
    """Read the token from a file of its owner, like `tokens.read_secret`. Raises `HookError`."""
    try:
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(status.st_mode) & 0o077:
                raise NotLetInError(f"{path}: others may read or write it; run: chmod 600 '{path}'")
            return file.read().strip()
    except FileNotFoundError as error:
        raise NoTokenError(f"{path}: there is no token") from error
    except (OSError, UnicodeDecodeError) as error:
        raise NotLetInError(f"{path}: cannot be read: {error}") from error


def _read_verdict(answer: JsonObject, url: str) -> HookVerdict:
    """Check an answer, which must be exactly as the protocol specifies."""
    outcome, call_input, mode = answer.get("outcome"), answer.get("input"), answer.get("mode")
    is_edited, reason = answer.get("edited", False), answer.get("reason")
    is_approved = answer.get("approved", False)
    if (
        outcome not in ("allow", "block", "waiting")
        or not isinstance(call_input, dict)
        or not isinstance(is_edited, bool)
        or not isinstance(is_approved, bool)
        or not isinstance(reason, str | None)
        or mode not in ("enforce", "shadow")
    ):
        raise HookError(f"{url} sent an invalid answer")
    return HookVerdict(
        outcome,
        cast("JsonObject", call_input),
        is_edited,
        reason or "",
        mode == "shadow",
        is_approved,
    )


def _object(text: str, url: str) -> JsonObject:
    try:
        message: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HookError(f"{url} sent invalid JSON") from error
    if not isinstance(message, dict):
        raise HookError(f"{url} sent an invalid message")
    return cast("JsonObject", message)
