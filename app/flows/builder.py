"""Builds a runnable flow from a `FlowSpec`: imports the class, checks graph, models, rules and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from ...engine.agents import AgentError, LitellmModel
from ...engine.agents.errors import describe
from ...engine.flows import BuildError, Context, Flow, FlowGraph, RunLimits
from ...engine.flows.build.nodes import AgentWork, label
from ...engine.history.model.records import AppliedRules
from ...engine.net.net import NetError
from ...rules import RuleError, RuleSet, compile_rules
from ..agents.builder import shown_path
from ..agents.imports import ImportFailedError, failure_position, import_object
from ..config.rule_texts import RuleTexts
from .spec import FlowSpec, FlowSpecError

NO_RULES = (
    "its agents call tools, and no rules were given; name at least one file with --rules "
    "(an empty file lets everything through, and says so)"
)

DEPS = "a mapping from types to what they are, as {Clock: SystemClock()}"

Check: TypeAlias = Callable[[FlowGraph[Any, Any]], object]
"""An additional check of the graph; raises `FlowSpecError`."""


@dataclass(frozen=True, slots=True)
class PreparedFlow:
    """A flow that has passed all checks; `applied` says who replaced the rules of its server."""

    spec: FlowSpec
    flow: type[Flow[Any, Any]]
    graph: FlowGraph[Any, Any]
    rules: RuleSet
    deps: Mapping[type, object]
    applied: AppliedRules | None = None

    @property
    def context(self) -> Context:
        """Context for the flow's functions and tools."""
        return Context(working_dir=self.spec.workdir, commands=self.spec.commands, deps=self.deps)

    @property
    def limits(self) -> RunLimits:
        """Limits that this host sets for a run."""
        limits = self.spec.limits
        return RunLimits(limits.max_steps, limits.max_turns, limits.max_seconds)


def flow_class(name: str, directories: tuple[Path, ...]) -> type[Flow[Any, Any]]:
    """Import the class called `package.module:FlowClass`. Raises `FlowSpecError`."""
    try:
        found = import_object(name, directories)
    except ImportFailedError as error:
        raise FlowSpecError([str(error)]) from error
    if isinstance(found, type) and issubclass(found, Flow):
        return cast("type[Flow[Any, Any]]", found)
    kind = found.__name__ if isinstance(found, type) else type(found).__name__
    raise FlowSpecError(
        [
            f"{name}: expected a flow, found {kind}; "
            f"write class {name.partition(':')[2]}(Flow[Input, Output])"
        ]
    )


def flow_graph(
    name: str, flow: type[Flow[Any, Any]], directories: tuple[Path, ...]
) -> FlowGraph[Any, Any]:
    """Build and check the flow's graph. Raises `FlowSpecError` with every problem of its `build`."""
    try:
        graph = flow.graph()
        graph.check_output()
    except BuildError as error:
        raise FlowSpecError([f"{name}: {problem}" for problem in error.problems]) from error
    except (Exception, SystemExit) as error:
        raise FlowSpecError([f"{name}: build failed: {failure_position(error, directories)}"]) from error
    return graph


def flow_deps(
    name: str, flow: type[Flow[Any, Any]], directories: tuple[Path, ...]
) -> Mapping[type, object]:
    """Return the dependencies of the flow's functions and tools, by type. Raises `FlowSpecError`."""
    try:
        deps = cast("object", flow.deps())
    except (Exception, SystemExit) as error:
        raise FlowSpecError([f"{name}: deps failed: {failure_position(error, directories)}"]) from error
    if not isinstance(deps, Mapping):
        raise FlowSpecError([f"{name}: deps returned {type(deps).__name__}, expected {DEPS}"])
    found = cast("Mapping[object, object]", deps)
    invalid = [key for key in found if not isinstance(key, type)]
    if invalid:
        raise FlowSpecError([f"{name}: deps has the key {invalid[0]!r:.80}, expected {DEPS}"])
    return cast("Mapping[type, object]", found)


def prepare_flow(
    spec: FlowSpec, checks: Iterable[Check] = (), texts: RuleTexts | None = None
) -> PreparedFlow:
    """Check and create everything needed to run `spec`. Raises `FlowSpecError` with every problem.

    These include the problems found by `checks`, if there is a graph. Rules files in `texts` are used as
    they were read then.
    """
    flow = flow_class(spec.flow, spec.import_from)
    problems: list[str] = []
    rules, graph = compile_rules(""), None
    try:
        graph = flow_graph(spec.flow, flow, spec.import_from)
    except FlowSpecError as error:
        problems += error.problems
    if graph is not None:
        problems += _models(graph)
        for check in checks:
            try:
                check(graph)
            except FlowSpecError as error:
                problems += error.problems
    try:
        if spec.rules:
            rules = (texts or RuleTexts()).compile(*map(shown_path, spec.rules))
        elif graph is not None and _calls_tools(graph):
            problems.append(f"{spec.flow}: {NO_RULES}")
    except (RuleError, NetError) as error:
        problems.append(str(error))
    if not spec.workdir.is_dir():
        problems.append(f"--workdir: there is no directory '{spec.workdir}'")
    if problems or graph is None:
        raise FlowSpecError(problems)
    # Created last: a run that cannot start must not open connections.
    deps = flow_deps(spec.flow, flow, spec.import_from)
    return PreparedFlow(spec, flow, graph, rules, deps)


def _calls_tools(graph: FlowGraph[Any, Any]) -> bool:
    """Return whether an agent of the flow has tools, or chooses them only at run time."""
    agents = [node.node for node in graph.distinct if isinstance(node, AgentWork)]
    return any(agent.config is None or agent.config.tools for agent in agents)


def _models(graph: FlowGraph[Any, Any]) -> Iterator[str]:
    """Yield a problem for each model that cannot be called: unknown provider, or missing key."""
    for node in graph.distinct:
        config = node.node.config if isinstance(node, AgentWork) else None
        if config is not None and isinstance(config.model, str):
            try:
                LitellmModel(config.model).check_environment()
            except (AgentError, ValueError) as error:
                yield f"{label(node)}: {describe(error)}"
