"""Maps by which a mere `echo` unlocks what only the command itself should unlock."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.net.net import ToolCall
from interlock.rules import Problem, compile_rules
from interlock.rules.analysis.findings import examine

from ...support.laws import examples


def mention_warnings(text: str) -> list[Problem]:
    return [w for w in examine(compile_rules(text)).warnings if "counts as" in w.message]


class TestMentions:
    def test_unlocking_mention_is_a_warning(self) -> None:
        """The warning points at the pattern, names the unlocked tool and proposes a pattern."""
        text = "map bash.command ./test as test\nrequire test before deploy"
        assert [str(w) for w in mention_warnings(text)] == [
            "<rules>:1:18: 'echo ./test' counts as 'test' too, and unlocks 'deploy'\n"
            "    map bash.command ./test as test\n"
            "                     ^^^^^^\n"
            "    write /^\\.\\/test(\\s|$)/ to look only where a command begins"
        ]

    def test_refilling_mention_is_a_warning(self) -> None:
        """A mention that refills a limit causes a warning, too."""
        [found] = mention_warnings("map shell sh.line review as review\nlimit push to 1 per review")
        assert found.message == "'echo review' counts as 'review' too, and unlocks 'push'"

    @pytest.mark.parametrize(
        "text",
        [
            "map bash.command rm as rm\nblock rm",
            "map bash.command deploy as deploy\nrequire human-approval before deploy",
            "map bash.command /^\\.\\/test(\\s|$)/ as test\nrequire test before deploy",
            "map bash.command /^make\\stest/i as test\nrequire test before deploy",
            "map mail.subject reviewed as review\nrequire review before send",
            "map bash.command test as test\nrequire test before test",
        ],
    )
    def test_harmless_maps_cause_no_warning(self, text: str) -> None:
        """Maps for blocks, anchored patterns and fields of plain text cause no warning."""
        assert mention_warnings(text) == []

    def test_unanchored_regex_is_a_warning(self) -> None:
        """A regular expression without an anchor causes a warning."""
        [found] = mention_warnings("map bash.command /make\\s+test/ as test\nrequire test before deploy")
        assert found.message.startswith("a command that only mentions it counts as 'test' too")

    @pytest.mark.slow
    @given(st.text(st.characters(codec="ascii", exclude_categories=["Cc", "Zs"]), min_size=1, max_size=8))
    @settings(max_examples=examples(200), deadline=None)
    def test_proposed_pattern_excludes_the_echo(self, word: str) -> None:
        """The echo has the name as the warning says, and does not have it with the proposed pattern."""
        word = word.replace("#", "").replace("/", "").replace('"', "").replace("'", "") or "x"
        rule = "require name before deploy"
        for found in mention_warnings(f"map bash.command {word} as name\n{rule}"):
            pattern = found.remedy.split(" ")[1]
            anchored = compile_rules(f"map bash.command {pattern} as name\n{rule}")
            loose = compile_rules(f"map bash.command {word} as name\n{rule}")
            quoted = f"echo '{word}'"
            assert "name" in loose.resolve(ToolCall("c", "bash", {"command": quoted}))
            assert "name" not in anchored.resolve(ToolCall("c", "bash", {"command": quoted}))

    def test_proposed_pattern_still_finds_the_command(self) -> None:
        """The proposed pattern finds the command alone, in lists and behind wrappers."""
        rules = compile_rules("map bash.command /^\\.\\/test(\\s|$)/ as test\nrequire test before deploy")
        for command in ("./test", "./test -q", "cd app && ./test", "sudo ./test", "sh -c './test -q'"):
            assert "test" in rules.resolve(ToolCall("c", "bash", {"command": command})), command
