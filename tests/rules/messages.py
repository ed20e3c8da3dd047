"""What is said of a faulty rule, in full."""

from __future__ import annotations

from collections.abc import Callable

EMPTY = "empty regex pattern"
NO_UNICODE = "the pattern is not valid Unicode"


def _tokens(shape: str, expected: int) -> Callable[[int], str]:
    def message(got: int) -> str:
        return f"'{shape}' expects {expected} tokens, got {got}"

    return message


REQUIRE = _tokens("require <tool> before <tool>", 4)
APPROVAL = _tokens("require human-approval before <tool>", 4)
LIMIT = _tokens("limit <tool> to <N> per <scope>", 6)
BLOCK = _tokens("block <tool>", 2)
MAP = _tokens("map <tool>.<field> <pattern> as <name>", 5)
SHELL_MAP = _tokens("map shell <tool>.<field> <pattern> as <name>", 6)


def unknown(word: str) -> str:
    return f"unknown keyword '{word}'. Expected 'map', 'require', 'limit', or 'block'"


def expected(word: str, position: int, got: str) -> str:
    return f"expected '{word}' at position {position}, got '{got}'"


def no_count(word: str) -> str:
    return f"limit count must be a positive integer, got '{word}'"


def too_many(word: str) -> str:
    return f"limit count must be at most 1000000, got '{word}'"


def itself(tool: str) -> str:
    return f"'{tool}' cannot restore its own budget: it would never be limited"


def no_field(word: str) -> str:
    return f"expected <tool>.<field> (e.g., bash.command), got '{word}'"


def half_field(word: str) -> str:
    return f"tool and field must be non-empty in '{word}'"


def no_regex(word: str) -> str:
    return f"a regex stands between two slashes, got '{word}'"


def no_flag(flags: str) -> str:
    return f"unknown regex flag '{flags}', expected 'i' or nothing after the last '/'"


def re2(said: str) -> str:
    return f"unsupported or malformed regex: {said}"
