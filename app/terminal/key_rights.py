"""The console's actions and the rights they need: others are greyed, and say why they do nothing.

Security does not depend on it: the hub refuses what an operator may not do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from textual.app import App
from textual.dom import DOMNode

from ...engine.core.rights import FULL, Rights, may, refusal
from .keymap import bindings_of, decides

READ_ONLY = "This console is read-only: it changes nothing"

NEEDS: Final[Mapping[str, Rights]] = {
    "always.save": "administer",
    "apply.all": "administer",
    "apply.drop": "administer",
    "apply.new": "administer",
    "approval.always": "administer",
    "approval.give": "administer",
    "approval.grant": "administer",
    "decisions.enforce": "administer",
    "history.continue": "administer",
    "live.approve": "decide",
    "live.claim": "decide",
    "live.compact": "decide",
    "live.deny": "decide",
    "live.extend": "decide",
    "live.interrupt": "decide",
    "live.limit": "administer",
    "live.mark": "decide",
    "live.mode": "administer",
    "live.nets": "administer",
    "live.revoke": "administer",
    "live.start": "administer",
    "live.stop": "decide",
    "live.take_back": "decide",
    "live.together": "decide",
    "nets.drop": "administer",
    "nets.switch": "administer",
    "proposed.drop": "administer",
    "replay.continue": "administer",
    "rules.edit": "decide",
    "shadow.enforce": "administer",
    "start.start": "administer",
    "suggestion.save": "administer",
    "suggestions.save": "administer",
    "triage.alike": "decide",
    "triage.extend": "decide",
    "triage.grant": "administer",
    "triage.mark": "decide",
    "triage.take_back": "decide",
}
"""By their bindings' ids. Any other action that decides needs `decide`, and the rest only looks.

An editor changes files, and many start a shell: whoever is given a read-only console has neither.
"""


@dataclass(frozen=True, slots=True)
class Permission:
    """Rights of a console's operator; `token` names the operator token that limits them, if one does."""

    rights: Rights = FULL
    token: str | None = None

    def refusal(self, needed: Rights) -> str | None:
        """The reason why something is refused; `None` when it is not."""
        if may(self.rights, needed):
            return None
        return READ_ONLY if self.token is None else refusal("This", needed, self.rights, self.token)


def permission_of(app: App[None]) -> Permission:
    """The permission of an app's operator: all of it where nothing else is said."""
    found = getattr(app, "permission", None)
    return found if isinstance(found, Permission) else Permission()


def rights_for(binding: str) -> Rights:
    """The rights that the action of a binding needs."""
    return NEEDS.get(binding) or ("decide" if decides(binding) and binding != "confirm.yes" else "look")


def needed_rights(node: DOMNode, action: str) -> Rights:
    """The rights that a key of `node` with this action needs."""
    if isinstance(node, App):
        return "look"  # what the app does stands on a screen's keys, too
    ids = [binding.id or "" for binding in bindings_of(type(node)) if binding.action == action]
    every = {rights_for(each) for each in ids}
    return "administer" if "administer" in every else "decide" if "decide" in every else "look"
