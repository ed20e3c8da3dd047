"""The notice to the model about an operator's edit of its call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agents import C, T
from interlock.engine.gate.edit_notice import describe_edit
from interlock.engine.history.model.events import ApprovalRequested, CallResult
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ..support.shop import Shop, bodies, bot, prompt, until

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
INPUTS = st.dictionaries(st.text(min_size=1, max_size=8), JSON, max_size=4)


class TestSentence:
    @pytest.mark.parametrize(
        ("before", "after", "said"),
        [
            ({"env": "prod"}, {"env": "staging"}, 'A person changed env from "prod" to "staging"'),
            ({"n": 1, "x": 2}, {"n": True}, "A person changed n from 1 to true and removed x"),
            ({"n": 1}, {"n": 1, "dry": True}, "A person added dry: true"),
            ({"n": 1}, {"n": 1}, None),
        ],
    )
    def test_each_change_is_named(self, before: dict, after: dict, said: str | None) -> None:
        """Section 1: fields are named and values are JSON, so that 1, 1.0 and true differ."""
        assert describe_edit(before, after) == said

    def test_long_value_shows_only_the_change(self) -> None:
        """For a long value, only the change and a little around it are shown."""
        script = "".join(f"echo {n}\n" for n in range(500))
        said = describe_edit({"c": script}, {"c": script.replace("echo 250\n", "echo two\n")})
        assert said is not None
        assert "echo 250" in said
        assert "echo two" in said
        assert len(said) < 250

    @pytest.mark.slow
    @given(before=INPUTS, after=INPUTS)
    def test_notice_stays_short(self, before: dict, after: dict) -> None:
        """For any edit, the notice is short."""
        said = describe_edit(before, after)
        assert said is None or len(said) < 40 + len(before | after) * 520


class TestTold:
    async def run(
        self, hub: Hub, rules: str, edited: dict[str, object] | None, *, refused: bool = False
    ) -> list[str]:
        """Approve a deploy, with an edit if given, and return the messages the model reads next."""
        shop = Shop()
        agent = bot(shop, C(c1=("deploy", {"env": "prod"})), T("done"))
        session = await hub.open_session(agent, SessionConfig(compile_rules(rules).registry))
        events = hub.subscribe()
        await hub.send(session, "go", by="maria")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        outcome = await hub.decide(request.id, approved=True, by="jo", input=edited)
        assert outcome.ok is not refused
        if refused:
            assert "Change something" in outcome.message
            assert (await hub.decide(request.id, approved=True, by="jo")).ok
        await hub.wait(session)
        self.results = bodies(hub, session, CallResult)
        return prompt(agent, 1)

    async def test_result_begins_with_the_edit(self, hub: Hub) -> None:
        """Section 1: the edited call runs, and its result begins with the edit."""
        read = await self.run(hub, "require human-approval before deploy", {"env": "staging"})
        told = 'A person changed env from "prod" to "staging" before it ran.'
        assert read[-1] == f"tool: {told}\ndeploy staging ok"
        assert [r.output for r in self.results] == ["deploy staging ok"]

    async def test_no_notice_without_a_change(self, hub: Hub) -> None:
        """An approval without an edit adds no notice; an edit without a change is refused."""
        rules = "require human-approval before deploy"
        read = await self.run(hub, rules, {"env": "prod"}, refused=True)
        assert read[-1] == "tool: deploy prod ok"

    async def test_notice_precedes_reason_of_blocked_edit(self, hub: Hub) -> None:
        """If another rule blocks the edited call, the notice precedes the reason."""
        rules = 'require human-approval before deploy\nblock deploy when input.env = "moon"'
        read = await self.run(hub, rules, {"env": "moon"})
        assert read[-1].startswith('tool: A person changed env from "prod" to "moon". deploy')
