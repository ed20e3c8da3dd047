"""Clicks as sent by Slack: a form with one JSON field, signed with the app's secret.

See *Verifying requests from Slack* and *block_actions payload* in Slack's documentation.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from multidict import CIMultiDictProxy
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...config.notifications import SLACK_HOST

FORM = "application/x-www-form-urlencoded"
TIMESTAMP, SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"
MAX_AGE = 300
"""Seconds during which a signed request is valid."""


class SlackRequestError(ValueError):
    """A request that is not from Slack, or not a click on a button."""


class _User(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(pattern=r"^[UW][A-Z0-9]{2,30}$")
    team_id: str = Field(pattern=r"^[TE][A-Z0-9]{2,30}$")


class _Action(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    type: str
    action_id: str = Field(max_length=255)
    value: str = Field(default="", max_length=2000)


class _Payload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    type: str
    user: _User
    actions: tuple[_Action, ...]
    response_url: str = Field(max_length=2000)


@dataclass(frozen=True, slots=True)
class Click:
    """A click on a button: the account that clicked, and the temporary address for an answer."""

    account: str
    action: str
    value: str
    answer_to: str


def check_signature(secret: str, headers: CIMultiDictProxy[str], body: bytes, now: float) -> str:
    """Return the signature of a request that Slack signed recently. Raises `SlackRequestError`."""
    times, signatures = headers.getall(TIMESTAMP, []), headers.getall(SIGNATURE, [])
    if len(times) != 1 or len(signatures) != 1:
        raise SlackRequestError("it has no signature from Slack")
    [time], [signature] = times, signatures
    if not (time.isascii() and time.isdecimal() and len(time) <= 12):
        raise SlackRequestError("its time is not a number")
    signed = b"v0:" + time.encode() + b":" + body
    expected = f"v0={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogateescape")):
        raise SlackRequestError("it is not signed with the app's signing secret")
    if abs(now - int(time)) > MAX_AGE:
        raise SlackRequestError(
            f"it was signed more than {MAX_AGE // 60} minutes from now; is the clock right?"
        )
    return signature


def click_of(body: bytes) -> Click:
    """Parse the click in a request whose signature was checked. Raises `SlackRequestError`."""
    try:
        fields: Mapping[str, list[str]] = parse_qs(
            body.decode("ascii"), strict_parsing=True, errors="strict", max_num_fields=4
        )
        [text] = fields["payload"]
        payload = _Payload.model_validate_json(text)
    except (ValidationError, ValueError, KeyError) as error:
        raise SlackRequestError("it is not a click on a button, in the form of block_actions") from error
    if payload.type != "block_actions" or len(payload.actions) != 1:
        raise SlackRequestError(f"expected block_actions with one action, found {payload.type!r:.40}")
    [action] = payload.actions
    if action.type != "button":
        raise SlackRequestError(f"expected a button, found {action.type!r:.40}")
    account = f"{payload.user.team_id}/{payload.user.id}"
    return Click(account, action.action_id, action.value, payload.response_url)


def is_answer_address(url: str) -> bool:
    """Return whether an answer may be sent to an address: only to Slack, whatever a request says."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" and parts.netloc == SLACK_HOST and url.isascii() and url.isprintable()
