"""`interlock backtest`: recorded calls judged under other rules, printed or as JSON."""

from __future__ import annotations

import asyncio
import io
import json
from argparse import Namespace
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.app.cli.history.backtest import run
from interlock.app.cli.main import main
from interlock.engine.history.journal.journal import Journal
from interlock.rules import compile_rules
from tests.engine.backtest.recorder import Recorder
from tests.engine.history.support.recording import decided, opening
from tests.support.command import printed
from tests.support.copies import copied

NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
RECORDED_UNDER = (
    "require test before deploy\nrequire human-approval before deploy\nlimit deploy to 2 per session"
)
RULES = """\
require lint before deploy
require human-approval before push
block rm
"""


async def release(recorder: Recorder) -> None:
    """A session of five calls, one of them blocked and one approved."""
    await recorder.call("c1", "deploy", env="prod")
    await recorder.call("c2", "test")
    recorder.result("c2")
    await recorder.call("c3", "deploy", env="prod")
    await recorder.answer("c3", True)
    recorder.result("c3")
    await recorder.call("c4", "push", branch="main")
    recorder.result("c4")
    await recorder.call("c5", "rm", path="build")
    recorder.result("c5")


async def quiet(recorder: Recorder) -> None:
    """A session that the other rules would not change."""
    await recorder.call("c1", "look")
    recorder.result("c1")


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of two sessions and a subagent's session, and a rules file, in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("new.rules").write_text(RULES)
    return copied(write_sessions, tmp_path / "journal.db")


def write_sessions(path: Path) -> None:
    with Journal.open(path, clock=lambda: NOON) as journal:
        for name, play in (("bot-1", release), ("bot-2", quiet)):
            recorder = Recorder(compile_rules(RECORDED_UNDER, file="old.rules").registry)
            asyncio.run(play(recorder))
            journal.write(name, *recorder.bodies)
        journal.write("below-1", opening(kind="child", parent="bot-1"), decided("c9", "rm"))


