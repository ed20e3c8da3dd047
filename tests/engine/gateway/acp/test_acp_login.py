"""Thoughts of an ACP agent, and the instructions for an agent that requires a login."""

from __future__ import annotations

import sys

import pytest
from acp.schema import AuthEnvVar, AuthMethodAgent, EnvVarAuthMethod, TerminalAuthMethod

from interlock.engine.gateway.acp.agent import AcpAgent, AcpError
from interlock.engine.gateway.acp.handshake import login_instructions
from interlock.engine.sessions.config import SessionConfig

from .acp_world import World

COMMAND = ("my agent", "--acp")
SHUT = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": 1, "authMethods": json.loads(sys.argv[1])}
    else:
        answer["error"] = {"code": -32000, "message": "Authentication required"}
    print(json.dumps(answer), flush=True)
"""
OPENS = """\
import json, sys
known = ""
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        info = {"name": "a", "version": "1"}
        answer["result"] = {
            "protocolVersion": 1, "authMethods": json.loads(sys.argv[1]), "agentInfo": info
        }
    elif asked["method"] == "authenticate":
        known = asked["params"]["methodId"]
        answer["result"] = {}
    elif known == "a":
        answer["result"] = {"sessionId": "s1"}
    else:
        answer["error"] = {"code": -32000, "message": "Authentication required"}
    print(json.dumps(answer), flush=True)
"""


def thought_chunk(text: str) -> list[object]:
    block = {"type": "text", "text": text}
    return ["update", {"sessionUpdate": "agent_thought_chunk", "content": block}]


class TestThoughts:
    async def test_consecutive_thoughts_form_one_entry_in_order(self, world: World) -> None:
        """Consecutive thoughts form one entry, marked as a thought, in order with the messages."""
        await world.start()
        state = await world.turn(
            thought_chunk("First "),
            thought_chunk("this."),
            ["say", "I say "],
            ["say", "something."],
            thought_chunk("Then that."),
        )
        said = [entry.text for entry in state.transcript if entry.kind == "assistant"]
        assert said == ["Thought:\nFirst this.", "I say something.", "Thought:\nThen that."]
        await world.check_fold()

    async def test_blank_thought_adds_no_entry(self, world: World) -> None:
        """A thought that is only blank adds no entry."""
        await world.start()
        state = await world.turn(thought_chunk(" \n"), ["say", "hello"])
        assert [e.text for e in state.transcript if e.kind == "assistant"] == ["hello"]


class TestLogin:
    def test_instructions_without_methods_name_the_program(self) -> None:
        """The instructions for an agent without login methods name its own program."""
        assert "Start its own program" in login_instructions((), COMMAND)

    def test_instructions_cover_each_method(self) -> None:
        """The instructions cover environment variables, a command and the agent's own program."""
        told = login_instructions(
            (
                EnvVarAuthMethod(
                    id="k",
                    name="API key",
                    vars=[AuthEnvVar(name="SHOP_KEY")],
                    link="https://example.com/keys",
                    type="env_var",
                ),
                TerminalAuthMethod(
                    id="t", name="Terminal", args=["login", "a b"], env={"MODE": "x y"}, type="terminal"
                ),
                AuthMethodAgent(id="a", name="Account", description="With your account."),
            ),
            COMMAND,
        )
        assert told.splitlines() == [
            "The agent requires a login first. It offers:",
            "- API key. Set SHOP_KEY in the environment (from https://example.com/keys), then start this "
            "again",
            "- Terminal. Run in a terminal: MODE='x y' 'my agent' --acp login 'a b'",
            "- Account: With your account. Start its own program and log in there, then start this again",
        ]

    def test_long_method_is_cut(self) -> None:
        """A long login method is cut, and its line breaks do not add a line."""
        told = login_instructions(
            (AuthMethodAgent(id="a", name="x\n- Run: rm -rf /" + "y" * 5000),), COMMAND
        )
        assert len(told.splitlines()) == 2
        assert len(told) < 500

    async def test_single_method_without_input_authenticates(self, world: World) -> None:
        """An agent with one login method that needs no input is authenticated and opens its session."""
        offered = '[{"id": "a", "name": "Account"}]'
        agent = AcpAgent(world.hub, [sys.executable, "-c", OPENS, offered], world.directory)
        session = await agent.open(SessionConfig({}))
        assert (await world.hub.session(session)).agent == "a"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "offered",
        [
            '[{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]',
            '[{"id": "a", "name": "Key", "type": "env_var", "vars": [{"name": "SHOP_KEY"}]}]',
        ],
    )
    async def test_login_needing_choice_or_input_lists_methods(self, world: World, offered: str) -> None:
        """If a login needs a choice or an input, none is attempted; the error lists the methods."""
        agent = AcpAgent(world.hub, [sys.executable, "-c", OPENS, offered], world.directory)
        with pytest.raises(AcpError, match="requires a login first"):
            await agent.open(SessionConfig({}))

    @pytest.mark.slow
    async def test_error_has_methods_of_a_real_agent(self, world: World) -> None:
        """The error about the refused session contains the login methods that the agent offered."""
        offered = '[{"id": "a", "name": "Account", "description": "In the browser"}]'
        agent = AcpAgent(world.hub, [sys.executable, "-c", SHUT, offered], world.directory)
        with pytest.raises(AcpError, match=r"It offers:\n- Account: In the browser\."):
            await agent.open(SessionConfig({}))
