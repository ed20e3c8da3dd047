"""The gate before an ACP agent: the calls it requests, and those it runs without a request.

All parts are real.
"""

from __future__ import annotations

import pytest
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from interlock.engine.history.model.events import ApprovalRequested, CallDecided, CallResult

from .acp_world import World, asks, begun, call, report


def text(said: str) -> dict:
    return {"type": "content", "content": {"type": "text", "text": said}}


class TestPermission:
    async def test_is_given_once_where_the_nets_allow(self, world: World) -> None:
        """An allowed call is answered with the option that applies once, and its result is recorded."""
        await world.start()
        state = await world.turn(["ask", call("c1", command="./test")])
        assert world.done("chosen") == ["yes"]
        [decided] = await world.events(CallDecided)
        assert (decided.call_id, decided.tool, decided.outcome) == ("c1", "execute", "allow")
        assert decided.input == {"command": "./test", "title": "execute it"}
        [result] = await world.events(CallResult)
        assert (result.output, result.is_error) == ("it worked", False)
        assert state.calls["c1"].status == "done"
        await world.check_fold()

    async def test_is_refused_where_the_nets_block(self, world: World) -> None:
        """A blocked call is rejected once, and the agent does not run it."""
        await world.start()
        await world.turn(["ask", call("c1", "delete", path="/srv/x")])
        assert (world.done("chosen"), world.done("ran")) == (["no"], [])
        [decided] = await world.events(CallDecided)
        assert (decided.tool, decided.outcome) == ("delete", "block")
        assert await world.notes() == []

    async def test_deploy_requires_a_passed_test(self, world: World) -> None:
        """A deploy is blocked before a test has passed and allowed afterwards."""
        await world.start()
        deploy, test = call("d", command="./deploy"), call("t", command="./test")
        await world.turn(["ask", deploy], ["ask", test], ["ask", {**deploy, "toolCallId": "d2"}])
        assert world.done("chosen") == ["no", "yes", "yes"]

    async def test_background_test_does_not_count_as_passed(self, world: World) -> None:
        """A background test does not count as passed; the end of the turn closes it as unknown."""
        await world.start()
        test = call("t", command="./test", run_in_background=True)
        state = await world.turn(["ask", test], ["ask", call("d", command="./deploy")])
        assert world.done("chosen") == ["yes", "no"]
        assert state.calls["t"].status == "unknown"
        assert state.pending == []
        await world.check_fold()

    @pytest.mark.variants
    @pytest.mark.parametrize(("approved", "chosen"), [(True, "yes"), (False, "no")])
    async def test_waits_for_the_operator(self, world: World, approved: bool, chosen: str) -> None:
        """A call that requires approval is queued, and the agent gets the operator's decision."""
        await world.start()
        await world.tell(["say", "I need a page."], ["ask", call("c1", "fetch", url="https://a.example")])
        request = await world.question()
        assert (request.tool, request.call_id) == ("fetch", "c1")
        assert request.input["url"] == "https://a.example"
        assert (await world.state()).transcript[-2].text == "I need a page."
        outcome = await world.hub.decide(request.id, approved=approved, by="mia", digest=request.digest)
        assert outcome.ok
        await world.hub.wait(world.session)
        assert world.done("chosen") == [chosen]
        assert len(world.done("ran")) == approved
        await world.check_fold()

    @pytest.mark.slow
    async def test_edited_input_is_refused(self, world: World) -> None:
        """An edit is refused with a reason, and the request stays open for another decision."""
        await world.start()
        await world.tell(["ask", call("c1", "fetch", url="https://a.example")])
        request = await world.question()
        edited = {**request.input, "url": "https://b.example"}
        outcome = await world.hub.decide(
            request.id, approved=True, by="mia", input=edited, digest=request.digest
        )
        assert not outcome.ok
        assert "cannot be changed" in outcome.message
        assert [a.id for a in world.asked()] == [request.id]
        await world.hub.decide(request.id, approved=False, by="mia")
        await world.hub.wait(world.session)
        assert world.done("ran") == []

    @pytest.mark.slow
    async def test_each_request_is_judged_again(self, world: World) -> None:
        """Each request about the same call is judged again: one answer never covers two runs."""
        await world.start(rules="limit execute to 1 per session")
        await world.turn(["ask", call("c1", command="ls")], ["ask", call("c1", command="ls")])
        assert world.done("chosen") == ["yes", "no"]
        assert [d.call_id for d in await world.events(CallDecided)] == ["c1", "c1#2"]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "options",
        [
            [("always", "allow_always"), ("no", "reject_once")],
            [("always", "allow_once"), ("always", "allow_always"), ("no", "reject_once")],
            [("no", "reject_once")],
        ],
    )
    async def test_is_refused_without_an_unambiguous_once_option(
        self, world: World, options: list
    ) -> None:
        """A call is refused if every option to allow it is lasting or ambiguous."""
        await world.start()
        await world.turn(["ask", call("c1", command="ls"), options])
        assert (world.done("chosen"), world.done("ran")) == (["no"], [])
        [note] = await world.notes()
        assert "can only be allowed once" in note

    @pytest.mark.slow
    async def test_block_without_once_rejection_is_cancelled(self, world: World) -> None:
        """A block is answered with "cancelled" if the agent offers only lasting refusals."""
        await world.start()
        await world.turn(
            ["ask", call("c1", "delete"), [("yes", "allow_once"), ("never", "reject_always")]]
        )
        assert world.done("chosen") == ["cancelled"]

    @pytest.mark.slow
    async def test_two_requests_about_one_call_allow_one(self, world: World) -> None:
        """If two requests about one call are both approved, only the later one is allowed."""
        await world.start()
        await world.tell(["ask_twice", call("c1", "fetch")])
        await world.until(lambda: len(world.asked()) == 2)
        for request in world.asked():
            assert (await world.hub.decide(request.id, approved=True, by="mia")).ok
        await world.hub.wait(world.session)
        assert sorted(world.done("chosen")) == ["no", "yes"]
        [first, *_] = [r for r in await world.events(CallResult) if r.call_id == "c1"]
        assert first.is_error
        assert "not given the permission" in first.output

    @pytest.mark.slow
    async def test_shadow_mode_allows_and_records_the_block(self, world: World) -> None:
        """Shadow mode allows every call, and records the block that would have applied."""
        await world.start(mode="shadow")
        await world.turn(["ask", call("c1", "delete", path="x")])
        assert world.done("chosen") == ["yes"]
        [decided] = await world.events(CallDecided)
        assert (decided.mode, decided.outcome) == ("shadow", "block")

    @pytest.mark.slow
    async def test_shows_the_change_of_an_edit(self, world: World) -> None:
        """A call without a raw input shows its path, title and change to the nets and the operator."""
        await world.start(
            rules='block edit when input.path contains "/etc"\nrequire human-approval before edit'
        )
        diff = {"type": "diff", "path": "/srv/a.py", "oldText": "a", "newText": "b"}
        edit = {"toolCallId": "e1", "kind": "edit", "title": "Edit a.py", "content": [diff]}
        await world.tell(["ask", edit])
        request = await world.question()
        assert request.input == {
            "title": "Edit a.py",
            "path": "/srv/a.py",
            "changes": [{"path": "/srv/a.py", "old_text": "a", "new_text": "b"}],
        }


