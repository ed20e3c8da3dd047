"""A server's answers to Claude Code's hooks: recorded events, each in its own process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from interlock.engine.history.model.events import CallDecided, CallResult
from tests.engine.gateway.served import Served, served, until

from .running import DATA, Hook, Ran, ended, every, recorded

SESSION = "claude-6f1c6c7e-9d0c-4a57-8d62-1f6a2c2b9f10"
RULES = """\
map Bash.command rm as delete
block delete
require human-approval before deploy
limit push to 2 per session
"""


def call(tool: str, number: str, **given: object) -> dict[str, object]:
    return recorded("pre_bash", tool_name=tool, tool_input=given, tool_use_id=number)


async def decided(server: Served, call_id: str) -> CallDecided | None:
    for event in await server.hub.recorded(SESSION):
        if isinstance(event.body, CallDecided) and event.body.call_id == call_id:
            return event.body
    return None


async def result(server: Served, call_id: str) -> CallResult | None:
    for event in await server.hub.recorded(SESSION):
        if isinstance(event.body, CallResult) and event.body.call_id == call_id:
            return event.body
    return None


async def decide(server: Served, *, approved: bool = True, **how: object) -> None:
    """Decide the first open request as an operator."""
    waiting = (await until(server.hub.approvals))[0]
    outcome = await server.hub.decide(waiting.id, approved=approved, by="ada", **how)  # type: ignore[arg-type]
    assert outcome.ok, outcome.message


def answered(ran: Ran) -> object:
    """Return the decision, empty if it is left to the agent."""
    return ran.decision["permissionDecision"] if ran.out else ""


class TestPreToolUse:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", every("pre_"))
    async def test_calls_without_rule_are_left_to_the_agent(self, tmp_path: Path, name: str) -> None:
        """Every recorded call is judged; a call that no rule covers is left to Claude Code."""
        async with served(tmp_path, rules=RULES) as server:
            ran = await Hook.at(tmp_path / "home", server).run(recorded(name))
            assert ran == Ran(0, "", "")
            found = await decided(server, str(recorded(name)["tool_use_id"]))
            assert found is not None
            assert (found.tool, found.input) == (
                recorded(name)["tool_name"],
                recorded(name)["tool_input"],
            )

    async def test_blocked(self, tmp_path: Path) -> None:
        """A command that a rule blocks is denied, with the reason for the model."""
        async with served(tmp_path, rules=RULES) as server:
            ran = await Hook.at(tmp_path / "home", server).run(
                call("Bash", "t1", command="cd x && rm -rf .")
            )
            assert ran.decision["permissionDecision"] == "deny"
            assert "delete is blocked" in str(ran.decision["permissionDecisionReason"])

    @pytest.mark.parametrize(
        ("shell", "said"),
        [
            ("/bin/zsh", "unclear is blocked"),
            ("/bin/bash", None),
            ("/usr/bin/fish", "unclear is blocked"),
        ],
    )
    async def test_command_is_parsed_for_the_users_shell(
        self, tmp_path: Path, shell: str, said: str | None
    ) -> None:
        """G-64: `=rm` is the program `rm` only in zsh; in an unknown shell it is unclear."""
        rules = "map Bash.command /^rm\\b/ as delete\nblock delete\nblock unclear"
        async with served(tmp_path, rules=rules) as server:
            hook = Hook.at(tmp_path / "home", server, SHELL=shell)
            ran = await hook.run(call("Bash", "t1", command="=rm -rf ."))
            if said is None:
                assert ran.out == ""
            else:
                assert said in str(ran.decision["permissionDecisionReason"])
            known = (await server.hub.session(SESSION)).shell
            assert known == {"/bin/zsh": "zsh", "/bin/bash": "bash"}.get(shell)

    @pytest.mark.slow
    async def test_non_text_fields(self, tmp_path: Path) -> None:
        """G-64, G-65: a list is a program with its arguments; objects and other spellings are unclear."""
        rules = "map Bash.command /^rm\\b/ as delete\nblock delete\nblock unclear"
        async with served(tmp_path, rules=rules) as server:
            hook = Hook.at(tmp_path / "home", server)
            for number, (given, name) in enumerate(
                [
                    ({"command": ["sh", "-c", "rm -rf /"]}, "delete"),
                    ({"command": {"line": "ls"}}, "unclear"),
                    ({"command": "ls", "COMMAND": "ls"}, "unclear"),
                    ({"command": ["ls", "rm x"]}, None),
                ]
            ):
                ran = await hook.run(call("Bash", f"t{number}", **given))
                if name is None:
                    assert ran.out == ""
                else:
                    assert f"{name} is blocked" in str(ran.decision["permissionDecisionReason"])

    async def test_approved(self, tmp_path: Path) -> None:
        """An approved call is allowed, so that Claude Code does not ask a second time."""
        async with served(tmp_path, rules=RULES) as server:
            hook = await Hook.at(tmp_path / "home", server).start(call("deploy", "t1", env="prod"))
            await decide(server)
            ran = await ended(hook)
            assert ran.decision["permissionDecision"] == "allow"
            assert "updatedInput" not in ran.decision

    async def test_denied(self, tmp_path: Path) -> None:
        """The denial's reason reaches the model."""
        async with served(tmp_path, rules=RULES) as server:
            hook = await Hook.at(tmp_path / "home", server).start(call("deploy", "t1", env="prod"))
            await decide(server, approved=False, reason="not on a Friday")
            ran = await ended(hook)
            assert ran.decision["permissionDecision"] == "deny"
            assert "not on a Friday" in str(ran.decision["permissionDecisionReason"])

    async def test_edited(self, tmp_path: Path) -> None:
        """Claude Code runs the input that the operator edited."""
        async with served(tmp_path, rules=RULES) as server:
            hook = await Hook.at(tmp_path / "home", server).start(call("deploy", "t1", env="prod"))
            await decide(server, input={"env": "größe", "dry": True})
            ran = await ended(hook)
            assert ran.decision["permissionDecision"] == "allow"
            assert ran.decision["updatedInput"] == {"env": "größe", "dry": True}
            # The model's conversation still shows the call as the model made it.
            assert '{"env": "größe", "dry": true}' in str(ran.decision["additionalContext"])

    @pytest.mark.slow
    async def test_repeated_call_has_one_request(self, tmp_path: Path) -> None:
        """The same call sent twice has one request and one decision."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            first = await hook.start(call("deploy", "t1", env="prod"))
            await until(server.hub.approvals)
            second = await hook.start(call("deploy", "t1", env="prod"))
            await decide(server)
            ran = [await ended(each) for each in (first, second)]
            assert [each.code for each in ran] == [0, 0]
            assert not any("deny" in each.out for each in ran)
            assert await server.hub.approvals() == []
            found = [event.body for event in await server.hub.recorded(SESSION)]
            assert sum(isinstance(body, CallDecided) for body in found) == 1

    @pytest.mark.slow
    async def test_reused_id_is_a_new_call(self, tmp_path: Path) -> None:
        """G-76: after its result is recorded, the same `tool_use_id` is a new call: one use, one run."""
        async with served(tmp_path, rules=RULES.replace("2 per", "1 per")) as server:
            hook = Hook.at(tmp_path / "home", server)
            assert answered(await hook.run(call("push", "t1"))) != "deny"
            assert answered(await hook.run(call("push", "t1"))) != "deny"
            await hook.run(recorded("post_bash", tool_name="push", tool_use_id="t1"))
            ran = await hook.run(call("push", "t1"))
            assert ran.decision["permissionDecision"] == "deny"
            assert "limit of 1" in str(ran.decision["permissionDecisionReason"])
            asked = await hook.start(call("deploy", "t2", env="prod"))
            await decide(server)
            assert answered(await ended(asked)) == "allow"
            await hook.run(recorded("post_bash", tool_name="deploy", tool_use_id="t2"))
            again = await hook.start(call("deploy", "t2", env="prod"))
            await decide(server, approved=False)
            assert answered(await ended(again)) == "deny"

    async def test_simultaneous_first_calls_open_session_once(self, tmp_path: Path) -> None:
        """Simultaneous first calls open their session once, and all are judged."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            ran = await asyncio.gather(*(hook.run(call("push", f"t{n}")) for n in range(4)))
            assert [r.code for r in ran] == [0] * 4, ran
            assert sum(bool(r.out) for r in ran) == 2

    async def test_shadow(self, tmp_path: Path) -> None:
        """In shadow mode no call is blocked, and Claude Code asks as it would without the hook."""
        async with served(tmp_path, rules=RULES, mode="shadow") as server:
            hook = Hook.at(tmp_path / "home", server)
            (hook.config / "interlock.toml").write_text('[hook]\non_allow = "allow"\n')
            assert await hook.run(call("Bash", "t1", command="rm x")) == Ran(0, "", "")


