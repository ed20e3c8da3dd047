"""Requests of the Agent Approval Protocol, made by the protocol's own client and gate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from agentapprovalprotocol import Allow, AsyncClient, AsyncGate, Call, Client, Deny, Gate, Pending
from agentapprovalprotocol._client import AAPError, ConflictError, CredentialRefused, NotFound
from agentapprovalprotocol._wire import Request
from agentapprovalprotocol.testing import FakeProvider

from interlock.engine.core import clock as clock_module
from interlock.engine.core.clock import utc_now
from interlock.engine.gateway.aap import provider
from interlock.engine.gateway.aap.provider import VALID, ApprovalProvider, _session_id
from interlock.engine.gateway.aap.wire import CreateRequest
from interlock.engine.gateway.client.connection import GatewayError
from interlock.engine.gateway.cluster.shared_hub import open_hub
from interlock.engine.gateway.protocol.tokens import Identity, TokenFile
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.gateway.server.server import Gateway
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.model.events import CallDecided, CallResult, RequestMade, RequestStep
from interlock.rules import compile_rules
from tests.engine.gateway.served import until

from .aap_server import RULES, AapServer, aap_server, submission


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def call(tool: str, key: str = "run:1", **arguments: object) -> Call:
    return Call(key=key, tool=tool, arguments=arguments or {"to": "prod"})


class TestGate:
    """The verdicts of the rules as the protocol's own gate receives them."""

    async def test_allowed_call_runs_at_once(self, tmp_path: Path) -> None:
        """A call without a matching rule is approved at once, and its outcome is recorded."""
        async with aap_server(tmp_path) as server:
            async with server.gate().guard(call("look")) as verdict:
                assert isinstance(verdict, Allow)
            bodies = await server.bodies()
            [decided] = [each for each in bodies if isinstance(each, CallDecided)]
            [result] = [each for each in bodies if isinstance(each, CallResult)]
            assert (decided.outcome, result.is_error, result.unknown) == ("allow", False, False)

    async def test_blocked_call_never_runs(self, tmp_path: Path) -> None:
        """A blocked call is denied, and the model gets the rules' reason."""
        async with aap_server(tmp_path) as server:
            verdict = await server.gate().check(call("rm"))
            assert isinstance(verdict, Deny)
            assert verdict.status == "denied"
            assert "rm" in verdict.reason

    async def test_operator_approves(self, tmp_path: Path) -> None:
        """The gate waits for an operator, who sees the agent's reasoning as the agent's text."""
        async with aap_server(tmp_path) as server:
            asked = Call(key="a", tool="deploy", arguments={"to": "prod"}, reasoning="Tests passed.")
            waiting = asyncio.create_task(server.gate().check(asked))
            request = await server.asked()
            state = await server.served.hub.session(request.session)
            assert ("assistant", "Tests passed.") in [(e.kind, e.text) for e in state.transcript]
            assert not waiting.done()
            await server.decide(approved=True)
            assert isinstance(await waiting, Allow)

    async def test_operator_denies(self, tmp_path: Path) -> None:
        """The operator's reason is the note for the model."""
        async with aap_server(tmp_path) as server:
            waiting = asyncio.create_task(server.gate().check(call("deploy")))
            await server.decide(approved=False, reason="not on a Friday")
            verdict = await waiting
            assert isinstance(verdict, Deny)
            assert "not on a Friday" in verdict.reason

    async def test_synchronous_gate(self, tmp_path: Path) -> None:
        """The synchronous gate works, too."""
        async with aap_server(tmp_path) as server:
            gate = Gate(Client(server.url, server.served.agent))
            verdict = await asyncio.to_thread(gate.check, call("look"))
            assert isinstance(verdict, Allow)
            assert await asyncio.to_thread(verdict.report, "failed", "exit 1")
            [result] = [each for each in await server.bodies() if isinstance(each, CallResult)]
            assert (result.is_error, result.output) == (True, "exit 1")

    async def test_paused_and_resumed(self, tmp_path: Path) -> None:
        """A paused gate sends the same request later and gets the decision. Operators see one request."""
        async with aap_server(tmp_path) as server:
            gate = server.gate(mode="async")
            assert isinstance(await gate.check(call("deploy")), Pending)
            assert isinstance(await gate.check(call("deploy")), Pending)
            assert len(await server.served.hub.approvals()) == 1
            await server.decide(approved=True)

            async def allowed() -> bool:
                return isinstance(await gate.check(call("deploy")), Allow)

            assert await until(allowed)
            again = await gate.check(call("deploy"))
            assert isinstance(again, Deny)
            assert again.status == "consumed"

    @pytest.mark.slow
    async def test_limits_count_per_session(self, tmp_path: Path) -> None:
        """Limits count per session: the client's own one if named, otherwise the token's."""
        async with aap_server(tmp_path) as server:
            one = server.gate(context={"session_id": "one"})
            other = server.gate(context={"session_id": "other"})
            assert isinstance(await one.check(call("push", "1")), Allow)
            assert isinstance(await one.check(call("push", "2")), Deny)
            assert isinstance(await other.check(call("push", "1")), Allow)

    async def test_mcp_tool_has_the_name_of_the_hooks(self, tmp_path: Path) -> None:
        """Rules know a tool of an MCP server by the name that hooks use for it."""
        async with aap_server(tmp_path, rules="block mcp__github__delete_repo\n") as server:
            gate = server.gate()
            asked = Call(key="1", tool="delete_repo", server="github", arguments={})
            assert isinstance(await gate.check(asked), Deny)
            assert isinstance(await gate.check(call("delete_repo", "2")), Allow)


