"""Messages about faults in a condition; `statement_errors` has those for the rest of a rule."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from lark import Token

from ...engine.core.rule import RESERVED
from ...engine.core.sources import USER
from ..parse.lines import code, write
from ..parse.patterns import PatternError, no_pattern
from ..parse.statements import HUMAN
from .fault import Fault, closest, either, start
from .field_errors import in_single_quotes, misnamed
from .option_errors import behind_reason, no_text
from .problems import cut, quote

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in", "contains", "matches", "under", "from")
EXAMPLE = 'write for example: when input.<field> = "<text>"'
_WORDS = OPERATORS[6:]
_OPTIONS = {"by", "of", "within", "risk", "no", "escalate", "with"}

_MEANT = {
    **dict.fromkeys(("==", "===", ":", ":=", "is", "eq", "equals", "equal", "are"), "="),
    **dict.fromkeys(("!==", "<>", "~=", "ne", "neq", "isnt", "isn't", "differs"), "!="),
    **dict.fromkeys(("=~", "~", "~~", "match", "regex", "like", "matching", "search"), "matches"),
    **dict.fromkeys(("!~", "!=~"), "not matches"),
    **dict.fromkeys(("=<", "≤", "le", "lte"), "<="),
    **dict.fromkeys(("=>", "≥", "ge", "gte"), ">="),
    **dict.fromkeys(("lt", "less", "below"), "<"),
    **dict.fromkeys(("gt", "greater", "above"), ">"),
    **dict.fromkeys(("has", "includes", "include", "containing", "contain"), "contains"),
    **dict.fromkeys(("within", "inside", "beneath"), "under"),
    **dict.fromkeys(("one-of", "oneof", "among", "any-of"), "in"),
}
_LITERALS = {
    **dict.fromkeys(("true", "yes"), "true"),
    **dict.fromkeys(("false", "no"), "false"),
    **dict.fromkeys(("null", "none", "nil", "undefined"), "null"),
}
_QUANTIFIERS = {
    **dict.fromkeys(("all", "each", "every"), "every"),
    **dict.fromkeys(("some", "any", "one", "exists"), "any"),
}
_JOINS = {"&&": "and", "&": "and", "||": "or", "|": "or", "and": "and", "or": "or", ",": "and"}
_SOURCES = f"write for example: input.<field> not from {USER}, <tool>"
_PEOPLE = {"users", "human", "humans", "person", "people", "operator", "operators", "prompt"}
_KINDS = {
    "TEXT": "a text",
    "NUMBER": "a number",
    "TRUE": "'true'",
    "FALSE": "'false'",
    "NULL": "'null'",
    "REGEX": "a pattern",
    "LSQB": "a list",
}
_EXAMPLES = {
    "MATCHES": "matches /<pattern>/",
    "UNDER": 'under "<folder>"',
    "IN": 'in ["a", "b"]',
    "LSQB": '["a", "b"]',
    "COMMA": '["a", "b"]',
}
_PRESENCE = re.compile(
    r"(?:(?:is|was|are)\s+)?(?P<not>not\s+|doesn't\s+)?"
    r"(?:present|set|given|there|defined|exists?|(?P<none>missing|absent|unset|undefined|empty))(?![\w-])",
    re.IGNORECASE,
)
"""Other wordings of `is present` and, with `not` or with one of the last, `is missing`."""
_END = "$END"


def unexpected(
    line: str, begin: int, words: Sequence[Token], word: Token, names: Iterable[str] = ()
) -> Fault:
    """Fault of `word`, which cannot follow `words`; it is empty at the end of the line.

    `begin` is where the condition starts, `names` are the names of values.
    """
    if word.type != _END and word.startswith('"') and word.type == "WORD":
        return _unclosed(line, word)
    before = words[-1].type if words else "AND"
    if before == "BECAUSE":
        return no_text(line, word)
    if len(words) > 1 and words[-2].type == "BECAUSE":
        return behind_reason(line, word, words[-1])
    negated = before == "NOT" and len(words) > 1 and words[-2].type == "FIELD"
    bracket = still_open(words, "LSQB", "RSQB")
    if negated or before == "FIELD":
        return _no_operator(line, words, word, negated=negated)
    if before in {"OPERATOR", "IN", "CONTAINS", "MATCHES", "UNDER"}:
        near = closest(word, names, 0.75) if word.type == "WORD" else None
        if near is not None:
            message = f"no 'let' gives {quote(word)} a value"
            return Fault.at(word, message, _swap(line, word, near))
        return no_value(line, words[-1], word)
    if before == "FROM" or (before == "COMMA" and bracket is None):
        return no_source(line, words[-1], word)
    if before in {"LSQB", "COMMA"}:
        return no_value(line, words[-1], word)
    if bracket is not None:
        return in_list(line, bracket, words[-1], word)
    if before in {"AND", "OR", "NOT", "LPAR", "EVERY", "ANY"}:
        return _no_field(line, words, word)
    return _after_comparison(line, begin, words, word)


def still_open(words: Sequence[Token], opening: str, closing: str) -> Token | None:
    """The last opening word that nothing closes."""
    opened: list[Token] = []
    for word in words:
        if word.type == opening:
            opened.append(word)
        elif word.type == closing and opened:
            opened.pop()
    return opened[-1] if opened else None


def _got(word: Token) -> str:
    return "the end of the line" if word.type == _END else quote(word)


def _at(line: str, word: Token, message: str, remedy: str) -> Fault:
    """A fault of all of `word`, or of the end of the line."""
    if word.type == _END:
        return Fault(len(code(line)), 1, message, remedy)
    return Fault.at(word, message, remedy)


def _swap(line: str, word: Token, instead: str) -> str:
    end = start(word) + len(word)
    gap = 0 if instead else line[end : end + 1].isspace()
    return write(line, start(word), len(word) + gap, instead)


def _unclosed(line: str, word: Token) -> Fault:
    message = f"the text {quote(word)} has no closing quote"
    if word.endswith("\\"):
        return Fault.at(word, message, r'a \ at its end is written \\, and then comes a "')
    closed = re.match(r'"[^\s"\\)#]*', word)
    whole = closed[0] if closed else word.rstrip()
    return Fault.at(word, message, write(line, start(word), len(whole), f'{whole}"'))


def _no_operator(line: str, words: Sequence[Token], word: Token, *, negated: bool) -> Fault:
    field = words[-1]
    if not negated:
        misnaming = misnamed(line, field) or in_single_quotes(line, field)
        if misnaming is not None:
            return misnaming
    quantifier = next((w for w in words[-3:-1] if w.type in {"EVERY", "ANY"}), None)
    if quantifier is not None and word.type == "PRESENCE":
        message = f"{quote(word)} is about a field, not about its elements"
        return Fault.at(word, message, _swap(line, quantifier, ""))
    known = _WORDS if negated else OPERATORS
    after = "'not'" if negated else quote(field)
    if word.type in {_END, "AND", "OR", "RPAR", "COMMA", "RSQB"}:
        message = f"expected an operator after {after}, got {_got(word)}"
        if negated:
            return _at(line, word, message, f"expected {either(known)}")
        at = start(field) + len(field)
        return _at(line, word, message, write(line, at, 0, " = true"))
    if word.type in {"TEXT", "NUMBER", "TRUE", "FALSE", "NULL", "REGEX", "LSQB"}:
        sign = {"REGEX": "matches", "LSQB": "in"}.get(word.type, "contains" if negated else "=")
        message = f"expected an operator between {after} and {quote(word)}"
        return Fault.at(word, message, write(line, start(word), 0, f"{sign} "))
    if negated and word.type == "OPERATOR":
        message = f"'not' before {quote(word)}: only {either(known)} can be negated this way"
        opposite = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}[str(word)]
        length = start(word) + len(word) - start(field)
        return Fault.at(word, message, write(line, start(field), length, opposite))
    message = f"unknown operator {quote(word)}. Expected {either(known)}"
    if word.type in {"EVERY", "ANY"} and not negated:
        turned = f"{word} {line[start(field) : start(word)].rstrip()} "
        length = start(word) + len(word) - start(field)
        remedy = write(line, start(field), length, turned.rstrip())
        return Fault.at(word, f"{quote(word)} must come before the field", remedy)
    there = _PRESENCE.match(line[start(word) :])
    if there is not None and not negated:
        turned_round = (there["not"] is not None) != (there["none"] is not None)
        instead = "is missing" if turned_round else "is present"
        return Fault.at(word, message, write(line, start(word), there.end(), instead))
    meant = _MEANT.get(word.lower()) or closest(word, _WORDS)
    turned = re.match(r"not\s+(in|contains|matches|under|from)\b", line[start(word) :], re.IGNORECASE)
    if turned is not None:
        remedy = write(line, start(word), turned.end(), turned[0].lower())
        return Fault.at(word, message, remedy)
    if meant is None and word.lower() in OPERATORS:
        meant = word.lower()
    text = re.match(r'\s+"([^"\\#]+)"', line[start(word) + len(word) :])
    edge = word.lower().replace("-", "").replace("_", "").rstrip("s")
    if edge in {"startswith", "endswith", "startwith", "endwith", "beginswith"} and text is not None:
        body = f"{_escaped(text[1])}$" if edge.startswith("end") else f"^{_escaped(text[1])}"
        remedy = write(line, start(word), len(word) + text.end(), f"matches /{body}/")
        return Fault.at(word, message, remedy)
    if meant is not None and meant.endswith("matches") and text is not None:
        remedy = write(line, start(word), len(word) + text.end(), f"{meant} /{_escaped(text[1])}/")
        return Fault.at(word, message, remedy)
    if meant is None or (negated and meant not in _WORDS):
        return Fault.at(word, message, EXAMPLE)
    return Fault.at(word, message, _swap(line, word, meant))


def no_source(line: str, sign: Token, word: Token) -> Fault:
    """Fault of a word that cannot be a source of values."""
    message = f"expected a source after {quote(sign)}, got {_got(word)}"
    if word.type in {_END, "RPAR", "AND", "OR", "COMMA", "RSQB", "BECAUSE"}:
        return _at(line, word, message, f"write '{USER}', the names of tools, or both with ',' between")
    if word.type == "LSQB":
        inside = re.match(r"\[([^\[\]#]*)\]", line[start(word) :])
        remedy = write(line, start(word), inside.end(), inside[1].strip()) if inside else _SOURCES
        return Fault.at(word, f"the sources after {quote(sign)} must not be in brackets", remedy)
    if word.type == "FIELD":
        message = f"'from' takes '{USER}' and names of tools, got the field {quote(word)}"
        return Fault.at(word, message, _SOURCES)
    return Fault.at(word, message, f"if a tool has that name, {_swap(line, word, _quoted(word))}")


def wrong_source(line: str, word: Token, name: str) -> Fault | None:
    """Fault of a source that is not a tool's name; `None` for a valid one."""
    if name in RESERVED:
        message = f"{quote(name)} is not a tool, so it has no results"
        return Fault.at(word, message, _SOURCES)
    if not name.strip() or any(sign.isspace() for sign in name):
        return Fault.at(word, f"a source is '{USER}' or a tool, got {quote(word)}", _SOURCES)
    if word.type == "WORD" and name.lower() in _PEOPLE:
        message = f"what people say in a session comes from '{USER}', got {quote(word)}"
        return Fault.at(word, message, _swap(line, word, USER))
    return None


