"""Messages about faults in a rule's options: who approves, how long, how risky, and `when`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from lark import Token

from ..parse.durations import LIMITS, MOST, ONE_UNIT, joined, nearest_duration
from ..parse.grammar import Grammar, LineReading, Unexpected
from ..parse.lines import code, write
from ..parse.statements import HUMAN, MAX_PEOPLE
from .approver_errors import GROUP
from .fault import Fault, closest, either, start
from .problems import quote

TIME = f"a time such as 90s, 15m, 1h or 2d, at most {MOST}"
PEOPLE = f"a number of people from 1 to {MAX_PEOPLE}"

_KEYWORDS = ("by", "of", "within", "risk", "no", "not", "escalate", "with", "when", "because")
_OPTION = {
    **dict.fromkeys(("when", "whenever", "if", "where", "while", "iff"), "when"),
    **dict.fromkeys(("within", "timeout", "expires", "expire", "expiring"), "within"),
    **dict.fromkeys(("risk", "risky"), "risk"),
    **dict.fromkeys(("by",), "by"),
    **dict.fromkeys(("of", "from-group", "group"), "of"),
    **dict.fromkeys(("not", "not-by"), "not by author"),
    **dict.fromkeys(("escalate", "escalates", "escalation"), "escalate"),
    **dict.fromkeys(("with", "passkey", "passkeys", "with-passkey", "webauthn"), "with passkey"),
    **dict.fromkeys(("no", "grants", "no-grants", "no-grant", "nogrants", "no_grants"), "no grants"),
    **dict.fromkeys(("high-risk", "highrisk"), "risk high"),
    **dict.fromkeys(("medium-risk", "mediumrisk"), "risk medium"),
    **dict.fromkeys(("low-risk", "lowrisk"), "risk low"),
    **dict.fromkeys(("because", "since", "reason", "why"), "because"),
}
_RISK = {
    **dict.fromkeys(("critical", "severe", "hi", "danger", "dangerous", "3"), "high"),
    **dict.fromkeys(("normal", "med", "moderate", "mid", "2"), "medium"),
    **dict.fromkeys(("minor", "none", "lo", "1"), "low"),
}
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER = {word: str(number) for number, word in enumerate(_NUMBERS, 1)}
_EXAMPLES = {
    "NUMBER": "2",
    "DURATION": "15m",
    "LOW": "high",
    "GRANTS": "grants",
    "REASON": '"<reason>"',
    "GROUP": "security",
    "AUTHOR": "author",
    "PASSKEY": "passkey",
}
_END = "$END"
_WHAT = {
    "NUMBER": PEOPLE,
    "DURATION": TIME,
    "CONDITION": "a condition",
    "GROUP": GROUP,
    "REASON": "a text in double quotes",
    _END: "the end of the line",
}


def people(line: str, words: Sequence[Token]) -> Fault | None:
    """Fault of a line that states a number of people in the wrong words."""
    text = [word.lower() for word in words[:4]] + [""] * 4
    if text[0] != "require" or not words[2:] or words[1] == HUMAN:
        return None
    if text[1] in {f"{HUMAN}s", "human-aproval", "human_approval"} and text[2] == "before":
        message = f"expected '{HUMAN}', got {quote(words[1])}"
        return Fault.at(words[1], message, write(line, start(words[1]), len(words[1]), HUMAN))
    number = _NUMBER.get(text[1], text[1])
    if re.fullmatch(r"[+-]?[0-9][0-9.]*", number) is None or not text[2].startswith("human"):
        return None
    apart = text[2] == "human" and text[3].startswith("approval")
    whole = number == words[1] and number.isdigit() and words[2] in {HUMAN, f"{HUMAN}s"}
    if whole or not (apart or closest(text[2], [HUMAN, f"{HUMAN}s"], 0.8)):
        return None
    last = words[3] if apart else words[2]
    begin, end = start(words[1]), start(last) + len(last)
    kind = HUMAN if number == "1" else f"{HUMAN}s"
    message = f"expected '<N> {HUMAN}s', got {quote(line[begin:end])}"
    few = number.isdigit() and len(number) < 9 and 1 <= int(number) <= MAX_PEOPLE
    remedy = write(line, begin, end - begin, f"{number} {kind}") if few else f"write {PEOPLE}"
    return Fault(begin, end - begin, message, remedy)


def misfit(line: str, reading: LineReading, shape: Sequence[str], grammar: Grammar) -> Fault | None:
    """Fault of words behind a rule that is complete without them; `None` if there are none."""
    unexpected = reading.misfit
    if unexpected is None or unexpected.position <= len(shape):
        return None
    before = reading.words[unexpected.position - 2]
    if before.type == "REASON":
        return behind_reason(line, unexpected.word, before)
    fault = _nearly(line, unexpected, grammar)
    if fault is None and unexpected.position > len(shape) + 1:
        fault = _tail(line, unexpected, before, grammar)
    return fault


def behind_reason(line: str, word: Token, reason: Token) -> Fault:
    """Fault of a word behind the text of a `because`, which ends its rule."""
    if word == "because":
        return Fault.at(word, "a rule has one 'because'", "join the two texts")
    at = line.rfind("because", 0, start(reason))
    clause, tail = line[at : start(reason) + len(reason)], code(line)[start(word) :].strip()
    if _OPTION.get(word.lower()) is not None:
        message = f"{quote(word)} must come before 'because'"
        return Fault.at(word, message, write(f"{line[:at]}{tail} {clause}", 0, 0, ""))
    message = f"'because' and its text end a rule, got {quote(word)}"
    return Fault.at(word, message, "remove it, or make it a comment with '#'")


def _nearly(line: str, unexpected: Unexpected, grammar: Grammar) -> Fault | None:
    """Fault of a word that is nearly an option, or an option of another rule."""
    word = unexpected.word
    found = re.fullmatch(r"([^:=(]*)([:=(]?)(.*)", word.lower(), re.DOTALL)
    name, sign, value = found.groups() if found else ("", "", "")
    option = _OPTION.get(name)
    if option is None and len(name) > 3:
        option = closest(name, _KEYWORDS, 0.75)
    granting = re.match(r"\s*grants?\b", line[start(word) + len(word) :]) is not None
    if name == "no" and not granting:
        return None
    if option == "when" and not sign and unexpected.accepted == (_END,):
        message = "a map has no 'when': it gives names, and rules say what they mean"
        return Fault.at(word, message, "write the condition behind the rule that has the map's name")
    if option == "because" and unexpected.accepted == (_END,):
        message = "only a rule has a 'because': maps and 'allow' block nothing"
        return Fault.at(word, message, "write it behind the rule, or make it a comment with '#'")
    known = [k for k in _KEYWORDS if k in {grammar.fixed(terminal) for terminal in unexpected.accepted}]
    if option is None or not known:
        return None
    keyword = option.split()[0]
    if keyword not in known:
        message = f"{quote(option)} is an option of 'require {HUMAN} before <tool>'"
        return Fault.at(word, message, f"write a rule of its own: require {HUMAN} before <tool> {option}")
    message = f"expected {_listed([*map(quote, known), 'the end of the line'])}, got {quote(word)}"
    if sign == "(":
        return Fault.at(word, message, write(line, start(word), len(name), f"{option} "))
    instead = f"{option} {word[len(name) + 1 :]}" if sign and value else option
    if option == "no grants" and granting:
        instead = "no"
    return Fault.at(word, message, write(line, start(word), len(word), instead))


def _tail(line: str, unexpected: Unexpected, before: Token, grammar: Grammar) -> Fault:
    """Fault of a word that follows an option, or of an incomplete option."""
    word = unexpected.word
    pairs = [(grammar.fixed(terminal), terminal) for terminal in unexpected.accepted]
    # The grammar has some of these words in other statements too, and therefore in another order.
    pairs.sort(key=lambda pair: _KEYWORDS.index(pair[0]) if pair[0] in _KEYWORDS else len(_KEYWORDS))
    kinds = [quote(f) if f else _WHAT.get(t, "a word") for f, t in pairs]
    expected = f"expected {_listed(kinds)} after {quote(before)}"
    if word.type != _END:
        return Fault.at(
            word, f"{expected}, got {quote(word)}", "remove it, or make it a comment with '#'"
        )
    end = len(code(line))
    instead = next((_EXAMPLES[t] for t in unexpected.accepted if t in _EXAMPLES), None)
    remedy = 'write for example: when input.<field> = "<text>"'
    if instead is not None:
        remedy = write(line, end, 0, f" {instead}")
    return Fault(end, 1, f"{expected}, got the end of the line", remedy)


def misplaced(line: str, word: Token, accepted: Sequence[str], fixed: Sequence[str]) -> Fault | None:
    """Fault of a word where a part of an option is expected; `None` in any other position."""
    if "DURATION" in accepted and "SESSION" not in accepted:
        instead, otherwise = nearest_duration(str(word)), f"write {TIME}"
        message = f"expected {TIME}, got {quote(word)}"
        if joined(word) is not None:
            message = f"{ONE_UNIT}, got {quote(word)}"
        if word.isascii() and word.isdigit():
            message = f"the time {quote(word)} has no unit: expected s, m, h or d"
            unit = re.match(r"\s+([a-z]+)\b", line[start(word) + len(word) :])
            apart = nearest_duration(word + unit[1]) if unit else None
            if unit and apart:
                message = f"a time is one word, got {quote(word + unit[0])}"
                length = len(word) + unit.end()
                return Fault(start(word), length, message, write(line, start(word), length, apart))
    elif "NUMBER" in accepted and "WORD" not in accepted:
        instead, otherwise = _NUMBER.get(word.lower()), f"write {PEOPLE}"
        message = f"expected {PEOPLE}, got {quote(word)}"
    elif "GRANTS" in accepted:
        instead, otherwise = "grants", ""
        message = f"expected 'grants' after 'no', got {quote(word)}"
    elif "GROUP" in accepted:
        instead, otherwise = None, "write for example: of security"
        message = f"expected {GROUP}, got {quote(word)}"
    elif "AUTHOR" in accepted:
        instead, otherwise = "author", ""
        message = f"expected 'author' after 'not by', got {quote(word)}"
    elif "PASSKEY" in accepted:
        instead, otherwise = "passkey", ""
        message = f"expected 'passkey' after 'with', got {quote(word)}"
    elif "LOW" in accepted:
        instead, otherwise = _RISK.get(word.lower()) or closest(word, fixed), f"write {either(fixed)}"
        message = f"expected {either(fixed)} after 'risk', got {quote(word)}"
    elif "REASON" in accepted:
        return no_text(line, word)
    else:
        return None
    remedy = write(line, start(word), len(word), instead) if instead else otherwise
    return Fault.at(word, message, remedy)


def no_text(line: str, word: Token) -> Fault:
    """Fault of a reason without quotes, with other quotes, or with only one."""
    end = len(code(line))
    text = line[start(word) : end]
    if not text:
        message = "expected a text in double quotes after 'because', got the end of the line"
        return Fault(end, 1, message, write(line, end, 0, ' "<reason>"'))
    if word.startswith('"'):
        message = f"the text {quote(text)} has no closing quote"
        return Fault.at(word, message, write(line, start(word), len(text), f'{text}"'))
    inside = text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text
    message = f"'because' takes a text in double quotes, got {quote(text)}"
    quoted = json.dumps(inside, ensure_ascii=False)
    return Fault(start(word), len(text), message, write(line, start(word), len(text), quoted))


def no_reason(word: Token, length: int, most: int) -> Fault:
    """Fault of a reason that is empty, or too long for a sentence."""
    if length:
        message = f"a reason has at most {most} characters, got {length}"
        return Fault.at(word, message, "say it shorter")
    return Fault.at(
        word, "the text after 'because' is empty", "say why the rule is there, or leave it out"
    )


def no_time(word: Token) -> Fault:
    """Fault of a time that is zero, or more than a year."""
    message = f"a time is {LIMITS}, got {quote(word)}"
    return Fault.at(word, message, f"write {TIME}")


def no_people(line: str, word: Token) -> Fault:
    """Fault of a number of people that is zero, or too large."""
    instead = str(MAX_PEOPLE) if word.strip("0") else "1"
    remedy = write(line, start(word), len(word), instead)
    return Fault.at(word, f"expected {PEOPLE}, got {quote(word)}", remedy)


def twice(line: str, option: Token, last: Token) -> Fault:
    """Fault of an option that was given before."""
    begin, end = start(option), start(last) + len(last)
    gap = begin - len(line[:begin].rstrip())
    whole = {"no": "no grants", "not": "not by author", "with": "with passkey"}
    name = whole.get(str(option), str(option))
    remedy = write(line, begin - gap, end - begin + gap, "")
    return Fault(begin, end - begin, f"'{name}' is given twice", remedy)


def _listed(kinds: Sequence[str]) -> str:
    *others, last = kinds
    return f"{', '.join(others)} or {last}" if others else last
