"""Methods that consoles call on a server: those declared by the hub's API, and some written by hand.

Written by hand are lists and states, which a console mirrors and whose size is limited, and the parts of
jobs.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Annotated, Any, get_origin

from pydantic import BaseModel, Field, RootModel, ValidationError, create_model

from ...approvals.request_order import FIRST
from ...backtest.answers import Backtested, Judged, Narrowed, Statistics, Suggested
from ...history.model.events import JournalEvent
from ...history.model.records import FreezeRecord, JournalOutage
from ...history.model.state import ApprovalState, SessionState
from ...hub.api import AgentStarter, HubApi, Number
from ...hub.hub import DisconnectedCalls, FreezeChanged, OutageChanged, RequestReaders, Streaming
from ...hub.operations import NotSent, Operation, operations
from .agent_methods import SessionParams
from .framing import Nothing, Payload, ServerMessage, problems
from .method import Method, NoticeType

MOST_FIRST = 200
"""Maximum number of requests in one answer."""
MOST_EVENTS = 2000
"""Maximum number of events in one answer."""
MOST_STATE = 16 << 20
"""Maximum bytes of a session's state in one answer; a larger state is rebuilt from its events."""
MOST_TEXT = 512 * 1024
"""Maximum number of characters of events in one answer, unless a single event is longer."""

# Methods made from declarations


class JobStarted(ServerMessage):
    """Number of the started job on this connection. The job ends with the connection."""

    job: int


def _sent_parameters(operation: Operation) -> list[inspect.Parameter]:
    """Parameters of an operation that are sent to the server."""
    _, *parameters = inspect.signature(operation.function).parameters.values()
    return [each for each in parameters if not _is_mark(each.annotation)]


def _is_mark(annotation: object) -> bool:
    return any(isinstance(each, NotSent) for each in getattr(annotation, "__metadata__", ()))


def _params(operation: Operation) -> type[Payload]:
    """Model of an operation's parameters, derived from its signature."""
    fields: dict[str, Any] = {
        each.name: (each.annotation, ... if each.default is each.empty else each.default)
        for each in _sent_parameters(operation)
    }
    return create_model(_model_name(operation, "Params"), __base__=Payload, __module__=__name__, **fields)


def _result(operation: Operation) -> type[BaseModel]:
    """Model of an operation's result: the model that it returns, or a model that wraps another type."""
    if operation.is_job:
        return JobStarted
    return_type = inspect.signature(operation.function).return_annotation
    if return_type is None:
        return Nothing
    if get_origin(return_type) is None and issubclass(return_type, BaseModel):
        return return_type
    return create_model(
        _model_name(operation, "Result"), __base__=RootModel[return_type], __module__=__name__
    )


def _model_name(operation: Operation, suffix: str) -> str:
    words = operation.wire_name.replace(".", "_").split("_")
    return "".join(word.capitalize() for word in words) + suffix


@cache
def method_of(operation: Operation) -> Method[Payload, BaseModel]:
    """Method with which a console calls an operation."""
    return Method(
        operation.wire_name, operation.needs, _params(operation), _result(operation), operation.doc
    )


def params_of(operation: Operation, *args: object, **kwargs: object) -> Payload:
    """Parameters of a call of an operation, without those that are not sent. Raises `ValueError`."""
    model = method_of(operation).params
    bound = inspect.signature(operation.function).bind_partial(None, *args, **kwargs).arguments
    names = {name: field.alias or name for name, field in model.model_fields.items()}
    try:
        return model.model_validate({names[each]: bound[each] for each in names.keys() & bound})
    except ValidationError as error:
        raise ValueError(problems(error)) from error


OPERATIONS: dict[str, Operation] = {
    each.wire_name: each
    for api in (HubApi, AgentStarter)
    for each in operations(api).values()
    if each.wire_name
}
"""Declared operations that consoles call on a server, by the names of their methods."""

# Methods written by hand

DIVERGED = "no server: diverged, loss not accepted"
"""Name of the server of a session of which the database lost events: see `HubApi.accept_loss`."""


class NoParams(Payload):
    """No parameters."""


class SessionList(ServerMessage):
    """The live sessions in the order they were opened, each with the number of its last event.

    `steered` are the sessions whose agents receive messages, `unedited` those whose calls cannot run with
    an edited input. `frozen` is the freeze of all agents, if there is one. `elsewhere` are the sessions
    of other servers of the same database, each with its server's URL or name. `outage` says that nothing
    can be recorded, so nothing is decided.
    """

    sessions: tuple[tuple[str, int], ...]
    steered: tuple[str, ...] = ()
    unedited: tuple[str, ...] = ()
    elsewhere: tuple[tuple[str, str], ...] = ()
    frozen: FreezeRecord | None = None
    outage: JournalOutage | None = None


class QueueLimit(Payload):
    """Maximum number of requests to list."""

    most: Number = Field(default=FIRST, le=MOST_FIRST)


