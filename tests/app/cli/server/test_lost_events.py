"""Failover of the database of two `interlock serve` to a standby that lacks acknowledged events."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine.gateway import AgentClient, AgentSession, GatewayError
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol.console_methods import DIVERGED
from interlock.engine.gateway.protocol.tokens import read_secret
from interlock.engine.history.fold.event_text import headline
from tests.app.cli.hooks.running import Hook, Ran, recorded
from tests.app.cli.server.test_serve import Running, serving, surroundings
from tests.app.cli.server.test_two_servers import LINE
from tests.engine.gateway.served import until
from tests.engine.history.postgres.support.servers import rows
from tests.support.command import command
from tests.support.postgres import named
from tests.support.standby import Pair, replicated


@pytest.fixture
def pair() -> Iterator[Pair]:
    with replicated() as pair:
        yield pair


@pytest.fixture
def shared(tmp_path: Path, pair: Pair) -> dict[str, str]:
    """Environment of servers on the pair; their rules are in `a.rules`."""
    (tmp_path / "a.rules").write_text("require human-approval before drop-table\n")
    return {"INTERLOCK_DB": named(pair.location)}


async def lose_a_deploy(pair: Pair, server: Running) -> None:
    """Cut the standby off, then have an agent's deploy allowed and acknowledged without it."""
    client = server.agent()
    gate = await client.open("bot", session="bot-1")
    assert (await gate.call("test", {}, call_id="t1")).outcome == "allow"
    await until(lambda: asyncio.to_thread(pair.caught_up))
    await asyncio.to_thread(pair.cut_off)
    assert (await gate.call("deploy", {"env": "prod"}, call_id="d1")).outcome == "allow"
    await client.close()


async def refusal_of(server: Running) -> str:
    """Return the error with which a server refuses an agent that resumes the session."""
    client = server.agent()
    with pytest.raises(GatewayError) as failed:
        await client.resume("bot-1")
    await client.close()
    return str(failed.value)


async def is_shown_as_diverged(console: ConsoleClient) -> bool:
    """Tell whether a console shows the session as diverged."""
    await console.sessions()
    return console.server_of("bot-1") == DIVERGED


async def run(directory: Path, *line: str, code: int = 0, **env: str) -> str:
    done = await asyncio.to_thread(command, directory, *line, env=surroundings(directory) | env)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
