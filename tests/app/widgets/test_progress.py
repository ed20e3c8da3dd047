"""The progress of a request, as text without a screen."""

from __future__ import annotations

import pytest

from interlock.app.viewmodels.request import effects_of
from interlock.app.widgets.approval.progress import Viewer, progress_lines
from interlock.app.widgets.approval.request import request_text
from interlock.engine.core.approvers import Approvers, Escalation
from interlock.engine.core.shared_limit import SharedLimit
from interlock.engine.history.model.records import TransitionRecord

from ..support.scenes import NOW, START, before, call, deploy_request, net, release_bot, step


def progress_text(request: object, session: object, viewer: Viewer | None = None) -> str:
    return " ".join(line.plain for line in progress_lines(request, session, NOW, 100, viewer))


def sliding(left: int, *came: float):
    """A limit of three in an hour with uses that many seconds ago."""
    record = net(
        "limit-deploy-3-per-1h",
        "idle ready budget spent",
        (
            START,
            step("do-deploy", "ready+budget", "ready+spent", "deploy"),
            TransitionRecord(name="recover", inputs=("spent",), outputs=("budget",), after=3600.0),
        ),
        {"ready": 1, "budget": left, "spent": len(came)},
        initial={"idle": 1, "budget": 3},
    )
    return record.model_copy(update={"since": {"spent": tuple(NOW.timestamp() - s for s in came)}})


class TestSoFar:
    def test_prerequisites_are_shown_recursively(self) -> None:
        """The call's prerequisites and their own are shown with times; other calls are counted."""
        assert progress_text(deploy_request(), release_bot()) == (
            "✓ lint 3 min ago   ✓ test 70 s ago   deploy: 2 of 2 left   1 other successful call"
        )

    def test_sliding_limit_uses_current_time(self) -> None:
        """A sliding limit counts by the current time, not by the time of the last event."""
        state = release_bot()
        state.nets["limit-deploy-2"] = sliding(1, 2880.0, 60.0)
        assert "deploy: 1 of 3 left, next back in 12 min" in progress_text(deploy_request(), state)
        state.nets["limit-deploy-2"] = sliding(1, 3700.0, 60.0)
        assert "deploy: 2 of 3 left, next back in 59 min" in progress_text(deploy_request(), state)

    def test_limit_over_sessions_shows_use_of_this_session(self) -> None:
        state = release_bot()
        record = sliding(1, 2880.0, 60.0)
        shared = SharedLimit("deploy", "everyone", "budget", 3600.0)
        record = record.model_copy(update={"net": record.net.model_copy(update={"shared": shared})})
        state.nets["limit-deploy-2"] = record
        assert (
            "deploy: 3 across everyone, 2 of them by this session, next back in 12 min"
            in progress_text(deploy_request(), state)
        )

    def test_triggering_call_is_shown(self) -> None:
        """The call that brought the rule into effect is shown, even if it failed, but not if blocked."""
        state = release_bot()
        asking = deploy_request().net
        leading = state.nets[asking].net.model_copy(update={"leads": ("read_web",)})
        state.nets[asking] = state.nets[asking].model_copy(update={"net": leading})
        state.calls["r1"] = call("r1", "read_web", "curl x", "failed", 50)
        state.calls["r2"] = call("r2", "read_web", "curl y", "blocked", 10)
        assert "after read_web 50 s ago" in progress_text(deploy_request(), state)
        state.calls["r3"] = call("r3", "read_web", "curl z", "running", 20)
        assert "after read_web 20 s ago" in progress_text(deploy_request(), state)

    def test_inactive_net_has_no_requirements(self) -> None:
        """A net that is switched off has no requirements."""
        state = release_bot()
        for each in state.nets.values():
            each.active = False
        state.active = []
        assert progress_text(deploy_request(), state) == "3 successful calls"

    @pytest.mark.parametrize(
        ("given", "times", "people", "expected"),
        [
            ((), (), 2, "0 of 2: two people must approve"),
            (("ada",), (120,), 2, "1 of 2: ada 2 min ago ✓ — 1 more needed"),
            (("ada", "bob"), (7300, 2), 4, "2 of 4: ada 2 h ago ✓, bob just now ✓ — 2 more needed"),
            (("ada", "bob"), (40,), 3, "2 of 3: ada 40 s ago ✓, bob ✓ — 1 more needed"),
        ],
    )
    def test_approvers_and_missing_approvals_are_shown(
        self, given: tuple[str, ...], times: tuple[float, ...], people: int, expected: str
    ) -> None:
        """The line shows who has approved, when if known, and how many are missing."""
        request = deploy_request(people=people, given=given, given_at=tuple(map(before, times)))
        assert progress_text(request, release_bot()).startswith(expected)

    @pytest.mark.parametrize(
        ("viewer", "expected"),
        [
            (Viewer("maria"), ", not you: you started this session"),
            (Viewer("maria", own_approvals=True), "more needed   ✓"),
            (Viewer("Maria"), ", not you: you started this session"),
            (Viewer("ada"), ", not you: you have approved"),
            (Viewer("jo"), "more needed   ✓"),
        ],
    )
    def test_excluded_operator_sees_the_reason(self, viewer: Viewer, expected: str) -> None:
        """An operator whose approval would not count is told why; others are not."""
        state = release_bot()
        state.starters = {"maria": "opened"}
        assert expected in progress_text(deploy_request(people=2, given=("ada",)), state, viewer).replace(
            "needed ✓", "needed   ✓"
        )