def runs(call_id: str, command: str, **result: object) -> list[list]:
    """Return the steps of an agent that requests a command and reports it as completed with `result`."""
    asked = {**call(call_id, command=command), "status": "pending", "content": []}
    return [
        ["request", "session/request_permission", asks(asked)],
        report(call_id, "completed", **result),
    ]


class TestCompleted:
    @pytest.mark.variants
    @pytest.mark.parametrize("result", [{}, {"content": []}, {"content": [text(" ")]}])
    async def test_command_without_output_is_unknown(self, world: World, result: dict) -> None:
        """A command without output has an unknown outcome; Gemini CLI (0.61) never reports output."""
        await world.start()
        state = await world.turn(*runs("t", "./test", **result), ["ask", call("d", command="./deploy")])
        assert world.done("chosen") == ["no"]
        assert state.calls["t"].status == "unknown"
        assert state.pending == []
        [note] = await world.notes()
        assert "reported neither output nor exit code" in note
        await world.check_fold()

    @pytest.mark.slow
    async def test_description_is_not_output_of_unrequested_command(self, world: World) -> None:
        """An announced description is not the output of a command that ran without a request."""
        await world.start()
        announced = begun("t", "execute", command="./test")
        announced[1]["content"] = [text("Runs the tests")]
        deploy = ["ask", call("d", command="./deploy")]
        again = report("t", "completed", content=[text("Runs the tests")])
        await world.turn(announced, again, deploy)
        assert world.done("chosen") == ["no"]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "result",
        [
            {"content": [text("3 passed")]},
            {"rawOutput": {"exit_code": 0, "stdout": ""}},
            {"rawOutput": ""},
            {"_meta": {"claudeCode": {"toolResponse": {"stdout": "", "stderr": ""}}}},
        ],
    )
    async def test_output_or_exit_code_makes_success(self, world: World, result: dict) -> None:
        """Output or an exit code, even if empty, makes a completed command a success."""
        await world.start()
        await world.turn(*runs("t", "./test", **result), ["ask", call("d", command="./deploy")])
        assert world.done("chosen") == ["yes"]
        assert await world.notes() == []

    @pytest.mark.slow
    async def test_earlier_output_counts_as_result(self, world: World) -> None:
        """Output that the agent reports before the end of a command counts as its result."""
        await world.start()
        asked, ended = runs("t", "./test")
        printed = report("t", "in_progress", content=[text("3 passed")])
        await world.turn(asked, printed, ended, ["ask", call("d", command="./deploy")])
        assert world.done("chosen") == ["yes"]

    @pytest.mark.slow
    async def test_exit_code_1_is_a_failure(self, world: World) -> None:
        """A command with exit code 1 has failed, although its call is reported as completed."""
        await world.start()
        result = {"rawOutput": {"exit_code": 1, "stdout": "2 failed"}}
        state = await world.turn(*runs("t", "./test", **result), ["ask", call("d", command="./deploy")])
        assert world.done("chosen") == ["no"]
        assert state.calls["t"].status == "failed"

    @pytest.mark.slow
    async def test_first_unproved_command_and_each_test_are_explained(self, world: World) -> None:
        """The transcript explains the first unproved command and each unproved test, but no other."""
        await world.start()
        quiet = [step for i in range(3) for step in runs(f"l{i}", "ls")]
        await world.turn(*quiet, *runs("t", "./test"), *runs("m", "ls"))
        assert len(await world.notes()) == 2

    async def test_read_without_output_is_a_success(self, world: World) -> None:
        """A read without any output counts as a success."""
        await world.start()
        await world.turn(begun("r", "read", path="a"), report("r", "completed"))
        [result] = await world.events(CallResult)
        assert (result.call_id, result.is_error) == ("r", False)


