"""Settings of a working directory, where an agent may write, cannot loosen anything."""

from __future__ import annotations

import argparse
import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.app.cli.main import parser
from interlock.app.config.approvals import ApprovalSettings, approval_settings
from interlock.app.config.gateway import GatewaySettings, GatewayTable, gateway_settings
from interlock.app.config.hooks import HookSettings, hook_settings
from interlock.app.config.loader import TABLES, SettingsError, apply_settings, declared_keys
from interlock.app.config.notifications import (
    AttentionSettings,
    NotifySettings,
    attention_settings,
    notify_settings,
)
from interlock.app.config.oidc import OidcSettings, oidc_settings
from interlock.app.config.trust import directory_notice
from interlock.app.hosting.audit.settings import AuditSettings, audit_settings
from interlock.app.hosting.server import rule_sets
from interlock.engine import ToolCall
from interlock.engine.approvals.policy import ApprovalPolicy
from interlock.rules import load_rules

from .test_settings import settled

RUN = ["run", "--model", "openai/x", "go"]
ACP = ["acp", "--", "agent"]
FLOW = ["flow", "run", "m:F"]
SAID = (
    r"interlock\.toml: {}: is allowed in .*config\S*/interlock.toml only, since agents may write in the "
)

HOSTS = ("demo", "run", "resume", "acp", "flow run", "flow resume")
SHOWS = (*HOSTS, "console", "web", "replay")
JUDGES = ("run", "resume", "serve", "web", "acp", "flow run", "flow resume")
PARTS = (
    *("verify", "export", "import", "prune", "approvals", "rebuild"),
    *("receipt", "verify-receipt", "verify-stream"),
)
HISTORY = ("history", *(f"history {part}" for part in PARTS))
CHOICES: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    # By an option's name: the commands that accept it from a directory, accepted and refused values.
    "answer": ((*HOSTS, "serve"), ("deny",), ("approve",)),
    "agents": (("web",), ("127.0.0.1:9000",), ("192.0.2.7:8737",)),
    "ascii": (SHOWS, ("true", "false"), ()),
    "cwd": (("acp",), (".", "sub"), ("..", "/tmp")),
    "explain_blocks": (("run", "resume"), ("true", "false"), ()),
    "flow": (("demo",), ("true", "false"), ()),
    "input": (("flow run",), ("{}",), ()),
    "json": (
        (
            *(
                "check",
                "explain",
                "history verify",
                "history verify-stream",
                "history approvals",
                "backtest",
                "token",
                "suggest",
            ),
            *("approvals list", "approvals show", "approvals approve", "approvals deny"),
            "approvals accept-loss",
            *("freeze", "servers"),
        ),
        ("true", "false"),
        (),
    ),
    "limit": (("history", "flow list"), ("9",), ()),
    "listen": (("serve", "web"), ("unix:gate.sock", "127.0.0.1:9000"), ("0.0.0.0:8737",)),
    "max_cost": (("run", "resume"), ("9",), ()),
    "max_steps": (("run", "resume", "flow run", "flow resume"), ("9",), ()),
    "max_time": (("flow run", "flow resume"), ("9s",), ()),
    "max_turns": (("flow run", "flow resume"), ("9",), ()),
    "mode": (JUDGES, ("enforce",), ("shadow",)),
    "model": (
        ("run", "resume"),
        ("openai/gpt-4o", "bedrock/anthropic.claude-v2:1", "ollama/llama3:8b"),
        (
            "openai://m?base_url=http://192.0.2.7/v1",
            "bedrock/agentcore/arn:aws:bedrock-agentcore:elsewhere.example/:1:runtime/x",
            "vertex_ai/elsewhere.example#/x",
        ),
    ),
    "net": (("draw",), ("block-rm",), ()),
    "network": (("run", "resume"), ("false",), ("true",)),
    "plain": (("replay",), ("true", "false"), ()),
    "read_only": ((*HOSTS, "console"), ("true",), ("false",)),
    "redact": (
        (*SHOWS, *HISTORY, "serve", "backtest", "suggest", "flow list", "flow draw"),
        ("salary",),
        (),
    ),
    "rules": (JUDGES, ("a.rules",), ()),
    "runtime": (("run", "resume"), ("local", "sandbox", "just-bash"), ("vercel",)),
    "strict": (("check",), ("true",), ("false",)),
    "system_prompt": (("run", "resume"), ("Be brief.",), ()),
    "task": (("acp",), ("Go on",), ()),
    "theme": (SHOWS, ("nord",), ()),
    "tools": (("check",), ("bash,read",), ()),
    "workdir": (("run", "resume", "flow run"), (".", "sub"), ("..", "sub/../..", "/tmp")),
}
# Files, addresses, names, code and the user's choices: only on the command line or in the user's file.
_NEVER = """
    active added_rules after against agent all allow_command api_base approval approval_protocol as
    at callback_port certificate changed_nets claimed client_id client_secret_file config connect db
    digest dry_run each even_unsent fill force format header headless idle_exit inform input_file
    junit key kind label lift live log logout messages metrics name no_backtest no_labels no_qr
    older_than open out overlap owner plans prefix project proposed quiet reason resume reveal
    schema self_test session since test timeout to token_file tools trace_arguments trust unasked
    unmasked url wait yes
"""
NEVER = _NEVER.split()


