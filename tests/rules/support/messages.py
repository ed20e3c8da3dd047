"""The complete messages about faulty rules."""

from __future__ import annotations

from collections.abc import Callable

EMPTY = "empty regex pattern"
EXAMPLE = 'write for example: when input.<field> = "<text>"'
TIME = "write a time such as 90s, 15m, 1h or 2d, at most 365d"
SCALAR = "a text, a number, true, false or null"
PATTERN = "a pattern between slashes"
FOLDER = "a folder in double quotes"
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
    return f"a regex must be between two slashes, got '{word}'"


def no_flag(flags: str) -> str:
    return f"unknown regex flag '{flags}', expected 'i' or nothing after the last '/'"


def re2(said: str) -> str:
    return f"unsupported or malformed regex: {said}"


def no_operator(word: str) -> str:
    known = "'=', '!=', '<', '<=', '>', '>=', 'in', 'contains', 'matches', 'under', or 'from'"
    return f"unknown operator '{word}'. Expected {known}"


def no_option(word: str, after: str = "") -> str:
    behind = f" after '{after}'" if after else ""
    options = "'by', 'of', 'within', 'risk', 'no', 'not', 'escalate', 'with', 'when', 'because'"
    return f"expected {options} or the end of the line{behind}, got '{word}'"


def no_time(word: str) -> str:
    return f"expected a time such as 90s, 15m, 1h or 2d, at most 365d, got '{word}'"


def one_unit(word: str) -> str:
    return f"a time is one number and one unit, got '{word}'"


def time_range(word: str) -> str:
    return f"a time is at least 1s and at most 365d, got '{word}'"


def no_people(word: str) -> str:
    return f"expected a number of people from 1 to 10, got '{word}'"


def no_join(after: str, word: str) -> str:
    return f"expected 'and', 'or', 'because' or the end of the line after '{after}', got '{word}'"


def no_input(word: str) -> str:
    return f"a comparison begins with a field 'input.<field>', got '{word}'"


def no_quotes(word: str) -> str:
    return f"a text must be in double quotes, got '{word}'"


def compares(operator: str, takes: str, got: str) -> str:
    return f"'{operator}' compares with {takes}, got {got}"


def no_comparison(after: str) -> str:
    return f"expected a comparison after '{after}', got the end of the line"