def backtest(database: Path, **options: object) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of the command, by default under `new.rules`."""
    return printed(lambda: run(line(database, **options), zone=UTC, now=NOON))


def line(database: Path, **options: object) -> Namespace:
    """Return the parsed command line."""
    absent = dict.fromkeys(("session", "since", "messages", "at", "active", "json", "redact"))
    return Namespace(**{**absent, "files": ["new.rules"], "db": database, **options})


class TestPrinted:
    """The printed output."""

    def test_all_sessions(self, database: Path) -> None:
        """Diverging sessions are listed with first divergence and hypothetical calls, then totals."""
        code, out, err = backtest(database)
        assert (code, err) == (0, "")
        assert out == (
            "new.rules: 3 nets\n"
            "\n"
            "bot-1\n"
            "        5 calls: 2 newly blocked, 1 newly asked\n"
            "  first event 7, 2026-03-14 12:00\n"
            "  call  deploy prod\n"
            "  then  ◐ needed approval: approved by maria\n"
            "        old.rules:2  require human-approval before deploy\n"
            "  now   ■ blocked: deploy requires a successful call to lint first.\n"
            "        new.rules:1  require lint before deploy\n"
            "        The 2 calls after event 7 are hypothetical: judged as recorded, though\n"
            "        the agent would have acted differently.\n"
            "\n"
            "3 of 6 decisions change: deploy (1), push (1) and rm (1).\n"
            "\n"
            "6 calls in 2 sessions\n"
            "        1 session as recorded, 1 with a divergence\n"
            "          3  as recorded\n"
            "          2  newly blocked, 1 of them hypothetical\n"
            "          1  newly asked, all hypothetical\n"
            "          0  newly allowed\n"
            "\n"
            "By rule\n"
            "        new.rules:1  require lint before deploy\n"
            "          1  newly blocked\n"
            "        new.rules:2  require human-approval before push\n"
            "          1  newly asked, all hypothetical\n"
            "        new.rules:3  block rm\n"
            "          1  newly blocked, all hypothetical\n"
        )
        assert max(map(len, out.split("\n"))) <= 80

    def test_newly_allowed_call_names_the_blocking_rule(self, database: Path) -> None:
        """A newly allowed call is attributed to the rule that blocked it, with its recorded place."""
        Path("none.rules").write_text("block other\n")
        _, out, _ = backtest(database, files=["none.rules"])
        assert "  then  ■ blocked: deploy requires a successful call to test first.\n" in out
        assert "        old.rules:1  require test before deploy\n  now   ▸ allowed\n" in out
        assert (
            "        old.rules:1  require test before deploy  (as recorded)\n          1  newly allowed\n"
            in out
        )

    def test_sessions_without_calls_are_not_counted(self, tmp_path: Path, database: Path) -> None:
        """Sessions without calls are not counted; the output says so, without an error."""
        empty = tmp_path / "empty.db"
        with Journal.open(empty) as journal:
            journal.write("s1", opening())
        assert backtest(empty) == (
            0,
            "new.rules: 3 nets\n\n0 calls in 0 sessions\n"
            "Nothing was judged: the selection contains no calls.\n",
            "",
        )

    def test_recorded_switches_of_nets_are_followed(self, database: Path) -> None:
        """The output says that nets were on or off as recorded; `--active` overrides this."""
        with Journal.open(database, clock=lambda: NOON) as journal:
            registry = compile_rules("block rm\nblock x").registry
            recorder = Recorder(registry, active=["block-x"])
            asyncio.run(recorder.call("c1", "rm"))
            journal.write("bot-3", *recorder.bodies)
        _, out, _ = backtest(database, session=["bot-3"])
        assert "          0  newly blocked" in out
        assert "In 1 session nets of these names were on or off" in out
        _, out, _ = backtest(database, session=["bot-3"], active=["block-rm"])
        assert "          1  newly blocked\n" in out
        assert "switched" not in out

    def test_hostile_text_is_visible(self, database: Path) -> None:
        """Escape sequences in a recorded call or session id are shown as text."""
        recorder = Recorder(compile_rules("block x").registry)
        asyncio.run(recorder.call("c1", "rm", path="\x1b[2J\u202e"))
        with Journal.open(database, clock=lambda: NOON) as journal:
            journal.write("evil\x1b[1m", *recorder.bodies)
        _, out, _ = backtest(database)
        assert "\\x1b[2J\\u202e" in out
        assert not {"\x1b", "\u202e"} & set(out)

    def test_secrets_are_masked(self, database: Path) -> None:
        """A key is masked before its text is cut, so that no part of it is shown."""
        key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
        recorder = Recorder(compile_rules("block x").registry)
        asyncio.run(recorder.call("c1", "rm", path=f"{'x' * 150} {key}", password="hunter2"))
        with Journal.open(database, clock=lambda: NOON) as journal:
            journal.write("bot-9", *recorder.bodies)
        _, out, _ = backtest(database, session=["bot-9"])
        assert "newly blocked" in out
        assert "ghp_" not in out
        assert "hunter2" not in out


class TestChosen:
    """The selection of calls to judge."""

    def test_one_session(self, database: Path) -> None:
        """`--session` selects a session by its id; a session given twice counts once."""
        assert "\n1 call in 1 session\n" in backtest(database, session=["bot-2"])[1]
        assert "\n5 calls in 1 session\n" in backtest(database, session=["bot-1", "bot-1"])[1]

    def test_since(self, database: Path) -> None:
        """`--since` selects sessions with events since that time."""
        assert "\n6 calls in 2 sessions\n" in backtest(database, since="1h")[1]
        assert "\n0 calls in 0 sessions\n" in backtest(database, since="2026-03-14 12:01")[1]

    def test_at_judges_calls_after_the_event(self, database: Path) -> None:
        """`--at` judges only calls after that event, with new nets at their start."""
        _, out, _ = backtest(database, session=["bot-1"], at=8)
        assert "\n2 calls in 1 session\n" in out
        assert "  first event 9, " in out
        whole, rest = backtest(database, session=["bot-1"]), backtest(database, session=["bot-1"], at=1)
        assert rest == whole

    def test_message_logs_are_judged(self, database: Path) -> None:
        """`--messages` judges message logs of other programs, without a journal or beside sessions."""
        call = {"id": "c1", "function": {"name": "rm", "arguments": '{"path": "build"}'}}
        messages = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "gone"},
        ]
        Path("log.json").write_text(json.dumps(messages))
        code, out, _ = backtest(Path("none.db"), messages=["log.json"])
        assert (code, "\n1 call in 1 session\n" in out) == (0, True)
        assert "\nlog.json\n        1 call: 1 newly blocked\n  first message 1\n" in out
        assert out.endswith(
            "\nMessage logs hold no decisions of a gate: a call that has a result counts as\n"
            "allowed, and as a success unless the log says that it failed, which OpenAI's\n"
            "messages cannot say.\n"
        )
        assert "message logs" not in backtest(database)[1]
        Path("more.json").write_text(json.dumps([messages, messages]))
        _, out, _ = backtest(Path("none.db"), messages=["log.json", "more.json"])
        assert "\n3 calls in 3 sessions\n" in out
        assert "\nmore.json: conversation 2\n" in out
        assert (
            "\n2 calls in 2 sessions\n" in backtest(database, messages=["log.json"], session=["bot-2"])[1]
        )

    def test_origin_rules_use_earlier_messages(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rules about the origin of values look at the log's earlier messages."""
        monkeypatch.chdir(tmp_path)
        call = {"id": "c1", "function": {"name": "rm", "arguments": '{"path": "build"}'}}
        messages = [{"role": "user", "content": "rm build"}, {"role": "assistant", "tool_calls": [call]}]
        result = {"role": "tool", "tool_call_id": "c1", "content": "gone"}
        Path("log.json").write_text(json.dumps([*messages, result]))
        Path("said.rules").write_text("block rm when input.path not from user\n")
        out = backtest(Path("none.db"), files=["said.rules"], messages=["log.json"])[1]
        assert "1 call: " not in out
        Path("log.json").write_text(json.dumps([messages[1], result, messages[0]]))
        out = backtest(Path("none.db"), files=["said.rules"], messages=["log.json"])[1]
        assert "1 call: 1 newly blocked" in out


