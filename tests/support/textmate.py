"""Keywords in the editors' TextMate grammar, generated from the grammars of the language.

`python -m tests.support.textmate` updates them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from interlock.rules.editing.occurrences import CONDITIONS, RULES, SCENARIOS
from interlock.rules.parse import grammar as language
from interlock.rules.parse.grammar import grammar

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"
FILE = EXTENSION / "syntaxes" / "interlock-rules.tmLanguage.json"
_FOLDER = Path(language.__file__).parent
_COMMENT = re.compile(r"//.*")
_LITERAL = re.compile(r'"([a-z]{2,}(?:-[a-z]+)*)"')
_PATTERN_WORDS = {"PRESENCE": ("is", "present", "missing")}
"""Words of terminals that are defined by a pattern."""
CONSTANTS = ("false", "null", "true")


def first_words() -> list[str]:
    """Return the words that begin a line of rules or scenarios."""
    lines = (grammar(RULES), grammar(SCENARIOS))
    words = (each.fixed(terminal) for each in lines for terminal in each.keywords)
    return sorted({word for word in words if word is not None})


def other_words() -> list[str]:
    """Return all other words of the language."""
    found: set[str] = set()
    for file in (RULES, CONDITIONS, SCENARIOS):
        text = _COMMENT.sub("", (_FOLDER / file).read_text("utf-8"))
        found.update(_LITERAL.findall(text))
        for terminal, words in _PATTERN_WORDS.items():
            found.update(words if terminal in text else ())
    return sorted(found - {*CONSTANTS})


def patterns() -> dict[str, str]:
    """Return the patterns of keywords, by their names in the file."""
    return {
        "statement": rf"^\s*({'|'.join(first_words())})(?=\s|$)",
        "constant": rf"(?<=[\s(\[,=])({'|'.join(CONSTANTS)})(?=[\s)\],]|$)",
        "word": rf"(?<=[\s(])({'|'.join(other_words())})(?=[\s(\[]|$)",
    }


def current(text: str) -> str:
    """Return the file's text with the language's present keywords."""
    content = json.loads(text)
    for name, pattern in patterns().items():
        content["repository"][name]["match"] = pattern
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(current(FILE.read_text("utf-8")), encoding="utf-8")
