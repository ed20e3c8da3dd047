"""Policy of approvals: defaults for rules that do not set them, and the operators whose answers count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal, TypeAlias

from ..core.approvers import Operator, Operators
from ..core.people import SessionPeople, involvement_reason
from ..core.rights import lesser, may
from .passkeys import Passkeys


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Terms of requests that rules do not set.

    `expire` is the number of seconds after which a request is denied; with `None` it waits forever. With
    `own_approvals` those who started a session may be among several people who approve its calls. `fuse`
    is the number of seconds for which a high-risk approval can be taken back before its call is released.
    `late` is the number of seconds for which a request without a client stays open (G-102).
    """

    expire: float | None = None
    own_approvals: bool = False
    fuse: float = 0.0
    late: float = 0.0


Needed: TypeAlias = Literal["decide", "administer"]
"""The right that an operator's action needs."""

TokenCheck: TypeAlias = Callable[[str, Needed], bool]
"""Returns whether an operator's token, by its id, may now be used for deciding, or for administering."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The token of an operator, by its id, and a check of which tokens are valid now (G-77).

    `operator` is the operator's identity from the server's login.
    """

    token: str
    in_force: TokenCheck
    operator: Operator | None = None


@dataclass(slots=True)
class OperatorTokens:
    """The known operators, and which of their tokens are valid (G-77).

    A server that gives operators access to the hub sets `check`; without it no token can be looked up,
    and none is valid. `operators` are those of the configuration. `person` looks up by name who has
    logged in at a provider. `elsewhere` looks up the operator who acted with a token at another server,
    as that server last reported, and `reported` whether that token is valid: `None` for any other token.
    `keys` are the passkeys that operators enrolled.
    """

    check: TokenCheck | None = None
    operators: Operators = field(default_factory=Operators)
    person: Callable[[str], Operator | None] | None = None
    elsewhere: Callable[[str], Operator | None] | None = None
    reported: Callable[[str], bool | None] | None = None
    keys: Passkeys | None = None

    def operator(self, name: str, credential: Credential | None = None) -> Operator:
        """Return the operator with this name and `credential`; without one the name is only claimed."""
        known = None if credential is None else credential.operator
        if known is None and self.person is not None:
            known = self.person(name)
        return known or self.operators.find(name)

    def operator_now(self, name: str, token: str | None) -> Operator:
        """Return the current record of an operator who acted earlier, with `token`.

        An operator who acted at another server has the groups of that server, which this one may not
        know, and the lesser role of both.
        """
        here = self.operator(name)
        known = None if token is None or self.elsewhere is None else self.elsewhere(token)
        return here if known is None else replace(known, rights=lesser(known.rights, here.rights))

    def same_login(
        self, person: Operator, names: Iterable[str], tokens: Sequence[str | None] = ()
    ) -> str | None:
        """Return who of `names`, who acted with `tokens`, has this person's login, or `None`.

        Each server names a person at their first login there, so one person may have two names.
        """
        logins = self._logins(person)
        if not logins:
            return None
        acted = zip_longest(names, tokens)
        return next(
            (name for name, token in acted if logins & self._logins(self.operator_now(name, token))), None
        )

    def _logins(self, person: Operator) -> set[str]:
        """Return the identities of an operator at providers: of their login, and as configured."""
        return {each for each in (person.login, self.operators.find(person.name).login) if each}

    def involvement(
        self, person: Operator, name: str, *sessions: SessionPeople, own_approvals: bool = False
    ) -> str | None:
        """Return why a person, who acts as `name`, is behind `sessions`; see `involvement_reason`."""
        own = involvement_reason(name, *sessions, own_approvals=own_approvals)
        if own is not None or own_approvals:
            return own
        people = [each for session in sessions for each in (*session.starters, *session.task_by)]
        other = self.same_login(person, people)
        return other and f"{name} has the login of {other}, and {involvement_reason(other, *sessions)}"

    def knows(self, name: str) -> bool:
        """Return whether this name is listed or has logged in; true if no operators are configured."""
        logged_in = self.person is not None and self.person(name) is not None
        return logged_in or not self.operators.configured or self.operators.lists(name)

    def overstepped(self, name: str, credential: Credential | None, needed: Needed) -> str | None:
        """Return why an operator may not do what needs the right `needed`; `None` if they may.

        Their role must include it, and their token must still be valid.
        """
        rights = self.operator(name, credential).rights
        if not may(rights, needed):
            return f"The role of {name} is '{rights}', and this needs '{needed}': see [operators]"
        if credential is not None and not credential.in_force(credential.token, needed):
            return f"The token of {name} is no longer in force"
        return None

    def in_force(
        self,
        token: str | None,
        credential: Credential | None,
        needed: Needed = "decide",
    ) -> bool:
        """Return whether an action with a token still counts, for the operator with `credential`.

        Without a token the action was done in this process, where the name alone counts.
        """
        if token is None:
            return True
        # The server of whoever acts now does not know tokens of other servers.
        reported = None if self.reported is None else self.reported(token)
        if reported is not None:
            return reported
        if credential is not None:
            return credential.in_force(token, needed)
        return self.check is not None and self.check(token, needed)
