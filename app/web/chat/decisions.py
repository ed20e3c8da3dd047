"""Decisions by clicks in Slack, for requests of low risk and operators with known accounts.

In case of doubt nothing is decided, and the person who clicked is told why. A click counts once. The hub
accepts one answer to a request in any case, and only for the request that was shown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus

from aiohttp import web
from aiohttp.web_routedef import AbstractRouteDef

from ....engine.approvals.policy import Credential
from ....engine.core.approvers import SLACK, Operator, login_id
from ....engine.core.rights import may
from ....engine.core.sanitize import visible
from ....engine.gateway.server.limits import Failures
from ....engine.history.model.state import ApprovalState
from ....engine.hub.hub import Hub
from ...hosting.notifications.delivery import SendError
from ...hosting.notifications.notifier import ChatSource, without_links
from ...hosting.notifications.slack import (
    SAMPLE,
    Answer,
    Block,
    Button,
    ChatTerms,
    decided_payload,
    opened_button,
    private_payload,
    tell_slack,
    unapprovable_reason,
    undecidable_reason,
)
from ...viewmodels.request import ClaimWarning
from .slack_request import (
    FORM,
    MAX_AGE,
    Click,
    SlackRequestError,
    check_signature,
    click_of,
    is_answer_address,
)

OPEN_TO_CHAT = frozenset({"chat-slack"})
"""Routes for a chat's server, which presents a signature instead of a login."""
ANSWERED_WITHIN = 2.0
"""Seconds before Slack gets its acknowledgement, decided or not: it waits for three."""
MOST_CLICKS = 30
"""Maximum clicks per minute of one account."""
MOST_FORGED = 20
"""Maximum requests per minute and address without Slack's signature; further ones are told to wait."""
MOST_SEEN = 10_000
MOST_WARNINGS = 500

NOT_DECIDED = "Nothing is decided: "
CHANGED = f"{NOT_DECIDED}the request or its rules have changed since this message"
TRIED = "It works: {} decides from here. This was only a test"

log = logging.getLogger(__name__)


class _NotDecidedError(Exception):
    """A click that decides nothing; the message is for the person who clicked."""


class _OverError(Exception):
    """A request that is no longer open; the message replaces the one with the button."""


async def _answer(url: str, payload: Block) -> None:
    if not is_answer_address(url):
        log.warning("an answer to a click was not sent: its address is not Slack's")
        return
    try:
        await tell_slack(url, payload)
    except SendError as error:
        log.warning("an answer to a click was not sent: %s", error)


