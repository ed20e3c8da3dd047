"""The approval dialog: its contents, and that only a deliberate key decides."""

from __future__ import annotations

import asyncio

import pytest
from textual import events
from textual.widgets import Input

from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.widgets.approval.frame import RequestFrame

from ...support.scenes import NOW, before, deploy_request, docs_writer, release_bot
from ...support.stage import stage


class TestContent:
    async def test_dialog_shows_call_rule_history_and_agent_words(self) -> None:
        """The dialog shows the call, the rule that asks, the history, and the agent's words last."""
        async with stage() as on:
            await on.open_dialog()
            shown = on.painted()
        shown = shown[shown.index("Approve: deploy") :]
        order = [
            "Approve: deploy — release-bot · waiting 0:42",
            "WHAT WILL RUN",
            "effects: deploy",
            "bash",
            '"./deploy --env prod --commit 9f31c02"',
            "WHY IT ASKS",
            "deploy.rules:5",
            "require human-approval before deploy",
            "ready ●",
            "deploy needs approval",
            "SO FAR",
            "✓ lint",
            "✓ test 70 s ago",
            "deploy: 2 of 2 left",
            "WORKING DIRECTORY",
            "~/projects/shop",
            "THE AGENT SAYS",
            "“Checks are green, deploying now.”",
            "release-bot-1f3a",
            "a approve once",
        ]
        at = 0
        for part in order:
            at = shown.index(part, at)

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 24)])
    async def test_the_end_of_a_long_command_is_on_screen(self, size: tuple[int, int]) -> None:
        """A command longer than the dialog shows its end; space unfolds it and `end` scrolls there."""
        command = "\n".join(f"echo {n}" for n in range(200)) + "\nrm -rf / # tail"
        state = release_bot()
        state.approvals["ap1"] = deploy_request(input={"command": command})
        async with stage(state, size=size) as on:
            await on.open_dialog()
            folded = on.painted()
            assert "echo 0" in folded
            assert "rm -rf / # tail" in folded
            assert "lines hidden · space shows all 201" in folded
            await on.press("space")
            await on.settle()
            assert "lines hidden" not in on.painted()
            assert "a show the next page · " in on.painted()
            await on.press("end")
            await on.settle()
            assert "THE AGENT SAYS" in on.painted()

    @pytest.mark.slow
    async def test_a_request_without_rule_or_session_is_still_shown(self) -> None:
        """A hand-built net has no rule; a bare marking stands in for the picture of the net."""
        state = release_bot()
        state.nets.clear()
        state.transcript.clear()
        state.calls.clear()
        state.approvals["ap1"] = deploy_request(rule=None, input={})
        async with stage(state) as on:
            await on.open_dialog()
            shown = on.painted()
        assert "no input" in shown
        assert "ready:1" in shown
        assert "no call has succeeded yet" in shown