class TestOnce:
    """An approval is for one call with one input and can be used once."""

    async def test_approval_is_used_exactly_once(self, tmp_path: Path) -> None:
        """Of many concurrent uses of an approval exactly one succeeds. Its key can be used again."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission("look"), "k")
            results = await asyncio.gather(
                *(client.consume(made.id, f"use-{n}") for n in range(8)), return_exceptions=True
            )
            used = [n for n, each in enumerate(results) if not isinstance(each, BaseException)]
            refused = [each.code for each in results if isinstance(each, ConflictError)]
            assert (len(used), refused) == (1, ["already_consumed"] * 7)
            again = await client.consume(made.id, f"use-{used[0]}")
            assert again.consumption == results[used[0]].consumption  # type: ignore[union-attr]
            steps = [e for e in await server.bodies() if isinstance(e, RequestStep)]
            assert [each.step for each in steps] == ["consumed"]

    @pytest.mark.slow
    async def test_undecided_or_denied_request_cannot_be_used(self, tmp_path: Path) -> None:
        """A waiting or denied request cannot be used."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            waits = await client.create(submission(), "a")
            denied = await client.create(submission("rm"), "b")
            for each in (waits, denied):
                with pytest.raises(ConflictError, match="not_approved"):
                    await client.consume(each.id, "u")

    @pytest.mark.slow
    async def test_unused_approval_expires(self, tmp_path: Path) -> None:
        """An approval that was not used in time expires, and nets get an unknown outcome."""
        async with aap_server(tmp_path, valid=0.2) as server:
            client = server.client()
            made = await client.create(submission("look"), "k")

            async def settled() -> bool:
                return any(isinstance(e, CallResult) and e.unknown for e in await server.bodies())

            assert await until(settled)
            with pytest.raises(ConflictError, match="approval_expired"):
                await client.consume(made.id, "u")
            assert (await client.get(made.id)).status == "approved"

    async def test_not_after_its_time_is_over_while_its_session_resumes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An approval that expires while its use waits for the session is not used."""
        ahead = timedelta()
        async with aap_server(tmp_path, clock=lambda: utc_now() + ahead) as server:
            client = server.client()
            made = await client.create(submission("look"), "k")
            resume = ApprovalProvider._open

            async def slow(self: ApprovalProvider, identity: Identity, session: str) -> None:
                nonlocal ahead
                await resume(self, identity, session)
                ahead = timedelta(seconds=VALID)

            monkeypatch.setattr(ApprovalProvider, "_open", slow)
            with pytest.raises(ConflictError, match="approval_expired"):
                await client.consume(made.id, "u")
            assert (await client.get(made.id)).consumption is None

    @pytest.mark.slow
    async def test_freeze_blocks_the_use_of_an_approval(self, tmp_path: Path) -> None:
        """A freeze blocks the use of an approval until it is lifted."""
        async with aap_server(tmp_path) as server:
            client = server.client(retries=0.0)
            made = await client.create(submission("look"), "k")
            assert (await server.served.hub.freeze(by="ada", reason="stop")).ok
            with pytest.raises(AAPError):
                await client.consume(made.id, "u")
            assert (await server.served.hub.lift_freeze(by="ada", reason="go on")).ok
            assert (await client.consume(made.id, "u")).consumption is not None

    async def test_freeze_while_resuming_blocks_the_use(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An approval is not used once somebody has read that all agents are frozen."""
        async with aap_server(tmp_path) as server:
            client = server.client(retries=0.0)
            made = await client.create(submission("look"), "k")
            resume = ApprovalProvider._open

            async def slow(self: ApprovalProvider, identity: Identity, session: str) -> None:
                await resume(self, identity, session)
                assert (await server.served.hub.freeze(by="ada", reason="stop")).ok

            monkeypatch.setattr(ApprovalProvider, "_open", slow)
            with pytest.raises(AAPError):
                await client.consume(made.id, "u")
            assert (await client.get(made.id)).consumption is None

    async def test_an_edited_call_is_denied(self, tmp_path: Path) -> None:
        """The protocol transmits no edited input, so an operator cannot edit a call."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission(), "k")
            request = await server.asked()
            hub = server.served.hub
            assert not hub.takes_edits(request.session)
            edited = await hub.decide(request.id, approved=True, by="ada", input={"to": "test"})
            assert not edited.ok
            assert (await client.get(made.id)).status == "pending"

    @pytest.mark.slow
    async def test_the_same_key_is_the_same_request(self, tmp_path: Path) -> None:
        """A key identifies an agent's request. With another input the key is refused."""
        async with aap_server(tmp_path) as server:
            client, other = server.client(), server.client(server.served.other)
            made = await client.create(submission(), "k")
            assert await client.create(submission(), "k") == made
            for changed in (
                submission(arguments={"to": "prod", "n": 2}),
                submission(context={"x": 1}),
                submission("look"),
                submission(timeout="6m"),
            ):
                with pytest.raises(ConflictError, match="idempotency_conflict"):
                    await client.create(changed, "k")
            theirs = await other.create(submission(), "k")
            assert theirs.id != made.id
            with pytest.raises(NotFound):
                await other.get(made.id)
            with pytest.raises(NotFound):
                await other.cancel(made.id)
            with pytest.raises(NotFound):
                await other.consume(made.id, "u")


