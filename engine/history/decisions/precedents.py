"""Earlier calls like a waiting one: the decisions on them, the most similar one, and its new words.

An index over the journal's events is kept in memory and continues from its last position. For each kind
of call it has only counts and the latest requests, and for words only their hashes. An input is read from
the journal when it is shown.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Literal, TypeAlias, cast

from pydantic import JsonValue
from pydantic_core import from_json

from ...core.people import person_key
from ..database.compiled import SELECT_PRECEDENTS
from ..database.lanes import LaneCursors, lane_of, rows_behind
from ..database.location import Location
from ..errors import JournalError
from ..journal.reader import open_reader
from ..journal.schema import name_of, reading
from ..model.events import ApprovalRequested
from ..model.records import Record
from ..model.state import ApprovalState
from ..redaction.redaction import Redaction
from ..redaction.shell.masking import shell_texts

RECENT = 20
"""Number of a rule's and tool's latest requests among which the most similar is searched."""
MOST_WORDS = 300_000
"""Maximum number of words kept; in a journal with more, no word is reported as new."""
MOST_NEW = 12
LONGEST_WORD = 200
_PAGE = 2_000

_SEPARATORS = re.compile(r"[\s'\"`;|&<>(){}\[\],=]+")
_HOST = re.compile(r"(?:://(?:[^/\s@'\"]*@)?|\b[\w.+-]+@)([\w-]+(?:\.[\w-]+)+|localhost)")

PastVerdict: TypeAlias = Literal["approved", "denied", "expired"]
WordKind: TypeAlias = Literal["program", "path", "host"]


class NewWord(Record):
    """A program, path or host of a request that no recorded call had."""

    kind: WordKind
    text: str


class PastCall(Record):
    """An earlier call that needed approval: its input, the decision on it, its result if it has one."""

    session: str
    call_id: str
    at: datetime
    input: dict[str, JsonValue]
    verdict: PastVerdict
    by: str | None = None
    reason: str | None = None
    result: Literal["done", "failed", "unknown"] | None = None


class Precedents(Record):
    """Earlier calls like one that waits.

    For calls of the same rule with the same input, `approved`, `denied` and `expired` count the
    decisions, `people` the operators who approved, and `reason` is that of the last denial that had one.
    `nearest` is the most similar earlier call of the same rule and tool, `last` the last approved one of
    the same tool and agent. `new` are words that no recorded call had.
    """

    approved: int = 0
    denied: int = 0
    expired: int = 0
    people: int = 0
    reason: str | None = None
    nearest: PastCall | None = None
    last: PastCall | None = None
    new: tuple[NewWord, ...] = ()


@dataclass(slots=True)
class _Past:
    """A request that was decided: its event's cursor, and its outcome."""

    cursor: int
    verdict: PastVerdict
    by: str | None = None
    reason: str | None = None
    result: Literal["done", "failed", "unknown"] | None = None


@dataclass(slots=True)
class _Open:
    cursor: int
    key: bytes
    kind: tuple[str, str, str]
    asker: tuple[str, str]
    call_id: str


@dataclass(slots=True)
class _Tally:
    approved: int = 0
    denied: int = 0
    expired: int = 0
    people: set[str] = field(default_factory=set[str])
    reason: str | None = None


