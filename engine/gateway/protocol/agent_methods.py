"""Methods that agents call on a server."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue, StrictBool, field_validator

from ...core.condition import Shell, shell_named
from ...core.hints import Hint
from ...core.rights import Rights
from ...core.rule import check_tool_name
from ...recording.explanation import ExplanationView
from ...sessions.call_answer import CallAnswer
from .framing import Nothing, Payload, ServerMessage
from .method import Method, NoticeType

Mode = Literal["enforce", "shadow"]

_ID = Field(min_length=1, max_length=200)
_NAME = Field(min_length=1, max_length=200)


class Hello(Payload):
    """The first message: the protocol version of the client. `client` is for the server's log.

    A `read_only` console is refused every method that needs more than a token of kind `look`.
    """

    versions: tuple[int, ...] = Field(min_length=1, max_length=16)
    client: str = Field(default="", max_length=200)
    read_only: StrictBool = False


class Welcome(ServerMessage):
    """Protocol version of both, the client's name by its token, and the largest frame in bytes.

    `rights` are a console's on this connection: the kind of its token, or `look` for a read-only one.
    `groups` are its operator's by the server's configuration, `page` is where the pages for phones are,
    which is known of `[gateway] page` and of a server of `interlock web`. A server that `traces` takes
    the `traceparent` of calls.
    """

    version: int
    server: str
    kind: Literal["agent", "operator"]
    name: str
    frame: int
    rights: Rights | None = None
    groups: tuple[str, ...] = ()
    page: str | None = None
    traces: bool = False


class OpenSession(Payload):
    """A new session.

    The server's own rules always apply; `rules` names sets of its configuration that are added. `mode`
    can be stricter than the server's, and `shadow` only where the server allows it. `active` are the nets
    of the added rules that start active, all by default. With `session` the client gives the id; opening
    it again with the same token gives the session that is live. `labels` are names of tools for people.
    `shell` runs the commands in calls: without it, commands that bash, dash and zsh read differently are
    unclear.
    """

    agent: str = _NAME
    session: str | None = Field(default=None, min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._:-]+$")
    model: str = Field(default="", max_length=200)
    rules: tuple[str, ...] = Field(default=(), max_length=64)
    mode: Mode | None = None
    active: tuple[str, ...] | None = None
    tools: tuple[str, ...] = Field(default=(), max_length=1024)
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    workdir: str | None = Field(default=None, max_length=4096)
    shell: Annotated[Shell | None, BeforeValidator(shell_named)] = None
    explain_blocks: StrictBool = False

    @field_validator("tools")
    @classmethod
    def _no_reserved_names(cls, tools: tuple[str, ...]) -> tuple[str, ...]:
        for tool in tools:
            check_tool_name(tool)
        return tools


class ResumeSession(Payload):
    """Resume a session that was opened with this token, with the markings of its nets.

    A live session is found again; an ended one is resumed from its record, with the same `rules` as
    before.
    """

    session: str = _ID
    rules: tuple[str, ...] = Field(default=(), max_length=64)


class SessionOpen(ServerMessage):
    """A live session; `again` if it was live before."""

    session: str
    mode: Mode
    active: tuple[str, ...]
    again: bool = False


class SessionParams(Payload):
    """The session's id."""

    session: str = _ID


class ReportMessage(Payload):
    """A message of the conversation, for the operators.

    A `user` message is recorded and shown as reported by the agent's token: no person is known to have
    said it.
    """

    session: str = _ID
    role: Literal["user", "assistant"]
    text: str


class RulesPrompt(ServerMessage):
    """Text about what the rules allow the model now, for its system prompt."""

    text: str


class ToolClaims(Payload):
    """Claims of a tool's MCP server about it, in the tool's annotations; nobody checks them.

    A hint that the server does not give is left out. Conditions such as `hint.read_only = true` ask for
    them in the session's calls of the tool from here on, so this comes before the first of them, and
    again on a new connection. What differs from an earlier claim in the session counts no more, and
    neither does a claim once a call of that tool comes on a connection without one. An older server does
    not know the method, nor rules that ask for hints.
    """

    session: str = _ID
    tool: str = _NAME
    hints: dict[Hint, StrictBool]


