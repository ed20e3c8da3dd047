"""Statements on the journal's tables, from which `compile` generates `compiled`.

In a statement `?` stands for a value, `{where}` for the condition of a filter, and `{…}` with another
name for a list of `?` or of words.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar
from typing import cast as typed

from sqlalchemy import (
    Column,
    ColumnElement,
    Integer,
    String,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    table,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.sqlite import Insert, dialect, insert
from sqlalchemy.sql.elements import ClauseElement

from ..fold.setting_changes import STEPS
from .tables import APPROVAL_TYPES, JOURNAL, LANE_BITS, TABLES, Decision, Event, Pruned, Session, Table

CALL_TYPES = (
    "session.opened",
    "session.resumed",
    "rules.replaced",
    "call.decided",
    "call.result",
    "approval.requested",
    "approval.decided",
    "approval.expired",
    "net.toggled",
    "tool.hints",
)
"""Events that affect how calls are judged. The mode of a call is in its decision."""


T = TypeVar("T")
Text: TypeAlias = ColumnElement[str] | ColumnElement[str | None]

bind = literal_column("?", Integer)
condition: ColumnElement[bool] = literal_column("{where}")
rowid = literal_column("rowid", Integer)
sequence = table("sqlite_sequence", column("name"), column("seq"))


def sql_of(element: ClauseElement) -> str:
    """Return the SQL of a statement or a condition."""
    text = str(element.compile(dialect=dialect(), compile_kwargs={"literal_binds": True}))
    return " ".join(text.split()).removesuffix(" OFFSET 0")


def col(attribute: T) -> ColumnElement[T]:
    """Return a model's attribute typed as the column that it is on the class."""
    return typed("ColumnElement[T]", attribute)


def columns(model: type[Table]) -> list[Column[object]]:
    """Return all columns of a table, in the table's order."""
    return list(JOURNAL.tables[model.__name__.lower()].columns)


def in_list(value: Text, name: str) -> ColumnElement[bool]:
    """Return the condition that a value is in a list, `{name}`."""
    return value.op("IN", is_comparison=True)(literal_column(f"({{{name}}})"))


def contains(value: Text) -> ColumnElement[bool]:
    """Return the condition that a text matches a `LIKE` pattern, in which a backslash escapes."""
    return value.like(bind, escape="\\")


def begins(value: Text) -> ColumnElement[bool]:
    """Return the condition that a text has a prefix; the values are its length and the prefix."""
    return func.substr(value, 1, bind) == bind


def lane_of(cursor: ColumnElement[int]) -> ColumnElement[int]:
    """Return the lane of a cursor; each lane has its own order."""
    number = cursor.op(">>")(literal_column(str(LANE_BITS), Integer))
    return case((cursor > literal_column("0", Integer), number), else_=literal_column("0", Integer))


def insert_row(model: type[Table]) -> Insert:
    """Return the insertion of a whole row."""
    return insert(model).values({each.name: bind for each in columns(model)}).inline()


def upsert_session(*unchanged: str) -> Insert:
    """Return the upsert of a session's line; an existing one keeps its `unchanged` columns."""
    insertion = insert_row(Session)
    changed_columns = {
        name: insertion.excluded[name] for name in Session.model_fields if name not in unchanged
    }
    return insertion.on_conflict_do_update(index_elements=["id"], set_=changed_columns)


# Sessions

latest_first = col(Session.updated).desc(), rowid.desc()
in_opening_order = col(Session.opened), rowid
session_ids = select(col(Session.id))
top_level = col(Session.kind) != "child"

