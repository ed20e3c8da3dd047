"""Keys that can be told by their look, wherever they stand in a text."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping

from .password_options import password_options
from .private_keys import private_keys
from .spans import Masking, Span
from .telling import lowered


def _key(mark: str, rest: str) -> str:
    """A key that begins with `mark`: not within a word, but for one that is a newline's escape.

    What comes before is looked at behind the mark: a pattern that begins with plain text is found fast.
    """
    plain = re.escape(mark)
    return rf"{plain}(?:(?<![A-Za-z0-9]{plain})|(?<=\\[nrt]{plain})){rest}"


_KEY_FORMATS: Mapping[str, str] = {
    "AKIA": _key("AKIA", r"[A-Z0-9]{16}(?![A-Z0-9])"),
    "ASIA": _key("ASIA", r"[A-Z0-9]{16}(?![A-Z0-9])"),
    "AIza": _key("AIza", r"[A-Za-z0-9_-]{30,}"),
    "gh": _key("gh", r"[pousr]_[A-Za-z0-9]{20,}"),
    "github_pat_": _key("github_pat_", r"[A-Za-z0-9_]{20,}"),
    "glpat-": _key("glpat-", r"[A-Za-z0-9_-]{20,}"),
    "hf_": _key("hf_", r"[A-Za-z0-9]{30,}"),
    "npm_": _key("npm_", r"[A-Za-z0-9]{30,}"),
    "pypi-": _key("pypi-", r"[A-Za-z0-9_-]{30,}"),
    "k_live_": r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))[rs]k_live_[A-Za-z0-9]{16,}",
    "k_test_": r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))[rs]k_test_[A-Za-z0-9]{16,}",
    "sk-": _key("sk-", r"[A-Za-z0-9_-]{16,}"),
    "gsk_": _key("gsk_", r"[A-Za-z0-9]{40,}"),
    "xai-": _key("xai-", r"[A-Za-z0-9]{40,}"),
    "whsec_": _key("whsec_", r"[A-Za-z0-9+/]{20,}=*"),
    "shpat_": _key("shpat_", r"[A-Fa-f0-9]{32,}"),
    "dop_v1_": _key("dop_v1_", r"[a-f0-9]{40,}"),
    "dckr_pat_": _key("dckr_pat_", r"[A-Za-z0-9_-]{20,}"),
    "AGE-SECRET-KEY-1": _key("AGE-SECRET-KEY-1", r"[A-Z0-9]{40,}"),
    "hvs.": _key("hvs.", r"[A-Za-z0-9_-]{20,}"),
    "ya29.": _key("ya29.", r"[A-Za-z0-9_-]{20,}"),
    ":AA": r"(?:(?<=[^0-9])|\A)[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}",
    "SG.": _key("SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    "xox": _key("xox", r"[abeoprs]-[A-Za-z0-9-]{10,}"),
    # Its first part may have hyphens: were it looked for behind each, a long text would take forever.
    "eyJ": (
        r"eyJ(?:(?<![A-Za-z0-9_-]eyJ)|(?<=\\[nrt]eyJ))[A-Za-z0-9_-]{7,}+"
        r"\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
    ),
}
"""Patterns by the text that each has in it."""

_FORMATS = {mark: re.compile(pattern, re.DOTALL) for mark, pattern in _KEY_FORMATS.items()}
_SIGNED = {sign: [mark for mark in _FORMATS if sign in mark] for sign in "-_"}
_DOTTED = ["SG.", "eyJ", "hvs.", "ya29."]
_BY_SIGN: Mapping[str, list[str]] = {
    **_SIGNED,
    ".": _DOTTED,
    "": [mark for mark in _FORMATS if mark not in {*_DOTTED, *_SIGNED["-"], *_SIGNED["_"]}],
}
"""The same by a character that each has in it: most texts lack one of them."""

MARKS = re.compile("|".join(map(re.escape, (*_FORMATS, "-----BEGIN"))))
"""What every text with such a key has in it."""

_SCHEMES = {
    "bearer": re.compile(r"\s{1,8}([A-Za-z0-9+/._~-]{8,}=*)"),
    "basic": re.compile(r"\s{1,8}([A-Za-z0-9+/_-]{6,}=*)"),
}
_ADDRESS = re.compile(r"(://[^\s/:@\"'\\<>]*:)[^\s/\"'\\<>]+(?=@)")
_USER = re.compile(r"(://)[A-Za-z0-9_-]{20,}(?=@)")
_HOOK = re.compile(
    r"(://(?:hooks\.slack\.com/[a-z]{1,20}/|discord(?:app)?\.com/api/webhooks/))[A-Za-z0-9/_-]{20,}"
)
_SIGNATURE = re.compile(
    r"([?&](?:X-(?:Amz|Goog)-Signature|sig|signature)=)[^\s&#\"'\\<>]+", re.IGNORECASE
)


def hide_keys(masking: Masking) -> bool:
    """Hide keys of known formats, and what headers and addresses identify somebody by.

    Whether that hid anything more.
    """
    text = masking.text
    if "-----BEGIN" in text:
        masking.hide(private_keys(text))
    for sign, marks in _BY_SIGN.items():
        if sign in text:
            for mark in marks:
                if mark in text:
                    masking.hide(found.span() for found in _FORMATS[mark].finditer(masking.text))
    lower = lowered(masking.text)
    for scheme in _SCHEMES:
        if scheme in lower and masking.hide(_behind(scheme, masking.text, lower)):
            lower = lowered(masking.text)
    masking.hide(password_options(masking.text, lower))
    if "://" in text:
        _hide_in_addresses(masking)
    return masking.text is not text


def _hide_in_addresses(masking: Masking) -> None:
    """Hide the passwords in addresses, and what alone opens them: a key, a signature."""
    text = masking.text
    for sign, pattern in (("", _ADDRESS), ("@", _USER), ("hooks", _HOOK), ("=", _SIGNATURE)):
        if sign in text:
            masking.hide((found.end(1), found.end()) for found in pattern.finditer(masking.text))


def _behind(scheme: str, text: str, lower: str) -> Iterator[Span]:
    """The spans of what stands behind `Bearer`, or behind `Basic` where it is a name with a password."""
    at = lower.find(scheme)
    while at >= 0:
        end = at + len(scheme)
        found = _SCHEMES[scheme].match(text, end)
        within = at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")
        if found is not None and not within and (scheme == "bearer" or _is_user(found[1])):
            yield found.span(1)
            end = found.end()
        at = lower.find(scheme, end)


def _is_user(key: str) -> bool:
    """Whether a word is a name with a password in Base64, and not one of a sentence."""
    text = key.rstrip("=")
    try:
        return b":" in b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return False