class TestConfigured:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("on_allow", "free", "approved"),
        [("defer", "", ""), ("approved", "", "allow"), ("allow", "allow", "allow")],
    )
    async def test_on_allow_selects_calls_to_skip_the_question(
        self, tmp_path: Path, on_allow: str, free: str, approved: str
    ) -> None:
        """The user's `on_allow` chooses which allowed calls skip Claude Code's own question."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            (hook.config / "interlock.toml").write_text(f'[hook]\non_allow = "{on_allow}"\n')
            ran = await hook.run(call("Bash", "t1", command="ls"))
            assert answered(ran) == free
            waiting = await hook.start(call("deploy", "t2"))
            await decide(server)
            ran = await ended(waiting)
            assert answered(ran) == approved

    async def test_on_edit_deny_denies_edited_call(self, tmp_path: Path) -> None:
        """With `on_edit = "deny"` an edited call is denied, and the record says that it did not run."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            (hook.config / "interlock.toml").write_text('[hook]\non_edit = "deny"\n')
            waiting = await hook.start(call("deploy", "t1", env="prod"))
            await decide(server, input={"env": "staging"})
            ran = await ended(waiting)
            assert ran.decision["permissionDecision"] == "deny"
            assert '{"env": "staging"}' in str(ran.decision["permissionDecisionReason"])
            found = await result(server, "t1")
            assert found is not None
            assert found.is_error

    @pytest.mark.parametrize("setting", ['on_allow = "allow"', 'on_wait = "ask"', 'on_edit = "pass"'])
    async def test_project_settings_cannot_loosen(self, tmp_path: Path, setting: str) -> None:
        """A project's settings cannot loosen anything, because an agent may write them."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            project = tmp_path / "project"
            project.mkdir()
            (project / "interlock.toml").write_text(f"[hook]\n{setting}\n")
            ran = await hook.run(call("Bash", "t1", command="ls"), "--project", str(project))
            assert ran.code == 2
            assert "is allowed in" in ran.err

    async def test_project_waiting_time_keeps_user_settings(self, tmp_path: Path) -> None:
        """A project's waiting time does not remove the user's other settings."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            (hook.config / "interlock.toml").write_text('[hook]\non_allow = "defer"\n')
            project = tmp_path / "project"
            project.mkdir()
            (project / "interlock.toml").write_text('[hook]\nwait = "30s"\n')
            waiting = await hook.start(call("deploy", "t2"), "--project", str(project))
            await decide(server)
            assert await ended(waiting) == Ran(0, "", "")


