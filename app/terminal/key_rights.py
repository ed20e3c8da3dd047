"""Rights that the console's actions need. Actions that are not permitted are greyed and say why.

Security does not depend on this: the hub rejects what an operator may not do.
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
"""Rights by binding id. Other actions need `decide` if they decide, otherwise `look`.

An editor changes files and often starts a shell, so an operator with a read-only console has no editor.
"""


@dataclass(frozen=True, slots=True)
class Permission:
    """Rights of a console's operator; `token` names the operator token that limits them, if any."""

    rights: Rights = FULL
    token: str | None = None

    def refusal(self, needed: Rights) -> str | None:
        """Return the reason why an action is refused; `None` if it is permitted."""
        if may(self.rights, needed):
            return None
        return READ_ONLY if self.token is None else refusal("This", needed, self.rights, self.token)


def permission_of(app: App[None]) -> Permission:
    """Return the permission of an app's operator; full rights if the app does not state any."""
    found = getattr(app, "permission", None)
    return found if isinstance(found, Permission) else Permission()


def rights_for(binding: str) -> Rights:
    """Return the rights that a binding's action needs."""
    return NEEDS.get(binding) or ("decide" if decides(binding) and binding != "confirm.yes" else "look")


def needed_rights(node: DOMNode, action: str) -> Rights:
    """Return the rights that a key of `node` with this action needs."""
    if isinstance(node, App):
        return "look"  # screens bind the app's actions too
    ids = [binding.id or "" for binding in bindings_of(type(node)) if binding.action == action]
    every = {rights_for(each) for each in ids}
    return "administer" if "administer" in every else "decide" if "decide" in every else "look"
