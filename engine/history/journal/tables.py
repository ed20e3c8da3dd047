"""The journal's tables, as the newest migration leaves them.

`event` is the record. `session` and `decision` are projections of it, one line per session and one per
decision or change of settings, written in the same transaction; `pruned` has what is left of sessions
that were removed. The writer and the readers speak SQL to them directly: this is where the columns are
named, and a test holds the migrations to it.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
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

JOURNAL = MetaData()


class Table(SQLModel):
    """Base of the journal's tables; their catalogue is their own."""

    metadata = JOURNAL


class Session(Table, table=True):
    """A session's line in a list. Times are UTC milliseconds.

    `status` is the last one recorded; that a session waits for a person follows from `waiting`.
    `source` is JSON. `imported` tells a copy of another journal's session.
    """

    id: str = Field(primary_key=True)
    agent: str
    model: str
    mode: str
    status: str
    opened: int
    updated: int = Field(index=True)
    events: int
    calls: int
    blocked: int
    waiting: int
    error: str | None = None
    kind: str = Field(default="root", sa_column_kwargs={"server_default": "root"})
    parent: str | None = None
    parent_seq: int | None = None
    source: str | None = None
    imported: bool = Field(
        default=False, sa_column=Column(Boolean, nullable=False, server_default=text("0"))
    )


class Event(Table, table=True):
    """One event. `cursor` orders the whole file and is never reused; `seq` counts within the session.

    `hash` is its link of the session's chain, for which its content was hashed with `salt`. An imported
    event whose content is masked has no salt, and `content` in place of it: see `attestation`.

    The index has the few events that `approval_stats` counts; its condition is that of the query there.
    """

    __table_args__ = (
        UniqueConstraint("session", "seq", name="uq_event_session_seq"),
        Index(
            "ix_event_approval",
            "cursor",
            "at",
            sqlite_where=text(
                "type IN ('approval.requested', 'approval.given', 'approval.decided', "
                "'approval.expired', 'approval.withdrawn')"
            ),
        ),
        {"sqlite_autoincrement": True},
    )

    cursor: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    session: str = Field(foreign_key="session.id")
    seq: int
    at: int
    type: str
    body: str = Field(sa_column=Column(Text, nullable=False))
    salt: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    content: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False, server_default=text("x''")))


class Pruned(Table, table=True):
    """Stub of a session that was removed: how long it was and the last hash of its chain.

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
    """A decision or a change of settings in a list, see `DecisionLine`. It goes with its session.

    Each index begins with what one filter asks for and goes on in the order of the list. Those with a
    condition leave out what most calls are.
    """

    __table_args__ = (
        Index("ix_decision_session", "session", "at"),
        Index("ix_decision_tool", "tool", "at", "verdict"),
        Index("ix_decision_net", "net", "at", "verdict"),
        Index("ix_decision_verdict", "verdict", "at", sqlite_where=text("verdict <> 'allow'")),
        Index("ix_decision_called", "called", "at", sqlite_where=text("called <> tool")),
        Index("ix_decision_via", "via", "at", sqlite_where=text("via IS NOT NULL")),
        Index(
            "ix_decision_shadow",
            "session",
            "verdict",
            "net",
            "result",
            "at",
            sqlite_where=text("mode = 'shadow'"),
        ),
        Index("ix_decision_kind", "kind", "at", sqlite_where=text("kind <> 'call'")),
        Index("ix_decision_by", "by", "at", sqlite_where=text('"by" IS NOT NULL')),
        Index("ix_decision_off", "off", "at", sqlite_where=text('"off" IS NOT NULL')),
    )

    cursor: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    session: str = Field(
        sa_column=Column(String, ForeignKey("session.id", ondelete="CASCADE"), nullable=False)
    )
    seq: int
    at: int = Field(index=True)
    agent: str
    call_id: str
    tool: str
    called: str
    input: str
    mode: str
    verdict: str
    net: str | None = None
    rule: str | None = None
    place: str | None = None
    by: str | None = None
    via: str | None = None
    result: str | None = None
    kind: str = Field(default="call", sa_column_kwargs={"server_default": "call"})
    off: str | None = None