SELECT_SESSION = select(*columns(Session)).where(col(Session.id) == bind)
SELECT_SESSIONS = select(*columns(Session)).order_by(*latest_first).limit(bind)
SELECT_SESSIONS_OF_AGENT = (
    select(*columns(Session)).where(col(Session.agent) == bind).order_by(*latest_first).limit(bind)
)
SELECT_SESSIONS_BY_PREFIX = (
    select(*columns(Session)).where(begins(col(Session.id))).order_by(*latest_first).limit(bind)
)
SELECT_UNFINISHED_SESSIONS = (
    select(*columns(Session))
    .where(col(Session.status).not_in(["done", "failed"]))
    .order_by(*latest_first)
)
SELECT_SESSIONS_AS_OPENED = select(*columns(Session)).order_by(*in_opening_order)
SELECT_SESSIONS_AS_ADDED = select(*columns(Session)).order_by(rowid)
SELECT_SESSIONS_UNCHANGED_SINCE = (
    select(*columns(Session)).where(col(Session.updated) < bind).order_by(col(Session.updated), rowid)
)
SELECT_LENGTH = select(col(Session.id), col(Session.events), col(Session.imported)).where(
    col(Session.id) == bind
)
SELECT_LENGTHS = select(col(Session.id), col(Session.events), col(Session.imported)).order_by(
    *in_opening_order
)
SELECT_KIND = select(col(Session.id), col(Session.kind)).where(col(Session.id) == bind)
SELECT_KINDS = select(col(Session.id), col(Session.kind)).order_by(rowid)
SELECT_AGENT = select(col(Session.agent)).where(col(Session.id) == bind)
SELECT_TOP_LEVEL_SESSIONS = (
    select(rowid, col(Session.id))
    .where(top_level, col(Session.updated) >= bind, rowid > bind)
    .order_by(rowid)
    .limit(bind)
)
COUNT_CALLS = select(func.coalesce(func.sum(col(Session.calls)), 0)).where(
    top_level, col(Session.updated) >= bind
)
SELECT_SESSION_IDS_CONTAINING = session_ids.where(contains(col(Session.id))).limit(bind)
UPSERT_SESSION = upsert_session("id", "opened", "kind", "parent", "parent_seq", "imported")
REPLACE_SESSION = upsert_session("id")  # for a line that may be wrong in every column
DELETE_SESSION = delete(Session).where(col(Session.id) == bind)

# Events

of_session = col(Event.session) == bind
after_seq = col(Event.seq) > bind
behind = col(Event.cursor) > bind
up_to = col(Event.cursor) <= bind
plain_columns = columns(Event)[:6]
has_nets = col(Event.type).in_(["session.opened", "session.resumed", "rules.replaced"])
before = (
    select(
        col(Event.seq),
        col(Event.cursor),
        func.lag(col(Event.cursor))
        .over(partition_by=lane_of(col(Event.cursor)), order_by=col(Event.seq))
        .label("previous"),
    )
    .where(of_session)
    .subquery("numbered")
)
present = union_all(select(col(Event.cursor)), select(bind)).subquery("present")
followed = select(
    present.c.cursor,
    func.lag(present.c.cursor, 1, 0).over(order_by=present.c.cursor).label("previous"),
).subquery("followed")
last_cursor = func.coalesce(select(sequence.c.seq).where(sequence.c.name == "event").scalar_subquery(), 0)

