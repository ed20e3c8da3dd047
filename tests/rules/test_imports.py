"""Rules imported from the permissions of Claude Code and Codex, judged by the gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.app.cli.main import main
from interlock.engine.core.condition import Surroundings
from interlock.engine.gate import GateManager
from interlock.engine.net.net import ToolCall
from interlock.rules import compile_rules
from interlock.rules.imports.claude_settings import from_claude_settings
from interlock.rules.imports.codex import from_codex
from interlock.rules.imports.draft import Draft, PermissionsError

from ..support.laws import examples

AROUND = Surroundings("/srv/shop", "/home/ada")


def outcome(draft: Draft, tool: str, **given: str) -> str:
    """Return the strictest verdict on a call: `blocked`, `asked`, or `free`."""
    rules = compile_rules(draft.text(["x"]))
    gate = GateManager(rules.registry, surroundings=AROUND)
    verdicts = gate.classify(ToolCall("c", tool, given))
    if any(v.kind == "blocked" for v in verdicts):
        return "blocked"
    asks = any(s.transition.type == "manual" for v in verdicts for s in v.steps)
    return "asked" if asks else "free"


def claude(mode: str = "default", **permissions: list[str]) -> Draft:
    settings = {"permissions": {"defaultMode": mode, **permissions}}
    return from_claude_settings([("settings.json", json.dumps(settings))])


FULL = claude(
    allow=[
        "Bash(npm run test:*)",
        "Bash(git status)",
        "Edit(src/**)",
        "WebFetch(domain:docs.python.org)",
    ],
    ask=["Bash(git push:*)", "mcp__mail__send"],
    deny=[
        "Bash(rm:*)",
        "Bash(git reset --hard *)",
        "Read(./.env)",
        "Read(./.env.*)",
        "Read(~/.ssh/**)",
        "Read(**/*.pem)",
        "WebFetch(domain:evil.com)",
        "Edit(//etc/**)",
    ],
)

CALLS = [
    ("free", "Bash", {"command": "npm run test"}),
    ("free", "Bash", {"command": "npm run test -- -k price --maxfail=1"}),
    ("asked", "Bash", {"command": "npm run testx"}),
    ("asked", "Bash", {"command": "npm run test && make"}),
    ("asked", "Bash", {"command": "npm run test\nmake"}),
    ("asked", "Bash", {"command": "npm run test > /srv/x"}),
    ("asked", "Bash", {"command": "npm run test $(make)"}),
    ("asked", "Bash", {"command": "X=1 npm run test"}),
    ("free", "Bash", {"command": "git status"}),
    ("asked", "Bash", {"command": "git status --porcelain"}),
    ("asked", "Bash", {"command": "git push"}),
    ("asked", "Bash", {"command": "git -C /x push origin main"}),
    ("asked", "Bash", {"command": "ls"}),
    ("blocked", "Bash", {"command": "rm -rf build"}),
    ("blocked", "Bash", {"command": "true && /bin/rm x"}),
    ("blocked", "Bash", {"command": "env rm x"}),
    ("blocked", "Bash", {"command": "sh -c 'rm x'"}),
    ("blocked", "Bash", {"command": "npm run test; rm x"}),
    ("blocked", "Bash", {"command": "git -C x reset --hard HEAD~1"}),
    ("asked", "Bash", {"command": "git reset --soft HEAD~1"}),
    ("blocked", "Read", {"file_path": ".env"}),
    ("blocked", "Read", {"file_path": "/srv/shop/.env"}),
    ("blocked", "Read", {"file_path": "src/../.env"}),
    ("blocked", "Read", {"file_path": ".env.local"}),
    ("blocked", "Read", {"file_path": "/home/ada/.ssh/id_rsa"}),
    ("blocked", "Read", {"file_path": "certs/Server.PEM"}),
    ("free", "Read", {"file_path": "src/price.py"}),
    ("free", "Edit", {"file_path": "src/price.py"}),
    ("free", "Write", {"file_path": "/srv/shop/src/new.py"}),
    ("asked", "Write", {"file_path": "docs/new.md"}),
    ("asked", "Edit", {"file_path": "src/../Makefile"}),
    ("blocked", "Write", {"file_path": "/etc/passwd"}),
    ("asked", "NotebookEdit", {"notebook_path": "x.ipynb"}),
    ("free", "WebFetch", {"url": "https://docs.python.org/3/"}),
    ("asked", "WebFetch", {"url": "https://docs.python.org.evil.net/"}),
    ("asked", "WebFetch", {"url": "http://docs.python.org/"}),
    ("blocked", "WebFetch", {"url": "https://evil.com/docs.python.org"}),
    ("asked", "WebSearch", {"query": "x"}),
    ("asked", "mcp__mail__send", {"to": "x"}),
    ("free", "mcp__github__get_issue", {}),
    ("free", "Grep", {"pattern": "x"}),
]


class TestClaudeSettings:
    @pytest.mark.parametrize(("expected", "tool", "given"), CALLS)
    def test_decisions_match_the_entries_or_are_stricter(
        self, expected: str, tool: str, given: dict[str, str]
    ) -> None:
        assert outcome(FULL, tool, **given) == expected

    @pytest.mark.parametrize(
        ("mode", "edit", "bash"),
        [
            ("default", "asked", "asked"),
            ("plan", "asked", "asked"),
            ("new", "asked", "asked"),
            ("acceptEdits", "free", "asked"),
            ("bypassPermissions", "free", "free"),
            ("dontAsk", "blocked", "blocked"),
        ],
    )
    def test_modes(self, mode: str, edit: str, bash: str) -> None:
        draft = claude(mode, deny=["Bash(rm)"])
        assert outcome(draft, "Edit", file_path="x") == edit
        assert outcome(draft, "Bash", command="ls") == bash
        assert outcome(draft, "Bash", command="rm x") == "blocked"

    def test_fully_allowed_tool_needs_no_rule(self) -> None:
        draft = claude(allow=["Bash", "Edit(*)", "WebFetch()"])
        assert outcome(draft, "Bash", command="anything; at $all") == "free"
        assert outcome(draft, "Write", file_path="/x") == "free"
        assert outcome(draft, "WebFetch", url="http://x") == "free"

    def test_skipped_entries_are_listed(self) -> None:
        draft = claude(
            allow=["Bash(git * x)", "Read(.env)", "mcp__a__b"],
            deny=["mcp__bad", "Task(research)", "???", "Read(x/**)"],
            additionalDirectories=["../docs"],
        )
        text = draft.text(["a"])
        for entry in (
            "git * x",
            "mcp__a__b",
            "mcp__bad",
            "Task(research)",
            "???",
            "additionalDirectories",
        ):
            assert entry in text[text.index("Not carried over") :]
        assert outcome(draft, "Task", kind="research") == "asked"
        assert outcome(draft, "Bash", command="git a x") == "asked"

    @pytest.mark.parametrize(
        ("entry", "tool", "given"),
        [
            ("Read([ab].txt)", "Read", {"file_path": "/srv/shop/a.txt"}),
            ("Read({x,y}.pem)", "Read", {"file_path": "x.pem"}),
            (r"Read(a\*b)", "Read", {"file_path": "d/a*b"}),
            ("Read(secrets/)", "Read", {"file_path": "/srv/shop/sub/secrets/key"}),
            ("Write(//etc/**)", "Write", {"file_path": "/etc/passwd"}),
            ("Edit", "Write", {"file_path": "x"}),
            ("Bash(rm*)", "Bash", {"command": "rmdir x"}),
            ("Bash(*secret*)", "Bash", {"command": "cat my-secrets.txt"}),
            ("Bash(git p*h --force)", "Bash", {"command": "git push origin --force"}),
            ("WebFetch(domain:*.evil.com)", "WebFetch", {"url": "https://a.evil.com/x"}),
        ],
    )
    def test_denied_patterns_block_their_calls(
        self, entry: str, tool: str, given: dict[str, str]
    ) -> None:
        assert outcome(claude("bypassPermissions", deny=[entry]), tool, **given) == "blocked"

    def test_edits_are_accepted_only_inside_the_folder(self) -> None:
        draft = claude("acceptEdits", allow=["Edit(//data/**)"])
        found = [outcome(draft, "Write", file_path=p) for p in ("a/b", "/data/x", "../x", "/etc/x")]
        assert found == ["free", "free", "asked", "asked"]

    def test_ask_entries_are_blocked_in_dont_ask_mode(self) -> None:
        draft = claude("dontAsk", allow=["Bash"], ask=["Bash(git push:*)"])
        assert outcome(draft, "Bash", command="git push") == "blocked"

    def test_disabled_mode_does_not_count(self) -> None:
        permissions = {"defaultMode": "bypassPermissions", "disableBypassPermissionsMode": "disable"}
        draft = from_claude_settings([("a.json", json.dumps({"permissions": permissions}))])
        assert outcome(draft, "Bash", command="ls") == "asked"

    def test_files_are_combined(self) -> None:
        files = [
            ("a.json", '{"permissions": {"deny": ["Bash(rm)"]}}'),
            ("b.json", '{"permissions": {"ask": ["mcp__a__b"], "defaultMode": "bypassPermissions"}}'),
        ]
        draft = from_claude_settings(files)
        assert outcome(draft, "Bash", command="rm x") == "blocked"
        assert outcome(draft, "mcp__a__b") == "asked"
        assert outcome(draft, "Bash", command="ls") == "free"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('{"permissions": {', "a.json:1:18: not JSON"),
            ("[]", "expected an object with 'permissions'"),
            ("{}", "expected an object with 'permissions'"),
            ('{"permissions": {"deny": "Bash"}}', "'permissions.deny' must be a list of texts"),
            ('{"permissions": {"ask": [1]}}', "'permissions.ask' must be a list of texts"),
        ],
    )
    def test_errors_name_the_place(self, text: str, said: str) -> None:
        with pytest.raises(PermissionsError) as raised:
            from_claude_settings([("a.json", text)])
        assert said in str(raised.value)

    @given(
        st.lists(st.from_regex(r"[a-z#/\"é.*-]{1,6}", fullmatch=True), min_size=1, max_size=3),
        st.sampled_from(["deny", "ask", "allow"]),
        st.booleans(),
    )
    @settings(max_examples=examples(150), deadline=None)
    def test_rules_compile_for_any_entry(self, words: list[str], kind: str, prefix: bool) -> None:
        """The rules compile for any entry, and a denied command is blocked."""
        entry = f"Bash({' '.join(words)}{':*' if prefix else ''})"
        draft = claude(**{kind: [entry]})
        compile_rules(draft.text(["x"]))
        if kind == "deny" and all(word.isalpha() and word.isascii() for word in words):
            assert outcome(draft, "Bash", command=" ".join([*words, "x"])) == "blocked"


STARLARK = """
# Rules of a team
prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="leaves the machine")
prefix_rule(pattern=["rm"], decision="forbidden", match=["rm x"])
prefix_rule(pattern=["cargo", "test"])
prefix_rule(pattern=[name], decision="forbidden")
load("x")
names = ["a"]
prefix_rule(pattern=[], decision="forbidden")
prefix_rule(pattern=["x"], decision="maybe")
"""
CONFIG = """
approval_policy = "untrusted"
sandbox_mode = "workspace-write"

