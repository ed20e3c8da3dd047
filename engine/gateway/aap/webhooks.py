"""Signed notifications that a request has ended, for receivers of the Agent Approval Protocol.

Id, time and body are signed with HMAC-SHA256 as Standard Webhooks specifies. A receiver gets nothing
before it has answered a challenge, and a notification only names the request to read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final
from uuid import UUID, uuid4, uuid5

import httpx
from pydantic import BaseModel, ValidationError

from ...core.clock import utc_now
from ...core.sanitize import visible
from .receiver import WebhookReceiver, signature_headers
from .wire import stamp

SPACE: Final = UUID("6f0c5a52-3b1e-5d0f-8a3c-0d9a4f6be7c1")
"""Namespace of ids derived from names, which therefore stay the same after a restart."""
TIMEOUT: Final = 10.0
"""Seconds for one attempt."""
WINDOW: Final = 7 * 24 * 3600.0
"""Seconds after the end of a request during which its notification is attempted."""
LONGEST_PAUSE: Final = 600.0
"""Maximum seconds between attempts; a receiver may request a longer pause, of at most an hour."""
LONGEST_ASKED: Final = 3600.0
AT_ONCE: Final = 4
"""Maximum concurrent notifications to one receiver."""
LONGEST_ANSWER: Final = 4096

log = logging.getLogger(__name__)


def instance_id(agent: str) -> str:
    """Id of an agent token's instance in this protocol."""
    return str(uuid5(SPACE, f"instance\0{agent}"))


class Webhooks:
    """Notifications in progress. `done` is called once a receiver has accepted one."""

    def __init__(
        self,
        receivers: Mapping[str, WebhookReceiver],
        done: Callable[[str, str], Awaitable[None]],
        *,
        pause: float = 1.0,
    ) -> None:
        self._receivers = receivers
        self._done = done
        self._pause = pause
        self._places = {agent: asyncio.Semaphore(AT_ONCE) for agent in receivers}
        self._verified = {agent: asyncio.Event() for agent in receivers}
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[str] = set()

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        """HTTP client, created on first use because reading the system's certificates takes a while."""
        return httpx.AsyncClient(follow_redirects=False, timeout=TIMEOUT)

    def start(self) -> None:
        """Send each receiver a challenge, to check that it expects notifications."""
        for agent, receiver in self._receivers.items():
            self._start(self._verify(agent, receiver))

    async def close(self) -> None:
        """Cancel notifications in progress; the record shows which were delivered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if "_client" in vars(self):
            await self._client.aclose()

    def notify(self, agent: str, request_id: str, ended: datetime) -> None:
        """Notify an agent's receiver, if it has one, that a request has ended.

        Does nothing while a notification of that request is in progress. Once it is delivered, the record
        says so, and later changes send no further one.
        """
        receiver = self._receivers.get(agent)
        if receiver is None or request_id in self._under_way:
            return
        self._under_way.add(request_id)
        event = {
            "id": str(uuid5(SPACE, f"resolved\0{request_id}")),
            "type": "request.resolved",
            "instance_id": instance_id(agent),
            "request_id": request_id,
            "created_at": stamp(ended),
        }
        self._start(self._deliver(agent, receiver, event, ended.timestamp() + WINDOW))

    async def _verify(self, agent: str, receiver: WebhookReceiver) -> None:
        attempt = 0
        while True:
            challenge = str(uuid4())
            message = {
                "id": str(uuid4()),
                "type": "webhook.verification",
                "registration_id": receiver.registration,
                "instance_id": instance_id(agent),
                "created_at": stamp(utc_now()),
                "challenge": challenge,
            }
            answer = await self._post(receiver, message)
            if answer.status == 200 and _challenge(answer.body) == challenge:
                self._verified[agent].set()
                return
            log.warning("the receiver of '%s' did not answer the challenge: %s", agent, answer.problem)
            attempt += 1
            await asyncio.sleep(self._wait(attempt))

    async def _deliver(
        self, agent: str, receiver: WebhookReceiver, event: Mapping[str, str], until: float
    ) -> None:
        attempt = 0
        try:
            await self._verified[agent].wait()
            while time.time() < until:
                async with self._places[agent]:
                    answer = await self._post(receiver, event)
                if 200 <= answer.status < 300:
                    await self._done(agent, event["request_id"])
                    return
                log.info("a notification to '%s' is not delivered yet: %s", agent, answer.problem)
                attempt += 1
                await asyncio.sleep(max(self._wait(attempt), answer.retry_after))
            log.warning("a notification to '%s' was never delivered", agent)
        finally:
            self._under_way.discard(event["request_id"])

    def _wait(self, attempt: int) -> float:
        longest = min(LONGEST_PAUSE, self._pause * 2 ** min(attempt, 16))
        return longest * random.uniform(0.5, 1.0)

    async def _post(self, receiver: WebhookReceiver, message: Mapping[str, str]) -> _Answer:
        body = json.dumps(message).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "interlock",
            **signature_headers(receiver.key, message["id"], int(time.time()), body),
        }
        try:
            async with (
                asyncio.timeout(TIMEOUT),
                self._client.stream("POST", receiver.url, content=body, headers=headers) as response,
            ):
                read = bytearray()
                async for chunk in response.aiter_bytes():
                    read += chunk
                    if len(read) > LONGEST_ANSWER:
                        break
                status = response.status_code
                wait = asked_pause(status, response.headers.get("retry-after", ""))
                return _Answer(status, bytes(read), wait, str(status))
        except TimeoutError:
            return _Answer(0, b"", 0.0, f"no answer within {TIMEOUT:g} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return _Answer(0, b"", 0.0, visible(str(error) or type(error).__name__))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def asked_pause(status: int, retry_after: str) -> float:
    """Seconds of pause that a receiver requests by `Retry-After` of a 429 or 503."""
    if status not in (429, 503) or not (retry_after.isascii() and retry_after.isdecimal()):
        return 0.0
    return min(LONGEST_ASKED, float(retry_after))


class _Challenge(BaseModel):
    challenge: str


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    retry_after: float
    problem: str


def _challenge(body: bytes) -> str | None:
    try:
        return _Challenge.model_validate_json(body).challenge
    except ValidationError:
        return None