PARSER = parser()


def every_option(
    command: argparse.ArgumentParser = PARSER, words: str = ""
) -> Iterator[tuple[str, argparse.Action]]:
    """Yield each option of each command, with the words that call the command."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, part in action.choices.items():
                yield from every_option(part, f"{words} {name}".strip())
        elif action.option_strings and action.dest not in ("help", "version"):
            yield words, action


def option_name(action: argparse.Action) -> str:
    """Return the option's name in a file."""
    on_line = next(each for each in action.option_strings if each.startswith("--"))
    return on_line.removeprefix("--").replace("-", "_")


def valid_values(action: argparse.Action) -> list[str]:
    """Return values that the option accepts on the command line."""
    if action.nargs == 0:
        return ["true", "false"]
    if action.choices is not None:
        return [str(each) for each in action.choices]
    return ["1h" if action.dest == "max_time" else "1"]


OPTIONS = {(words, option_name(action)): action for words, action in every_option()}


def option_from_directory(tmp_path: Path, words: str, table: str, name: str, value: str) -> object:
    """Return a command's option if its working directory sets it to `value`."""
    text = value if value in ("true", "false") else json.dumps(value)
    (tmp_path / "interlock.toml").write_text(f"{table}{name} = {text}")
    command, _, part = words.partition(" ")
    args = Namespace(command=command, part=part or None, typed=frozenset())
    apply_settings(PARSER, args, environ={}, directory=tmp_path)
    return getattr(args, OPTIONS[words, name].dest)


