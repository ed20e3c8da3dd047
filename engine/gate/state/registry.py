"""Conversion of a gate's nets to nets by key: from a list, a mapping, or a registry with active keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NotRequired, TypeAlias, TypedDict, cast

from ...core.value_key import split_key
from ...net.net import NetError, SkillNet
from ..classify import unique_keys
from ..grants.net import grant_number


class ActiveRegistry(TypedDict):
    """A registry with the keys that start active as one argument; without them all do."""

    registry: Mapping[str, SkillNet]
    active: NotRequired[Sequence[str] | None]


Nets: TypeAlias = Iterable[SkillNet] | Mapping[str, SkillNet] | ActiveRegistry


def split_registry(
    nets: Nets | None, active: Sequence[str] | None
) -> tuple[Nets | None, Sequence[str] | None]:
    """The registry and its active keys if `nets` has both; otherwise `nets` and `active` unchanged.

    Two nets under the keys `registry` and `active` are an ordinary registry. Raises `NetError` for
    another key beside them, and for active keys in two places.
    """
    if nets is None or not isinstance(nets, Mapping):
        return nets, active
    whole = cast("Mapping[str, SkillNet]", nets)
    config = cast("Mapping[str, object]", nets)
    registry = config.get("registry")
    if registry is None or isinstance(registry, SkillNet):
        return whole, active
    if not isinstance(registry, Mapping):
        raise NetError(f"'registry' must be a mapping from key to net, got {registry!r}")
    if strange := sorted(config.keys() - {"registry", "active"}):
        raise NetError(
            f"'{strange[0]}' does not belong beside 'registry' and 'active': give it as an argument "
            "of its own"
        )
    if active is not None and config.get("active") is not None:
        raise NetError("'active' is given twice: beside the registry, and as an argument")
    own = config.get("active")
    keys = cast("Sequence[str] | None", active if own is None else own)
    return cast("Mapping[str, SkillNet]", registry), keys


def one_of(nets: Nets | None, registry: Mapping[str, SkillNet] | None) -> Nets:
    """The argument that is given. Raises `NetError` if both or neither are."""
    chosen = registry if nets is None else nets
    if chosen is None or (nets is not None and registry is not None):
        raise NetError("Give either a list of nets or a registry")
    return chosen


def keyed_nets(nets: Nets) -> dict[str, SkillNet]:
    """A registry unchanged, or listed nets by name.

    Raises `NetError` for a value that is not a net, and for a key that is reserved for grants or values.
    """
    if isinstance(nets, Mapping):
        registry = cast("Mapping[str, SkillNet]", nets)
        keyed = dict(zip(registry, _check_nets(registry.values()), strict=True))
    else:
        keyed = unique_keys(_check_nets(nets))
    for key in keyed:
        if grant_number(key) is not None:
            raise NetError(f"A net cannot have the key '{key}': keys like it are those of grants")
        if split_key(key)[1] is not None:
            raise NetError(f"A net cannot have the key '{key}': keys like it are those of single values")
    return keyed


def _check_nets(nets: Iterable[SkillNet]) -> list[SkillNet]:
    if isinstance(nets, SkillNet):
        raise NetError(f"Expected a list of nets, got the net '{nets.name}' alone: put it in a list")
    each: list[object] = [*nets]
    checked = [net for net in each if isinstance(net, SkillNet)]
    if len(checked) != len(each):
        strange = next(net for net in each if not isinstance(net, SkillNet))
        kind = "a dict; write define_skill_net(**that)" if isinstance(strange, dict) else repr(strange)
        raise NetError(f"Expected nets made by define_skill_net, got {kind}")
    return checked
