"""`[notify]`: notifications outside the console about requests that have waited for some time.

The process that hosts the agents sends them in the background: a command that hangs or fails delays no
call. Each request is notified once, and again when it is escalated or after a failure, but not once it is
decided. Many requests within a minute are combined (`limit`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, TypeAlias

from pydantic import BaseModel, JsonValue

from ....engine.core.approvers import chat_of
from ....engine.core.clock import Clock, utc_now
from ....engine.core.durations import format_duration
from ....engine.core.sanitize import visible, visible_words
from ....engine.history.errors import JournalError
from ....engine.history.model.events import (
    ApprovalCommented,
    ApprovalDecided,
    ApprovalEscalated,
    ApprovalExpired,
    ApprovalFused,
    ApprovalRequested,
    ApprovalTakenBack,
    ApprovalWithdrawn,
    JournalEvent,
)
from ....engine.history.model.records import RuleRecord
from ....engine.history.model.state import ApprovalState
from ....engine.hub.hub import Hub
from ...config.notifications import NotifySettings
from .delivery import SendError, post, run_command
from .limit import Address, Channel, several_message, several_waiting
from .service_messages import Ending, Message, ending_message, request_link, tell_service, waiting_message
from .slack import SAMPLE, ChatTerms, plain_payload, tell_slack, waiting_payload

RETRIES = (2.0, 8.0, 30.0)
"""Seconds before each further attempt."""
NAME = 60

log = logging.getLogger(__name__)


# Content of a notification


class NotifiedRule(BaseModel):
    """The rule that requires approval, with its file and line."""

    text: str
    place: str


class Notification(BaseModel):
    """JSON sent to a command or a server. Fields are added, never renamed."""

    version: Literal[1] = 1
    event: Literal["approval.waiting", "approval.escalated", "approval.addressed"] = "approval.waiting"
    test: bool = False
    to: str | None = None
    by: str | None = None
    approval_id: str
    session: str
    agent: str
    tool: str
    rule: NotifiedRule | None
    risk: str | None
    since: datetime
    expires: datetime | None
    summary: str
    group: str | None = None
    digest: str | None = None
    link: str | None = None
    input: dict[str, JsonValue] | None = None


def payload_of(
    request: ApprovalState,
    now: datetime,
    *,
    include_input: bool,
    link: str | None = None,
    test: bool = False,
    address: Address | None = None,
) -> Notification:
    """Return the notification of a request. The request comes from the hub, so its secrets are masked.

    `link` is the address of `interlock web`, if it serves phones. With an `address`, one person asks
    another to look at the request; their comment stays in the consoles.
    """
    rule = request.rule
    summary = _summary(request, now)
    event = "approval.waiting" if request.escalated is None else "approval.escalated"
    if address is not None:
        event = "approval.addressed"
        summary = f"@{without_links(address.to)}: {without_links(address.by)} asks you to look. {summary}"
    return Notification(
        event=event,
        to=None if address is None else visible_words(address.to),
        by=None if address is None else visible_words(address.by),
        test=test,
        approval_id=request.id,
        session=visible_words(request.session),
        agent=visible_words(request.agent),
        tool=visible_words(request.tool),
        rule=None if rule is None else NotifiedRule(text=visible(rule.text.strip()), place=rule.where),
        risk=request.risk,
        since=request.since,
        expires=request.expires,
        summary=summary,
        group=_group(request),
        digest=request.digest,
        link=request_link(link, request.id),
        input=request.input if include_input else None,
    )


def as_bytes(payload: Notification) -> bytes:
    """Return the JSON to send, without absent fields, and with the input only if configured."""
    absent = {name for name in ("input", "to", "by", "link") if getattr(payload, name) is None}
    values = payload.model_dump(mode="json", exclude=absent)
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")


def as_cloud_event(payload: bytes, now: datetime) -> bytes:
    """Return a notification as a CloudEvent 1.0 in structured JSON; the same content has the same id."""
    data = json.loads(payload)
    subject = {"subject": data["approval_id"]} if "approval_id" in data else {}
    event = {
        "specversion": "1.0",
        "id": hashlib.sha256(payload).hexdigest()[:32],
        "source": "/interlock",
        "type": f"interlock.{data['event']}",
        "time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        **subject,
        "data": data,
    }
    return json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")


def _group(request: ApprovalState) -> str | None:
    """Return the group that a request is for: after an escalation, the group of the escalation."""
    terms = request.approvers
    if terms is None:
        return None
    return (
        terms.group if request.escalated is None or terms.escalation is None else terms.escalation.group
    )


def _summary(request: ApprovalState, now: datetime) -> str:
    minutes = max(0, round((now - request.since).total_seconds() / 60))
    waited = f"for {format_duration(60 * minutes)}" if minutes else "for less than a minute"
    risk = f", risk {request.risk}" if request.risk else ""
    name = without_links(request.agent or request.session)
    group = _group(request)
    of_group = "" if group is None else f" of {group}"
    escalated = "" if request.escalated is None else f", escalated to {group}"
    request_text = f"for approval{'' if escalated else of_group}"
    return f"{without_links(request.tool)} of {name} has waited {waited} {request_text}{risk}{escalated}"


_LINK = re.compile(
    r"(?i)[a-z][a-z0-9+.-]*:(?=\S)\S*|\S*\w@\w\S*|\bwww\.\S*"
    # Full stops within words, and numeric addresses, would become links.
    r"|\S*\w[.\u3002\uff0e\uff61](?:xn--|[^\W\d_]{2})\S*|\S*\d+(?:[.\u3002\uff0e\uff61]\d+){3}\S*"
)


def without_links(text: str) -> str:
    """Return a name as one short line without anything that a chat turns into a link."""
    return _LINK.sub("[link]", visible(text[: 4 * NAME]))[:NAME]


# Time of a notification


@dataclass(frozen=True, slots=True)
class Clocks:
    """Current time and sleep; tests replace them."""

    now: Clock = utc_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


ChatSource: TypeAlias = Callable[[], ChatTerms | None]
"""Returns the terms on which this process accepts clicks in a chat; `None` if it accepts none."""


def no_chat() -> None:
    """Return no terms: nobody can decide from a chat."""


class Notifier:
    """Sends notifications of requests that wait longer than configured.

    `failed` is called at the first failure.
    """

    def __init__(
        self,
        hub: Hub,
        settings: NotifySettings,
        failed: Callable[[str], object],
        clocks: Clocks | None = None,
        chat: ChatSource = no_chat,
    ) -> None:
        self._hub = hub
        self._settings = settings
        self._failed = failed
        self._chat = chat
        self._clocks = clocks or Clocks()
        # By request and step: step 0 is the first notification, further ones are those of `later`.
        self._waiting: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._early: set[tuple[str, int]] = set()
        self._since: dict[str, datetime] = {}
        # Current addresses of services by their previous ones.
        self._moved: dict[str, str] = {}
        self._others: set[asyncio.Task[None]] = set()
        # A request's notification is delivered to a service before its outcome.
        self._told: dict[str, tuple[ApprovalState, dict[str, asyncio.Lock]]] = {}
        self._channels: dict[str | None, Channel] = {}
        self._complained = False

    async def run(self, waiting: Sequence[ApprovalState] = ()) -> None:
        """Follow the hub, and the requests in `waiting`, until the hub closes or this is cancelled."""
        subscription = self._hub.subscribe()
        try:
            for request in waiting:
                self._start(request.id, request.since)
            async for event in subscription:
                if isinstance(event, JournalEvent):
                    self._take(event)
        finally:
            subscription.close()
            tasks = [*self._waiting.values(), *self._others]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def change(self, settings: NotifySettings) -> None:
        """Apply other settings, also to notifications that are pending, undelivered or sent.

        A service that is the only new one with its scheme replaces the one removed service with that
        scheme.
        """
        before, self._settings = self._settings, settings
        self._complained = False
        self._moved |= moved_services(before, settings)
        for way in settings.services:
            self._moved.pop(way, None)
        for _, services in self._told.values():
            for old in [way for way in services if self._at(way) != way]:
                services[self._at(old)] = services.pop(old)
        for old in [way for way in self._channels if way is not None and self._at(way) != way]:
            self._channels[self._at(old)] = self._channels.pop(old)
        for channel in self._channels.values():
            channel.most = settings.most
        for approval_id, since in self._since.items():
            for step, (after, ways) in enumerate(self._steps()):
                if step > len(before.later) or (approval_id, step) in self._early:
                    self._start_step(approval_id, step, since + after, ways)
            for key in [each for each in self._early if each[0] == approval_id]:
                if key[1] > len(settings.later):
                    self._waiting[key].cancel()

    def _current(self, way: str | None) -> str | None:
        return way if way is None else self._at(way)

    def _at(self, way: str) -> str:
        """Return the present address of a service."""
        while (found := self._moved.get(way, way)) != way:
            way = found
        return way

    def _steps(self) -> Sequence[tuple[timedelta, Sequence[str | None]]]:
        return (self._settings.after, self._settings.ways), *self._settings.later.items()

    def _take(self, event: JournalEvent) -> None:
        body = event.body
        if isinstance(body, ApprovalRequested):
            # The waiting time of a repeated request counts from the first one.
            self._start(body.approval_id, body.first_asked or event.at)
        elif isinstance(body, ApprovalTakenBack):
            self._start(body.approval_id, event.at)
        elif isinstance(body, ApprovalEscalated):
            # The escalation's group has not been notified yet, whoever else was; `later` keeps its times.
            self._start_step(body.approval_id, 0, event.at, self._settings.ways)
        elif isinstance(body, ApprovalCommented) and body.to is not None:
            self._begin(self._send(body.approval_id, self._settings.ways, Address(body.to, body.by)))
        elif isinstance(body, ApprovalFused):
            # Nobody needs to act, unless the approval is taken back.
            self._stop(body.approval_id)
        elif isinstance(body, APPROVAL_ENDS):
            self._stop(body.approval_id)
            if (notified := self._told.pop(body.approval_id, None)) is not None:
                self._begin(self._tell_ending(*notified, body))

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        def forget(task: asyncio.Task[None]) -> None:
            self._others.discard(task)
            if not task.cancelled():
                task.exception()  # Retrieve it: the awaiting task may be gone.

        task = asyncio.get_running_loop().create_task(work)
        self._others.add(task)
        task.add_done_callback(forget)
        return task

    def _start(self, approval_id: str, since: datetime) -> None:
        """Schedule all notifications of a request.

        The steps are independent: a failing one delays no other.
        """
        self._since[approval_id] = since
        for step, (after, ways) in enumerate(self._steps()):
            self._start_step(approval_id, step, since + after, ways)

    def _start_step(self, approval_id: str, step: int, due: datetime, ways: Sequence[str | None]) -> None:
        key = approval_id, step
        if (before := self._waiting.get(key)) is not None:
            before.cancel()
        self._early.add(key)
        task = asyncio.get_running_loop().create_task(self._notify_at(key, due, ways))
        self._waiting[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))

    def _stop(self, approval_id: str) -> None:
        self._since.pop(approval_id, None)
        for key in [each for each in self._waiting if each[0] == approval_id]:
            self._waiting[key].cancel()

    def _forget(self, key: tuple[str, int], task: asyncio.Task[None]) -> None:
        if self._waiting.get(key) is task:
            del self._waiting[key]
            self._early.discard(key)

    async def _notify_at(self, key: tuple[str, int], due: datetime, ways: Sequence[str | None]) -> None:
        await self._clocks.sleep(max(0.0, (due - self._clocks.now()).total_seconds()))
        self._early.discard(key)
        await self._send(key[0], ways)

    async def _send(
        self, approval_id: str, ways: Sequence[str | None], address: Address | None = None
    ) -> None:
        """Notify through each of these channels."""

        async def send(way: str | None) -> None:
            way = self._current(way)
            if not await self._is_held():
                return
            request = next((a for a in await self._hub.approvals() if a.id == approval_id), None)
            if request is None or (request.fuse is not None and address is None):
                return
            if self._hub.server_of(request.session) is not None:
                return  # Only the server that currently owns the session notifies.
            channel = self._channel(way)
            if channel.holds or not channel.take(self._clocks.now()):
                channel.hold(approval_id, address)
                self._tell_soon(way, channel)
                return
            turn = nullcontext()
            if way is not None:
                channels = self._told.setdefault(approval_id, (request, {}))[1]
                turn = channels.setdefault(way, asyncio.Lock())
            async with turn:
                now, chat = self._clocks.now(), self._chat()
                await send_notification(self._settings, request, now, way, address=address, chat=chat)

        await asyncio.gather(*(self._try(approval_id, partial(send, way)) for way in ways))

    async def _is_held(self) -> bool:
        """Wait while other servers may have taken over the requests here; return false if they have."""
        try:
            await self._hub.lease.until_held()
        except JournalError:
            return False
        return True

    async def _tell_ending(
        self, request: ApprovalState, services: Mapping[str, asyncio.Lock], ending: Ending
    ) -> None:
        """Send the outcome of a request to the services that were notified of it."""
        names = without_links(request.tool), without_links(request.agent or request.session)
        message = ending_message(request, names, ending)

        async def send(service: str, told: asyncio.Lock) -> None:
            service = self._at(service)
            channel = self._channel(service)
            async with told:
                if channel.holds or not channel.take(self._clocks.now()):
                    channel.hold_ending(request.id, message)
                    self._tell_soon(service, channel)
                else:
                    await _tell(self._settings, service, message)

        # The message in the chat from which it was decided is updated by the chat's own answer.
        in_chat = isinstance(ending, ApprovalDecided) and chat_of(ending.login) != ""
        works = (
            partial(send, *each)
            for each in services.items()
            if not (in_chat and self._settings.is_chat(self._at(each[0])))
        )
        await asyncio.gather(*(self._try(request.id, work) for work in works))

    # Several at once

    def _channel(self, way: str | None) -> Channel:
        return self._channels.setdefault(way, Channel(self._settings.most))

    def _tell_soon(self, way: str | None, channel: Channel) -> None:
        """Start sending what is held back, as soon as there is room."""
        if not channel.at_work:
            channel.at_work = True
            self._begin(self._tell_of_several(way, channel))

    async def _tell_of_several(self, way: str | None, channel: Channel) -> None:
        try:
            while channel.holds:
                await self._clocks.sleep(channel.pause(self._clocks.now()))
                if not await self._try("several", partial(self._send_several, way, channel)):
                    channel.drop()
        finally:
            channel.at_work = False

    async def _send_several(self, way: str | None, channel: Channel) -> None:
        """Send what is held back and still current, in one message."""
        way = self._current(way)
        now, endings = self._clocks.now(), dict(channel.endings)
        by_request, waiting = dict(channel.waiting), list[tuple[ApprovalState, Address | None]]()
        requests = await self._hub.approvals() if await self._is_held() else ()
        for request in requests:
            if request.id in by_request and (request.fuse is None or by_request[request.id] is not None):
                waiting.append((request, by_request[request.id]))
        if waiting or endings:
            if not channel.take(now):
                return
            # Holding these locks makes an outcome follow its request's notification, in whichever message
            # that is.
            async with AsyncExitStack() as turns:
                for request, _ in waiting if way is not None else ():
                    channels = self._told.setdefault(request.id, (request, {}))[1]
                    await turns.enter_async_context(channels.setdefault(way or "", asyncio.Lock()))
                await self._deliver_several(way, waiting, list(endings.values()), now)
        for approval_id, address in by_request.items():
            if channel.waiting.get(approval_id) == address:
                channel.waiting.pop(approval_id, None)
        for approval_id in endings:
            channel.endings.pop(approval_id, None)

    async def _deliver_several(
        self,
        way: str | None,
        waiting: Sequence[tuple[ApprovalState, Address | None]],
        endings: Sequence[Message],
        now: datetime,
    ) -> None:
        if len(waiting) == 1 and not endings:
            [(request, address)] = waiting
            await send_notification(self._settings, request, now, way, address=address, chat=self._chat())
            return
        summaries = [
            (each.id, payload_of(each, now, include_input=False, address=address).summary)
            for each, address in waiting
        ]
        several = several_waiting(summaries, self._settings.link)
        if way is not None:
            await _tell(self._settings, way, several_message(several, endings))
            return
        values = several.model_dump(mode="json", exclude={"link"} if several.link is None else None)
        await deliver(self._settings, json.dumps(values, ensure_ascii=False).encode("utf-8", "replace"))

    async def _try(self, approval_id: str, attempt: Callable[[], Coroutine[None, None, None]]) -> bool:
        """Try, with retries after pauses; return whether it succeeded. Never raises."""
        for pause in (*RETRIES, None):
            try:
                # Shielded: a message that is being sent arrives, even if its request ends now.
                await asyncio.shield(self._begin(attempt()))
            except SendError as error:
                log.warning("nobody was told of request %s: %s", approval_id, error)
                self._complain(str(error))
            except Exception as error:
                log.exception("nobody was told of request %s", approval_id)
                self._complain(f"{type(error).__name__}: {error}")
            else:
                return True
            if pause is not None:
                await self._clocks.sleep(pause)
        return False

    def _complain(self, problem: str) -> None:
        if not self._complained:
            self._complained = True
            self._failed(f"[notify] does not work: {problem}. Try it with: interlock notify --test")


APPROVAL_ENDS = (ApprovalDecided, ApprovalExpired, ApprovalWithdrawn)


async def send_notification(
    settings: NotifySettings,
    request: ApprovalState,
    now: datetime,
    service: str | None = None,
    *,
    test: bool = False,
    address: Address | None = None,
    chat: ChatTerms | None = None,
) -> str:
    """Notify a service of one request, or the configured command or URL; return the answer.

    Raises `SendError`. Messages to the chat have buttons according to `chat`.
    """
    payload = payload_of(
        request,
        now,
        include_input=settings.include_input,
        link=settings.link,
        test=test,
        address=address,
    )
    if service is None:
        return await deliver(settings, as_bytes(payload))
    if settings.is_chat(service):
        return await tell_slack(service, waiting_payload(payload, request, chat))
    return await tell_service(service, waiting_message(payload))


async def _tell(settings: NotifySettings, service: str, message: Message) -> str:
    """Send a message to a service or the chat. Raises `SendError`."""
    if settings.is_chat(service):
        return await tell_slack(service, plain_payload(message))
    return await tell_service(service, message)


async def deliver(settings: NotifySettings, payload: bytes) -> str:
    """Deliver JSON to the configured command or URL. Raises `SendError`."""
    if settings.url:
        return await post(settings.url, as_cloud_event(payload, utc_now()))
    return await run_command(settings.command, payload)


def moved_services(before: NotifySettings, now: NotifySettings) -> dict[str, str]:
    """Map old to new addresses of services whose address changed, for instance by a new secret.

    An address counts as changed if it is the only removed one of its scheme and one new address has that
    scheme.
    """
    old, new = before.services, now.services

    def scheme(way: str) -> str:
        return way.partition("://")[0]

    moved: dict[str, str] = {}
    for way in old:
        removed = [each for each in old if each not in new and scheme(each) == scheme(way)]
        come = [each for each in new if each not in old and scheme(each) == scheme(way)]
        if removed == [way] and len(come) == 1:
            moved[way] = come[0]
    return moved


class Notifications:
    """Notifications of what waits on a hub, with settings that may change; none without settings."""

    def __init__(self, hub: Hub, failed: Callable[[str], object], chat: ChatSource = no_chat) -> None:
        self._hub = hub
        self._failed = failed
        self._chat = chat
        self._notifier: Notifier | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, settings: NotifySettings, waiting: Sequence[ApprovalState] = ()) -> None:
        """Notify of the requests in `waiting`, and of later ones."""
        clocks = Clocks(self._hub.clock)
        self._notifier = Notifier(self._hub, settings, self._failed, clocks, self._chat)
        self._task = asyncio.get_running_loop().create_task(self._notifier.run(waiting))

    async def change(self, settings: NotifySettings | None) -> None:
        """Apply other settings, or stop if they are `None`."""
        if settings is None:
            await self.end()
        elif self._notifier is not None:
            self._notifier.change(settings)
        else:
            self.begin(settings, await self._hub.approvals())

    async def end(self) -> None:
        """Stop notifying."""
        task, self._task, self._notifier = self._task, None, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def notifications_of(
    hub: Hub,
    settings: NotifySettings | None,
    failed: Callable[[str], object],
    chat: ChatSource = no_chat,
) -> AsyncGenerator[Notifications]:
    """Notify of what waits on `hub` while the context is open; does nothing without settings."""
    notifications = Notifications(hub, failed, chat)
    if settings is not None:
        notifications.begin(settings)
    try:
        yield notifications
    finally:
        await notifications.end()


def sample_request(now: datetime) -> ApprovalState:
    """Return a sample request, for testing notifications."""
    rule = RuleRecord(file="deploy.rules", line=5, text="require human-approval before deploy")
    return ApprovalState(
        id=SAMPLE,
        session="sample-session",
        agent="release-bot",
        call_id="c1",
        since=now - timedelta(minutes=2),
        tool="deploy",
        called="deploy",
        input={"env": "staging"},
        names=("deploy",),
        net="approve-before-deploy",
        transition="approve",
        title="deploy",
        message="",
        marking={},
        rule=rule,
    )