class TestReference:
    """The in-memory provider in the protocol's package gives the same answers."""

    async def test_answers_equal_the_reference_provider(self, tmp_path: Path) -> None:
        """Each step of a long exchange gives the same state or error at both providers."""
        reference = FakeProvider(auto=None)
        async with aap_server(tmp_path) as server:
            ours = await self.exchange(server.client(), server, None)
            theirs = await self.exchange(reference.async_client(), None, reference)
        assert ours == theirs
        assert "already_consumed" in ours
        assert len(ours) > 20

    @staticmethod
    async def exchange(
        client: AsyncClient, server: AapServer | None, reference: FakeProvider | None
    ) -> list[str]:
        found: list[str] = []

        async def step(done: Awaitable[Request]) -> Request | None:
            try:
                request = await done
            except (AAPError, ConflictError, NotFound) as error:
                found.append(error.code if isinstance(error, ConflictError) else type(error).__name__)
                return None
            outcome = request.consumption and request.consumption.outcome
            found.append(
                f"{request.status} {request.consumption is not None} {outcome and outcome.status}"
            )
            return request

        async def made(key: str, approved: bool | None) -> str:
            request = await step(client.create(submission(), key))
            assert request is not None
            if approved is not None and reference is not None:
                reference.decide(request.id, "approved" if approved else "denied")
            elif approved is not None and server is not None:
                await server.decide(approved=approved)
            if approved is not None:
                await step(client.get(request.id, wait=20))
            return request.id

        one = await made("one", True)
        await step(client.create(submission(), "one"))
        await step(client.create(submission(timeout="9m"), "one"))
        await step(client.report_outcome(one, "succeeded"))
        await step(client.consume(one, "a"))
        await step(client.consume(one, "a"))
        await step(client.consume(one, "b"))
        await step(client.cancel(one))
        await step(client.report_outcome(one, "failed", "exit 1"))
        await step(client.report_outcome(one, "failed", "exit 1"))
        await step(client.report_outcome(one, "failed", "exit 2"))
        await step(client.get(one))
        two = await made("two", False)
        await step(client.consume(two, "a"))
        await step(client.cancel(two))
        three = await made("three", None)
        await step(client.consume(three, "a"))
        await step(client.cancel(three))
        await step(client.cancel(three))
        await step(client.consume(three, "a"))
        await step(client.report_outcome(three, "succeeded"))
        await step(client.create(submission(), "three"))
        await step(client.get("7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71"))
        return found


