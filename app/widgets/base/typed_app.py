"""Type of a widget's app. Textual leaves an app's return type open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

if TYPE_CHECKING:
    from textual.app import App
    from textual.getters import app as app_of

# A widget class among the bases would take the focus away from the class behind it.
_Part = Widget if TYPE_CHECKING else object


class TypedApp(_Part):
    """Mixin before a widget's base, with the type of its app."""

    if TYPE_CHECKING:
        app: app_of[App[None]]
