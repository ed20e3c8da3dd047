"""A conversation that people can join while it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import get_args

from ..decisions import ResumedCall
from ..errors import AgentError, SessionBusyError, SessionClosedError
from ..events import Status, Usage
from ..gating import Decider
from ..messages import Message, SummaryMessage, UserMessage, completion_reason, open_calls
from ..turn.abort import AbortSignal
from ..turn.compaction import KEEP_LAST
from ..turn.run import Run
from .compactor import AUTOMATIC_SENDER, Compaction, plan_compaction
from .config import SessionConfig
from .conversation import Conversation
from .inbox import SendMode, as_messages
from .settings import SessionSettings

log = logging.getLogger(__name__)

CLOSE_GRACE_SECONDS = 10.0


class Session(SessionSettings):
    """A multi-turn conversation; `async with` closes it. Created by `Agent.create_session`.

    Belongs to one event loop. There is at most one run at a time; messages that arrive during it steer it
    or wait for its end. An idle session starts a run as soon as a message is sent.
    """

    def __init__(
        self,
        session_id: str,
        config: SessionConfig,
        messages: Sequence[Message] = (),
        rules: tuple[str, ...] | None = None,
    ) -> None:
        conversation = Conversation(session_id, config.store, messages=list(messages), rules=rules)
        super().__init__(conversation, config)
        self._decider = Decider(config.gate, config.hooks, self._listeners)
        self._driver: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[BaseException | None] | None = None
        self._aborted_next: str | None = None

    @property
    def status(self) -> Status:
        return "idle" if self._idle is None else "busy"

    @property
    def closed(self) -> bool:
        return self._conversation.closed

    @property
    def messages(self) -> tuple[Message, ...]:
        """Conversation so far, as copies."""
        return tuple(message.model_copy(deep=True) for message in self._conversation.messages)

    @property
    def usage(self) -> Usage:
        """Tokens of all steps so far."""
        return self._conversation.usage

    @property
    def text(self) -> str:
        """The last turn's text."""
        return self._conversation.text

    @property
    def waiting(self) -> tuple[str, ...]:
        """Texts of messages that were sent but not stored yet, in the order they will be stored."""
        return tuple(message.text for message in self.waiting_messages)

    @property
    def waiting_messages(self) -> tuple[UserMessage, ...]:
        """Messages that were sent but are not stored by a run yet; the sent objects, not copies."""
        unstored_message = None if self._run is None else self._run.unstored_message
        return (
            *(() if unstored_message is None else (unstored_message,)),
            *self._conversation.inbox.messages,
        )

    @property
    def undelivered(self) -> tuple[str, ...]:
        """Messages that were sent and handed back instead of stored, each once (A-63).

        They are also in an event's `undelivered`, unless the run was cancelled too early to report an
        event.
        """
        return tuple(self._conversation.undelivered)

    # Sending messages

    def send(
        self,
        text: str | UserMessage | Sequence[str],
        *,
        mode: SendMode | None = None,
        by: str | None = None,
        abort: AbortSignal | None = None,
    ) -> None:
        """Send one or several messages, in order; return at once (A-70).

        If the session is idle, starts a run, which `abort` stops when set. If it is busy, `abort` is
        ignored (A-85): in mode `steer` the message joins before the next model call and withdraws a
        pending decision, in mode `queue` it waits for the turn's end. `by` is the sender; a `UserMessage`
        has its own. Must be called in the session's event loop. Raises `SessionClosedError`, `ValueError`
        for an unknown mode or missing or invalid text, and the errors of `spawn`.
        """
        mode = mode or self._config.send_mode
        if mode not in get_args(SendMode):
            raise ValueError(f"mode is 'steer' or 'queue', not {mode!r}")
        if self.closed:
            raise SessionClosedError(f"Session '{self.id}' is closed")
        first, *more = as_messages(text, by)
        begins = self._idle is None
        if begins:
            self._idle = asyncio.get_running_loop().create_future()
            self._start(first, abort)
        else:
            more.insert(0, first)
        for message in more:
            self._conversation.inbox.put(message, mode)
        if begins and abort is not None and abort.aborted and self._run is not None:
            self._run.stop()
        elif more and mode == "steer" and self._run is not None:
            self._run.interrupt()

    def restore(self, waiting: Iterable[tuple[UserMessage, SendMode]]) -> None:
        """Restore messages that waited when an earlier process ended, in their order and mode.

        The next run handles them as if they had been sent right after its start. Raises
        `SessionClosedError`, and `AgentError` if the session is busy.
        """
        self._check_idle("restore messages while it is idle")
        for message, mode in waiting:
            self._conversation.inbox.put(message, mode)

    def continue_(
        self,
        *,
        abort: AbortSignal | None = None,
        decide_open: bool = False,
        resumed_calls: Sequence[ResumedCall] = (),
    ) -> None:
        """Run again on the conversation as it is, without a new message; return at once.

        For a conversation whose last message is a user's or a tool's: after an abort or an error, after
        the steps were used up, or after a resume; also for any conversation with restored messages. Open
        calls get an unknown outcome. With `decide_open`, which states that none of them was ever decided,
        they are decided now by gate, hooks and listeners, as if newly proposed. With `resumed_calls`,
        which states for each open call, in order, how it has ended or with which arguments it resumes,
        the resumed calls run without being decided again. Raises `SessionClosedError`, and `AgentError`
        if the session is busy or has nothing to continue with.
        """
        self._check_idle("messages sent now are handled by the current run")
        first: UserMessage | None = None
        if (why := completion_reason(self._conversation.messages)) is not None:
            if not self._conversation.inbox:
                raise AgentError(
                    f"Session '{self.id}' has nothing to continue with: {why}; send a message"
                )
            first = self._conversation.inbox.next()
        self._idle = asyncio.get_running_loop().create_future()
        self._start(first, abort, decide_open, resumed_calls)

    def _check_idle(self, instead: str) -> None:
        if self.closed:
            raise SessionClosedError(f"Session '{self.id}' is closed")
        if self._idle is not None:
            raise AgentError(f"Session '{self.id}' is busy; {instead}")

    async def compact(
        self, keep_last: int = KEEP_LAST, *, instructions: str | None = None, by: str | None = None
    ) -> SummaryMessage | None:
        """Have the model summarize everything before the last `keep_last` messages (see `prompt_of`).

        From then on the model gets the summary instead; returns `None` if there is nothing to summarize.
        Store and `messages` keep everything. A gate that starts from `messages=` must get all of these,
        not the prompt; a live gate is not affected. `instructions` are added to the request. Messages
        sent in the meantime wait; `abort` stops the compaction and hands them back.

        Raises `CompactionError` if there is no summary, `SessionBusyError`, `SessionClosedError`, and
        `ValueError` for a negative number; nothing has changed then. Also raises errors of listeners.
        """
        if self.closed:
            raise SessionClosedError(f"Session '{self.id}' is closed")
        if self._idle is not None:
            raise SessionBusyError(f"Session '{self.id}' is busy; compact it when it is idle")
        plan = plan_compaction(self._conversation, keep_last)
        if plan is None:
            return None
        self._idle = asyncio.get_running_loop().create_future()
        run = self._run = Compaction(self._conversation, self._config, plan, instructions, by)
        await self._attend(run)
        return run.outcome()

    def steer(self, text: str, *, by: str | None = None) -> None:
        """Send in steer mode."""
        self.send(text, mode="steer", by=by)

    def follow_up(self, text: str, *, by: str | None = None) -> None:
        """Send in queue mode."""
        self.send(text, mode="queue", by=by)

    async def prompt(self, text: str, *, by: str | None = None) -> str:
        """Send a message, wait until idle, and return the turn's text."""
        self.send(text, by=by)
        await self.wait_for_idle()
        return self.text

    def abort(self, reason: str = "") -> None:
        """Stop the current run, if there is one (A-94 … A-96).

        Waiting messages are handed back in `turn_end.undelivered`; messages sent from now on start a new
        run.
        """
        if self._run is not None and not self._run.is_over:
            self._run.signal.abort(reason)
        elif self._conversation.inbox:
            # A message sent while the last event is being reported has no run yet that could be aborted.
            self._aborted_next = reason

    @property
    def abort_reason(self) -> str | None:
        """Reason given when the current run was aborted; `None` if it was not, or if there is no run."""
        run = self._run
        return run.signal.reason if run is not None and run.signal.aborted else None

    @property
    def steering_sender(self) -> str | None:
        """Sender of the first steering message, "" for an unknown one; `None` without a message."""
        waiting = self._conversation.inbox.steering
        return (waiting[0].by or "") if waiting else None

    async def wait_for_idle(self) -> None:
        """Wait until nothing runs or waits; raise the error with which the run failed (A-71).

        Cancelling this does not cancel the run (A-97). Do not await it in a listener of this session: it
        would wait for itself.
        """
        if self._idle is not None:
            failure = await asyncio.shield(self._idle)
            if failure is not None:
                raise failure

    async def aclose(self) -> None:
        """Abort, wait for the end, and end every event stream. Nothing can be sent afterwards.

        A run that does not stop within ten seconds is cancelled. Waiting messages, including those sent
        while the last event is reported, are handed back: see `undelivered`.
        """
        self._conversation.closed = True
        if self._run is not None:
            self._run.signal.abort("closed")
        idle, driver = self._idle, self._driver
        if idle is not None and asyncio.current_task() is not driver:
            done, _ = await asyncio.wait({idle}, timeout=CLOSE_GRACE_SECONDS)
            if not done and driver is not None:
                driver.cancel()
                await asyncio.wait({idle}, timeout=CLOSE_GRACE_SECONDS)
        self._listeners.close()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # Runs

    def _start(
        self,
        first: UserMessage | None,
        abort: AbortSignal | None = None,
        decide_open: bool = False,
        resumed_calls: Sequence[ResumedCall] = (),
    ) -> None:
        run = Run(self._conversation, self._decider, self._config, first, decide_open, resumed_calls)
        self._run = run
        if abort is not None:
            abort.on_abort(lambda: run.signal.abort(abort.reason))
        supervision = self._supervise(run)
        # Run up to the first pause, so that the session is settled even if its task is cancelled before
        # it starts.
        supervision.send(None)
        spawn = self._config.spawn or asyncio.get_running_loop().create_task
        try:
            spawn(supervision)
        except BaseException:
            # The sender gets this error, and the message with it.
            run.drop_unstored()
            supervision.close()
            raise

    async def _supervise(self, run: Run) -> None:
        """Attend to `run`, or settle if its task never started."""
        was_cancelled = False
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            was_cancelled = True
            run.signal.abort("cancelled")
        except GeneratorExit:
            never_started = AgentError(f"The run of session '{self.id}' was never started")
            self._settle(run, never_started, go_on=False)
            raise
        await self._attend(run, was_cancelled)

    async def _attend(self, run: Run | Compaction, was_cancelled: bool = False) -> None:
        """Drive `run`, then a due compaction; then settle."""
        was_cancelled, broken = await self._drive(run, was_cancelled)
        failure = run.failure or broken
        if (
            failure is None
            and not was_cancelled
            and (compaction := self._due_compaction(run)) is not None
        ):
            run = self._run = compaction
            was_cancelled, failure = await self._drive(run, was_cancelled)
        self._settle(run, failure)
        self._listeners.raise_stop()
        if was_cancelled:
            raise asyncio.CancelledError

    async def _drive(
        self, run: Run | Compaction, was_cancelled: bool
    ) -> tuple[bool, BaseException | None]:
        """Drive `run` in its own task; the first cancellation aborts it, the second one cancels the task.

        Returns whether it was cancelled, and the exception that ended the task, if any.
        """
        driver = self._driver = asyncio.ensure_future(run.drive())
        while not driver.done():
            try:
                await asyncio.wait({driver})
            except asyncio.CancelledError:
                if was_cancelled:
                    driver.cancel()
                was_cancelled = True
                run.signal.abort("cancelled")
        if self.closed and self._conversation.inbox:
            # Closed after the run had handed over to a next one: messages sent in between are handed
            # back.
            try:
                await run.report_idle()
            except asyncio.CancelledError:
                was_cancelled = True
        return was_cancelled, asyncio.CancelledError() if driver.cancelled() else driver.exception()

    def _due_compaction(self, run: Run | Compaction) -> Compaction | None:
        """Return the compaction that is due after `run`, if it left the conversation too long."""
        at = self._config.compact_at
        if at is None or not isinstance(run, Run) or self._conversation.prompt_tokens < at:
            return None
        if run.signal.aborted or self.closed or self._aborted_next is not None:
            return None
        if open_calls(self._conversation.messages):
            return None
        plan = plan_compaction(self._conversation, KEEP_LAST)
        if plan is None:
            return None
        return Compaction(self._conversation, self._config, plan, None, AUTOMATIC_SENDER, automatic=True)

    def _settle(
        self, run: Run | Compaction, failure: BaseException | None, *, go_on: bool = True
    ) -> None:
        """Handle the end of a run: release its waiters, or start a run with newer messages (A-82)."""
        conversation = self._conversation
        conversation.undelivered.extend(run.drop_unstored())
        self._run = self._driver = None
        abort_reason, self._aborted_next = self._aborted_next, None
        inbox = conversation.inbox
        more = bool(inbox) and not self.closed and go_on
        if failure is not None or not more:
            idle, self._idle = self._idle, None
            if idle is not None and not idle.done():
                idle.set_result(failure)
        if not more:
            conversation.reported_status = "idle"
            conversation.hand_back_messages()
            return
        if self._idle is None:
            self._idle = asyncio.get_running_loop().create_future()
        first = inbox.next()
        try:
            self._start(first)
        except Exception:
            conversation.undelivered.append(first.text)
            log.exception("Session '%s' could not start a run for messages sent to it", self.id)
            return
        if abort_reason is not None:
            self.abort(abort_reason)