class TestDeadline:
    @pytest.mark.slow
    async def test_denied_before_the_agents_timeout(self, tmp_path: Path) -> None:
        """Without a decision the call is denied before the agent's timeout; the request is withdrawn."""
        async with served(tmp_path, rules=RULES) as server:
            ran = await Hook.at(tmp_path / "home", server).run(call("deploy", "t1"), "--timeout", "3")
            assert ran.decision["permissionDecision"] == "deny"
            assert "nobody decided" in str(ran.decision["permissionDecisionReason"])
            assert await server.hub.approvals() == []

    @pytest.mark.slow
    async def test_on_wait_ask_lets_claude_code_ask(self, tmp_path: Path) -> None:
        """With `on_wait = "ask"` Claude Code asks instead, and the call's result is accepted."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            (hook.config / "interlock.toml").write_text('[hook]\non_wait = "ask"\nwait = "1s"\n')
            ran = await hook.run(call("deploy", "t1"))
            assert ran.decision["permissionDecision"] == "ask"
            assert await server.hub.approvals() == []
            assert await hook.run(recorded("post_bash", tool_use_id="t1")) == Ran(0, "", "")

    async def test_interrupt_withdraws_the_request(self, tmp_path: Path) -> None:
        """Interrupting the hook withdraws the request; the command ends with exit code 2."""
        async with served(tmp_path, rules=RULES) as server:
            hook = await Hook.at(tmp_path / "home", server).start(call("deploy", "t1"))
            await until(server.hub.approvals)
            hook.terminate()
            ran = await ended(hook)
            assert (ran.code, ran.out) == (2, "")
            assert await server.hub.approvals() == []


class TestResults:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", every("post_", "failure_"))
    async def test_recorded(self, tmp_path: Path, name: str) -> None:
        """Every recorded result is recorded in the session, failures as failures."""
        event = recorded(name)
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            pre = recorded("pre_bash", tool_name=event["tool_name"], tool_use_id=event["tool_use_id"])
            assert (await hook.run(pre)).code == 0
            assert await hook.run(event) == Ran(0, "", "")
            found = await result(server, str(event["tool_use_id"]))
            assert found is not None
            assert found.is_error is ("fail" in name)

    @pytest.mark.slow
    async def test_success_meets_a_rules_requirement(self, tmp_path: Path) -> None:
        """A successful call meets a rule's requirement; a failed one does not."""
        async with served(tmp_path, rules="require test before deploy") as server:
            hook = Hook.at(tmp_path / "home", server)
            assert (await hook.run(call("test", "t1"))).out == ""
            await hook.run(recorded("failure_bash", tool_name="test", tool_use_id="t1"))
            assert "deny" in (await hook.run(call("deploy", "t2"))).out
            await hook.run(call("test", "t3"))
            await hook.run(recorded("post_bash", tool_name="test", tool_use_id="t3"))
            assert (await hook.run(call("deploy", "t4"))).out == ""

    @pytest.mark.slow
    async def test_unknown_call_is_reported(self, tmp_path: Path) -> None:
        """A result that cannot be recorded is reported, because rules may wait for it."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(recorded("session_start_startup"))
            ran = await hook.run(recorded("post_bash", tool_use_id="never"))
            assert (ran.code, ran.out) == (2, "")
            assert "not recorded" in ran.err

    @pytest.mark.slow
    async def test_large_output_is_recorded_in_part(self, tmp_path: Path) -> None:
        """An output larger than a frame is recorded in part, with a note."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(call("Bash", "t1", command="ls"))
            event = recorded(
                "post_bash", tool_use_id="t1", tool_response="\U0001f600" * 200_000 + "\ud800"
            )
            assert await hook.run(event) == Ran(0, "", "")
            found = await result(server, "t1")
            assert found is not None
            assert "more characters were left out" in found.output


