"""Specification of a flow's run as plain data: from options, or from a journal.

Like an agent's spec it holds no secrets and only absolute paths, so that a run can be resumed from
another directory and another process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, JsonValue, StrictInt, ValidationError

from ...engine.gate.types import Mode
from ..agents.spec import AbsolutePath, FrozenSpec, Labels, Names, SpecError

FLOW_NAME = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


class FlowSpecError(SpecError):
    """A flow that cannot be run."""


class FlowLimits(FrozenSpec):
    """Limits that one host sets for a run; `None` is no limit. `max_turns` counts model calls."""

    max_steps: Annotated[StrictInt, Field(ge=1)] | None = None
    max_turns: Annotated[StrictInt, Field(ge=1)] | None = None
    max_seconds: Annotated[StrictInt, Field(ge=1)] | None = None


class FlowSpec(FrozenSpec):
    """Specification of a flow's run.

    `flow` is `package.module:FlowClass`, imported with the directories of `import_from` first on the
    path. `commands` are those that its functions may run, `labels` those of its session.
    """

    flow: Annotated[str, Field(pattern=FLOW_NAME)]
    rules: tuple[AbsolutePath, ...] = ()
    mode: Mode = "enforce"
    labels: Labels = ()
    workdir: AbsolutePath
    commands: Names = ()
    limits: FlowLimits = FlowLimits()
    import_from: tuple[AbsolutePath, ...] = ()


def is_flow(source: Mapping[str, JsonValue] | None) -> bool:
    """Return whether a session's `source` is the run of a flow."""
    return source is not None and "flow" in source


def recorded_flow(session_id: str, source: Mapping[str, JsonValue] | None) -> FlowSpec:
    """Return the specification that a recorded run was started from. Raises `FlowSpecError`."""
    if source is None:
        raise FlowSpecError(
            [
                f"run '{session_id}' was not started by `interlock flow run`, so nothing says where its "
                "flow is; its program can use Hub.resume_flow"
            ]
        )
    try:
        return FlowSpec.model_validate(source)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise FlowSpecError(
            [
                f"run '{session_id}' says how it was started in a way that this version cannot read: "
                f"{place}: {fault['msg']}"
            ]
        ) from error
