"""Grants from the dialog: for a scope that was shown, with a limit, by a deliberate key."""

from __future__ import annotations

import pytest
from textual.widgets import Static

from interlock.app.screens.approval.grant import GrantScreen
from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.viewmodels.grant_terms import TermsError, limits, sentence, terms
from interlock.engine.core.approvers import Approvers
from interlock.engine.gate.types import GrantScope, GrantTerms

from ...support.scenes import deploy_request, release_bot
from ...support.stage import Stage, stage


def asking(**more: object):
    state = release_bot()
    state.approvals["ap1"] = deploy_request(**{"may_grant": True, "digest": "shown", **more})
    return state


async def open_menu(on: Stage) -> GrantScreen:
    await on.open_dialog()
    await on.press("g")
    await on.settle()
    assert isinstance(on.app.screen, GrantScreen)
    await on.wake()
    return on.app.screen


async def type_reason(on: Stage, reason: str = "often") -> None:
    """Type the reason last, as an operator does."""
    on.app.screen.query_one("#reason").focus()
    await keys(on, *reason)
    await on.wake()


async def keys(on: Stage, *pressed: str) -> None:
    """Press keys one by one and wait for each effect."""
    for key in pressed:
        await on.press(key)
        await on.settle()


def text(on: Stage, part: str) -> str:
    """The text of a part of the menu, without its folds."""
    return str(on.app.screen.query_one(part, Static).content)


class TestGroup:
    @pytest.mark.slow
    async def test_approve_is_greyed_for_non_members(self) -> None:
        """The greyed key shows why, and nothing is sent. Denying remains possible."""
        state = asking(approvers=Approvers("security"))
        async with stage(state) as on:
            await on.open_dialog()
            for key in ("a", "g"):
                await on.press(key)
            await on.settle()
            assert on.decisions() == []
            await on.until("Your approval does not count: you are not in security")
            await on.press("d")
            await on.wake()
            await on.press("enter")
            await on.settle()
            assert len(on.decisions()) == 1

    @pytest.mark.slow
    async def test_member_can_approve(self) -> None:
        """An operator in the rule's group, as the hub reports it, can approve."""
        state = asking(approvers=Approvers("security"))
        async with stage(state) as on:
            on.hub.groups = {"maria": ("security",)}
            await on.open_dialog()
            await on.press("a")
            await on.settle()
            assert len(on.decisions()) == 1


class TestMenu:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("pressed", "expected", "said"),
        [
            ((), GrantTerms("names"), "every call of bash that counts as deploy and nothing else."),
            (
                ("tab", "tab", "right"),
                GrantTerms("names", subagents=True),
                "nothing else, also by subagents.",
            ),
            (("right",), GrantTerms("input"), "every call of bash with exactly this input."),
            (("tab", "right"), GrantTerms("names", uses=3), "the next 3 calls of bash that count as"),
            (
                ("tab", "left"),
                GrantTerms("names", seconds=1800.0),
                "for the next 30 min, every call of bash",
            ),
        ],
    )
    async def test_scope_and_limits_of_a_grant(
        self, pressed: tuple[str, ...], expected: GrantTerms, said: str
    ) -> None:
        """Section 1: a grant for a session is limited by uses or time, and by effects or exact input."""
        async with stage(asking()) as on:
            await open_menu(on)
            await keys(on, *pressed)
            assert said in text(on, "#sentence")
            await type_reason(on)
            await on.press("ctrl+g")
            await on.settle()
            [answer] = on.hub.answers
            assert (answer.approved, answer.grant, answer.digest) == (True, expected, "shown")
            assert answer.reason == "often"
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_typed_number_replaces_the_default(self) -> None:
        """A typed number replaces the default. The menu reports an invalid one and grants nothing."""
        async with stage(asking()) as on:
            await open_menu(on)
            await keys(on, "tab", "right", "tab", "1", "2")
            assert "the next 12 calls" in on.painted()
            await keys(on, "x")
            assert "A number from 1 to" in on.painted()
            await on.wake()
            await keys(on, "ctrl+g", "enter")
            assert on.hub.answers == []
            await keys(on, "backspace")
            await type_reason(on)
            await keys(on, "ctrl+g")
            assert on.hub.answers[0].grant == GrantTerms("names", uses=12)

    @pytest.mark.slow
    async def test_changed_sentence_restarts_the_waiting_time(self) -> None:
        """The waiting time restarts when the grant's sentence changes."""
        async with stage(asking()) as on:
            await open_menu(on)
            await type_reason(on)
            on.app.screen.query_one("#scope").focus()
            await keys(on, "right", "ctrl+g")
            assert on.hub.answers == []
            await on.wake()
            await keys(on, "ctrl+g")
            assert on.hub.answers[0].grant == GrantTerms("input")

    @pytest.mark.slow
    async def test_reason_is_required(self) -> None:
        """G-67: a grant requires a reason. The menu reports a missing one and focuses its line."""
        async with stage(asking()) as on:
            await open_menu(on)
            for typed in ("", "space"):
                await keys(on, *filter(None, [typed]))
                await on.wake()
                await keys(on, "ctrl+g")
                assert on.hub.answers == []
                assert "Type a reason" in on.painted()
                assert on.app.focused is on.app.screen.query_one("#reason")

    @pytest.mark.slow
    async def test_subagent_call_only_allows_subagent_grant(self) -> None:
        """G-74: the menu says beforehand that a subagent's call only allows a grant for subagents."""
        async with stage(asking(via="reviewer-1", call_id="reviewer-1/c9")) as on:
            await open_menu(on)
            assert "A subagent made this call" in text(on, "#sentence")
            assert text(on, "#limits") == ""
            await type_reason(on)
            await on.wake()
            await keys(on, "ctrl+g")
            assert on.hub.answers == []
            on.app.screen.query_one("#whom").focus()
            await keys(on, "right")
            assert "also by subagents" in text(on, "#sentence")
            await on.wake()
            await keys(on, "ctrl+g")
            assert on.hub.answers[0].grant == GrantTerms("names", subagents=True)

    @pytest.mark.slow
    async def test_menu_is_complete_on_a_small_terminal(self) -> None:
        """A 60-by-20 terminal shows all lines that matter for the decision; page keys scroll."""
        async with stage(asking(), size=(60, 20)) as on:
            await open_menu(on)
            await keys(on, "tab", "right")
            await on.wake()
            await keys(on, "ctrl+g")
            seen = on.painted()
            for each in (
                "What",
                "How long",
                "a number of calls",
                "Whose",
                "Type a reason",
                "asks again.",
            ):
                assert each in seen
            frame = on.app.screen.query_one(".frame")
            on.app.screen.query_one("#said", Static).update("a\n" * 30)
            await on.settle()
            await keys(on, "pagedown")
            assert frame.scroll_y > 0
            await keys(on, "pageup", "pageup")
            assert frame.scroll_y == 0

    @pytest.mark.slow
    async def test_no_other_key_grants(self) -> None:
        """Enter, space and letters choose or do nothing. Escape goes back to the request."""
        async with stage(asking()) as on:
            menu = await open_menu(on)
            await keys(on, "enter", "a", "g", "y", "enter")
            assert on.app.screen is menu
            await keys(on, "escape")
            assert isinstance(on.app.screen, ApprovalScreen)
            assert on.hub.asked == []


