"""Values that a command gives to its own variables, as far as its text shows.

A command such as `sed -n "${n}p"` or `git checkout $branch` is analysed as if its variables held what
such variables usually hold. If the same text gives them something else, the command is unclear.
"""

from __future__ import annotations

import re

_EXPANSION = re.compile(r"\$(?:(\w+|[@*])|\{(\w+|[@*])[^}]*\})")
_GIVEN_BY = (
    r"\b(?:read|mapfile|readarray|printf|getopts|select|for|declare|local|typeset|export|readonly|let|set)\b"
    r"[^;|&\n]*(?<![\w$])"
)
_NUMBER = r"[\d+*/ -]*"
_HARMLESS = {
    "number": re.compile(_NUMBER),
    "text": re.compile(r"[\w .:@%+,=^~-]*"),
    "word": re.compile(r"(?!-)[\w./:@%+,=^~-]*"),
}
_COUNTED = re.compile(r"\s+in\s+(?:[\d ]+|\$\(seq [\d ]+\)|\{\d+\.\.\d+\})\s*(?:;|\n|$)")
_VALUE = re.compile(
    r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|(\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`)|([^\s;&|()]*)""", re.DOTALL
)
_SAYS = re.compile(
    r"(?<![\w.-])(?:echo|printf|print|base64|base32|xxd|tr|rev|date|basename|dirname|expr|perl|python3?)(?![\w-])"
    r"|jq +-\w*n|BEGIN|--format|--pretty|<<"
)
_PRINTS = re.compile(r"\b(?:echo|printf|print|base64|base32|xxd)\b|<<")
_POSITIONAL = re.compile(r"\bset\b|\(\)|\bfunction\b|\b(?:ba|z|da|k)?sh\b[^;|&\n]*-\w*c\b")


_ENDS = frozenset(("", " ", "\t", "\n", ";", "&", "|", ")", "}", '"', "'", "`"))


def variables(word: str) -> list[str]:
    """Names of the variables in a word; digits, `@` and `*` for the arguments of a function or script."""
    return [found[1] or found[2] for found in _EXPANSION.finditer(word)]


def prints(word: str) -> bool:
    """Return whether a substitution in a word prints a text that it is given."""
    return ("(" in word or "`" in word) and _PRINTS.search(word) is not None


def holds(name: str, kind: str, text: str) -> bool:
    """Return whether a variable holds only values of this kind, judged by its assignments in `text`.

    Its earlier value, and what a program prints about files, are assumed to be of this kind.
    """
    if not name.isidentifier():
        return _POSITIONAL.search(text) is None
    if name not in text:
        return True
    for found in re.finditer(rf"(?:^|(?<=[\s;&({{\"'`])){name}(?:\[[^]]*\])?\+?=", text):
        if not _plain(text, found.end(), kind):
            return False
    for found in re.finditer(rf"{_GIVEN_BY}{name}\b(?!\+?=)", text):
        if not (found[0].startswith("for") and _COUNTED.match(text, found.end())):
            if found[0].split()[0] in {"declare", "local", "typeset", "export", "readonly"}:
                continue
            return found[0].startswith("for") and kind != "number" and _listed(text, found.end(), kind)
    return re.search(rf"\$\{{{name}:?=", text) is None


def _listed(text: str, at: int, kind: str) -> bool:
    """Return whether a loop iterates over words of a kind; a glob stands for files of the directory."""
    words = re.compile(r"\s+in\s+([^;\n]*)").match(text, at)
    return words is not None and all(
        _HARMLESS[kind].fullmatch(word.strip('*?"')) is not None
        or (word.startswith("$") and not _SAYS.search(words[1]))
        for word in words[1].split()
    )


def _plain(text: str, at: int, kind: str) -> bool:
    value = _VALUE.match(text, at)
    if value is None or text[value.end() : value.end() + 1] not in _ENDS:
        return False
    single, double, command, bare = value.groups()
    if command is not None:
        return not _SAYS.search(command)
    content = single if single is not None else double if double is not None else bare
    if double is not None and "$(" in double:
        return not _SAYS.search(double)
    return (
        _HARMLESS[kind].fullmatch(re.sub(r"\$\(\([^()]*\)\)|\$\w+|\$\{\w+\}", "1", content)) is not None
    )
