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
    """First message of a client, with its protocol versions. `client` is for the server's log.

    A `read_only` console is refused every method that needs more than a token of kind `look`.
    """

    versions: tuple[int, ...] = Field(min_length=1, max_length=16)
    client: str = Field(default="", max_length=200)
    read_only: StrictBool = False


class Welcome(ServerMessage):
    """Agreed protocol version, the client's name by its token, and the largest frame in bytes.

    `rights` are a console's rights on this connection: the kind of its token, or `look` if it is
    read-only. `groups` are its operator's groups in the server's configuration. `page` is the URL of the
    pages for phones, known from `[gateway] page` or if the server is one of `interlock web`. A server
    that `traces` accepts the `traceparent` of calls.
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
    """Open a session.

    The server's own rules always apply; `rules` names rule sets of its configuration to add. `mode` can
    be stricter than the server's; it can be `shadow` only if the server allows it. `active` are the nets
    of the added rules that start active, by default all. With `session` the client chooses the id;
    opening it again with the same token returns the live session. `labels` are display names of tools.
    `shell` is the shell that runs the commands in calls: without it, commands that bash, dash and zsh
    parse differently are unclear.
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

    A live session is returned as it is; an ended one is resumed from its record, with the same `rules` as
    before.
    """

    session: str = _ID
    rules: tuple[str, ...] = Field(default=(), max_length=64)


class SessionOpen(ServerMessage):
    """A live session; `again` is true if it was live before."""

    session: str
    mode: Mode
    active: tuple[str, ...]
    again: bool = False


class SessionParams(Payload):
    """Id of a session."""

    session: str = _ID


class ReportMessage(Payload):
    """A message of the conversation, shown to operators.

    A `user` message is recorded and shown as reported by the agent's token, because nothing proves that a
    person wrote it.
    """

    session: str = _ID
    role: Literal["user", "assistant"]
    text: str


class RulesPrompt(ServerMessage):
    """Description of what the rules allow the model now, for its system prompt."""

    text: str


class ToolClaims(Payload):
    """Claims that an MCP server makes about a tool in the tool's annotations; nobody verifies them.

    Hints that the MCP server does not give are left out. Conditions such as `hint.read_only = true` use
    the claims in the session's later calls of the tool. Send them before the first of these calls, and
    again on each new connection. A claim that differs from an earlier one of the session no longer
    counts. No claim counts after a call of the tool arrived on a connection without claims. Older servers
    support neither this method nor rules that use hints.
    """

    session: str = _ID
    tool: str = _NAME
    hints: dict[Hint, StrictBool]


class CallTool(Payload):
    """A tool call that the agent wants to make.

    Asking again with the same `call` returns the same answer, or waits for the same approval request.
    With `wait`, the answer comes after at most that many seconds, as `waiting` if there is no decision.
    `subagent` is the agent's own id of its subagent that makes the call: no other subagent gets the
    answer to a late call, see `GiveUp`. `traceparent` is the header of W3C Trace Context: on a server
    that traces, the call's span becomes a child of that span. An invalid one is ignored. Older servers
    refuse the field, so send it only if `Welcome.traces` is true.
    """

    session: str = _ID
    call: str = _ID
    tool: str = _NAME
    input: dict[str, JsonValue]
    wait: float | None = Field(default=None, ge=0)
    subagent: str = Field(default="", max_length=200)
    traceparent: str | None = Field(default=None, max_length=200)


class CallParams(Payload):
    """Ids of a session and of a call in it."""

    session: str = _ID
    call: str = _ID


class WithdrawCall(CallParams):
    """Withdraw a pending call and remove its approval request from the queue."""

    reason: str = Field(default="", max_length=2000)


class GiveUp(CallParams):
    """Stop waiting for the answer to a call, without withdrawing the call.

    An open approval request of the call stays open for a while, if the server is configured so. The same
    tool called again with the same input during that time, under any `call`, gets the answer once, in the
    same session and from the same `subagent`. Giving up again does not extend the time. In all other
    cases the call is withdrawn for the `reason`.
    """

    reason: str = Field(default="", max_length=2000)


class GivenUp(ServerMessage):
    """Time until which the request stays open; `None` if the call is withdrawn or already decided."""

    until: datetime | None = None


class ToolResult(CallParams):
    """Result of an allowed call; `output` is what the model reads. Repeating it changes nothing.

    `unknown` means that the tool may or may not have run, for example if it was interrupted. The nets
    count it as an error; a result that arrives later is recorded.
    """

    output: str = ""
    is_error: StrictBool = False
    seconds: float | None = Field(default=None, ge=0)
    unknown: StrictBool = False


class ExplainCall(Payload):
    """A call to explain without making it."""

    session: str = _ID
    tool: str = _NAME
    input: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class SessionEnded(ServerMessage):
    """A session of this token has ended on the server, which refuses further calls of it."""

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
    "tool.note_hints", "agent", ToolClaims, Nothing, "Record the claims of an MCP server about a tool."
)
CALL = Method("tool.call", "agent", CallTool, CallAnswer, "Request a decision on a tool call.")
END_TURN = Method(
    "session.end_turn",
    "agent",
    SessionParams,
    Nothing,
    "End the agent's turn. Allowed calls without a result get one with an unknown outcome, so that "
    "nothing waits for them; a result that arrives later is recorded.",
)
WITHDRAW = Method("tool.withdraw", "agent", WithdrawCall, Nothing, "Withdraw a pending call.")
GIVE_UP = Method(
    "tool.give_up",
    "agent",
    GiveUp,
    GivenUp,
    "Stop waiting for a call; its approval request may stay open for a while.",
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
