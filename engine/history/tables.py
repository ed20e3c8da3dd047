"""The journal's tables, as the newest migration leaves them.

`event` is the record. `session` is a projection of it, one line per session, written in the same
transaction. The writer and the readers speak SQL to them directly: this is where the columns are named,
and a test holds the migrations to it.
"""

from __future__ import annotations

from sqlalchemy import Column, Integer, MetaData, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

JOURNAL = MetaData()


class Table(SQLModel):
    """Base of the journal's tables; they share a catalogue with nobody else's."""

    metadata = JOURNAL


class Session(Table, table=True):
    """A session's line in a list. Times are UTC milliseconds.

    `status` is the last one recorded; that a session waits for a person follows from `waiting`.
    `source` is JSON.
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


class Event(Table, table=True):
    """One event. `cursor` orders the whole file and is never reused; `seq` counts within the session."""

    __table_args__ = (
        UniqueConstraint("session", "seq", name="uq_event_session_seq"),
        {"sqlite_autoincrement": True},
    )

    cursor: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    session: str = Field(foreign_key="session.id")
    seq: int
    at: int
    type: str
    body: str = Field(sa_column=Column(Text, nullable=False))
