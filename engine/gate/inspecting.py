"""Whether a call was read to its end, or may do more than its names tell (G-51)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ..net import SkillNet, ToolCall


class _Inspection(Protocol):
    @property
    def uninspectable(self) -> str | None: ...

    @property
    def unnamed(self) -> Sequence[str]: ...


@runtime_checkable
class _Inspects(Protocol):
    """What names calls and can also say how sure it is; compiled rules bring one."""

    def inspect(self, call: ToolCall, /) -> _Inspection: ...


def uninspectable(net: SkillNet, call: ToolCall) -> str | None:
    """Why a net's names for the call may not be all, `None` when they are. Raises what its names do."""
    namer = net.call_names
    return namer.inspect(call).uninspectable if isinstance(namer, _Inspects) else None


def exact_only(net: SkillNet, call: ToolCall) -> str | None:
    """Why calls with the same names may do something else than this one; `None` when names tell all.

    Who grants calls by their names has to know what else such calls may do. Raises what its names do.
    """
    namer = net.call_names
    if not isinstance(namer, _Inspects):
        return None
    found = namer.inspect(call)
    if found.uninspectable is not None:
        return "the call may do more than its names tell"
    return "the command runs more than its effects name" if found.unnamed else None