class TestDeciding:
    @pytest.mark.slow
    async def test_a_approves_once(self) -> None:
        """`a` sends one approval in the operator's name and the dialog closes with it."""
        async with stage() as on:
            await on.open_dialog()
            await on.press("a")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_d_denies_with_the_reason_typed(self) -> None:
        """`d` opens the reason line, where letters are text. Enter denies with that reason."""
        async with stage() as on:
            await on.open_dialog()
            await on.press("d")
            assert isinstance(on.app.focused, Input)
            await on.press(*"add a d")
            await on.wake()
            await on.press("enter")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", False, "maria", "add a d")]
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_a_reason_is_optional(self) -> None:
        """Enter in the empty line denies without a reason."""
        async with stage() as on:
            await on.open_dialog()
            await on.press("d")
            await on.wake()
            await on.press("enter")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", False, "maria", None)]

    @pytest.mark.slow
    async def test_escape_leaves_the_reason_line_then_the_dialog(self) -> None:
        """Escape goes one step back each time and decides nothing; the request stays in the queue."""
        async with stage() as on:
            dialog = await on.open_dialog()
            await on.press("d", "escape")
            assert on.app.screen is dialog
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            assert on.decisions() == []
            assert "1 waiting" in on.painted()

    @pytest.mark.slow
    async def test_no_other_key_decides(self) -> None:
        """There is no default button: enter, space and the like decide nothing."""
        async with stage() as on:
            dialog = await on.open_dialog()
            await on.press("enter", "enter", "space", "y", "tab", "enter", "q", "n", "space")
            await on.settle()
            assert on.decisions() == []
            assert on.app.screen is dialog

    @pytest.mark.slow
    async def test_a_paste_decides_nothing(self) -> None:
        """Pasted text decides nothing, in the dialog or in the reason line."""
        async with stage() as on:
            dialog = await on.open_dialog()
            dialog.post_message(events.Paste("a\nd\n\n"))
            await on.settle()
            await on.press("d")
            on.app.screen.query_one("#reason", Input).post_message(events.Paste("no\nand more\n"))
            await on.settle()
            assert on.decisions() == []
            assert on.app.screen is dialog

    @pytest.mark.slow
    async def test_focus_starts_on_the_text(self) -> None:
        """The text has the initial focus, not a control that decides."""
        async with stage() as on:
            await on.open_dialog()
            assert on.app.focused is on.app.screen.query_one("#request")


@pytest.mark.slow
class TestReopening:
    async def test_reopened_dialog_is_reset(self) -> None:
        """A dialog that opens again has an empty reason, a folded input and sleeping keys."""
        command = "\n".join(f"echo {n}" for n in range(99))
        state = release_bot()
        state.approvals["ap1"] = deploy_request(input={"command": command})
        async with stage(state) as on:
            await on.open_dialog()
            await on.press("space", "d", *"half a reason", "escape", "escape")
            await on.settle()
            dialog = await on.open_dialog(awake=False)
            assert dialog.query_one("#reason", Input).value == ""
            assert not dialog.query_one("#reason-line").display
            assert "lines hidden" in on.painted()
            await on.press("a")
            await on.settle()
            assert on.decisions() == []


class TestInertKeys:
    async def test_keys_sleep_until_the_request_was_shown_long_enough(self) -> None:
        """Type-ahead decides nothing for 400 ms. The border reports this and flashes; then keys work.

        Each key that comes too early restarts the time.
        """
        async with stage() as on:
            dialog = await on.open_dialog(awake=False)
            assert "keys unlock in 0.4 s" in on.painted()
            await on.press("a", "d", "enter")
            on.seconds = 0.39
            await on.press("a")
            await on.settle()
            assert on.decisions() == []
            assert dialog.query_one(".frame").has_class("-early")
            on.seconds = 0.80
            await on.press("a")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]

    @pytest.mark.slow
    async def test_keys_sleep_again_after_help_is_closed(self) -> None:
        """After help has covered the dialog, its keys sleep again."""
        async with stage() as on:
            dialog = await on.open_dialog()
            await on.press("question_mark")
            assert on.app.screen is not dialog
            await on.press("escape")
            await on.settle()
            await on.press("a")
            await on.settle()
            assert on.app.screen is dialog
            assert on.decisions() == []


