"""Operators with their rights and groups, and the conditions under which their approvals count.

For example `by 2 of security not by author escalate to oncall after 10m with passkey`. Pure values: the
code that reads a configuration or accepts a login creates them. Names are compared like people's names
elsewhere, groups exactly as written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from .durations import as_typed
from .people import person_key
from .rights import FULL, Rights, lesser, may

PASSKEY = "with passkey"
"""Option of a rule whose approvals need a proof by a passkey, as written in rules."""

KEYED_RULE = "a rule that asks for a passkey, and no change of rules carries one"
KEYED = f"this is {KEYED_RULE}: end the session, and begin another under other rules"
"""Reason why nobody can loosen such a rule: no change of rules carries a passkey's proof (G-105)."""

GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Name of a group, in configurations and rules."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Identity of an operator: the name in the record, the role as an upper bound, and the groups.

    `login` is the identity at a provider, see `login_id`; `None` if no provider has confirmed it.
    """

    name: str
    rights: Rights = FULL
    groups: tuple[str, ...] = ()
    login: str | None = None

    def is_in(self, group: str) -> bool:
        """Return whether the operator is a member of a group."""
        return group in self.groups


def login_id(issuer: str, subject: str) -> str:
    """Identity of a person at a login provider: the issuer, and the subject there.

    An issuer is a URL, so it contains no blank.
    """
    return f"{issuer} {subject}"


SLACK = "https://hooks.slack.com"
"""Provider of people who decide in Slack; their subject is an account, `TEAM/USER`."""


def chat_of(login: str | None) -> str:
    """Name of the chat in which a person with this identity decided; empty for none."""
    return "Slack" if login is not None and login.startswith(f"{SLACK} ") else ""


@dataclass(frozen=True)
class Operators:
    """Operators that a configuration lists.

    `listed` is `None` if it lists none at all: then nobody is in a group, except people whose provider
    says so. A provider may say so only for the groups in `claimed`. Only logins of the provider `issuer`
    count. `keyed` are the names of operators who enrolled a passkey, `None` if unknown.
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
        """True if a configuration names the operators."""
        return self.listed is not None

    @property
    def groups(self) -> tuple[str, ...]:
        """All groups that have a member, in the order of the configuration."""
        return tuple(dict.fromkeys(group for each in self.listed or () for group in each.groups))

    def lists(self, name: str) -> bool:
        """Return whether the configuration lists an operator with this name."""
        return person_key(name) in self._by_key

    def find(self, name: str) -> Operator:
        """The operator with this name; one who is not listed has every right and is in no group."""
        return self._by_key.get(person_key(name)) or Operator(name)

    def bounded(self, name: str, rights: Rights | None) -> Rights | None:
        """Rights of a token with this name: at most those of the operator's role. An agent has none."""
        return None if rights is None else lesser(rights, self.find(name).rights)

    def deciding(self, groups: Iterable[str]) -> tuple[Operator, ...]:
        """Members of any of these groups who may decide."""
        eligible_groups = {*groups}
        return tuple(
            each
            for each in self.listed or ()
            if may(each.rights, "decide") and not eligible_groups.isdisjoint(each.groups)
        )


def with_groups(name: str, groups: Iterable[str]) -> str:
    """A person with their groups, as shown to people: `maria (security)`."""
    group_names = ", ".join(groups)
    return f"{name} ({group_names})" if group_names else name


def names_with_groups(names: Iterable[str], groups: Mapping[str, Iterable[str]]) -> str:
    """People with their groups: `maria (security), ada`."""
    return ", ".join(with_groups(name, groups.get(name, ())) for name in names)


# Conditions on an approval.


@dataclass(frozen=True, slots=True)
class Escalation:
    """Admits the members of another group to a request after it has waited for so many seconds."""

    group: str
    after: float

    @property
    def words(self) -> str:
        """The escalation as written in rules."""
        return f"escalate to {self.group} after {as_typed(self.after)}"


@dataclass(frozen=True, slots=True)
class Approvers:
    """Conditions on who may approve, besides the number of people.

    Only members of `group` count; without one, anybody does. If `author` is false, nobody behind the
    session counts (G-77). Members of the group of an `escalation` count once a request is escalated;
    without `group` the escalation only notifies them. With `passkey` an approval counts only with a proof
    by a passkey that its person enrolled (G-105).
    """

    group: str | None = None
    author: bool = True
    escalation: Escalation | None = None
    passkey: bool = False

    @property
    def guards(self) -> bool:
        """True if some people's approvals do not count."""
        return self.group is not None or not self.author or self.passkey

    def groups(self, *, escalated: bool = False) -> tuple[str, ...]:
        """Groups whose members count; empty if everybody does."""
        if self.group is None:
            return ()
        others = (self.escalation.group,) if escalated and self.escalation is not None else ()
        return (self.group, *others)

    def counts(self, groups: Collection[str], *, escalated: bool = False) -> bool:
        """Return whether the approval of a person in these groups counts."""
        eligible_groups = self.groups(escalated=escalated)
        return not eligible_groups or not {*eligible_groups}.isdisjoint(groups)

    @property
    def words(self) -> str:
        """The conditions as written in rules, after the number of people."""
        parts = [
            "" if self.group is None else f"of {self.group}",
            "" if self.author else "not by author",
            "" if self.escalation is None else self.escalation.words,
            PASSKEY if self.passkey else "",
        ]
        return " ".join(filter(None, parts))

    def is_as_strict(self, other: Approvers | None) -> bool:
        """Return whether everybody who counts here, now or later, also counts for `other`."""
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
        """The escalation, if it makes more people count."""
        return None if self.group is None else self.escalation


ANYBODY = Approvers()


def are_as_strict(one: Approvers | None, other: Approvers | None) -> bool:
    """Compare like `is_as_strict`, for conditions that may be absent."""
    return (one or ANYBODY).is_as_strict(other)


def some_of(people: int, group: str | None) -> str:
    """`2 of security`, or `2 people`."""
    if group is not None:
        return f"{people} of {group}"
    return "1 person" if people == 1 else f"{people} people"