class TestEnds:
    """Every request has one end."""

    async def test_cancelled_request_leaves_the_queue(self, tmp_path: Path) -> None:
        """A request cancelled by its client leaves the queue, and waiting clients are notified."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission(), "k")
            await server.asked()
            waiting = asyncio.create_task(client.get(made.id, wait=20))
            assert (await client.cancel(made.id)).status == "cancelled"
            assert (await waiting).status == "cancelled"
            assert (await client.cancel(made.id)).status == "cancelled"
            assert not await server.served.hub.approvals()

    @pytest.mark.slow
    async def test_decided_request_cannot_be_cancelled(self, tmp_path: Path) -> None:
        """A decided request cannot be cancelled."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission("look"), "k")
            with pytest.raises(ConflictError, match="already_terminal"):
                await client.cancel(made.id)

    @pytest.mark.slow
    async def test_expired_request_leaves_the_queue(self, tmp_path: Path) -> None:
        """A request that is not decided within the client's timeout expires and leaves the queue."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission(timeout="1s"), "k")
            assert made.status == "pending"
            assert (await client.get(made.id, wait=20)).status == "expired"

            async def gone() -> bool:
                return not await server.served.hub.approvals()

            assert await until(gone)

    async def test_expires_soon_after_the_clock_was_set_or_the_machine_slept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The deadline is noticed although the timer of an hour has not run out."""
        monkeypatch.setattr(clock_module, "LOOK_AGAIN", 0.05)
        ahead = timedelta()
        async with aap_server(tmp_path, clock=lambda: utc_now() + ahead) as server:
            client = server.client()
            made = await client.create(submission(timeout="1h"), "k")
            assert made.status == "pending"
            ahead = timedelta(hours=2)
            assert (await client.get(made.id, wait=5)).status == "expired"

    @pytest.mark.slow
    async def test_ended_session_cancels_its_requests(self, tmp_path: Path) -> None:
        """The requests of a session that an operator ends are cancelled."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission(), "k")
            request = await server.asked()
            await server.served.hub.close_session(request.session, "ada")
            assert (await client.get(made.id)).status == "cancelled"
            after = await client.create(submission(), "later")
            assert after.status == "pending"

    @pytest.mark.slow
    async def test_approval_of_an_ended_session_cannot_be_used(self, tmp_path: Path) -> None:
        """An unused approval of an ended session cannot be used, even after a restart of the server."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission("look"), "k")
            [session] = [each.id for each in await server.served.hub.history()]
            await server.served.hub.close_session(session, "ada")
            with pytest.raises(ConflictError, match="approval_expired"):
                await client.consume(made.id, "u")
            assert (await client.create(submission("look"), "later")).status == "approved"
            with pytest.raises(ConflictError, match="approval_expired"):
                await client.consume(made.id, "u")
        async with aap_server(tmp_path) as server:
            with pytest.raises(ConflictError, match="approval_expired"):
                await server.client().consume(made.id, "u")

    async def test_outcome_is_recorded_once(self, tmp_path: Path) -> None:
        """An outcome is recorded once: repeating it changes nothing, another one is refused."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission("look"), "k")
            with pytest.raises(ConflictError, match="not_consumed"):
                await client.report_outcome(made.id, "succeeded")
            await client.consume(made.id, "u")
            told = await client.report_outcome(made.id, "failed", "exit 1")
            assert told.consumption is not None
            assert told.consumption.outcome is not None
            assert (told.consumption.outcome.status, told.consumption.outcome.note) == (
                "failed",
                "exit 1",
            )
            assert await client.report_outcome(made.id, "failed", "exit 1") == told
            with pytest.raises(ConflictError, match="outcome_conflict"):
                await client.report_outcome(made.id, "succeeded")


class TestRestart:
    """A restarted server continues its requests."""

    async def test_open_request_is_restored(self, tmp_path: Path) -> None:
        """After a restart operators have the request at once, and the client gets their answer."""
        async with aap_server(tmp_path) as server:
            made = await server.client().create(submission(context={"session_id": "s"}), "k")
            await server.asked()
        async with aap_server(tmp_path) as server:
            await server.decide(approved=True)
            found = await server.client().get(made.id, wait=20)
            assert (found.status, found.created_at) == ("approved", made.created_at)
            assert found.deadline_at == made.deadline_at
            assert [type(each) for each in await server.bodies()].count(RequestMade) == 1

    @pytest.mark.slow
    async def test_used_approval_stays_used(self, tmp_path: Path) -> None:
        """A used approval cannot be used with another key, and its outcome can be reported."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission("look"), "k")
            await client.consume(made.id, "u")
        async with aap_server(tmp_path) as server:
            client = server.client()
            with pytest.raises(ConflictError, match="already_consumed"):
                await client.consume(made.id, "other")
            assert (await client.consume(made.id, "u")).consumption is not None
            assert (await client.create(submission("look"), "k")).id == made.id
            told = await client.report_outcome(made.id, "succeeded")
            assert told.consumption is not None
            assert told.consumption.outcome is not None

    async def test_cancelled_request_stays_cancelled(self, tmp_path: Path) -> None:
        """A cancelled request is not asked about again."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission(), "k")
            await client.cancel(made.id)
        async with aap_server(tmp_path) as server:
            assert (await server.client().create(submission(), "k")).status == "cancelled"
            assert not await server.served.hub.approvals()
            assert (await server.client().get(made.id)).status == "cancelled"

    async def test_request_expires_during_the_downtime(self, tmp_path: Path) -> None:
        """A request whose time ran out while the server was down has expired."""
        async with aap_server(tmp_path) as server:
            made = await server.client().create(submission(), "k")
        async with aap_server(tmp_path, clock=lambda: utc_now() + timedelta(hours=1)) as server:
            assert (await server.client().get(made.id, wait=20)).status == "expired"


class TestJournal:
    """The journal has all requests; a server keeps only some in memory."""

    async def test_ended_requests_are_read_from_the_journal(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Beyond the limit ended requests are removed from memory and read from the journal."""
        monkeypatch.setattr(provider, "MOST_KEPT", 10)
        async with aap_server(tmp_path) as server:
            client = server.client()
            waiting = await client.create(submission(), "waits")
            made = [await client.create(submission("look"), f"k{number}") for number in range(25)]
            assert len(server.provider._requests) <= 10
            assert waiting.id in server.provider._requests
            for number in (0, 24):
                assert (await client.get(made[number].id)).status == "approved"
                again = await client.create(submission("look"), f"k{number}")
                assert again.id == made[number].id
            assert (await client.consume(made[0].id, "u")).consumption is not None
            with pytest.raises(ConflictError, match="idempotency_conflict"):
                await client.create(submission("other"), "k1")
            for unknown in ("%", str(uuid4())):
                with pytest.raises(NotFound):
                    await client.get(unknown)
            with pytest.raises(NotFound):
                await server.client(server.served.other).get(made[0].id)
            await server.decide(approved=True)
            assert (await client.get(waiting.id, wait=20)).status == "approved"

    async def test_other_server_reads_requests(
        self, tmp_path: Path, postgresql: PostgresLocation
    ) -> None:
        """Another server can read a request, wait for its end and find it by its idempotency key."""
        tokens = TokenFile(tmp_path / "tokens.json")
        tokens.issue("agent", "bot")
        [identity] = [each.identity for each in tokens.tokens()]
        rules = RuleSets.of(compile_rules(RULES).registry)
        hubs = [open_hub(postgresql) for _ in range(2)]
        providers = [ApprovalProvider(Gateway(hub, tokens, rules=rules).sessions, tokens) for hub in hubs]
        try:
            for each in providers:
                await each.start()
            here, there = providers
            message = CreateRequest.model_validate(submission())
            made, _ = await here.create(identity, "k", message)
            found = await there.get(identity, made.id)
            assert (found.decision, found.arguments) == (None, made.arguments)
            assert (await there.create(identity, "k", message)) == (found, False)
            waiting = asyncio.create_task(there.get(identity, made.id, wait=20))
            [asked] = await until(hubs[0].approvals)
            assert (await hubs[0].decide(asked.id, approved=True, by="ada")).ok
            decision = (await waiting).decision
            assert decision is not None
            assert decision.status == "approved"
        finally:
            for each in providers:
                await each.close()
            for hub in hubs:
                await hub.close()


