"""Specification of an agent as plain data: from an agent file, from options, or from a journal.

A spec holds no secrets and only absolute paths, so that a session can be started from it in another
directory and another process.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationInfo,
    field_validator,
)

from ...engine.agents import SendMode
from ...engine.agents.models.model_url import parse_model_name
from ...engine.agents.runtime import just_bash
from ...engine.core.labels import checked_labels
from ...engine.gate.types import Mode
from ..config.paths import is_table

BASE = "base"
"""Key of the validation context for the directory that relative paths start from."""


class SpecError(ValueError):
    """A spec that cannot be run: every problem, with what was found and the remedy."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class AgentSpecError(SpecError):
    """An agent that cannot be hosted."""


def absolute(path: Path, info: ValidationInfo) -> Path:
    if "\0" in str(path):
        raise ValueError("a path cannot hold a NUL character")
    context: Mapping[str, Path] = info.context or {}
    base = context.get(BASE) or Path.cwd()
    try:
        return Path(os.path.normpath(base / path.expanduser()))
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from error


def _readable_model(name: str) -> str:
    target = parse_model_name(name)
    if target.api_base is not None:
        _plain_url(target.api_base)
    return name


def _plain_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("expected a URL such as http://127.0.0.1:8080/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a password does not belong in a URL; put the key into the environment")
    return url


def _as_table(value: object) -> object:
    """Expand `runtime = "sandbox"` to a table with that kind; a table without a kind is local."""
    if isinstance(value, str):
        return {"kind": value}
    return {"kind": "local", **value} if is_table(value) else value


def _inside(*parts: str) -> PurePosixPath:
    """Parse a path of the in-memory shell, where a leading `//` means the same as `/`."""
    return PurePosixPath("/" + posixpath.normpath(posixpath.join(*parts)).lstrip("/"))


AbsolutePath = Annotated[Path, AfterValidator(absolute)]
InsidePath = Annotated[str, Field(pattern=r"^/[^\x00]*$")]
"""A path on the runtime's own machine, not on this one."""
Labels = Annotated[tuple[str, ...], AfterValidator(checked_labels)]
"""Labels of a session, given by people."""
Names = tuple[Annotated[str, Field(min_length=1)], ...]


