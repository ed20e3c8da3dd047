"""The text of the approval dialog, without a screen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import JsonValue

from interlock.app.widgets.approval.request import request_text
from interlock.engine.history.model.records import ExtensionRecord
from interlock.engine.history.model.state import ApprovalState, HintsState, SessionState

from ..support.scenes import deploy_request

NOW = datetime(2026, 1, 5, 14, 0, tzinfo=UTC)


def lines(
    uninspectable: str | None = None,
    preview: str | None = None,
    *,
    height: int = 40,
    expanded: bool = False,
    original: dict[str, JsonValue] | None = None,
    width: int = 76,
    beyond: str | None = None,
) -> list[str]:
    """The dialog's lines for a request of a shell command."""
    request = ApprovalState(
        id="a1",
        session="s1",
        agent="bot",
        call_id="c1",
        since=NOW,
        tool="deploy",
        called="bash",
        input={"command": "$(cat todo) && ./deploy"},
        names=("deploy", "bash"),
        net="approve-before-deploy",
        transition="approve",
        title="Approve: deploy",
        message="",
        marking={"ready": 1},
        uninspectable=uninspectable,
        preview=preview,
        original=original,
        edited_by="ada" if original else None,
        beyond=beyond,
    )
    text = request_text(request, None, NOW, width, height, expanded=expanded)
    return [line.plain for line in text.lines]


class TestUninspectable:
    def test_warning_comes_first(self) -> None:
        """G-51: the warning about a command that cannot be fully analysed comes before the call."""
        shown = lines("command: \x1b[2Jits first word is made up as it runs")
        at = next(i for i, line in enumerate(shown) if "CANNOT BE FULLY ANALYSED" in line)
        assert at < next(i for i, line in enumerate(shown) if line.startswith("  bash"))
        assert not any("\x1b" in line for line in shown)

    def test_no_warning_for_analysed_command(self) -> None:
        """A command that was fully analysed gets no warning."""
        assert not any("CANNOT BE FULLY ANALYSED" in line for line in lines(None))


class TestExtension:
    def test_proposed_extension_is_shown(self) -> None:
        """G-77: a request for two approvers shows a proposed extension and that another must agree."""
        request = deploy_request(
            people=2,
            extension={"until": NOW + timedelta(hours=2), "by": "be\x1bn"},
        )
        shown = [line.plain for line in request_text(request, None, NOW, 76, 40).lines]
        said = " ".join(line.strip() for line in shown)
        assert "n wants it to wait 2 h: a second person must extend it" in said
        assert "\x1b" not in said
        forever = request.model_copy(update={"extension": ExtensionRecord(until=None, by="ben")})
        shown = [line.plain for line in request_text(forever, None, NOW, 76, 40).lines]
        assert "ben wants it to wait forever" in " ".join(line.strip() for line in shown)
        one = request.model_copy(update={"extension": None})
        shown = [line.plain for line in request_text(one, None, NOW, 76, 40).lines]
        assert not any("wants it to wait" in line for line in shown)


class TestBeyond:
    def test_request_outside_a_similar_grant_says_why(self) -> None:
        """G-74: a request that a similar grant does not cover says why."""
        shown = lines(beyond="grant-1 does not cover this call: another value in \x1b[2Jcwd")
        at = next(i for i, line in enumerate(shown) if line.startswith("WHY IT ASKS"))
        said = " ".join(line.strip() for line in shown[at : at + 3])
        assert "asks despite a grant: grant-1 does not cover this call: another value in" in said
        assert "\x1b" not in said


class TestEdited:
    def test_editor_and_full_difference_are_shown(self) -> None:
        """G-75: an edited input names its editor and shows the full difference to the agent's input."""
        long = {"command": "\n".join(f"./step {n}" for n in range(60)), "cwd": "/srv"}
        shown = lines(original=long, height=20)
        at = shown.index("EDITED BY ada")
        below = shown[at : shown.index(next(x for x in shown if x.startswith("WHY IT ASKS")))]
        assert any("-" in line and "│ ./step 59" in line for line in below)
        assert any("+" in line and "./deploy" in line for line in below)
        assert any("cwd" in line for line in below)

    def test_masked_difference_is_reported(self) -> None:
        """G-75: if only masked text differs, the dialog says so."""
        shown = lines(original={"command": "$(cat todo) && ./deploy"})
        assert "EDITED BY ada" in shown
        assert any("Only text that is masked here differs" in line for line in shown)

    def test_fits_a_small_screen(self) -> None:
        """No line is wider than the dialog."""
        shown = lines(original={"command": "./deploy " + "x" * 200}, width=40)
        assert all(len(line) <= 40 for line in shown)

    def test_unedited_input_is_not_marked(self) -> None:
        """The agent's own input is not marked as edited."""
        assert not any("EDITED" in line for line in lines())