def value_as_source(line: str, name: Token) -> Fault:
    """Fault of a name behind `from` that stands for a value instead of sources."""
    message = f"{quote(name)} is a value; 'from' takes '{USER}' and names of tools"
    return Fault.at(name, message, f"if a tool has that name, {_swap(line, name, _quoted(name))}")


def no_value_but_sources(line: str, field: Token, sign: Token, name: Token, *, negated: bool) -> Fault:
    """Fault of a name behind an operator that stands for sources instead of a value."""
    turned = "not " if negated or sign == "!=" else ""
    begin, end = start(field) + len(field), start(name) + len(name)
    message = f"{quote(name)} stands for sources, which only 'from' takes, got {quote(sign)}"
    return Fault.at(name, message, write(line, begin, end - begin, f" {turned}from {name}"))


def wrong_member(line: str, word: Token, path: Sequence[str], tool: str) -> Fault | None:
    """Fault of a member of results; `None` for a valid one."""
    if tool == USER:
        message = f"what a person says has no members, got {quote(word)}"
        return Fault.at(word, message, f"write '{USER}' alone")
    if not all(name.strip() for name in path):
        message = f"expected the name of a member of the results, got {quote(word)}"
        return Fault.at(word, message, f"write: <member> of {cut(tool)}")
    return None


