"""Rows of nearly all that a journal holds about calls, read without parsing them.

A decision or result as this version writes it has its fields in a fixed order and no blanks. Within a
text every quote has a backslash before it, so a mark like `","is_error":` is found nowhere in what an
agent or a tool wrote, but for an input, which is JSON itself: its end is looked for from behind. What
looks any different is not read here, and goes the long way. Parsing takes longer than judging does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from pydantic_core import from_json

from ..frozen import maker
from ..history.calls import CallRow
from ..history.events import CallDecided
from .recorded import RecordedCall, RecordedResult, Then

_call = maker(RecordedCall)
_result = maker(RecordedResult)
_ALLOWED = Then()
_ALLOWED_IN_SHADOW = Then(shadow=True)

_WORD = r'"([^"\\]*)"'
_HEAD = rf'\{{"type":"call\.decided","call_id":{_WORD},"tool":{_WORD},"input":'
_DECIDED = re.compile(rf"{_HEAD}\{{")
_OUTCOME = ',"outcome":"'
_ENFORCED = ',"outcome":"allow","mode":"enforce","reason":null,"net":null,"rule":null,'
_IN_SHADOW = ',"outcome":"allow","mode":"shadow","reason":null,"net":null,"rule":null,'
_NAMES = '},"names":['
_UNASKED = re.compile(
    r',"approved_by":\[\],"edited":(?:true|false)(?:,"granted":\[\],"clock":null)?,"via":'
)
"""Neither a person nor a grant let it pass, and no net looked at the time."""
_COMMON = re.compile(rf'{_HEAD}(\{{[^{{}}\\]*\}}),"names":\[{_WORD}\]{re.escape(_ENFORCED)}')
"""One name, and no object within the input: the first brace that closes is the input's own."""
_COMMON_END = ',"approved_by":[],"edited":false,"granted":[],"clock":null,"via":null'
_PLAIN = CallDecided(call_id="", tool="", input={}, names=(), outcome="allow", mode="enforce")
_COMMON_ENDS = (
    _PLAIN.model_dump_json().partition('"steps":[]')[2],
    f'{_COMMON_END},"uninspectable":null,"judged_as":[]}}',
    f"{_COMMON_END}}}",
)
"""As records end now, as they did before they said who edited, and before they said what was unclear."""
_UNCLEAR = '"uninspectable":"'
_RESULT = re.compile(rf'\{{"type":"call\.result","call_id":{_WORD},"tool":{_WORD},"output":"')
_ERROR = '","is_error":'
_UNDONE = ',"undone":['
_RESULT_END = ',"undone":[],"clock":null,"arrived":{}}'


class JsonInput(Mapping[str, object]):
    """A call's input that is read when somebody looks into it; `text` is its JSON.

    Looking raises `ValueError` where the text is not what it should be.
    """

    __slots__ = ("_read", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._read: dict[str, object] | None = None

    @property
    def _values(self) -> dict[str, object]:
        if self._read is None:
            self._read = cast("dict[str, object]", from_json(self.text))
        return self._read

    def __getitem__(self, key: str) -> object:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def plain_call(row: CallRow) -> RecordedCall | None:
    """A decision that allowed a call and asked nobody; `None` for any other row."""
    text = row[3]
    common = _COMMON.match(text)
    if common is not None and text.endswith(_COMMON_ENDS):
        call_id, tool, arguments, name = common.groups()
        return _call(row[0], call_id, tool, JsonInput(arguments), _ALLOWED, row[1], (name,))
    head = _DECIDED.match(text)
    outcome = text.rfind(_OUTCOME)
    if head is None or outcome < 0:
        return None
    start = head.end() - 1
    names = text.rfind(_NAMES, start, outcome)
    if names < 0 or _UNASKED.search(text, outcome) is None or text.find(_UNCLEAR, outcome) >= 0:
        return None
    if text.startswith(_ENFORCED, outcome):
        then = _ALLOWED
    elif text.startswith(_IN_SHADOW, outcome):
        then = _ALLOWED_IN_SHADOW
    else:
        return None
    call_id, tool = head.groups()
    written = text[names + len(_NAMES) : outcome - 1]
    known = (tool,) if written and written[1:-1] == tool else tuple(from_json(f"[{written}]"))
    return _call(row[0], call_id, tool, JsonInput(text[start : names + 1]), then, row[1], known)


def result(row: CallRow) -> RecordedResult | None:
    """How a call that ran ended; `None` for any other row."""
    text = row[3]
    head = _RESULT.match(text)
    at = -1 if head is None else text.find(_ERROR, head.end() - 1)
    if head is None or at < 0:
        return None
    at += len(_ERROR)
    if not text.startswith(("true,", "false,"), at):
        return None
    if not text.endswith(_RESULT_END):
        undone = text.rfind(_UNDONE, at)
        if undone >= 0 and not text.startswith("]", undone + len(_UNDONE)):
            return None
    return _result(head[1], head[2], text[at] == "t")
