"""Whether a call was read to its end, or may do more than its names tell (G-51)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..net import SkillNet, ToolCall


class _Inspection(Protocol):
    @property
    def uninspectable(self) -> str | None: ...


@runtime_checkable
class _Inspects(Protocol):
    """What names calls and can also say how sure it is; compiled rules bring one."""

    def inspect(self, call: ToolCall, /) -> _Inspection: ...


def uninspectable(net: SkillNet, call: ToolCall) -> str | None:
    """Why a net's names for the call may not be all, `None` when they are. Raises what its names do."""
    namer = net.call_names
    return namer.inspect(call).uninspectable if isinstance(namer, _Inspects) else None
