"""Key names shown on screen, read from the bindings and the operator's own keymap.

No text names a key directly. Footer, help, palette and hints use this module, so that the keys shown are
the keys that work.
"""

from __future__ import annotations

import string
from collections.abc import Iterator

from textual._context import active_app
from textual.binding import Binding
from textual.content import Content
from textual.dom import DOMNode
from textual.keys import (
    _character_to_key,  # pyright: ignore[reportPrivateUsage] - Textual has no public API
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
"""Actions of the approval dialog that do not decide. All its other actions count as decisions."""
_WORDS = {"enter": "enter", "backspace": "backspace"}
_ASCII_WORDS = {"up": "up", "down": "down", "left": "left", "right": "right"}


TRIAGE_DECIDING = frozenset({"triage.approve", "triage.deny", "triage.grant"})
"""Deciding actions of the triage table, most of whose actions decide nothing."""


def decides(binding: str) -> bool:
    """Return whether an action makes a decision that cannot be undone."""
    if binding == "confirm.yes" or binding in TRIAGE_DECIDING:
        return True
    return binding.startswith("approval.") and binding not in NOT_DECIDING


def display_key(key: str, display: str | None = None) -> str:
    """Return a key as written on screen: `a`, `?`, `^s`, `enter`, `↑` or, in ASCII, `up`."""
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
    """Return whether a key is typed as text into a widget and so does not run an action.

    Textual's conversion of key names to characters lacks some, such as `/` and `+`.
    """
    return into.check_consume_key(key, key_to_character(key) or _TYPED.get(key))


def bindings_of(owner: type[DOMNode]) -> Iterator[Binding]:
    """Yield a class's own and inherited bindings. A binding of two keys is yielded twice."""
    # Textual has no public API for the bindings of a class.
    merged = owner._merged_bindings  # pyright: ignore[reportPrivateUsage]
    if merged is not None:
        for _, binding in merged:
            yield binding


def name_of(binding: Binding) -> str:
    """Return the first key that a binding has now, as written on screen."""
    chosen = _chosen(binding.id or "")
    return chosen[0] if chosen else display_key(binding.key.split(",")[0], binding.key_display)


def _chosen(binding_id: str) -> list[str]:
    """Return the operator's own keys for an action, if any."""
    app = active_app.get(None)
    if app is None:
        return []
    # Textual has no public API for the keymap that was set.
    keys = app._keymap.get(binding_id)  # pyright: ignore[reportPrivateUsage]
    return [display_key(key) for key in keys.split(",")] if keys else []


def keys_of(owner: type[DOMNode], binding_id: str) -> list[str]:
    """Return the names of the keys that a binding of `owner` has now.

    Raises `LookupError` for an id that `owner` does not have.
    """
    found = [b for b in bindings_of(owner) if b.id == binding_id]
    if not found:
        raise LookupError(f"{owner.__name__} has no binding '{binding_id}'")
    return _chosen(binding_id) or [display_key(b.key, b.key_display) for b in found]


def key_of(owner: type[DOMNode], binding_id: str) -> str:
    """Return the first key of a binding, as written on screen."""
    return keys_of(owner, binding_id)[0]


def hints(screen: DOMNode, *parts: tuple[str, str] | str) -> Content:
    """Return `^s starts · esc cancels`, for example: keys of `screen` with their effects, which can be
    clicked.

    A part is a binding's id with its label, or a text for a key that cannot be changed.
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
    """Return a text that runs an action of its screen when it is clicked."""
    named = action if action.startswith(("app.", "screen.")) else f"screen.{action}"
    return Content.styled(text, Style.from_meta({"@click": named}))
