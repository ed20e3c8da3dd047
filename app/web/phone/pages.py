"""The routes of the page for phones, under `/m/`.

A page itself has no content: a login's cookie, which browsers send to every port of the host, gives
access to nothing. The page's script signs a challenge with the login's key, as the terminal's tabs do,
and gets a secret for its tab. Every part of the queue, the events and every answer require that secret.
It stays in the script's memory, and is sent in a header, which no form and no other page can set.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from time import monotonic
from typing import TypeVar

import aiohttp_jinja2
from aiohttp import web
from aiohttp.web_routedef import AbstractRouteDef
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ....engine.approvals.passkeys import NewKey
from ....engine.core.clock import Clock, utc_now
from ....engine.core.rights import Rights, may, refusal
from ....engine.core.sanitize import visible
from ....engine.gateway.client.connection import GatewayError
from ....engine.gateway.client.console import ConsoleClient
from ....engine.gateway.server.limits import Failures
from ....engine.history.model.state import ApprovalState
from ....engine.hub.api import KeyRequest
from ...format.explanation import explained
from ...format.times import with_more
from ...screens.common.operator_context import OperatorContext, outcome_of
from ...sources.deep_link import DeepLink
from ...viewmodels.request import ClaimWarning, OperatorDecision, unreadable_reason
from ..logins import Logins
from ..policy import LOGIN
from .answers import (
    Answer,
    Claim,
    Comment,
    Edit,
    Extend,
    Freeze,
    Grant,
    NotYetError,
    Reveal,
    TakeBack,
    complaints,
    filled_in,
    reviewed_edit,
    reviewed_grant,
)
from .connection import HubConnection
from .lists import decided_view, freeze_view, outage_view, queue_view
from .passkeys import (
    Confirmation,
    KeyWish,
    NoWish,
    Removal,
    key_problem,
    keys_context,
    origin_of,
)
from .request_view import is_claimed_by, request_view
from .tabs import PhoneTab, PhoneTabs, ShownRequest

TAB = "X-Interlock-Tab"
MOMENT = "X-Interlock-Moment"
WAITING = "X-Interlock-Waiting"
HEARTBEAT = 15.0
"""Seconds after which a silent event stream sends a heartbeat."""
LOOK = 1.0
"""Longest time in seconds until the stream of an ended login ends."""
STREAM_LIFETIME = 3600.0
"""Seconds after which a stream ends, so that its tab proves its key again and its login is renewed."""
OPEN_TO_LOGGED_OUT = frozenset({"phone-login", "phone-manifest"})
UNSENT = object()
"""State of a tab that has not received an `outage` event yet."""
PAGES = frozenset({"phone", "phone-request", "phone-decided", "phone-keys"})

CHANGED = "The request has changed meanwhile: nothing is decided. Look at it as it is now"
TOO_SOON = "That came too soon after the request was shown: nothing is decided"
MASKED = "Show what is masked before you approve: it may be more than a secret"
GONE = "This request is not open: it was decided or withdrawn, or there never was one"

log = logging.getLogger(__name__)

_Body = TypeVar("_Body", bound=BaseModel)


class _Proof(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    challenge: str
    signature: str
    view: str | None = None


class _Reply(BaseModel):
    """Result of an answer. `over` says that the request has to be loaded again."""

    model_config = ConfigDict(frozen=True)

    ok: bool
    message: str
    over: bool = False
    fields: dict[str, str] = {}


_REVIEW: TypeAdapter[Edit | Grant] = TypeAdapter(Edit | Grant)


class PhonePages:
    """The pages, on a console created by `connect`.

    `renew` renews the login of a tab that has proved its key, if it is due.
    """

    def __init__(
        self,
        connect: Callable[[], ConsoleClient],
        logins: Logins,
        failures: Failures,
        renew: Callable[[web.Request, web.StreamResponse], None],
        deny_reasons: Sequence[str] = (),
        clock: Clock = utc_now,
    ) -> None:
        self._hub = HubConnection(connect)
        self._logins = logins
        self._failures = failures
        self._renew = renew
        self._deny_reasons = tuple(map(visible, deny_reasons))
        self._clock = clock
        self._tabs = PhoneTabs()
        self._closing = asyncio.Event()
        self._streams = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def routes(self) -> list[AbstractRouteDef]:
        """Return the routes; the names of those that need no login are in `OPEN_TO_LOGGED_OUT`."""
        return [
            web.get("/m", self._lead_in, name="phone-lead"),
            web.get("/m/", self._page, name="phone"),
            web.get("/m/a/{name}", self._page, name="phone-request"),
            web.get("/m/decided", self._page, name="phone-decided"),
            web.get("/m/keys", self._page, name="phone-keys"),
            web.get("/m/login", self._login_page, name="phone-login"),
            web.get("/m/manifest.webmanifest", self._manifest, name="phone-manifest"),
            web.post("/m/challenge", self._challenge, name="phone-challenge"),
            web.post("/m/tab", self._open_tab, name="phone-tab"),
            web.get("/m/part", self._part, name="phone-part"),
            web.get("/m/explain/{name}", self._explain, name="phone-explain"),
            web.get("/m/events", self._events, name="phone-events"),
            web.post("/m/a/{name}/decide", self._decide, name="phone-decide"),
            web.post("/m/a/{name}/review", self._review, name="phone-review"),
            web.post("/m/a/{name}/reveal", self._reveal, name="phone-reveal"),
            web.post("/m/a/{name}/extend", self._extend, name="phone-extend"),
            web.post("/m/a/{name}/take-back", self._take_back, name="phone-take-back"),
            web.post("/m/a/{name}/claim", self._claim, name="phone-claim"),
            web.post("/m/a/{name}/comment", self._comment, name="phone-comment"),
            web.post("/m/freeze", self._freeze, name="phone-freeze"),
            web.post("/m/a/{name}/challenge", self._challenge_key, name="phone-key-challenge"),
            web.post("/m/keys/begin", self._begin_key, name="phone-key-begin"),
            web.post("/m/keys/register", self._register_key, name="phone-key-register"),
            web.post("/m/keys/confirm", self._confirm_key, name="phone-key-confirm"),
            web.post("/m/keys/remove", self._remove_key, name="phone-key-remove"),
        ]

    def proves(self, request: web.Request) -> bool:
        """Return whether a request is from a tab that has proved its login's key."""
        return self._found(request) is not None

    async def end_streams(self) -> None:
        """End the event streams."""
        self._closing.set()
        self._hub.wake()
        await self._quiet.wait()

    async def close(self) -> None:
        """End the connection to the hub."""
        await self._hub.close()

    # Pages without content

    async def _lead_in(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPSeeOther("/m/")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        _check_view(request.path)
        challenge = self._tabs.challenge(request[LOGIN])
        return aiohttp_jinja2.render_template("phone.html", request, {"challenge": challenge})

    async def _login_page(self, request: web.Request) -> web.StreamResponse:
        return aiohttp_jinja2.render_template("login.html", request, {})

    async def _manifest(self, request: web.Request) -> web.StreamResponse:
        manifest = {
            "name": "Interlock",
            "short_name": "Interlock",
            "id": "/m/",
            "start_url": "/m/",
            "scope": "/m/",
            "display": "standalone",
            "background_color": "#14181d",
            "theme_color": "#14181d",
            "icons": [{"src": "/static/icon.svg", "sizes": "any", "type": "image/svg+xml"}],
        }
        return web.json_response(manifest, content_type="application/manifest+json")

    # Tabs and their parts

    async def _challenge(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"challenge": self._tabs.challenge(request[LOGIN])})

    async def _open_tab(self, request: web.Request) -> web.StreamResponse:
        """Return a new tab's secret for the signature of its challenge, with the first part to show."""
        login, address = request[LOGIN], request.remote or ""
        proof = await _body(request, _Proof)
        secret = self._tabs.open(login, request.headers["Origin"], proof.challenge, proof.signature)
        if secret is None:
            if not self._failures.too_many(address):
                log.warning(
                    "%s showed the cookie of a login without its key, which opens nothing", address
                )
            self._failures.note(address)
            raise web.HTTPForbidden(text="This is not signed with the key of the login\n")
        tab = self._tabs.find(secret, login)
        assert tab is not None
        if proof.view is None:
            response = web.Response(status=HTTPStatus.NO_CONTENT)
        else:
            response = await self._rendered(request, tab, proof.view)
        response.headers[TAB] = secret
        self._renew(request, response)
        return response

    async def _part(self, request: web.Request) -> web.StreamResponse:
        return await self._rendered(request, self._tab(request), request.query.get("view", ""))

    async def _rendered(self, request: web.Request, tab: PhoneTab, view: str) -> web.Response:
        name = _check_view(view)
        moment = self._hub.moment
        async with self._reached() as hub:
            if name is not None:
                response = await self._request_part(request, tab, hub, name)
            elif view == "/m/keys":
                context = keys_context(await hub.passkeys(), self._operator, request)
                response = _fragment("phone_keys.html", request, context)
            elif view == "/m/decided":
                rows = await decided_view(hub)
                response = _fragment("phone_decided.html", request, {"rows": rows})
            else:
                found = await queue_view(hub, self._clock())
                freeze = freeze_view(hub)
                tab.show_freeze(freeze.stamp)
                named = {"as": self._operator, "frozen": freeze.words}
                response = _fragment(
                    "phone_queue.html", request, {"queue": found, "freeze": freeze, **named}
                )
            waiting = await _waiting(hub)
        response.headers.update({MOMENT: moment, WAITING: str(waiting)})
        return response

    async def _request_part(
        self, request: web.Request, tab: PhoneTab, hub: ConsoleClient, name: str
    ) -> web.Response:
        found = await _open_request(hub, name)
        if found is None:
            tab.shown.pop(name, None)
            end = visible(self._hub.end_of(name) or GONE)
            return _fragment("phone_over.html", request, {"id": name, "end": end})
        shown = tab.show(name, found.digest)
        context = self._context(hub)
        view = request_view(
            found,
            await hub.sessions(),
            hub,
            replace(context.viewer, link=None, keys=False),
            hub.rights,
            self._clock(),
            shown.revealed,
            await self._key_problem(request, hub, found),
        )
        frozen = freeze_view(hub).words
        return _fragment(
            "phone_request.html", request, {"r": view, "reasons": self._deny_reasons, "frozen": frozen}
        )

    async def _key_problem(
        self, request: web.Request, hub: ConsoleClient, found: ApprovalState
    ) -> str | None:
        if not found.passkey:
            return None
        return key_problem(found, await hub.passkeys(), self._operator, origin_of(request))

    async def _explain(self, request: web.Request) -> web.StreamResponse:
        self._tab(request)
        async with self._reached() as hub:
            found = await _open_request(hub, _id_of(request))
            if found is None:
                raise web.HTTPNotFound(text=f"{GONE}\n")
            try:
                view = await hub.explain(found.session, found.call_id)
            except LookupError as error:
                raise web.HTTPNotFound(text=f"{visible(str(error))}\n") from error
        lines = [(line.label, visible(line.text), line.tone) for line in explained(view)]
        return _fragment("phone_explain.html", request, {"lines": lines})

    # Events

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Stream the ids of changed requests, until the tab closes or its login ends."""
        tab = self._tab(request)
        async with self._reached() as hub:
            pass
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        changes = self._hub.follow()
        if request.query.get("after") != self._hub.moment:
            changes.put(None)
        self._streams += 1
        self._quiet.clear()
        end, spoken, trouble = monotonic() + STREAM_LIFETIME, monotonic(), None
        outage: object = UNSENT
        try:
            while monotonic() < end and not self._closing.is_set() and self._logins.holds(tab.login):
                if request.transport is None or request.transport.is_closing():
                    break
                moved = await changes.take(LOOK)
                text = "" if monotonic() - spoken < HEARTBEAT else ": \n\n"
                if self._hub.trouble != trouble:
                    trouble = self._hub.trouble
                    text += _event("trouble", trouble and visible(trouble))
                if moved is None or moved:
                    text += _event("moved", {"ids": moved, "waiting": await _waiting(hub)})
                if (view := outage_view(hub)) != outage:
                    outage = view
                    text += _event("outage", outage)
                if text:
                    spoken = monotonic()
                    await response.write(text.encode())
        except ConnectionError:
            pass  # The tab has closed.
        finally:
            changes.close()
            self._streams -= 1
            if not self._streams:
                self._quiet.set()
        return response

    # Answers

    async def _decide(self, request: web.Request) -> web.StreamResponse:
        tab, answer = self._tab(request), await _body(request, Answer)
        async with self._reached() as hub:
            self._require(hub, "decide")
            shown, found = await self._as_shown(hub, tab, _id_of(request), answer.digest)
            if tab.is_early(shown.at):
                return _said(TOO_SOON)
            try:
                if answer.approved and (unread := unreadable_reason(found)) is not None:
                    raise NotYetError(f"Nothing is decided: {unread}")
                if answer.approved and found.hidden and not shown.revealed:
                    raise NotYetError(MASKED)
                decision = replace(_decision(tab, shown, found, answer), passkey=answer.passkey)
                if (claimed := self._claimed(shown, found)) is not None:
                    raise NotYetError(claimed)
            except NotYetError as error:
                return _said(str(error), fields=error.fields)
            if decision.grant is not None:
                self._require(hub, "administer")
            context = self._context(hub)
            outcome = await context.decide(found, decision)
            over = not outcome.ok and not await context.is_open(found)
        if outcome.ok:
            tab.shown.pop(found.id, None)
            return web.json_response(_Reply(ok=True, message=visible(outcome.message)).model_dump())
        fields = complaints(found, answer.texts, outcome.message) if answer.texts is not None else {}
        end = self._hub.end_of(found.id) if over else None
        return _said(
            end or outcome.message, over=over, fields={key: visible(text) for key, text in fields.items()}
        )

    async def _review(self, request: web.Request) -> web.StreamResponse:
        tab, body = self._tab(request), await _body(request, _REVIEW)
        async with self._reached() as hub:
            self._require(hub, "administer" if isinstance(body, Grant) else "decide")
            shown, found = await self._as_shown(hub, tab, _id_of(request), body.digest)
        try:
            if (unread := unreadable_reason(found)) is not None:
                raise NotYetError(f"Nothing is decided: {unread}")
            if found.hidden and not shown.revealed:
                raise NotYetError(MASKED)
            if isinstance(body, Grant):
                if not found.may_grant:
                    raise NotYetError("No grants: the rule allows none")
                decision, text = reviewed_grant(found, body)
            else:
                decision, text = reviewed_edit(found, body)
        except NotYetError as error:
            return _said(str(error), fields=error.fields)
        review = tab.review(found.id, decision)
        return _fragment("phone_review.html", request, {"text": text, "token": review.token})

    async def _reveal(self, request: web.Request) -> web.StreamResponse:
        tab, body = self._tab(request), await _body(request, Reveal)
        async with self._reached() as hub:
            self._require(hub, "decide")
            shown, found = await self._as_shown(hub, tab, _id_of(request), body.digest)
            if tab.is_early(shown.at):
                return _said(TOO_SOON)
            revealed = await self._context(hub).reveal(found)
        if revealed.ok:
            shown.revealed, shown.at = revealed.texts, tab.clock()
        return web.json_response(
            _Reply(ok=revealed.ok, message=visible(revealed.message), over=revealed.ok).model_dump()
        )

    async def _extend(self, request: web.Request) -> web.StreamResponse:
        tab, body = self._tab(request), await _body(request, Extend)
        async with self._reached() as hub:
            self._require(hub, "decide")
            _, found = await self._as_shown(hub, tab, _id_of(request), body.digest)
            seconds = with_more(found, self._clock())
            if seconds is None:
                return _said("This request never expires: it needs no more time")
            outcome = await self._context(hub).extend(found, seconds)
        reply = _Reply(ok=outcome.ok, message=visible(outcome.message), over=outcome.ok)
        return web.json_response(reply.model_dump())

    async def _take_back(self, request: web.Request) -> web.StreamResponse:
        tab, body = self._tab(request), await _body(request, TakeBack)
        async with self._reached() as hub:
            self._require(hub, "decide")
            _, found = await self._as_shown(hub, tab, _id_of(request), body.digest)
            outcome = await self._context(hub).take_back(found)
        reply = _Reply(ok=outcome.ok, message=visible(outcome.message), over=outcome.ok)
        return web.json_response(reply.model_dump())

    async def _claim(self, request: web.Request) -> web.StreamResponse:
        tab, body = self._tab(request), await _body(request, Claim)
        async with self._reached() as hub:
            self._require(hub, "decide")
            _, found = await self._as_shown(hub, tab, _id_of(request), body.digest)
            if is_claimed_by(found, self._operator) != body.own:
                return _said("The claim on this has changed meanwhile: look again", over=True)
            outcome = await self._context(hub).claim(found)
        reply = _Reply(ok=outcome.ok, message=visible(outcome.message), over=outcome.ok)
        return web.json_response(reply.model_dump())

    async def _comment(self, request: web.Request) -> web.StreamResponse:
        tab, body = self._tab(request), await _body(request, Comment)
        line = body.text.strip()
        if not line:
            return _said("Type a comment first", fields={"comment": "There is nothing to say yet"})
        async with self._reached() as hub:
            self._require(hub, "decide")
            _, found = await self._as_shown(hub, tab, _id_of(request), body.digest)
            outcome = await self._context(hub).comment(found, line)
        reply = _Reply(ok=outcome.ok, message=visible(outcome.message), over=outcome.ok)
        return web.json_response(reply.model_dump())

    async def _freeze(self, request: web.Request) -> web.StreamResponse:
        """Freeze all agents, or end the freeze that this tab has shown for long enough."""
        tab, body = self._tab(request), await _body(request, Freeze)
        reason = body.reason.strip()
        async with self._reached() as hub:
            if body.lift is None:
                self._require(hub, "decide")
                outcome = await outcome_of(
                    lambda: hub.freeze(by=self._operator, reason=reason), "Not frozen: "
                )
            else:
                self._require(hub, "administer")
                if not reason:
                    why = "Type a reason: it is recorded with the end of the freeze"
                    return _said(why, fields={"reason": why})
                if body.lift != freeze_view(hub).stamp or body.lift != tab.freeze[0]:
                    return _said("This is not the freeze that was shown: look again", over=True)
                if tab.is_early(tab.freeze[1]):
                    return _said("That came too soon after the freeze was shown: nothing is lifted")
                outcome = await outcome_of(
                    lambda: hub.lift_freeze(by=self._operator, reason=reason), "Not lifted: "
                )
        reply = _Reply(ok=outcome.ok, message=visible(outcome.message), over=outcome.ok)
        return web.json_response(reply.model_dump())

    def _claimed(self, shown: ShownRequest, found: ApprovalState) -> str | None:
        """Return a warning about another person's claim, if the tab has not been warned of it yet."""
        if shown.claims is None:
            shown.claims = ClaimWarning(self._operator)
        return shown.claims.take([found])

    # Passkeys

    async def _challenge_key(self, request: web.Request) -> web.StreamResponse:
        """Return the browser's options for signing the approval of a request as this tab was shown it."""
        tab, body = self._tab(request), await _body(request, KeyWish)
        async with self._reached() as hub:
            self._require(hub, "decide")
            shown, found = await self._as_shown(hub, tab, _id_of(request), body.digest)
            if tab.is_early(shown.at):
                return _said(TOO_SOON)
            if found.hidden and not shown.revealed:
                return _said(MASKED)
            if (claimed := self._claimed(shown, found)) is not None:
                return _said(claimed)
            key_request = await hub.challenge_key(
                found.id, digest=found.digest, origin=request.headers["Origin"], by=self._operator
            )
        return _key_reply(key_request)

    async def _begin_key(self, request: web.Request) -> web.StreamResponse:
        self._tab(request)
        await _body(request, NoWish)
        async with self._reached() as hub:
            self._require(hub, "decide")
            key_request = await hub.begin_key(origin=request.headers["Origin"], by=self._operator)
        return _key_reply(key_request)

    async def _register_key(self, request: web.Request) -> web.StreamResponse:
        self._tab(request)
        key = await _body(request, NewKey)
        async with self._reached() as hub:
            self._require(hub, "decide")
            key_request = await hub.register_key(key, by=self._operator)
        return _key_reply(key_request)

    async def _confirm_key(self, request: web.Request) -> web.StreamResponse:
        self._tab(request)
        body = await _body(request, Confirmation)
        async with self._reached() as hub:
            self._require(hub, "decide")
            outcome = await hub.confirm_key(
                body.id, code=body.code, passkey=body.passkey, by=self._operator
            )
        return web.json_response(_Reply(ok=outcome.ok, message=visible(outcome.message)).model_dump())

    async def _remove_key(self, request: web.Request) -> web.StreamResponse:
        self._tab(request)
        body = await _body(request, Removal)
        async with self._reached() as hub:
            self._require(hub, "decide")
            outcome = await hub.remove_key(body.passkey, by=self._operator)
        return web.json_response(_Reply(ok=outcome.ok, message=visible(outcome.message)).model_dump())

    async def _as_shown(
        self, hub: ConsoleClient, tab: PhoneTab, name: str, digest: str
    ) -> tuple[ShownRequest, ApprovalState]:
        """Return an open request that is unchanged since this tab was shown it. Raises `HTTPConflict`."""
        shown, found = tab.shown.get(name), await _open_request(hub, name)
        if found is None:
            raise _conflict(self._hub.end_of(name) or GONE)
        if shown is None or shown.digest != digest or found.digest != digest:
            raise _conflict(CHANGED)
        return shown, found

    def _require(self, hub: ConsoleClient, needed: Rights) -> None:
        """Raise `HTTPForbidden` for insufficient rights, which the hub's server would refuse, too."""
        if not may(hub.rights, needed):
            why = refusal("This", needed, hub.rights, self._operator)
            raise web.HTTPForbidden(text=f"{visible(why)}\n")

    # Common parts

    @property
    def _operator(self) -> str:
        return self._hub.operator

    def _context(self, hub: ConsoleClient) -> OperatorContext:
        return OperatorContext(hub, self._operator, self._clock)

    @asynccontextmanager
    async def _reached(self) -> AsyncGenerator[ConsoleClient, None]:
        """Provide the hub. Raises `HTTPServiceUnavailable`."""
        try:
            yield await self._hub.hub()
        except (GatewayError, OSError) as error:
            why = f"The server of the sessions does not answer: {visible(str(error))}\n"
            raise web.HTTPServiceUnavailable(text=why) from error

    def _found(self, request: web.Request) -> PhoneTab | None:
        login = request.get(LOGIN)
        return None if login is None else self._tabs.find(request.headers.get(TAB, ""), login)

    def _tab(self, request: web.Request) -> PhoneTab:
        """Return the tab of a request.

        Raises `HTTPForbidden` for one that has not proved its login's key.
        """
        tab = self._found(request)
        if tab is None:
            unknown = {TAB: "unknown"}
            raise web.HTTPForbidden(text="This tab has to show the key of its login\n", headers=unknown)
        return tab


