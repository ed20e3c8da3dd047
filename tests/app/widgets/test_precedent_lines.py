"""Earlier calls in sentences, on lines that are reserved for them; commands as a tree."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import pytest

from interlock.app.viewmodels.command_tree import command_tree
from interlock.app.viewmodels.precedents import precedent_words
from interlock.app.widgets.approval.precedents import past_call_lines, precedent_lines
from interlock.app.widgets.approval.request import request_text
from interlock.engine.history.decisions.precedents import NewWord, PastCall, Precedents
from interlock.engine.history.model.state import ApprovalState

from ..support.queue_scenes import asks
from ..support.scenes import NOW


def call(
    values: dict[str, object], verdict: Literal["approved", "denied"] = "approved", **more: object
) -> PastCall:
    """A call made two hours ago."""
    return PastCall.model_validate(
        {
            "session": "bot-1",
            "call_id": "c1",
            "at": NOW - timedelta(hours=2),
            "input": values,
            "verdict": verdict,
            "by": "ben",
            **more,
        }
    )


def request(**values: object) -> ApprovalState:
    return asks(1, called="deploy", input=values)


class TestSentences:
    @pytest.mark.parametrize(
        ("found", "words"),
        [
            (Precedents(), "nobody has decided about this input yet"),
            (Precedents(approved=1, people=1), "approved once by 1 person"),
            (
                Precedents(approved=14, people=3, denied=1, reason="not on Friday"),
                "approved 14 times by 3 people, denied once: “not on Friday”",
            ),
            (Precedents(denied=2, reason="no", expired=3), "denied twice, last: “no”, expired 3 times"),
        ],
    )
    def test_decisions_are_counted(self, found: Precedents, words: str) -> None:
        """Seen before: the counts of approvals, approvers, denials with reason, and expiries."""
        assert precedent_words(request(), found, NOW).decisions == words

    @pytest.mark.parametrize(
        ("before", "now", "words"),
        [
            (
                {"env": "staging", "n": 1},
                {"env": "prod", "n": 1},
                'only env differs from the last approved call, 2 h ago: "staging" → "prod"',
            ),
            (
                {"config": {"env": "a", "n": 1}},
                {"config": {"env": "b", "n": 1}},
                'only config.env differs from the last approved call, 2 h ago: "a" → "b"',
            ),
            (
                {"command": "git push origin one"},
                {"command": "git push origin two"},
                "only command differs from the last approved call, 2 h ago: one → two",
            ),
            ({"n": 1}, {"n": 1}, "the same input as the last approved call, 2 h ago: it failed"),
            (
                {"a": 1, "b": 1, "c": 1, "d": 1},
                {},
                "a, b, c and 1 more field differ from the last approved call, 2 h ago",
            ),
        ],
    )
    def test_difference_is_one_sentence(
        self, before: dict[str, object], now: dict[str, object], words: str
    ) -> None:
        """Seen before: the difference from the last approved call is one sentence."""
        found = Precedents(last=call(before, result="failed"))
        assert precedent_words(request(**now), found, NOW).difference == words

    def test_new_programs_paths_and_hosts_are_named(self) -> None:
        """Seen before: new programs, paths and hosts are named with their kind."""
        found = Precedents(new=(NewWord(kind="host", text="x.org"), NewWord(kind="program", text="curl")))
        assert (
            precedent_words(request(), found, NOW).new == "new in this journal: host x.org, program curl"
        )

    @pytest.mark.parametrize("width", [40, 90])
    def test_number_of_lines_is_constant(self, width: int) -> None:
        """Seen before: the number of lines is the same before and after the answer arrives."""
        full = Precedents(
            approved=14,
            people=3,
            denied=1,
            reason="no " * 100,
            last=call({"env": "x" * 300}),
            new=tuple(NewWord(kind="host", text=f"host-{n}.example.org") for n in range(12)),
        )
        asked = request(env="prod")
        sizes = {
            len(precedent_lines(asked, each, NOW, width))
            for each in ("coming", "unknown", Precedents(), full)
        }
        assert len(sizes) == 1
        assert all(row.cell_length <= width for row in precedent_lines(asked, full, NOW, width))

    def test_other_lines_stay_in_place(self) -> None:
        """Seen before: when the answer arrives, all other lines of the dialog stay in place."""
        asked = request(env="prod")
        before = request_text(asked, None, NOW, 90, 40, precedents="coming")
        after = request_text(asked, None, NOW, 90, 40, precedents=Precedents(approved=2, people=1))
        changed = [
            at
            for at, (a, b) in enumerate(zip(before.lines, after.lines, strict=True))
            if a.plain != b.plain
        ]
        assert changed
        assert min(changed) >= before.decisive == after.decisive
        assert max(changed) - min(changed) < 3

    def test_lines_are_left_out_without_room(self) -> None:
        """Seen before: the lines are left out if they would make the dialog scroll."""
        asked = request(env="prod")
        full = request_text(asked, None, NOW, 90, 40, precedents="coming")
        low = request_text(asked, None, NOW, 90, len(full.lines) - 1, precedents="coming")
        assert not any("SEEN BEFORE" in line.plain for line in low.lines)

    def test_nearest_call_shows_decision_and_differences(self) -> None:
        """Seen before: the nearest call shows who decided and why, its result, and every difference."""
        near = call({"env": "staging"}, reason="tested", result="done")
        lines = [line.plain.strip() for line in past_call_lines(request(env="prod"), near, NOW, 80)]
        assert lines[:3] == ["approved by ben, asked 2 h ago", "“tested”", "it succeeded"]
        assert lines[-2:] == ['- │ "staging"', '+ │ "prod"']


class TestCommandTree:
    def test_nested_command_is_below_its_parent(self) -> None:
        """Commands: a command within another one is below it, in the order of the text."""
        runs = ('sh -c "git push && curl -s x | sh"', "git push", "curl -s x", "sh")
        found = command_tree(asks(1, runs=runs, commands=4))
        assert [(node.depth, node.text) for node in found] == [
            (0, runs[0]),
            *((1, each) for each in runs[1:]),
        ]

    def test_marked_commands_keep_their_place(self) -> None:
        """Commands: marked commands come first in a request, but keep their place in the tree."""
        runs = ("deploy", "timeout 5 make deploy", "make deploy")
        found = command_tree(
            asks(1, runs=("make deploy", "timeout 5 make deploy"), commands=2, marked=(1,))
        )
        assert [(node.depth, node.text, node.marked) for node in found] == [
            (0, runs[1], False),
            (1, runs[2], True),
        ]

    def test_no_tree_without_nested_commands(self) -> None:
        """Commands: without nested commands there is no tree."""
        assert command_tree(asks(1, runs=("a", "b"), commands=2)) == []

    def test_tree_shows_marked_command_in_full(self) -> None:
        """Commands: the tree shows a marked command in full."""
        marked = "git push " + "x" * 200
        asked = asks(
            1,
            input={"command": f'sh -c "{marked}"'},
            runs=(marked, f'sh -c "{marked}"'),
            commands=2,
            marked=(1,),
        )
        text = "".join(line.plain for line in request_text(asked, None, NOW, 70, 40).lines)
        assert "└ git push" in text
        assert text.replace(" ", "").replace("│", "").count("x" * 200) >= 1
