"""Checks of answers: who may give one, for what, with which grant and passkey, and if it is valid."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from ..core.approvers import Operator, some_of
from ..core.people import is_among, same_person
from ..core.plan import PLAN
from ..core.rights import may
from ..core.rule import people_to_loosen
from ..gate.grants.net import from_subagent
from ..gate.reasons import EDITED_EFFECTS
from ..gate.types import GrantTerms
from ..history.audit.passkeys import ApprovedRequest, KeyProofError
from ..history.model.records import ExtensionRecord, KeyProof
from ..history.model.state import ApprovalState
from .open_request import OpenRequest, OperatorAnswer, Reply, RequestTable, expiry_reason, terms_of
from .passkeys import Challenge
from .policy import Credential, Needed

NO_KEYS = "this hub knows no passkeys, and the rule asks for one"
KEY_GONE = "their passkey was removed"


class AnswerChecks:
    """Checks of the answers to one session's requests; callers hold the request's turn."""

    def __init__(self, table: RequestTable) -> None:
        self._table = table

    def refusal(
        self, open_request: OpenRequest, approval: ApprovalState, answer: OperatorAnswer, by: str
    ) -> str | None:
        """Return why an answer cannot be accepted now; `None` if it can."""
        grant, credential = answer.grant, answer.credential
        if answer.digest not in (None, open_request.digest):
            return "This is not the request that was shown: look again"
        if open_request.fuse is not None and answer.approved:
            when = "it runs in a moment" if approval.late is None else "it waits for its agent"
            return f"{open_request.fuse.answer.by} has approved it already: {when}"
        now = self._table.clock()
        if open_request.fuse is None and approval.expires is not None and now >= approval.expires:
            return f"Too late: {expiry_reason(approval, open_request.since, now)}"
        if not by:
            return "Nobody has decided: an answer needs the name of an operator"
        problem = None
        if answer.approved:
            problem = self._unapprovable(approval, by, credential)
        elif grant is not None:
            problem = "A denial grants nothing"
        if problem is None and grant is not None:
            problem = self._ungrantable(open_request, approval, answer, grant, by)
        if problem is None and answer.approved:
            problem = self._unfit_input(open_request, answer)
        return problem or self._table.tokens.overstepped(by, credential, _needed(answer))

    def _unfit_input(self, open_request: OpenRequest, answer: OperatorAnswer) -> str | None:
        """Return why an approval's edited input cannot be accepted; `None` if it can, or without one."""
        if open_request.requested_input is not None:
            return open_request.requested_input.problem(answer.edited)
        if answer.edited is None or open_request.request.call.tool_name != PLAN:
            return None
        problem = self._table.host.manager.plan_problem(answer.edited)
        return problem and f"Not edited, this is no longer a plan: {problem}"

    def _unapprovable(
        self, approval: ApprovalState, by: str, credential: Credential | None
    ) -> str | None:
        """Return why an operator cannot approve; `None` if they can."""
        unseen = self._unseen(approval, by)
        if unseen is not None or not approval.asks_for:
            return unseen
        tokens = self._table.tokens
        person = tokens.operator(by, credential)
        several = approval.people > 1 or not terms_of(approval).author
        same = self.involvement(approval, by, person) if several else None
        if same is not None:
            return f"{same}: {_others(approval)} must approve"
        outside = self._outside(approval, by, person)
        if outside is not None:
            return outside
        if is_among(by, approval.given):
            return f"{by} has approved already: somebody else must approve too"
        other = tokens.same_login(person, approval.given, approval.tokens)
        if other is not None:
            return f"{by} has approved already, as {other}: somebody else must approve too"
        return None

    def _outside(self, approval: ApprovalState, by: str, operator: Operator) -> str | None:
        """Return why an approval does not count: the operator is in no required group; else `None`."""
        terms, escalated = terms_of(approval), approval.escalated is not None
        if terms.counts(operator.groups, escalated=escalated):
            return None
        groups = " or ".join(terms.groups(escalated=escalated))
        return f"{by} is not in {groups}: {approval.needs} must approve"

    def _ungrantable(
        self,
        open_request: OpenRequest,
        approval: ApprovalState,
        answer: OperatorAnswer,
        grant: GrantTerms,
        by: str,
    ) -> str | None:
        """Return why an approval with these grant terms cannot be accepted; `None` if it can.

        If other people must agree to switching the rule off, one of them must give the grant (G-67).
        """
        refusal = _refused_grant(approval, grant)
        if refusal is not None:
            return refusal
        if not (answer.reason or "").strip():
            return "Nothing granted: say why, the reason is recorded with the grant"
        if people_to_loosen(open_request.request.rule):
            same = self.involvement(approval, by, self._table.tokens.operator(by, answer.credential))
            if same is not None:
                return f"{same}: another person must grant what has a high risk"
        if from_subagent(open_request.request.call) and not grant.subagents:
            return (
                f"A subagent made this call of {approval.called}: the grant must say that it reaches them"
            )
        if answer.edited is not None and open_request.requested_input is None:
            call = replace(open_request.request.call, input=answer.edited)
            if set(self._table.host.manager.names_of(call)) != set(approval.names):
                return f"Nothing can be granted with this edit: {EDITED_EFFECTS}"
        return None

    def _unseen(self, approval: ApprovalState, by: str) -> str | None:
        """Return the reason that an operator must first look at masked text, or `None`."""
        found = self._table.host.shown.approvals.get(approval.id)
        if found is None or not found.hidden or is_among(by, found.revealed):
            return None
        places = ", ".join(dict.fromkeys(hidden.place for hidden in found.hidden))
        return f"What is masked in {places} may be more than a secret: look at it first"

    def involvement(self, approval: ApprovalState, name: str, person: Operator) -> str | None:
        """Return why an operator is not someone other than those behind a request's call, or `None`."""
        sessions = self._table.host.sessions_of(approval.call_id)
        own_approvals = self._table.policy.own_approvals and terms_of(approval).author
        return self._table.tokens.involvement(person, name, *sessions, own_approvals=own_approvals)

    def first_extension(
        self, approval: ApprovalState, by: str, credential: Credential | None
    ) -> ExtensionRecord | None:
        """Return the valid extension that another person proposed before, or `None`."""
        first, tokens = approval.extension, self._table.tokens
        if first is None or same_person(first.by, by):
            return None
        if tokens.same_login(tokens.operator(by, credential), [first.by], [first.token]) is not None:
            return None
        person = tokens.operator_now(first.by, first.token)
        if self.involvement(approval, first.by, person) is not None:
            return None
        return first if tokens.in_force(first.token, credential) else None

    # Passkeys

    def key_challenge(
        self, approval_id: str, digest: str, by: str, origin: str, credential: Credential | None = None
    ) -> Challenge | Reply | None:
        """Return a challenge for an operator's passkey to approve what was shown, or the reason for none.

        Return `None` if the request is over.
        """
        by = by.strip()
        open_request = self._table.open.get(approval_id)
        approval = None if open_request is None else self._table.approval_of(open_request)
        if open_request is None or approval is None:
            return None
        if not approval.passkey:
            return Reply(False, "The rule of this request asks for no passkey")
        problem = self.refusal(
            open_request, approval, OperatorAnswer(True, by, digest=digest, credential=credential), by
        )
        if problem is not None:
            return Reply(False, problem)
        keys = self._table.tokens.keys
        if keys is None:
            return Reply(False, NO_KEYS)
        try:
            return keys.challenge(self._approved(open_request, by), origin)
        except KeyProofError as error:
            return Reply(False, f"Not approved: {error}")

    def proof(self, open_request: OpenRequest, answer: OperatorAnswer, by: str) -> KeyProof:
        """Return the proof of an approving operator's passkey. Raises `KeyProofError`."""
        keys = self._table.tokens.keys
        if keys is None:
            raise KeyProofError(NO_KEYS)
        return keys.prove(self._approved(open_request, by), answer.passkey)

    def _approved(self, open_request: OpenRequest, by: str) -> ApprovedRequest:
        return ApprovedRequest(self._table.host.id, open_request.approval_id, open_request.digest, by)

    def unproved(self, approval: ApprovalState, error: KeyProofError) -> str:
        """Return the message to an operator whose approval has no valid proof."""
        keys = self._table.tokens.keys
        remedy = "" if keys is None else f"; {keys.remedy(approval.id)}"
        return f"Not approved: {error}{remedy}"

    def _holds(self, name: str, key: str | None) -> bool:
        """Return whether the passkey used for an approval still belongs to the operator."""
        keys = self._table.tokens.keys
        return keys is not None and keys.holds(name, key)

    # Earlier approvals

    def lapsed(self, approval: ApprovalState, credential: Credential | None) -> str | None:
        """Return why an earlier approval no longer counts; `None` if all do."""
        tokens = self._table.tokens
        for name, token, key in zip_longest(approval.given, approval.tokens, approval.given_keys):
            person = tokens.operator_now(name, token)
            why = self.involvement(approval, name, person)
            if why is None and not tokens.in_force(token, credential):
                why = f"the token of {name} is no longer in force"
            if why is None:
                why = self._outside(approval, name, person) or _demoted(person, "decide")
            if why is None and approval.passkey and not self._holds(name, key):
                why = KEY_GONE
            if why is not None:
                return f"The approval of {name} no longer counts, {why}"
        return None

    def expired_approval(
        self, approval: ApprovalState, answer: OperatorAnswer, proof: KeyProof | None
    ) -> str | None:
        """Return why an approval that is about to release its call no longer counts, or `None`."""
        by, credential, tokens = answer.by, answer.credential, self._table.tokens
        # The operator may have left the group since, as may those who approved before.
        person = tokens.operator_now(by, credential and credential.token)
        why = self._unapprovable(approval, by, credential) or self._outside(approval, by, person)
        if why is None and credential and not credential.in_force(credential.token, "decide"):
            why = f"the token of {by} is no longer in force"
        needed = _needed(answer)
        # A token that may still decide may no longer be allowed to grant.
        if why is None and credential and not credential.in_force(credential.token, needed):
            why = f"the token of {by} may not '{needed}' any more"
        why = why or _demoted(person, needed)
        if why is None and approval.passkey and not self._holds(by, proof and proof.credential):
            why = KEY_GONE
        if why is not None:
            return f"The approval of {by} no longer counts, {why}"
        return self.lapsed(approval, credential)


def _demoted(person: Operator, needed: Needed) -> str | None:
    """Return why an operator's act does not count: their current role does not allow it."""
    return None if may(person.rights, needed) else f"their role is now '{person.rights}'"


def _needed(answer: OperatorAnswer) -> Needed:
    """Return the right that an answer needs."""
    return "decide" if answer.grant is None else "administer"


def _others(approval: ApprovalState) -> str:
    """Return who must approve if those behind a session do not count, as text."""
    group = terms_of(approval).group
    if group is not None:
        return f"{some_of(approval.people, group)}, other people,"
    return f"{approval.people} other people" if approval.people > 1 else "another person"


def _refused_grant(approval: ApprovalState, grant: GrantTerms) -> str | None:
    """Return why this request cannot give such a grant; `None` if it can."""
    if not approval.may_grant:
        why = "its rule asks for several people" if approval.people > 1 else "its rule says 'no grants'"
        why = "its rule asks for a passkey, each time" if approval.passkey else why
        return f"{approval.tool} cannot be granted beyond this call: {why}"
    if grant.scope == "names" and approval.exact_only is not None:
        return f"Only this exact input can be granted: {approval.exact_only}"
    return None