class TestJson:
    """The JSON output."""

    def test_object_has_sessions_and_totals(self, database: Path) -> None:
        """The object has the diverging sessions in full, and the totals."""
        code, out, err = backtest(database, json=True)
        found = json.loads(out)
        assert (code, err, found["files"]) == (0, "", ["new.rules"])
        [session] = found["sessions"]
        assert (session["session"], session["hypothetical_after"]) == ("bot-1", 7)
        assert session["first"]["now"]["rule"] == {
            "file": "new.rules",
            "line": 1,
            "text": "require lint before deploy",
        }
        assert found["totals"]["counts"]["blocked"] == {"calls": 2, "hypothetical": 1}

    def test_no_divergence_is_an_empty_list(self, database: Path) -> None:
        """Without a divergence the list is empty, and the output is valid JSON."""
        found = json.loads(backtest(database, json=True, session=["bot-2"])[1])
        assert (found["sessions"], found["totals"]["sessions"]) == ([], 1)

    def test_several_sessions_are_valid(self, database: Path) -> None:
        """Several sessions are valid JSON."""
        Path("all.rules").write_text("block look\nblock test\n")
        found = json.loads(backtest(database, json=True, files=["all.rules"])[1])
        assert [s["session"] for s in found["sessions"]] == ["bot-1", "bot-2"]


