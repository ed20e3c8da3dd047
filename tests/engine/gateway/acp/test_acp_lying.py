"""An ACP agent whose behaviour differs from its reports, and how its calls are judged.

All parts are real.
"""

from __future__ import annotations

import json

import pytest

from interlock.engine.history.model.events import ApprovalWithdrawn, CallDecided, CallResult, MessageAdded

from .acp_world import World, asks, begun, call, report

SHELL = "map execute.command /^rm\\b.*-rf/ as rm\nblock rm\n"
EDIT = {"kind": "edit", "title": "Edit a"}


def permission_request(**about: object) -> list:
    return ["request", "session/request_permission", asks({"toolCallId": "c1", **about})]


def update(**about: object) -> list:
    return ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "c1", **about}]


def diff(path: str, new: str, old: str | None = "old") -> dict:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def answers(world: World) -> list[object]:
    """Return the options with which the agent's requests were answered, one for each request."""
    return [each["outcome"].get("optionId", "cancelled") for each in world.done("answer")]


LS = {"kind": "execute", "title": "a command", "rawInput": {"command": "ls"}}
RM = {"command": "rm -rf /"}
A = {"path": "/a", "text": "x"}
CHANGES = [
    ("kind", {"kind": "read", "title": "a"}, {"kind": "delete"}),
    ("title", {"kind": "execute", "title": "ls"}, {"title": "rm -rf /"}),
    (
        "title",
        {"kind": "execute", "title": "ls", "rawInput": {}},
        {"status": "completed", "title": "rm -rf /"},
    ),
    ("change", {**EDIT, "content": [diff("/a", "x")]}, {"content": [diff("/a", "y")]}),
    (
        "change",
        {**EDIT, "content": [diff("/a", "x")]},
        {"status": "completed", "content": [diff("/a", "y")]},
    ),
    ("change", {**EDIT, "rawInput": A, "content": [diff("/a", "x")]}, {"content": [diff("/a", "y")]}),
    ("path", {**EDIT, "locations": [{"path": "/a"}]}, {"locations": [{"path": "/etc/passwd"}]}),
    ("path", {**EDIT, "rawInput": A}, {"status": "completed", "content": [diff("/etc/passwd", "x")]}),
    ("path", {"kind": "delete", "title": "Tidy up"}, {"locations": [{"path": "/etc"}]}),
    ("title", {"kind": "delete", "title": "Delete a", "rawInput": {}}, {"title": "Delete /etc"}),
    ("title", {"kind": "move", "title": "a", "rawInput": {"a": " "}}, {"title": "/etc"}),
    ("input", LS, {"rawInput": RM}),
    ("input", LS, {"rawInput": RM, "status": "pending"}),
    ("input", LS, {"rawInput": RM, "status": "in_progress"}),
    ("input", LS, {"rawInput": RM, "status": "completed"}),
    ("input", {"kind": "execute", "title": "ls"}, {"rawInput": RM}),
]


