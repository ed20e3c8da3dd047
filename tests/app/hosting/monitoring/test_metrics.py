"""Metrics of a server: the counts, their labels, and the access to them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.app.hosting.monitoring.endpoints import answering
from interlock.app.hosting.monitoring.metrics import MOST_RULES, Metrics
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import CallDecided, JournalEvent, SessionOpened
from interlock.engine.hub.hub import Hub
from tests.app.cli.server.test_serve import serving
from tests.engine.gateway.served import served, until

from .watched import value, watched


class TestCounting:
    async def test_decisions_by_verdict_and_rule(self, tmp_path: Path) -> None:
        """Allowed and blocked calls are counted, blocked ones with their rule."""
        async with watched(tmp_path) as watch, watch.server.agent_client() as client:
            session = await client.open("bot")
            assert (await session.call("test", {}, call_id="t1")).outcome == "allow"
            await session.result("t1", "ok")
            assert (await session.call("rm", {})).outcome == "block"
            labels = {"verdict": "block", "rule": "block-rm", "mode": "enforce"}
            seen = await watch.until(lambda each: value(each, "interlock_decisions_total", **labels) == 1)
            allowed = value(seen, "interlock_decisions_total", verdict="allow", rule="", mode="enforce")
            assert allowed == 1
            assert value(seen, "interlock_judging_seconds_count") == 2
            assert value(seen, "interlock_connections", kind="agent") == 1
            assert value(seen, "interlock_sessions", kind="outside") == 1
            assert value(seen, "interlock_journal_commit_seconds_count") >= 3
            assert value(seen, "interlock_journal_batch_events_sum") >= 5

    async def test_requests_and_their_waits(self, tmp_path: Path) -> None:
        """A request is open until it is decided. A decision within two seconds counts as fast."""
        rules = "require human-approval before deploy risk high\n"
        async with watched(tmp_path, rules) as watch, watch.server.agent_client() as client:
            session = await client.open("bot")
            going = asyncio.create_task(session.call("deploy", {}))
            async with watch.server.console() as console:
                [request] = await until(console.approvals)
                seen = await watch.until(lambda each: value(each, "interlock_open_requests") == 1)
                assert value(seen, "interlock_oldest_request_seconds") >= 0
                await console.decide(request.id, approved=False, digest=request.digest)
            assert (await going).outcome == "block"
            waited = {"risk": "high", "outcome": "denied"}
            seen = await watch.until(
                lambda each: value(each, "interlock_approval_wait_seconds_count", **waited) == 1
            )
            assert value(seen, "interlock_open_requests") == 0
            assert value(seen, "interlock_fast_decisions_total") == 1

    @pytest.mark.slow
    async def test_approval_counts_for_its_rule(self, tmp_path: Path) -> None:
        """A call that an operator approved counts for the rule that asked."""
        rules = "require human-approval before deploy\n"
        async with watched(tmp_path, rules) as watch, watch.server.agent_client() as client:
            session = await client.open("bot")
            going = asyncio.create_task(session.call("deploy", {}))
            async with watch.server.console() as console:
                [request] = await until(console.approvals)
                await console.decide(request.id, approved=True, digest=request.digest)
            assert (await going).outcome == "allow"
            labels = {"verdict": "approved", "rule": request.net, "mode": "enforce"}
            await watch.until(lambda each: value(each, "interlock_decisions_total", **labels) == 1)

    async def test_unknown_outcomes(self, tmp_path: Path) -> None:
        """A call without a result at the end of its turn has an unknown outcome."""
        async with watched(tmp_path) as watch, watch.server.agent_client() as client:
            session = await client.open("bot")
            await session.call("test", {}, call_id="t1")
            await watch.server.hub.end_turn(session.id)
            await watch.until(lambda each: value(each, "interlock_unknown_outcomes_total") == 1)

    async def test_failed_commits(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A batch that the journal rejects is counted, and its call is not allowed."""
        async with watched(tmp_path) as watch, watch.server.agent_client() as client:
            session = await client.open("bot")
            writer = watch.server.hub._journal._writer

            def fail(batch: object) -> None:
                raise OSError("no space left on device")

            monkeypatch.setattr(writer, "commit", fail)
            with pytest.raises(Exception, match="could not be"):
                await session.call("test", {})
            monkeypatch.undo()
            await watch.until(lambda each: value(each, "interlock_journal_failures_total") >= 1)