class TestBadInput:
    """Bad input: exit code 2, and the reason on stderr."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"session": ["nope"]}, "Session not found: nope. The latest are:"),
            (
                {"session": ["below"]},
                "'below-1' is a subagent's session: its calls were decided in 'bot-1'",
            ),
            ({"session": ["bot-1"], "since": "1h"}, "give --session or --since, not both"),
            ({"since": "soon"}, "'soon' is not a time; use 30m, 24h, 7d, 14:05,"),
            ({"at": 3}, "--at needs exactly one --session"),
            ({"session": ["bot-1", "bot-2"], "at": 3}, "--at needs exactly one --session"),
            ({"session": ["bot-1"], "at": 99}, "has events 1 to 12, not 99"),
            ({"active": ["nope"]}, "Unknown nets in active: 'nope'. Available: require-lint"),
            ({"messages": ["none.json"]}, "none.json: cannot be read: No such file"),
        ],
    )
    def test_wrong_options_are_reported(
        self, database: Path, options: dict[str, object], message: str
    ) -> None:
        """Wrong options are reported with what to give instead."""
        code, _, err = backtest(database, **options)
        assert (code, message in err) == (2, True), err

    def test_no_journal(self, tmp_path: Path, database: Path) -> None:
        """A missing journal is named."""
        code, out, err = backtest(tmp_path / "none.db")
        assert (code, out, "There is no journal at" in err) == (2, "", True)

    def test_faulty_rules(self, database: Path) -> None:
        """Faulty rules are reported as by `check`, before the journal is read."""
        Path("bad.rules").write_text("blok x\n")
        code, out, err = backtest(database, files=["bad.rules"])
        assert (code, out, "bad.rules:1:1: unknown keyword 'blok'" in err) == (2, "", True)


class TestCommandLine:
    """Parsing of the command line."""

    def test_options_reach_the_command(self, database: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Every option reaches the command."""
        words = ["backtest", "new.rules", "--db", str(database), "--session", "bot-1", "--at", "8"]
        assert main([*words, "--active", "block-rm"]) == 0
        out = capsys.readouterr().out
        assert "\n2 calls in 1 session\n" in out
        assert "1  newly blocked" in out
        assert "newly asked," not in out
        assert main(["backtest", "new.rules", "--db", str(database), "--since", "soon"]) == 2
        assert main(["backtest", "new.rules", "--messages", "a.json", "b.json", "--json"]) == 2
        assert "a.json: cannot be read" in capsys.readouterr().err

    def test_options_from_the_users_file(
        self, database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Options can be set in the user's interlock.toml."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", ".")
        Path("interlock.toml").write_text(f'db = "{database}"\n[backtest]\nsession = ["bot-2"]\n')
        assert main(["backtest", "new.rules"]) == 0
        assert "\n1 call in 1 session\n" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestProgress:
    """Progress on a terminal."""

    def test_progress_is_erased_before_output(self, database: Path) -> None:
        """Progress is shown on a terminal's stderr and erased before the output."""
        err = Terminal()
        with redirect_stdout(io.StringIO()), redirect_stderr(err):
            run(line(database), zone=UTC, now=NOON)
        assert err.getvalue() == "\r  5 of 6 calls\r  6 of 6 calls\r\x1b[K"

    def test_total_counts_only_selected_sessions(self, database: Path) -> None:
        """The total counts only calls of the selected sessions."""
        with Journal.open(
            database.with_name("new.db"), clock=lambda: NOON - timedelta(days=2)
        ) as journal:
            journal.write("old-1", opening(), decided("c1", "rm"))
        with Journal.open(database.with_name("new.db"), clock=lambda: NOON) as journal:
            journal.write("new-1", opening(), decided("c1", "rm"), decided("c2", "rm"))
        err = Terminal()
        with redirect_stdout(io.StringIO()), redirect_stderr(err):
            run(line(database.with_name("new.db"), since="1d"), now=NOON)
        assert err.getvalue() == "\r  2 of 2 calls\r\x1b[K"

    def test_interrupt_prints_results_so_far(self, database: Path) -> None:
        """After an interrupt the calls judged so far are printed, with exit code 130."""

        class Stopped(io.StringIO):
            def write(self, text: str) -> int:
                if text.startswith("bot-1"):
                    raise KeyboardInterrupt
                return super().write(text)

        out = Stopped()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            code = run(line(database), zone=UTC, now=NOON)
        assert code == 130
        assert (
            "5 calls in 1 session\n        Cancelled: these are the calls judged until then."
            in out.getvalue()
        )
