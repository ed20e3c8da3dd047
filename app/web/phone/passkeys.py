"""Passkeys on the page for phones: the list, and the messages of a tab about keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from ....engine.approvals.passkeys import KeyAnswer
from ....engine.core.people import same_person
from ....engine.core.sanitize import visible
from ....engine.history.model.state import ApprovalState
from ....engine.hub.api import PasskeyList, PasskeyView
from ..logins import browser_name

NO_KEY = "Its rule asks for a passkey, and you have none for this page: add one (Keys)"


class KeyWish(BaseModel):
    """Request for a challenge, for an approval request as it was shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str


class NoWish(BaseModel):
    """Empty message."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Confirmation(BaseModel):
    """Confirmation of a new key: by a code, or by an answer of an earlier key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(min_length=1, max_length=100)]
    code: Annotated[str, Field(max_length=40)] = ""
    passkey: KeyAnswer | None = None


class Removal(BaseModel):
    """Request to remove a key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passkey: Annotated[str, Field(min_length=1, max_length=2000)]


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key as listed on the page; `here` is true if it is for the page's own origin."""

    passkey: str
    operator: str
    name: str
    origin: str
    since: str
    by: str
    here: bool


def origin_of(request: web.Request) -> str:
    """Return the origin of the page that sent a request; its `Host` was checked before."""
    return f"{'https' if request.secure else 'http'}://{request.host}"


def key_rows(found: Sequence[PasskeyView], origin: str) -> list[KeyRow]:
    """Return rows of keys, with texts made visible."""
    return [
        KeyRow(
            passkey=each.passkey,
            operator=visible(each.operator),
            name=visible(each.name),
            origin=visible(each.origin),
            since=f"{each.at:%Y-%m-%d %H:%M} UTC",
            by="a code" if each.confirmed == "code" else "an earlier key",
            here=each.origin == origin,
        )
        for each in found
    ]


def keys_context(found: PasskeyList, operator: str, request: web.Request) -> dict[str, object]:
    """Return the values for the template of the list, as shown to an operator."""
    rows = key_rows(found.passkeys, origin_of(request))
    own = [each for each, key in zip(rows, found.passkeys, strict=True) if _is_of(key, operator)]
    return {
        "as": visible(operator),
        "own": own,
        "own_here": any(each.here for each in own),
        "others": [each for each in rows if each not in own],
        "faults": tuple(map(visible, found.faults)),
        "device": browser_name(request.headers.get("User-Agent", "")),
    }


def key_problem(request: ApprovalState, found: PasskeyList, operator: str, origin: str) -> str | None:
    """Return the reason why an operator cannot sign the approval of a request on this page, if any."""
    if not request.passkey:
        return None
    own = [each for each in found.passkeys if _is_of(each, operator) and each.origin == origin]
    return None if own else NO_KEY


def _is_of(key: PasskeyView, operator: str) -> bool:
    return same_person(key.operator, operator)