def no_value(line: str, sign: Token, word: Token) -> Fault:
    what = {"MATCHES": "a pattern", "UNDER": "a folder", "IN": "a list"}.get(sign.type, "a value")
    if sign.type == "IN" and word.type == "LPAR":
        message = "a list must be in brackets, got '('"
        body = line[start(word) :]
        inside = re.match(r"\(([^()]*)\)", body)
        remedy = f"write: [{inside[1].strip()}]" if inside else 'write for example: ["a", "b"]'
        if inside:
            remedy = write(line, start(word), inside.end(), f"[{inside[1].strip()}]")
        return Fault.at(word, message, remedy)
    message = f"expected {what} after {quote(sign)}, got {_got(word)}"
    if word.type in {_END, "RPAR", "RSQB", "COMMA", "AND", "OR"} or word == "/":
        example = _EXAMPLES.get(sign.type, f'{sign} "<text>"')
        return _at(line, word, message, f"write for example: {example}")
    if word.startswith("/"):
        return _no_regex(line, word)
    if word.type == "FIELD":
        message = f"a field is compared with a value, not with the field {quote(word)}"
        return Fault.at(word, message, f"if a text is meant, {_swap(line, word, _quoted(word))}")
    literal = _LITERALS.get(word.lower())
    if word.type == "WORD" and literal is not None:
        return Fault.at(word, message, _swap(line, word, literal))
    if word.type == "WORD" and word.startswith("="):
        return Fault.at(word, f"unknown operator {quote(sign + word)}", _swap(line, word, ""))
    if word.type == "OPERATOR":
        return Fault.at(word, message, _swap(line, word, ""))
    return _bare(line, word, what)


