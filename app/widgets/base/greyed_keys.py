"""Keys that cannot act now: greyed in the bar, and when one is pressed, the operator is told why."""

from __future__ import annotations

from typing import TypeAlias

from ...terminal.charset import visible
from .typed_app import TypedApp

Parameters: TypeAlias = tuple[object, ...]


class GreyedKeys(TypedApp):
    """Base before a screen's or a widget's own: the actions that it offers, and those that cannot act.

    An action that is not offered has no key in the bar. One that is, and cannot act now, is greyed. Its
    key, its name in the bar and the help say its obstacle; so does the key of a hidden one that has one.
    """

    def offers(self, action: str, parameters: Parameters = ()) -> bool:
        """Tell whether an action belongs here at all."""
        return True

    def obstacle(self, action: str, parameters: Parameters = ()) -> str | None:
        """Reason why an action that is offered cannot act now; `None` when it can."""
        return None

    def check_action(self, action: str, parameters: Parameters) -> bool | None:
        """False hides a key, `None` greys it."""
        if not self.offers(action, parameters):
            return False
        return None if self.is_mounted and self.obstacle(action, parameters) is not None else True

    def tell_obstacle(self, action: str, parameters: Parameters) -> bool:
        """Tell the operator why an action cannot act, if that is so; returns whether it is."""
        if self.check_action(action, parameters):
            return False
        reason = self.obstacle(action, parameters)
        if reason is not None:
            self.show_obstacle(visible(reason))
        return reason is not None

    def show_obstacle(self, reason: str) -> None:
        """Show the reason in a notice; a key that is held down shows it once."""
        # Textual has no public way to the notices on screen.
        notices = self.app._notifications  # pyright: ignore[reportPrivateUsage]
        if all(each.message != reason for each in notices):
            self.app.notify(reason, markup=False)