class TestElsewhere:
    async def test_decided_elsewhere(self) -> None:
        """The dialog reports another operator's decision. Keys no longer decide; escape closes it."""
        async with stage() as on:
            dialog = await on.open_dialog()
            on.hub.decided_elsewhere("ap1", approved=False, by="jo")
            await on.settle()
            assert "Already denied by jo" in on.painted()
            await on.press("a", "d", "enter")
            await on.settle()
            assert on.decisions() == []
            assert on.app.screen is dialog
            await on.press("escape")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_withdrawn_while_the_reason_is_typed(self) -> None:
        """The dialog reports why a request was withdrawn and accepts no reason."""
        async with stage() as on:
            await on.open_dialog()
            await on.press("d", *"too late")
            on.hub.withdraw("ap1", "the agent was interrupted")
            await on.settle()
            await on.press("enter")
            await on.settle()
            assert "Withdrawn: the agent was interrupted" in on.painted()
            assert on.decisions() == []

    @pytest.mark.slow
    async def test_a_refused_decision_is_shown_and_the_dialog_stays(self) -> None:
        """The dialog shows why the hub refused a decision. The operator can try again."""
        async with stage() as on:
            dialog = await on.open_dialog()
            on.hub.refuse = "Not decided, the journal refused it: disk full"
            await on.press("a")
            await on.settle()
            assert on.app.screen is dialog
            assert "disk full" in on.painted()
            on.hub.refuse = None
            await on.press("a")
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            assert len(on.decisions()) == 2

    @pytest.mark.slow
    async def test_keys_are_ignored_while_decision_is_recorded(self) -> None:
        """While the hub records a decision, a second key and escape do nothing."""
        async with stage() as on:
            dialog = await on.open_dialog()
            on.hub.held = asyncio.Event()
            await on.press("a")
            await on.settle()
            await on.press("a", "escape")
            await on.settle()
            assert on.app.screen is dialog
            on.hub.held.set()
            await on.settle()
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]
            assert isinstance(on.app.screen, LiveScreen)


class TestNewRequests:
    @pytest.mark.slow
    async def test_new_request_opens_its_dialog(self) -> None:
        """On the live screen the dialog appears at once, with its keys asleep."""
        async with stage(release_bot(waiting=False)) as on:
            on.hub.request(deploy_request(since=NOW))
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            await on.press("a")
            await on.settle()
            assert on.decisions() == []

    async def test_typing_is_not_interrupted(self) -> None:
        """While the operator types, only the queue and a notice change."""
        async with stage(release_bot(waiting=False)) as on:
            await on.press("i", *"wa")
            on.hub.request(deploy_request(since=NOW))
            await on.settle()
            assert isinstance(on.app.screen, LiveScreen)
            await on.press(*"it")
            assert on.app.screen.query_one("#say", Input).value == "wait"
            assert "1 waiting" in on.painted()

    @pytest.mark.slow
    async def test_a_second_request_waits_its_turn(self) -> None:
        """An open dialog keeps its request when another one arrives."""
        async with stage(release_bot(), docs_writer()) as on:
            dialog = await on.open_dialog()
            on.hub.request(deploy_request(id="ap2", session="docs-writer-77c0", agent="docs-writer"))
            await on.settle()
            assert on.app.screen is dialog
            assert dialog.request.id == "ap1"
            assert "1 more waiting" in on.painted()
            on.hub.decided_elsewhere("ap2", approved=False, by="jo")
            await on.settle()
            assert "more waiting" not in on.painted()
            await on.press("a")
            await on.settle()
            assert on.decisions() == [("decide", "ap1", True, "maria", None)]
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_request_arriving_during_a_decision_opens_next(self) -> None:
        """A request that arrives while a decision is recorded gets its dialog after the first closes."""
        async with stage() as on:
            await on.open_dialog()
            on.hub.held = asyncio.Event()
            await on.press("a")
            on.hub.request(deploy_request(id="ap2", since=before(0)))
            await on.settle()
            on.hub.held.set()
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert on.app.screen.request.id == "ap2"
            await on.press("a")
            await on.settle()
            assert len(on.decisions()) == 1


class TestClosing:
    async def test_clock_paints_nothing_while_dialog_is_removed(self) -> None:
        """A console that exits removes the dialog's parts one by one. Its clock paints none of them."""
        async with stage() as on:
            dialog = await on.open_dialog()
            frame = dialog.query_one(RequestFrame)
            asked = frame._subject
            assert asked is not None
            await frame.remove()
            frame.show(asked)
            dialog.tick()
