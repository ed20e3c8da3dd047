"""Names of keys on screen, read from the bindings and the operator's own keymap.

No text names a key by itself: footer, help, palette and hints all ask here, so that the keys shown are
those that work.
"""

from __future__ import annotations

import string
from collections.abc import Iterator

from textual._context import active_app
from textual.binding import Binding
from textual.content import Content
from textual.dom import DOMNode
from textual.keys import (
    _character_to_key,  # pyright: ignore[reportPrivateUsage] - Textual has no public way
    format_key,
    key_to_character,
)
from textual.style import Style

from .charset import ascii_only

NOT_DECIDING = frozenset(
    {
        "approval.close",
        "approval.explain",
        "approval.fold",
        "approval.next",
        "approval.passkey",
        "approval.precedent",
    }
)
"""What the approval dialog offers besides deciding. Every other action of it counts as a decision."""
_WORDS = {"enter": "enter", "backspace": "backspace"}
_ASCII_WORDS = {"up": "up", "down": "down", "left": "left", "right": "right"}


TRIAGE_DECIDING = frozenset({"triage.approve", "triage.deny", "triage.grant"})
"""The same for the queue as a table, of whose actions most decide nothing."""


def decides(binding: str) -> bool:
    """Tell whether an action decides something that cannot be taken back."""
    if binding == "confirm.yes" or binding in TRIAGE_DECIDING:
        return True
    return binding.startswith("approval.") and binding not in NOT_DECIDING


def display_key(key: str, display: str | None = None) -> str:
    """A key as it is written on screen: `a`, `?`, `^s`, `enter`, `↑` or, in ASCII, `up`."""
    if display:
        return display
    *modifiers, name = key.split("+")
    words = {**_WORDS, **_ASCII_WORDS} if ascii_only() else _WORDS
    text = words.get(name) or format_key(name)
    if "ctrl" in modifiers:
        modifiers.remove("ctrl")
        text = f"^{text}"
    return "+".join([*modifiers, text])


_TYPED = {_character_to_key(character): character for character in string.punctuation}


def is_typed(into: DOMNode, key: str) -> bool:
    """Tell whether a key is typed as text into a widget, and so runs no action.

    Textual's way back from a key's name to its character misses some, `/` and `+` among them.
    """
    return into.check_consume_key(key, key_to_character(key) or _TYPED.get(key))


def bindings_of(owner: type[DOMNode]) -> Iterator[Binding]:
    """A class's bindings, its own and those it inherits, a binding of two keys twice."""
    # Textual has no public way from a class to them.
    merged = owner._merged_bindings  # pyright: ignore[reportPrivateUsage]
    if merged is not None:
        for _, binding in merged:
            yield binding


def name_of(binding: Binding) -> str:
    """The first key that a binding has now, as it is written on screen."""
    chosen = _chosen(binding.id or "")
    return chosen[0] if chosen else display_key(binding.key.split(",")[0], binding.key_display)


def _chosen(binding_id: str) -> list[str]:
    """The operator's own keys for an action, if there are any."""
    app = active_app.get(None)
    if app is None:
        return []
    # Textual has no public way to the keymap that it was given.
    keys = app._keymap.get(binding_id)  # pyright: ignore[reportPrivateUsage]
    return [display_key(key) for key in keys.split(",")] if keys else []


def keys_of(owner: type[DOMNode], binding_id: str) -> list[str]:
    """The names of the keys that a binding of `owner` has now.

    Raises `LookupError` for an id that `owner` does not have.
    """
    found = [b for b in bindings_of(owner) if b.id == binding_id]
    if not found:
        raise LookupError(f"{owner.__name__} has no binding '{binding_id}'")
    return _chosen(binding_id) or [display_key(b.key, b.key_display) for b in found]


def key_of(owner: type[DOMNode], binding_id: str) -> str:
    """The first key of a binding, as it is written on screen."""
    return keys_of(owner, binding_id)[0]


def hints(screen: DOMNode, *parts: tuple[str, str] | str) -> Content:
    """`^s starts · esc cancels`: effects of `screen`'s keys, to read and to click.

    A part is a binding's id and the words for it, or words alone for a key that cannot be changed.
    """
    shown: list[Content] = []
    for part in parts:
        if isinstance(part, str):
            shown.append(Content(part))
            continue
        binding_id, words = part
        binding = next(b for b in bindings_of(type(screen)) if b.id == binding_id)
        shown.append(clickable(f"{key_of(type(screen), binding_id)} {words}", binding.action))
    return Content(" · ").join(shown)


def clickable(text: str, action: str) -> Content:
    """A text of a screen that does an action of it when it is clicked."""
    named = action if action.startswith(("app.", "screen.")) else f"screen.{action}"
    return Content.styled(text, Style.from_meta({"@click": named}))
