"""Builds a session from an `AgentSpec`: compiles rules, creates tools and runtime, imports the agent."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

from ...engine.agents import (
    Agent,
    AgentError,
    AgentSettings,
    JustBashRuntime,
    LitellmModel,
    LocalRuntime,
    Model,
    Runtime,
    SandboxRuntime,
    Tool,
    VercelSandboxRuntime,
)
from ...engine.agents.models.model_url import parse_model_name
from ...engine.agents.runtime import just_bash, vercel
from ...engine.agents.turn.spending import not_kept, unpriced
from ...engine.history.model.records import AppliedRules
from ...engine.hub.hub import Hub, SessionConfig
from ...engine.net.net import NetError
from ...rules import RuleError, RuleSet
from ...rules.library import LIBRARY
from ..config.rule_texts import RuleTexts
from .imports import ImportFailedError, failure_position, import_object
from .spec import AgentSpec, AgentSpecError, JustBashOptions, LocalOptions, SandboxOptions, VercelOptions
from .tools import Subagent, clashes, named_model, named_tools, prepare_subagents

# The runtime of a spec, created if its requirements are met.


Options = LocalOptions | SandboxOptions | JustBashOptions | VercelOptions


class RuntimeOptionsError(ValueError):
    """A runtime that cannot be created; the message names the option and the remedy."""


def make_runtime(options: Options, secrets: Collection[str] = ()) -> Runtime:
    """Create the runtime of `options`; commands see the variables `secrets` only if `env` names them.

    Raises `RuntimeOptionsError` for missing directories and variables, and the runtime's own errors for
    missing requirements (`AgentRuntimeError`, `ValueError`).
    """
    match options:
        case LocalOptions(workdir=workdir):
            directory = _directory("workdir", workdir)
            return LocalRuntime(directory, env=_variables(options.env), secrets=secrets)
        case SandboxOptions(workdir=workdir):
            for path in (*options.read_only, *options.writable):
                if not path.exists():
                    raise RuntimeOptionsError(
                        f"runtime: the sandbox cannot let in {path}: it does not exist"
                    )
            return SandboxRuntime(
                _directory("workdir", workdir),
                network=options.network,
                read_only=options.read_only,
                writable=options.writable,
                env=_variables(options.env),
            )
        case JustBashOptions(workdir=inside):
            return JustBashRuntime(
                inside or just_bash.DIRECTORY, files=options.files, env=_variables(options.env)
            )
        case VercelOptions(workdir=inside):
            # The runtime itself would detect this only when first used, too late for a remedy.
            if find_spec("vercel") is None:
                raise RuntimeOptionsError("runtime: vercel is not installed: pip install vercel")
            return VercelSandboxRuntime(
                inside or vercel.DIRECTORY, time_limit=options.time_limit, env=_variables(options.env)
            )


def _directory(option: str, path: Path | None) -> Path:
    directory = path or Path.cwd()
    if not directory.is_dir():
        raise RuntimeOptionsError(f"{option}: {directory} is not a directory")
    return directory


def _variables(names: tuple[str, ...]) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise RuntimeOptionsError(f"runtime.env: not set in the environment: {', '.join(missing)}")
    return {name: os.environ[name] for name in names}


NO_RULES = (
    "no rules were given; name at least one file with --rules "
    "(an empty file lets everything through, and says so)"
)
NO_MODEL = "no model was given; name one with --model, e.g. --model openai/gpt-4o"
DEFAULT_TOOLS = ("bash",)

Make: TypeAlias = Callable[[], Awaitable[object]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prepared:
    """An agent that can be hosted: all possible checks have passed.

    `source` is the agent, or the async function that creates it in the event loop in which it will run.
    `texts` are those of its rules files. `server_files` are the server's among them at the time of
    preparation, and `applied` says who replaced these.
    """

    spec: AgentSpec
    rules: RuleSet
    source: Agent | Make
    parts: _Parts
    texts: RuleTexts
    server_files: frozenset[Path] = frozenset()
    applied: AppliedRules | None = None

    async def agent(self) -> Agent:
        """Return the agent to host; call this once.

        Raises `AgentSpecError` if the module's function fails.
        """
        if isinstance(self.source, Agent):
            return self.parts.put_into(self.source)
        try:
            found = await self.source()
        except (Exception, SystemExit) as error:
            raise _import_failure(self.spec, error) from error
        agent = _as_agent(self.spec, found)
        if problems := _agent_problems(self.spec, agent):
            raise AgentSpecError(problems)
        agent = self.parts.put_into(agent)
        if problems := await asyncio.to_thread(self.parts.unpriced, agent):
            raise AgentSpecError(problems)
        return agent

    async def open(self, hub: Hub, *, by: str) -> str:
        """Open the session on `hub`; return its id.

        Raises the errors of `agent` and `Hub.open_session`.
        """
        return await hub.open_session(await self.agent(), self.config(by))

    def config(self, by: str) -> SessionConfig:
        """Return the configuration of a new session of the agent, opened by the operator `by`."""
        spec = self.spec
        return SessionConfig(
            self.rules.registry,
            active=spec.active,
            mode=spec.mode,
            by=by,
            labels=spec.labels,
            explain_blocks=spec.explain_blocks,
            source=spec.model_dump(mode="json"),
            applied=self.applied,
        )


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts of an agent that the spec sets; `None` leaves an imported agent's part unchanged."""

    spec: AgentSpec
    model: Model | None
    tools: tuple[Tool, ...] | None
    runtime: Runtime | None
    subagents: tuple[Subagent, ...]

    def put_into(self, base: Agent) -> Agent:
        """Return `base` with the spec's parts, otherwise unchanged."""
        spec = self.spec
        settings = {
            "runtime": self.runtime,
            "name": spec.name,
            "system_prompt": spec.system_prompt,
            "send_mode": spec.send_mode,
            "tell_rules": spec.tell_rules,
            **dict(spec.limits),
        }
        changes = cast(
            "AgentSettings", {name: value for name, value in settings.items() if value is not None}
        )
        if self.tools is not None or self.subagents:
            tools = base.tools if self.tools is None else self.tools
            model, runtime = self.model or base.model, self.runtime or base.runtime
            tell = base.tell_rules if spec.tell_rules is None else spec.tell_rules
            helpers = (each.as_tool(model, runtime, tell_rules=tell) for each in self.subagents)
            changes["tools"] = (*tools, *helpers)
        if self.model is None and not changes:
            return base
        return base.replace(model=self.model, **changes)

    def unpriced(self, agent: Agent) -> list[str]:
        """Return a problem for each model, of the agent or a subagent, whose cost cannot be limited.

        May take seconds: with a limit, a price list is imported.
        """
        problems: list[str] = []
        if agent.max_cost is not None and (reason := unpriced(agent.model)) is not None:
            problems.append(not_kept(reason))
        for each in self.subagents:
            limited = agent.max_cost is not None or each.spec.limits.max_cost is not None
            model = each.model or (None if agent.max_cost is not None else agent.model)
            if limited and model is not None and (reason := unpriced(model)) is not None:
                problems.append(f"subagents.{each.name}: {not_kept(reason)}")
        return problems