class TestSessions:
    async def test_other_agents_cannot_open_its_id(self, tmp_path: Path) -> None:
        """The ids of these sessions can be guessed, so other agents may not open them."""
        async with aap_server(tmp_path) as server:
            me = server.served.tokens.find(server.served.agent)
            assert me is not None
            async with server.served.agent_client(server.served.other) as other:
                with pytest.raises(GatewayError, match="aap"):
                    await other.open("other", session=_session_id(me, ""))
            assert (await server.client().create(submission("look"), "k")).status == "approved"


class TestAdmission:
    """Unknown clients and faulty messages get errors of the protocol."""

    async def test_agent_token_is_required(self, tmp_path: Path) -> None:
        """An agent's token is required: a wrong one, an operator's and none are refused."""
        async with aap_server(tmp_path) as server:
            for token in ("ilk_agent_wrong", server.served.ada):
                with pytest.raises(CredentialRefused):
                    await server.client(token).create(submission(), "k")
            answer = await self.ask(server, "POST", "/v1/requests", token=None)
            assert answer.status_code == 401
            self.check_error(answer, "authentication")
            assert not await server.bodies()

    async def test_a_revoked_token(self, tmp_path: Path) -> None:
        """A revoked token cannot use an approval."""
        async with aap_server(tmp_path) as server:
            client = server.client()
            made = await client.create(submission("look"), "k")
            server.served.tokens.revoke("bot")
            with pytest.raises(CredentialRefused):
                await client.consume(made.id, "u")

    async def test_web_page_and_foreign_host_are_refused(self, tmp_path: Path) -> None:
        """A web page in a browser and a foreign host name are refused, even with a valid token."""
        async with aap_server(tmp_path) as server:
            page = await self.ask(server, "GET", "/v1/requests/x", Origin="https://evil.example")
            named = await self.ask(server, "GET", "/v1/requests/x", Host="evil.example")
            assert (page.status_code, named.status_code) == (403, 421)

    @pytest.mark.parametrize(
        "body",
        [
            "{",
            "[]",
            '{"tool": "look", "arguments": {}}',
            '{"tool": "look", "arguments": {}, "timeout": "0s"}',
            '{"tool": "look", "arguments": {}, "timeout": "5m", "more": 1}',
            '{"tool": "look", "arguments": {"a": 1, "a": 2}, "timeout": "5m"}',
            '{"tool": "look", "arguments": {}, "timeout": "5m", "context": null}',
            '{"tool": "look", "arguments": {"a": NaN}, "timeout": "5m"}',
            '{"tool": "", "arguments": {}, "timeout": "5m"}',
            '{"tool": "look", "arguments": {"a": "\\ud800"}, "timeout": "5m"}',
            '{"tool": "look", "arguments": {"\\ud800": 1}, "timeout": "5m"}',
            '{"tool": "look", "arguments": {}, "timeout": "5m", "context": {"run_id": "\\udc00"}}',
            '{"tool": "look", "arguments": {"a": %s}, "timeout": "5m"}' % ("[" * 200 + "]" * 200),
        ],
    )
    async def test_faulty_messages(self, tmp_path: Path, body: str) -> None:
        """An invalid message is refused, and nothing of it is recorded."""
        async with aap_server(tmp_path) as server:
            answer = await self.ask(server, "POST", "/v1/requests", content=body)
            assert answer.status_code == 400, answer.text
            self.check_error(answer, "invalid_request")
            assert not await server.bodies()

    async def test_key_and_size_are_checked(self, tmp_path: Path) -> None:
        """A request needs a key and a limited size. Unknown operations are refused."""
        async with aap_server(tmp_path) as server:
            body = '{"tool": "look", "arguments": {}, "timeout": "5m"}'
            no_key = await self.ask(server, "POST", "/v1/requests", content=body, key=None)
            assert (no_key.status_code, self.code(no_key)) == (400, "missing_idempotency_key")
            for path in ("", f"/{uuid4()}/consume"):
                odd = await self.ask(server, "POST", f"/v1/requests{path}", content=body, key=b"\xff")
                assert (odd.status_code, self.code(odd)) == (400, "missing_idempotency_key")
            large = await self.ask(server, "POST", "/v1/requests", content=" " * (2 << 20))
            assert large.status_code == 413
            bad_wait = await self.ask(server, "GET", "/v1/requests/x?wait=soon")
            assert bad_wait.status_code == 400
            instances = await self.ask(server, "POST", "/v1/instances", content="{}")
            assert (instances.status_code, self.code(instances)) == (403, "provisioned_elsewhere")

    @staticmethod
    async def ask(
        server: AapServer,
        method: str,
        path: str,
        token: str | None = "",
        key: str | bytes | None = "k",
        **more: Any,
    ) -> httpx.Response:
        headers: dict[str, str | bytes] = {
            name: more.pop(name) for name in ("Origin", "Host") if name in more
        }
        if token is not None:
            headers["Authorization"] = f"Bearer {token or server.served.agent}"
        if key is not None:
            headers["Idempotency-Key"] = key
        async with httpx.AsyncClient(trust_env=False) as client:
            pairs = [(name.encode(), _bytes(value)) for name, value in headers.items()]
            return await client.request(method, server.url + path, headers=pairs, **more)

    @staticmethod
    def code(answer: httpx.Response) -> str:
        return str(answer.json()["error"]["code"])

    @staticmethod
    def check_error(answer: httpx.Response, kind: str) -> None:
        error = answer.json()["error"]
        assert set(error) == {"type", "code", "message", "request_id"}
        assert error["type"] == kind
        assert error["request_id"] == answer.headers["X-Request-ID"]


class TestClosed:
    async def test_failing_journal_denies_the_call(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the journal fails, the protocol's gate denies the call."""
        async with aap_server(tmp_path) as server:
            await server.client().create(submission("look"), "first")

            def fail(*_: object) -> None:
                raise OSError("the disk is full")

            with monkeypatch.context() as patch:
                patch.setattr(server.served.hub._journal._writer, "commit", fail)
                gate = AsyncGate(server.client(retries=0.0))
                assert isinstance(await gate.check(call("look", "second")), Deny)
