"""One step of an agent: a model call with its whole batch of calls, or the rest of a batch (P-51)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pydantic import BaseModel, JsonValue, ValidationError

from ...agents.decisions import Deny, Override
from ...agents.errors import InvalidModelUrlError, describe
from ...agents.messages import (
    AssistantMessage,
    Message,
    ProposedCall,
    ToolMessage,
    UserMessage,
    with_own_ids,
)
from ...agents.models.base import ToolSpec
from ..build.nodes import AgentWork, label
from ..context import Context
from ..errors import AgentError, DeserializeError, SnapLoadError
from ..run.snapshot import AgentProgress, History, HistoryEntry, PendingSuspension
from ..run.state import RunState
from ..run.steps import check_free, input_value, with_outputs
from ..run.values import dumped, problems_of
from ..trace import ModelCalled, Trace, tell
from .client import Client, ClientFactory, ClientOptions, ClientReply, ModelClient, ModelClients
from .gate import FlowGate, Question, approval_answer, question_key
from .node import AgentConfig
from .tools import Asks, Tools, answer, as_text, failure

SUBMIT = "Submit your final result. Call this only when the task is complete."
REMINDER = "Call {exit_name} with your final result."
CONCLUDE = "You have used all your turns. Hand in your final result now; nothing else can be done."
BEFORE_ANSWER = "submitted_before_answer"

StepResult: TypeAlias = tuple[RunState, History]


@dataclass(frozen=True, slots=True)
class RunServices:
    """Clients, gate and trace that the agents of a run share."""

    factory: ClientFactory | None = None
    gate: FlowGate | None = None
    trace: Trace | None = None

    def client(self, config: AgentConfig, options: ClientOptions) -> Client:
        """Return the client of an agent. Raises the factory's errors."""
        if isinstance(config.model, str):
            return (self.factory or ModelClients()).create(config.model, options)
        if self.factory is None:
            return ModelClient(config.model, options)
        return self.factory.create(config.model.name, options)


def options_of(
    config: AgentConfig, output: type[BaseModel], session: str = "", *, last: bool = False
) -> ClientOptions:
    """Return the options of an agent's model calls: tools and exit, or the schema of its output.

    In the `last` model call only the exit is offered.
    """
    if not config.tools:
        return ClientOptions(config.preamble, output=output, session_id=session)
    tools = [ToolSpec(t.name, t.description, t.parameters) for t in config.tools]
    submit = ToolSpec(config.exit_name, SUBMIT, output.model_json_schema())
    offered_tools = (submit,) if last else (*tools, submit)
    return ClientOptions(config.preamble, offered_tools, session_id=session)


async def agent_step(
    run_state: RunState, history: History, node: AgentWork, ctx: Context, services: RunServices
) -> StepResult:
    """Run the agent's next step; return the run's state and history after it.

    Raises `AgentError` if the model fails or its replies lead to no result.
    """
    check_free(node, run_state, [node.gives.key])
    turn = _turn(run_state, history, node, ctx, services)
    reply = await turn.request_reply(services)
    if turn.config.tools:
        return await turn.take_calls(reply)
    return turn.take_output(reply)


