"""Operators with their rights and groups, and the terms on which approvals of theirs count.

`by 2 of security not by author escalate to oncall after 10m with passkey`. Pure values: whoever reads a
configuration or takes a login makes them. Names are compared as people's are everywhere, groups as they
are written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from .durations import as_typed
from .people import person_key
from .rights import FULL, Rights, lesser, may

PASSKEY = "with passkey"
"""The option of a rule whose approvals need the proof of a key, as rules write it."""

KEYED_RULE = "a rule that asks for a passkey, and no change of rules carries one"
KEYED = f"this is {KEYED_RULE}: end the session, and begin another under other rules"
"""Reason why nobody loosens such a rule: no change of rules carries the proof of a key (G-105)."""

GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""A group's name, as configurations and rules write it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator's identity: the name in the record, the most they may do, and their groups.

    `login` is who they are at a provider, see `login_id`; `None` where no provider says who it is.
    """

    name: str
    rights: Rights = FULL
    groups: tuple[str, ...] = ()
    login: str | None = None

    def is_in(self, group: str) -> bool:
        """Tell whether the operator is a member of a group."""
        return group in self.groups


def login_id(issuer: str, subject: str) -> str:
    """The identity of a person at a provider of logins: its issuer, and the subject there.

    An issuer is a URL, which has no blank.
    """
    return f"{issuer} {subject}"


SLACK = "https://hooks.slack.com"
"""Provider of those who decide in Slack: their subject there is an account, `TEAM/USER`."""


def chat_of(login: str | None) -> str:
    """Name of the chat in which a person with this identity has decided; empty for none."""
    return "Slack" if login is not None and login.startswith(f"{SLACK} ") else ""


@dataclass(frozen=True)
class Operators:
    """The operators that a configuration lists.

    `listed` is `None` where it lists none at all: then nobody is in a group, but for those whose provider
    says so. It may say so of the groups in `claimed`. Logins of the provider `issuer` count, and no
    others. `keyed` are the names of those who enrolled a passkey, `None` where that is not known.
    """

    listed: tuple[Operator, ...] | None = None
    claimed: tuple[str, ...] = ()
    issuer: str | None = None
    keyed: tuple[str, ...] | None = None
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

    def lists(self, name: str) -> bool:
        """Tell whether the configuration lists an operator of this name."""
        return person_key(name) in self._by_key

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


# The terms of an approval


@dataclass(frozen=True, slots=True)
class Escalation:
    """A request that waits for so many seconds is for the members of a group as well."""

    group: str
    after: float

    @property
    def words(self) -> str:
        """As rules write it."""
        return f"escalate to {self.group} after {as_typed(self.after)}"


@dataclass(frozen=True, slots=True)
class Approvers:
    """Terms on who may approve, besides how many must.

    Only members of `group` count, of any where there is none. Without `author` nobody counts who is
    behind the session (G-77). Members of the group of an `escalation` count once a request is escalated;
    where there is no `group` that only calls them. With `passkey` an approval counts only with the proof
    of a key that its person enrolled (G-105).
    """

    group: str | None = None
    author: bool = True
    escalation: Escalation | None = None
    passkey: bool = False

    @property
    def guards(self) -> bool:
        """Tell whether not everybody's approval counts."""
        return self.group is not None or not self.author or self.passkey

    def groups(self, *, escalated: bool = False) -> tuple[str, ...]:
        """The groups whose members count; none where everybody does."""
        if self.group is None:
            return ()
        others = (self.escalation.group,) if escalated and self.escalation is not None else ()
        return (self.group, *others)

    def counts(self, groups: Collection[str], *, escalated: bool = False) -> bool:
        """Tell whether the approval of a person who is in these groups counts."""
        wanted = self.groups(escalated=escalated)
        return not wanted or not {*wanted}.isdisjoint(groups)

    @property
    def words(self) -> str:
        """As rules write it, after the number of people."""
        parts = [
            "" if self.group is None else f"of {self.group}",
            "" if self.author else "not by author",
            "" if self.escalation is None else self.escalation.words,
            PASSKEY if self.passkey else "",
        ]
        return " ".join(filter(None, parts))

    def is_as_strict(self, other: Approvers | None) -> bool:
        """Tell whether nobody counts here who does not count for `other`, then or at any later time."""
        if other is None:
            return True
        if other.group is not None and self.group != other.group:
            return False
        if (self.author and not other.author) or (other.passkey and not self.passkey):
            return False
        mine, theirs = self._widening, other._widening
        if mine is None or other.group is None:
            return True
        return theirs is not None and mine.group == theirs.group and mine.after >= theirs.after

    @property
    def _widening(self) -> Escalation | None:
        """The escalation, where it lets more people count."""
        return None if self.group is None else self.escalation


ANYBODY = Approvers()


def are_as_strict(one: Approvers | None, other: Approvers | None) -> bool:
    """The same of terms that a rule may not have."""
    return (one or ANYBODY).is_as_strict(other)


def some_of(people: int, group: str | None) -> str:
    """`2 of security`, or `2 people`."""
    if group is not None:
        return f"{people} of {group}"
    return "1 person" if people == 1 else f"{people} people"
