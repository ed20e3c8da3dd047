"""Rules with faulty options.

Each has its message and its remedy; « and » enclose the faulty characters, and `→` stands for `write:`
and the beginning of an approval.
"""

from __future__ import annotations

from .messages import EXAMPLE, TIME, no_option, no_people, no_time, one_unit, time_range

TABLE: list[tuple[str, ...]] = [
    (
        "require human-approval before b within «15»",
        "the time '15' has no unit: expected s, m, h or d",
        "→ within 15m",
    ),
    (
        "require human-approval before b within«»",
        "expected a time such as 90s, 15m, 1h or 2d, at most 365d after 'within', "
        "got the end of the line",
        "→ within 15m",
    ),
    (
        "require human-approval before b within «15 min»",
        "a time is one word, got '15 min'",
        "→ within 15m",
    ),
    ("require human-approval before b within «15min»", no_time("15min"), "→ within 15m"),
    ("require human-approval before b within «1.5h»", no_time("1.5h"), "→ within 90m"),
    (
        "require human-approval before b within «90 seconds» risk low",
        "a time is one word, got '90 seconds'",
        "→ within 90s risk low",
    ),
    ("require human-approval before b within «0m»", time_range("0m"), TIME),
    ("require human-approval before b within «366d»", time_range("366d"), TIME),
    (
        "require human-approval before b within «99999999999999999999h»",
        time_range("99999999999999999999h"),
        TIME,
    ),
    ("require human-approval before b within «soon»", no_time("soon"), TIME),
    ("require human-approval before b within «-5m»", no_time("-5m"), TIME),
    ("require human-approval before b within «15M»", no_time("15M"), "→ within 15m"),
    ("require human-approval before b within «1w»", no_time("1w"), "→ within 7d"),
    ("require human-approval before b within «hour»", no_time("hour"), "→ within 1h"),
    ("require human-approval before b within «1h30m»", one_unit("1h30m"), "→ within 90m"),
    ("require human-approval before b within «1h30»", one_unit("1h30"), "→ within 90m"),
    ("require human-approval before b within «2D12hours»", one_unit("2D12hours"), "→ within 60h"),
    ("require human-approval before b within «1m1m1s»", one_unit("1m1m1s"), "→ within 121s"),
    ("require human-approval before b within «300d300d»", one_unit("300d300d"), TIME),
    ("require human-approval before b within «1h30x»", no_time("1h30x"), TIME),
    (
        "require human-approval before b within «15» risk «hgih»",
        "the time '15' has no unit: expected s, m, h or d",
        "→ within 15m risk hgih",
        "expected 'low', 'medium', or 'high' after 'risk', got 'hgih'",
        "→ within 15 risk high",
    ),
    ("require human-approval before b by «two»", no_people("two"), "→ by 2"),
    ("require human-approval before b by «0»", no_people("0"), "→ by 1"),
    ("require human-approval before b by «11»", no_people("11"), "→ by 10"),
    ("require human-approval before b by «99999999999»", no_people("99999999999"), "→ by 10"),
    (
        "require human-approval before b by«»",
        "expected a number of people from 1 to 10 after 'by', got the end of the line",
        "→ by 2",
    ),
    (
        "require human-approval before b by «2.5»",
        no_people("2.5"),
        "write a number of people from 1 to 10",
    ),
    (
        "require human-approval before b by 2 «people»",
        no_option("people", "2"),
        "remove it, or make it a comment with '#'",
    ),
    ("require human-approval before b by 2 «by 3»", "'by' is given twice", "→ by 2"),
    (
        "require human-approval before b within 1h risk low «within 2h»",
        "'within' is given twice",
        "→ within 1h risk low",
    ),
    (
        "require human-approval before b no grants «no grants»",
        "'no grants' is given twice",
        "→ no grants",
    ),
    ("require human-approval before b risk low «risk low»", "'risk' is given twice", "→ risk low"),
    (
        "require human-approval before b no «grant»",
        "expected 'grants' after 'no', got 'grant'",
        "→ no grants",
    ),
    (
        "require human-approval before b no«»",
        "expected 'grants' after 'no', got the end of the line",
        "→ no grants",
    ),
    (
        "require human-approval before b no  «Grants»",
        "expected 'grants' after 'no', got 'Grants'",
        "→ no  grants",
    ),
    ("require human-approval before b «nogrants»", no_option("nogrants"), "→ no grants"),
    ("require human-approval before b «no-grants»", no_option("no-grants"), "→ no grants"),
    (
        "require human-approval before b «without grants»",
        "'require human-approval before <tool>' expects 4 tokens, got 6",
        "write: require human-approval before <tool>",
    ),
    (
        "require human-approval before b risk «critical»",
        "expected 'low', 'medium', or 'high' after 'risk', got 'critical'",
        "→ risk high",
    ),
    (
        "require human-approval before b risk«»",
        "expected 'low', 'medium' or 'high' after 'risk', got the end of the line",
        "→ risk high",
    ),
    (
        "require human-approval before b risk «hgih»",
        "expected 'low', 'medium', or 'high' after 'risk', got 'hgih'",
        "→ risk high",
    ),
    (
        "require human-approval before b risk «HIGH»",
        "expected 'low', 'medium', or 'high' after 'risk', got 'HIGH'",
        "→ risk high",
    ),
    (
        "require human-approval before b risk «urgent»",
        "expected 'low', 'medium', or 'high' after 'risk', got 'urgent'",
        "write 'low', 'medium', or 'high'",
    ),
    ("require human-approval before b «risk:» high", no_option("risk:"), "→ risk high"),
    ("require human-approval before b «risk:high»", no_option("risk:high"), "→ risk high"),
    ("require human-approval before b «risk=high»", no_option("risk=high"), "→ risk high"),
    ("require human-approval before b «high-risk»", no_option("high-risk"), "→ risk high"),
    ("require human-approval before b «grants»", no_option("grants"), "→ no grants"),
    (
        "require human-approval before b by 2 «please»",
        no_option("please", "2"),
        "remove it, or make it a comment with '#'",
    ),
    ("require human-approval before b «if» input.a = 1", no_option("if"), "→ when input.a = 1"),
    ("require human-approval before b «When» input.a = 1", no_option("When"), "→ when input.a = 1"),
    ("require human-approval before b «withing» 15m", no_option("withing"), "→ within 15m"),
    ("require human-approval before b «timeout=15m»", no_option("timeout=15m"), "→ within 15m"),
    ("require human-approval before b «by:» 2", no_option("by:"), "→ by 2"),
    (
        "require human-approval before b when«»",
        "expected a condition after 'when', got the end of the line",
        EXAMPLE,
    ),
    (
        "require human-approval before b when« »# input.a = 1",
        "expected a condition after 'when', got the end of the line",
        EXAMPLE,
    ),
    (
        "require human-approval before b by 2 when«»",
        "expected a condition after 'when', got the end of the line",
        EXAMPLE,
    ),
    ("require human-approval before b risk high «grants»", no_option("grants"), "→ risk high no grants"),
    (
        "require human-approval before b no grants «no «grant»»",
        "'no grants' is given twice",
        "→ no grants",
        "expected 'grants' after 'no', got 'grant'",
        "→ no grants no grants",
    ),
    (
        "block a «within» 15m",
        "'within' is an option of 'require human-approval before <tool>'",
        "write a rule of its own: require human-approval before <tool> within",
    ),
    (
        "block a «if» input.a = 1",
        "expected 'when', 'because' or the end of the line, got 'if'",
        "write: block a when input.a = 1",
    ),
    (
        "block a «where» input.a = 1",
        "expected 'when', 'because' or the end of the line, got 'where'",
        "write: block a when input.a = 1",
    ),
    (
        "block a «when(input.a» = 1)",
        "expected 'when', 'because' or the end of the line, got 'when(input.a'",
        "write: block a when (input.a = 1)",
    ),
    (
        "block a «when:» input.a = 1",
        "expected 'when', 'because' or the end of the line, got 'when:'",
        "write: block a when input.a = 1",
    ),
    (
        "limit a to 3 per session «risk» high",
        "'risk' is an option of 'require human-approval before <tool>'",
        "write a rule of its own: require human-approval before <tool> risk",
    ),
    (
        "limit a to 3 per session «by» 2",
        "'by' is an option of 'require human-approval before <tool>'",
        "write a rule of its own: require human-approval before <tool> by",
    ),
    (
        "limit a to 1 per session «within» 1h",
        "'within' is an option of 'require human-approval before <tool>'",
        "write a rule of its own: require human-approval before <tool> within",
    ),
    (
        "require a before b «no» grants",
        "'no grants' is an option of 'require human-approval before <tool>'",
        "write a rule of its own: require human-approval before <tool> no grants",
    ),
    (
        "map a.b c as d «when» input.x = 1",
        "a map has no 'when': it gives names, and rules say what they mean",
        "write the condition behind the rule that has the map's name",
    ),
    (
        "map shell a.b c as d «when» input.x = 1",
        "a map has no 'when': it gives names, and rules say what they mean",
        "write the condition behind the rule that has the map's name",
    ),
    (
        "require «2 human approvals» before b",
        "expected '<N> human-approvals', got '2 human approvals'",
        "write: require 2 human-approvals before b",
    ),
    (
        "require «two human-approvals» before b",
        "expected '<N> human-approvals', got 'two human-approvals'",
        "write: require 2 human-approvals before b",
    ),
    (
        "require «Two Human-Approvals» before b",
        "expected '<N> human-approvals', got 'Two Human-Approvals'",
        "write: require 2 human-approvals before b",
    ),
    (
        "require «human-approvals» before b by 2",
        "expected 'human-approval', got 'human-approvals'",
        "→ by 2",
    ),
    ("require «0» human-approvals before b", no_people("0"), "write: require 1 human-approvals before b"),
    (
        "require «11» human-approvals before b",
        no_people("11"),
        "write: require 10 human-approvals before b",
    ),
    (
        "require 2 human-approvals before b «by 2»",
        "'by' is given twice",
        "write: require 2 human-approvals before b",
    ),
    (
        "require 2 human-approvals b«»",
        "'require <N> human-approvals before <tool>' expects 5 tokens, got 4",
        "write: require <N> human-approvals before <tool>",
    ),
    (
        "require 2 human-approvals«»",
        "'require <N> human-approvals before <tool>' expects 5 tokens, got 3",
        "write: require <N> human-approvals before <tool>",
    ),
    (
        "require «-1 human-approvals» before b",
        "expected '<N> human-approvals', got '-1 human-approvals'",
        "write a number of people from 1 to 10",
    ),
    (
        "require «2.5 human-approvals» before b",
        "expected '<N> human-approvals', got '2.5 human-approvals'",
        "write a number of people from 1 to 10",
    ),
    (
        "require «2 human-aprovals» before b",
        "expected '<N> human-approvals', got '2 human-aprovals'",
        "write: require 2 human-approvals before b",
    ),
    (
        "require 2 human-approvals «after» b",
        "expected 'before' at position 4, got 'after'",
        "write: require <N> human-approvals before <tool>",
    ),
    (
        "require 2 human-approvals before b «please»",
        "'require <N> human-approvals before <tool>' expects 5 tokens, got 6",
        "write: require <N> human-approvals before <tool>",
    ),
    ("limit a to 1 per «0h»", time_range("0h"), TIME),
    ("limit a to 1 per «366d»", time_range("366d"), TIME),
    ("limit a to 1 per «00s»", time_range("00s"), TIME),
    (
        "limit a to 3 per 1h «per session»",
        "'limit <tool> to <N> per <scope>' expects 6 tokens, got 8",
        "write: limit <tool> to <N> per <scope>",
    ),
    (
        "limit a to «0» per «0h» when input.a«»",
        "limit count must be a positive integer, got '0'",
        "write a whole number from 1 to 1,000,000 in digits only",
        time_range("0h"),
        TIME,
        "expected an operator after 'input.a', got the end of the line",
        "write: limit a to 0 per 0h when input.a = true",
    ),
    (
        "limit a to 3 per 1h «within» 2h",
        "'within' is an option of 'require human-approval before <tool>'",
        "write a rule of its own: require human-approval before <tool> within",
    ),
    (
        "block a because«»",
        "expected a text in double quotes after 'because', got the end of the line",
        'write: block a because "<reason>"',
    ),
    (
        "block a because «it breaks»",
        "'because' takes a text in double quotes, got 'it breaks'",
        'write: block a because "it breaks"',
    ),
    (
        "block a because «'it breaks'»",
        "'because' takes a text in double quotes, got ''it breaks''",
        'write: block a because "it breaks"',
    ),
    (
        'block a because «"it» breaks',
        "the text '\"it breaks' has no closing quote",
        'write: block a because "it breaks"',
    ),
    ('block a because "it" «because» "b"', "a rule has one 'because'", "join the two texts"),
    (
        'block a because "it" «when» input.b = 1',
        "'when' must come before 'because'",
        'write: block a when input.b = 1 because "it"',
    ),
    (
        'require human-approval before b because "it" «by» 2',
        "'by' must come before 'because'",
        '→ by 2 because "it"',
    ),
    (
        'block a because "it" «breaks»',
        "'because' and its text end a rule, got 'breaks'",
        "remove it, or make it a comment with '#'",
    ),
    (
        'map a.b c as d «because» "it"',
        "only a rule has a 'because': maps and 'allow' block nothing",
        "write it behind the rule, or make it a comment with '#'",
    ),
    (
        'block a because «""»',
        "the text after 'because' is empty",
        "say why the rule is there, or leave it out",
    ),
    (
        f'block a because «"{"x" * 201}"»',
        "a reason has at most 200 characters, got 201",
        "say it shorter",
    ),
    (
        'block a because "a«\\»q"',
        "not a JSON string: Invalid \\escape",
        r"a text in quotes has JSON's escapes; a backslash itself is written \\",
    ),
    (
        "block a when input.b = 1 because«»",
        "expected a text in double quotes after 'because', got the end of the line",
        'write: block a when input.b = 1 because "<reason>"',
    ),
    (
        'block a when input.b = 1 because "it" «and» input.c = 2',
        "'because' and its text end a rule, got 'and'",
        "remove it, or make it a comment with '#'",
    ),
]
