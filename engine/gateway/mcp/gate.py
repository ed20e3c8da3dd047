"""Messages between an MCP client and its server, of which calls are submitted to the gate. No I/O.

Every message passes unchanged, except requests of `tools/call`. A message that a server might read as
such a request, but this module as another one, is refused: repeated keys, keys and methods that differ
from known ones only in case or invisible characters, and lines that another reader would split. A
server's line with a repeated key is refused, too: its client might read another answer in it than the
gate recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, cast
from uuid import uuid4

from pydantic import JsonValue

from ...core.json_values import RepeatedKeyError, unique
from ...core.plan import PLAN, PLAN_DESCRIPTION, PLAN_SCHEMA
from ...core.sanitize import visible
from .frames import (
    CALL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Id,
    Key,
    Message,
    RefusedError,
    check_keys,
    error_line,
    error_of,
    has_controls,
    id_of,
    key_of,
    line_of,
    message_of,
    read,
)
from .results import CANCELLED, Outputs, ToolOutcome, add_note, is_object, read_outcome, result_type

MOST_OPEN: Final = 10_000
"""Maximum number of a client's unanswered requests."""
LIST: Final = "tools/list"
PLAN_TOOL: Final = "interlock_plan"
"""Name of the tool with which a client presents a plan."""
_PLAN_LISTED: Final[Message] = {
    "name": PLAN_TOOL,
    "description": PLAN_DESCRIPTION,
    "inputSchema": cast("JsonValue", dict(PLAN_SCHEMA)),
}
_CALL_MEMBERS: Final = frozenset({"name", "arguments", "_meta"})
_LOOK: Final = (
    "What was called may have run: look what was done before you call it again, and tell whoever "
    "maintains that server"
)
_QUESTION: Final = "interlock-waiting-"
_GOES_ON: Final = "It continues when they decide; you cannot decide it here. Close this to keep waiting."
_LONGEST_NAME: Final = 100
_LONGEST_REASON: Final = 1_000
_STOP_SCHEMA: Final[Message] = {
    "type": "object",
    "properties": {
        "stop": {
            "type": "boolean",
            "title": "Stop waiting",
            "description": "Withdraw the call: it is not made, and the agent is told so.",
            "default": False,
        }
    },
}
_META: Final = "io.modelcontextprotocol/"
_CLIENT: Final = tuple(_META + each for each in ("protocolVersion", "clientInfo", "clientCapabilities"))


@dataclass(slots=True, eq=False)
class McpCall:
    """A `tools/call` of the client. `gate_id` is its id at the gate, because a client's ids repeat."""

    gate_id: str
    id: Id
    name: str
    tool: str
    input: Message
    frame: Message
    token: Id | None = None
    state: Literal["waiting", "sent", "settled"] = "waiting"
    approved: Message = field(default_factory=dict[str, JsonValue])
    edited: bool = False
    given_up: bool = False
    progress_count: int = 0
    question: str | None = None
    """Id of the open request that tells the client's user that the call waits."""
    stopped: bool = False
    """True if the client's user wants to stop waiting."""
    own: bool = False
    """True for a call that Interlock answers itself, which the server never sees."""
    takes_more: bool = False
    """True if the data of its result may have an additional field, see `results.Outputs`."""


@dataclass(frozen=True, slots=True)
class ToServer:
    """A line to pass to the server."""

    line: bytes


@dataclass(frozen=True, slots=True)
class ToClient:
    """An answer of the proxy itself."""

    line: bytes


@dataclass(frozen=True, slots=True)
class Ask:
    """A call to submit to the gate; `McpGate.allowed_line` or `McpGate.refusal_line` follows."""

    call: McpCall


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A pending call that the client has cancelled, and that is already forgotten here.

    `timed_out` is true if the client cancelled it after waiting too long, and not at its user's request.
    """

    call: McpCall
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """A pending call, to be answered now, for which the client's user no longer wants to wait."""

    call: McpCall


@dataclass(frozen=True, slots=True)
class Settle:
    """Result of a call, for the gate; `request_id` is the id of the answered request."""

    call: McpCall
    outcome: ToolOutcome
    request_id: Id


Step: TypeAlias = ToServer | ToClient | Ask | Withdraw | Stop | Settle


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """A server's line, and the calls to settle before it passes.

    `line` is `None` for a line that must not pass, or contains errors for the requests that it answers.
    `note` is the reason; `back` is an error for the server if the server itself awaits an answer.
    """

    line: bytes | None
    settled: tuple[Settle, ...] = ()
    note: str = ""
    back: bytes = b""