class TestLostEvents:
    async def test_stop_the_session_until_an_operator_accepts_the_loss(
        self, tmp_path: Path, shared: dict[str, str], pair: Pair
    ) -> None:
        """The session stays stopped after server restarts, and the record names the accepted loss."""
        async with serving(tmp_path, *LINE, **shared) as one, serving(tmp_path, *LINE, **shared) as two:
            await lose_a_deploy(pair, one)
            async with two.console() as console:
                await until(console.sessions)
                await asyncio.to_thread(pair.fail_over)
                await until(lambda: is_shown_as_diverged(console))
                assert (await console.session("bot-1")).calls.keys() == {"t1"}
            for server in (one, two):
                assert "Session 'bot-1' diverged: event" in await refusal_of(server)
            one.process.send_signal(signal.SIGKILL)
            await one.process.wait()
            async with serving(tmp_path, *LINE, **shared) as three:
                async with three.console() as console:
                    await until(lambda: is_shown_as_diverged(console))
                await until(lambda: has_ended(pair, 2))
                assert "interlock approvals accept-loss bot-1" in await refusal_of(three)
                assert "Session bot-1 diverged" in await run(tmp_path, "servers", **shared)
                said = await run(tmp_path, "history", "verify", "bot-1", code=1, **shared)
                assert "✗ bot-1  diverged: event" in said
                access = {
                    "INTERLOCK_URL": f"ws://{three.where}",
                    "INTERLOCK_TOKEN": read_secret(three.config / "operator.token"),
                }
                line = ("approvals", "accept-loss", "bot-1", "--reason", "prod has the deploy")
                assert "Accepted by" in await run(tmp_path, *line, **access)
                assert "did not diverge" in await run(tmp_path, *line, code=1, **access)
                client = two.agent()
                gate = await until(lambda: resumed(client))
                assert (await gate.call("test", {}, call_id="t2")).outcome == "allow"
                async with two.console() as console:
                    lines = [headline(each) for each in await console.recorded("bot-1")]
                    await until(lambda: is_live_at_own_server(console))
                [accepted] = [each for each in lines if each.startswith("loss.accepted")]
                assert "acknowledged and lost by the database: prod has the deploy" in accepted
                assert not any("d1" in each for each in lines)
                await client.close()
                await run(tmp_path, "history", "verify", "bot-1", **shared)
                code, said = await two.ended()
                assert code == 0
                assert said.count("Session 'bot-1' diverged") == 1

    async def test_are_detected_by_a_server_that_only_followed(
        self, tmp_path: Path, shared: dict[str, str], pair: Pair
    ) -> None:
        """Another server, which only followed the session, detects the loss."""
        async with serving(tmp_path, *LINE, **shared) as one, serving(tmp_path, *LINE, **shared) as two:
            await lose_a_deploy(pair, one)
            async with two.console() as console:
                await until(lambda: has_deploy_call(console))
                one.process.send_signal(signal.SIGSTOP)
                await asyncio.to_thread(pair.fail_over)
                one.process.send_signal(signal.SIGKILL)
                await until(lambda: is_shown_as_diverged(console))
            await until(lambda: has_ended(pair, 1))
            assert "Session 'bot-1' diverged: event" in await refusal_of(two)
            rest = rows(pair.other, "SELECT status FROM session WHERE id = 'bot-1'")
            assert rest == [("diverged",)]

    async def test_block_the_hooks_of_a_coding_agent(
        self, tmp_path: Path, shared: dict[str, str], pair: Pair
    ) -> None:
        """The hook blocks and gives the reason at both servers; another session continues."""
        async with serving(tmp_path, *LINE, **shared) as one, serving(tmp_path, *LINE, **shared) as two:
            client = one.agent()
            other = await client.open("bot", session="bot-2")
            assert (await run_hook(tmp_path, one, "h1")).code == 0
            await until(lambda: asyncio.to_thread(pair.caught_up))
            await asyncio.to_thread(pair.cut_off)
            assert (await run_hook(tmp_path, one, "h2")).code == 0
            await asyncio.to_thread(pair.fail_over)
            for server in (one, two):
                for number in range(60):
                    found = await run_hook(tmp_path, server, f"{server.where} {number}")
                    assert found.code == 2, found
                    if "diverged: event" in found.err:
                        break
                else:
                    raise AssertionError(found.err)
            assert (await other.call("test", {})).outcome == "allow"
            await client.close()


async def run_hook(directory: Path, server: Running, call: str) -> Ran:
    """Run a coding agent's hook for a call at a server."""
    secret = read_secret(server.config / "agent.token")
    url = f"ws://{server.where}"
    hook = Hook.at(directory / "hook", INTERLOCK_URL=url, INTERLOCK_TOKEN=secret)
    return await hook.run(recorded("pre_bash", tool_name="deploy", tool_use_id=call))


async def has_ended(pair: Pair, living: int) -> bool:
    """Tell whether the database lists exactly this number of living servers."""
    statement = "SELECT count(*) FROM server WHERE ended IS NULL"
    return (await asyncio.to_thread(rows, pair.other, statement)) == [(living,)]


async def has_deploy_call(console: ConsoleClient) -> bool:
    return any("d1" in each.calls for each in await console.sessions())


async def is_live_at_own_server(console: ConsoleClient) -> bool:
    """Tell whether the session is live at the console's own server, in the state of its record."""
    found = {each.id: each for each in await console.sessions()}
    return "bot-1" in found and "t2" in found["bot-1"].calls and console.server_of("bot-1") is None


async def resumed(client: AgentClient) -> AgentSession | None:
    """Resume the session; return None if the server refuses."""
    try:
        return await client.resume("bot-1")
    except GatewayError:
        await asyncio.sleep(0.2)
        return None
