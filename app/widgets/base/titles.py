"""Titles in the border of a widget."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget


def entitle(widget: Widget, title: Content | None = None, *, subtitle: Content | None = None) -> None:
    """Set a title, a subtitle or both, if they differ from the current ones.

    Textual repaints the whole widget whenever one is set.
    """
    if title is not None and title.markup != (widget.border_title or ""):
        widget.border_title = title
    if subtitle is not None and subtitle.markup != (widget.border_subtitle or ""):
        widget.border_subtitle = subtitle