def _decision(
    tab: PhoneTab, shown: ShownRequest, found: ApprovalState, answer: Answer
) -> OperatorDecision:
    """Return the decision that an answer makes. Raises `NotYetError`."""
    if not answer.approved:
        return OperatorDecision(False, answer.reason.strip() or None, stop=answer.stop)
    if answer.review is not None:
        review = shown.review
        if review is None or review.token != answer.review:
            raise NotYetError("These changes were not shown as they are now: review them again")
        if tab.is_early(review.at):
            raise NotYetError(TOO_SOON)
        return review.decision
    if found.wants is None:
        return OperatorDecision(True)
    return OperatorDecision(True, edited=filled_in(found, answer.texts or {}))


async def _waiting(hub: ConsoleClient) -> int:
    return len(await hub.approvals()) + hub.unread().requests


async def _open_request(hub: ConsoleClient, name: str) -> ApprovalState | None:
    return next((each for each in await hub.approvals() if each.id == name), None)


def _check_view(path: str) -> str | None:
    """Return the request that a path is about, or `None` for a list. Raises `HTTPNotFound`."""
    if path in ("/m/", "/m/decided", "/m/keys"):
        return None
    head, _, name = path.rpartition("/")
    if head != "/m/a":
        raise web.HTTPNotFound
    return _checked(name)