class TestWalk:
    """Every setting, and whether a working directory may set it."""

    def test_every_option_is_listed(self) -> None:
        """Every new option must be listed here as permitted or refused in a working directory."""
        unanswered = [
            f"{words} --{name}"
            for words, name in OPTIONS
            if words not in CHOICES.get(name, ((), (), ()))[0] and name not in NEVER
        ]
        assert unanswered == [], "may a working directory say it? Add it to CHOICES or to NEVER"
        gone = {*CHOICES, *NEVER} - {name for _, name in OPTIONS}
        assert gone == set()

    @pytest.mark.parametrize(("words", "name"), sorted(OPTIONS))
    def test_option(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, name: str) -> None:
        """Permitted values apply; others are refused with their place, in both kinds of table."""
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        action = OPTIONS[words, name]
        commands, may, may_not = CHOICES.get(name, ((), (), ()))
        if words not in commands:
            may, may_not = (), tuple(valid_values(action))
        for table in ("", f"[{words.partition(' ')[0]}]\n"):
            for value in may:
                assert option_from_directory(tmp_path, words, table, name, value) is not None
            for value in may_not:
                with pytest.raises(SettingsError, match=SAID.format(name)) as caught:
                    option_from_directory(tmp_path, words, table, name, value)
                assert f"give it on the command line: --{name.replace('_', '-')}" in str(caught.value)

    @pytest.mark.parametrize(
        ("table", "read", "declaration", "may"),
        [
            ("approvals", approval_settings, ApprovalSettings, {"deny_reasons", "expire"}),
            ("attention", attention_settings, AttentionSettings, set()),
            ("audit", audit_settings, AuditSettings, set()),
            ("gateway", gateway_settings, GatewayTable, {"rules"}),
            ("hook", hook_settings, HookSettings, {"rules", "wait"}),
            ("notify", notify_settings, NotifySettings, set()),
            ("oidc", oidc_settings, OidcSettings, set()),
        ],
    )
    def test_table(
        self, tmp_path: Path, table: str, read: Callable[..., object], declaration: type, may: set[str]
    ) -> None:
        """A directory may set these keys of a table; others are refused by name."""
        fits = {"deny_reasons": "['no']", "expire": "'5m'", "rules": "{}", "wait": "'5s'"}
        fits |= {"rules": "['deploy']"} if table == "hook" else {}
        environ = {"INTERLOCK_CONFIG_DIR": str(tmp_path / "config")}
        where = {"project" if table == "hook" else "directory": tmp_path}
        keys = declared_keys(declaration)
        assert may <= set(keys)
        for key in keys:
            (tmp_path / "interlock.toml").write_text(f"[{table}]\n{key} = {fits.get(key, 1)}\n")
            if key in may:
                read(**where, environ=environ)
                continue
            with pytest.raises(SettingsError, match=rf"\[{table}\]: {key}: is allowed in .*config"):
                read(**where, environ=environ)

    def test_no_option_has_a_tables_name(self) -> None:
        """No option has a table's name, because the table would be read as the option's value."""
        assert {option_name(action) for _, action in every_option()}.isdisjoint(TABLES)

    def test_every_table_is_listed(self) -> None:
        """Every table is listed; `keys` and `operators` have their own tests."""
        assert set(TABLES) == {
            "approvals",
            "attention",
            "audit",
            "gateway",
            "hook",
            "keys",
            "notify",
            "oidc",
            "operators",
        }

    def test_empty_table_does_not_hide_the_users(self, tmp_path: Path) -> None:
        """An empty `[notify]` in a directory is refused, because it would hide the user's table."""
        (tmp_path / "interlock.toml").write_text("[notify]\n")
        with pytest.raises(SettingsError, match=r"\[notify\]: is allowed in"):
            notify_settings(environ={"INTERLOCK_CONFIG_DIR": str(tmp_path / "c")}, directory=tmp_path)