def _bare(line: str, word: Token, noun: str) -> Fault:
    """Fault of a text with wrong quotes or none. Words of a pattern need slashes."""
    single = re.match(r"'([^'#]*)'", line[start(word) :])
    if single is not None:
        length, inside = single.end(), single[1]
        message = f"a text must be in double quotes, got {quote(single[0])}"
    else:
        length, inside = len(word), str(word)
        message = f"a text must be in double quotes, got {quote(word)}"
    instead = _quoted(inside)
    if noun == "a pattern":
        message = f"a pattern must be between two slashes, got {quote(line[start(word) :][:length])}"
        instead = f"/{_escaped(inside)}/"
    elif noun == "a list":
        message = f"a list must be in brackets, got {quote(line[start(word) :][:length])}"
        instead = f"[{instead}]"
    remedy = write(line, start(word), length, instead)
    return Fault(start(word), length, message, remedy)


def _no_regex(line: str, word: Token) -> Fault:
    """Fault of a word that begins with a slash and is not a pattern."""
    rest = line[start(word) :]
    comment = rest.find("#")
    closing = rest.rfind("/", 1)
    if comment > 0 and closing > comment and word.count("/") == 1:
        remedy = r"'#' starts a comment everywhere: write \x23 for it in a pattern"
        return Fault.at(word, f"the pattern {quote(word)} has no closing slash", remedy)
    if word.rfind("/") == 0:
        end, before = len(code(line)), line[: start(word)]
        for _ in range(before.count("(") - before.count(")")):
            end -= line[:end].endswith(")")
        remedy = write(line, end, 0, "/")
        return Fault.at(word, f"the pattern {quote(word)} has no closing slash", remedy)
    return Fault.at_part(word, no_pattern(str(word)))


def in_list(line: str, bracket: Token, before: Token, word: Token) -> Fault:
    if word.type == _END:
        remedy = write(line, len(code(line)), 0, "]")
        return Fault.at(bracket, "'[' is not closed", remedy)
    if word.type in {"RPAR", "AND", "OR"}:
        remedy = write(line, start(word), 0 if word.type != "RPAR" else 1, "] " if word != ")" else "]")
        return Fault.at(word, f"expected ',' or ']', got {quote(word)}", remedy)
    message = f"expected ',' or ']' before {quote(word)}"
    return Fault.at(word, message, write(line, start(before) + len(before), 0, ","))


