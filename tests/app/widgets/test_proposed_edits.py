"""A proposed edit as a diff in the dialog, and as counts in the queue."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from interlock.app.widgets.approval.proposed_edits import edit_counts, proposed_edits
from interlock.app.widgets.approval.queue_lines import waiting_block
from interlock.app.widgets.approval.request import request_text
from interlock.engine.history.model.state import ApprovalState

from ..support.scenes import NOW, deploy_request

OLD = """def total(cart):
    price = 0
    for item in cart:
        price += item.price
    return price
"""
NEW = OLD.replace("price = 0", "price = 1").replace("return price", "return send(price)")
DIFF = """--- a/cart.py
+++ b/cart.py
@@ -1,5 +1,5 @@
 def total(cart):
-    price = 0
+    price = 1
     for item in cart:
         price += item.price
-    return price
+    return send(price)"""


def edit_request(called: str = "edit", **more: object) -> ApprovalState:
    return deploy_request(**{"called": called, "tool": called, "names": (called,), **more})


def lines(request: ApprovalState, width: int = 76, height: int = 60) -> list[str]:
    return [line.plain for line in request_text(request, None, NOW, width, height).lines]


PAIRS = [
    {"path": "cart.py", "old_text": OLD, "new_text": NEW},
    {"file_path": "cart.py", "old_string": OLD, "new_string": NEW, "replace_all": False},
    {"path": "cart.py", "old_str": OLD, "new_str": NEW},
    {"path": "cart.py", "oldText": OLD, "newText": NEW},
    {"file_path": "cart.py", "edits": [{"old_string": OLD, "new_string": NEW}]},
    {"title": "Edit", "changes": [{"path": "cart.py", "old_text": OLD, "new_text": NEW}]},
]


class TestDiff:
    @pytest.mark.parametrize("given", PAIRS)
    def test_both_changes_are_in_one_diff(self, given: dict[str, JsonValue]) -> None:
        """Both changes are lines of one diff, whatever the names of the fields."""
        shown = lines(edit_request(input=given))
        assert [line.strip() for line in shown if "- │" in line] == [
            "- │     price = 0",
            "- │     return price",
        ]
        assert [line.strip() for line in shown if "+ │" in line] == [
            "+ │     price = 1",
            "+ │     return send(price)",
        ]
        assert "WOULD CHANGE  +2 −2" in shown
        assert sum("for item in cart" in line for line in shown) == 1
        assert any("cart.py" in line for line in shown)

    def test_each_edit_is_under_its_file(self) -> None:
        """Each edit is shown under its file, with the other fields of its entry."""
        edits = [
            {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2", "replace_all": True},
            {"path": "b.py", "old_text": None, "new_text": "new\nfile\n"},
        ]
        shown = [line.strip() for line in lines(edit_request(input={"edits": edits}))]
        assert "a.py (replace_all=True)" in shown
        assert shown[shown.index("b.py") + 1] == "+ │ new"
        assert "WOULD CHANGE  +3 −1" in shown

    def test_entries_not_covered_by_diff_stay_in_input(self) -> None:
        """Entries with a field that the diff does not show, and other entries, stay in the input."""
        entry = {"old_text": "a", "new_text": "b", "then": "rm -rf /"}
        for value in ([entry], [{"old_text": "a", "new_text": "b"}, "rm -rf /"]):
            shown = lines(edit_request(input={"path": "a", "edits": value}))
            assert any("rm -rf /" in line for line in shown)

    @pytest.mark.parametrize("changed", ["", "echo done"])
    def test_unchanged_lines_are_shown(self, changed: str) -> None:
        """If both texts are alike, or differ in one line, none of their lines is hidden."""
        script = [f"step {number}" for number in range(20)]
        old, new = "\n".join([*script, ""]), "\n".join([*script, changed])
        given: dict[str, JsonValue] = {"path": "run.sh", "old_text": old, "new_text": new}
        shown = "\n".join(lines(edit_request(input=given)))
        assert shown.count("│ step 7\n") + shown.count("│ step 7 ") == 2
        assert ("nothing: both texts are the same" in shown) is (not changed)
        listed: dict[str, JsonValue] = {"path": "run.sh", "edits": [{"old_text": old, "new_text": new}]}
        assert "step 7" in "\n".join(lines(edit_request(input=listed)))

    def test_diff_replaces_only_the_texts(self) -> None:
        """The diff replaces only the two texts."""
        shown = lines(
            edit_request(input={"path": "a", "old_text": "a", "new_text": "b", "extra": "kept"})
        )
        assert any('"kept"' in line for line in shown)
        assert not any("old_text" in line for line in shown)

    def test_equal_preview_replaces_the_diff(self) -> None:
        """If the tool's own diff has the same lines, it replaces the diff of the input."""
        given = {"path": "cart.py", "old_text": OLD, "new_text": NEW}
        shown = lines(edit_request(input=given, preview=DIFF))
        assert "THE EDIT" not in " ".join(shown)
        assert "WOULD CHANGE  +2 −2" in shown
        assert "  │ +    return send(price)" in shown

    def test_different_preview_is_shown_with_the_diff(self) -> None:
        """If the tool's diff differs from the input, both are shown."""
        given = {"path": "cart.py", "old_text": OLD, "new_text": NEW}
        shown = lines(edit_request(input=given, preview=DIFF.replace("send(price)", "price + 1")))
        assert any(line.startswith("THE EDIT") for line in shown)
        assert any("+ │     return send(price)" in line for line in shown)
        assert "  │ +    return price + 1" in shown

    def test_new_file_is_shown_in_full(self) -> None:
        """A new file is shown in full, with a note that the file could not be read."""
        shown = lines(edit_request("Write", input={"file_path": "a.py", "content": "one\ntwo\n"}))
        assert any("the file is not readable here" in line for line in shown)
        assert any("two" in line for line in shown)
        assert not any(
            "not readable" in line for line in lines(edit_request("send", input={"content": "x"}))
        )

    def test_edit_cannot_imitate_the_dialog(self) -> None:
        """Control characters, markup and headings in an edit are text behind a bar."""
        evil = "\x1b[2J\n[bold]x[/bold]\nWHY IT ASKS  nothing\n\u202eevil"
        shown = lines(edit_request(input={"path": "\x1b[1m[red]", "old_text": "a\n", "new_text": evil}))
        assert not any("\x1b" in line or "\u202e" in line for line in shown)
        assert any("[bold]x[/bold]" in line for line in shown)
        assert sum(line.startswith("WHY IT ASKS") for line in shown) == 1

    @pytest.mark.parametrize("width", [30, 56, 76])
    def test_long_lines_are_wrapped(self, width: int) -> None:
        """Long lines are wrapped, never cut."""
        text = "x" * 300 + "EVIL"
        request = edit_request(input={"path": "a", "old_text": "a\n", "new_text": text})
        shown = request_text(request, None, NOW, width, 60, expanded=True).lines
        rows = [row.plain.split("│ ")[1] for row in shown if "│ " in row.plain]
        assert text in "".join(rows)
        assert all(row.cell_length <= width for row in shown)

    def test_very_long_texts_are_not_compared(self) -> None:
        """Very long texts are not compared: the old one is listed before the new one."""
        old = "\n".join(f"{n % 7}" for n in range(5_000))
        found = proposed_edits(
            edit_request(input={"path": "a", "old_text": old, "new_text": old + "\nEVIL"})
        )
        assert len(found.edits[0].lines) == 10_001