class TestLabels:
    async def test_number_of_rule_labels_is_limited(self, tmp_path: Path) -> None:
        """Rules beyond a fixed number share one label."""
        async with served(tmp_path) as server:
            metrics = Metrics(server.hub, server.gateway)
            opened = SessionOpened(agent="bot", model="", mode="enforce")
            at = server.hub._journal.clock()
            metrics.take(JournalEvent(cursor=1, session="s", seq=1, at=at, body=opened))
            for number in range(MOST_RULES + 50):
                decided = CallDecided(
                    call_id="c",
                    tool="rm",
                    input={},
                    names=("rm",),
                    outcome="block",
                    mode="enforce",
                    net=f"block-{number}",
                )
                metrics.take(JournalEvent(cursor=2, session="s", seq=2, at=at, body=decided))
            text = metrics.text().decode()
        lines = [each for each in text.splitlines() if each.startswith("interlock_decisions_total{")]
        assert len(lines) == MOST_RULES + 1
        [other] = [each for each in lines if 'rule="other"' in each]
        assert float(other.split()[-1]) == 50

    async def test_sessions_calls_and_agents_are_absent(self, tmp_path: Path) -> None:
        """The metrics contain no session, call or agent."""
        async with watched(tmp_path) as watch, watch.server.agent_client() as client:
            session = await client.open("robin")
            await session.call("rm", {"path": "/srv/secret"}, call_id="call-77")
            await watch.until(lambda each: any(name == "interlock_decisions_total" for name, _ in each))
            text = (await watch.get("/metrics")).text
        for word in ("robin", session.id, "call-77", "secret", "bot"):
            assert word not in text


class TestAccess:
    async def test_web_page_is_refused(self, tmp_path: Path) -> None:
        """A local request with another host name, or from a web page, is refused."""
        async with watched(tmp_path) as watch:
            assert (await watch.get("/metrics")).status_code == 200
            assert (await watch.get("/metrics", Host="evil.example")).status_code == 421
            assert (await watch.get("/metrics", Origin="http://evil.example")).status_code == 421

    @pytest.mark.slow
    async def test_public_address_needs_a_token(self, tmp_path: Path) -> None:
        """At an address that others can reach, an operator's token is required."""
        async with (
            served(tmp_path) as server,
            answering(
                server.hub,
                Metrics(server.hub, server.gateway),
                server.tokens,
                Address("0.0.0.0", 0),
                None,
            ) as address,
        ):
            watch_at = Address("127.0.0.1", address.port)
            from .watched import Watched

            watch = Watched(server, watch_at)
            assert (await watch.get("/metrics")).status_code == 401
            refused = await watch.get("/metrics", Authorization=f"Bearer {server.agent}")
            assert refused.status_code == 401
            answer = await watch.get("/metrics", Authorization=f"Bearer {server.ada}")
            assert answer.status_code == 200
            assert (await watch.get("/healthz")).status_code == 200

    @pytest.mark.slow
    async def test_option_of_serve(self, tmp_path: Path) -> None:
        """`interlock serve --metrics` serves the metrics and prints their address."""
        async with serving(tmp_path, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0") as server:
            _, err = await server.ended()
        assert "metrics at http://127.0.0.1:" in err

    @pytest.mark.slow
    async def test_socket_path_is_refused(self, tmp_path: Path) -> None:
        """A socket path is refused with the expected form."""
        with pytest.raises(AssertionError, match="--metrics: expected HOST:PORT"):
            async with serving(tmp_path, "--metrics", "unix:m.sock"):
                pass


class TestServersOfOneDatabase:
    async def test_only_the_deciding_server_counts(self, postgresql: PostgresLocation) -> None:
        """Of two servers only the deciding one counts the decision. Both report their lease's age."""
        from interlock.engine.gateway.cluster.shared_hub import open_hub
        from tests.engine.support.external_agent import opened

        hubs: list[Hub] = []
        try:
            for _ in range(2):
                hubs.append(hub := await asyncio.to_thread(open_hub, postgresql))
                await hub.share()
            heard = [each.subscribe() for each in hubs]
            await opened(hubs[0], "block rm")
            await hubs[0].call("robin-1", "c1", "rm", {})
            own: list[bool] = []
            for hub, events in zip(hubs, heard, strict=True):
                async with asyncio.timeout(20):
                    async for event in events:
                        if isinstance(event, JournalEvent) and isinstance(event.body, CallDecided):
                            own.append(hub.is_own(event))
                            break
            assert own == [True, False]
            assert all(hub.lease_age is not None and hub.lease_age < 60 for hub in hubs)
        finally:
            for hub in hubs:
                await hub.close()


def test_a_file_has_no_lease(tmp_path: Path) -> None:
    """A hub on a file reports no lease."""
    hub = Hub(Journal.open(tmp_path / "a.db"))
    assert hub.lease_age is None
    assert hub.fenced == 0
    hub._journal.close()
