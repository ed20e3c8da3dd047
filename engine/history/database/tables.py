"""The journal's tables: the one declaration of their columns, constraints and indexes.

`event` is the record. `session` and `decision` are projections of it, written in the same transaction:
one line per session, and one per decision or change of settings. `pruned` has stubs of sessions that were
removed. `statements` queries these models, and the database is created from them. Importing SQLModel
takes longer than opening a journal, so at run time `compiled` is used instead of both.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlmodel import Field, SQLModel

from ..fold.setting_changes import Kind

APPLICATION_ID = 0x494C434B
"""`ILCK`, in the file's header: distinguishes a journal from another program's SQLite file."""

REVISION = "0008"
"""The revision of these tables."""

LANE_BITS = 40
"""Bits of a cursor that number the events of its lane; those above are the lane, 0 in an SQLite file.

Each server of a database assigns cursors in a lane of its own. Cursors stay integers that any JSON reader
represents exactly.
"""

JOURNAL = MetaData()

APPROVAL_TYPES = (
    "approval.requested",
    "approval.given",
    "approval.decided",
    "approval.expired",
    "approval.withdrawn",
)
"""Types of the events from which approvals are counted."""


def _partial(name: str, *columns: str, where: str) -> Index:
    """Return an index on some of the rows, for either database."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


class Table(SQLModel):
    """Base of the journal's tables, with metadata of their own."""

    metadata = JOURNAL


class Session(Table, table=True):
    """A session's line in a list. Times are UTC milliseconds.

    `status` is the last one recorded; that a session waits for an operator follows from `waiting`.
    `source` is JSON. `imported` marks the copy of another journal's session.
    """

    __table_args__ = (Index("ix_session_updated", "updated"),)

    id: str = Field(primary_key=True)
    agent: str
    model: str
    mode: str
    status: str
    opened: int
    updated: int
    events: int = 0
    calls: int = 0
    blocked: int = 0
    waiting: int = 0
    error: str | None = None
    kind: str = Field(default="root", sa_column_kwargs={"server_default": "root"})
    parent: str | None = None
    parent_seq: int | None = None
    source: str | None = None
    imported: bool = Field(default=False, sa_column_kwargs={"server_default": text("0")})


class Event(Table, table=True):
    """One event. `cursor` orders the whole file and is never reused; `seq` counts within the session.

    `hash` is the event's link in the session's hash chain; its content was hashed with `salt`. An
    imported event whose content is masked has no salt, and has `content` instead: see `attestation`.
    """

    __table_args__ = (
        UniqueConstraint("session", "seq", name="uq_event_session_seq"),
        _partial(
            "ix_event_approval",
            "cursor",
            "at",
            where=f"type IN ({', '.join(map(repr, APPROVAL_TYPES))})",
        ),
        {"sqlite_autoincrement": True},
    )

    cursor: int = Field(sa_column=Column(Integer, primary_key=True))
    session: str = Field(foreign_key="session.id")
    seq: int
    at: int
    type: str
    body: str = Field(sa_type=Text)
    salt: bytes | None
    content: bytes | None
    hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False, server_default=text("x''")))


class Pruned(Table, table=True):
    """Stub of a session that was removed: its length and the last hash of its chain.

    `signature` is by the Ed25519 key whose public half is `key`.
    """

    session: str = Field(primary_key=True)
    agent: str
    opened: int
    updated: int
    events: int
    head: bytes
    at: int
    by: str
    key: bytes
    signature: bytes


class Decision(Table, table=True):
    """A decision or a change of settings, as it is listed. It is deleted with its session.

    `tool` is the name by which the rules know the call, `called` the tool that the agent called. `input`
    is the beginning of the call's input, as text. `verdict` is a `Verdict`, `result` a `Result` once
    there is one. `net` is the net that blocked or needed approval, else the first that moved; `rule` and
    `place` are its rule's text and the rule's file and line. `by` is who approved or denied the call.
    `off` names what operators had switched off that would have stopped the call, and who did. A `kind`
    other than `call` is a change of settings: `input` describes it, `by` is who made it, `verdict` is a
    `setting_changes.Step`.

    Each index starts with the column of one filter and continues in the order of the list. Those with a
    condition leave out what most calls have.
    """

    __table_args__ = (
        Index("ix_decision_at", "at"),
        Index("ix_decision_session", "session", "at"),
        Index("ix_decision_tool", "tool", "at", "verdict"),
        Index("ix_decision_net", "net", "at", "verdict"),
        _partial("ix_decision_verdict", "verdict", "at", where="verdict <> 'allow'"),
        _partial("ix_decision_called", "called", "at", where="called <> tool"),
        _partial("ix_decision_via", "via", "at", where="via IS NOT NULL"),
        _partial(
            "ix_decision_shadow",
            "session",
            "verdict",
            "net",
            "result",
            "at",
            where="mode = 'shadow'",
        ),
        _partial("ix_decision_kind", "kind", "at", where="kind <> 'call'"),
        _partial("ix_decision_by", "by", "at", where='"by" IS NOT NULL'),
        _partial("ix_decision_off", "off", "at", where='"off" IS NOT NULL'),
    )

    cursor: int = Field(sa_column=Column(Integer, primary_key=True))
    session: str = Field(
        sa_column=Column(String, ForeignKey("session.id", ondelete="CASCADE"), nullable=False)
    )
    seq: int
    at: int
    agent: str
    call_id: str
    tool: str
    called: str
    input: str
    mode: str
    verdict: str
    net: str | None
    rule: str | None
    place: str | None
    by: str | None
    via: str | None
    result: str | None
    kind: Kind = Field(default="call", sa_type=String, sa_column_kwargs={"server_default": "call"})
    off: str | None = None


