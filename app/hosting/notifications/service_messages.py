"""Messages to services such as ntfy, Slack or PagerDuty, delivered by Apprise.

A message has the tool, the agent, the rule, the risk and a link; the input is included only if
configured. Names chosen by an agent never become a mention, a link or markup. Decisions are possible only
from Slack; see `slack`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, unquote

from ....engine.core.sanitize import visible
from ....engine.history.model.events import ApprovalDecided, ApprovalExpired, ApprovalWithdrawn
from ....engine.history.model.state import ApprovalState
from .delivery import LOGGED, TIMEOUT, SendError

if TYPE_CHECKING:
    from apprise.logger import NotifyLogEntry

    from .notifier import Notification

Ending: TypeAlias = ApprovalDecided | ApprovalExpired | ApprovalWithdrawn

MARKUP = str.maketrans(dict.fromkeys("<>@&*~`|[]#\\", "·"))
"""Characters that chats interpret as a mention, a link or a style."""
_MARKS = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])|=(?=\?)|:(?=//|[A-Za-z][\w+-]*:)")
"""Underscores around words (style), `=?` (encoded word in a subject), beginnings of links and images."""
DIGEST = 12
"""Characters of the digest that distinguish requests in a chat."""
INPUT = 1_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Message:
    """A message; services without titles prepend the title to the text."""

    title: str
    text: str


def without_markup(text: str) -> str:
    """Return a text in which a chat finds no mention, style or complete link."""
    return _MARKS.sub("·", visible(text).translate(MARKUP))


def request_link(base: str | None, approval_id: str) -> str | None:
    """Return the link to a request's page for phones, at the address of `interlock web`."""
    return None if base is None else f"{base}/m/a/{quote(approval_id, safe='')}"


def facts_of(notification: Notification) -> list[str]:
    """Return lines on the rule, and the beginning of the digest."""
    rule = (
        []
        if notification.rule is None
        else [f"rule: {without_markup(f'{notification.rule.text} ({notification.rule.place})')}"]
    )
    return rule + ([] if notification.digest is None else [f"digest: {notification.digest[:DIGEST]}"])


def waiting_message(notification: Notification) -> Message:
    """Return the message about a waiting request."""
    facts = []
    if notification.input is not None:
        text = without_markup(json.dumps(notification.input, ensure_ascii=False)[: 2 * INPUT])
        facts = [f"input: {text[:INPUT]}{'…' if len(text) > INPUT else ''}"]
    link = [] if notification.link is None else [notification.link]
    test = "Only a test. " if notification.test else ""
    text = "\n".join([*facts_of(notification), *facts, *link])
    return Message(f"{test}{without_markup(notification.summary)}", text)


def ending_message(request: ApprovalState, names: tuple[str, str], ending: Ending) -> Message:
    """Return the message that a request no longer needs anybody.

    `names` are the tool's and the agent's.
    """
    match ending:
        case ApprovalDecided(approved=approved):
            people = ", ".join((*ending.others, ending.by))
            outcome = f"{'approved' if approved else 'denied'} by {people}"
        case ApprovalExpired():
            outcome = "denied, as nobody decided in time"
        case ApprovalWithdrawn():
            outcome = "withdrawn; it is asked again" if ending.again else "withdrawn"
    digest = "" if request.digest is None else f"digest: {request.digest[:DIGEST]}"
    return Message(without_markup(f"{names[0]} of {names[1]}: {outcome}"), digest)


async def tell_service(address: str, message: Message, *, timeout: float = TIMEOUT) -> str:  # noqa: ASYNC109 - of the whole exchange
    """Send a message to one service. Returns the service's name. Raises `SendError`."""
    from apprise import Apprise

    logging.getLogger("apprise").propagate = False  # Its log includes parts of addresses.
    name = service_name(address)
    service = Apprise()
    # Apprise's parameters are only partly typed.
    if not service.add(address):  # pyright: ignore[reportUnknownMemberType]
        raise SendError(f"{name}://… is not an address that Apprise can read")
    output: list[str] = []

    def note(entry: NotifyLogEntry, service: object) -> None:
        output.append(entry.message)

    try:
        is_sent = await asyncio.wait_for(
            service.async_notify(
                body=message.text or message.title,
                title=message.title if message.text else "",
                body_format="text",
                # Captures the log of this call alone: concurrent messages have their own secrets.
                log_callback=note,
                log_level=logging.WARNING,
            ),
            timeout,
        )
    except TimeoutError as error:
        raise SendError(f"{name} did not answer within {timeout:g} s") from error
    if not is_sent:
        reason = _reason("\n".join(output)[:LOGGED], address)
        raise SendError(f"{name} did not take the message{f': {reason}' if reason else ''}")
    log.info("%s took a message", name)
    return name


def _reason(output: str, address: str) -> str:
    """Return the last line of Apprise's output, without parts of the address."""
    parts = re.split(r"[^\w.+-]", unquote(address.partition("://")[2]))
    # Longest first: a part may begin with another.
    for part in sorted(parts, key=len, reverse=True):
        if len(part) > 3:
            output = output.replace(part, "…")
    return visible(output.strip().rpartition("\n")[2])


def service_name(address: str) -> str:
    """Return the part of an address that may be shown: what follows the scheme is often a secret."""
    return visible(address.partition("://")[0])