class FrozenSpec(BaseModel):
    """A table of a spec; other keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LocalOptions(FrozenSpec):
    """Tools run on this machine, with the rights of this process.

    They get its environment without Interlock's variables and providers' keys; `env` names exceptions.
    """

    kind: Literal["local"] = "local"
    workdir: AbsolutePath | None = None
    env: Names = ()


class SandboxOptions(FrozenSpec):
    """Tools run in bubblewrap. `env` names the variables that they get, never their values."""

    kind: Literal["sandbox"] = "sandbox"
    workdir: AbsolutePath | None = None
    network: StrictBool = False
    read_only: tuple[AbsolutePath, ...] = ()
    writable: tuple[AbsolutePath, ...] = ()
    env: Names = ()


class JustBashOptions(FrozenSpec):
    """Tools run in a shell interpreted in this process, on files in memory.

    `files` maps paths to texts; relative paths start at the working directory. `env` as for `sandbox`.
    """

    kind: Literal["just-bash"] = "just-bash"
    workdir: InsidePath | None = None
    files: Mapping[Annotated[str, Field(pattern=r"^[^\x00]*[^\x00/]$")], str] = {}
    env: Names = ()

    @field_validator("files")
    @classmethod
    def _each_has_a_place(cls, files: Mapping[str, str], info: ValidationInfo) -> Mapping[str, str]:
        """Check that no file is also a directory, which just-bash itself would not report."""
        workdir = info.data.get("workdir") or just_bash.DIRECTORY
        names: dict[PurePosixPath, str] = {}
        for name in files:
            path = _inside(workdir, name)
            if path in names:
                raise ValueError(f"'{names[path]}' and '{name}' are the same file; keep one of them")
            names[path] = name
        directories = {each: f"'{name}'" for path, name in names.items() for each in path.parents}
        here = _inside(workdir)
        directories |= dict.fromkeys((here, *here.parents), "the working directory")
        for path, name in names.items():
            if path in directories:
                raise ValueError(
                    f"'{name}' cannot be a file: {directories[path]} needs a directory there"
                )
        return files


class VercelOptions(FrozenSpec):
    """Tools run in a Vercel sandbox that lives at most `time_limit` seconds. `env` as for `sandbox`."""

    kind: Literal["vercel"] = "vercel"
    workdir: InsidePath | None = None
    time_limit: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    env: Names = ()


RuntimeOptions = Annotated[
    LocalOptions | SandboxOptions | JustBashOptions | VercelOptions, Field(discriminator="kind")
]
KINDS: dict[str, type[BaseModel]] = {
    "local": LocalOptions,
    "sandbox": SandboxOptions,
    "just-bash": JustBashOptions,
    "vercel": VercelOptions,
}
LOCAL_KINDS = frozenset({"local", "sandbox"})
"""Runtimes whose working directory is on this machine."""


class WebFetchOptions(FrozenSpec):
    """With `private`, the built-in `web_fetch` may also reach this machine and its network (A-127)."""

    private: StrictBool = False


class SubagentLimits(FrozenSpec):
    """Limits of a subagent.

    `max_steps` counts a run's model calls; without it the agent's own limit applies. `max_cost` limits a
    session's cost in US dollars, over its whole record, subagents included.
    """

    max_steps: Annotated[StrictInt, Field(ge=1)] | None = None
    max_cost: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None


class SessionLimits(SubagentLimits):
    """Limits of an agent that people talk to.

    After a turn whose last model call had `compact_at` tokens or more, the session is compacted.
    """

    compact_at: Annotated[StrictInt, Field(ge=1)] | None = None


class SubagentSpec(FrozenSpec):
    """A subagent that performs tasks for another agent, through a tool `task_<name>`.

    It works in that agent's runtime, under the session's rules. Without a `model` it uses that agent's;
    `description` describes it to that agent's model.
    """

    description: Annotated[str, Field(pattern=r"\S")]
    model: Annotated[str, AfterValidator(_readable_model)] | None = None
    api_base: Annotated[str, AfterValidator(_plain_url)] | None = None
    system_prompt: str | None = None
    tools: Names = ()
    limits: SubagentLimits = SubagentLimits()

    @field_validator("api_base")
    @classmethod
    def _of_its_own_model(cls, api_base: str | None, info: ValidationInfo) -> str | None:
        if api_base is not None and info.data.get("model", "") is None:
            raise ValueError("an address belongs to a model; name the model too")
        return api_base


SubagentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,58}$")]
"""With the prefix `task_`, a tool name that every provider accepts."""


class AgentSpec(FrozenSpec):
    """Specification of an agent. `None` leaves a part to the agent, or to a default applied on use.

    `agent` names an `Agent` of a Python module (`package.module:name`), which the other keys change;
    without it a `model` is required. `tools` are names of built-in tools or `package.module:name`,
    imported with the directories of `import_from` first on the path. `web_fetch` applies to subagents,
    too. Relative paths start at the directory in the validation context's `BASE`, or at the working
    directory. `labels` are those of its sessions, for conditions of rules. With `tell_rules` the model,
    and those of its subagents, are given the rules in sentences.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")] | None = None
    agent: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = None
    model: Annotated[str, AfterValidator(_readable_model)] | None = None
    api_base: Annotated[str, AfterValidator(_plain_url)] | None = None
    system_prompt: str | None = None
    tools: Names | None = None
    web_fetch: WebFetchOptions = WebFetchOptions()
    subagents: Mapping[SubagentName, SubagentSpec] = {}
    runtime: Annotated[RuntimeOptions, BeforeValidator(_as_table)] | None = None
    rules: tuple[AbsolutePath, ...] = ()
    active: Annotated[Names, Field(min_length=1)] | None = None
    mode: Mode = "enforce"
    labels: Labels = ()
    limits: SessionLimits = SessionLimits()
    send_mode: SendMode | None = None
    explain_blocks: StrictBool = False
    tell_rules: StrictBool | None = None
    task: Annotated[str, Field(pattern=r"\S")] | None = None
    import_from: tuple[AbsolutePath, ...] = ()
