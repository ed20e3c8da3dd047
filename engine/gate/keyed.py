"""From what a gate is given to nets under keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

from ..net import NetError, SkillNet
from .classify import unique_keys
from .grants import grant_number

Nets: TypeAlias = Iterable[SkillNet] | Mapping[str, SkillNet]


def either(nets: Nets | None, registry: Mapping[str, SkillNet] | None) -> Nets:
    """Whichever there is. Raises `NetError` when both or neither are given."""
    chosen = registry if nets is None else nets
    if chosen is None or (nets is not None and registry is not None):
        raise NetError("Give either a list of nets or a registry")
    return chosen


def keyed_nets(nets: Nets) -> dict[str, SkillNet]:
    """A registry as it is, listed nets by name.

    Raises `NetError` for what is no net, and for a key that only a grant may have.
    """
    if isinstance(nets, Mapping):
        registry = cast("Mapping[str, SkillNet]", nets)
        keyed = dict(zip(registry, _checked(registry.values()), strict=True))
    else:
        keyed = unique_keys(_checked(nets))
    for key in keyed:
        if grant_number(key) is not None:
            raise NetError(f"A net cannot have the key '{key}': keys like it are those of grants")
    return keyed


def _checked(nets: Iterable[SkillNet]) -> list[SkillNet]:
    each: list[object] = [*nets]
    checked = [net for net in each if isinstance(net, SkillNet)]
    if len(checked) != len(each):
        strange = next(net for net in each if not isinstance(net, SkillNet))
        raise NetError(f"Expected nets made by define_skill_net, got {strange!r}")
    return checked
