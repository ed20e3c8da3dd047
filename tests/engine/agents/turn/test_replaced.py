"""A copy of an agent with other settings."""

from __future__ import annotations

import inspect

import pytest

from interlock.engine.agents import (
    Agent,
    AgentSettings,
    DuplicateToolError,
    FakeRuntime,
    Hooks,
    InMemorySessionStore,
    ScriptedModel,
    T,
)

from ..gates import Log
from ..script import noted


def other_settings() -> dict[str, object]:
    """Return a value other than the default for every setting."""
    return {
        "system_prompt": "Be kind.",
        "tools": [noted([])],
        "runtime": FakeRuntime(),
        "store": InMemorySessionStore(),
        "max_steps": 7,
        "max_cost": 2.5,
        "compact_at": 90_000,
        "send_mode": "queue",
        "follow_up": "all",
        "tell_rules": False,
        "gate": Log(),
        "hooks": [Hooks(), Hooks(before_stop=print)],
        "name": "bot",
    }


def settings(agent: Agent) -> dict[str, object]:
    return {name: getattr(agent, name) for name in AgentSettings.__annotations__}


class TestReplaced:
    def test_every_parameter_is_a_setting(self) -> None:
        """A-1: every parameter of an agent is a setting that can be replaced."""
        parameters = set(inspect.signature(Agent.__init__).parameters) - {"self", "model"}
        assert parameters == set(AgentSettings.__annotations__) == set(other_settings())

    def test_copy_without_changes(self) -> None:
        """A-1: without a change the copy has the same settings, but is another agent."""
        agent = Agent(ScriptedModel([]), **other_settings())
        copied = agent.replace()
        assert copied is not agent
        assert copied.model is agent.model
        assert settings(copied) == settings(agent)

    @pytest.mark.parametrize("name", sorted(other_settings()))
    def test_only_the_named_setting_changes(self, name: str) -> None:
        """A-1: only the named setting changes, and the original agent stays unchanged."""
        agent = Agent(ScriptedModel([]), name="plain")
        before = settings(agent)
        changed = settings(agent.replace(**{name: other_settings()[name]}))
        wanted = other_settings()[name]
        given = changed.pop(name)
        if name in ("tools", "hooks"):
            assert len(given) == len(wanted)
        else:
            assert type(given) is type(wanted)
        assert changed == {key: value for key, value in before.items() if key != name}
        assert settings(agent) == before

    def test_settings_can_be_removed(self) -> None:
        """A-1: a prompt, a gate and a limit can be removed."""
        agent = Agent(ScriptedModel([]), **other_settings()).replace(
            system_prompt=None, gate=None, max_cost=None
        )
        assert (agent.system_prompt, agent.gate, agent.max_cost) == (None, None, None)

    def test_model_can_be_replaced(self) -> None:
        """A-1: the model can be replaced, by name or as an object."""
        agent = Agent(ScriptedModel([]))
        other = ScriptedModel([])
        assert agent.replace(model=other).model is other
        assert agent.replace(model="openai/gpt-4o").model.name == "openai/gpt-4o"

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({"max_steps": 0}, ValueError),
            ({"max_cost": 0}, ValueError),
            ({"max_cost": float("nan")}, ValueError),
            ({"max_cost": -1.0}, ValueError),
            ({"send_mode": "shout"}, ValueError),
            ({"hooks": [print]}, TypeError),
            ({"tools": [noted([]), noted([])]}, DuplicateToolError),
            ({"colour": "red"}, TypeError),
        ],
    )
    def test_copy_is_validated(self, change: dict[str, object], error: type[Exception]) -> None:
        """A-61: the copy is validated like a new agent."""
        with pytest.raises(error):
            Agent(ScriptedModel([])).replace(**change)

    async def test_subclass_attributes_are_kept(self) -> None:
        """A-1: attributes of a subclass are kept, and its constructor need not accept the settings."""

        class Named(Agent):
            def __init__(self, nickname: str) -> None:
                super().__init__(ScriptedModel([T("hi")]))
                self.nickname = nickname

        copied = Named("rex").replace(max_steps=3)
        assert isinstance(copied, Named)
        assert (copied.nickname, copied.max_steps) == ("rex", 3)
        assert await (await copied.create_session()).prompt("go") == "hi"