SELECT_EVENTS = select(*plain_columns).where(of_session, after_seq).order_by(col(Event.seq)).limit(bind)
SELECT_SINCE = select(*plain_columns).where(behind, up_to).order_by(col(Event.cursor)).limit(bind)
SELECT_LINKED_SINCE = select(*columns(Event)).where(behind, up_to).order_by(col(Event.cursor)).limit(bind)
SELECT_MESSAGES = (
    select(*plain_columns).where(of_session, col(Event.type) == "message").order_by(col(Event.seq))
)
SELECT_LINKED = (
    select(*columns(Event))
    .where(of_session, after_seq)
    .order_by(col(Event.seq), col(Event.cursor))
    .limit(bind)
)
SELECT_BEARING = (
    select(col(Event.cursor), col(Event.seq), col(Event.at), col(Event.body))
    .where(of_session, after_seq, in_list(col(Event.type), "types"))
    .order_by(col(Event.seq))
    .limit(bind)
)
SELECT_CALLS = (
    select(col(Event.seq), col(Event.at), col(Event.type), col(Event.body))
    .where(of_session, after_seq, col(Event.type).in_(CALL_TYPES))
    .order_by(col(Event.seq))
    .limit(bind)
)
SELECT_CALLS_AND_MESSAGES = (
    select(col(Event.seq), col(Event.at), col(Event.type), col(Event.body))
    .where(of_session, after_seq, col(Event.type).in_((*CALL_TYPES, "message")))
    .order_by(col(Event.seq))
    .limit(bind)
)
SELECT_USES = (
    select(col(Event.session), col(Event.type), col(Event.body), col(Event.seq), col(Session.imported))
    .join(Session, col(Session.id) == col(Event.session))
    .where(
        col(Session.updated) >= bind,
        or_(
            (col(Event.at) >= bind) & (col(Event.type) == "call.decided") & contains(col(Event.body)),
            (col(Event.at) >= bind) & (col(Event.type) == "call.result") & contains(col(Event.body)),
            # The start of an imported session's own part is needed, whenever it was recorded.
            (cast(col(Session.imported), Integer) == 1) & (col(Event.type) == "session.resumed"),
        ),
    )
    .order_by(col(Event.cursor))
)
SELECT_NETS = select(col(Event.seq), col(Event.body)).where(of_session, has_nets).order_by(col(Event.seq))
SELECT_APPROVALS = (
    select(*plain_columns)
    .where(behind, up_to, col(Event.at) >= bind, col(Event.type).in_(APPROVAL_TYPES))
    .order_by(col(Event.cursor))
    .limit(bind)
)
SELECT_PRECEDENTS = (
    select(*plain_columns)
    .where(behind, up_to, col(Event.type).in_((*APPROVAL_TYPES, "call.decided", "call.result")))
    .order_by(col(Event.cursor))
    .limit(bind)
)
SELECT_TALKS = (
    select(col(Event.session), func.count(), func.max(col(Event.at)))
    .where(col(Event.type) == "message")
    .group_by(col(Event.session))
    .order_by(func.max(col(Event.cursor)).desc())
)
SELECT_HASHES = select(col(Event.seq), col(Event.hash)).where(of_session)
SELECT_LAST_HASH = select(col(Event.hash)).where(of_session).order_by(col(Event.seq).desc()).limit(1)
SELECT_LAST_LINK = (
    select(col(Event.seq), col(Event.hash)).where(of_session).order_by(col(Event.seq).desc()).limit(1)
)
SELECT_LAST_EVENT = (
    select(col(Event.seq), col(Event.at)).where(of_session).order_by(col(Event.seq).desc()).limit(1)
)
SELECT_FIRST_CONTENT = select(col(Event.content)).where(of_session).order_by(col(Event.seq)).limit(1)
SELECT_LAST_RESUME = select(func.coalesce(func.max(col(Event.seq)), 0)).where(
    of_session, col(Event.type) == "session.resumed"
)
SELECT_LAST_CURSOR = select(last_cursor)
SELECT_LANES = select(literal_column("0", Integer), last_cursor)
SELECT_EVENT_SESSIONS = select(col(Event.session)).distinct()
SELECT_STRAY_EVENT_SESSIONS = SELECT_EVENT_SESSIONS.where(col(Event.session).not_in(session_ids))
SELECT_MISPLACED = (
    select(before.c.seq).where(before.c.cursor <= before.c.previous).order_by(before.c.seq).limit(1)
)
SELECT_GAPS = (
    select(
        followed.c.previous + 1,
        followed.c.cursor - 1,
        select(col(Event.session)).where(col(Event.cursor) == followed.c.previous).scalar_subquery(),
        select(col(Event.seq)).where(col(Event.cursor) == followed.c.previous).scalar_subquery(),
    )
    .where(followed.c.cursor > followed.c.previous + 1)
    .order_by(followed.c.cursor)
    .limit(bind)
)
COUNT_EVENTS = select(func.count()).select_from(Event).where(of_session)
COUNT_FILE = select(
    func.coalesce(
        select(func.max(cast(sequence.c.seq, Integer)))
        .where(sequence.c.name == "event")
        .scalar_subquery(),
        0,
    ),
    select(func.count()).select_from(Event).scalar_subquery(),
    select(func.coalesce(func.sum(cast(col(Pruned.events), Integer)), 0)).scalar_subquery(),
)
INSERT_EVENT = insert_row(Event)
SET_LAST_CURSOR = update(sequence).values(seq=bind).where(sequence.c.name == "event")
DELETE_EVENTS = delete(Event).where(of_session)