async def agent_answered(
    run_state: RunState,
    history: History,
    node: AgentWork,
    payload: JsonValue | BaseModel,
    ctx: Context,
    services: RunServices,
) -> StepResult:
    """Continue the agent's step after an answer to the waiting call, with the calls after it (P-72)."""
    turn = _turn(run_state, history, node, ctx, services)
    suspension = run_state.suspended
    assert suspension is not None
    first, *remaining = run_state.pending
    if suspension.kind == "tool":
        try:
            text = as_text(payload)
        except ValueError as error:
            raise DeserializeError(
                f"{label(node)}: the answer is not JSON: {error}", node.takes.key
            ) from error
        await turn.tools.settled(first, suspension.args or {}, text)
        turn.add_message(answer(first, text))
        return await turn.run_calls(remaining, resumed=True)
    decision = approval_answer(payload, label(node))
    asks = suspension.asks or ("", "")
    approved_keys = (*suspension.approved, question_key(asks, first.args))
    original_args = suspension.written
    match decision:
        case Deny(reason=reason):
            turn.add_message(answer(first, reason or f"{first.name} was denied.", is_error=True))
            return await turn.run_calls(remaining, resumed=True, denied=True)
        case Override(args=args):
            original_args = first.args if original_args is None else original_args
            first = first.model_copy(update={"args": args})
            # The editor approves the edited call, which is judged again; earlier approvals no longer
            # count.
            approved_keys = (question_key(asks, args),)
        case _:
            pass
    return await turn.run_calls(
        [first, *remaining], resumed=True, approved=approved_keys, original_args=original_args
    )


def config_of(run_state: RunState, node: AgentWork, ctx: Context) -> AgentConfig:
    """Return the config of the agent that has its turn. Raises `AgentError` for a config with faults."""
    config = node.node().configure(input_value(node, node.takes, run_state), ctx)
    problems = config.problems()
    if problems:
        raise AgentError(f"{label(node)}: {'; '.join(problems)}", node.takes.key)
    return config


def _turn(
    run_state: RunState, history: History, node: AgentWork, ctx: Context, services: RunServices
) -> _Turn:
    key, config = node.takes.key, config_of(run_state, node, ctx)
    progress = run_state.agent
    begins: list[HistoryEntry] = []
    if progress is None:
        progress = AgentProgress(agent=key, session=f"{key}#{len(history.sessions(key)) + 1}")
        first = UserMessage(text=run_state.live[key].decode())
        begins.append(HistoryEntry(session=progress.session, agent=key, message=first))
    elif not history.messages(progress.session):
        raise SnapLoadError(f"agent '{key}' is mid-conversation: restore its history with with_history()")
    tools = Tools(key, progress.session, config, ctx, services.gate, services.trace)
    tools.offer()
    return _Turn(run_state, history, node, config, progress, tools, begins)


