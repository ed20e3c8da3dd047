"""Open requests grouped by rule and agent: what a group has in common, and what differs.

Of texts with a common beginning or end only the part between differs: five calls of `git push origin …`
are one text and five words. Nothing is left out: the common part and a line's own parts make up the whole
request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest

from ...engine.history.model.state import ApprovalState, SessionState
from ...engine.history.redaction.shell.masking import holds_commands
from .batch import compared, too_much

INPUT = "input."
LEAST = 4
"""Minimum characters of a common beginning or end; a shorter one is not split off."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs within a group, with the common beginning and end of its values."""

    name: str
    head: str = ""
    tail: str = ""
    command: bool = False


@dataclass(frozen=True, slots=True)
class TriageGroup:
    """Requests of one rule and agent, most urgent first.

    `alike` are the fields with the same value in all. `parts` has, by request id, the differing part of
    each of the `differences`; `None` if the request lacks the field. `stamp` identifies everything that
    the group's lines show except times.
    """

    key: str
    requests: tuple[ApprovalState, ...]
    alike: Mapping[str, str]
    differences: tuple[Difference, ...]
    parts: Mapping[str, tuple[str | None, ...]]
    stamp: bytes

    @property
    def first(self) -> ApprovalState:
        """Return the most urgent request."""
        return self.requests[0]


Shape = tuple[str, ...]


def shape_of(request: ApprovalState) -> Shape:
    """Return the traits that requests marked together share: group, tool, effects, risk, input fields."""
    return (
        _group_key(request),
        request.called,
        request.tool,
        request.risk or "",
        *sorted(request.input),
    )


def _group_key(request: ApprovalState) -> str:
    rule = request.net if request.rule is None else f"{request.rule.where}\n{request.rule.text}"
    return "\n".join((rule, request.agent, request.via or ""))


def grouped(
    requests: Iterable[ApprovalState],
    sessions: Mapping[str, SessionState],
    known: Mapping[str, TriageGroup] | None = None,
) -> list[TriageGroup]:
    """Return groups in the order of their first requests; `requests` are in queue order.

    A group of `known` with the same requests is reused.
    """
    members: dict[str, list[ApprovalState]] = {}
    for request in requests:
        members.setdefault(_group_key(request), []).append(request)
    groups: list[TriageGroup] = []
    for key, found in members.items():
        before = None if known is None else known.get(key)
        same = before is not None and all(a is b for a, b in zip_longest(before.requests, found))
        groups.append(before if before is not None and same else _group(key, tuple(found), sessions))
    return groups


def _group(
    key: str, requests: tuple[ApprovalState, ...], sessions: Mapping[str, SessionState]
) -> TriageGroup:
    comparison = compared(requests, sessions)
    alike = dict(comparison.alike)
    differing = dict(comparison.differing)
    if len(requests) == 1:
        # The input of a single request belongs in its line.
        own = {name: [text] for name, text in alike.items() if name.startswith("input")}
        differing.update(own)
        alike = {name: text for name, text in alike.items() if name not in own}
    differences: list[Difference] = []
    columns: list[Sequence[str | None]] = []
    for name in sorted(differing, key=lambda each: not each.startswith("input")):
        values = differing[name]
        command = holds_commands(name.removeprefix(INPUT), requests[0].shell_fields)
        head, tail = common_ends([text for text in values if text is not None], command=command)
        if len(requests) == 1 or None in values:
            head = tail = ""
        differences.append(Difference(name, head, tail, command))
        columns.append([None if v is None else v[len(head) : len(v) - len(tail)] for v in values])
    parts = {request.id: tuple(column[at] for column in columns) for at, request in enumerate(requests)}
    named = repr([(each.id, each.digest, each.hidden, each.edited_by) for each in requests])
    stamp = blake2b(named.encode(), digest_size=16).digest()
    return TriageGroup(key, requests, alike, tuple(differences), parts, stamp)


def common_ends(values: Sequence[str], *, command: bool) -> tuple[str, str]:
    """Return the common beginning and end of all values, up to the end of a word or folder.

    In commands no word is split, because only a complete word shows whether it imitates another.
    """
    signs = " \t\n" if command else " \t\n/"
    head = _beginning(values)
    head = head[: max((head.rfind(sign) for sign in signs), default=-1) + 1]
    tail = _beginning([value[len(head) :][::-1] for value in values])[::-1]
    starts = [at for at in (tail.find(sign) for sign in signs) if at >= 0]
    tail = tail[min(starts) :] if starts else ""
    return (head if len(head) >= LEAST else "", tail if len(tail) >= LEAST else "")


def _beginning(values: Sequence[str]) -> str:
    """Return the common beginning of all values."""
    first, last = min(values, default=""), max(values, default="")
    same = next((at for at, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), None)
    return first[: min(len(first), len(last))] if same is None else first[:same]


def must_be_opened(request: ApprovalState) -> str | None:
    """Return why a request's line can never show everything that decides about it; `None` if it can."""
    if (alone := too_much(request)) is not None:
        return alone.partition(": ")[2]
    if request.uninspectable is not None:
        return f"it may do more than shown: {request.uninspectable}"
    if any(isinstance(each, str) and len(each.splitlines()) > 1 for each in request.input.values()):
        return "a text in it has several lines"
    if request.original is not None:
        return "an operator has edited its input"
    if request.asks_for:
        return f"{request.needs} must approve it"
    if not request.may_grant:
        return "its rule says 'no grants': review each request"
    if request.late is not None:
        return "its client is gone: an approval waits until the agent makes the call again"
    if request.comments:
        return "people have commented on it"
    if request.disconnected is not None:
        return "no connection waits for the answer"
    if request.beyond is not None:
        return f"it asks despite a grant: {request.beyond}"
    return None