_TIMED_OUT = re.compile(r"\btimed?[ -]?out\b", re.IGNORECASE)
"""Matches a cancellation's reason if the client waited too long, as common clients phrase it."""


def _shows_forms(capabilities: JsonValue) -> bool:
    """Return whether a client can show forms; one that lists no modes can."""
    elicitation = capabilities.get("elicitation") if is_object(capabilities) else None
    return is_object(elicitation) and (not elicitation or "form" in elicitation)


class _Members(tuple[tuple[str, JsonValue], ...]):
    """Members of an object, including repeated keys."""

    __slots__ = ()


@dataclass(slots=True)
class _Request:
    """A client's unanswered request; `call` is the call that its answer settles."""

    method: str
    call: McpCall | None = None


class McpGate:
    """One client's conversation with one server. `prefix` is put before the tools' names at the gate.

    With `plans`, the server's list of tools includes `interlock_plan`, which replaces a tool of that
    name. With `inform`, a client that can show forms tells its user that a call waits.
    """

    def __init__(
        self,
        *,
        prefix: str = "",
        plans: bool = False,
        inform: bool = False,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        self.client = self.server = ""
        self._prefix = prefix
        self._plans = plans
        self._inform = inform
        self._shows_forms = False
        self._questions: dict[str, McpCall] = {}
        self._new_id = new_id
        self._open: dict[Key, _Request] = {}
        self._unfinished: dict[str, McpCall] = {}
        self._tasks: dict[str, McpCall] = {}
        self._outputs = Outputs()

    # Messages from the client

    def handle_client(self, line: bytes) -> tuple[Step, ...]:
        """Return the steps that follow from a line of the client."""
        body = line.rstrip(b"\r\n")
        if not body.strip(b" \t"):
            return (ToServer(line),)
        try:
            document = read(body)
            if isinstance(document, list):
                return self._batch(document, line)
            return self._message(message_of(document), line)
        except RefusedError as error:
            return (ToClient(error_line(error.id, error.code, str(error))),)

    def _message(self, message: Message, line: bytes) -> tuple[Step, ...]:
        if "method" not in message:
            answer_id = message.get("id")
            if isinstance(answer_id, str) and answer_id.startswith(_QUESTION):
                return self._take_answer(answer_id, message)
            return (ToServer(line),)
        if message["method"] == CALL:
            return self._call(message)
        if self._is_withdrawal(message):
            return (self._withdrawal(message),)
        return (*self._begin(message), ToServer(line))

    def _batch(self, batch: list[JsonValue], line: bytes) -> tuple[Step, ...]:
        """Handle a batch, several messages in one line, as older versions allow; none may be a call."""
        try:
            messages = [message_of(each) for each in batch]
            if any(each.get("method") == CALL for each in messages):
                raise RefusedError("a tools/call must be sent by itself, not in a batch")
            request_ids = [key_of(each["id"]) for each in messages if "method" in each and "id" in each]
            if len(set(request_ids)) < len(request_ids) or any(
                each in self._open for each in request_ids
            ):
                raise RefusedError("an id is in use")
        except RefusedError as error:
            ids = [each["id"] for each in batch if is_object(each) and "method" in each and "id" in each]
            errors = [
                error_of(id_of(each), error.code, str(error)) for each in ids if id_of(each) is not None
            ]
            refusals: list[JsonValue] = [*errors] or [error_of(None, error.code, str(error))]
            return (ToClient(line_of(refusals)),)
        steps: list[Step] = []
        for message in messages:
            if "method" in message and self._is_withdrawal(message):
                steps.append(self._withdrawal(message))
            elif "method" in message:
                steps += self._begin(message)
        return (*steps, ToServer(line))

    def _call(self, message: Message) -> tuple[Step, ...]:
        request_id = id_of(message.get("id"))
        if request_id is None:
            raise RefusedError("a tools/call needs an id, a text or a whole number; it was not passed on")
        self._check_new(message)
        params = message.get("params")
        if not is_object(params):
            raise RefusedError("params: expected an object", request_id, INVALID_PARAMS)
        check_keys(params, _CALL_MEMBERS, request_id)
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not name or has_controls(name):
            raise RefusedError("params.name: expected the name of a tool", request_id, INVALID_PARAMS)
        if arguments is not None and not is_object(arguments):
            raise RefusedError("params.arguments: expected an object", request_id, INVALID_PARAMS)
        meta = params.get("_meta")
        self._note_client(meta)
        token = id_of(meta.get("progressToken")) if is_object(meta) else None
        earlier = self._unfinished.pop(_call_key(name, arguments, params.get("requestState")), None)
        if earlier is not None:
            # The server requested more input for an allowed call: the same call continues.
            earlier.id, earlier.frame, earlier.token = request_id, message, token
            self._open[key_of(request_id)] = _Request(CALL, earlier)
            return (ToServer(self.allowed_line(earlier, earlier.approved, edited=earlier.edited)),)
        call = McpCall(
            self._new_id(), request_id, name, self._prefix + name, arguments or {}, message, token
        )
        if self._plans and name == PLAN_TOOL:
            call.tool, call.own = PLAN, True
        self._open[key_of(request_id)] = _Request(CALL, call)
        return (Ask(call),)

    def _begin(self, message: Message) -> tuple[Step, ...]:
        """Register a request or notification that passes."""
        method, params = cast("str", message["method"]), message.get("params")
        if method == CANCELLED_NOTICE:
            return self._handle_cancellation(message)
        if "id" in message and id_of(message["id"]) is not None:
            self._check_new(message)
            request = _Request(method)
            if is_object(params):
                task = params.get("taskId")
                if method == "tasks/result" and isinstance(task, str):
                    request.call = self._tasks.get(task)
                info = params.get("clientInfo")
                if method == "initialize" and is_object(info):
                    self.client = self.client or _name(info)
                if method == "initialize":
                    self._shows_forms = _shows_forms(params.get("capabilities"))
                self._note_client(params.get("_meta"))
            self._open[key_of(message["id"])] = request
        return ()

    def _handle_cancellation(self, message: Message) -> tuple[Step, ...]:
        """Handle the cancellation of a request that was passed on and may already have taken effect."""
        request = self._open.get(key_of(_cancelled_id(message)))
        if request is None or request.call is None or request.method != CALL:
            return ()
        if request.call.state != "sent":
            return ()
        request.call.state = "settled"
        return (Settle(request.call, CANCELLED, request.call.id),)

    def _is_withdrawal(self, message: Message) -> bool:
        """Return whether a message cancels a call that was not passed to the server yet."""
        request = self._open.get(key_of(_cancelled_id(message)))
        return request is not None and request.call is not None and request.call.state == "waiting"

    def _withdrawal(self, message: Message) -> Withdraw:
        call = self._open.pop(key_of(_cancelled_id(message))).call
        assert call is not None
        params = message.get("params")
        reason = params.get("reason") if is_object(params) else None
        return Withdraw(call, isinstance(reason, str) and _TIMED_OUT.search(reason) is not None)

    def _check_new(self, message: Message) -> None:
        if key_of(message.get("id")) in self._open:
            # Without the id, because the client would take the error as the other request's answer.
            raise RefusedError(
                f"the id {json.dumps(message.get('id'))[:100]} is in use; it has no answer yet"
            )
        if len(self._open) >= MOST_OPEN:
            raise RefusedError(f"{MOST_OPEN} requests have no answer yet", id_of(message.get("id")))

    def _note_client(self, meta: JsonValue) -> None:
        """Store the name of the client, which newer clients send with every request."""
        info = meta.get(_META + "clientInfo") if is_object(meta) else None
        if is_object(info):
            self.client = self.client or _name(info)

    # Answers of the gate

    def allowed_line(self, call: McpCall, approved: Message, *, edited: bool = False) -> bytes:
        """Return the line that makes a call, with the approved input."""
        params = dict(cast("Message", call.frame["params"]))
        if approved or params.get("arguments") is not None:
            params["arguments"] = approved
        call.state, call.approved, call.edited = "sent", approved, edited
        return line_of({**call.frame, "params": params})

    def refusal_line(self, call: McpCall, reason: str) -> bytes:
        """Return the result of a refused call."""
        self._open.pop(key_of(call.id), None)
        return result_line(call, reason)

    def own_line(self, call: McpCall, text: str) -> bytes:
        """Return the result of a call that Interlock answers itself."""
        self._open.pop(key_of(call.id), None)
        return result_line(call, text, failed=False)

    def unlisted_line(self, call: McpCall, reason: str) -> bytes:
        """Return the error for a call of a tool that the server is not known to list (G-66)."""
        self._open.pop(key_of(call.id), None)
        return error_line(call.id, INVALID_PARAMS, reason)

    def progress(self, call: McpCall, message: str) -> bytes | None:
        """Return a progress notification for a pending call, if the client requested progress."""
        if call.token is None:
            return None
        call.progress_count += 1
        # Progress must increase, and the server's own reports for the same call later start near 0.
        params: Message = {
            "progressToken": call.token,
            "progress": call.progress_count * 1e-6,
            "message": message,
        }
        return line_of({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    # Forms for the client's user, who may stop waiting but never decides: the client belongs to the
    # agent.

    def question(self, call: McpCall, reason: str) -> bytes | None:
        """Return a request that tells the client's user what a call waits for; `None` if unwanted."""
        if not self._inform or not self._shows_forms or call.question is not None:
            return None
        call.question = f"{_QUESTION}{self._new_id()}"
        self._questions[call.question] = call
        # A long name comes from the server, and could displace Interlock's own text.
        name, why = visible(call.name)[:_LONGEST_NAME], visible(reason)[:_LONGEST_REASON]
        text = f"'{name}' waits for an operator of Interlock: {why}. {_GOES_ON}"
        params: Message = {"message": text, "requestedSchema": _STOP_SCHEMA}
        request: Message = {"jsonrpc": "2.0", "id": call.question, "method": "elicitation/create"}
        return line_of({**request, "params": params})

    def end_question(self, call: McpCall) -> bytes | None:
        """Return a notice that cancels the request to the user, if it is still open."""
        if call.question is None or self._questions.pop(call.question, None) is None:
            return None
        params: Message = {"requestId": call.question, "reason": "the call no longer waits"}
        return line_of({"jsonrpc": "2.0", "method": CANCELLED_NOTICE, "params": params})

    def _take_answer(self, question: str, message: Message) -> tuple[Step, ...]:
        """Handle the user's answer: only a ticked `stop` stops anything; other answers change nothing."""
        call, result = self._questions.pop(question, None), message.get("result")
        if call is None or call.state != "waiting" or not is_object(result):
            return ()
        content = result.get("content")
        stops = is_object(content) and content.get("stop") is True
        return (Stop(call),) if result.get("action") == "accept" and stops else ()

    # Messages from the server

    def handle_server(self, line: bytes) -> CheckedLine:
        """Settle the calls that a line of the server answers.

        Every line passes, unless it answers too early or is ambiguous.
        """
        try:
            document = cast("JsonValue", json.loads(line, object_pairs_hook=unique))
        except RepeatedKeyError as error:
            return self._ambiguous(line, error)
        except (ValueError, RecursionError):
            return CheckedLine(line)
        answers = [
            each
            for each in (document if isinstance(document, list) else [document])
            if is_object(each) and "id" in each and "method" not in each
        ]
        for response in answers:
            request = self._open.get(key_of(response["id"]))
            if request is not None and request.call is not None and request.call.state == "waiting":
                return CheckedLine(
                    None, note=f"the server answered {request.call.name} before it was asked"
                )
        settlements: list[Settle] = []
        has_listed_plan = False
        for response in answers:
            request = self._open.pop(key_of(response["id"]), None)
            if request is not None:
                settlements += self._handle_answer(request, response)
                has_listed_plan = (
                    self._plans and request.method == LIST and _list_plan(response)
                ) or has_listed_plan
        return CheckedLine(line_of(document) if has_listed_plan else line, tuple(settlements))

    def _ambiguous(self, line: bytes, error: RepeatedKeyError) -> CheckedLine:
        """Refuse an ambiguous line to everyone who may await one of its possible messages."""
        document: object = json.loads(line, object_pairs_hook=_Members)
        reason = f"the MCP server sent an ambiguous message: {error}. {_LOOK}"
        answers, back = b"", b""
        settlements: list[Settle] = []
        for message in cast("list[object]", document) if isinstance(document, list) else [document]:
            members = message if isinstance(message, _Members) else _Members()
            ids = {key_of(value): id_of(value) for key, value in members if key == "id"}
            for key, request_id in ids.items():
                refusal = error_of(request_id, INVALID_REQUEST, reason)
                if any(name == "method" for name, _ in members):
                    back += line_of(refusal)
                    continue
                request = self._open.get(key)
                if request is None or (request.call is not None and request.call.state == "waiting"):
                    continue
                del self._open[key]
                settlements += self._handle_answer(request, refusal)
                answers += line_of(refusal)
        return CheckedLine(answers or None, tuple(settlements), reason, back)

    def _handle_answer(self, request: _Request, answer: Message) -> tuple[Settle, ...]:
        call, result = request.call, answer.get("result")
        if call is None:
            self._note_server(request.method, result)
            self._outputs.note_tools(request.method, result)
            return ()
        if call.state == "settled":
            return ()
        if request.method == CALL and is_object(result):
            if result_type(result) == "input_required":
                params = cast("Message", call.frame["params"])
                call_key = _call_key(call.name, params.get("arguments"), result.get("requestState"))
                self._unfinished[call_key] = call
                return ()
            task = result.get("task")
            if is_object(task) and "content" not in result and isinstance(task.get("taskId"), str):
                self._tasks[cast("str", task["taskId"])] = call
                return ()
        call.state, call.takes_more = "settled", self._outputs.take_more(call.name)
        self._tasks = {task: each for task, each in self._tasks.items() if each is not call}
        return (Settle(call, read_outcome(answer), cast("Id", answer["id"])),)

    def _note_server(self, method: str, result: JsonValue) -> None:
        if method not in ("initialize", "server/discover") or not is_object(result):
            return
        meta = result.get("_meta")
        newer = meta.get(_META + "serverInfo") if is_object(meta) else None
        for info in (result.get("serverInfo"), newer):
            if is_object(info):
                self.server = self.server or _name(info)

    def unsettled_calls(self) -> list[McpCall]:
        """Calls that were passed on and have no result."""
        open_calls = [each.call for each in self._open.values() if each.call is not None]
        calls = {
            id(each): each for each in (*open_calls, *self._tasks.values(), *self._unfinished.values())
        }
        return [each for each in calls.values() if each.state == "sent"]


def client_meta(call: McpCall) -> Message:
    """Return the client's `_meta` about itself, which newer clients send, for a request on its behalf."""
    meta = cast("Message", call.frame["params"]).get("_meta")
    return {key: meta[key] for key in _CLIENT if key in meta} if is_object(meta) else {}


CANCELLED_NOTICE: Final = "notifications/cancelled"


def _list_plan(answer: Message) -> bool:
    """Append the tool for plans to a server's list of tools; return false if there is no list."""
    result = answer.get("result")
    tools = result.get("tools") if is_object(result) else None
    if not is_object(result) or not isinstance(tools, list):
        return False
    others: list[JsonValue] = [
        each for each in tools if not (is_object(each) and each.get("name") == PLAN_TOOL)
    ]
    last = not isinstance(result.get("nextCursor"), str)
    result["tools"] = [*others, {**_PLAN_LISTED}] if last else others
    return True


def result_line(call: McpCall, text: str, answer_id: Id | None = None, *, failed: bool = True) -> bytes:
    """Return a tool result with the reason why there is none, or with Interlock's own answer.

    `answer_id` is the id of another request that is answered, if any.
    """
    result: Message = {"content": [{"type": "text", "text": text}], "isError": failed}
    meta = cast("Message", call.frame["params"]).get("_meta")
    if is_object(meta) and _META + "protocolVersion" in meta:
        result["resultType"] = "complete"
    request_id = call.id if answer_id is None else answer_id
    return line_of({"jsonrpc": "2.0", "id": request_id, "result": result})


def annotate(lines: bytes, calls: Mapping[Key, McpCall]) -> bytes:
    """Add a note for the model to a server's answers of calls whose input an operator edited."""
    if not calls:
        return lines
    return b"".join(_annotate_line(each, calls) for each in lines.removesuffix(b"\n").split(b"\n"))


def _annotate_line(line: bytes, calls: Mapping[Key, McpCall]) -> bytes:
    document = cast("JsonValue", json.loads(line))
    for response in document if isinstance(document, list) else [document]:
        call = calls.get(key_of(response.get("id"))) if is_object(response) else None
        result = response.get("result") if is_object(response) else None
        if call is not None and is_object(result):
            add_note(result, call.approved, structured=call.takes_more)
    return line_of(document)


def edited_calls(settled: tuple[Settle, ...]) -> dict[Key, McpCall]:
    """Calls that ran with an edited input, by the ids of the answered requests."""
    return {key_of(each.request_id): each.call for each in settled if each.call.edited}


def _cancelled_id(message: Message) -> JsonValue:
    params = message.get("params")
    if message.get("method") != CANCELLED_NOTICE or not is_object(params):
        return None
    return params.get("requestId")


def _call_key(name: str, arguments: JsonValue, state: JsonValue) -> str:
    return json.dumps([name, arguments, state], sort_keys=True)


def _name(info: Message) -> str:
    name = info.get("name")
    return name.strip()[:90] if isinstance(name, str) else ""
