"""What the tools of a flow's agents wish for: one that wants to be approved is, whatever the rules say.

Tools that an agent is given only in a run, by its `configure`, nobody knows beforehand. One net stands
for all of them: it asks a person about each call whose tool wants that, or of whose tool it was not told.
Where a rule's condition is on paths, it cannot tell what the rule will do: then both ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .agents import Tool
from .agents.tool import wants_approval
from .flows import Graph
from .flows.nodes import Agent
from .hints import asked_anyway, asked_when, hinted, stands_in, with_wishes
from .net import NetError, SkillNet, ToolCall, Transition, define_skill_net
from .records import json_input

KEY = "approve-when-a-tool-asks"
ASKING = "a tool that wants approval"


class Wishes:
    """See the module. `nets` are those of the rules, and with them those that the wishes make.

    Raises `NetError` where a rule has the name of the one net.
    """

    def __init__(self, graph: Graph, rules: Mapping[str, SkillNet]) -> None:
        agents = [node.node for node in graph.distinct if isinstance(node, Agent)]
        known = [tool for agent in agents if agent.config for tool in agent.config.tools]
        self._rules = rules
        self._offered: dict[str, Tool] = {}
        # Of two tools of one name, the net of that name has the wish of the first.
        self._first: dict[str, Tool] = {}
        wishing = [tool for tool in known if getattr(tool, "needs_approval", False)]
        for tool in wishing:
            self._first.setdefault(tool.name, tool)
        self.nets = with_wishes(rules, self._first.values())
        if any(agent.configures() for agent in agents) or not all(map(self._has_net, wishing)):
            if KEY in self.nets:
                raise NetError(f"net '{KEY}' is the hub's own: give the rule of this name another")
            self.nets[KEY] = self._net()

    def active(self, chosen: Sequence[str] | None) -> Sequence[str] | None:
        """The nets that are active at first: those `chosen` of the rules, and all that come of wishes."""
        return None if chosen is None else (*chosen, *hinted(self._rules, self.nets))

    def offered(self, tools: Sequence[Tool]) -> None:
        """These are the tools of the agent that has the word."""
        self._offered = {tool.name: tool for tool in tools}

    def _has_net(self, tool: Tool) -> bool:
        return stands_in(self._rules, tool.name) or self._first.get(tool.name) is tool

    def _asks(self, call: ToolCall) -> bool:
        tool = self._offered.get(call.tool_name)
        if tool is None:
            return True
        if self._has_net(tool) or not wants_approval(tool, json_input(call.input)):
            return False
        return not asked_anyway(asked_when(self._rules, tool.name), call)

    def _names(self, call: ToolCall) -> tuple[str, ...]:
        return (ASKING, call.tool_name) if self._asks(call) else (call.tool_name,)

    def _net(self) -> SkillNet:
        return define_skill_net(
            KEY,
            places=("ready",),
            transitions=(Transition("approve", ("ready",), ("ready",), (ASKING,), type="manual"),),
            initial_marking={"ready": 1},
            call_names=self._names,
        )
