"""Validation of the operator's `[keys]` against every binding before the console opens.

An invalid keymap is rejected as a whole, because a deciding key must never be another one than the
operator believes.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import (
    KEY_ALIASES,
    KEY_NAME_REPLACEMENTS,
    KEY_TO_UNICODE_NAME,
    REPLACED_KEYS,
    Keys,
    _character_to_key,  # pyright: ignore[reportPrivateUsage] - Textual has no public API
)
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from ..config.keys import KeySetting
from ..config.loader import SettingsError
from .key_rights import rights_for
from .keymap import bindings_of, decides, display_key

ACCIDENTAL = ("enter", "space", "escape", "ctrl+j")
"""Keys that are pressed by habit or occur in pasted text, so no decision may be bound to them."""
MODIFIERS = frozenset({"ctrl", "shift", "alt", "super", "meta", "hyper"})


def check_keymap(settings: Sequence[KeySetting]) -> Mapping[str, str]:
    """Return the keymap that `settings` describe. Raises `SettingsError` with every problem."""
    classes = list(classes_with_keys())
    ids = {b.id for owner in classes for b in bindings_of(owner) if b.id}
    problems: list[str] = []
    keymap: dict[str, str] = {}
    where: dict[str, str] = {}
    for setting in settings:
        found = list(_problems(setting, ids))
        problems += [f"{setting.where}: {problem}" for problem in found]
        if not found:
            keymap[setting.binding] = ",".join(map(normalize_key, setting.keys))
            where[setting.binding] = setting.where
    # The effect of rejected settings on other keys is unknown.
    refused = {setting.binding for setting in settings} - set(keymap)
    problems += _clashes(classes, keymap, where, refused)
    if problems:
        raise SettingsError("\n".join(dict.fromkeys(problems)))
    return keymap


def normalize_key(key: str) -> str:
    """Return a key as Textual names it: `?` is `question_mark`, `ctrl+m` is `enter`, `shift+y` is `Y`."""
    *modifiers, name = _parts(key)
    if len(name) == 1:
        name = _character_to_key(name)
    name = KEY_NAME_REPLACEMENTS.get(name, name)
    if modifiers == ["shift"] and len(name) == 1 and name.upper() != name:
        modifiers, name = [], name.upper()
    whole = "+".join([*modifiers, name])
    return _SAME.get(whole, whole)


_SAME = {
    **{alias: key for key, aliases in KEY_ALIASES.items() for alias in aliases},
    "ctrl+left_square_bracket": "escape",
    "return": "enter",
}


def is_key(key: str) -> bool:
    """Return whether a terminal can send a key of this name."""
    *modifiers, name = _parts(key)
    if not set(modifiers) <= MODIFIERS or len(set(modifiers)) < len(modifiers):
        return False
    if len(name) == 1:
        return name.isprintable() and not name.isspace()
    if not name.islower():
        return False
    if name in _NAMED or name in KEY_TO_UNICODE_NAME or name in REPLACED_KEYS:
        return True
    try:
        character = unicodedata.lookup(name.replace("_", " "))
    except KeyError:
        return False
    return character.isprintable() and _character_to_key(character) == name


_NAMED = {
    name
    for key in Keys
    if key.value.replace("+", "").isalnum() and len(name := key.value.split("+")[-1]) > 1
}


def _parts(key: str) -> list[str]:
    """Return modifiers and name; the plus of `ctrl++` or `+` is the name."""
    if key == "+":
        return ["+"]
    return [*key[:-2].split("+"), "+"] if key.endswith("++") else key.split("+")


def _problems(setting: KeySetting, ids: Iterable[str]) -> Iterator[str]:
    binding = setting.binding
    if binding not in ids:
        close = get_close_matches(binding, sorted(ids), n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        yield f"[keys] there is no action '{binding}'; {hint}the console's help shows every name"
        return
    if not setting.keys:
        yield f"[keys] '{binding}' needs a key; remove the line to get the default"
    for key in setting.keys:
        if not is_key(key):
            close = get_close_matches(key, sorted(_NAMED | set(KEY_TO_UNICODE_NAME)), n=1)
            hint = f"did you mean '{close[0]}'?" if close else "write it like 'y', 'ctrl+y', 'f2' or '?'"
            yield f"[keys] '{binding}': there is no key '{key}'; {hint}"
        elif setting.project and (decides(binding) or rights_for(binding) != "look"):
            does = "decides" if decides(binding) else "changes something"
            yield (
                f"[keys] '{binding}' {does}, so its key is allowed in the user's own file only: agents "
                "may write in the working directory; move the line there"
            )
        elif decides(binding) and normalize_key(key) in ACCIDENTAL:
            yield (
                f"[keys] '{binding}' decides, which must be deliberate; '{key}' is pressed too easily. "
                "Choose a letter"
            )


@dataclass(frozen=True, slots=True)
class _Location:
    """Bindings that are active together: a screen's, its possible widgets', and perhaps the app's."""

    name: str
    bindings: tuple[Binding, ...]