[mcp_servers.github]
command = "x"
disabled_tools = ["delete_repo", "a b"]
enabled_tools = ["get"]
"""


class TestCodex:
    @pytest.mark.parametrize(
        ("expected", "tool", "given"),
        [
            ("asked", "Bash", {"command": "git push"}),
            ("asked", "Bash", {"command": "git fetch"}),
            ("blocked", "Bash", {"command": "rm x"}),
            ("blocked", "Bash", {"command": "cargo test; rm x"}),
            ("free", "Bash", {"command": "cargo test --all"}),
            ("asked", "Bash", {"command": "cargo build"}),
            ("asked", "apply_patch", {"command": "*** Begin Patch"}),
            ("blocked", "mcp__github__delete_repo", {}),
            ("free", "mcp__github__get", {}),
        ],
    )
    def test_decisions_match_the_rules(self, expected: str, tool: str, given: dict[str, str]) -> None:
        draft = from_codex([("team.rules", STARLARK), ("config.toml", CONFIG)])
        assert outcome(draft, tool, **given) == expected

    def test_the_strictest_of_several_counts(self) -> None:
        rules = """
prefix_rule(pattern=["git"], decision="prompt")
prefix_rule(pattern=["git", "push"], decision="forbidden")
"""
        draft = from_codex([("team.rules", rules)])
        assert outcome(draft, "Bash", command="git push origin") == "blocked"
        assert outcome(draft, "Bash", command="git status") == "asked"

    def test_skipped_entries_are_listed(self) -> None:
        draft = from_codex([("team.rules", STARLARK), ("config.toml", CONFIG)])
        said = "\n".join(f"{entry}: {reason}" for entry, reason in draft.skipped)
        for entry in (
            "team.rules:6: its arguments are computed",
            "team.rules:7: not a call of prefix_rule",
            "team.rules:8: a statement",
            "team.rules:9: its pattern is not a list of words",
            "maybe x: an unknown decision",
            "sandbox_mode",
            "a b: not a name",
            "enabled_tools",
        ):
            assert entry in said

    @pytest.mark.parametrize("policy", ["never", "on-request", "on-failure", "other"])
    def test_other_policies_are_listed_as_skipped(self, policy: str) -> None:
        files = [("a.rules", 'prefix_rule(pattern=["ls"])'), ("c.toml", f'approval_policy = "{policy}"')]
        draft = from_codex(files)
        assert not draft.carried
        assert f"approval_policy {policy}" in [entry for entry, _ in draft.skipped]

    @pytest.mark.parametrize(
        ("name", "text", "said"),
        [
            ("a.rules", "prefix_rule(\n", "a.rules:1: cannot be read as rules of Codex"),
            ("a.rules", "x\0", "a.rules: cannot be read"),
            ("config.toml", "a = ", "config.toml: not TOML"),
        ],
    )
    def test_errors_name_the_place(self, name: str, text: str, said: str) -> None:
        with pytest.raises(PermissionsError) as raised:
            from_codex([(name, text)])
        assert said in str(raised.value)


class TestCommand:
    def test_prints_rules_and_a_summary(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "settings.json"
        path.write_text('{"permissions": {"deny": ["Bash(rm:*)"], "additionalDirectories": []}}')
        assert main(["rules", "import", "claude-settings", str(path)]) == 0
        out, err = capsys.readouterr()
        assert "block deny-rm" in out
        assert "1 of the entries carried over" in err
        compile_rules(out)

    def test_existing_file_is_replaced_only_with_force(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path, rules = tmp_path / "a.rules", tmp_path / "out.rules"
        path.write_text('prefix_rule(pattern=["rm"], decision="forbidden")')
        command = ["rules", "import", "codex", str(path), "-o", str(rules)]
        assert main(command) == 0
        assert main(command) == 2
        assert "--force replaces it" in capsys.readouterr().err
        assert main([*command, "--force"]) == 0
        assert "block deny-rm" in rules.read_text()

    def test_unreadable_input_is_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["rules", "import", "codex", str(tmp_path / "none.toml")]) == 2
        (tmp_path / "bad.toml").write_bytes(b"\xff")
        assert main(["rules", "import", "codex", str(tmp_path / "bad.toml")]) == 2
        assert "not UTF-8" in capsys.readouterr().err