class SlackDecisions:
    """The route that accepts clicks, and the decisions they make on `hub`.

    `terms` are read for each click. The process that sends the buttons must also accept the clicks,
    because other processes do not have these requests. `answer` sends a reply to the address given in a
    click.
    """

    def __init__(
        self,
        hub: Hub,
        terms: ChatSource,
        *,
        answer: Callable[[str, Block], Awaitable[None]] = _answer,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._hub = hub
        self._terms = terms
        self._answer = answer
        self._clock = clock
        self._forged = Failures(MOST_FORGED)
        self._clicks = Failures(MOST_CLICKS)
        self._seen: dict[str, float] = {}
        self._warnings: dict[tuple[str, str], ClaimWarning] = {}
        self._work: set[asyncio.Task[None]] = set()

    def routes(self) -> list[AbstractRouteDef]:
        """Return the route, whose name is in `OPEN_TO_CHAT`."""
        return [web.post("/chat/slack", self._take, name="chat-slack")]

    async def close(self) -> None:
        """Wait until all accepted clicks are processed."""
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        """Accept a click, and respond without content: the reply goes to the click's own address."""
        terms = self._terms()
        if terms is None:
            raise web.HTTPNotFound
        if request.content_type != FORM or request.headers.get("Content-Encoding"):
            raise web.HTTPUnsupportedMediaType(text=f"expected {FORM}\n")
        body, now, address = await request.read(), self._clock(), request.remote or ""
        try:
            signature = check_signature(terms.secret, request.headers, body, now)
        except SlackRequestError as error:
            if self._forged.too_many(address):
                raise web.HTTPTooManyRequests(text="Wait a minute\n") from error
            self._forged.note(address)
            log.warning("%s sent a click that does not count: %s", address, error)
            raise web.HTTPForbidden(text=f"This does not count: {error}\n") from error
        if not self._is_first(signature, now):
            return web.Response(status=HTTPStatus.CONFLICT, text="This click was already taken\n")
        try:
            click = click_of(body)
        except SlackRequestError as error:
            log.warning("Slack sent a request that is not accepted: %s", error)
            raise web.HTTPBadRequest(text=f"This is not accepted: {error}\n") from error
        if self._clicks.too_many(click.account):
            raise web.HTTPTooManyRequests(text="Too many clicks; wait a minute\n")
        self._clicks.note(click.account)
        task = asyncio.get_running_loop().create_task(self._act(click, terms))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        await asyncio.wait({task}, timeout=ANSWERED_WITHIN)
        return web.Response()

    def _is_first(self, signature: str, now: float) -> bool:
        """Return whether a signed request arrives for the first time."""
        self._seen = {each: ends for each, ends in self._seen.items() if ends > now}
        if signature in self._seen or len(self._seen) >= MOST_SEEN:
            return False
        # Slack's timestamp may be ahead of our clock by up to `MAX_AGE`, too.
        self._seen[signature] = now + 2 * MAX_AGE
        return True

    async def _act(self, click: Click, terms: ChatTerms) -> None:
        """Process a click, and send the outcome to the person; never raises."""
        try:
            try:
                payload = decided_payload(await self._decide(click, terms))
            except _OverError as over:
                payload = decided_payload(str(over))
            except _NotDecidedError as error:
                payload = private_payload(str(error))
            except Exception as error:
                log.exception("a click of %s failed", click.account)
                message = visible(str(error)) or type(error).__name__
                payload = private_payload(f"Perhaps nothing was decided; look at the console: {message}")
            await self._answer(click.answer_to, payload)
        except Exception:
            log.exception("a click of %s was not answered", click.account)

    async def _decide(self, click: Click, terms: ChatTerms) -> str:
        """Decide, and return who decided what. Raises `_NotDecidedError` and `_OverError`."""
        operator = self._operator(click, terms)
        answer, button = _button(click, terms)
        if button.request == SAMPLE:
            raise _NotDecidedError(TRIED.format(operator.name))
        found = next((a for a in await self._hub.approvals() if a.id == button.request), None)
        if found is None:
            raise _OverError(await self._end_of(button.request, operator.name))
        if found.digest is None or found.digest != button.digest:
            raise _NotDecidedError(CHANGED)
        if (why := self._obstacle(found, answer, terms)) is not None:
            raise _NotDecidedError(f"{NOT_DECIDED}{why}. Look at it in the console")
        if (claimed := self._claimed(found, operator.name)) is not None:
            raise _NotDecidedError(f"{NOT_DECIDED}{claimed}")
        outcome = await self._hub.decide(
            found.id,
            approved=answer == "approve",
            by=operator.name,
            digest=found.digest,
            credential=self._credential(click.account, operator),
        )
        if not outcome.ok:
            still_open = any(each.id == found.id for each in await self._hub.approvals())
            raise (_NotDecidedError if still_open else _OverError)(outcome.message)
        verdict = "approved" if answer == "approve" else "denied"
        alone = "" if found.disconnected is None else "; no connection waits for the answer"
        return f"{_name_of(found)}: {verdict} by {operator.name} in Slack{alone}"

    def _operator(self, click: Click, terms: ChatTerms) -> Operator:
        """Return the operator of the account that clicked.

        Raises `_NotDecidedError` if there is none, or if the operator may not decide.
        """
        name, known = terms.accounts.get(click.account), self._hub.operators
        if name is None or not known.lists(name):
            raise _NotDecidedError(
                f"{NOT_DECIDED}the account {click.account} belongs to no operator here. Whoever runs the "
                f'server can name it in their settings: slack = "{click.account}" in [operators.NAME]'
            )
        operator = known.find(name)
        if not may(operator.rights, "decide"):
            raise _NotDecidedError(
                f"{NOT_DECIDED}the role of {name} is '{operator.rights}', and this needs 'decide': see "
                "[operators]"
            )
        return replace(operator, login=login_id(SLACK, click.account))

    def _credential(self, account: str, operator: Operator) -> Credential:
        """Return a credential for the account instead of a token.

        It is valid while the account belongs to the operator, and only for deciding.
        """

        def in_force(_: str, needed: str) -> bool:
            terms = self._terms()
            is_linked = terms is not None and terms.accounts.get(account) == operator.name
            return is_linked and needed == "decide"

        return Credential(login_id(SLACK, account), in_force, operator)

    def _obstacle(self, request: ApprovalState, answer: Answer, terms: ChatTerms) -> str | None:
        """Return the reason why an unchanged request cannot be decided from here."""
        if (why := undecidable_reason(request)) is not None or answer == "deny":
            return why
        if (frozen := self._hub.current_freeze()) is not None:
            return f"all agents are {frozen.words}"
        return unapprovable_reason(request, shows_input=terms.shows_input)

    def _claimed(self, request: ApprovalState, operator: str) -> str | None:
        """Return a warning about another person's claim, unless this operator was warned of it before."""
        warning = self._warnings.pop((request.id, operator), None) or ClaimWarning(operator)
        self._warnings[request.id, operator] = warning
        while len(self._warnings) > MOST_WARNINGS:
            del self._warnings[next(iter(self._warnings))]
        return warning.take([request])

    async def _end_of(self, request_id: str, operator: str) -> str:
        """Return the hub's description of how a request ended."""
        # No request has this digest, so this call cannot decide anything.
        outcome = await self._hub.decide(request_id, approved=False, by=operator, digest="-")
        return outcome.message


def _button(click: Click, terms: ChatTerms) -> tuple[Answer, Button]:
    """Return the button that was clicked, and its answer. Raises `_NotDecidedError`."""
    for answer in ("approve", "deny"):
        if click.action == answer:
            button = opened_button(terms.secret, answer, click.value)
            if button is not None:
                return answer, button
    raise _NotDecidedError(f"{NOT_DECIDED}this button is from another server, or from an earlier secret")


def _name_of(request: ApprovalState) -> str:
    return f"{without_links(request.tool)} of {without_links(request.agent or request.session)}"
