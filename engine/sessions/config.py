"""Configuration of a session, and the markings of its nets when it is resumed."""

from __future__ import annotations

import os.path
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from ..core.condition import Surroundings, of_one_process
from ..core.labels import checked_labels
from ..gate.types import Mode
from ..history.model.records import AppliedRules
from ..history.model.state import SessionState
from ..net.net import SkillNet
from ..recording.resume_checks import (
    Nets,
    ResumePoint,
    standing,
    with_required,
)

if TYPE_CHECKING:
    from ..agents import Runtime


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Nets, mode and origin of a session that is opened, resumed or branched.

    `registry` has its nets by key. Those in `active` are active at first; `None` means all, or in a
    recorded session those that are active in the record. The same applies to `mode`, which is `enforce`
    in a new session. `by` is who opens the session, `owner` is whose agent it is if that is known,
    `labels` are the labels that people give it, and `source` is the data needed to start it again. All of
    these are recorded, as is `applied`: who replaced the rules of its server, if anyone did. With
    `explain_blocks` the model also reads which calls would unblock a blocked one. Raises `ValueError` for
    an invalid label.

    The other fields are for a recorded session. `nets` says whether it may be resumed under other nets
    than its own; see `standing`. `reason` is why it may be resumed with fewer restrictions (G-67).
    `required` are nets of the host's own: they are active unless operators switched them off in the
    record.
    """

    registry: Mapping[str, SkillNet]
    active: Sequence[str] | None = None
    mode: Mode | None = None
    by: str | None = None
    owner: str | None = None
    labels: tuple[str, ...] = ()
    explain_blocks: bool = False
    source: dict[str, JsonValue] | None = None
    applied: AppliedRules | None = None
    nets: Nets = "recorded"
    reason: str | None = None
    required: Collection[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", checked_labels(self.labels))

    def resume_point(self, state: SessionState) -> ResumePoint:
        """Return the markings of its nets after `state`. Raises `ResumeError` if they do not fit."""
        fit = standing(state, self.registry, active=self.active, nets=self.nets)
        return with_required(fit, state, self.registry, self.required)


# Evaluation contexts of agents' calls, for conditions on paths.


MOST_LINKS = 40
"""Maximum number of links that a path may lead through, as in Linux."""


def real_path(path: str) -> str:
    """Resolve an absolute path's links, as `os.path.realpath` does; missing parts are kept by name.

    Raises `OSError` for a path through a link that differs between processes, such as `/proc/self/cwd` or
    `/dev/fd/3`, because the process that runs a call is not the one that judges it. Raises it also for a
    path with a cycle of links.
    """
    waiting = path.split("/")[::-1]
    reached, links = "/", 0
    while waiting:
        name = waiting.pop()
        if name in ("", "."):
            continue
        if name == "..":
            reached = os.path.dirname(reached)
            continue
        reached_then, reached = reached, os.path.join(reached, name)
        if of_one_process(reached):
            raise OSError(f"{path} leads each process elsewhere, by {reached}")
        try:
            target = os.readlink(reached)
        except OSError:
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(f"{path} leads through more than {MOST_LINKS} links")
        reached = "/" if target.startswith("/") else reached_then
        waiting += target.split("/")[::-1]
    return reached


def surroundings_of(runtime: Runtime) -> Surroundings:
    """Return the evaluation context of a session; links are resolved if commands run on this machine."""
    # Sessions of external agents have no runtime.
    from ..agents import JustBashRuntime, LocalRuntime, SandboxRuntime
    from ..agents.runtime.sandbox import HOME

    workdir = str(runtime.cwd)
    match runtime:
        case LocalRuntime():
            return Surroundings(workdir, os.path.expanduser("~"), real_path, runtime.shell)
        case SandboxRuntime():
            return Surroundings(workdir, HOME, real_path, runtime.shell)
        case JustBashRuntime():
            return Surroundings(workdir, shell="bash")
        case _:
            return Surroundings(workdir)