class QueueStart(ServerMessage):
    """The number of requests of each live session, and the first requests of the queue, in its order.

    There may be fewer requests than the limit, because the size of an answer is limited too.
    """

    waiting: tuple[tuple[str, int], ...]
    first: tuple[ApprovalState, ...]


class Subscribe(Payload):
    """Subscribe to events. With `after`, the journal's events after that cursor come first.

    If several servers write the journal, each numbers its events in a lane of its own. `lanes` are then
    the last cursors of all lanes, taken from `Subscribed` and the events since then.
    """

    after: Number | None = None
    lanes: Annotated[tuple[Number, ...], Field(max_length=10_000)] = ()


class Subscribed(ServerMessage):
    """Cursor after which events follow; streamed text is sent only while it is streamed.

    `lanes` has one cursor for each server that numbers events, if there can be several.
    """

    after: int
    lanes: tuple[int, ...] = ()


class EventNotice(ServerMessage):
    """An event of the journal, or streamed text, with secrets masked for operators."""

    event: JournalEvent | Streaming


class DisconnectedNotice(DisconnectedCalls, ServerMessage):
    """Calls of an agent's session that wait for an operator, but that no connection waits for.

    `calls` maps the id of each such call to the time its last connection was lost; a call that is not
    listed has a connection. Decisions on these calls are recorded, but nobody acts on them unless the
    agent reconnects.
    """


class FreezeNotice(FreezeChanged, ServerMessage):
    """A freeze of all agents: new calls wait. Without `freeze`, the freeze has ended."""


class OutageNotice(OutageChanged, ServerMessage):
    """Nothing can be recorded, so nothing is decided. Without `outage` that is over."""


class ReadersNotice(RequestReaders, ServerMessage):
    """Names of all operators who have a request open now."""


class EventPage(Payload):
    """Events of a recorded session after event number `after`. A unique prefix of the id suffices."""

    session: Annotated[str, Field(min_length=1, max_length=200)]
    after: Number = 0


class Events(ServerMessage):
    """Events in order; `more` if there are further ones."""

    session: str
    events: tuple[JournalEvent, ...]
    more: bool


class Job(Payload):
    """Number of a job."""

    job: Number


class JobPart(ServerMessage):
    """Next part of a job, in the field of its kind; empty if there are no more parts."""

    backtested: Backtested | None = None
    judged: Judged | None = None
    counted: Statistics | None = None
    suggested: Suggested | None = None
    narrowed: Narrowed | None = None

    @classmethod
    def of(cls, part: Backtested | Judged | Statistics | Suggested | Narrowed | None) -> JobPart:
        """Wrap a part in the field of its kind."""
        match part:
            case Backtested():
                return cls(backtested=part)
            case Judged():
                return cls(judged=part)
            case Statistics():
                return cls(counted=part)
            case Suggested():
                return cls(suggested=part)
            case Narrowed():
                return cls(narrowed=part)
            case None:
                return cls()

    @property
    def part(self) -> Backtested | Judged | Statistics | Suggested | Narrowed | None:
        """The part itself."""
        return self.backtested or self.judged or self.counted or self.suggested or self.narrowed


SESSIONS = Method("sessions.list", "look", NoParams, SessionList, "List the live sessions.")
QUEUE = Method(
    "approvals.list", "look", QueueLimit, QueueStart, "Count the approval requests, and list the first."
)
SESSION = Method("session.state", "look", SessionParams, SessionState, "The state of a live session.")
SUBSCRIBE = Method("events.subscribe", "look", Subscribe, Subscribed, "Subscribe to all events.")
EVENTS = Method("history.events", "look", EventPage, Events, "Read the events of a recorded session.")
NEXT_PART = Method("job.next", "look", Job, JobPart, "Wait for the next part of a job.")
END_JOB = Method("job.end", "look", Job, Nothing, "End a job, finished or not.")
EVENT = NoticeType("event", "operator", EventNotice, "An event was recorded, or text was streamed.")
DISCONNECTED = NoticeType(
    "calls.disconnected",
    "operator",
    DisconnectedNotice,
    "A connection that waits for a call's answer was lost or restored.",
)

READERS = NoticeType(
    "approval.readers", "operator", ReadersNotice, "Other operators opened or closed a request."
)
FREEZE = NoticeType(
    "agents.frozen", "operator", FreezeNotice, "All agents were frozen, or are no longer frozen."
)
OUTAGE = NoticeType(
    "journal.outage", "operator", OutageNotice, "Nothing can be recorded, or all is well again."
)

CONSOLE_METHODS: tuple[Method[Payload, BaseModel], ...] = (
    SESSIONS,
    QUEUE,
    SESSION,
    SUBSCRIBE,
    EVENTS,
    *map(method_of, OPERATIONS.values()),
    NEXT_PART,
    END_JOB,
)