class TestLooser:
    @pytest.mark.parametrize(
        ("line", "name", "value"),
        [
            (RUN, "mode", "shadow"),
            (ACP, "answer", "approve"),
            (FLOW, "workdir", "sub/../.."),
            (["serve"], "listen", "0.0.0.0:8737"),
            (["history", "export", "s"], "out", "/home/me/.bashrc"),
            (["draw", "a.rules"], "out", "/home/me/.bashrc"),
        ],
    )
    def test_user_sources_may_loosen_settings(
        self, tmp_path: Path, line: list[str], name: str, value: str
    ) -> None:
        """The environment, a named file and the user's own file may loosen settings."""
        named = tmp_path / "named.toml"
        named.write_text(f"{name} = '{value}'")
        ways = [
            settled(tmp_path, line, environ={f"INTERLOCK_{name.upper()}": value}),
            settled(tmp_path, line, environ={"INTERLOCK_CONFIG": str(named)}),
            settled(tmp_path, line, user=f"{name} = '{value}'"),
        ]
        for args in ways:
            assert getattr(args, name)
            assert args.of_directory == {}

    def test_directory_cannot_leave_the_users_sandbox(self, tmp_path: Path) -> None:
        """A directory cannot change the user's runtime or workdir, but may choose a sandbox."""
        with pytest.raises(SettingsError, match="runtime: is allowed in"):
            settled(tmp_path, RUN, here="runtime = 'local'", user="runtime = 'sandbox'")
        with pytest.raises(SettingsError, match="workdir: is allowed in"):
            settled(tmp_path, RUN, here="workdir = '.'", user="workdir = '/srv/agent'")
        assert settled(tmp_path, RUN, here="runtime = 'sandbox'", user="").runtime == "sandbox"

    def test_directory_may_be_stricter(self, tmp_path: Path) -> None:
        """A directory may be stricter than the user, which is reported."""
        args = settled(tmp_path, RUN, here="mode = 'enforce'", user="mode = 'shadow'")
        assert args.mode == "enforce"
        assert (directory_notice(args) or "").startswith(
            f"mode enforce from {tmp_path}/project/interlock.toml: "
        )


class TestLimits:
    @pytest.mark.parametrize(
        ("line", "option", "here", "user", "counts"),
        [
            (RUN, "max_cost", "5", "2", 2),
            (RUN, "max_cost", "1.5", "2", 1.5),
            (RUN, "max_cost", "1.5", None, 1.5),
            (RUN, "max_steps", "5", "50", 5),
            (RUN, "max_steps", "500", "50", 50),
            (RUN, "max_steps", "500", "400", 400),
            (RUN, "max_steps", "500", None, 100),
            (FLOW, "max_steps", "500", None, 500),
            (FLOW, "max_time", "'2h'", "'90s'", 90),
            (FLOW, "max_turns", "3", "9", 3),
        ],
    )
    def test_lowest_limit_applies(
        self, tmp_path: Path, line: list[str], option: str, here: str, user: str | None, counts: float
    ) -> None:
        """The lowest of the directory's, the user's and the default limit applies."""
        own = "" if user is None else f"{option} = {user}"
        assert getattr(settled(tmp_path, line, here=f"{option} = {here}", user=own), option) == counts

    def test_masked_fields_are_added(self, tmp_path: Path) -> None:
        """The directory's masked fields are added to the user's."""
        args = settled(tmp_path, RUN, here="redact = 'salary, iban'", user="redact = ['iban', 'ssn']")
        assert args.redact == "iban,ssn,salary"

    def test_shorter_expiry_applies(self, tmp_path: Path) -> None:
        """The shorter expiry applies, and a directory does not change `own_approvals`."""
        for folder, text in (("project", "deny_reasons = ['here']\nexpire = '2h'"), ("config", "%s")):
            (tmp_path / folder).mkdir()
            own = "expire = '5m'\nown_approvals = true\ndeny_reasons = ['mine']"
            (tmp_path / folder / "interlock.toml").write_text(f"[approvals]\n{text.replace('%s', own)}")
        environ = {"INTERLOCK_CONFIG_DIR": str(tmp_path / "config")}
        found = approval_settings(environ=environ, directory=tmp_path / "project")
        assert found.policy == ApprovalPolicy(expire=300, own_approvals=True, late=900)
        assert found.deny_reasons == ("here",)