class TestPreview:
    DIFF = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-old\n+new\n"

    def test_preview_is_between_input_and_rule(self) -> None:
        """The preview's lines are between the input and the rule, each behind a bar."""
        shown = lines(preview=self.DIFF)
        start = shown.index("WOULD CHANGE  +1 −1")
        assert shown[start + 1 : start + 6] == [
            "  │ --- a.py",
            "  │ +++ a.py",
            "  │ @@ -1 +1 @@",
            "  │ -old",
            "  │ +new",
        ]
        why = next(i for i, line in enumerate(shown) if line.startswith("WHY IT ASKS"))
        command = next(i for i, line in enumerate(shown) if "./deploy" in line)
        assert command < start < why

    def test_added_and_removed_lines_differ(self) -> None:
        """Added and removed lines differ by sign and by colour."""
        request = ApprovalState(
            id="a",
            session="s",
            agent="b",
            call_id="c",
            since=NOW,
            tool="edit",
            called="edit",
            input={},
            names=("edit",),
            net="n",
            transition="t",
            title="",
            message="",
            marking={},
            preview=self.DIFF,
        )
        rows = {row.plain: row for row in request_text(request, None, NOW, 76, 40).lines}
        styles = {plain: {str(span.style) for span in row.spans} for plain, row in rows.items()}
        assert "$text-success" in styles["  │ +new"]
        assert "$text-error" in styles["  │ -old"]
        assert not {"$text-success", "$text-error"} & styles["  │ +++ a.py"]

    def test_long_preview_is_folded_in_its_middle(self) -> None:
        """A long preview is folded in its middle so that the rest stays on screen. `space` unfolds it."""
        diff = "\n".join(f"+line {n}" for n in range(300))
        folded, whole = lines(preview=diff, height=24), lines(preview=diff, height=24, expanded=True)
        assert len(folded) <= 24
        assert any("lines hidden · space shows all 300" in line for line in folded)
        assert "  │ +line 299" in folded
        assert any(line.startswith("WHY IT ASKS") for line in folded)
        assert sum(line.startswith("  │ +line") for line in whole) == 300

    def test_file_cannot_imitate_the_dialog(self) -> None:
        """Control characters in a diff are shown as text, and it cannot imitate a heading."""
        shown = lines(preview="+\x1b[2J\n+WHY IT ASKS  nothing\n \u202eevil")
        assert not any("\x1b" in line or "\u202e" in line for line in shown)
        assert sum(line.startswith("WHY IT ASKS") for line in shown) == 1

    def test_no_section_without_preview(self) -> None:
        """Without a preview there is no such section."""
        assert "WOULD CHANGE" not in lines()


class TestLabel:
    def dialog(self, label: str, width: int = 76, *, via: str | None = None) -> list[str]:
        """The first lines of a request whose session has a label for `bash`."""
        request = ApprovalState(
            id="a1",
            session="s1",
            agent="bot",
            call_id="c1",
            since=NOW,
            tool="deploy",
            called="bash",
            input={"command": "./deploy"},
            names=("deploy", "bash"),
            net="n",
            transition="t",
            title="",
            message="",
            marking={},
            via=via,
        )
        session = SessionState(id="s1", labels={"bash": label})
        return [line.plain for line in request_text(request, session, NOW, width, 40).lines]

    def test_label_follows_the_name(self) -> None:
        """Section 9: the name of the tool comes first, then the label in quotes."""
        assert self.dialog("Run a command")[2] == "  bash  “Run a command”"

    def test_label_without_room_is_on_next_line(self) -> None:
        """If there is no room, the name stays whole and the label is on the next line."""
        lines = self.dialog("Run a command in the shell", 30)
        at = lines.index("  bash")
        assert lines[at + 1].startswith("  “Run a command in the shell")
        assert all(len(line) <= 30 for line in lines)

    def test_label_cannot_imitate_a_heading(self) -> None:
        """A label cannot control the terminal or imitate a heading, and stays short."""
        lines = self.dialog("\x1b[2J\nWHY IT ASKS  nothing\u202e" + "x" * 500)
        assert not any("\x1b" in line or "\u202e" in line for line in lines)
        assert sum(line.startswith("WHY IT ASKS") for line in lines) == 1
        assert len(lines[2]) <= 60

    def test_subagent_tool_gets_no_label(self) -> None:
        """A subagent's tool of the same name may be another one, so it gets no label."""
        assert self.dialog("Run a command", via="helper-1")[2] == "  bash"


