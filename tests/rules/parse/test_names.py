"""G-85: names for values: `let team = ["ada@x.org"]` and `let payees = lines "payees.txt"`."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.config.rule_texts import RuleTexts
from interlock.engine.core.condition import condition_text
from interlock.engine.net.net import SkillNet
from interlock.engine.recording.records import net_record
from interlock.rules import RuleError, RuleSet, compile_files, compile_rules, load_rules, read_rules
from interlock.rules.analysis.findings import examine
from tests.engine.gate.support.helpers import manager, reason

PAYEES = "# people we pay\nDE11\n\n  DE22  \n"
RULES = 'let payees = lines "payees.txt"\nblock pay when input.to not in payees\n'


def condition_text_of(rules: RuleSet) -> str:
    [net] = rules.nets
    assert net.condition is not None
    return condition_text(net.condition, whole=True)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "payees.txt").write_text(PAYEES)
    (tmp_path / "pay.rules").write_text(RULES)
    return tmp_path


class TestValues:
    @pytest.mark.parametrize(
        ("value", "operator"),
        [
            ('"prod"', "="),
            ("-3.5", "<"),
            ("true", "!="),
            ("null", "="),
            ('["a", 1]', "in"),
            ("/a b/i", "matches"),
            ('"src"', "under"),
        ],
    )
    def test_name_equals_its_value(self, value: str, operator: str) -> None:
        named = compile_rules(f"block t when input.x {operator} it\nlet it = {value} # why")
        assert (
            named.nets[0].condition
            == compile_rules(f"block t when input.x {operator} {value}").nets[0].condition
        )
        assert condition_text_of(named) == f"input.x {operator} {value}"

    async def test_reason_uses_the_name(self) -> None:
        gate = manager('let team = ["ada#x"]\nblock mail when any input.to not in team because "a # b"')
        assert await reason(gate, "mail", "c1", to=["ada#x"]) is None
        said = await reason(gate, "mail", "c2", to=["eve"])
        assert said == "mail is blocked when any input.to not in team: a # b."

    def test_name_is_local_to_its_file(self) -> None:
        one, other = "let a = 1\nblock t when input.x = a", "let a = 2\nblock u when input.x = a"
        both = compile_files({"one": one, "other": other})
        assert [
            net.condition is not None and condition_text(net.condition, whole=True) for net in both
        ] == [
            "input.x = 1",
            "input.x = 2",
        ]
        with pytest.raises(RuleError, match="a text must be in double quotes, got 'a'"):
            compile_files({"one": one, "third": "block u when input.x = a"})

    def test_unused_name_is_a_warning(self) -> None:
        [warning] = examine(
            compile_rules("let most = 3\nlet x = 4\nblock t when input.n > most")
        ).warnings
        assert (warning.line, warning.message) == (2, "no condition of this file says 'x'")

    def test_record_has_the_value(self) -> None:
        """A record contains the value, since its reader does not have the file with the name."""
        record = net_record("n", compile_rules("let a = [1, 2]\nblock t when input.x in a").nets[0])
        assert record.when == "input.x in [1, 2]"


class TestSources:
    """`let known = from user, email of get_contacts`."""

    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("known", "user, email of get_contacts"),
            ("known, read", "user, email of get_contacts, read"),
            ("read, known", "read, user, email of get_contacts"),
            ("known, user", "user, email of get_contacts"),
        ],
    )
    def test_name_equals_its_sources(self, written: str, meant: str) -> None:
        named = compile_rules(
            f"block t when any input.x not from {written}\n"
            "let known = from user, email of get_contacts # why"
        )
        [plain] = compile_rules(f"block t when any input.x not from {meant}").nets
        assert named.nets[0].condition == plain.condition
        assert condition_text_of(named) == f"any input.x not from {meant}"

    async def test_reason_uses_the_name(self) -> None:
        gate = manager("let known = from user, read\nblock mail when input.to not from known")
        gate.hear("read", "eve")
        assert await reason(gate, "mail", "c1", to="eve") is None
        said = await reason(gate, "mail", "c2", to="mallory")
        assert said == "mail is blocked when input.to not from known."

    def test_unused_name_is_a_warning(self) -> None:
        found = examine(
            compile_rules(
                "let known = from a\nlet lost = from b\nblock t when input.x not from c, known, lost of d"
            )
        )
        assert [(w.line, w.message) for w in found.warnings] == [
            (2, "no condition of this file says 'lost'")
        ]

    def test_members_and_tools_keep_their_names(self) -> None:
        """`email of contacts` is that member, whatever names `let` defines."""
        rules = compile_rules(
            'let email = "x"\nlet contacts = from user\nblock t when input.x not from email of contacts'
        )
        assert condition_text_of(rules) == "input.x not from email of contacts"


class TestFilesOfValues:
    def test_path_is_relative_to_the_rules(self, files: Path) -> None:
        rules = load_rules(files / "pay.rules")
        assert condition_text_of(rules) == 'input.to not in ["DE11", "DE22"]'
        assert rules.paths == [str(files / "pay.rules"), str(files / "payees.txt")]

    def test_values_are_part_of_the_rule_texts(self, files: Path) -> None:
        """The texts of a rule set contain the values, so that later changes of the file do not matter."""
        texts = read_rules(files / "pay.rules")
        (files / "payees.txt").write_text("DE33")
        assert [*texts.values()] == [RULES, PAYEES]
        assert condition_text_of(compile_files(texts)) == 'input.to not in ["DE11", "DE22"]'

    def test_later_file_changes_do_not_matter(self, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(files)
        texts = RuleTexts().with_files(["pay.rules"])
        (files / "payees.txt").write_text("DE33")
        assert condition_text_of(texts.compile("pay.rules")) == 'input.to not in ["DE11", "DE22"]'

    def test_rules_file_read_as_values_keeps_its_rules(self, files: Path) -> None:
        """A rules file that another one also reads as values is still read as rules."""
        (files / "other.rules").write_text("block rm")
        (files / "added.rules").write_text('let x = lines "other.rules"\nblock mv when input.a in x')
        nets: list[SkillNet] = [*load_rules(files / "other.rules", files / "added.rules")]
        assert [net.name for net in nets] == ["block-rm", "block-mv"]

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("nope.txt", "'nope.txt': no such file of values"),
            (".", "'.': is a directory, expected a file of values"),
            ("latin.txt", "'latin.txt' in line 2: is not UTF-8 text: byte 0xe9"),
            ("empty.txt", "'\"empty.txt\"' has no line with a value"),
            ("long.txt", "'\"long.txt\"' has 5,001 values, at most 5,000 can be a list"),
        ],
    )
    def test_invalid_list_is_an_error_at_its_line(self, files: Path, name: str, said: str) -> None:
        """The error is at the line that names the file, and no rule is compiled."""
        (files / "latin.txt").write_bytes(b"a\nJos\xe9\n")
        (files / "empty.txt").write_text("# nobody yet\n\n")
        (files / "long.txt").write_text("\n".join(map(str, range(5_001))))
        (files / "x.rules").write_text(f'let x = lines "{name}"\nblock t when input.a not in x')
        with pytest.raises(RuleError) as caught:
            load_rules(files / "x.rules")
        [problem] = caught.value.problems
        assert (problem.line, problem.column, problem.message) == (1, 15, said)

    def test_single_text_cannot_read_files(self) -> None:
        """A single text cannot read a file of this machine."""
        with pytest.raises(RuleError, match="'\"/etc/hosts\"' did not come with these rules"):
            compile_rules('let x = lines "/etc/hosts"\nblock t when input.a in x')


class TestErrors:
    @pytest.mark.parametrize(
        ("line", "message", "remedy"),
        [
            (
                "let",
                "expected a name after 'let', got the end of the line",
                "write: let <name> = <value>",
            ),
            ("let a", "expected '=' after 'a', got the end of the line", "write: let a = <value>"),
            ("let a=5", "'=' needs blanks around it, got 'a=5'", "write: let a = 5"),
            ("let a := 5", "expected '=' after 'a', got ':='", "write: let a = 5"),
            ("let a =5", "expected '=' after 'a', got '=5'", "write: let a = 5"),
            ("let a =", "'let <name> = <value>' expects 4 tokens, got 3", "write: let <name> = <value>"),
            ("let a = b", "a text must be in double quotes, got 'b'", 'write: let a = "b"'),
            (
                "let a = input.x",
                "a name stands for a value, not for the field 'input.x'",
                'write for example: let team = ["a", "b"]',
            ),
            (
                'let a = "b", "c"',
                "expected the end of the line after '\"b\"', got ','",
                'write: let a = ["b", "c"]',
            ),
            ("let a = [1", "'[' is not closed", "write: let a = [1]"),
            (
                "let a = lines x.txt",
                "a file's name must be in double quotes, got 'x.txt'",
                'write: let a = lines "x.txt"',
            ),
            (
                "let a = from",
                "expected a source after 'from', got the end of the line",
                "write 'user', the names of tools, or both with ',' between",
            ),
            (
                "let a = from user, ",
                "expected a source after ',', got the end of the line",
                "write 'user', the names of tools, or both with ',' between",
            ),
            (
                "let a = from [user, read]",
                "the sources after 'from' must not be in brackets",
                "write: let a = from user, read",
            ),
            ("let in = 3", "'in' is a word of conditions and cannot be a name", "choose another name"),
            (
                "let a.b = 3",
                "a name has letters, digits, '_' and '-', got 'a.b'",
                "write: let a_b = <value>",
            ),
        ],
    )
    def test_faulty_let_line(self, line: str, message: str, remedy: str) -> None:
        with pytest.raises(RuleError) as caught:
            compile_rules(line)
        [problem] = caught.value.problems
        assert (problem.message, problem.remedy) == (message, remedy)

    @pytest.mark.parametrize(
        ("condition", "message", "remedy"),
        [
            ("input.x in teem", "no 'let' gives 'teem' a value", "write: block t when input.x in team"),
            (
                "input.x = team",
                "'=' compares with a text, a number, true, false or null, got a list",
                "write: block t when input.x in team",
            ),
            (
                "input.x in most",
                "'in' compares with a list, got a number",
                "write: let most = [<value>, <value>]",
            ),
            (
                "input.x = [most]",
                "expected a value after '[', got 'most'",
                None,
            ),
            (
                "input.x not from team",
                "'team' is a value; 'from' takes 'user' and names of tools",
                'if a tool has that name, write: block t when input.x not from "team"',
            ),
            (
                "any input.x not in known",
                "'known' stands for sources, which only 'from' takes, got 'in'",
                "write: block t when any input.x not from known",
            ),
            (
                "input.x != known",
                "'known' stands for sources, which only 'from' takes, got '!='",
                "write: block t when input.x not from known",
            ),
        ],
    )
    def test_wrong_use_of_a_name(self, condition: str, message: str, remedy: str | None) -> None:
        with pytest.raises(RuleError) as caught:
            compile_rules(
                f'let team = ["a"]\nlet most = 3\nlet known = from user\nblock t when {condition}'
            )
        [problem] = caught.value.problems
        assert remedy is None or (problem.message, problem.remedy) == (message, remedy)

    def test_name_defined_twice(self) -> None:
        with pytest.raises(RuleError, match="'a' has a value already, by line 1"):
            compile_rules("let a = 1\nlet a = 2\nblock t when input.x = a")

    def test_a_wrong_value_is_one_error(self) -> None:
        with pytest.raises(RuleError) as caught:
            compile_rules("let a = (\nblock t when input.x < a\nblock u when input.x in a")
        assert [problem.line for problem in caught.value.problems] == [1]
