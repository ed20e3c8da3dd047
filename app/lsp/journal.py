"""Names and approval counts from a journal: for completion, and for the line above a rule that asks."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ...engine.core.rule import ApprovalRule
from ...engine.core.sanitize import visible_words
from ...engine.history.database.location import Location
from ...engine.history.decisions.approval_stats import Tally, fatigue
from ...engine.history.decisions.call_pages import call_pages
from ...engine.history.errors import JournalError
from ...engine.history.journal.reader import open_reader
from ...engine.history.model.events import CallDecided, event_body
from ...rules.parse.lines import code
from ..format.text import count
from .analysis import statements
from .completion import Seen

AGE = 60.0
"""Seconds after which a history is read again."""
MOST_SESSIONS = 50
MOST_CALLS = 5_000
"""Maximum latest sessions, and maximum calls in them, that are searched for names."""
MOST_NAMES = 2_000
_WORD = re.compile(r'[^\s.#()\[\]"=<>!,]{1,100}')
RuleKey: TypeAlias = tuple[str, str]
"""Name of a rule's file, and the rule's text without a comment."""
Answers: TypeAlias = Mapping[str, int]
"""Numbers of requests, and of those approved, denied and expired."""
log = logging.getLogger(__name__)
_NUMBERS = ("requests", "approved", "denied", "expired")


@dataclass(frozen=True, slots=True)
class History:
    """Tools and fields of recorded calls, and the answers to the requests of each rule."""

    seen: Seen = field(default_factory=Seen)
    answers: Mapping[RuleKey, Answers] = field(default_factory=dict[RuleKey, Answers])


def read_history(path: Location, stop: threading.Event) -> History:
    """Read a journal without changing it.

    Raises `JournalError`, also once `stop` is set, and `ValueError` for an invalid event.
    """
    reader = open_reader(path)
    sessions = [summary.id for summary in reader.sessions(MOST_SESSIONS)]
    tools: dict[str, None] = {}
    fields: dict[tuple[str, str], None] = {}
    for call in _calls(reader.path, sessions):
        if len(fields) < MOST_NAMES and is_proposable(call.tool):
            tools[call.tool] = None
            fields.update(((call.tool, name), None) for name in call.input if is_proposable(name))
    answers: dict[RuleKey, Counter[str]] = {}
    for rule in fatigue(reader.path, stop=stop).rules:
        if rule.rule is not None:
            numbers = answers.setdefault(_key(rule.rule.file, rule.rule.text), Counter())
            numbers.update(_numbers(rule.tally))
    return History(Seen(tuple(tools), tuple(fields)), answers)


def is_proposable(name: str) -> bool:
    """Return whether an agent's name is one word of a rule and does not imitate another word."""
    return _WORD.fullmatch(name) is not None and visible_words(name) == name


def _calls(path: Location, sessions: list[str]) -> Iterator[CallDecided]:
    remaining = MOST_CALLS
    for _, rows in call_pages(path, sessions):
        for _, _, kind, text in rows:
            if kind == "call.decided" and remaining:
                remaining -= 1
                event = event_body.validate_json(text)
                if isinstance(event, CallDecided):
                    yield event
        if not remaining:
            return


def _numbers(tally: Tally) -> Answers:
    return {name: getattr(tally, name) for name in _NUMBERS}


def _key(file: str, text: str) -> RuleKey:
    return os.path.basename(file), code(text).strip()


@dataclass(frozen=True, slots=True)
class AnsweredRule:
    """A rule that has asked: its line, from 1, and the answers in words."""

    line: int
    text: str


def answered_rules(file: str, text: str, history: History) -> Iterator[AnsweredRule]:
    """Yield the rules of a file that asked in recorded sessions, matched by text and file name."""
    for statement in statements(file, text)[0]:
        source = statement.source if isinstance(statement, ApprovalRule) else None
        numbers = None if source is None else history.answers.get(_key(file, source.text))
        if source is not None and numbers is not None:
            yield AnsweredRule(source.line, answers_text(numbers))


def answers_text(numbers: Answers) -> str:
    """Return `asked 41 times, approved 40, denied 1`, for example."""
    rest = [f"{name} {numbers[name]:,}" for name in ("denied", "expired") if numbers[name]]
    requests = f"asked {count(numbers['requests'], 'time')}"
    return ", ".join((requests, f"approved {numbers['approved']:,}", *rest))


class LatestHistory:
    """History of a journal, read outside the server's event loop, and again when it is old.

    `finish` is called after each read. Without a readable journal the history stays as it was, since
    nothing depends on it.
    """

    def __init__(self, path: Location, finish: Callable[[], None]) -> None:
        self.history = History()
        self._path = path
        self._finish = finish
        self._stop = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._begun = 0.0

    def refresh(self) -> None:
        """Read the journal unless a read is running or was finished recently."""
        now = asyncio.get_running_loop().time()
        if self._task is None or (self._task.done() and now - self._begun > AGE):
            self._begun = now
            self._task = asyncio.create_task(self._read())

    async def latest(self) -> History:
        """Return the history once it has been read for the first time."""
        self.refresh()
        if self._task is not None:
            await asyncio.wait([self._task])
        return self.history

    def close(self) -> None:
        """Stop a running read."""
        self._stop.set()

    async def _read(self) -> None:
        try:
            self.history = await asyncio.to_thread(read_history, self._path, self._stop)
        except (JournalError, ValueError, OSError) as error:
            log.info("The journal is not read: %s", error)
            return
        self._finish()
