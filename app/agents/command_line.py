"""Builds an `AgentSpec` from `interlock run [AGENT] [OPTIONS] [TASK]`.

Options on the command line or in the environment take precedence over the agent file. A settings file
only sets what the agent leaves open: it is about the directory, the agent file about this agent.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from ..config.arguments import is_for_this_run
from ..config.errors import Keys, dotted
from ..config.paths import is_table
from .agent_file import load_agent_file
from .errors import describe_errors
from .spec import BASE, LOCAL_KINDS, AgentSpec, AgentSpecError

AGENT_OPTIONS = (
    "model",
    "api_base",
    "rules",
    "tools",
    "active",
    "mode",
    "labels",
    "explain_blocks",
    "runtime",
    "workdir",
    "network",
    "max_steps",
    "system_prompt",
)
"""Names of an agent's options in the parsed arguments, except its cost limit."""
_OPTIONS = {
    "limits.max_steps": "--max-steps",
    "limits.max_cost": "--max-cost",
    "runtime.kind": "--runtime",
    "labels": "--label",
}


def from_command_line(
    args: argparse.Namespace,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> AgentSpec:
    """Return the specification of the agent for `interlock run`, with settings applied.

    `args.typed` has the names of the options on the command line; `args.target` is an agent file,
    `package.module:name`, or `None`. Raises `AgentSpecError`.
    """
    here = directory or Path.cwd()
    options = _ChosenOptions(args, os.environ if environ is None else environ)
    base: dict[str, object] = {}
    if args.target is not None and args.target.endswith(".toml"):
        base = load_agent_file((directory or Path()) / args.target).model_dump(exclude_unset=True)
    elif args.target is not None:
        base = {"agent": args.target}
    data = _merge(base, options)
    data["import_from"] = _import_from(base, options, here)
    if args.task is not None:
        data["task"] = args.task
    try:
        return AgentSpec.model_validate(_with_workdir(data, here), context={BASE: here})
    except ValidationError as error:
        raise AgentSpecError(
            _as_option(keys, message, remedy)
            for keys, message, remedy in describe_errors(error, AgentSpec)
        ) from error


def _import_from(base: Mapping[str, object], options: _ChosenOptions, here: Path) -> list[object]:
    """Return the directories from which the agent's modules are imported.

    An agent file names them. The working directory, where agents write, is added only for modules named
    for this run: its files would take precedence over installed packages.
    """
    own = _list(base.get("import_from"))
    named = not own or options.for_this_run("tools") is not None
    return list(dict.fromkeys([*own, here] if named else own))


class _ChosenOptions:
    """Options by name, separating those chosen for this run from those of configuration files."""

    def __init__(self, args: argparse.Namespace, environ: Mapping[str, str]) -> None:
        self._args = args
        self._environ = environ

    def for_this_run(self, option: str) -> object:
        """Return the value from the command line or the environment, else `None`."""
        chosen = is_for_this_run(self._args, option, self._environ)
        return getattr(self._args, option) if chosen else None

    def value(self, option: str, *, is_open: bool) -> object:
        """Return the value: from any source if the agent leaves it open, else only one for this run."""
        return getattr(self._args, option) if is_open else self.for_this_run(option)


def _merge(base: dict[str, object], options: _ChosenOptions) -> dict[str, object]:
    free = "agent" not in base
    # Options that depend on another (a model's address, the names of the rules' nets) come from the same
    # source as that option.
    is_open = {
        "model": free and "model" not in base,
        "api_base": free and "model" not in base,
        "rules": "rules" not in base,
        "active": "rules" not in base and "active" not in base,
        "tools": free and "tools" not in base,
        "system_prompt": free and "system_prompt" not in base,
        "mode": "mode" not in base,
        "labels": "labels" not in base,
        "explain_blocks": "explain_blocks" not in base,
    }
    chosen = {name: options.value(name, is_open=each) for name, each in is_open.items()}
    if chosen["tools"] is not None:
        chosen["tools"] = [name for part in str(chosen["tools"]).split(",") if (name := part.strip())]
    chosen["rules"] = chosen["rules"] or None
    replaced = {"model": "api_base", "rules": "active"}
    obsolete = {part for option, part in replaced.items() if chosen[option] is not None}
    data = {name: value for name, value in base.items() if name not in obsolete}
    data |= {name: value for name, value in chosen.items() if value is not None}
    if limits := _limits(base.get("limits"), options, is_open=free):
        data["limits"] = limits
    runtime = _runtime(base.get("runtime"), options, is_open=free and "runtime" not in base)
    return data if runtime is None else data | {"runtime": runtime}


def _limits(base: object, options: _ChosenOptions, *, is_open: bool) -> dict[str, object]:
    limits: dict[str, object] = dict(base) if is_table(base) else {}
    for option in ("max_steps", "max_cost"):
        value = options.value(option, is_open=is_open and option not in limits)
        if value is not None:
            limits[option] = value
    return limits


def _runtime(base: object, options: _ChosenOptions, *, is_open: bool) -> object:
    kind = options.value("runtime", is_open=is_open)
    workdir = options.value("workdir", is_open=is_open)
    network = options.value("network", is_open=is_open)
    if kind is None and workdir is None and network is None:
        return base
    runtime: dict[str, object] = dict(base) if is_table(base) else {}
    if kind is not None and kind != runtime.get("kind", kind):
        kept = runtime.get("workdir") if {kind, runtime["kind"]} <= LOCAL_KINDS else None
        runtime = {} if kept is None else {"workdir": kept}
    if kind is not None:
        runtime["kind"] = kind
    if workdir is not None:
        runtime["workdir"] = str(workdir)
    if network is not None:
        runtime["network"] = network
    return runtime


def _with_workdir(data: dict[str, object], here: Path) -> dict[str, object]:
    """Return `data` with a working directory, so that the spec means the same everywhere.

    An imported agent has its own.
    """
    runtime = data.get("runtime")
    if runtime is None:
        return data if "agent" in data else {**data, "runtime": {"kind": "local", "workdir": here}}
    if is_table(runtime) and runtime.get("kind", "local") in LOCAL_KINDS and "workdir" not in runtime:
        return {**data, "runtime": {**runtime, "workdir": here}}
    return data


def _list(value: object) -> list[object]:
    return list(cast("Sequence[object]", value)) if isinstance(value, (list, tuple)) else []


def _as_option(keys: Keys, message: str, remedy: str) -> str:
    """Return a problem in terms of the command line: with the option's name instead of the key's."""
    path = dotted(keys)
    if message == f"unknown key '{path}'":
        # Only keys of another runtime reach this.
        return f"--{keys[-1]}: not an option of this runtime; {remedy}, or --runtime sandbox"
    name = next(key for key in reversed(keys) if isinstance(key, str))
    option = _OPTIONS.get(path) or f"--{name.replace('_', '-')}"
    fault = message.partition(": ")[2]
    return f"{option}: {fault}{f'; {remedy}' if remedy else ''}"


# Positional words of `interlock run [AGENT] [TASK]`: the agent and the task. An agent is a `.toml` file
# or `package.module:name`; everything else is the task. Heavy imports are avoided, because this runs
# while the command line is parsed.


IMPORTED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PLAIN = re.compile(r"[^\W_][\w-]*")
NO_TASK = "what should the agent do? Give a task, in quotes, after the options"


class WordsError(ValueError):
    """Words that are not a valid agent and task; the message says what was expected."""


def assign_words(args: argparse.Namespace, extra: Sequence[str], line: Sequence[str]) -> None:
    """Set `args.target` and `args.task` from the positional words, including those in `extra`.

    argparse returns in `extra` the words after an option that follows the first word. The task may be
    missing if an agent is named: its file may have one. Raises `WordsError`.
    """
    words = [word for word in (args.target, args.task) if word is not None]
    words += _words(extra)
    target = words[0] if words and is_target(words[0], alone=len(words) == 1) else None
    if target is not None:
        words.pop(0)
    if not words:
        words = _from_lists(args, line, has_target=target is not None)
        if target is None and words and is_target(words[0], alone=len(words) == 1):
            target = words.pop(0)
    if len(words) > 1:
        raise WordsError(
            f"found {words[0]!r} and {words[1]!r}; expected a task in quotes, "
            "after an agent (agent.toml or package.module:name) if there is one"
        )
    if target is None and not words:
        raise WordsError(NO_TASK)
    args.target, args.task = target, words[0] if words else None


def is_target(word: str, *, alone: bool) -> bool:
    """Return whether `word` names an agent.

    A word that is `alone` may also be the task, so it must not look like a sentence, or the file or
    module must exist.
    """
    if word.endswith(".toml"):
        return not alone or not any(map(str.isspace, word)) or Path(word).is_file()
    return IMPORTED.fullmatch(word) is not None and (not alone or _is_module(word))


def _is_module(word: str) -> bool:
    """Return whether the module at the beginning of `word` can be found, without importing it."""
    package = word.partition(":")[0].partition(".")[0]
    return PathFinder.find_spec(package, [str(Path.cwd()), *sys.path]) is not None


def _words(extra: Sequence[str]) -> list[str]:
    words: list[str] = []
    for position, word in enumerate(extra):
        if word == "--":
            return [*words, *extra[position + 1 :]]
        if word.startswith("-"):
            raise WordsError(f"unrecognized arguments: {' '.join(extra)}")
        words.append(word)
    return words


def _from_lists(args: argparse.Namespace, line: Sequence[str], *, has_target: bool) -> list[str]:
    """Return a task that argparse took for a file: `run --rules a.rules "Ship it"`.

    The agent may have its own task. Then the last value of `--active` is the task only if it is a
    sentence, because the name of a net may be outdated. The last value of `--rules` is the task only if
    it is neither a file nor looks like a file name.
    """
    for values, word in ((args.rules, _PLAIN), (args.active, None)):
        if not values or values[-1] != line[-1]:
            continue
        words: list[str] = []
        if len(values) > 1 and _is_task(values[-1], has_target=has_target, word=word):
            words.append(values.pop())
        if len(values) > 1 and not has_target and is_target(values[-1], alone=not words):
            words.insert(0, values.pop())
        return words
    return []


def _is_task(text: str, *, has_target: bool, word: re.Pattern[str] | None) -> bool:
    """Return whether the last value of a list is the task; `word` is the pattern of a one-word task."""
    if Path(text).is_file():
        return False
    if any(map(str.isspace, text)):
        return True
    if has_target:
        return word is not None and word.fullmatch(text) is not None
    return not text.endswith(".rules")