class TestCounts:
    def test_queue_counts_changed_lines(self) -> None:
        """The request's line in the queue counts added and removed lines."""
        request = edit_request(input={"path": "cart.py", "old_text": OLD, "new_text": NEW})
        shown = [row.plain for row in waiting_block(request, "bot", NOW, ()).lines(60)]
        assert any("+2 −2" in row for row in shown)

    def test_counts_come_from_preview(self) -> None:
        """If the tool has a diff, the counts come from it, without its headers."""
        given: dict[str, JsonValue] = {"path": "cart.py", "content": NEW}
        assert edit_counts(edit_request("write", id="p", input=given, preview=DIFF)) == (2, 2)
        assert edit_counts(edit_request("write", id="q", input=given)) == (5, 0)

    @pytest.mark.parametrize(
        ("before", "after", "counts"),
        [
            (None, "a\nb\n", (2, 0)),
            (None, "a\nb", (2, 0)),
            (None, "a\n\n", (2, 0)),
            ("a\nb\n", "", (0, 2)),
            ("a\n", "b\n", (1, 1)),
            ("a\n", "\na\n", (1, 0)),
            ("a\n", "b", (1, 1)),
        ],
    )
    def test_the_last_newline_begins_no_line(
        self, before: str | None, after: str, counts: tuple[int, int]
    ) -> None:
        """A text has as many lines as it would have as a file."""
        given: dict[str, JsonValue] = {"path": "a", "old_text": before, "new_text": after}
        assert edit_counts(edit_request(id=f"{before!r} {after!r}", input=given)) == counts

    def test_no_counts_without_file_change(self) -> None:
        """A request that changes no file has no counts."""
        assert edit_counts(edit_request("bash", id="r", input={"command": "ls"})) is None