class TestSessions:
    @pytest.mark.variants
    @pytest.mark.parametrize("name", every("session_start_"))
    async def test_start_event_opens_the_session(self, tmp_path: Path, name: str) -> None:
        """Every recorded session start opens the session with the agent's name and model."""
        async with served(tmp_path, rules=RULES) as server:
            assert await Hook.at(tmp_path / "home", server).run(recorded(name)) == Ran(0, "", "")
            state = await server.hub.session(SESSION)
            assert state.agent == "claude-code"
            assert state.model == recorded(name).get("model", "")

    @pytest.mark.slow
    @pytest.mark.parametrize("name", every("session_end_"))
    async def test_end_event_closes_the_session(self, tmp_path: Path, name: str) -> None:
        """Every recorded session end closes the session; a second end is no failure."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(recorded("session_start_startup"))
            assert await hook.run(recorded(name)) == Ran(0, "", "")
            assert SESSION not in [each.id for each in await server.hub.sessions()]
            assert await hook.run(recorded(name)) == Ran(0, "", "")

    @pytest.mark.slow
    @pytest.mark.parametrize("source", ["resume", "compact", "startup", "clear"])
    async def test_continued_session_keeps_its_budget(self, tmp_path: Path, source: str) -> None:
        """A continued session keeps its remaining budget, however it starts again."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(recorded("session_start_startup"))
            assert (await hook.run(call("push", "t1"))).out == ""
            await hook.run(recorded("session_end_other"))
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(recorded(f"session_start_{source}"))
            assert (await hook.run(call("push", "t2"))).out == ""
            assert "limit of 2" in (await hook.run(call("push", "t3"))).out

    @pytest.mark.slow
    async def test_new_session_has_its_own_budgets(self, tmp_path: Path) -> None:
        """Another session has its own budgets."""
        async with served(tmp_path, rules="limit push to 1 per session") as server:
            hook = Hook.at(tmp_path / "home", server)
            assert (await hook.run(call("push", "t1"))).out == ""
            assert "deny" in (await hook.run(call("push", "t2"))).out
            assert (await hook.run(call("push", "t3") | {"session_id": "another"})).out == ""

    async def test_server_without_rules_is_reported(self, tmp_path: Path) -> None:
        """At the session's start the hook reports a server without rules."""
        async with served(tmp_path, rules="") as server:
            ran = await Hook.at(tmp_path / "home", server).run(recorded("session_start_startup"))
            assert "judges nothing" in json.loads(ran.out)["systemMessage"]