def _no_field(line: str, words: Sequence[Token], word: Token) -> Fault:
    after = f" after {quote(words[-1])}" if words else ""
    if word.type == _END or word.type in {"AND", "OR", "RPAR", "OPERATOR", "COMMA", "RSQB", "LSQB"}:
        return _at(line, word, f"expected a comparison{after}, got {_got(word)}", EXAMPLE)
    if word.type != "WORD":
        message = f"a comparison begins with a field, got {quote(word)}"
        flipped = re.match(r"\s*(!?=)\s*(input\.[\w.-]+)", line[start(word) + len(word) :])
        if flipped is None:
            return Fault.at(word, message, EXAMPLE)
        instead = f"{flipped[2]} {flipped[1]} {word}"
        return Fault.at(word, message, write(line, start(word), len(word) + flipped.end(), instead))
    if word.startswith("!"):
        return Fault.at(
            word, f"expected a comparison{after}, got {quote(word)}", _swap(line, word, "not ")
        )
    misnaming = misnamed(line, word)
    if misnaming is not None:
        return misnaming
    lower = word.lower()
    if lower in {"not", "and", "or"}:
        return Fault.at(
            word, f"expected a comparison{after}, got {quote(word)}", _swap(line, word, lower)
        )
    if lower.strip(".") == "input":
        message = f"{quote(word)} is all of a call's input; a comparison begins with a field of it"
        return Fault.at(word, message, EXAMPLE)
    if ".." in word or word.endswith("."):
        message = f"a field's names are separated by single dots, got {quote(word)}"
        parts = [part for part in word.split(".") if part]
        instead = ".".join(parts if parts[:1] == ["input"] else ["input", *parts])
        return Fault.at(word, message, _swap(line, word, instead))
    if lower.startswith("input."):
        return Fault.at(word, f"expected 'input.<field>', got {quote(word)}", _swap(line, word, lower))
    if not word[0].isalnum() and word[0] not in "_$@":
        return Fault.at(word, f"expected a comparison{after}, got {quote(word)}", EXAMPLE)
    message = f"a comparison begins with a field 'input.<field>', got {quote(word)}"
    quantifier = _QUANTIFIERS.get(lower)
    if quantifier is not None and re.match(r"\s+input\.", line[start(word) + len(word) :]):
        return Fault.at(word, message, _swap(line, word, quantifier))
    head, dot, rest = word.partition(".")
    is_prefix = dot and head.lower() in {"inputs", "imput", "args", "arguments", "params", "call", "in"}
    return Fault.at(word, message, _swap(line, word, f"input.{rest if is_prefix else word}"))


def _after_comparison(line: str, begin: int, words: Sequence[Token], word: Token) -> Fault:
    if word.type in {"WORD", "TEXT"} and word != "," and _is_source(words):
        message = f"expected ',' before the source {quote(word)}"
        return Fault.at(word, message, write(line, start(words[-1]) + len(words[-1]), 0, ","))
    if words[-1].type == "OF":
        message = f"expected a tool after 'of', got {_got(word)}"
        return _at(line, word, message, "name the tool whose results have the member")
    opened = still_open(words, "LPAR", "RPAR")
    if word.type == _END and opened is not None:
        return Fault.at(opened, "'(' is not closed", write(line, len(code(line)), 0, ")"))
    if word.type == "RPAR":
        return Fault.at(word, "')' closes nothing", _swap(line, word, ""))
    expected = "expected 'and', 'or', 'because' or the end of the line"
    message = f"{expected} after {quote(words[-1])}, got {_got(word)}"
    lower = word.lower()
    if lower in _OPTIONS:
        if HUMAN not in line[:begin]:
            message = f"{quote(word)} is an option of 'require {HUMAN} before <tool>'"
            return Fault.at(word, message, "leave it out")
        tail = code(line)[start(word) :].strip()
        when = line.rfind("when", 0, begin)
        mended = f"{line[:when]}{tail} {line[when : start(word)]}"
        return Fault.at(word, f"{quote(word)} must come before 'when'", write(mended, 0, 0, ""))
    if lower == "when":
        message = "a rule has one 'when'"
        return Fault.at(word, message, _swap(line, word, "and"))
    if lower in _JOINS:
        gap = " " if word == "," else ""
        return Fault.at(word, message, _swap(line, word, gap + _JOINS[lower]))
    if word.type in {"FIELD", "LPAR", "NOT"}:
        return Fault.at(word, message, write(line, start(word), 0, "and "))
    if words[-1].type == "REGEX":
        return Fault.at(
            word, message, r"a slash before a blank ends a pattern: write \/ for one inside it"
        )
    return Fault.at(word, message, "join comparisons with 'and' or 'or'")


