"""Widgets and screens whose app has a type: Textual leaves open what an app returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

if TYPE_CHECKING:
    from textual.app import App
    from textual.getters import app as app_of

# A widget among the bases would take the focus away from the one behind it.
_Part = Widget if TYPE_CHECKING else object


class TypedApp(_Part):
    """Base before a widget's own, with the type of its app."""

    if TYPE_CHECKING:
        app: app_of[App[None]]