class TestChangedAfterApproval:
    @pytest.mark.variants
    @pytest.mark.parametrize(("what", "approved", "changed"), CHANGES)
    async def test_fails_and_ends_the_turn(
        self, world: World, what: str, approved: dict, changed: dict
    ) -> None:
        """A call that an update changes after it was allowed has failed, and its turn ends."""
        await world.start(rules="block fetch")
        state = await world.turn(permission_request(**approved), update(**changed), ["until_cancelled"])
        assert answers(world) == ["yes"]
        [note] = await world.notes()
        assert f"runs with another {what} than the one it was allowed with" in note
        assert "The agent was interrupted" in note
        [result] = await world.events(CallResult)
        assert result.is_error
        assert "after it was allowed" in result.output
        assert state.calls["c1"].status == "failed"
        await world.check_fold()

    @pytest.mark.slow
    async def test_unlocks_nothing(self, world: World) -> None:
        """A test that became another command does not count as passed."""
        await world.start(unasked="note")
        await world.turn(
            permission_request(kind="execute", title="tests", rawInput={"command": "./test"}),
            update(rawInput={"command": "true"}),
            report("c1", "completed", rawOutput={"exit_code": 0}),
            ["ask", call("d", command="./deploy")],
        )
        assert world.done("chosen") == ["no"]
        assert len(await world.notes()) == 1

    async def test_change_after_the_end_is_noted(self, world: World) -> None:
        """A change in an update after the call's end is noted, too."""
        await world.start(rules="block fetch", unasked="note")
        end = report("c1", "completed", rawOutput="done")
        await world.turn(permission_request(**LS), end, update(rawInput=RM), update(rawInput=RM))
        [note] = await world.notes()
        assert "runs with another input" in note

    async def test_change_of_unrequested_call_is_noted(self, world: World) -> None:
        """A change of a call that ran without a request is noted, too."""
        await world.start(rules="block delete", unasked="note")
        await world.turn(begun("c1", "execute", command="ls"), update(kind="delete"))
        [note] = await world.notes()
        assert "runs with another kind" in note

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("approved", "later"),
        [
            (
                {**EDIT, "rawInput": {"file_path": "a", "new_string": "x"}, "content": [diff("a", "x")]},
                {
                    "_meta": {"claudeCode": {"toolResponse": {"filePath": "a"}}},
                    "content": [diff("a", "before\nx\nafter", "before\nold\nafter")],
                    "locations": [{"path": "a", "line": 7}],
                },
            ),
            (
                {**EDIT, "content": [diff("a", "x\n", None)], "locations": [{"path": "a"}]},
                {"status": "completed", "content": [diff("a", "x\r\n", "")], "title": "Edited a"},
            ),
            (
                {"kind": "search", "title": "find x"},
                {"status": "completed", "title": "1 hit", "locations": [{"path": "/a"}]},
            ),
            (LS, {"status": "completed", "title": "`ls`", "rawInput": {"command": "ls"}, "content": []}),
        ],
        ids=["hunks of Claude Code", "the file of Gemini CLI", "what was found", "another title"],
    )
    async def test_result_details_are_not_a_change(
        self, world: World, approved: dict, later: dict
    ) -> None:
        """Details that an honest agent adds to a call after it ran do not count as a change."""
        await world.start(rules="block fetch")
        await world.turn(permission_request(**approved), update(**later))
        assert answers(world) == ["yes"]
        assert [note for note in await world.notes() if "another" in note] == []


class TestChangedWhileItWaits:
    async def test_call_changed_before_judging_is_refused(self, world: World) -> None:
        """A call that changes before its request is judged is refused."""
        await world.start(rules="require human-approval before execute", unasked="note")
        message = {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission"}
        ask = {**message, "params": asks({"toolCallId": "c1", **LS})}
        changed, ran = update(rawInput=RM), report("c1", "completed")
        await world.turn(["raw", json.dumps(ask)], changed, ran)
        assert await world.events(CallDecided) == []
        [note] = await world.notes()
        assert "runs although it was refused" in note
        await world.check_fold()

    @pytest.mark.slow
    async def test_open_request_of_changed_call_is_withdrawn(self, world: World) -> None:
        """The open request of a call that changes is withdrawn with the reason."""
        await world.start(rules="require human-approval before execute")
        await world.tell(["ask", {"toolCallId": "c1", **LS}])
        request = await world.question()
        agent = world.hub._live.hosted(world.session).prompts._driver
        said = {"sessionId": "s1", "update": update(rawInput=RM)[1]}
        await agent._receive("session/update", said, True)
        await world.hub.wait(world.session)
        assert world.done("chosen") == ["no"]
        [withdrawn] = await world.events(ApprovalWithdrawn)
        assert (withdrawn.approval_id, world.asked()) == (request.id, [])
        told = (await world.events(MessageAdded))[-1]
        assert told.text == "Tool call not executed: the agent changed its input while it waited"


class TestExecuted:
    @pytest.mark.variants
    @pytest.mark.parametrize(
        "raw",
        [
            ["rm", "-rf", "/"],
            "rm -rf /",
            {"cmd": "rm -rf /"},
            {"command": "rm", "args": ["-rf", "/"]},
            {"command": "ls", "commands": ["rm -rf /"]},
            {"command": "ls", "commandLine": "rm -rf /"},
            {"command": "ls", "code": {"text": "rm -rf /"}},
        ],
    )
    async def test_command_is_read_from_raw_input(self, world: World, raw: object) -> None:
        """Rules read the command from the raw input in any form, not from the title."""
        await world.start(rules=SHELL)
        await world.turn(permission_request(kind="execute", title="ls", rawInput=raw))
        assert answers(world) == ["no"]
        [decided] = await world.events(CallDecided)
        assert decided.outcome == "block"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "raw",
        [
            {"run": ["rm", "-rf", "/"]},
            [["rm", "-rf"]],
            {"description": "rm"},
            1,
            ["ls;rm", "-rf", "/"],
            {"command": ["ls", "&&", "rm", "-rf", "/"]},
        ],
    )
    async def test_possible_hidden_command_requires_approval(self, world: World, raw: object) -> None:
        """A raw input that may hold a hidden command requires an approval."""
        await world.start(rules=SHELL)
        await world.tell(permission_request(kind="execute", title="ls", rawInput=raw))
        request = await world.question()
        assert request.names[0] == "unclear"
        await world.hub.decide(request.id, approved=False, by="mia")
        await world.hub.wait(world.session)
        assert answers(world) == ["no"]

    @pytest.mark.parametrize(
        "raw",
        [
            {"command": "ls", "description": "List", "timeout": 5, "run_in_background": False},
            {"command": ["ls", "-l"], "cwd": "/", "parsed_cmd": [{"cmd": "ls", "type": "list_files"}]},
        ],
        ids=["of Claude Code", "of Codex"],
    )
    async def test_honest_fields_do_not_make_the_call_unclear(self, world: World, raw: dict) -> None:
        """Descriptions and other honest fields beside a command do not make the call unclear."""
        await world.start(rules=SHELL)
        await world.turn(permission_request(kind="execute", title="ls", rawInput=raw))
        assert answers(world) == ["yes"]