def _id_of(request: web.Request) -> str:
    return _checked(request.match_info["name"])


def _checked(name: str) -> str:
    try:
        return DeepLink.of("a", name).approval or ""
    except ValueError as error:
        raise web.HTTPNotFound from error


async def _body(request: web.Request, model: type[_Body] | TypeAdapter[_Body]) -> _Body:
    """Parse the JSON body of a request. Raises `HTTPBadRequest`."""
    content = await request.read()
    try:
        if isinstance(model, TypeAdapter):
            return model.validate_json(content)
        return model.model_validate_json(content)
    except ValidationError as error:
        raise web.HTTPBadRequest(text="This page is from another version; reload it.\n") from error


def _fragment(template: str, request: web.Request, context: dict[str, object]) -> web.Response:
    html = aiohttp_jinja2.render_string(template, request, context)
    return web.Response(text=html, content_type="text/html")


def _key_reply(key_request: KeyRequest) -> web.Response:
    """Return the response to the page's script: options for a passkey, or why there are none."""
    reply = key_request.model_copy(update={"message": visible(key_request.message)})
    return web.json_response(reply.model_dump(exclude={"needs_reason"}))


def _event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _said(message: str, *, over: bool = False, fields: dict[str, str] | None = None) -> web.Response:
    """Return the response to an answer that decided nothing, with the reason."""
    reply = _Reply(ok=False, message=visible(message), over=over, fields=fields or {})
    return web.json_response(reply.model_dump())


def _conflict(message: str) -> web.HTTPConflict:
    reply = _Reply(ok=False, message=visible(message), over=True)
    return web.HTTPConflict(text=reply.model_dump_json(), content_type="application/json")