def _clashes(
    classes: Sequence[type[DOMNode]],
    keymap: Mapping[str, str],
    where: Mapping[str, str],
    refused: Collection[str],
) -> Iterator[str]:
    """Yield keys that `keymap` gives to an action although another action of the screen has them."""
    seen: set[tuple[str, str, str]] = set()
    usual: dict[str, set[str]] = {}
    for binding in (b for owner in classes for b in bindings_of(owner)):
        usual.setdefault(binding.id or "", set()).add(binding.key)
    for place in _locations(classes):
        holders: dict[str, dict[str, Binding]] = {}
        for binding in (b for b in place.bindings if b.id not in refused):
            chosen = keymap.get(binding.id or "")
            for key in chosen.split(",") if chosen else [binding.key]:
                holders.setdefault(key, {})[binding.id or binding.action] = binding
        for key, held in holders.items():
            # A key that the action had before does not cause a new conflict.
            for mine in [name for name in held if name in keymap and key not in usual[name]]:
                for other, binding in held.items():
                    pair = (key, min(mine, other), max(mine, other))
                    if other == mine or binding.action == held[mine].action or pair in seen:
                        continue
                    seen.add(pair)
                    yield (
                        f"{where[mine]}: [keys] '{mine}': the key '{display_key(key)}' is also "
                        f"'{other}' ({binding.description}) on the same screen; choose another for one "
                        "of them"
                    )


def _locations(classes: Sequence[type[DOMNode]]) -> Iterator[_Location]:
    apps, screens, dialogs = (_of_kind(classes, kind) for kind in (App, Screen, ModalScreen))
    widgets = [c for c in _of_kind(classes, Widget) if c not in screens]
    for screen in screens:
        parts = [w for w in widgets if _shows(screen, w)]
        above = [] if screen in dialogs else apps
        named = [b for owner in (screen, *parts, *above) for b in bindings_of(owner) if b.id]
        yield _Location(screen.__name__, tuple(named))


def _of_kind(classes: Sequence[type[DOMNode]], kind: type[DOMNode]) -> list[type[DOMNode]]:
    return [each for each in classes if issubclass(each, kind)]


def _shows(screen: type[DOMNode], widget: type[DOMNode]) -> bool:
    """Return whether a screen may have such a widget: its module, or a base class's, names the widget."""
    modules = {c.__module__ for c in screen.__mro__ if c.__module__.startswith(_PACKAGE)}
    return any(
        isinstance(each, type) and issubclass(each, widget)
        for module in modules
        for each in vars(sys.modules[module]).values()
    )


_PACKAGE = __name__.split(".terminal.")[0]


def classes_with_keys() -> Iterator[type[DOMNode]]:
    """Yield every app, screen and widget class of the console that has keys."""
    for folder in ("screens", "widgets", "console"):
        package = importlib.import_module(f"{_PACKAGE}.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    waiting: list[type[DOMNode]] = [App, Widget]
    seen: set[type[DOMNode]] = set()
    while waiting:
        for owner in waiting.pop().__subclasses__():
            if owner in seen:
                continue
            seen.add(owner)
            waiting.append(owner)
            if owner.__module__.startswith(_PACKAGE) and any(b.id for b in bindings_of(owner)):
                yield owner
