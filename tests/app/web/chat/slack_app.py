"""A Slack app as the server sees it: clicks with valid and invalid signatures, and their answers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode
from uuid import uuid4

from aiohttp import ClientSession
from pydantic import JsonValue

from interlock.app.hosting.notifications.slack import Answer, ChatTerms, button_value
from interlock.app.web.chat.decisions import SlackDecisions
from interlock.app.web.server import ConsoleServer
from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.protocol.agent_methods import CallAnswer
from interlock.engine.history.model.events import ApprovalDecided, EventBody
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import ApprovalPolicy, Hub

from ....engine.gateway.served import Served, served, until
from ..fronts import small_app

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
MARIA, BEN, STRANGER = "T012/U034", "T012/U056", "T999/U034"
BUTTONS: tuple[Answer, ...] = ("approve", "deny")
ANSWERS = "https://hooks.slack.com/actions/T012/1/x"
RULES = """\
require human-approval before lint risk low
require human-approval before build risk medium
require human-approval before deploy risk high
require human-approval before run
require human-approval before both by 2 risk low
require human-approval before grouped of security risk low
require human-approval before others not by author risk low
"""
OPERATORS = Operators((Operator("maria", "decide"), Operator("ben", "look"), Operator("ada")))
TERMS = ChatTerms(SECRET, {MARIA: "maria", BEN: "ben"}, shows_input=True)


@dataclass
class SlackApp:
    """A front that accepts clicks, the hub in its process, and the answers sent to Slack.

    Agents connect to `served`.
    """

    front: ConsoleServer
    hub: Hub
    terms: list[ChatTerms | None]
    answers: list[tuple[str, dict[str, JsonValue]]] = field(default_factory=list)
    calls: list[asyncio.Task[CallAnswer]] = field(default_factory=list)
    served: Served | None = None

    async def ask(self, session: AgentSession, name: str, **given: JsonValue) -> ApprovalState:
        """Make a call as an agent and return its approval request."""
        before = {each.id for each in await self.hub.approvals()}
        self.calls.append(asyncio.ensure_future(session.call(name, given)))

        async def found() -> ApprovalState | None:
            waiting = await self.hub.approvals()
            return next((each for each in waiting if each.id not in before), None)

        return await until(found)

    async def is_open(self, request: ApprovalState) -> bool:
        return any(each.id == request.id for each in await self.hub.approvals())

    async def decided(self, request: ApprovalState) -> ApprovalDecided:
        """Return the event of the request's decision."""

        def decision(body: EventBody) -> bool:
            return isinstance(body, ApprovalDecided) and body.approval_id == request.id

        found = [e.body for e in await self.hub.recorded(request.session) if decision(e.body)]
        [body] = found
        assert isinstance(body, ApprovalDecided)
        return body

    def button(self, request: ApprovalState, answer: Answer = "approve") -> str:
        """Return the value of a button of the message about a request."""
        return button_value(SECRET, answer, request.id, request.digest or "")

    async def click(self, value: str, answer: str = "approve", account: str = MARIA) -> str:
        """Click a button and return the text of the answer."""
        before = len(self.answers)
        status, text = await self.post(signed(payload(value, answer, account)))
        assert status == 200, text
        assert text == ""

        async def said() -> dict[str, JsonValue] | None:
            return self.answers[-1][1] if len(self.answers) > before else None

        return str((await until(said))["text"])

    async def post(self, sent: tuple[bytes, Mapping[str, str]]) -> tuple[int, str]:
        body, headers = sent
        async with (
            ClientSession() as session,
            session.post(f"{self.front.url}/chat/slack", data=body, headers=headers) as answer,
        ):
            return answer.status, await answer.text()


def payload(
    value: str, answer: str = "approve", account: str = MARIA, **more: JsonValue
) -> dict[str, JsonValue]:
    """The payload of a click."""
    team, user = account.split("/")
    return {
        "type": "block_actions",
        "team": {"id": team, "domain": "example"},
        "user": {"id": user, "username": "maria", "name": "maria", "team_id": team},
        "api_app_id": "A1",
        "trigger_id": uuid4().hex,
        "actions": [{"type": "button", "action_id": answer, "block_id": "b", "value": value}],
        "response_url": ANSWERS,
        **more,
    }


def signed(
    said: JsonValue, *, secret: str = SECRET, age: float = 0.0, form: str | None = None
) -> tuple[bytes, dict[str, str]]:
    """Return a body with the headers that Slack sends with it."""
    body = (urlencode({"payload": json.dumps(said)}) if form is None else form).encode()
    at = str(int(time.time() - age))
    signature = hmac.new(secret.encode(), b"v0:" + at.encode() + b":" + body, hashlib.sha256)
    return body, {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": at,
        "X-Slack-Signature": f"v0={signature.hexdigest()}",
    }


@asynccontextmanager
async def taking_clicks(hub: Hub) -> AsyncGenerator[SlackApp, None]:
    """A front that accepts clicks for the requests of a hub."""
    hub.know_operators(OPERATORS)
    terms: list[ChatTerms | None] = [TERMS]
    answers: list[tuple[str, dict[str, JsonValue]]] = []

    async def answer(url: str, said: dict[str, JsonValue]) -> None:
        answers.append((url, said))

    front = ConsoleServer(small_app, chat=SlackDecisions(hub, lambda: terms[0], answer=answer))
    await front.start("127.0.0.1", 0)
    found = SlackApp(front, hub, terms, answers)
    try:
        yield found
    finally:
        await front.close()
        for each in found.calls:
            each.cancel()
        await asyncio.gather(*found.calls, return_exceptions=True)


@asynccontextmanager
async def slack_app(
    directory: Path, *, rules: str = RULES, policy: ApprovalPolicy | None = None
) -> AsyncGenerator[SlackApp, None]:
    """A front that accepts clicks, with its own server."""
    async with (
        served(directory, rules=rules, policy=policy) as running,
        taking_clicks(running.hub) as found,
    ):
        found.served = running
        yield found


@asynccontextmanager
async def agent(of: SlackApp) -> AsyncGenerator[AgentSession, None]:
    """A session of a remote agent."""
    assert of.served is not None
    async with of.served.agent_client() as program, program.session("bot") as session:
        yield session
