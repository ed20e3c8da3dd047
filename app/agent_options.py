"""From `interlock run [AGENT] [OPTIONS] [TASK]` to an `AgentSpec`.

What was typed, or set in the environment, beats the agent file. A configuration file only fills what the
agent leaves open: it is about the directory, the agent file about this agent.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from .agent_faults import Keys, describe_errors, dotted
from .agent_file import load_agent_file
from .agent_spec import BASE, HERE, AgentSpec, AgentSpecError
from .setting_paths import is_table

_OPTIONS = {
    "limits.max_steps": "--max-steps",
    "limits.max_cost": "--max-cost",
    "runtime.kind": "--runtime",
}


def from_command_line(
    args: argparse.Namespace,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> AgentSpec:
    """The agent that `args` of `interlock run` ask for, settings applied.

    `args.typed` has the names of the options that were on the command line, `args.target` an agent file
    or `package.module:name`, or nothing. Raises `AgentSpecError`.
    """
    here = directory or Path.cwd()
    said = _Said(args, os.environ if environ is None else environ)
    base: dict[str, object] = {}
    if args.target is not None and args.target.endswith(".toml"):
        base = load_agent_file((directory or Path()) / args.target).model_dump(exclude_unset=True)
    elif args.target is not None:
        base = {"agent": args.target}
    data = _merged(base, said)
    data["import_from"] = _import_from(base, said, here)
    if args.task is not None:
        data["task"] = args.task
    try:
        return AgentSpec.model_validate(_placed(data, here), context={BASE: here})
    except ValidationError as error:
        raise AgentSpecError(
            _as_option(keys, message, remedy)
            for keys, message, remedy in describe_errors(error, AgentSpec)
        ) from error


def _import_from(base: Mapping[str, object], said: _Said, here: Path) -> list[object]:
    """Directories of the agent's modules. An agent file names them; the working directory, where agents
    write, is added only for modules named for this run: its files would come before installed packages.
    """
    own = _list(base.get("import_from"))
    named = not own or said.now("tools") is not None
    return list(dict.fromkeys([*own, here] if named else own))


class _Said:
    """The options by name: those somebody chose for this run, and those of configuration files."""

    def __init__(self, args: argparse.Namespace, environ: Mapping[str, str]) -> None:
        self._args = args
        self._environ = environ

    def now(self, option: str) -> object:
        """What was typed or is in the environment, else `None`."""
        chosen = option in self._args.typed or f"INTERLOCK_{option.upper()}" in self._environ
        return getattr(self._args, option) if chosen else None

    def at_all(self, option: str) -> object:
        return getattr(self._args, option)

    def of(self, option: str, *, is_open: bool) -> object:
        """What counts: anything where the agent leaves it open, else only what was said for this run."""
        return self.at_all(option) if is_open else self.now(option)


def _merged(base: dict[str, object], said: _Said) -> dict[str, object]:
    data = dict(base)
    free = "agent" not in base
    # Some options mean nothing without another: a model's address, the names of the rules' nets. They
    # come from where that one comes from.
    model = said.of("model", is_open=free and "model" not in base)
    if model is not None:
        data["model"] = model
        data.pop("api_base", None)
    api_base = said.of("api_base", is_open="model" not in base and free)
    if api_base is not None:
        data["api_base"] = api_base
    rules = said.of("rules", is_open="rules" not in base)
    if rules:
        data["rules"] = rules
        data.pop("active", None)
    active = said.of("active", is_open="rules" not in base and "active" not in base)
    if active is not None:
        data["active"] = active
    tools = said.of("tools", is_open=free and "tools" not in base)
    if tools is not None:
        data["tools"] = [name for part in str(tools).split(",") if (name := part.strip())]
    for option in ("system_prompt", "mode", "explain_blocks"):
        is_open = option not in base and (free or option != "system_prompt")
        value = said.of(option, is_open=is_open)
        if value is not None:
            data[option] = value
    if limits := _limits(base.get("limits"), said, is_open=free):
        data["limits"] = limits
    runtime = _runtime(base.get("runtime"), said, is_open=free and "runtime" not in base)
    if runtime is not None:
        data["runtime"] = runtime
    return data


def _limits(base: object, said: _Said, *, is_open: bool) -> dict[str, object]:
    limits: dict[str, object] = dict(base) if is_table(base) else {}
    for option in ("max_steps", "max_cost"):
        value = said.of(option, is_open=is_open and option not in limits)
        if value is not None:
            limits[option] = value
    return limits


def _runtime(base: object, said: _Said, *, is_open: bool) -> object:
    kind = said.of("runtime", is_open=is_open)
    workdir = said.of("workdir", is_open=is_open)
    network = said.of("network", is_open=is_open)
    if kind is None and workdir is None and network is None:
        return base
    options: dict[str, object] = dict(base) if is_table(base) else {}
    if kind is not None and kind != options.get("kind", kind):
        kept = options.get("workdir") if {kind, options["kind"]} <= HERE else None
        options = {} if kept is None else {"workdir": kept}
    if kind is not None:
        options["kind"] = kind
    if workdir is not None:
        options["workdir"] = str(workdir)
    if network is not None:
        options["network"] = network
    return options


def _placed(data: dict[str, object], here: Path) -> dict[str, object]:
    """`data` with a working directory, so that the spec means the same everywhere; an imported agent has
    its own."""
    runtime = data.get("runtime")
    if runtime is None:
        return data if "agent" in data else {**data, "runtime": {"kind": "local", "workdir": here}}
    if is_table(runtime) and runtime.get("kind", "local") in HERE and "workdir" not in runtime:
        return {**data, "runtime": {**runtime, "workdir": here}}
    return data


def _list(value: object) -> list[object]:
    return list(cast("Sequence[object]", value)) if isinstance(value, (list, tuple)) else []


def _as_option(keys: Keys, message: str, remedy: str) -> str:
    """A problem as the command line has it: with the option's name for the key's."""
    path = dotted(keys)
    if message == f"unknown key '{path}'":
        # Only what belongs to another runtime can get here.
        return f"--{keys[-1]}: not an option of this runtime; {remedy}, or --runtime sandbox"
    name = next(key for key in reversed(keys) if isinstance(key, str))
    option = _OPTIONS.get(path) or f"--{name.replace('_', '-')}"
    said = message.partition(": ")[2]
    return f"{option}: {said}{f'; {remedy}' if remedy else ''}"
