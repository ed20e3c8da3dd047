"""Policy of approvals: terms where no rule says otherwise, and the operators whose answers count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..core.approvers import Operator, Operators
from ..core.rights import may
from .passkeys import Passkeys


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Terms of requests where no rule says otherwise.

    `expire` is after how many seconds a request is denied; `None` lets it wait for ever. With
    `own_approvals` those who started a session may be among several people who approve its calls. `fuse`
    is for how many seconds an approval of high risk can be taken back before its call is released. `late`
    is for how many seconds a request stays open whose client has gone (G-102).
    """

    expire: float | None = None
    own_approvals: bool = False
    fuse: float = 0.0
    late: float = 0.0


Needed: TypeAlias = Literal["decide", "administer"]
"""The right that an operator's action takes."""

TokenCheck: TypeAlias = Callable[[str, Needed], bool]
"""Tells whether an operator's token, by its id, may be used now for deciding, or for administering."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The token an operator came with, by its id, and which tokens are in force now (G-77).

    `operator` is who that is, as the server's login has it.
    """

    token: str
    in_force: TokenCheck
    operator: Operator | None = None


@dataclass(slots=True)
class OperatorTokens:
    """The operators there are, and which of their tokens are in force (G-77).

    A server that lets them reach the hub sets `check`; without one no token can be looked up, and none is
    in force. `operators` are those of the configuration, `person` looks up who has logged in at a
    provider, by name. `keys` are the passkeys that operators enrolled.
    """

    check: TokenCheck | None = None
    operators: Operators = field(default_factory=Operators)
    person: Callable[[str], Operator | None] | None = None
    keys: Passkeys | None = None

    def operator(self, name: str, credential: Credential | None = None) -> Operator:
        """The operator of this name, with a `credential`; without one the name is only claimed."""
        known = None if credential is None else credential.operator
        if known is None and self.person is not None:
            known = self.person(name)
        return known or self.operators.find(name)

    def knows(self, name: str) -> bool:
        """Tell whether somebody of this name is listed or has logged in, if any operators are listed."""
        logged_in = self.person is not None and self.person(name) is not None
        return logged_in or not self.operators.configured or self.operators.lists(name)

    def overstepped(self, name: str, credential: Credential | None, needed: Needed) -> str | None:
        """Reason why a person's role does not allow what needs `needed`; `None` where it does."""
        rights = self.operator(name, credential).rights
        if may(rights, needed):
            return None
        return f"The role of {name} is '{rights}', and this needs '{needed}': see [operators]"

    def in_force(
        self,
        token: str | None,
        credential: Credential | None,
        needed: Needed = "decide",
    ) -> bool:
        """Tell whether what a person did with a token still counts, for one who comes with `credential`.

        Without a token it was done here, where the name alone counts.
        """
        if token is None:
            return True
        if credential is not None:
            return credential.in_force(token, needed)
        return self.check is not None and self.check(token, needed)