def _is_source(words: Sequence[Token]) -> bool:
    """Return whether the last word is a source after `from`."""
    for word in reversed(words[:-1]):
        if word.type not in {"WORD", "TEXT", "COMMA", "OF"}:
            return word.type == "FROM" and words[-1].type in {"WORD", "TEXT"}
    return False


def wrong_value(
    line: str, field: Token, sign: Token, value: tuple[Token, Token], kind: str, *, negated: bool
) -> Fault | None:
    """Fault of a value with which the operator cannot compare; `None` if it can.

    `value` are its first and last word; `kind` is the type of the first word, or of the value of a name.
    """
    operator, (first, last) = str(sign), value
    begin = start(first)
    shown = line[begin : start(last) + len(last)]
    said = f"'{operator}' compares with "
    turned = "not " if negated or operator == "!=" else ""
    whole = start(field) + len(field)
    use = {"REGEX": "matches", "LSQB": "in"}.get(kind)

    def fault(takes: str, remedy: str) -> Fault:
        return Fault(begin, len(shown), f"{said}{takes}, got {_KINDS[kind]}", remedy)

    def by(other: str, value: str) -> str:
        return write(line, whole, begin + len(shown) - whole, f" {turned}{other} {value}")

    match operator:
        case "=" | "!=" | "contains" if use is not None:
            takes = "a text, a number, true, false or null"
            if operator == "contains" and kind == "LSQB":
                return fault(takes, "compare with one, and join comparisons with 'or'")
            return fault(takes, by(use, shown))
        case "<" | "<=" | ">" | ">=" if kind not in {"TEXT", "NUMBER"}:
            return fault("a number or a text", by(use or "=", shown))
        case "in" if kind != "LSQB" and first.type == "NAME":
            return fault("a list", f"write: let {shown} = [<value>, <value>]")
        case "in" if kind != "LSQB":
            return fault("a list", by(use, shown) if use else by("in", f"[{shown}]"))
        case "matches" | "under" if kind == "LSQB":
            what = "a folder in double quotes" if operator == "under" else "a pattern between slashes"
            return fault(what, "compare with one, and join comparisons with 'or'")
        case "matches" if kind != "REGEX":
            if kind == "TEXT" and first.type != "NAME":
                return fault("a pattern between slashes", by("matches", f"/{_escaped(shown[1:-1])}/"))
            return fault("a pattern between slashes", by("=", shown))
        case "under" if kind != "TEXT":
            if kind == "REGEX" and first.type != "NAME":
                folder = re.fullmatch(r"[\w/.@-]+", shown)
                other = by("under", f'"{shown}"') if folder else by("matches", shown)
                return fault("a folder in double quotes", other)
            return fault("a folder in double quotes", by("=", shown))
        case _:
            return None


def empty_folder(word: Token) -> Fault:
    message = f"'under' compares with a folder, got {quote(word)}"
    return Fault.at(word, message, 'write under "." for the working directory')


def no_scalar(word: Token) -> Fault:
    message = "a list contains texts, numbers, true, false and null"
    return Fault.at(word, message, 'write for example: ["a", "b"]')


def too_deep(word: Token, most: int) -> Fault:
    message = f"a condition goes at most {most} parentheses and 'not's deep"
    return Fault.at(word, message, "write a simpler one, or several rules")


def bad_escape(word: Token, error: json.JSONDecodeError) -> Fault:
    remedy = r"a text in quotes has JSON's escapes; a backslash itself is written \\"
    return Fault(start(word) + error.pos, 1, f"not a JSON string: {error.msg}", remedy)


def too_large(word: Token) -> Fault:
    return Fault.at(word, f"the number {quote(word)} is too large", "write a smaller one")


def bad_pattern(word: Token, error: PatternError) -> Fault:
    return Fault.at_part(word, error)


def _quoted(text: str) -> str:
    return json.dumps(cut(text), ensure_ascii=False)


def _escaped(text: str) -> str:
    """A text as a pattern that matches it."""
    return re.sub(r"([\\.^$|?*+()\[\]{}/])", r"\\\1", text).replace("#", r"\x23")
