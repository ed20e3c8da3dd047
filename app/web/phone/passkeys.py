"""Passkeys on the page for phones: the list, and what a tab sends of a key."""

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
    """A wish for a challenge, of a request as it was shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str


class NoWish(BaseModel):
    """Nothing to say."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Confirmation(BaseModel):
    """Confirmation of a key that was made: a code, or an answer of an earlier key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(min_length=1, max_length=100)]
    code: Annotated[str, Field(max_length=40)] = ""
    passkey: KeyAnswer | None = None


class Removal(BaseModel):
    """A wish to remove a key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passkey: Annotated[str, Field(min_length=1, max_length=2000)]


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key as the page lists it; `here` says that it is for this very page."""

    passkey: str
    operator: str
    name: str
    origin: str
    since: str
    by: str
    here: bool


def origin_of(request: web.Request) -> str:
    """The origin of the page that a request comes from; its `Host` was checked before."""
    return f"{'https' if request.secure else 'http'}://{request.host}"


def key_rows(found: Sequence[PasskeyView], origin: str) -> list[KeyRow]:
    """Rows of keys, texts made visible."""
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
    """Values for the template of the list, as an operator sees it."""
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
    """Reason why an operator cannot sign the approval of a request on this page."""
    if not request.passkey:
        return None
    own = [each for each in found.passkeys if _is_of(each, operator) and each.origin == origin]
    return None if own else NO_KEY


def _is_of(key: PasskeyView, operator: str) -> bool:
    return same_person(key.operator, operator)