# Stubs of pruned sessions

SELECT_STUB = select(col(Pruned.events), col(Pruned.head)).where(col(Pruned.session) == bind)
SELECT_STUBS = select(*columns(Pruned)).order_by(col(Pruned.at), rowid)
SELECT_STUBS_BY_PREFIX = select(col(Pruned.session), col(Pruned.at), col(Pruned.by)).where(
    begins(col(Pruned.session))
)
INSERT_STUB = insert_row(Pruned)

# Decisions

calls_only = col(Decision.verdict).not_in(STEPS)  # by the verdict, which the indexes for counting include
newest_first = col(Decision.at).desc(), col(Decision.cursor).desc()
position = tuple_(col(Decision.at), col(Decision.cursor))
own_event = col(Event.cursor) == col(Decision.cursor)
ran = col(Decision.verdict).not_in(["block", "denied"])
listed = (
    select(
        col(Decision.at),
        col(Decision.cursor),
        func.row_number().over(order_by=newest_first).label("number"),
        func.lead(col(Decision.cursor)).over(order_by=newest_first).label("following"),
    )
    .where(condition)
    .subquery("listed")
)


def count_by(name: Text) -> ClauseElement:
    """Return decision counts by name, verdict and time step; the steps' start and length are values."""
    step = (col(Decision.at) - bind).op("/", precedence=8)(bind)
    return (
        select(name.label("name"), col(Decision.verdict), step.label("step"), func.count())
        .where(condition)
        .group_by(*(literal_column(f"{n}", Integer) for n in (1, 2, 3)))
    )


def unordered(name: Text) -> ColumnElement[str]:
    """Return the name as an expression that keeps SQLite from using an index: a full scan is fastest."""
    return literal_column(f"{sql_of(name)} || ''", String)


def distinct_values(value: Text, condition: ColumnElement[bool] | None = None) -> ClauseElement:
    """Return the distinct values of an index's first column, found by skipping from one to the next."""
    lowest = select(func.min(value).label("value"))
    lowest = lowest if condition is None else lowest.where(condition)
    each = lowest.cte("each", recursive=True)
    following = lowest.where(value > each.c.value).correlate(each).scalar_subquery()
    each = each.union_all(select(following).where(each.c.value.is_not(None)))
    return select(each.c.value).where(each.c.value.is_not(None))