class TestRules:
    def test_directory_rules_are_added_to_the_users(self, tmp_path: Path) -> None:
        """The directory's rules are added after the user's."""
        args = settled(
            tmp_path,
            ["serve"],
            here="rules = ['a.rules']",
            user="rules = ['strict.rules']\n[serve]\nrules = ['mine.rules', '/etc/all.rules']",
        )
        assert args.rules == [f"{tmp_path}/config/mine.rules", "/etc/all.rules", "a.rules"]

    @pytest.mark.parametrize(
        ("added", "refused"),
        [
            ("block fetch", False),
            ("require human-approval before fetch", True),
            ("limit fetch to 9 per session", True),
            ("map bash.command ls as listing", True),
        ],
    )
    def test_directory_rules_cannot_take_calls_from_the_users(
        self, tmp_path: Path, added: str, refused: bool
    ) -> None:
        """Rules of a directory that take calls from a user's `anything-else` rule are refused."""
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "mine.rules").write_text(
            "require test before deploy\nblock anything-else\n"
        )
        (tmp_path / "project").mkdir()
        (tmp_path / "project" / "a.rules").write_text(added + "\n")
        here, user = "rules = ['a.rules']", "rules = ['mine.rules']"
        if refused:
            with pytest.raises(SettingsError, match="covered by 'block anything-else'"):
                settled(tmp_path, ["serve"], here=here, user=user)
        else:
            assert len(settled(tmp_path, ["serve"], here=here, user=user).rules) == 2

    def test_user_map_names_a_call_first(self, tmp_path: Path) -> None:
        """The user's map names a call before the directory's map can."""
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "mine.rules").write_text("map bash.command rm as delete\nblock delete\n")
        (tmp_path / "project").mkdir()
        (tmp_path / "project" / "a.rules").write_text("map bash.command rm as harmless\n")
        args = settled(tmp_path, ["serve"], here="rules = ['a.rules']", user="rules = ['mine.rules']")
        rules = load_rules(*(tmp_path / "project" / each for each in args.rules))
        names = rules.resolve(ToolCall("c", "bash", {"command": "rm -rf x"}))
        assert "delete" in names
        assert "harmless" not in names

    def test_user_rules_are_relative_to_their_file(self, tmp_path: Path) -> None:
        """The user's rules are relative to the user's file, not to the working directory."""
        args = settled(tmp_path, RUN, user="rules = 'mine.rules'")
        assert args.rules == [f"{tmp_path}/config/mine.rules"]
        assert directory_notice(args) is None
        with pytest.raises(SettingsError, match="no-such-user"):
            settled(tmp_path, RUN, user="rules = '~no-such-user/mine.rules'")

    def test_command_line_and_environment_replace_all_others(self, tmp_path: Path) -> None:
        """Rules from the command line or the environment replace all others."""
        here, user = "rules = 'a.rules'", "rules = 'mine.rules'"
        line = ["serve", "--rules", "b.rules"]
        assert settled(tmp_path, line, here=here, user=user).rules == ["b.rules"]
        environ = {"INTERLOCK_RULES": "c.rules"}
        args = settled(tmp_path, ["serve"], environ=environ, here=here, user=user)
        assert args.rules == ["c.rules"]
        assert directory_notice(args) is None

    def test_working_directory_that_is_the_config_directory(self, tmp_path: Path) -> None:
        """If the working directory is the config directory, also by a link, its file is the user's."""
        (tmp_path / "project").mkdir()
        (tmp_path / "config").symlink_to(tmp_path / "project")
        args = settled(tmp_path, ["serve"], here="mode = 'shadow'\nrules = 'a.rules'")
        assert (args.mode, args.rules) == ("shadow", ["a.rules"])


