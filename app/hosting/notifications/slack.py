"""Messages to a Slack app, with buttons if a request may be decided there.

A click approves what the message shows. So the approve button comes only with a message that shows the
complete, unmodified input. Each button carries a seal, so others who may post to the channel cannot forge
one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from ....engine.core.plan import PLAN
from ....engine.core.sanitize import visible, visible_words
from ....engine.history.model.state import ApprovalState
from ....engine.history.redaction.spans import holds_mask
from ...config.notifications import notify_settings
from ...config.operators import slack_accounts
from ...viewmodels.request import unreadable_reason
from .delivery import host_of, post
from .service_messages import Message, facts_of, waiting_message, without_markup

if TYPE_CHECKING:
    from .notifier import Notification

MOST_CHARACTERS, MOST_LINES = 600, 12
"""Maximum size of an input that can be approved from a message: Slack folds longer text."""
_FROM_RIGHT = frozenset({"R", "AL", "AN"})
_SIGNS = frozenset({"Zs", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sk", "Lm"})
"""Unicode categories with characters that resemble an ASCII space, or the end of a JSON string."""
_CHANGED = re.compile(r"&(?:amp|lt|gt);| {20}")
"""Text that Slack shows as another character, and spaces that may push the rest out of view."""
SAMPLE = "sample"
"""Id of the request of `interlock notify --test`, which cannot be decided."""

Answer: TypeAlias = Literal["approve", "deny"]
Block: TypeAlias = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ChatTerms:
    """Terms on which a process accepts clicks: the app's signing secret, and operators by account.

    With `shows_input` messages include inputs, which approving requires.
    """

    secret: str = field(repr=False)
    accounts: Mapping[str, str]
    shows_input: bool

    @property
    def people(self) -> str:
        """Operators who may decide, with their accounts."""
        found = (f"{name} ({account})" for account, name in self.accounts.items())
        return ", ".join(found) or "nobody: name an account in [operators.NAME] with slack"


def chat_terms() -> ChatTerms | None:
    """Return the terms in the user's settings, if there are any. Raises `SettingsError`."""
    settings = notify_settings()
    if settings is None or settings.chat is None:
        return None
    return ChatTerms(settings.chat.slack.secret(), slack_accounts(), settings.include_input)


# What may be decided


def undecidable_reason(request: ApprovalState) -> str | None:
    """Return the reason why a request cannot be decided from a chat; `None` if it can."""
    if request.risk != "low":
        return "its rule does not say 'risk low'"
    if request.asks_for:
        return "its rule does not take anybody's approval"
    if request.wants is not None:
        return "it has a form to fill in"
    if request.called == PLAN or request.plan:
        return "it is about a plan"
    if request.original is not None or request.edited_by is not None:
        return "an operator edited it"
    if request.beyond is not None:
        return "it is beyond a grant"
    if request.fuse is not None or request.taken_back is not None:
        return "it has been approved before"
    if request.late is not None:
        return "its client is gone"
    return None


def unapprovable_reason(request: ApprovalState, *, shows_input: bool) -> str | None:
    """Return the reason why a request cannot be approved from a message.

    `None` if it shows everything.
    """
    if not shows_input:
        return "messages have no input here (include_input)"
    if unreadable_reason(request) is not None:
        return "its input is too long for a message"
    names, texts = (request.tool, request.called), [*_texts(request.input)]
    if request.hidden or any(map(holds_mask, (*names, *texts))):
        return "its input has masked text"
    if any(visible_words(each) != each for each in names) or not all(map(_is_plain, (*names, *texts))):
        return "it has characters that are invisible, look like others, or change the direction"
    if request.uninspectable is not None:
        return "it cannot be fully analysed"
    if request.preview is not None:
        return "the tool shows a preview of what it does"
    text = _whole_text(request)
    if len(text) > MOST_CHARACTERS or text.count("\n") >= MOST_LINES:
        return "its input is too long for a message"
    return None


def _is_plain(text: str) -> bool:
    """Return whether a text is shown unchanged, and has nothing that looks like the end of a field."""
    if _CHANGED.search(text) is not None:
        return False
    if text.isascii():
        return visible(text, keep_newlines=True) == text
    return visible_words(text, keep_newlines=True) == text and not any(map(_misleads, text))