class CallTool(Payload):
    """A tool call that the agent wants to make.

    Asking again with the same `call` gives the same answer, or waits for the same approval request. With
    `wait` the answer comes after that many seconds at the latest, if need be as `waiting`. `subagent` is
    the agent's own subagent that makes the call, by the agent's id for it: no other gets the answer to a
    late call of it, see `GiveUp`. `traceparent` is that of W3C Trace Context: the span of the call, on a
    server that traces, becomes its child. One that makes no sense is ignored; an older server refuses the
    field, so it is sent only where `Welcome.traces` is true.
    """

    session: str = _ID
    call: str = _ID
    tool: str = _NAME
    input: dict[str, JsonValue]
    wait: float | None = Field(default=None, ge=0)
    subagent: str = Field(default="", max_length=200)
    traceparent: str | None = Field(default=None, max_length=200)


class CallParams(Payload):
    """A call of a session."""

    session: str = _ID
    call: str = _ID


class WithdrawCall(CallParams):
    """Withdraw a pending call; its approval request leaves the queue."""

    reason: str = Field(default="", max_length=2000)


class GiveUp(CallParams):
    """Wait no more for the answer to a call, without taking it back.

    Its approval request stays open for a while, if one is open and the server has it so. The same tool
    with the same input, called again in that time under any `call`, gets the answer: once, in the same
    session, and by the same `subagent`. Giving up again lengthens nothing. Otherwise the call is
    withdrawn for the `reason`.
    """

    reason: str = Field(default="", max_length=2000)


class GivenUp(ServerMessage):
    """Time until which the request stays open; none where the call is withdrawn, or decided already."""

    until: datetime | None = None


class ToolResult(CallParams):
    """Result of an allowed call; `output` is what the model reads. Repeating it changes nothing.

    `unknown` says that it may have run or not, as after a tool that was cut off: it counts as an error in
    the nets, and a result that comes later is recorded.
    """

    output: str = ""
    is_error: StrictBool = False
    seconds: float | None = Field(default=None, ge=0)
    unknown: StrictBool = False


class ExplainCall(Payload):
    """A call to explain, which is not made."""

    session: str = _ID
    tool: str = _NAME
    input: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class SessionEnded(ServerMessage):
    """A session of this token has ended on the server: its further calls are refused."""

    session: str
    reason: str


HELLO = "hello"

OPEN = Method("session.open", "agent", OpenSession, SessionOpen, "Open a session.")
RESUME = Method("session.resume", "agent", ResumeSession, SessionOpen, "Resume a session.")
CLOSE = Method(
    "session.close", "agent", SessionParams, Nothing, "End a session and withdraw its requests."
)
REPORT_MESSAGE = Method(
    "session.report_message", "agent", ReportMessage, Nothing, "Record a message of the conversation."
)
PROMPT = Method(
    "session.prompt", "agent", SessionParams, RulesPrompt, "Describe what the nets allow the model now."
)
NOTE_HINTS = Method(
    "tool.note_hints", "agent", ToolClaims, Nothing, "Record what a tool's MCP server claims of it."
)
CALL = Method("tool.call", "agent", CallTool, CallAnswer, "Request a decision on a tool call.")
END_TURN = Method(
    "session.end_turn",
    "agent",
    SessionParams,
    Nothing,
    "End the agent's turn. Allowed calls without a result get one that says that their outcome is "
    "unknown, so that nothing waits for them; a result that comes later is recorded.",
)
WITHDRAW = Method("tool.withdraw", "agent", WithdrawCall, Nothing, "Withdraw a call that still waits.")
GIVE_UP = Method(
    "tool.give_up",
    "agent",
    GiveUp,
    GivenUp,
    "Wait no more for a call, whose approval request may stay open for a while.",
)
RESULT = Method("tool.result", "agent", ToolResult, Nothing, "Report the result of an allowed call.")
EXPLAIN = Method("tool.explain", "agent", ExplainCall, ExplanationView, "Explain a decision.")
ENDED = NoticeType("session.ended", "agent", SessionEnded, "A session has ended on the server.")

AGENT_METHODS = (
    OPEN,
    RESUME,
    END_TURN,
    CLOSE,
    REPORT_MESSAGE,
    PROMPT,
    NOTE_HINTS,
    CALL,
    WITHDRAW,
    GIVE_UP,
    RESULT,
    EXPLAIN,
)
