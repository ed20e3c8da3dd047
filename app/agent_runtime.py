"""The runtime that a spec asks for, made when what it needs is here."""

from __future__ import annotations

import os
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from ..engine.agents import (
    JustBashRuntime,
    LocalRuntime,
    Runtime,
    SandboxRuntime,
    VercelSandboxRuntime,
)
from ..engine.agents.runtime import just_bash, vercel
from .agent_spec import JustBashOptions, LocalOptions, SandboxOptions, VercelOptions

Options = LocalOptions | SandboxOptions | JustBashOptions | VercelOptions


class RuntimeOptionsError(ValueError):
    """A runtime that cannot be made; the message names the option and the remedy."""


def make_runtime(options: Options, secrets: Collection[str] = ()) -> Runtime:
    """The runtime of `options`; commands do not see the variables `secrets` unless `env` names them.

    Raises `RuntimeOptionsError` for directories and variables there are not, and what the runtime itself
    raises where something it needs is missing (`AgentRuntimeError`, `ValueError`).
    """
    match options:
        case LocalOptions(workdir=workdir):
            directory = _directory("workdir", workdir)
            return LocalRuntime(directory, env=_variables(options.env), secrets=secrets)
        case SandboxOptions(workdir=workdir):
            for path in (*options.read_only, *options.writable):
                if not path.exists():
                    raise RuntimeOptionsError(f"runtime: there is no {path} for the sandbox to let in")
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
            # The runtime itself looks for the package when it is first used, which is late for a remedy.
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
