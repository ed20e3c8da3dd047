"""Faulty scenarios and their messages; « and » enclose the faulty characters."""

from __future__ import annotations

WORD = "a word"
END = "the end of the line"
TEXT = "a text in double quotes"
CLOSED = "a text between two double quotes"
VALUE = "a text in double quotes or a word"
REASON = "a text in double quotes or the end of the line"
ANSWER = "a text in double quotes, 'as', or the end of the line"
MORE = "'fails', a word, or the end of the line"
OUTCOME = "'allow', 'ask', or 'block'"
SWITCH = "'on' or 'off'"
TIME = "a time such as 90s, 15m, 1h or 2d, at most 365d"
MODE = "'enforce' or 'shadow'"


def unknown(word: str) -> str:
    return (
        f"unknown keyword '{word}'. Expected 'use', 'scenario', 'call', 'expect', 'approve', 'deny', "
        "'switch', 'mode', 'wait', 'say', 'session', 'group', or 'hint'"
    )


def expected(what: str, position: int, got: str | None = None) -> str:
    found = END if got is None else f"'{got}'"
    return f"expected {what} at position {position}, got {found}"


HEAD = 'use a.rules\nscenario "x"\ncall a\n'
"""The text before each of LINES."""

LINES: list[tuple[str, ...]] = [
    ("«allow»", unknown("allow")),
    ("«blocked»", unknown("blocked")),
    ("«require» a before b", unknown("require")),
    ("«exepct» ask", unknown("exepct")),
    ('«"call"» a', unknown('"call"')),
    ("«Call» a", unknown("Call")),
    ("«EXPECT» allow", unknown("EXPECT")),
    ("«сall» a", unknown("сall")),
    ("«cal\u200bl» a", unknown("cal\u200bl")),
    ("«run» a", unknown("run")),
    ("«-» call a", unknown("-")),
    ("«call:» a", unknown("call:")),
    ("«reject»", unknown("reject")),
    ('«test» "x"', unknown("test")),
    ("«then» expect allow", unknown("then")),
    ("«\x85call» a", unknown("\x85call")),
    ("call«»", expected(WORD, 2)),
    ('call «"a b"»', expected(WORD, 2, '"a b"')),
    ("call x a«»", expected(VALUE, 4)),
    ("call x a 1 b«»", expected(VALUE, 6)),
    ("call x a 1 «a» 2", "the field 'a' is given twice"),
    ("call x a 1 «a» 2 «a» 3", "the field 'a' is given twice", "the field 'a' is given twice"),
    ("call x fails «now»", expected(END, 4, "now")),
    ("call x fails «fails»", expected(END, 4, "fails")),
    ('call x a «"b»', expected(CLOSED, 4, '"b')),
    ('call x a «"b» c', expected(CLOSED, 4, '"b')),
    ('call x a «"b"c»', expected(CLOSED, 4, '"b"c')),
    ('call x a "«\\»q"', r"not a JSON string: Invalid \escape"),
    ('call x a "\\«u»12"', r"not a JSON string: Invalid \uXXXX escape"),
    ('call x a «"b\\"»', expected(CLOSED, 4, '"b\\"')),
    ('call x a "b" "c"«»', expected("a text in double quotes or a word", 6)),
    ("call x a «[1,» 2", "'[' is not closed: a list or an object is written as in JSON"),
    ('call x a «{"b":» [1]', "'{' is not closed: a list or an object is written as in JSON"),
    ("call x a [«x»]", "not JSON: Expecting value"),
    ("call x a «[NaN]»", "not JSON: NaN is not a number in JSON"),
    ("call x a 1 «a.b» 2", "the field 'a.b' lies in 'a', which has a value already"),
    ("call x a.b 1 «a.b» 2", "the field 'a.b' is given twice"),
    ("call x a.b 1 «a» 2", "the field 'a' is given twice"),
    ("call x «a..b» 1", "a field's names are separated by single dots, got 'a..b'"),
    ("call x «a.» 1", "a field's names are separated by single dots, got 'a.'"),
    ("call«» #x", expected(WORD, 2)),
    ("call x a«» #1", expected(VALUE, 4)),
    ("call x a 1 Fails«»", expected(VALUE, 6)),
    ('call x a "1" «a» "«\\»q"', "the field 'a' is given twice", r"not a JSON string: Invalid \escape"),
    ("expect«»", expected(OUTCOME, 2)),
    ("expect «allowed»", expected(OUTCOME, 2, "allowed")),
    ("expect «Allow»", expected(OUTCOME, 2, "Allow")),
    ('expect «"allow"»', expected(OUTCOME, 2, '"allow"')),
    ('expect ask «"x"»', expected(END, 3, '"x"')),
    ("expect allow «deny»", expected(END, 3, "deny")),
    ("expect block «because»", expected(REASON, 3, "because")),
    ('expect block "a" «"b"»', expected(END, 4, '"b"')),
    ('expect block "«\\»d"', r"not a JSON string: Invalid \escape"),
    ('expect block «"a»', expected(CLOSED, 3, '"a')),
    ("expect block «allow»", expected(REASON, 3, "allow")),
    ("expect «not» allow", expected(OUTCOME, 2, "not")),
    ("expect «allow\u200b»", expected(OUTCOME, 2, "allow\u200b")),
    ("expect block\u3000«x»", expected(REASON, 3, "x")),
    ("expect «fails»", expected(OUTCOME, 2, "fails")),
    ("expect «deny»", expected(OUTCOME, 2, "deny")),
    ("deny «because»", expected(ANSWER, 2, "because")),
    ('deny "no" «"no"»', expected(END, 3, '"no"')),
    ("deny «'no'»", expected(ANSWER, 2, "'no'")),
    ('deny «"no»', expected(CLOSED, 2, '"no')),
    ("approve «it»", expected("'as' or the end of the line", 2, "it")),
    ('approve «"yes"»', expected("'as' or the end of the line", 2, '"yes"')),
    ("approve\t«x» # y", expected("'as' or the end of the line", 2, "x")),
    ("approve as«»", expected(VALUE, 3)),
    ("group security«»", expected(VALUE, 3)),
    ("session labels«»", expected(VALUE, 3)),
    ("session «label» ci", expected("'agent', 'started_by', 'labels', or 'new'", 2, "label")),
    (
        "session labels ci «a,b»",
        "a label has 1 to 64 letters a-z, digits, '-', '_', '.' or ':', found 'a,b'",
    ),
    ("switch«»", expected(VALUE, 2)),
    ("switch x«»", expected(SWITCH, 3)),
    ("switch x «of»", expected(SWITCH, 3, "of")),
    ("switch x «ON»", expected(SWITCH, 3, "ON")),
    ("switch on«»", expected(SWITCH, 3)),
    ("switch x on «off»", expected(END, 4, "off")),
    ('switch "x"«»', expected(SWITCH, 3)),
    ("switch x«»#2 off", expected(SWITCH, 3)),
    ("switch x«» #on", expected(SWITCH, 3)),
    ("switch x «to» on", expected(SWITCH, 3, "to")),
    ("wait«»", expected(TIME, 2)),
    ("wait «15»", expected(TIME, 2, "15")),
    ("wait «a»", expected(TIME, 2, "a")),
    ("wait 15m «b»", expected(END, 3, "b")),
    ("wait «15» min", expected(TIME, 2, "15")),
    ("wait «0s»", "a time is at least 1s and at most 365d, got '0s'"),
    ("wait «366d»", "a time is at least 1s and at most 365d, got '366d'"),
    ("mode«»", expected(MODE, 2)),
    ("mode «on»", expected(MODE, 2, "on")),
    ("mode «Shadow»", expected(MODE, 2, "Shadow")),
    ("mode shadow «enforce»", expected(END, 3, "enforce")),
    ("mode «shdaow»", expected(MODE, 2, "shdaow")),
    ('mode «"shadow"»', expected(MODE, 2, '"shadow"')),
    ("scenario«»", expected(TEXT, 2)),
    ("scenario «x»", expected(TEXT, 2, "x")),
    ('scenario "y" «"z"»', expected(END, 3, '"z"')),
    ('scenario «"y»', expected(CLOSED, 2, '"y')),
    ('scenario "«\\»y"\ncall b', r"not a JSON string: Invalid \escape"),
    ("scenario «'y'»", expected(TEXT, 2, "'y'")),
    ('scenario «"y"z»', expected(CLOSED, 2, '"y"z')),
    ("«use b.rules»", "'use' must come before the first scenario"),
    ("use«»", expected(VALUE, 2)),
]