class TestUnknownKind:
    @pytest.mark.parametrize("kind", ["launch_missiles", "Delete", "unclear", ["delete"]])
    async def test_is_unclear(self, world: World, kind: object) -> None:
        """A kind that the protocol does not define makes a call unclear."""
        await world.start(rules="block unclear")
        await world.turn(permission_request(kind=kind, title="ls"))
        assert answers(world) == ["no"]
        [decided] = await world.events(CallDecided)
        assert (decided.tool, decided.outcome) == ("unclear", "block")

    async def test_unrequested_call_is_judged_as_unclear(self, world: World) -> None:
        """A call of unknown kind that runs without a request is judged as unclear, too."""
        await world.start(rules="block unclear", unasked="note")
        said = {"sessionId": "s1", "update": begun("c1", "launch_missiles")[1]}
        message = {"jsonrpc": "2.0", "method": "session/update", "params": said}
        await world.turn(["raw", json.dumps(message)])
        [note] = await world.notes()
        assert "unclear ‘launch_missiles it’ runs without a permission request" in note

    @pytest.mark.variants
    @pytest.mark.parametrize("rules", ["block other", "require test before other"])
    async def test_rule_on_other_blocks_invented_kind(self, world: World, rules: str) -> None:
        """A rule on `other` blocks a call of an invented kind, and the call is closed."""
        await world.start(rules=rules)
        await world.turn(permission_request(kind="launch_missiles", title="ls"))
        assert answers(world) == ["no"]
        decided = await world.events(CallDecided)
        assert [(each.tool, each.outcome) for each in decided] == [
            ("unclear", "allow"),
            ("other", "block"),
        ]
        assert [(each.call_id, each.is_error) for each in await world.events(CallResult)] == [
            ("c1", True)
        ]

    @pytest.mark.slow
    async def test_rules_on_earlier_kind_still_apply(self, world: World) -> None:
        """An invented kind does not exempt a call from the rules on its earlier kind."""
        await world.start(rules="block execute")
        running = begun("c1", "execute", "pending", command="rm -rf /")
        await world.turn(running, permission_request(kind="launch_missiles"))
        assert answers(world) == ["no"]
        assert [each.tool for each in await world.events(CallDecided)] == ["unclear", "execute"]

    @pytest.mark.slow
    async def test_uses_up_both_limits(self, world: World) -> None:
        """A call of unknown kind counts towards the limits of both `unclear` and `other`."""
        await world.start(rules="limit other to 2 per session\nlimit unclear to 1 per session")
        odd = {"kind": "launch_missiles", "title": "ls"}
        await world.turn(
            permission_request(**odd),
            permission_request(**odd),
            permission_request(kind="other"),
            permission_request(kind="other"),
        )
        assert answers(world) == ["yes", "no", "yes", "no"]

    @pytest.mark.slow
    async def test_needs_each_approval(self, world: World) -> None:
        """A call of unknown kind needs one approval for each name that requires one."""
        both = "require human-approval before other\nrequire human-approval before unclear"
        await world.start(rules=both)
        await world.tell(permission_request(kind="launch_missiles", title="ls"))
        request = await world.question()
        assert request.tool == "unclear"
        await world.hub.decide(request.id, approved=True, by="mia")
        await world.until(lambda: any(each.tool == "other" for each in world.asked()))
        [request] = world.asked()
        await world.hub.decide(request.id, approved=False, by="mia")
        await world.hub.wait(world.session)
        assert answers(world) == ["no"]

    @pytest.mark.slow
    async def test_opens_nothing(self, world: World) -> None:
        """The success of a call of unknown kind does not count as a success of `other`."""
        await world.start(rules="require other before delete")
        await world.turn(
            permission_request(kind="launch_missiles", title="ls"),
            update(status="completed", rawOutput="done"),
            ["request", "session/request_permission", asks({"toolCallId": "c2", "kind": "delete"})],
        )
        assert answers(world) == ["yes", "no"]

    @pytest.mark.slow
    @pytest.mark.parametrize("rules", ["block other", "require human-approval before other"])
    async def test_unrequested_call_is_judged_as_other(self, world: World, rules: str) -> None:
        """A call of an invented kind that runs without a request is judged as `other`, too."""
        await world.start(rules=rules, unasked="note")
        said = {"sessionId": "s1", "update": begun("c1", "launch_missiles")[1]}
        await world.turn(
            ["raw", json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": said})]
        )
        [note] = await world.notes()
        assert "unclear ‘launch_missiles it’ runs without a permission request" in note
        assert await world.events(CallDecided) == []


class TestAnswer:
    @pytest.mark.slow
    async def test_repeated_request_id_gets_one_permission(self, world: World) -> None:
        """With `limit execute to 1`, three requests under one id get one permission."""
        await world.start(rules="limit execute to 1 per session")
        await world.turn(*[permission_request(**LS)] * 3)
        assert answers(world) == ["yes", "no", "no"]
        assert [d.call_id for d in await world.events(CallDecided)] == ["c1", "c1#2", "c1#3"]

    @pytest.mark.slow
    async def test_unrequested_running_call_can_be_requested_once(self, world: World) -> None:
        """A call that runs without a request can be requested once without counting as another call."""
        await world.start(rules="limit execute to 1 per session")
        running = begun("c1", "execute", command="ls")
        about = call("c1", command="ls")
        await world.turn(running, *[["request", "session/request_permission", asks(about)]] * 2)
        assert answers(world) == ["yes", "no"]

    @pytest.mark.slow
    async def test_id_of_another_calls_request_gets_no_permission(self, world: World) -> None:
        """A call id that equals the record's name of another call's request gets no permission."""
        await world.start(rules="limit execute to 2 per session")
        foreign = ["request", "session/request_permission", asks({"toolCallId": "c1#2", **LS})]
        await world.turn(permission_request(**LS), permission_request(**LS), foreign, foreign)
        assert answers(world) == ["yes", "yes", "no", "no"]


END = update(status="completed", rawOutput="done")


class TestAfterItsEnd:
    """A call that is reported as running after it was reported as ended."""

    async def test_call_reported_as_running_again_is_judged_again(self, world: World) -> None:
        """A call that ended is judged again when it is reported as running."""
        await world.start(rules="limit execute to 1 per session", unasked="note")
        await world.turn(permission_request(**LS), END, update(status="in_progress"), END)
        assert len(await world.events(CallResult)) == 1
        [note] = await world.notes()
        assert "runs without a permission request; the nets would have blocked it" in note

    @pytest.mark.slow
    async def test_allowed_second_run_is_a_separate_call(self, world: World) -> None:
        """A second run that the nets allow is recorded as a separate call."""
        await world.start(rules="limit execute to 2 per session", unasked="note")
        await world.turn(permission_request(**LS), END, update(status="in_progress"), END, END)
        assert [each.call_id for each in await world.events(CallDecided)] == ["c1", "c1#2"]
        assert [each.call_id for each in await world.events(CallResult)] == ["c1", "c1#2"]
        assert await world.notes() == []

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "first", [permission_request(**LS), begun("c1", "execute", "failed", command="ls")]
    )
    async def test_blocked_call_failed_then_completed_is_noted_once(
        self, world: World, first: list
    ) -> None:
        """A call reported as failed and then as completed is noted once as a blocked call that ran."""
        await world.start(rules="block execute", unasked="note")
        await world.turn(first, update(status="failed"), END, END)
        notes = [note for note in await world.notes() if "runs" in note]
        assert len(notes) == 1
        assert "runs without a permission request; the nets would have blocked it" in notes[0]