class TestCallsWithoutQuestion:
    async def test_allowed_call_moves_the_nets(self, world: World) -> None:
        """A test that ran without a request is recorded with its result and unlocks the deploy."""
        await world.start()
        await world.turn(
            begun("t", "execute", command="./test"),
            report("t", "completed", rawOutput={"exit": 0}),
            ["ask", call("d", command="./deploy")],
        )
        assert world.done("chosen") == ["yes"]
        results = {r.call_id: r.output for r in await world.events(CallResult)}
        assert results["t"] == '{"exit": 0}'
        assert await world.notes() == []

    @pytest.mark.parametrize(
        ("kind", "would"), [("delete", "blocked it"), ("fetch", "required approval")]
    )
    async def test_unpermitted_call_interrupts_the_agent(
        self, world: World, kind: str, would: str
    ) -> None:
        """An unpermitted call is noted in the transcript and interrupts the agent, without a request."""
        await world.start()
        state = await world.turn(begun("c1", kind, url="x"), ["until_cancelled"])
        [note] = await world.notes()
        assert f"{kind} ‘{kind} it’ runs without a permission request" in note
        assert would in note
        assert "The agent was interrupted" in note
        assert world.done("cancelled") == [True]
        assert await world.events(ApprovalRequested) == []
        assert "c1" not in state.calls
        assert state.status == "idle"

    async def test_note_setting_only_notes_the_call(self, world: World) -> None:
        """With `note`, the transcript contains the call and the turn continues."""
        await world.start(unasked="note")
        state = await world.turn(begun("c1", "delete"), ["say", "and on I go"])
        [note] = await world.notes()
        assert "interrupted" not in note
        assert state.transcript[-1].text == "and on I go"

    async def test_blocked_call_that_ran_is_noted(self, world: World) -> None:
        """An agent that runs a blocked call is detected by its own report."""
        await world.start()
        await world.turn(
            ["request", "session/request_permission", asks(call("c1", "delete"))],
            report("c1", "completed"),
            ["until_cancelled"],
        )
        [note] = await world.notes()
        assert "runs although it was refused" in note

    async def test_run_with_another_input_is_noted(self, world: World) -> None:
        """A call that runs with an input other than the allowed one is noted."""
        await world.start()
        await world.turn(
            ["request", "session/request_permission", asks(call("c1", command="ls"))],
            report("c1", "in_progress", rawInput={"command": "rm -rf /"}),
            ["until_cancelled"],
        )
        [note] = await world.notes()
        assert "another input" in note

    async def test_shadow_mode_records_without_interrupting(self, world: World) -> None:
        """Shadow mode records the decision that would have applied and does not interrupt the agent."""
        await world.start(mode="shadow")
        await world.turn(begun("c1", "delete"), report("c1", "completed"), ["say", "done"])
        [decided] = await world.events(CallDecided)
        assert (decided.outcome, decided.mode) == ("block", "shadow")
        assert await world.notes() == []


class TestFeedback:
    def test_has_no_field_in_the_protocol(self) -> None:
        """A refusal's reason is in `_meta`; if this fails, the protocol may have a field for it."""
        outcome = {name for kind in (AllowedOutcome, DeniedOutcome) for name in kind.model_fields}
        assert outcome == {"outcome", "option_id", "field_meta"}
        assert set(RequestPermissionResponse.model_fields) == {"outcome", "field_meta"}
        answer = RequestPermissionResponse.model_validate(
            {"outcome": {"outcome": "cancelled"}, "_meta": {"interlock": {"reason": "no"}}}
        )
        assert answer.field_meta == {"interlock": {"reason": "no"}}