class TestTold:
    def test_notice_names_the_file_of_the_rules(self, tmp_path: Path) -> None:
        """The notice names the directory's rules and their file, with control characters escaped."""
        args = settled(tmp_path, ["serve"], here='rules = ["a.rules", "b\\u001b[2J.rules"]')
        where = f"{tmp_path}/project/interlock.toml"
        assert directory_notice(args) == (
            f"rules a.rules, b\\x1b[2J.rules from {where}: a working directory may add rules, and loosen "
            "nothing"
        )

    def test_notice_names_only_rules_in_use(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The notice names only rules that are in use."""
        monkeypatch.chdir(tmp_path)
        args = Namespace(of_directory={"rules": ["a.rules", "b.rules"], "where": "interlock.toml"})
        assert (directory_notice(args, [tmp_path / "a.rules"]) or "").startswith(
            "rules a.rules from interlock.toml"
        )
        assert directory_notice(args, [tmp_path / "c.rules"]) is None


class TestGateway:
    @pytest.mark.parametrize("added", ["limit fetch to 9 per session", "map bash.command ls as listing"])
    def test_set_cannot_take_calls_from_the_servers_rules(self, tmp_path: Path, added: str) -> None:
        """A directory's rule set must not take calls from the server's rules."""
        mine, more = tmp_path / "mine.rules", tmp_path / "more.rules"
        mine.write_text("block anything-else\n")
        more.write_text(added + "\n")
        of_user = GatewaySettings(rules={"more": (str(more),)})
        assert rule_sets((str(mine),), of_user).names == {"more"}
        with pytest.raises(SettingsError, match=r"rules: more: .* covered by 'block anything-else'"):
            rule_sets((str(mine),), of_user.model_copy(update={"added": of_user.rules}))

    def test_set_cannot_take_calls_from_a_user_set(self, tmp_path: Path) -> None:
        """A directory's rule set must not take calls from a set of the user's, alone or combined."""
        (tmp_path / "all.rules").write_text("block anything-else\n")
        (tmp_path / "more.rules").write_text("limit fetch to 9 per session\n")
        every, more = str(tmp_path / "all.rules"), str(tmp_path / "more.rules")
        for sets, name in (({"strict": (every,), "more": (more,)}, "more"), ({"x": (every, more)}, "x")):
            with pytest.raises(
                SettingsError, match=rf"rules: {name}: .* covered by 'block anything-else'"
            ):
                rule_sets((), GatewaySettings(rules=sets, added={name: (more,)}))

    async def test_sets_are_read_at_the_start(self, tmp_path: Path) -> None:
        """A rule set is read at the start, so that later changes of the file have no effect."""
        mine, more = tmp_path / "mine.rules", tmp_path / "more.rules"
        mine.write_text("block anything-else\n")
        more.write_text("block fetch\n")
        sets = {"more": (str(more),)}
        found = rule_sets((str(mine),), GatewaySettings(rules=sets, added=sets))
        more.write_text("limit fetch to 9 per session\n")
        assert set(await found.registry(["more"])) == {"block-anything-else", "block-fetch"}

    def settings(self, tmp_path: Path, here: str, user: str) -> dict[str, tuple[str, ...]]:
        work, config = tmp_path / "project", tmp_path / "config"
        for folder, text in ((work, here), (config, user)):
            folder.mkdir()
            (folder / "interlock.toml").write_text(text)
        found = gateway_settings(environ={"INTERLOCK_CONFIG_DIR": str(config)}, directory=work)
        assert found.limits.rate == 9
        return dict(found.rules)

    def test_sets_are_added_to_the_users(self, tmp_path: Path) -> None:
        """A directory's table adds rule sets and does not remove the user's limits or rules."""
        here = "[gateway.rules]\nstrict = 'none.rules'\nmore = 'more.rules'\n"
        user = "[gateway]\nlimits = {rate = 9}\n[gateway.rules]\nstrict = ['all.rules']\n"
        assert self.settings(tmp_path, here, user) == {
            "strict": (f"{tmp_path}/config/all.rules", "none.rules"),
            "more": ("more.rules",),
        }

    def test_user_table_alone(self, tmp_path: Path) -> None:
        """Without a directory's table the user's applies, relative to its own file."""
        user = "[gateway]\nlimits = {rate = 9}\n[gateway.rules]\nstrict = 'all.rules'\n"
        assert self.settings(tmp_path, "", user) == {"strict": (f"{tmp_path}/config/all.rules",)}