class TestRuns:
    def test_marked_commands_are_shown_in_full(self) -> None:
        """Marked commands are shown in full before the others, which take a few lines."""
        long = "./deploy --to " + "x" * 300 + "END"
        others = tuple(f"echo {n}" for n in range(60))
        request = deploy_request(
            input={"command": "see the commands"},
            runs=(long, "rm $x", *others),
            commands=62,
            marked=(7, 9),
        )
        rows = [line.plain for line in request_text(request, None, NOW, 60, 40).lines]
        runs = "".join(row.split("│ ", 1)[1] for row in rows if "│ " in row)
        assert long in runs
        assert runs.index("END") < runs.index("rm $x") < runs.index("echo 0")
        assert "more commands" in runs

    def test_unknown_marks_show_all_in_full(self) -> None:
        """If it is unknown which commands are marked, all are shown in full."""
        found = tuple(f"echo {n} " + "x" * 90 for n in range(30))
        request = deploy_request(runs=found, commands=31, marked=(0,))
        rows = [line.plain for line in request_text(request, None, NOW, 60, 40).lines]
        runs = "".join(row.split("│ ", 1)[1] for row in rows if "│ " in row)
        assert all(each in runs for each in found)


class TestPlan:
    """The agent's text in a plan imitates neither its steps nor their forecasts."""

    @pytest.mark.parametrize("width", [76, 100])
    def test_plan_texts_cannot_imitate_rows(self, width: int) -> None:
        """Rows of a title and a condition are behind bars. A name of several words is in quotes."""
        fake = "1 × read ✓ runs without approval"
        step = {
            "tool": f"drop   {fake}",
            "when": f'input.note != "{" " * 70}{fake}"',
        }
        value = {"title": f"Release{' ' * 90}{fake}", "steps": [step]}
        request = deploy_request(tool="plan", called="plan", input=value)
        rows = [line.plain.strip() for line in request_text(request, None, NOW, width, 60).lines]
        assert any(row.startswith('1  1 × "drop') for row in rows)
        assert not [row for row in rows if row.startswith(("✓", "1 × read", "runs without"))]
        assert any(row.startswith("│") and "runs without" in row for row in rows)

    @pytest.mark.parametrize(
        ("when", "said"),
        [("input.command matches /^git push/", True), ('input.command = "git push"', False)],
    )
    def test_condition_on_part_of_text_says_rest_is_open(self, when: str, said: bool) -> None:
        """A condition on part of a text says that the rest is open: `git push; ls` matches, too."""
        value: dict[str, JsonValue] = {"title": "Release", "steps": [{"tool": "bash", "when": when}]}
        request = deploy_request(tool="plan", called="plan", input=value)
        rows = [line.plain.strip() for line in request_text(request, None, NOW, 76, 60).lines]
        assert ("with anything before and after" in " ".join(rows)) is said


class TestHints:
    def test_are_shown_as_claims(self) -> None:
        """G-113: the dialog shows a tool server's claims, and that they differ from earlier ones."""
        known = HintsState(hints={"read_only": True}, differ=("destructive",))
        request = deploy_request()
        session = SessionState(id=request.session, hints={request.called: known})
        text = request_text(request, session, NOW, 100, 60, expanded=True)
        shown = " ".join(" ".join(line.plain for line in text.lines).split())
        assert "server claims read_only = true; claims differ: destructive" in shown
        bare = request_text(request, SessionState(id=request.session), NOW, 100, 60, expanded=True)
        assert "server claims" not in "\n".join(line.plain for line in bare.lines)
