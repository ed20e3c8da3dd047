"""Operators as the server's configuration, or a login, knows them: name, rights and groups.

Pure values: whoever reads a configuration or takes a login makes them. Names are compared as people's are
everywhere, groups as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .people import person_key
from .rights import FULL, Rights, lesser, may

GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""A group's name, as configurations and rules write it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator's identity: the name in the record, the most they may do, and their groups."""

    name: str
    rights: Rights = FULL
    groups: tuple[str, ...] = ()

    def is_in(self, group: str) -> bool:
        """Tell whether the operator is a member of a group."""
        return group in self.groups


@dataclass(frozen=True)
class Operators:
    """The operators that a configuration lists.

    `listed` is `None` where it lists none at all: then nobody is in a group.
    """

    listed: tuple[Operator, ...] | None = None
    _by_key: Mapping[str, Operator] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_key = {person_key(each.name): each for each in self.listed or ()}
        object.__setattr__(self, "_by_key", by_key)

    @property
    def configured(self) -> bool:
        """Tell whether a configuration says who the operators are."""
        return self.listed is not None

    @property
    def groups(self) -> tuple[str, ...]:
        """All groups that somebody is in, in the order of the configuration."""
        return tuple(dict.fromkeys(group for each in self.listed or () for group in each.groups))

    def find(self, name: str) -> Operator:
        """The operator of this name; one who is not listed has every right, and is in no group."""
        return self._by_key.get(person_key(name)) or Operator(name)

    def bounded(self, name: str, rights: Rights | None) -> Rights | None:
        """The rights of a token of this name: no more than the operator's role. An agent's has none."""
        return None if rights is None else lesser(rights, self.find(name).rights)

    def deciding(self, groups: Iterable[str]) -> tuple[Operator, ...]:
        """The members of any of these groups who may decide."""
        wanted = {*groups}
        return tuple(
            each
            for each in self.listed or ()
            if may(each.rights, "decide") and not wanted.isdisjoint(each.groups)
        )


def with_groups(name: str, groups: Iterable[str]) -> str:
    """A person with their groups, as people are shown them: `maria (security)`."""
    listed = ", ".join(groups)
    return f"{name} ({listed})" if listed else name


def names_with_groups(names: Iterable[str], groups: Mapping[str, Iterable[str]]) -> str:
    """People with their groups: `maria (security), ada`."""
    return ", ".join(with_groups(name, groups.get(name, ())) for name in names)