FILES: list[tuple[str, ...]] = [
    ("", "holds no scenario"),
    ("use a.rules\n# nothing", "holds no scenario"),
    ("# nothing\r\n\r\n", "holds no scenario"),
    ('«scenario "x"»\ncall a', "no rules to test"),
    ("use a.rules\n\nuse b.rules", "holds no scenario"),
    ("use a\n«call a»", "this line belongs to no scenario"),
    ("use a\r\n\r\n  «expect allow»\r\n", "this line belongs to no scenario"),
    ('use a\nscenario "x"\n«expect allow»\ncall a', "nothing was called yet"),
    ('use a\nscenario "x"\n«approve»\nexpect block', "nothing was called yet"),
    ('use a\n«scenario "x"»\nswitch b off', "a scenario without a call tests nothing"),
    ('use a\n«scenario "x"»\nscenario "y"\ncall a', "a scenario without a call tests nothing"),
    (
        'use a\nscenario "x"\ncall a\n«scenario "x"»\ncall a',
        "a scenario with this name is already in line 2",
    ),
    (
        'use a\nscenario "x"\ncall a\n«scenario "\\u0078"»\ncall a',
        "a scenario with this name is already in line 2",
    ),
    ('use «"a»\n«call b»', expected(CLOSED, 2, '"a'), "this line belongs to no scenario"),
    ('use«»\nscenario "x"\ncall a', expected(VALUE, 2)),
    ('use "«\\»a"\nscenario "x"\ncall a', r"not a JSON string: Invalid \escape"),
    (
        '«usr» a.rules\nscenario «x»\n  «calls» a\n  expect «maybe»\nscenario "y"\n  «cal» b\n',
        unknown("usr"),
        expected(TEXT, 2, "x"),
        unknown("calls"),
        expected(OUTCOME, 2, "maybe"),
        unknown("cal"),
    ),
    (
        'use a\nscenario "x"\n\n\r\n# c\r\n   call a # b\r\n\t expect  «maybe»\r\n',
        expected(OUTCOME, 2, "maybe"),
    ),
    (
        'use a\nscenario "x"\ncall«»\nexpect«»\nmode«»',
        expected(WORD, 2),
        expected(OUTCOME, 2),
        expected(MODE, 2),
    ),
    (
        'use a "b" c\nscenario "x"\ncall a\n«use d»\n«use e»',
        "'use' must come before the first scenario",
        "'use' must come before the first scenario",
    ),
    ('\ufeffuse a\n\ufeffscenario "x"\n\ufeffcall a b«»', expected(VALUE, 4)),
    (
        'use a\n«scenario "x"»\nmode shadow\nswitch n on\n«scenario "y"»\nmode enforce',
        "a scenario without a call tests nothing",
        "a scenario without a call tests nothing",
    ),
    (
        'use a\nscenario "x"\ncall a\n«scenario ""»\n«scenario ""»\ncall b',
        "a scenario without a call tests nothing",
        "a scenario with this name is already in line 4",
    ),
    (
        'use a\nscenario "x"\ncall a b "«\\»q" «b» "«\\»q"',
        r"not a JSON string: Invalid \escape",
        "the field 'b' is given twice",
        r"not a JSON string: Invalid \escape",
    ),
]
"""Whole files; a fault of the file as a whole has no place."""
