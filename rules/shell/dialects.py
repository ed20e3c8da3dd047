"""Commands that other shells than bash run where bash finds none, or a different one.

Only these matter: a text that dash rejects runs nothing (`<(…)`, `<<<`, `|&`, arrays), and a program that
dash calls with other words (`$'a'`) is still the same program.
"""

from __future__ import annotations

import re

from ...engine.core.condition import Shell
from .programs.options import names

_BY_NAME: dict[str, Shell] = {
    "sh": "sh",
    "dash": "sh",
    "ash": "sh",
    "bash": "bash",
    "rbash": "bash",
    "zsh": "zsh",
}
_BUILTINS = names(
    """
    eval trap alias . source mapfile readarray complete compgen hash bind export declare typeset
    readonly local private integer
    """
)

_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|\$\([^()]*\)|\$\{[^{}]*\}|`[^`]*`""", re.DOTALL)
_LISTS = re.compile(r"&&|\|\|?|[;&\n(]")
_OPERATOR = re.compile(r"\s*(?:-[a-zA-Z]+\s|!\s+-[a-zA-Z]+\s|Q\s*\]\]|\[\[)")
_COUNTED = re.compile(r"\s*\w+\s*(?:\+\+|--)\s*|\s*(?:\+\+|--)\s*\w+\s*")
_BOTH_TO = re.compile(
    r"&>>?[ \t]*[^\s;&|<>()]+[ \t]*(?:[<>]|[ \t]\d*[<>][<>&]*\s*\S+[ \t]+\w|[ \t][^\s;&|<>()#}\d])"
)
_QUOTED_ONLY = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_DOLLAR_QUOTE = re.compile(r"\$'(?:[^'\\]|\\.)*?\\'", re.DOTALL)
_ZSH_WORD = re.compile(r"^=|[\^#~]")


def shell_of(program: str, outer: Shell | None) -> Shell | None:
    """Shell that parses a text which `program` runs; builtins use the `outer` shell."""
    return outer if program in _BUILTINS else _BY_NAME.get(program)


def test_in_dash(text: str) -> str | None:
    """Reason why `[[ … ]]`, which in dash is a program's name, may be several commands there."""
    parts = _LISTS.split(_QUOTED.sub("Q", text))
    if all(_OPERATOR.match(part) for part in parts):
        return None
    return "'[[' in it is read in another way by other shells"


def arithmetic_in_dash(text: str) -> str | None:
    """Commands that `((…))` is in dash, which parses it as two subshells."""
    inner = text[2:-2]
    return None if _COUNTED.fullmatch(inner) else inner


def redirection_in_dash(text: str) -> str | None:
    """Reason why a command with `&>` continues behind it, where in dash another command begins."""
    if "&>" in text and _BOTH_TO.search(_QUOTED_ONLY.sub("Q", text)):
        return "'&>' in it is read in another way by other shells"
    return None


def quote_in_dash(text: str) -> str | None:
    """Reason why a text in `$'…'` ends elsewhere than in bash."""
    if text.startswith("$'") and _DOLLAR_QUOTE.match(text):
        return '"$\'" in it is read in another way by other shells'
    return None


def word_in_zsh(program: str) -> str | None:
    """Reason why the name of a program means another one in zsh."""
    if _ZSH_WORD.search(program) and not program.startswith("~/"):
        return f"'{program}' is another program to other shells"
    return None