def _misleads(character: str) -> bool:
    """Return whether a character resembles an ASCII sign, or is written right to left.

    A chat reorders text that is written right to left.
    """
    return not character.isascii() and (
        unicodedata.category(character) in _SIGNS or unicodedata.bidirectional(character) in _FROM_RIGHT
    )


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield all texts in a value, names of fields included."""
    match value:
        case str():
            yield value
        case dict():
            for name, each in value.items():
                yield name
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
        case _:
            pass


def _whole_text(request: ApprovalState) -> str:
    """Return the call as JSON, in which no value can look like a field, nor a line like one of ours."""
    tool = [request.tool, request.called] if request.called != request.tool else [request.tool]
    return f"{' · '.join(tool)}\n{json.dumps(request.input, ensure_ascii=False, indent=2)}"


# Buttons


class Button(BaseModel):
    """Value of a button: the request, the digest of what was shown, and the seal of both."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    request: str
    digest: str
    seal: str


def button_value(secret: str, answer: Answer, request_id: str, digest: str) -> str:
    """Return the value of the button for one answer to a request."""
    seal = _seal(secret, answer, request_id, digest)
    return Button(request=request_id, digest=digest, seal=seal).model_dump_json()


def opened_button(secret: str, answer: Answer, value: str) -> Button | None:
    """Parse a button value sealed by this app for this answer; return `None` for any other."""
    try:
        button = Button.model_validate_json(value)
    except ValidationError:
        return None
    seal = _seal(secret, answer, button.request, button.digest)
    return button if hmac.compare_digest(seal.encode(), button.seal.encode()) else None


def _seal(secret: str, answer: Answer, request_id: str, digest: str) -> str:
    # Slack signs texts that begin with its version, `v0:`; these do not, so neither signature passes as
    # the other.
    sealed = json.dumps(["interlock button", answer, request_id, digest])
    return hmac.new(secret.encode(), sealed.encode(), hashlib.sha256).hexdigest()


# Messages


def plain_payload(message: Message) -> Block:
    """Return a message without buttons."""
    return {"text": "\n".join(filter(None, (message.title, message.text))), "unfurl_links": False}


def waiting_payload(notification: Notification, request: ApprovalState, terms: ChatTerms | None) -> Block:
    """Return the message about a waiting request.

    `terms` are those on which clicks are accepted, if any.
    """
    if terms is None or undecidable_reason(request) is not None:
        return plain_payload(waiting_message(notification))
    message, digest = waiting_message(notification), request.digest or ""
    # The message's settings and the terms may have been read at different times.
    shows_input = terms.shows_input and notification.input is not None
    why = unapprovable_reason(request, shows_input=shows_input)
    blocks: list[JsonValue] = [_section(message.title)]
    if facts := facts_of(notification):
        blocks.append(_section("\n".join(facts)))
    if why is None:
        preformatted: JsonValue = {
            "type": "rich_text_preformatted",
            "elements": [{"type": "text", "text": _whole_text(request)}],
        }
        blocks.append({"type": "rich_text", "elements": [preformatted]})
    else:
        blocks.append(_section(f"Not approved from here: {why}."))
    if notification.link is not None:
        blocks.append(_link(notification.link))
    deny = _button("Deny", "deny", button_value(terms.secret, "deny", request.id, digest), "danger")
    buttons: list[JsonValue] = [deny]
    if why is None:
        value = button_value(terms.secret, "approve", request.id, digest)
        approve = _button("Approve", "approve", value, "primary")
        buttons = [{**approve, "confirm": _CONFIRM}, deny]
    blocks.append({"type": "actions", "elements": buttons})
    return {**plain_payload(message), "blocks": blocks}


def decided_payload(text: str) -> Block:
    """Return the replacement, without buttons, of a message whose request has ended."""
    return {"replace_original": True, **_said(text)}


def private_payload(text: str) -> Block:
    """Return an answer that only the person who clicked sees."""
    return {"response_type": "ephemeral", "replace_original": False, **_said(text)}


def _said(text: str) -> Block:
    return {"text": without_markup(text), "blocks": [_section(visible(text))]}


def _plain(text: str) -> JsonValue:
    return {"type": "plain_text", "text": text, "emoji": False}


def _section(text: str) -> Block:
    return {"type": "section", "text": _plain(text[:2900]), "expand": True}


def _link(address: str) -> Block:
    escaped = address.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "%7C")
    return {"type": "section", "text": {"type": "mrkdwn", "text": f"<{escaped}|Open the request>"}}


def _button(label: str, answer: Answer, value: str, style: str) -> Block:
    return {
        "type": "button",
        "action_id": answer,
        "text": _plain(label),
        "value": value,
        "style": style,
    }


_CONFIRM: JsonValue = {
    "title": _plain("Approve this call?"),
    "text": _plain("It runs with exactly the input that the message shows."),
    "confirm": _plain("Approve"),
    "deny": _plain("Back"),
}


async def tell_slack(webhook: str, payload: Block) -> str:
    """Post a message, or an answer to a click. Raises `SendError`."""
    content = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
    return f"{host_of(webhook)} {await post(webhook, content, content_type='application/json')}"