TABLES: tuple[type[Table], ...] = (Session, Event, Pruned, Decision)


# Tables that several servers of one database need. An SQLite file has none of these: its lock names the
# writer.

CLUSTER = MetaData()


class ClusterTable(SQLModel):
    """Base of the tables by which servers share a database."""

    metadata = CLUSTER


class Server(ClusterTable, table=True):
    """A server process that writes, or wrote. Times are UTC milliseconds of the database's clock.

    Its lease is valid until `lease`. `ended` is when it left, or when another server found its lease
    expired. From then on it never writes again, and other servers can take its sessions.
    """

    id: str = Field(primary_key=True)
    name: str
    url: str | None = None
    version: str
    started: int
    lease: int
    ended: int | None = None


class Lane(ClusterTable, table=True):
    """A range of cursors, in which one server at a time numbers its events in the order of its commits.

    `last` is the latest number. A lane outlives its server and is then assigned to another one.
    """

    lane: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    server: str | None
    last: int = 0


class Owner(ClusterTable, table=True):
    """The server that alone may append to a session, and the end of the session's chain.

    `epoch` counts ownership changes. Any server may take a session without a `server`.
    """

    session: str = Field(primary_key=True)
    server: str | None = Field(index=True)
    epoch: int
    seq: int
    hash: bytes


class Fenced(ClusterTable, table=True):
    """A cursor that no event has: its server no longer owned the session when it wrote."""

    cursor: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    server: str
    session: str
    at: int


class Line(ClusterTable, table=True):
    """A line of an append-only log of the whole journal: of freezes, of passkeys."""

    log: str = Field(primary_key=True)
    number: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    text: str


class Divergence(ClusterTable, table=True):
    """A session's last acknowledged event, which the database had lost when a server compared.

    `seq` is the number of that event; its `hash` is unknown to a server that had only followed the
    session. `kept` is the number of the last event that the database had, 0 for none. `server` and `name`
    are those of the server that noticed, `at` is UTC milliseconds of the database's clock. `accepted` is
    the number of the event of an operator's acceptance; no server continues a session that has a row
    without it.
    """

    session: str = Field(primary_key=True)
    seq: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    hash: bytes | None = None
    kept: int
    server: str
    name: str
    at: int
    accepted: int | None = None


class Act(ClusterTable, table=True):
    """An operator's action on a session of another server, which executes it. Times are UTC milliseconds.

    `method` and `params` are those of the protocol, `actor` is who acts: JSON. `origin` is the server
    that received the action; it sets `lapsed` once the operator's token is no longer valid. The owner
    sets `taken` to itself before it acts, and stores the answer, JSON, in `result`.
    """

    id: str = Field(primary_key=True)
    session: str = Field(index=True)
    method: str
    params: str
    actor: str
    origin: str
    at: int
    lapsed: bool = Field(default=False, sa_column_kwargs={"server_default": text("0")})
    taken: str | None = None
    done: int | None = None
    result: str | None = None


class Counter(ClusterTable, table=True):
    """A counter of uses of a limit over sessions. Each reservation changes its `version`.

    `at` is the time of the last one, in UTC milliseconds.
    """

    counter: str = Field(primary_key=True)
    version: int
    at: int


class Reservation(ClusterTable, table=True):
    """One call's use of a limit in one net, reserved before the call is decided.

    `kept` says that the decision is recorded; without it the use ends with its server. The use counts
    from `at`, in seconds since 1970, and can be removed after `until`, in milliseconds.
    """

    __table_args__ = (
        Index("ix_reservation_counter", "counter"),
        Index("ix_reservation_call", "session", "call_id"),
        Index("ix_reservation_until", "until"),
    )

    id: str = Field(primary_key=True)
    net: str = Field(primary_key=True)
    counter: str
    session: str
    call_id: str
    server: str
    at: float
    until: int
    kept: bool = Field(default=False, sa_column_kwargs={"server_default": text("0")})


class Stream(ClusterTable, table=True):
    """A stream of the record to another system: the server that sends it, and the position sent so far.

    `positions` is JSON, as `audit.stream_positions` writes it. Any server may send a stream without a
    `server`.
    """

    id: str = Field(primary_key=True)
    server: str | None = None
    positions: str


CLUSTER_TABLES: tuple[type[ClusterTable], ...] = (
    Server,
    Lane,
    Owner,
    Fenced,
    Line,
    Act,
    Counter,
    Reservation,
    Stream,
    Divergence,
)
