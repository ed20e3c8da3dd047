"""The tables of a new journal, as all migrations together make them: a test holds the two to each other.

Running the migrations for a file that has nothing yet took most of the time of a first start.
"""

from __future__ import annotations

import sqlite3

REVISION = "0006"
"""The revision these tables are of."""

_TABLES = """
PRAGMA application_id = 0x494C434B;

CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE session (
    id VARCHAR NOT NULL,
    agent VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    mode VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    opened INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    events INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    blocked INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    error VARCHAR,
    kind VARCHAR DEFAULT 'root' NOT NULL,
    parent VARCHAR,
    parent_seq INTEGER,
    source VARCHAR,
    imported BOOLEAN DEFAULT '0' NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX ix_session_updated ON session (updated);

CREATE TABLE event (
    cursor INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    session VARCHAR NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    type VARCHAR NOT NULL,
    body TEXT NOT NULL,
    salt BLOB,
    content BLOB,
    hash BLOB DEFAULT (x'') NOT NULL,
    FOREIGN KEY (session) REFERENCES session (id),
    CONSTRAINT uq_event_session_seq UNIQUE (session, seq)
);

CREATE TABLE pruned (
    session VARCHAR NOT NULL,
    agent VARCHAR NOT NULL,
    opened INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    events INTEGER NOT NULL,
    head BLOB NOT NULL,
    at INTEGER NOT NULL,
    "by" VARCHAR NOT NULL,
    "key" BLOB NOT NULL,
    signature BLOB NOT NULL,
    PRIMARY KEY (session)
);

CREATE TABLE decision (
    cursor INTEGER NOT NULL,
    session VARCHAR NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    agent VARCHAR NOT NULL,
    call_id VARCHAR NOT NULL,
    tool VARCHAR NOT NULL,
    called VARCHAR NOT NULL,
    input VARCHAR NOT NULL,
    mode VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL,
    net VARCHAR,
    rule VARCHAR,
    place VARCHAR,
    "by" VARCHAR,
    via VARCHAR,
    result VARCHAR,
    kind VARCHAR DEFAULT 'call' NOT NULL,
    off VARCHAR,
    PRIMARY KEY (cursor),
    FOREIGN KEY (session) REFERENCES session (id) ON DELETE CASCADE
);
CREATE INDEX ix_decision_at ON decision (at);
CREATE INDEX ix_decision_session ON decision (session, at);
CREATE INDEX ix_decision_tool ON decision (tool, at, verdict);
CREATE INDEX ix_decision_net ON decision (net, at, verdict);
CREATE INDEX ix_decision_verdict ON decision (verdict, at) WHERE verdict <> 'allow';
CREATE INDEX ix_decision_called ON decision (called, at) WHERE called <> tool;
CREATE INDEX ix_decision_via ON decision (via, at) WHERE via IS NOT NULL;
CREATE INDEX ix_decision_shadow ON decision (session, verdict, net, result, at) WHERE mode = 'shadow';

CREATE INDEX ix_event_approval ON event (cursor, at) WHERE type IN (
    'approval.requested', 'approval.given', 'approval.decided', 'approval.expired', 'approval.withdrawn'
);

CREATE INDEX ix_decision_kind ON decision (kind, at) WHERE kind <> 'call';
CREATE INDEX ix_decision_by ON decision ("by", at) WHERE "by" IS NOT NULL;
CREATE INDEX ix_decision_off ON decision (off, at) WHERE "off" IS NOT NULL;
"""


def make_tables(connection: sqlite3.Connection) -> None:
    """Fill an empty database, in one transaction. Raises `sqlite3.Error`; the database is then empty."""
    connection.executescript(
        f"BEGIN IMMEDIATE;{_TABLES}INSERT INTO alembic_version VALUES ('{REVISION}');COMMIT;"
    )