SECURITY = Approvers("security", escalation=Escalation("oncall", 600))


class TestApprovers:
    @pytest.mark.parametrize(
        ("more", "viewer", "expected"),
        [
            (
                {"people": 2, "given": ("ada",), "given_groups": (("security",),)},
                Viewer("cleo", groups=("security",)),
                "needs 2 of security · 1 given (ada ✓) escalates to oncall in 9 min",
            ),
            ({}, Viewer("ben"), "needs 1 of security, not you: you are not in security"),
            ({"people": 2, "given": ("ada",)}, Viewer("Ada", groups=("security",)), "you have approved"),
            ({"people": 2}, Viewer("maria", groups=("security",)), "not you: you started this session"),
            (
                {"escalated": before(20)},
                Viewer("omar", groups=("oncall",)),
                "escalated to oncall 20 s ago",
            ),
            ({"escalated": before(20)}, Viewer("ben"), "not you: you are not in security or oncall"),
            ({"approvers": Approvers(author=False)}, Viewer("jo"), "needs another person"),
            (
                {"approvers": Approvers(author=False)},
                Viewer("maria", own_approvals=True),
                "needs another person, not you: you started this session",
            ),
        ],
    )
    def test_group_approvals_and_reason_are_shown(
        self, more: dict[str, object], viewer: Viewer, expected: str
    ) -> None:
        """The line shows the group, the approvals, and why the operator's approval would not count."""
        state = release_bot()
        state.starters = {"maria": "opened"}
        request = deploy_request(**{"approvers": SECURITY, **more})
        assert expected in progress_text(request, state, viewer).replace("   ", " ")

    def test_eligible_operator_sees_no_reason(self) -> None:
        """An operator who may approve sees no such reason."""
        request = deploy_request(approvers=SECURITY)
        state = release_bot()
        state.starters = {"maria": "opened"}
        assert "not you" not in progress_text(request, state, Viewer("maria", groups=("security",)))


class TestHead:
    def head(self, width: int = 76, **more: object) -> list[str]:
        request = deploy_request(**more)
        return [line.plain for line in request_text(request, None, NOW, width, 40).lines]

    def test_effects_and_risk_lead(self) -> None:
        """The heading has the call's effects, most specific first, and the rule's risk with a symbol."""
        [first, *_] = self.head(names=("rm", "push", "bash"), risk="high")
        assert first.startswith("WHAT WILL RUN")
        assert first.endswith("effects: rm, push   ▲ risk high")

    def test_a_narrow_dialog_hides_no_effect(self) -> None:
        """Effects that do not fit beside the heading are complete below it. The risk stays at the top."""
        names = (*(f"effect-{n}" for n in range(12)), "bash")
        lines = self.head(40, names=names, risk="medium")
        assert lines[0].endswith("▸ risk medium")
        below = " ".join(line.strip() for line in lines[1:7])
        assert all(name in below for name in names[:-1])
        assert all(len(line) <= 40 for line in lines)

    def test_risk_comes_only_from_rules(self) -> None:
        """Only a rule can set a risk; an input called `risk` does not."""
        lines = self.head(input={"risk": "low"}, names=("bash",))
        assert "risk" not in lines[0]

    def test_each_simple_command_is_shown(self) -> None:
        """G-51: each simple command is shown as written, with the command that it runs below it."""
        lines = self.head(
            input={"command": "cd /srv && sudo git push --force; rm -rf cache"},
            names=("push", "rm", "bash"),
        )
        assert lines[3:7] == [
            "  runs  │ cd /srv",
            "        │ sudo git push --force",
            "        │ └ git push --force",
            "        │ rm -rf cache",
        ]

    def test_many_commands_are_counted(self) -> None:
        """Many commands take few lines, and the others are counted."""
        command = "; ".join(f"echo number {n}" for n in range(200))
        lines = self.head(input={"command": command}, names=("push", "bash"))
        start = next(n for n, line in enumerate(lines) if line.startswith("  runs"))
        runs = lines[start : start + 3]
        assert lines[start + 3].startswith("  command")
        assert "more commands" in runs[-1]

    def test_single_command_is_not_repeated(self) -> None:
        """A single command is not repeated, because the input already shows it."""
        assert deploy_request(input={"command": "git push"}, names=("push", "bash")).runs == ()

    def test_without_other_names_the_tool_is_the_effect(self) -> None:
        """Without other names the tool's name is the effect."""
        assert effects_of(deploy_request(called="deploy", names=("deploy",))) == ("deploy",)

    def test_missing_value_of_a_condition_is_named(self) -> None:
        """A rule that applies because something is missing says what is missing."""
        lines = self.head(note="the call has no input.path")
        assert any("applies because the call has no input.path" in line for line in lines)