class TestCodex:
    async def test_allowed_prints_nothing(self, tmp_path: Path) -> None:
        """Codex does not accept `allow`: without output a call runs, approved or not covered."""
        async with served(tmp_path, rules="require human-approval before apply_patch") as server:
            hook = Hook.at(tmp_path / "home", server)
            (hook.config / "interlock.toml").write_text('[hook]\non_allow = "allow"\n')
            assert await hook.run(recorded("codex_0.169.0_start"), agent="codex") == Ran(0, "", "")
            assert await hook.run(recorded("codex_0.169.0_pre_bash"), agent="codex") == Ran(0, "", "")
            waiting = await hook.start(recorded("codex_0.169.0_pre_patch"), agent="codex")
            await decide(server)
            assert await ended(waiting) == Ran(0, "", "")

    async def test_edited_is_denied(self, tmp_path: Path) -> None:
        """Codex cannot run edited input, so the call is denied and the model reads the edit."""
        async with served(tmp_path, rules="require human-approval before apply_patch") as server:
            waiting = await Hook.at(tmp_path / "home", server).start(
                recorded("codex_0.169.0_pre_patch"), agent="codex"
            )
            await decide(server, input={"command": "other"})
            ran = await ended(waiting)
            assert ran.decision["permissionDecision"] == "deny"
            assert '"other"' in str(ran.decision["permissionDecisionReason"])

    @pytest.mark.slow
    async def test_ask_is_replaced_by_denial(self, tmp_path: Path) -> None:
        """Codex would run a call answered with `ask`, so the hook denies it."""
        async with served(
            tmp_path, rules="block Bash\nrequire human-approval before apply_patch"
        ) as server:
            hook = Hook.at(tmp_path / "home", server)
            (hook.config / "interlock.toml").write_text('[hook]\non_wait = "ask"\nwait = "1s"\n')
            for name in ("codex_0.169.0_pre_bash", "codex_0.169.0_pre_patch"):
                ran = await hook.run(recorded(name), agent="codex")
                assert ran.decision["permissionDecision"] == "deny"

    @pytest.mark.slow
    async def test_exit_code_is_read_from_transcript(self, tmp_path: Path) -> None:
        """A Codex command counts as successful only if its transcript shows exit code 0."""
        rules = "map Bash.command ./test as test\nrequire test before apply_patch"
        transcript = DATA / "codex_0.169.0_transcript.jsonl"
        async with served(tmp_path, rules=rules) as server:
            hook = Hook.at(tmp_path / "home", server)
            gone = str(tmp_path / "none.jsonl")
            for name, where, opens in (
                ("post_bash_failed", str(transcript), False),
                ("post_bash", gone, False),
                ("post_bash", str(transcript), True),
            ):
                # Another session, because a call has one result.
                session = f"s-{name}-{where == gone}"
                at = {"session_id": session, "transcript_path": where}
                event = recorded(f"codex_0.169.0_{name}", **at)
                made = recorded("codex_0.169.0_pre_bash", tool_use_id=event["tool_use_id"], **at)
                assert await hook.run(made, agent="codex") == Ran(0, "", "")
                assert await hook.run(event, agent="codex") == Ran(0, "", "")
                ran = await hook.run(recorded("codex_0.169.0_pre_patch", **at), agent="codex")
                assert ("deny" not in ran.out) is opens, name
                found = (await server.hub.session(f"codex-{session}")).calls[str(event["tool_use_id"])]
                assert found.status == ("done" if opens else "failed")
                assert ("did not say how" in (found.output or "")) is (where == gone)

    @pytest.mark.slow
    async def test_turn_end_marks_calls_unknown_and_end_closes_session(self, tmp_path: Path) -> None:
        """A call without a result becomes unknown at the turn's end; the end event closes the session."""
        async with served(tmp_path, rules=RULES) as server:
            hook = Hook.at(tmp_path / "home", server)
            await hook.run(recorded("codex_0.169.0_pre_patch"), agent="codex")
            assert await hook.run(recorded("codex_0.169.0_stop"), agent="codex") == Ran(0, "", "")
            state = await server.hub.session("codex-019a2b3c-codex")
            assert state.calls["call_3"].status == "unknown"
            assert await hook.run(recorded("codex_0.169.0_end"), agent="codex") == Ran(0, "", "")
            assert await server.hub.sessions() == []


class TestFrozen:
    @pytest.mark.slow
    @pytest.mark.parametrize("on_wait", ["deny", "ask"])
    async def test_waiting_call_is_denied_with_the_reason(self, tmp_path: Path, on_wait: str) -> None:
        """A call that waits too long during a freeze is denied, and never left to the agent."""
        async with served(tmp_path, rules=RULES) as server:
            await server.hub.freeze(by="maria", reason="the deploys look wrong")
            hook = Hook.at(tmp_path / "home", server)
            (hook.config / "interlock.toml").write_text(f'[hook]\nwait = "1s"\non_wait = "{on_wait}"\n')
            ran = await ended(await hook.start(call("Bash", "t1", command="ls")))
            assert answered(ran) == "deny"
            assert "frozen by maria: the deploys look wrong" in str(
                ran.decision["permissionDecisionReason"]
            )
            assert await decided(server, "t1") is None