def prepare(spec: AgentSpec, texts: RuleTexts | None = None) -> Prepared:
    """Check and create everything needed to host `spec`, except what an async function creates.

    Rules files in `texts` are used as they were read then. Code that the spec names is imported and, if
    it creates the agent, called. Raises `AgentSpecError` with every problem; its cause is that of the
    first.
    """
    problems: list[str] = []
    causes: list[BaseException] = []
    texts = (texts or RuleTexts()).with_files(spec.rules)

    def attempt(make: Callable[[], T]) -> T | None:
        try:
            return make()
        except (AgentSpecError, ImportFailedError, RuntimeOptionsError, RuleError, AgentError) as error:
            problems.extend(error.problems if isinstance(error, AgentSpecError) else [str(error)])
            causes.append(error)
        except (NetError, TypeError, ValueError) as error:
            problems.append(str(error))
            causes.append(error)
        return None

    agent = attempt(lambda: _imported_agent(spec)) if spec.agent is not None else None
    if isinstance(agent, Agent):
        problems += _agent_problems(spec, agent)
    rules = attempt(lambda: _rules(spec, agent, texts))
    model = attempt(lambda: _model(spec))
    tools = attempt(lambda: _tools(spec))
    subagents = attempt(lambda: prepare_subagents(spec))
    runtime = attempt(
        lambda: None if spec.runtime is None else make_runtime(spec.runtime, _key_variables(spec))
    )
    if problems or rules is None:
        raise AgentSpecError(problems) from (causes[0] if causes else None)
    parts = _Parts(spec, model, tools, runtime, subagents or ())
    if agent is None:
        assert model is not None
        agent = Agent(model, tools=tools or ())
    if isinstance(agent, Agent) and (problems := parts.unpriced(parts.put_into(agent))):
        raise AgentSpecError(problems)
    return Prepared(spec, rules, agent, parts, texts)