class TestRefused:
    async def test_rule_that_forbids_grants(self) -> None:
        """The dialog reports that a rule forbids grants."""
        async with stage(asking(may_grant=False)) as on:
            dialog = await on.open_dialog()
            await keys(on, "g")
            assert on.app.screen is dialog
            assert "No grants: the rule allows none" in on.painted()

    @pytest.mark.slow
    async def test_call_for_several_approvers(self) -> None:
        """A call that several operators must approve each time allows no grant."""
        async with stage(asking(may_grant=False, people=2)) as on:
            await on.open_dialog()
            await keys(on, "g")
            assert "No grants: 2 people must approve each call" in on.painted()

    @pytest.mark.slow
    async def test_uninspectable_command_requires_exact_input(self) -> None:
        """G-51: an uninspectable command can only be granted with exactly its input."""
        async with stage(asking(exact_only="command: it reads a file")) as on:
            await open_menu(on)
            assert "not bash → deploy: only exactly this input can be granted" in text(on, "#narrowed")
            await keys(on, "right", "left")
            await type_reason(on)
            await keys(on, "ctrl+g")
            assert on.hub.answers[0].grant == GrantTerms("input")

    @pytest.mark.slow
    async def test_request_decided_elsewhere(self) -> None:
        """If the request is decided elsewhere, the open menu reports this and grants nothing."""
        async with stage(asking()) as on:
            await open_menu(on)
            on.hub.decided_elsewhere("ap1", approved=True, by="jo")
            await on.settle()
            assert "Already approved by jo" in on.painted()
            await on.wake()
            await keys(on, "ctrl+g")
            assert on.hub.asked == []


class TestTerms:
    @pytest.mark.parametrize(
        ("bound", "typed"),
        [
            *(("uses", typed) for typed in ("", "0", "-1", "1e3", "9999999", "²")),
            *(("time", typed) for typed in ("", "0s", "5", "999999d", "soon")),
        ],
    )
    def test_invalid_limits_are_rejected(self, bound: str, typed: str) -> None:
        """Limits that are not a number from 1 or a valid time are rejected."""
        with pytest.raises(TermsError):
            terms("names", bound, typed)

    @pytest.mark.parametrize(
        ("more", "scope", "said"),
        [
            (
                {"commands": 1},
                "names",
                "Arguments may differ; programs and all other fields must be the same.",
            ),
            ({"commands": 1}, "names", "variables, files, substitutions, groups, loops, !, & or another"),
            ({}, "names", "Only fields that a map reads may differ."),
            ({"called": "deploy", "names": ("deploy",)}, "names", "Where no map reads a field"),
            ({}, "input", "A call with another value in any field asks again."),
        ],
    )
    def test_terms_describe_covered_and_excluded_calls(
        self, more: dict[str, object], scope: GrantScope, said: str
    ) -> None:
        """G-74: for each scope the dialog says what a grant covers and what asks again."""
        assert said in limits(deploy_request(**more), scope)

    def test_grant_fixes_values_that_no_map_reads(self) -> None:
        """G-74: a grant for a call without other names fixes the values that no map reads."""
        request = deploy_request(called="deploy", names=("deploy",))
        said = sentence(request, GrantTerms("names", uses=1))
        assert said == (
            "Approve this call and the next call of deploy with the same values in fields that no map "
            "reads."
        )