def masked(found: Precedents, text: Callable[[str], str]) -> Precedents:
    """Mask the reasons of decisions with `text`; the inputs are masked already."""

    def reason_field(reason: str | None) -> dict[str, str | None]:
        return {"reason": None if reason is None else text(reason)}

    calls = {"nearest": found.nearest, "last": found.last}
    update: dict[str, object] = {
        name: None if call is None else call.model_copy(update=reason_field(call.reason))
        for name, call in calls.items()
    }
    return found.model_copy(update={**update, **reason_field(found.reason)})


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text for comparison: split at spaces and shell operators, plus hosts."""
    for word in _SEPARATORS.split(text):
        if 0 < len(word) <= LONGEST_WORD:
            yield word
            if word.startswith("/"):
                yield word.rpartition("/")[2]
    yield from _HOST.findall(text)


def candidates(request: ApprovalState, programs: Callable[[str], Iterable[str]]) -> list[NewWord]:
    """Return the programs, paths and hosts in a request as shown, each once."""
    words: dict[NewWord, None] = {}
    commands = list(shell_texts(request.input, request.shell_fields))
    for text in commands:
        for name in sorted(programs(text)):
            words[NewWord(kind="program", text=name)] = None
    others = [value for value in request.input.values() if isinstance(value, str) and len(value) < 4_000]
    for text in dict.fromkeys((*commands, *others)):
        for host in _HOST.findall(text):
            words[NewWord(kind="host", text=host)] = None
        for word in _SEPARATORS.split(text) if text in commands else [text]:
            if _is_path(word):
                words[NewWord(kind="path", text=word)] = None
    program_names = {each.text for each in words if each.kind == "program"}
    return [each for each in words if each.kind != "path" or each.text not in program_names]


def _is_path(word: str) -> bool:
    return (
        "/" in word.strip("/")
        and len(word) <= LONGEST_WORD
        and not word.startswith("-")
        and "://" not in word
        and not re.search(r"[\s$*?\\]", word)
    )


class PrecedentIndex:
    """Index of the decided requests and the words of a journal at `path`; threads may share it."""

    def __init__(self, path: Location) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read_positions: LaneCursors = {}
        self._tallies: dict[bytes, _Tally] = {}
        self._recent: dict[tuple[str, str, str], deque[_Past]] = {}
        self._last_approvals: dict[tuple[str, str], _Past] = {}
        self._open_requests: dict[tuple[str, str], _Open] = {}
        self._running_calls: dict[tuple[str, str], _Past] = {}
        self._agents: dict[str, str] = {}
        self._words: set[int] | None = set()

    def masked_of(
        self,
        request: ApprovalState,
        shown: ApprovalState,
        programs: Callable[[str], Iterable[str]],
        redaction: Redaction,
    ) -> Precedents:
        """Return the precedents of `request`, all masked; `shown` is its masked form.

        `programs` finds the programs that a command runs. Raises `JournalError`.
        """

        def mask_input(body: ApprovalRequested) -> Mapping[str, JsonValue]:
            return redaction.fields(body.input, body.shell_fields)

        return masked(self.of(request, candidates(shown, programs), mask_input), redaction.text)

    def of(
        self,
        request: ApprovalState,
        named: Iterable[NewWord],
        shown: Callable[[ApprovalRequested], Mapping[str, JsonValue]],
    ) -> Precedents:
        """Return the precedents of an open request, as it is in the journal.

        `named` are the words that may be new; `shown` masks the input of a recorded request. Raises
        `JournalError` for a journal that cannot be read.
        """
        with self._lock:
            self._read_on()
            rule = "" if request.rule is None else request.rule.text
            tally = self._tallies.get(_key(request.net, rule, request.input), _Tally())
            recent = list(self._recent.get((request.net, rule, request.called), ()))
            last = self._last_approvals.get((request.agent, request.called))
            words = self._words
            new = [each for each in named if words is not None and hash(each.text) not in words]
        return Precedents(
            approved=tally.approved,
            denied=tally.denied,
            expired=tally.expired,
            people=len(tally.people),
            reason=tally.reason,
            nearest=self._nearest(request, recent, shown),
            last=None if last is None else self._past_call(last, self._event(last), shown),
            new=tuple(new[:MOST_NEW]),
        )

    # Reading of new events

    def _read_on(self) -> None:
        more = True
        while more:
            with reading(self._path) as connection:
                rows, after, more = rows_behind(
                    connection, SELECT_PRECEDENTS, self._read_positions, _PAGE
                )
            for cursor, session, _, _, kind, text in rows:
                try:
                    self._take(cursor, session, kind, cast("dict[str, JsonValue]", from_json(text)))
                except (KeyError, TypeError, ValueError) as error:
                    raise JournalError(
                        f"Journal '{name_of(self._path)}': event {cursor} of the file cannot be read: "
                        f"{error or type(error).__name__}. Another program changed the file; "
                        "restore a backup."
                    ) from error
                self._read_positions[lane_of(cursor)] = cursor
            self._read_positions = after

    def _take(self, cursor: int, session: str, kind: str, body: Mapping[str, JsonValue]) -> None:
        """Process one event. Raises `KeyError`, `TypeError` or `ValueError` for an invalid one."""
        match kind:
            case "call.decided":
                self._add_words(body["input"])
            case "call.result":
                past = self._running_calls.pop((session, str(body["call_id"])), None)
                if past is not None:
                    failed, unknown = body.get("is_error") is True, body.get("unknown") is True
                    past.result = "unknown" if unknown else "failed" if failed else "done"
            case "approval.requested":
                self._add_request(cursor, session, body)
            case "approval.decided" | "approval.expired" | "approval.withdrawn":
                self._add_answer(session, kind, body)
            case _:
                pass

    def _add_request(self, cursor: int, session: str, body: Mapping[str, JsonValue]) -> None:
        rule = body.get("rule")
        text = str(rule["text"]) if isinstance(rule, dict) else ""
        net, called = str(body["net"]), str(body["called"])
        call_input = cast("dict[str, JsonValue]", body["input"])
        self._open_requests[session, str(body["approval_id"])] = _Open(
            cursor,
            _key(net, text, call_input),
            (net, text, called),
            (self._agent(session), called),
            str(body["call_id"]),
        )

    def _add_answer(self, session: str, kind: str, body: Mapping[str, JsonValue]) -> None:
        request = self._open_requests.pop((session, str(body["approval_id"])), None)
        if request is None or kind == "approval.withdrawn":
            return
        key = request.key
        if isinstance(edited := body.get("input"), dict):
            key = _key(request.kind[0], request.kind[1], edited)
        tally = self._tallies.setdefault(key, _Tally())
        reason = body.get("reason")
        reason_text = reason if isinstance(reason, str) else None
        if kind == "approval.expired":
            tally.expired += 1
            past = _Past(request.cursor, "expired", None, reason_text)
        elif body["approved"] is True:
            others = cast("list[str]", body.get("others") or [])
            tally.approved += 1
            tally.people.update(person_key(name) for name in (str(body["by"]), *others))
            past = _Past(request.cursor, "approved", str(body["by"]), reason_text)
            if body.get("input") is None:
                self._last_approvals[request.asker] = past
            self._running_calls[session, request.call_id] = past
        else:
            tally.denied += 1
            tally.reason = reason_text or tally.reason
            past = _Past(request.cursor, "denied", str(body["by"]), reason_text)
        self._recent.setdefault(request.kind, deque(maxlen=RECENT)).append(past)

    def _agent(self, session: str) -> str:
        agent = self._agents.get(session)
        if agent is None:
            agent = self._agents[session] = open_reader(self._path).session(session).agent
        return agent

    def _add_words(self, value: JsonValue) -> None:
        """Add the words of an input, at any depth."""
        stack = [value]
        while stack and self._words is not None:
            match stack.pop():
                case str() as text:
                    self._words.update(map(hash, words_of(text)))
                case dict() as members:
                    stack += members.values()
                case list() as members:
                    stack += members
                case _:
                    pass
            if len(self._words) > MOST_WORDS:
                self._words = None

    # Calls that are shown

    def _nearest(
        self,
        request: ApprovalState,
        recent: list[_Past],
        mask_input: Callable[[ApprovalRequested], Mapping[str, JsonValue]],
    ) -> PastCall | None:
        past_events = [(past, self._event(past)) for past in recent]
        if not past_events:
            return None
        past, event = min(past_events, key=lambda each: _distance(request.input, each[1], each[0].cursor))
        return self._past_call(past, event, mask_input)

    def _event(self, past: _Past) -> tuple[ApprovalRequested, str, datetime]:
        """Return the recorded request, its session and its time. Raises `JournalError`."""
        [event] = open_reader(self._path).since(past.cursor - 1, 1)
        if not isinstance(event.body, ApprovalRequested):
            raise JournalError(
                f"Journal '{name_of(self._path)}': event {past.cursor} is no longer a request. Another "
                "program changed the file; restore a backup."
            )
        return event.body, event.session, event.at

    @staticmethod
    def _past_call(
        past: _Past,
        event: tuple[ApprovalRequested, str, datetime],
        mask_input: Callable[[ApprovalRequested], Mapping[str, JsonValue]],
    ) -> PastCall:
        body, session, at = event
        return PastCall(
            session=session,
            call_id=body.call_id,
            at=at,
            input=dict(mask_input(body)),
            verdict=past.verdict,
            by=past.by,
            reason=past.reason,
            result=past.result,
        )


def _key(net: str, rule: str, values: Mapping[str, JsonValue]) -> bytes:
    """Return a digest of a rule and an input, which is the same for equal JSON."""
    text = json.dumps([net, " ".join(rule.split()), values], sort_keys=True)
    return blake2b(text.encode(), digest_size=16).digest()


def _distance(
    values: Mapping[str, JsonValue], event: tuple[ApprovalRequested, str, datetime], cursor: int
) -> tuple[int, int, int]:
    """Return the distance to an earlier input: number of different fields, length of their texts, age."""
    earlier = event[0].input
    differing = [name for name in {*values, *earlier} if values.get(name) != earlier.get(name)]
    rest = 0
    for name in differing:
        one, other = (json.dumps(each.get(name)) for each in (values, earlier))
        same = next(
            (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
            min(len(one), len(other)),
        )
        rest += max(len(one), len(other)) - same
    return len(differing), rest, -cursor
