"""What the names of a call leave open: whether all of it was read (G-51), and what no map looks at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Protocol, runtime_checkable

from ..net import Input, SkillNet, ToolCall


class _Inspection(Protocol):
    @property
    def uninspectable(self) -> str | None: ...

    @property
    def unnamed(self) -> Sequence[str]: ...

    @property
    def commands(self) -> int: ...

    @property
    def marked(self) -> Sequence[int]: ...


@runtime_checkable
class _Inspects(Protocol):
    """What names calls and can also say how sure it is; compiled rules bring one."""

    def inspect(self, call: ToolCall, /) -> _Inspection: ...


@runtime_checkable
class _ReadsFields(Protocol):
    """What also knows what its maps read; compiled rules bring one (G-74)."""

    @property
    def maps_digest(self) -> str: ...

    def unread(self, call: ToolCall, /) -> Input: ...

    def beside(self, call: ToolCall, /) -> str | None: ...

    def programs(self, call: ToolCall, /) -> tuple[str, ...]: ...


@runtime_checkable
class _DeclaresShells(Protocol):
    """A masking that also knows which fields hold shell commands though their names do not tell."""

    @property
    def declares_shells(self) -> bool: ...

    def shell_fields(self, tool: str, /) -> tuple[str, ...]: ...


class ShellFields:
    """The fields by tool that maps of `nets` declare to hold shell commands (G-51); false for none."""

    def __init__(self, nets: Iterable[SkillNet]) -> None:
        namers = {id(net.call_names): net.call_names for net in nets}.values()
        self._namers = [n for n in namers if isinstance(n, _DeclaresShells) and n.declares_shells]

    def __bool__(self) -> bool:
        return bool(self._namers)

    def of(self, tool: str) -> tuple[str, ...]:
        """Those of one tool; paths lead into objects."""
        return tuple(dict.fromkeys(path for namer in self._namers for path in namer.shell_fields(tool)))


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
    if found.unnamed:
        return "the command runs more than its effects name"
    return namer.beside(call) if isinstance(namer, _ReadsFields) else None


def unread(net: SkillNet, call: ToolCall) -> Input:
    """The fields of a call that decide nothing about its names: all where no maps read any (G-74).

    Raises what its names do.
    """
    namer = net.call_names
    return namer.unread(call) if isinstance(namer, _ReadsFields) else call.input


def programs(net: SkillNet, call: ToolCall) -> tuple[str, ...]:
    """The programs that a call's names leave open: they have to be those of the call shown (G-74).

    Raises what its names do.
    """
    namer = net.call_names
    return namer.programs(call) if isinstance(namer, _ReadsFields) else ()


def maps_digest(nets: Iterable[SkillNet]) -> str:
    """What sets of nets have in common only when their maps are the same (G-74)."""
    namers = {id(net.call_names): net.call_names for net in nets}.values()
    digests = {namer.maps_digest for namer in namers if isinstance(namer, _ReadsFields)}
    return sha256(repr(sorted(digests)).encode()).hexdigest()


def marked_commands(net: SkillNet, call: ToolCall) -> tuple[int, tuple[int, ...]]:
    """How many simple commands a net's names were told by, and the places of those that matter most.

    These are the ones that a map names, and those whose words are not all known. Raises what its names
    do.
    """
    namer = net.call_names
    if not isinstance(namer, _Inspects):
        return 0, ()
    found = namer.inspect(call)
    return found.commands, tuple(found.marked)