SELECT_DECISIONS = select(*columns(Decision)).order_by(col(Decision.cursor))
SELECT_DECISIONS_OF_SESSION = SELECT_DECISIONS.where(col(Decision.session) == bind)
SELECT_DECISION_PAGE = (
    select(
        *columns(Decision),
        func.coalesce(select(func.unclear_in(col(Event.body))).where(own_event).scalar_subquery(), 0),
    )
    .where(condition)
    .order_by(*newest_first)
    .limit(bind)
)
SELECT_POSITION = (
    select(col(Decision.at), col(Decision.cursor))
    .where(condition)
    .order_by(*newest_first)
    .limit(literal_column("1", Integer))
    .offset(bind)
)
SELECT_PAGE_BORDERS = (
    select(listed.c.at, listed.c.cursor, listed.c.number)
    .where(or_(listed.c.number % bind == 1, listed.c.following.is_(None)))
    .order_by(listed.c.number)
)
SELECT_TIME_SPAN = select(func.min(col(Decision.at)), func.max(col(Decision.at)))
SELECT_RULE_OF_NET = (
    select(col(Decision.rule), col(Decision.place))
    .where(col(Decision.net) == bind, col(Decision.verdict) != "allow", calls_only)
    .order_by(col(Decision.at).desc())
    .limit(1)
)
SELECT_RUNNING_CALLS = (
    select(col(Decision.call_id), col(Decision.cursor))
    .where(
        col(Decision.session) == bind,
        col(Decision.result).is_(None),
        col(Decision.kind) == "call",
        ran,
    )
    .order_by(col(Decision.seq))
)
SELECT_STRAY_DECISION_SESSIONS = (
    select(col(Decision.session)).where(col(Decision.session).not_in(session_ids)).distinct()
)
SELECT_DISTINCT = {
    "tool": distinct_values(col(Decision.tool)),
    "called": distinct_values(col(Decision.called), col(Decision.called) != col(Decision.tool)),
    "net": distinct_values(col(Decision.net)),
    "by": distinct_values(col(Decision.by), col(Decision.by).is_not(None)),
    "off": distinct_values(col(Decision.off), col(Decision.off).is_not(None)),
}
COUNT_DECISIONS = {
    "rule": count_by(unordered(col(Decision.net))),
    "tool": count_by(unordered(col(Decision.tool))),
    None: count_by(literal_column("NULL", String)),
}
COUNT_SHADOW_DECISIONS = (
    select(
        col(Decision.session),
        col(Decision.verdict),
        col(Decision.net),
        col(Decision.result),
        func.count(),
    )
    .where(condition)
    .group_by(col(Decision.session), col(Decision.verdict), col(Decision.net), col(Decision.result))
)
_first_blocks = (
    select(func.min(col(Decision.cursor)))
    .where(condition, col(Decision.verdict) == "would-block")
    .group_by(col(Decision.session))
)
SELECT_FIRST_SHADOW_BLOCKS = select(col(Decision.session), col(Decision.net)).where(
    col(Decision.cursor).in_(_first_blocks)
)
INSERT_DECISION = insert_row(Decision)
END_DECISION = update(Decision).values(result=bind).where(col(Decision.cursor) == bind)
DELETE_DECISIONS = delete(Decision)
DELETE_DECISIONS_OF_SESSION = delete(Decision).where(col(Decision.session) == bind)

# Conditions of a list of decisions

FROM_POSITION = position <= tuple_(bind, bind)
BEFORE_POSITION = position > tuple_(bind, bind)
SINCE = col(Decision.at) >= bind
UNTIL = col(Decision.at) < bind
TOOL_AMONG = or_(
    in_list(col(Decision.tool), "values"),
    in_list(col(Decision.called), "values") & (col(Decision.called) != col(Decision.tool)),
)
NET_AMONG = in_list(col(Decision.net), "values")
VERDICT_AMONG = in_list(col(Decision.verdict), "values")
VERDICT_NOT_ALLOW = col(Decision.verdict) != "allow"
RESULT_AMONG = in_list(col(Decision.result), "values")
KIND_AMONG = in_list(col(Decision.kind), "values")
KIND_NOT_CALL = col(Decision.kind) != "call"
SESSION_AMONG = or_(in_list(col(Decision.session), "values"), in_list(col(Decision.via), "values"))
SESSION_CONTAINS = or_(contains(col(Decision.session)), contains(col(Decision.via)))
AGENT_CONTAINS = contains(col(Decision.agent))
WORD_CONTAINED = or_(
    contains(col(Decision.input)),
    contains(col(Decision.tool)),
    contains(col(Decision.net)),
    contains(col(Decision.rule)),
    contains(col(Decision.agent)),
    contains(col(Decision.off)),
)
INPUT_CONTAINS = exists(  # the whole event is searched first: most need not be parsed as JSON then
    select(literal_column("1", Integer)).where(
        col(Event.cursor) == literal_column(sql_of(col(Decision.cursor)), Integer),
        case((contains(col(Event.body)), case((contains(func.input_of(col(Event.body))), 1), else_=0)))
        == 1,
    )
)
NAMES_PEOPLE = or_(
    col(Decision.by).is_not(None)
    & col(Decision.by).in_(select(func.json_each(bind).table_valued("value").c.value)),
    col(Decision.off).is_not(None)
    & col(Decision.off).in_(select(func.json_each(bind).table_valued("value").c.value)),
)
IN_SHADOW_MODE = col(Decision.mode) == "shadow"

# The file

FIRST_ROWS = [select(*columns(model)).limit(literal_column("1", Integer)) for model in TABLES]
