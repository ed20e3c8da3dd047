"""Rows of the journal's tables and the SQL of the statements on them.

Made by `python -m interlock.engine.history.database.compile`, which see; not to be edited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..fold.setting_changes import Kind


@dataclass(slots=True)
class SessionRow:
    """A row of `tables.Session`."""

    id: str
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
    kind: str = 'root'
    parent: str | None = None
    parent_seq: int | None = None
    source: str | None = None
    imported: bool = False


class LinkedRow(NamedTuple):
    """A row of `tables.Event`."""

    cursor: int
    session: str
    seq: int
    at: int
    type: str
    body: str
    salt: bytes | None
    content: bytes | None
    hash: bytes


class DecisionLine(NamedTuple):
    """A row of `tables.Decision`."""

    cursor: int
    session: str
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
    kind: Kind = 'call'
    off: str | None = None


APPLICATION_ID = 1229734731
REVISION = '0006'
SCHEMA = (
    'PRAGMA application_id = 1229734731',
    "CREATE TABLE session ( id VARCHAR NOT NULL, agent VARCHAR NOT NULL, model VARCHAR NOT NULL, mode VARCHAR NOT NULL, status VARCHAR NOT NULL, opened INTEGER NOT NULL, updated INTEGER NOT NULL, events INTEGER NOT NULL, calls INTEGER NOT NULL, blocked INTEGER NOT NULL, waiting INTEGER NOT NULL, error VARCHAR, kind VARCHAR DEFAULT 'root' NOT NULL, parent VARCHAR, parent_seq INTEGER, source VARCHAR, imported BOOLEAN DEFAULT 0 NOT NULL, PRIMARY KEY (id) )",
    'CREATE INDEX ix_session_updated ON session (updated)',
    "CREATE TABLE event ( cursor INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, session VARCHAR NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, type VARCHAR NOT NULL, body TEXT NOT NULL, salt BLOB, content BLOB, hash BLOB DEFAULT (x'') NOT NULL, CONSTRAINT uq_event_session_seq UNIQUE (session, seq), FOREIGN KEY(session) REFERENCES session (id) )",
    "CREATE INDEX ix_event_approval ON event (cursor, at) WHERE type IN ('approval.requested', 'approval.given', 'approval.decided', 'approval.expired', 'approval.withdrawn')",
    'CREATE TABLE pruned ( session VARCHAR NOT NULL, agent VARCHAR NOT NULL, opened INTEGER NOT NULL, updated INTEGER NOT NULL, events INTEGER NOT NULL, head BLOB NOT NULL, at INTEGER NOT NULL, "by" VARCHAR NOT NULL, "key" BLOB NOT NULL, signature BLOB NOT NULL, PRIMARY KEY (session) )',
    'CREATE TABLE decision ( cursor INTEGER NOT NULL, session VARCHAR NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, agent VARCHAR NOT NULL, call_id VARCHAR NOT NULL, tool VARCHAR NOT NULL, called VARCHAR NOT NULL, input VARCHAR NOT NULL, mode VARCHAR NOT NULL, verdict VARCHAR NOT NULL, net VARCHAR, rule VARCHAR, place VARCHAR, "by" VARCHAR, via VARCHAR, result VARCHAR, kind VARCHAR DEFAULT \'call\' NOT NULL, off VARCHAR, PRIMARY KEY (cursor), FOREIGN KEY(session) REFERENCES session (id) ON DELETE CASCADE )',
    'CREATE INDEX ix_decision_at ON decision (at)',
    'CREATE INDEX ix_decision_session ON decision (session, at)',
    'CREATE INDEX ix_decision_tool ON decision (tool, at, verdict)',
    'CREATE INDEX ix_decision_net ON decision (net, at, verdict)',
    "CREATE INDEX ix_decision_verdict ON decision (verdict, at) WHERE verdict <> 'allow'",
    'CREATE INDEX ix_decision_called ON decision (called, at) WHERE called <> tool',
    'CREATE INDEX ix_decision_via ON decision (via, at) WHERE via IS NOT NULL',
    "CREATE INDEX ix_decision_shadow ON decision (session, verdict, net, result, at) WHERE mode = 'shadow'",
    "CREATE INDEX ix_decision_kind ON decision (kind, at) WHERE kind <> 'call'",
    'CREATE INDEX ix_decision_by ON decision ("by", at) WHERE "by" IS NOT NULL',
    'CREATE INDEX ix_decision_off ON decision (off, at) WHERE "off" IS NOT NULL',
)
SELECT_SESSION = 'SELECT session.id, session.agent, session.model, session.mode, session.status, session.opened, session.updated, session.events, session.calls, session.blocked, session.waiting, session.error, session.kind, session.parent, session.parent_seq, session.source, session.imported FROM session WHERE session.id = ?'
SELECT_SESSIONS = 'SELECT session.id, session.agent, session.model, session.mode, session.status, session.opened, session.updated, session.events, session.calls, session.blocked, session.waiting, session.error, session.kind, session.parent, session.parent_seq, session.source, session.imported FROM session ORDER BY session.updated DESC, rowid DESC LIMIT ?'
SELECT_SESSIONS_OF_AGENT = 'SELECT session.id, session.agent, session.model, session.mode, session.status, session.opened, session.updated, session.events, session.calls, session.blocked, session.waiting, session.error, session.kind, session.parent, session.parent_seq, session.source, session.imported FROM session WHERE session.agent = ? ORDER BY session.updated DESC, rowid DESC LIMIT ?'
SELECT_SESSIONS_BY_PREFIX = 'SELECT session.id, session.agent, session.model, session.mode, session.status, session.opened, session.updated, session.events, session.calls, session.blocked, session.waiting, session.error, session.kind, session.parent, session.parent_seq, session.source, session.imported FROM session WHERE substr(session.id, 1, ?) = ? ORDER BY session.updated DESC, rowid DESC LIMIT ?'
SELECT_UNFINISHED_SESSIONS = "SELECT session.id, session.agent, session.model, session.mode, session.status, session.opened, session.updated, session.events, session.calls, session.blocked, session.waiting, session.error, session.kind, session.parent, session.parent_seq, session.source, session.imported FROM session WHERE (session.status NOT IN ('done', 'failed')) ORDER BY session.updated DESC, rowid DESC"
SELECT_SESSIONS_AS_OPENED = 'SELECT session.id, session.agent, session.model, session.mode, session.status, session.opened, session.updated, session.events, session.calls, session.blocked, session.waiting, session.error, session.kind, session.parent, session.parent_seq, session.source, session.imported FROM session ORDER BY session.opened, rowid'
SELECT_SESSIONS_UNCHANGED_SINCE = 'SELECT session.id, session.agent, session.model, session.mode, session.status, session.opened, session.updated, session.events, session.calls, session.blocked, session.waiting, session.error, session.kind, session.parent, session.parent_seq, session.source, session.imported FROM session WHERE session.updated < ? ORDER BY session.updated, rowid'
SELECT_LENGTH = 'SELECT session.id, session.events, session.imported FROM session WHERE session.id = ?'
SELECT_LENGTHS = 'SELECT session.id, session.events, session.imported FROM session ORDER BY session.opened, rowid'
SELECT_KIND = 'SELECT session.id, session.kind FROM session WHERE session.id = ?'
SELECT_KINDS = 'SELECT session.id, session.kind FROM session ORDER BY rowid'
SELECT_AGENT = 'SELECT session.agent FROM session WHERE session.id = ?'
SELECT_TOP_LEVEL_SESSIONS = "SELECT rowid, session.id FROM session WHERE session.kind != 'child' AND session.updated >= ? AND rowid > ? ORDER BY rowid LIMIT ?"
COUNT_CALLS = "SELECT coalesce(sum(session.calls), 0) AS coalesce_1 FROM session WHERE session.kind != 'child' AND session.updated >= ?"
SELECT_SESSION_IDS_CONTAINING = "SELECT session.id FROM session WHERE session.id LIKE ? ESCAPE '\\' LIMIT ?"
UPSERT_SESSION = 'INSERT INTO session (id, agent, model, mode, status, opened, updated, events, calls, blocked, waiting, error, kind, parent, parent_seq, source, imported) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET agent = excluded.agent, model = excluded.model, mode = excluded.mode, status = excluded.status, updated = excluded.updated, events = excluded.events, calls = excluded.calls, blocked = excluded.blocked, waiting = excluded.waiting, error = excluded.error, source = excluded.source'
REPLACE_SESSION = 'INSERT INTO session (id, agent, model, mode, status, opened, updated, events, calls, blocked, waiting, error, kind, parent, parent_seq, source, imported) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET agent = excluded.agent, model = excluded.model, mode = excluded.mode, status = excluded.status, opened = excluded.opened, updated = excluded.updated, events = excluded.events, calls = excluded.calls, blocked = excluded.blocked, waiting = excluded.waiting, error = excluded.error, kind = excluded.kind, parent = excluded.parent, parent_seq = excluded.parent_seq, source = excluded.source, imported = excluded.imported'
DELETE_SESSION = 'DELETE FROM session WHERE session.id = ?'
SELECT_EVENTS = 'SELECT event.cursor, event.session, event.seq, event.at, event.type, event.body FROM event WHERE event.session = ? AND event.seq > ? ORDER BY event.seq LIMIT ?'
SELECT_SINCE = 'SELECT event.cursor, event.session, event.seq, event.at, event.type, event.body FROM event WHERE event.cursor > ? ORDER BY event.cursor LIMIT ?'
SELECT_MESSAGES = "SELECT event.cursor, event.session, event.seq, event.at, event.type, event.body FROM event WHERE event.session = ? AND event.type = 'message' ORDER BY event.seq"
SELECT_LINKED = 'SELECT event.cursor, event.session, event.seq, event.at, event.type, event.body, event.salt, event.content, event.hash FROM event WHERE event.session = ? AND event.seq > ? ORDER BY event.seq, event.cursor LIMIT ?'
SELECT_BEARING = 'SELECT event.cursor, event.seq, event.at, event.body FROM event WHERE event.session = ? AND event.seq > ? AND (event.type IN ({types})) ORDER BY event.seq LIMIT ?'
SELECT_CALLS = "SELECT event.seq, event.at, event.type, event.body FROM event WHERE event.session = ? AND event.seq > ? AND event.type IN ('session.opened', 'session.resumed', 'rules.replaced', 'call.decided', 'call.result', 'approval.requested', 'approval.decided', 'approval.expired', 'net.toggled') ORDER BY event.seq LIMIT ?"
SELECT_CALLS_AND_MESSAGES = "SELECT event.seq, event.at, event.type, event.body FROM event WHERE event.session = ? AND event.seq > ? AND event.type IN ('session.opened', 'session.resumed', 'rules.replaced', 'call.decided', 'call.result', 'approval.requested', 'approval.decided', 'approval.expired', 'net.toggled', 'message') ORDER BY event.seq LIMIT ?"
SELECT_USES = "SELECT event.session, event.type, event.body, event.seq, session.imported FROM event JOIN session ON session.id = event.session WHERE session.updated >= ? AND (event.at >= ? AND event.type = 'call.decided' AND event.body LIKE ? ESCAPE '\\' OR event.at >= ? AND event.type = 'call.result' AND event.body LIKE ? ESCAPE '\\' OR session.imported IS 1 AND event.type = 'session.resumed') ORDER BY event.cursor"
SELECT_NETS = "SELECT event.seq, event.body FROM event WHERE event.session = ? AND event.type IN ('session.opened', 'session.resumed', 'rules.replaced') ORDER BY event.seq"
SELECT_APPROVALS = "SELECT event.cursor, event.session, event.at, event.type, event.body FROM event WHERE event.cursor > ? AND event.at >= ? AND event.type IN ('approval.requested', 'approval.given', 'approval.decided', 'approval.expired', 'approval.withdrawn') ORDER BY event.cursor LIMIT ?"
SELECT_PRECEDENTS = "SELECT event.cursor, event.session, event.at, event.type, event.body FROM event WHERE event.cursor > ? AND event.type IN ('approval.requested', 'approval.given', 'approval.decided', 'approval.expired', 'approval.withdrawn', 'call.decided', 'call.result') ORDER BY event.cursor LIMIT ?"
SELECT_TALKS = "SELECT event.session, count(*) AS count_1, max(event.at) AS max_1 FROM event WHERE event.type = 'message' GROUP BY event.session ORDER BY max(event.cursor) DESC"
SELECT_HASHES = 'SELECT event.seq, event.hash FROM event WHERE event.session = ?'
SELECT_LAST_HASH = 'SELECT event.hash FROM event WHERE event.session = ? ORDER BY event.seq DESC LIMIT 1'
SELECT_LAST_EVENT = 'SELECT event.seq, event.at FROM event WHERE event.session = ? ORDER BY event.seq DESC LIMIT 1'
SELECT_FIRST_CONTENT = 'SELECT event.content FROM event WHERE event.session = ? ORDER BY event.seq LIMIT 1'
SELECT_LAST_RESUME = "SELECT coalesce(max(event.seq), 0) AS coalesce_1 FROM event WHERE event.session = ? AND event.type = 'session.resumed'"
SELECT_LAST_CURSOR = "SELECT coalesce((SELECT sqlite_sequence.seq FROM sqlite_sequence WHERE sqlite_sequence.name = 'event'), 0) AS coalesce_1"
SELECT_EVENT_SESSIONS = 'SELECT DISTINCT event.session FROM event'
SELECT_STRAY_EVENT_SESSIONS = 'SELECT DISTINCT event.session FROM event WHERE (event.session NOT IN (SELECT session.id FROM session))'
SELECT_MISPLACED = 'SELECT numbered.seq FROM (SELECT event.seq AS seq, event.cursor AS cursor, lag(event.cursor) OVER (ORDER BY event.seq) AS previous FROM event WHERE event.session = ?) AS numbered WHERE numbered.cursor <= numbered.previous ORDER BY numbered.seq LIMIT 1'
SELECT_GAPS = 'SELECT followed.previous + 1 AS anon_1, followed.cursor - 1 AS anon_2, (SELECT event.session FROM event WHERE event.cursor = followed.previous) AS anon_3, (SELECT event.seq FROM event WHERE event.cursor = followed.previous) AS anon_4 FROM (SELECT present.cursor AS cursor, lag(present.cursor, 1, 0) OVER (ORDER BY present.cursor) AS previous FROM (SELECT event.cursor AS cursor FROM event UNION ALL SELECT ?) AS present) AS followed WHERE followed.cursor > followed.previous + 1 ORDER BY followed.cursor LIMIT ?'
COUNT_EVENTS = 'SELECT count(*) AS count_1 FROM event WHERE event.session = ?'
COUNT_FILE = "SELECT coalesce((SELECT max(CAST(sqlite_sequence.seq AS INTEGER)) AS max_1 FROM sqlite_sequence WHERE sqlite_sequence.name = 'event'), 0) AS coalesce_1, (SELECT count(*) AS count_1 FROM event) AS anon_1, (SELECT coalesce(sum(CAST(pruned.events AS INTEGER)), 0) AS coalesce_2 FROM pruned) AS anon_2"
INSERT_EVENT = 'INSERT INTO event (cursor, session, seq, at, type, body, salt, content, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)'
DELETE_EVENTS = 'DELETE FROM event WHERE event.session = ?'
SELECT_STUB = 'SELECT pruned.events, pruned.head FROM pruned WHERE pruned.session = ?'
SELECT_STUBS = 'SELECT pruned.session, pruned.agent, pruned.opened, pruned.updated, pruned.events, pruned.head, pruned.at, pruned."by", pruned."key", pruned.signature FROM pruned ORDER BY pruned.at, rowid'
SELECT_STUBS_BY_PREFIX = 'SELECT pruned.session, pruned.at, pruned."by" FROM pruned WHERE substr(pruned.session, 1, ?) = ?'
INSERT_STUB = 'INSERT INTO pruned (session, agent, opened, updated, events, head, at, "by", "key", signature) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'
SELECT_DECISIONS = 'SELECT decision.cursor, decision.session, decision.seq, decision.at, decision.agent, decision.call_id, decision.tool, decision.called, decision.input, decision.mode, decision.verdict, decision.net, decision.rule, decision.place, decision."by", decision.via, decision.result, decision.kind, decision.off FROM decision ORDER BY decision.cursor'
SELECT_DECISIONS_OF_SESSION = 'SELECT decision.cursor, decision.session, decision.seq, decision.at, decision.agent, decision.call_id, decision.tool, decision.called, decision.input, decision.mode, decision.verdict, decision.net, decision.rule, decision.place, decision."by", decision.via, decision.result, decision.kind, decision.off FROM decision WHERE decision.session = ? ORDER BY decision.cursor'
SELECT_DECISION_PAGE = 'SELECT decision.cursor, decision.session, decision.seq, decision.at, decision.agent, decision.call_id, decision.tool, decision.called, decision.input, decision.mode, decision.verdict, decision.net, decision.rule, decision.place, decision."by", decision.via, decision.result, decision.kind, decision.off, coalesce((SELECT unclear_in(event.body) AS unclear_in_1 FROM event WHERE event.cursor = decision.cursor), 0) AS coalesce_1 FROM decision WHERE {where} ORDER BY decision.at DESC, decision.cursor DESC LIMIT ?'
SELECT_POSITION = 'SELECT decision.at, decision.cursor FROM decision WHERE {where} ORDER BY decision.at DESC, decision.cursor DESC LIMIT 1 OFFSET ?'
SELECT_PAGE_BORDERS = 'SELECT listed.at, listed.cursor, listed.number FROM (SELECT decision.at AS at, decision.cursor AS cursor, row_number() OVER (ORDER BY decision.at DESC, decision.cursor DESC) AS number, lead(decision.cursor) OVER (ORDER BY decision.at DESC, decision.cursor DESC) IS NULL AS final FROM decision WHERE {where}) AS listed WHERE listed.number % ? = 1 OR listed.final = 1 ORDER BY listed.number'
SELECT_TIME_SPAN = 'SELECT min(decision.at) AS min_1, max(decision.at) AS max_1 FROM decision'
SELECT_RULE_OF_NET = "SELECT decision.rule, decision.place FROM decision WHERE decision.net = ? AND decision.verdict != 'allow' AND (decision.verdict NOT IN ('changed', 'proposed', 'agreed', 'dropped')) ORDER BY decision.at DESC LIMIT 1"
SELECT_RUNNING_CALLS = "SELECT decision.call_id, decision.cursor FROM decision WHERE decision.session = ? AND decision.result IS NULL AND decision.kind = 'call' AND (decision.verdict NOT IN ('block', 'denied')) ORDER BY decision.cursor"
SELECT_STRAY_DECISION_SESSIONS = 'SELECT DISTINCT decision.session FROM decision WHERE (decision.session NOT IN (SELECT session.id FROM session))'
SELECT_DISTINCT = {
    'tool': 'WITH RECURSIVE "each"(value) AS (SELECT min(decision.tool) AS value FROM decision UNION ALL SELECT (SELECT min(decision.tool) AS value FROM decision WHERE decision.tool > "each".value) AS anon_1 FROM "each" WHERE "each".value IS NOT NULL) SELECT "each".value FROM "each" WHERE "each".value IS NOT NULL',
    'called': 'WITH RECURSIVE "each"(value) AS (SELECT min(decision.called) AS value FROM decision WHERE decision.called != decision.tool UNION ALL SELECT (SELECT min(decision.called) AS value FROM decision WHERE decision.called != decision.tool AND decision.called > "each".value) AS anon_1 FROM "each" WHERE "each".value IS NOT NULL) SELECT "each".value FROM "each" WHERE "each".value IS NOT NULL',
    'net': 'WITH RECURSIVE "each"(value) AS (SELECT min(decision.net) AS value FROM decision UNION ALL SELECT (SELECT min(decision.net) AS value FROM decision WHERE decision.net > "each".value) AS anon_1 FROM "each" WHERE "each".value IS NOT NULL) SELECT "each".value FROM "each" WHERE "each".value IS NOT NULL',
    'by': 'WITH RECURSIVE "each"(value) AS (SELECT min(decision."by") AS value FROM decision WHERE decision."by" IS NOT NULL UNION ALL SELECT (SELECT min(decision."by") AS value FROM decision WHERE decision."by" IS NOT NULL AND decision."by" > "each".value) AS anon_1 FROM "each" WHERE "each".value IS NOT NULL) SELECT "each".value FROM "each" WHERE "each".value IS NOT NULL',
    'off': 'WITH RECURSIVE "each"(value) AS (SELECT min(decision.off) AS value FROM decision WHERE decision.off IS NOT NULL UNION ALL SELECT (SELECT min(decision.off) AS value FROM decision WHERE decision.off IS NOT NULL AND decision.off > "each".value) AS anon_1 FROM "each" WHERE "each".value IS NOT NULL) SELECT "each".value FROM "each" WHERE "each".value IS NOT NULL',
}
COUNT_DECISIONS = {
    'rule': 'SELECT +decision.net AS name, decision.verdict, (decision.at - ?) / ? AS step, count(*) AS count_1 FROM decision WHERE {where} GROUP BY 1, 2, 3',
    'tool': 'SELECT +decision.tool AS name, decision.verdict, (decision.at - ?) / ? AS step, count(*) AS count_1 FROM decision WHERE {where} GROUP BY 1, 2, 3',
    None: 'SELECT NULL AS name, decision.verdict, (decision.at - ?) / ? AS step, count(*) AS count_1 FROM decision WHERE {where} GROUP BY 1, 2, 3',
}
COUNT_SHADOW_DECISIONS = 'SELECT decision.session, decision.verdict, decision.net, decision.result, count(*) AS count_1 FROM decision WHERE {where} GROUP BY decision.session, decision.verdict, decision.net, decision.result'
SELECT_FIRST_SHADOW_BLOCKS = "SELECT decision.session, decision.net FROM decision WHERE decision.cursor IN (SELECT min(decision.cursor) AS min_1 FROM decision WHERE {where} AND decision.verdict = 'would-block' GROUP BY decision.session)"
INSERT_DECISION = 'INSERT INTO decision (cursor, session, seq, at, agent, call_id, tool, called, input, mode, verdict, net, rule, place, "by", via, result, kind, off) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'
END_DECISION = 'UPDATE decision SET result=? WHERE decision.cursor = ?'
DELETE_DECISIONS = 'DELETE FROM decision'
DELETE_DECISIONS_OF_SESSION = 'DELETE FROM decision WHERE decision.session = ?'
FROM_POSITION = '(decision.at, decision.cursor) <= (?, ?)'
BEFORE_POSITION = '(decision.at, decision.cursor) > (?, ?)'
SINCE = 'decision.at >= ?'
UNTIL = 'decision.at < ?'
TOOL_AMONG = '(decision.tool IN ({values})) OR (decision.called IN ({values})) AND decision.called != decision.tool'
NET_AMONG = 'decision.net IN ({values})'
VERDICT_AMONG = 'decision.verdict IN ({values})'
VERDICT_NOT_ALLOW = "decision.verdict != 'allow'"
RESULT_AMONG = 'decision.result IN ({values})'
KIND_AMONG = 'decision.kind IN ({values})'
KIND_NOT_CALL = "decision.kind != 'call'"
SESSION_AMONG = '(decision.session IN ({values})) OR (decision.via IN ({values}))'
SESSION_CONTAINS = "decision.session LIKE ? ESCAPE '\\' OR decision.via LIKE ? ESCAPE '\\'"
AGENT_CONTAINS = "decision.agent LIKE ? ESCAPE '\\'"
WORD_CONTAINED = "decision.input LIKE ? ESCAPE '\\' OR decision.tool LIKE ? ESCAPE '\\' OR decision.net LIKE ? ESCAPE '\\' OR decision.rule LIKE ? ESCAPE '\\' OR decision.agent LIKE ? ESCAPE '\\' OR decision.off LIKE ? ESCAPE '\\'"
INPUT_CONTAINS = "EXISTS (SELECT 1 FROM event WHERE event.cursor = decision.cursor AND CASE WHEN (event.body LIKE ? ESCAPE '\\') THEN input_of(event.body) LIKE ? ESCAPE '\\' END = 1)"
NAMES_PEOPLE = 'decision."by" IS NOT NULL AND decision."by" IN (SELECT anon_1.value FROM json_each(?) AS anon_1) OR decision.off IS NOT NULL AND decision.off IN (SELECT anon_2.value FROM json_each(?) AS anon_2)'
IN_SHADOW_MODE = "decision.mode = 'shadow'"
FIRST_ROWS = (
    'SELECT session.id, session.agent, session.model, session.mode, session.status, session.opened, session.updated, session.events, session.calls, session.blocked, session.waiting, session.error, session.kind, session.parent, session.parent_seq, session.source, session.imported FROM session LIMIT 1',
    'SELECT event.cursor, event.session, event.seq, event.at, event.type, event.body, event.salt, event.content, event.hash FROM event LIMIT 1',
    'SELECT pruned.session, pruned.agent, pruned.opened, pruned.updated, pruned.events, pruned.head, pruned.at, pruned."by", pruned."key", pruned.signature FROM pruned LIMIT 1',
    'SELECT decision.cursor, decision.session, decision.seq, decision.at, decision.agent, decision.call_id, decision.tool, decision.called, decision.input, decision.mode, decision.verdict, decision.net, decision.rule, decision.place, decision."by", decision.via, decision.result, decision.kind, decision.off FROM decision LIMIT 1',
)