def _rules(spec: AgentSpec, agent: object, texts: RuleTexts) -> RuleSet:
    if not spec.rules:
        if isinstance(agent, Agent) and agent.gate is not None:
            raise AgentSpecError(
                [
                    f"{spec.agent} has a gate of its own, but the console makes its own from "
                    "rules files: write the agent's rules to a file and name that with --rules"
                ]
            )
        raise AgentSpecError([NO_RULES])
    rules = texts.compile(*map(shown_path, spec.rules))
    unknown = [name for name in spec.active or () if name not in rules.registry]
    if unknown:
        available = ", ".join(rules.registry) or "none"
        raise AgentSpecError(
            [f"active: unknown net{'s' * (len(unknown) > 1)} {', '.join(unknown)}; known: {available}"]
        )
    return rules


def shown_path(path: Path) -> Path:
    """Return a rules file's path as shown in problems: relative if below the working directory."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) and path.parent != LIBRARY else path


def _model(spec: AgentSpec) -> Model | None:
    if spec.model is None:
        if spec.agent is None:
            raise AgentSpecError([NO_MODEL])
        if spec.api_base is not None:
            raise AgentSpecError(
                [f"--api-base: {spec.agent} has its own model; name another with --model"]
            )
    return named_model(spec.model, spec.api_base)


def _key_variables(spec: AgentSpec) -> set[str]:
    """Return the environment variables that the models' URLs name for their keys."""
    models = (spec.model, *(each.model for each in spec.subagents.values()))
    return {key for model in models if model and (key := parse_model_name(model).key_env)}


def _tools(spec: AgentSpec) -> tuple[Tool, ...] | None:
    if spec.tools is None and spec.agent is not None:
        return None
    names = DEFAULT_TOOLS if spec.tools is None else spec.tools
    problems = clashes(spec, names)
    tools: tuple[Tool, ...] = ()
    try:
        others = [name for name in names if not clashes(spec, [name])]
        tools = named_tools(others, spec.import_from, private=spec.web_fetch.private)
    except AgentSpecError as error:
        problems.extend(error.problems)
    problems.extend(clashes(spec, (tool.name for tool in tools)))
    if problems:
        raise AgentSpecError(problems)
    return tools


def _imported_agent(spec: AgentSpec) -> Agent | Make:
    assert spec.agent is not None
    thing = import_object(spec.agent, spec.import_from)
    if callable(thing) and not isinstance(thing, Agent):
        _check_callable(spec.agent, thing)
        if inspect.iscoroutinefunction(thing):
            return thing
        try:
            thing = thing()
        except (Exception, SystemExit) as error:
            raise _import_failure(spec, error) from error
    return _as_agent(spec, thing)


def _check_callable(name: str, thing: Callable[..., object]) -> None:
    try:
        inspect.signature(thing).bind()
    except (TypeError, ValueError) as error:
        raise ImportFailedError(
            f"{name}: expected a function that needs no arguments: {error}"
        ) from error


def _as_agent(spec: AgentSpec, thing: object) -> Agent:
    if isinstance(thing, Agent):
        return thing
    found = type(thing).__name__
    raise AgentSpecError(
        [f"{spec.agent}: expected an Agent, or a function that returns one, found {found}"]
    )


def _agent_problems(spec: AgentSpec, agent: Agent) -> list[str]:
    """Return a problem for each part of an imported agent that cannot run, or that the spec weakens."""
    problems: list[str] = []
    if spec.model is None and isinstance(agent.model, LitellmModel):
        try:
            agent.model.check_environment()
        except AgentError as error:
            problems.append(str(error))
    if spec.tools is None:
        problems += clashes(spec, (tool.name for tool in agent.tools))
    if isinstance(spec.runtime, LocalOptions) and not isinstance(agent.runtime, LocalRuntime):
        problems.append(
            f"workdir: {spec.agent} has a {type(agent.runtime).__name__}, and tools would run "
            "on this machine itself instead; change it there, or choose one with --runtime"
        )
    return problems


def _import_failure(spec: AgentSpec, error: BaseException) -> AgentSpecError:
    return AgentSpecError([f"{spec.agent}: {failure_position(error, spec.import_from)}"])
