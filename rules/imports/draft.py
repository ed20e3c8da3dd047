"""Rules being made from permissions of another program, and what could not be carried over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...engine.core.sanitize import visible

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SPECIAL = re.compile(r"[^A-Za-z0-9_-]")
_ARGUMENTS = r"(?:[ \t]+[\w.\/=:@,+%-]*)*"
"""Arguments of an allowed command: only characters that every shell reads as part of a word."""


class PermissionsError(ValueError):
    """A file of permissions that cannot be read; the message names place and remedy."""


@dataclass(slots=True)
class Draft:
    """Lines of rules, each with the entry that it comes from; `skipped` are entries with a reason."""

    maps: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    rules: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    skipped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    carried: int = 0
    _names: set[str] = field(default_factory=set[str])

    def add(self, entry: str, *rules: str) -> None:
        """Add the rules of an entry."""
        self.carried += 1
        self.rules += [(entry, rule) for rule in rules if rule not in {known for _, known in self.rules}]

    def add_command(
        self, entry: str, verb: str, words: Sequence[Sequence[str]], *, stars: bool = False
    ) -> None:
        """Add a rule on shell commands that contain these words in this order; each has its alternatives.

        The words may occur anywhere in a command, after a path and with other words between them. With
        `stars`, a star in a word matches any text of the command. Of several rules that one command
        matches the first one added counts, so blocks come first.
        """
        name = self._name(f"{'deny' if verb == BLOCK else 'ask'}-{'-'.join(each[0] for each in words)}")
        alone = words[0] if len(words) == 1 else ()
        if len(alone) == 1 and _PLAIN.fullmatch(alone[0]):
            pattern = alone[0]
        else:
            first, *others = (_either(each, stars=stars) for each in words)
            behind = "".join(rf"(?:\s[^|;&]*)?\s{other}" for other in others)
            pattern = rf"/(?:^|[\s\/]){first}{behind}(?:\s|$)/"
        self.maps.append((entry, f"map Bash.command {pattern} as {name}"))
        self.add(entry, f"{verb} {name}")

    def skip(self, entry: str, reason: str) -> None:
        """Note an entry that the rules do not express."""
        self.skipped.append((entry, reason))

    def _name(self, wish: str) -> str:
        base = re.sub(r"[^A-Za-z0-9]+", "-", wish).strip("-").lower() or "command"
        name, number = base, 2
        while name in self._names:
            name, number = f"{base}-{number}", number + 1
        self._names.add(name)
        return name

    def text(self, sources: Iterable[str]) -> str:
        """The rules file, with what was not carried over at its end."""
        lines = [f"# Initial rules from {visible(', '.join(sources))}. Review them before use."]
        for part in (self.maps, self.rules):
            before = None
            for entry, line in part:
                if entry != before:
                    lines += ["", f"# {_comment(entry)}"]
                before = entry
                lines.append(line)
        if self.skipped:
            lines += ["", "# Not carried over:"]
            lines += [f"# - {_comment(entry)}: {_comment(reason)}" for entry, reason in self.skipped]
        return "\n".join(lines) + "\n"


BLOCK = "block"
ASK = "require human-approval before"


def allowed_command(words: Sequence[Sequence[str]], *, exact: bool = False) -> str:
    """Condition that a field is exactly this command, with arguments unless it is `exact`."""
    command = r"[ \t]+".join(map(_either, words))
    return f"input.command matches /^{command}{'' if exact else _ARGUMENTS}$/"


def escaped(text: str) -> str:
    """A text as a part of a regular expression, without a blank, a slash or a number sign in it."""
    return _SPECIAL.sub(
        lambda found: rf"\x{{{ord(found[0]):x}}}" if _is_odd(found[0]) else rf"\{found[0]}", text
    )


def _is_odd(character: str) -> bool:
    return character.isspace() or character in '#"/' or not character.isascii()


def starred(text: str, any_text: str) -> str:
    """Like `escaped`, with `any_text` in place of each star."""
    return any_text.join(map(escaped, text.split("*")))


def _either(texts: Sequence[str], *, stars: bool = False) -> str:
    each = [starred(text, "[^|;&]*") if stars else escaped(text) for text in texts]
    return each[0] if len(each) == 1 else f"(?:{'|'.join(each)})"


def quoted(text: str) -> str:
    """A text as written in conditions."""
    import json

    return json.dumps(text, ensure_ascii=False)


def _comment(text: str) -> str:
    return visible(" ".join(text.split()))
