"""Placeholders: text in the position of a secret that reveals nothing about it."""

from __future__ import annotations

import re
from sys import maxsize

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,60}"
_PLACEHOLDER = re.compile(
    r"(?:(?:Bearer|Basic|token) )?(?:"
    r"\$[A-Z_][A-Z0-9_]{0,60}"
    rf"|\$\{{{_NAME}(?::?\?[a-z ]{{0,60}})?\}}"
    r"|%[A-Z_]{1,60}%"
    r"|\$?\{\{(?:[A-Za-z_. |]{0,80}\}\})?"
    r"|<[A-Za-z][A-Za-z _-]{0,60}>|\[[A-Za-z][a-z _-]{0,60}\]"
    r"|x{3,80}|X{3,80}|\*{3,80}|\.{3}|\u2026|[Yy](?:our|OUR)[ _-][A-Za-z _-]{1,60}|REDACTED"
    r"|(?:[Nn]one|[Nn]ull|yes|no|on|off|enabled|disabled|required|optional|missing|invalid|expired|accepted)"
    r"[.,;]?"
    r"|(?:files|compat|sss|systemd)(?: (?:files|compat|sss|systemd|ldap|nis|db|winbind)){0,5}"
    r"|id=[\w.-]{1,60}(?:,(?:src|source|type|env)=[\w./~-]{1,100}){0,3}"
    r"|- name: [a-z0-9.-]{1,60}|\$\(cat [\w./~-]{1,100}\)|(?:YES|NO)\)?|public"
    r"|(?:raise|return|throw)(?: [A-Za-z.]{1,60}\(?)?"
    r"|\{\s?\"type\": ?\"string\""
    r"(?:, ?\"(?:format|title|description)\": ?\"[A-Za-z .,'-]{1,100}\"){0,3}\s?\}"
    r"|[<>]{1,2}|\"\":?|'':?"
    r")"
)
_TYPE = re.compile(
    r"(?:str|string|String|bytes|SecretStr|&str|Optional\[str\])(?: \| (?:None|null|undefined))?"
    r"(?:[;,]|\)(?: -> [A-Za-z_.\[\]| ]{1,60})?:?|(?: = None)[,)]?)?"
)
_REFERENCE = re.compile(
    r"(?:await|(?:await )?(?:"
    r"(?:self|this|process\.env|os|getpass|var|local|secrets|env|config|settings|request|args|options"
    r"|response|data|module|random_password|params|props|ctx|context|opts|creds|event|form)"
    rf"(?:\.{_NAME}|\[\\{{0,3}}[\"']?{_NAME}\\{{0,3}}[\"']?\]|\((?:[\"']?{_NAME}[\"']?)?\)?){{1,6}}"
    r"|[A-Za-z_.]{1,60}\((?:[A-Za-z_., ]{0,60}|\w{1,40}=(?:True|False|None|\d{1,6}))\)"
    r"|(?:getpass|input|prompt)(?:\.getpass)?\([\"'][A-Z][A-Za-z ]{0,40}: ?[\"']\)?"
    r"));?"
)
"""Source of a secret in code: an environment variable, a field, a call with only names."""
_LONGEST = 200


def is_placeholder(text: str, start: int = 0, end: int = maxsize) -> bool:
    """Return whether `text` from `start` to `end` names or stands for a secret and has none itself."""
    return min(end, len(text)) - start <= _LONGEST and any(
        kind.fullmatch(text, start, end) is not None for kind in (_PLACEHOLDER, _TYPE, _REFERENCE)
    )
