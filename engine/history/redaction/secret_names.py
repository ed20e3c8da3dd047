"""Sensitive names, such as `dbPassword`, whose values are secrets, and their ends in a text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

NAMES = (
    "access key",
    "account key",
    "api key",
    "api keys",
    "apikeys",
    "app key",
    "application key",
    "auth key",
    "auth salt",
    "auth",
    "authtok",
    "authkey",
    "authorization",
    "bw session",
    "client key data",
    "client secret",
    "connection string",
    "consumer key",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "decryption key",
    "deploy key",
    "encryption key",
    "fernet key",
    "function key",
    "functions key",
    "github oauth",
    "gitlab oauth",
    "hmac key",
    "instrumentation key",
    "jwt key",
    "license key",
    "logged in key",
    "master key",
    "nonce key",
    "otp",
    "pass phrase",
    "pass",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "passwort",
    "pat",
    "preshared key",
    "private key",
    "psk",
    "pw",
    "pwd",
    "recovery key",
    "recovery phrase",
    "secret key base",
    "secret key",
    "secret string",
    "secret",
    "secrets",
    "seed phrase",
    "service role key",
    "sessid",
    "shared key",
    "signing key",
    "ssh key",
    "storage key",
    "subscription key",
    "token",
    "totp",
    "unseal key",
    "webhook key",
)
"""A field is sensitive if its name ends with the words of one of these: `dbPassword`, `X-Api-Key`."""

_ENDINGS = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "sessid",
    "sessionid",
    "dbpass",
    "dbpwd",
    "keypass",
    "rootpass",
    "sshpass",
    "storepass",
    "userpass",
)
"""A word with such an ending is sensitive too: `PGPASSWORD`, `authtoken`."""

_JOINED = {"pat": ("_pat",)}
"""Text to search in place of a last word that begins too many other words."""

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
_BEHIND = re.compile(r"[0-9_.-]{0,62}+(?=[\\\"' \t\r\n:=>/])")
"""Characters from a name's last word to its end, before one that a value may follow."""
_BEFORE_NAME = frozenset(" \t\r\n\"'(,{[<&?;") | {""}
"""Characters that may precede a name, so they are not part of one."""


class TellingNames:
    """Sensitive names, whose values are masked. `also` are further names besides `NAMES`."""

    def __init__(self, also: Iterable[str] = ()) -> None:
        self._names = frozenset(_words(name) for name in (*NAMES, *also)) - {()}
        self._by_sight = _by_sight(self._names)
        self.sights = frozenset(self._by_sight)
        """Words in lower case; a text with a sensitive name has at least one of them."""
        self._alone = {*_ENDINGS, *(name[0] for name in self._names if len(name) == 1)}
        self._alone |= {each for joined in _JOINED.values() for each in joined}
        """Last words that are sensitive without another word before them."""
        self.telling = lru_cache(maxsize=4096)(self._telling)

    def _telling(self, name: str) -> bool:
        """Return whether the value of a field with this name is a secret."""
        words = _words(latin(name).removeprefix("-D"))  # as in options that set Java properties
        return bool(words) and (
            words[-1].endswith(_ENDINGS)
            or any(words[-size:] in self._names for size in range(1, len(words) + 1))
        )

    def ends(self, lower: str, signs: Collection[str]) -> list[int]:
        """Return the ends of names that may be sensitive: of all that are, and of some others.

        `lower` is the text in lower case; `signs` has those of `sights` that are in it.
        """
        positions: list[int] = []
        for sight, words in self._by_sight.items():
            if sight in signs:
                for word in words:
                    _add_ends(lower, word, positions, alone=word in self._alone)
        return sorted(positions)


_LATIN = str.maketrans(
    {
        **dict(
            zip(
                "авеѕіјкмнорстухԁһьѵԝАВЕЅІЈКМНОРСТУХԜ",
                "abesijkmhopctyxdhbvwABESIJKMHOPCTYXW",
                strict=True,
            )
        ),
        **dict(zip("αειικνορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aeiikvoptuxwABEZHIKMNOPTYX", strict=True)),
        **{chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)},
    }
)


def latin(text: str) -> str:
    """Return `text` with look-alike letters replaced by Latin ones; the same object if it is ASCII."""
    return text if text.isascii() else text.translate(_LATIN)


def lowered(text: str) -> str:
    """Return `text` in lower case, each character at its position."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.replace("İ", "I").lower()  # only this one grows


def _add_ends(lower: str, word: str, positions: list[int], *, alone: bool) -> None:
    """Add the ends of names with this last word. A plain search is the fastest if there are few.

    Unless `alone`, a name must have another word before it, as `key` has in `api_key`.
    """
    at = lower.find(word)
    while at >= 0:
        before = lower[at - 1 : at]
        at += len(word)
        if alone or before not in _BEFORE_NAME:
            end = _BEHIND.match(lower, at)
            if end is not None:
                positions.append(end.end())
        at = lower.find(word, at)


def _by_sight(names: Collection[tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Return the last words of `names`, by a text that is in every text with them.

    Words with the same beginning share it. A word that ends only one name is found by the longest word of
    that name.
    """
    last = {*_ENDINGS, *(name[-1] for name in names)}
    sights: dict[str, str] = {}
    for word in last:
        matching_names = [name for name in names if name[-1] == word]
        sights[word] = max(matching_names[0], key=len) if len(matching_names) == 1 else word
    words_by_start: dict[str, dict[str, str]] = {}
    for word, sight in sorted(sights.items()):
        if not any(word != other and word.endswith(other) and sights[other] in word for other in last):
            start = next((start for start in words_by_start if sight.startswith(start)), sight[:3])
            words_by_start.setdefault(start, {})[word] = sight
    words_by_sight = {
        _shared_prefix(start, words.values()): tuple(words) for start, words in words_by_start.items()
    }
    for word, joined_words in _JOINED.items():
        if words_by_sight.pop(word, None) is not None:
            words_by_sight |= {each: (each,) for each in joined_words}
    return words_by_sight


def _shared_prefix(start: str, sights: Collection[str]) -> str:
    """Return the prefix that all `sights` with this beginning share: a longer one is found faster."""
    shortest = min(sights, key=len)
    return shortest if all(sight.startswith(shortest) for sight in sights) else start


def _words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, without a number at its end."""
    words = [word.lower() for word in _WORDS.split(name) if word]
    while words and words[-1].isdigit():
        words.pop()
    return (*words[:-1], words[-1].rstrip("0123456789")) if words else ()