@dataclass(slots=True)
class _Turn:
    """A step in progress; `added` are its additions to the history, which are dropped if it fails."""

    run_state: RunState
    history: History
    node: AgentWork
    config: AgentConfig
    progress: AgentProgress
    tools: Tools
    added: list[HistoryEntry] = field(default_factory=list[HistoryEntry])

    @property
    def key(self) -> str:
        return self.node.takes.key

    @property
    def messages(self) -> list[Message]:
        """Conversation of this agent since it started."""
        recorded_messages = self.history.messages(self.progress.session)
        return [*recorded_messages, *(entry.message for entry in self.added)]

    def add_message(self, message: Message, note: str | None = None) -> None:
        """Add a message to the conversation."""
        entry = HistoryEntry(session=self.progress.session, agent=self.key, message=message, note=note)
        self.added.append(entry)

    def error(self, text: str) -> AgentError:
        return AgentError(f"agent '{self.key}': {text}", self.key)

    async def request_reply(self, services: RunServices) -> ClientReply:
        """Request the model's reply. Errors are raised as `AgentError` with their text (P-59, P-138)."""
        last = self._turns_left() == 0
        if last:
            self.add_message(UserMessage(text=CONCLUDE))
        output, session = self.node.gives.type, self.progress.session
        options = options_of(self.config, output, session, last=last)
        started_at, usage = time.perf_counter(), None
        try:
            reply = await services.client(self.config, options).execute(self.messages)
            usage = reply.usage
        except InvalidModelUrlError as error:
            raise self.error(f"invalid LLM URL: {error}") from error
        except Exception as error:
            raise self.error(describe(error)) from error
        finally:
            tell(services.trace, ModelCalled(self.key, session, usage, time.perf_counter() - started_at))
        return reply

    def _turns_left(self) -> int | None:
        """Number of model calls left before the last one; `None` without a budget.

        Raises `AgentError` after the last one.
        """
        budget = self.config.turn_budget
        if budget is None:
            return None
        remaining = budget - sum(isinstance(message, AssistantMessage) for message in self.messages)
        if remaining < 0:
            raise self.error(f"no result after its turn budget of {budget} and one turn to conclude")
        return remaining

    def _over_budget(self, call: ProposedCall) -> ToolMessage | None:
        """Return the result of a call beyond its tool's budget, for the model; otherwise `None`."""
        budget = self.config.tool_budget.get(call.name)
        if budget is None or self.progress.used.get(call.name, 0) < budget:
            return None
        return failure(call, f"{call.name} has run {budget} times, which is its budget", "budget")

    def _count(self, name: str) -> None:
        if name in self.config.tool_budget:
            use_counts = {**self.progress.used, name: self.progress.used.get(name, 0) + 1}
            self.progress = self.progress.model_copy(update={"used": use_counts})

    # Ends of a step

    def proceed(self) -> StepResult:
        """Keep the agent active: its next step follows."""
        run_state = replace(self.run_state, agent=self.progress, pending=(), suspended=None)
        return run_state, self.history.extended(self.added)

    def finish(self, output: BaseModel) -> StepResult:
        """End the agent with its output."""
        text = dumped(output, self.node.gives, self.key, label(self.node))
        run_state = replace(self.run_state, agent=None, pending=(), suspended=None)
        outputs = {self.node.gives.key: text}
        return with_outputs(run_state, self.node, outputs), self.history.extended(self.added)

    def suspend(self, pending: Sequence[ProposedCall], suspension: PendingSuspension) -> StepResult:
        """Wait for an answer to the first of the `pending` calls."""
        run_state = replace(
            self.run_state, agent=self.progress, pending=tuple(pending), suspended=suspension
        )
        return run_state, self.history.extended(self.added)

    # Replies

    def take_output(self, reply: ClientReply) -> StepResult:
        """Handle a reply that is the output as JSON (P-130, P-136)."""
        if reply.calls:
            raise self.error(f"the model called '{reply.calls[0].name}', but has no tools")
        if not reply.text.strip():
            raise self.error("LLM returned an empty response")
        self.add_message(AssistantMessage(text=reply.text))
        text = unfenced(reply.text)
        try:
            json.loads(text)
        except ValueError as error:
            raise self.error(f"failed to deserialize output: {error}: {reply.text}") from error
        try:
            return self.finish(self._output(text))
        except ValidationError as error:
            self._count_output(error)
            self.add_message(
                UserMessage(text=f"The answer does not fit: {problems_of(error)}. Answer again.")
            )
            return self.proceed()

    async def take_calls(self, reply: ClientReply) -> StepResult:
        """Handle a reply with calls of tools, possibly including the exit (P-131 … P-135)."""
        calls = self._with_own_ids(reply.calls)
        if not calls:
            return self._take_text(reply.text)
        self.add_message(AssistantMessage(text=reply.text, tool_calls=calls))
        await self.tools.receive_text(reply.text)
        return await self.run_calls(calls)

    async def run_calls(
        self,
        calls: Sequence[ProposedCall],
        *,
        resumed: bool = False,
        denied: bool = False,
        approved: Sequence[str] = (),
        original_args: dict[str, JsonValue] | None = None,
    ) -> StepResult:
        """Run calls one after the other, up to the exit or to a call that waits.

        `approved` and `original_args` concern the first call. After a denial, a result that the model
        submitted before it knew of the denial is not accepted (P-78).
        """
        for at, call in enumerate(calls):
            remaining = calls[at:]
            if call.name == self.config.exit_name:
                if denied:
                    self.add_message(answer(call, "cancelled", is_error=True))
                    continue
                output = self._submitted(call)
                if output is None:
                    continue
                self.add_message(answer(call, "accepted"), note=BEFORE_ANSWER if resumed else None)
                for other in remaining[1:]:
                    self.add_message(answer(other, "cancelled", is_error=True))
                return self.finish(output)
            if (budget_failure := self._over_budget(call)) is not None:
                self.add_message(budget_failure)
                continue
            first = at == 0
            result = await self.tools.run(
                call, approved if first else (), original_args if first else None
            )
            if self.tools.ran and self.tools.ran[-1] == call.call_id:
                self._count(call.name)
            match result:
                case ToolMessage():
                    self.add_message(result)
                case Asks(value=value, args=args):
                    return self.suspend(remaining, self._suspension_of(call, "tool", value, args))
                case Question():
                    waiting = self._suspension_of(call, "approval", result.shown(), call.args)
                    details = {
                        "asks": result.asks,
                        "approved": tuple(approved) if first else (),
                        "written": original_args if first else None,
                    }
                    return self.suspend(remaining, waiting.model_copy(update=details))
        return self.proceed()

    def _suspension_of(
        self, call: ProposedCall, kind: str, value: JsonValue, args: dict[str, JsonValue]
    ) -> PendingSuspension:
        return PendingSuspension.model_validate(
            {
                "value": value,
                "tool_id": f"{self.key}::{call.name}",
                "kind": kind,
                "agent": self.key,
                "call_id": call.call_id,
                "args": args,
            }
        )

    def _submitted(self, call: ProposedCall) -> BaseModel | None:
        """Return the submitted output; `None` if it does not fit, which the model is told (P-134)."""
        if call.malformed is not None:
            text = f"expected a JSON object, got {call.malformed[:200]!r}"
            self._count_output(text)
        else:
            try:
                return self._output(json.dumps(call.args))
            except ValidationError as error:
                self._count_output(error)
                text = problems_of(error)
        self.add_message(answer(call, f"The result does not fit: {text}", is_error=True))
        return None

    def _take_text(self, text: str) -> StepResult:
        """Handle text in place of a call (P-135)."""
        self.add_message(AssistantMessage(text=text))
        try:
            return self.finish(self._output(unfenced(text)))
        except ValidationError:
            pass
        bad = self.progress.bad_texts + 1
        if self.config.on_text == "error" or bad > self.config.max_output_retries:
            raise self.error(f"No tool calls found: {text!r}")
        self.progress = self.progress.model_copy(update={"bad_texts": bad})
        self.add_message(UserMessage(text=REMINDER.format(exit_name=self.config.exit_name)))
        return self.proceed()

    def _output(self, text: str) -> BaseModel:
        return self.node.gives.type.model_validate_json(text)

    def _count_output(self, problem: ValidationError | str) -> None:
        """Count another output that does not fit. Raises `AgentError` once there are too many."""
        bad = self.progress.bad_outputs + 1
        if bad > self.config.max_output_retries:
            text = problem if isinstance(problem, str) else problems_of(problem)
            cause = problem if isinstance(problem, ValidationError) else None
            raise self.error(f"{bad} outputs in a row did not fit: {text}") from cause
        self.progress = self.progress.model_copy(update={"bad_outputs": bad})

    def _with_own_ids(self, calls: Sequence[ProposedCall]) -> tuple[ProposedCall, ...]:
        """Return the calls, each with an id that is new in this conversation.

        Raises `AgentError` for two calls with one id in a reply: their results would be ambiguous
        (P-140).
        """
        ids = [call.call_id for call in calls if call.call_id]
        for call in calls:
            if call.call_id and ids.count(call.call_id) > 1:
                raise self.error(f"two calls of '{call.name}' have the id '{call.call_id}'")
        return with_own_ids(calls, self.messages)


_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL | re.IGNORECASE)


def unfenced(text: str) -> str:
    """Remove the code fence that some models put around JSON."""
    match = _FENCED.fullmatch(text)
    return text if match is None else match[1]
