"""Keys that cannot act now: greyed in the key bar; pressing one shows the reason."""

from __future__ import annotations

from typing import TypeAlias

from ...terminal.charset import visible
from .typed_app import TypedApp

Parameters: TypeAlias = tuple[object, ...]


class GreyedKeys(TypedApp):
    """Mixin before a screen's or widget's base: offered actions, and obstacles to them.

    The key of an action that is not offered is hidden. An offered action that has an obstacle is greyed.
    Its key, its label in the bar and the help show the obstacle; so does the key of a hidden action that
    has one.
    """

    def offers(self, action: str, parameters: Parameters = ()) -> bool:
        """Return whether an action is available here at all."""
        return True

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Return the reason why an offered action cannot act now; `None` if it can."""
        return None

    def check_action(self, action: str, parameters: Parameters) -> bool | None:
        """Return `False` to hide a key and `None` to grey it."""
        if not self.offers(action, parameters):
            return False
        return None if self.is_mounted and self.obstacle(action, parameters) is not None else True

    def tell_obstacle(self, action: str, parameters: Parameters) -> bool:
        """Show the operator why an action cannot act, and return whether there was such a reason."""
        if self.check_action(action, parameters):
            return False
        reason = self.obstacle(action, parameters)
        if reason is not None:
            self.show_obstacle(visible(reason))
        return reason is not None

    def show_obstacle(self, reason: str) -> None:
        """Show the reason in a notice. A key that is held down shows it once."""
        # Textual has no public API for the notices on screen.
        notices = self.app._notifications  # pyright: ignore[reportPrivateUsage]
        if all(each.message != reason for each in notices):
            self.app.notify(reason, markup=False)
