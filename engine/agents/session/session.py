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
    """A multi-turn conversation; `async with` closes it. Made by `Agent.create_session`.

    Belongs to one event loop. At most one run is under way; messages that come meanwhile steer it or
    wait for its end. An idle session starts a run as soon as a message is sent.
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
        """Tokens of every step so far."""
        return self._conversation.usage

    @property
    def text(self) -> str:
        """The last turn's text."""
        return self._conversation.text

    @property
    def waiting(self) -> tuple[str, ...]:
        """Messages that were sent and no run has stored yet, in the order they will be."""
        return tuple(message.text for message in self.waiting_messages)

    @property
    def waiting_messages(self) -> tuple[UserMessage, ...]:
        """The same as messages: those objects that were sent, not copies."""
        unstored = None if self._run is None else self._run.unstored_message
        return (*(() if unstored is None else (unstored,)), *self._conversation.inbox.messages)

    @property
    def undelivered(self) -> tuple[str, ...]:
        """Messages that were sent and handed back instead of stored, each once (A-63).

        An event's `undelivered` has them too, unless the run was stopped too hard for an event.
        """
        return tuple(self._conversation.undelivered)

    # Talking

    def send(
        self,
        text: str | UserMessage | Sequence[str],
        *,
        mode: SendMode | None = None,
        by: str | None = None,
        abort: AbortSignal | None = None,
    ) -> None:
        """Say something, or several things in their order; returns at once (A-70).

        Idle: starts a run, which `abort` stops when set. Busy: `steer` joins before the next model call
        and withdraws a decision that is under way, `queue` waits for the turn's end; `abort` is then
        ignored (A-85). `by` is who says it; a `UserMessage` says so itself. Must be called in the
        session's event loop. Raises `SessionClosedError`, `ValueError` for an unknown mode, for no text
        and for what is none, and what `spawn` raises.
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
        """Let messages wait that waited when an earlier process ended, in their order and mode.

        The next run takes them up as if they had been sent right after it began. Raises
        `SessionClosedError`, and `AgentError` when the session is busy.
        """
        self._check_idle("what waited comes first")
        for message, mode in waiting:
            self._conversation.inbox.put(message, mode)

    def continue_(
        self,
        *,
        abort: AbortSignal | None = None,
        decide_open: bool = False,
        resumed_calls: Sequence[ResumedCall] = (),
    ) -> None:
        """Run again on the conversation as it is, without a new message; returns at once.

        For a conversation whose last message is a person's or a tool's: after an abort or an error, after
        the steps were used up, or resumed; and for any in which restored messages wait. Calls that are
        still open get an unknown outcome; with `decide_open`, which says that none of them was ever
        decided, they are decided now, each by gate, hooks and listeners as if it had just been proposed.
        With `resumed_calls`, which says of each of them, in their order, how it has ended or with what
        arguments it resumes, those that resume run on, without being decided again. Raises
        `SessionClosedError`, and `AgentError` when the session is busy or has nothing to continue with.
        """
        self._check_idle("what is sent to it now goes on by itself")
        first: UserMessage | None = None
        if (why := completion_reason(self._conversation.messages)) is not None:
            if not self._conversation.inbox:
                raise AgentError(f"Session '{self.id}' has nothing to go on with: {why}; send a message")
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
        """Have the model sum up what was said before the last `keep_last` messages (see `prompt_of`).

        From then on it is sent the summary instead; `None` when there is nothing to sum up. Store and
        `messages` keep everything, and it is all of them, not the prompt, that a gate starting from
        `messages=` must be given; a gate at work is not asked and stays where it is. `instructions` are
        added to the request. What is sent meanwhile waits; `abort` stops it and hands that back.

        Raises `CompactionError` when there is no summary, `SessionBusyError`, `SessionClosedError`,
        `ValueError` for a negative number; then nothing has changed. Else what a listener raises.
        """
        if self.closed:
            raise SessionClosedError(f"Session '{self.id}' is closed")
        if self._idle is not None:
            raise SessionBusyError(f"Session '{self.id}' is busy; compact it when it rests")
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
        """Send, wait until idle, and return the turn's text."""
        self.send(text, by=by)
        await self.wait_for_idle()
        return self.text

    def abort(self, reason: str = "") -> None:
        """Stop the run that is under way, if one is (A-94 … A-96).

        Messages that wait are handed back in `turn_end.undelivered`; what is sent from now on starts a
        new run.
        """
        if self._run is not None and not self._run.is_over:
            self._run.signal.abort(reason)
        elif self._conversation.inbox:
            # What was sent while the last event is told has no run yet that could be aborted.
            self._aborted_next = reason

    @property
    def abort_reason(self) -> str | None:
        """Reason given when the run under way was stopped; `None` where it was not, or there is none."""
        run = self._run
        return run.signal.reason if run is not None and run.signal.aborted else None

    @property
    def steering_sender(self) -> str | None:
        """Sender of the first message that steers, "" for an unknown one; `None` without a message."""
        waiting = self._conversation.inbox.steering
        return (waiting[0].by or "") if waiting else None

    async def wait_for_idle(self) -> None:
        """Return when nothing runs or waits any more; raises what the run failed with (A-71).

        Cancelling this does not cancel the run (A-97). Do not await it in a listener of this session: it
        would wait for itself.
        """
        if self._idle is not None:
            failure = await asyncio.shield(self._idle)
            if failure is not None:
                raise failure

    async def aclose(self) -> None:
        """Abort, wait for the end, and end every event stream. Nothing can be sent afterwards.

        A run that does not stop within ten seconds of being asked is cancelled. Messages that wait, also
        those sent while the last event is reported, are handed back: see `undelivered`.
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
        supervised = self._supervise(run)
        # Run up to its first pause, so that even a worker cancelled before it starts settles the session.
        supervised.send(None)
        spawn = self._config.spawn or asyncio.get_running_loop().create_task
        try:
            spawn(supervised)
        except BaseException:
            # Who sent the message learns it here; it is theirs again.
            run.drop_unstored()
            supervised.close()
            raise

    async def _supervise(self, run: Run) -> None:
        """Attend to `run`, or settle when its task never started."""
        cancelled = False
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            cancelled = True
            run.signal.abort("cancelled")
        except GeneratorExit:
            never_started = AgentError(f"The run of session '{self.id}' was never started")
            self._settle(run, never_started, go_on=False)
            raise
        await self._attend(run, cancelled)

    async def _attend(self, run: Run | Compaction, cancelled: bool = False) -> None:
        """Drive `run`, then a compaction that is due; settle."""
        cancelled, broken = await self._drive(run, cancelled)
        failure = run.failure or broken
        if failure is None and not cancelled and (compaction := self._due_compaction(run)) is not None:
            run = self._run = compaction
            cancelled, failure = await self._drive(run, cancelled)
        self._settle(run, failure)
        self._listeners.raise_stop()
        if cancelled:
            raise asyncio.CancelledError

    async def _drive(self, run: Run | Compaction, cancelled: bool) -> tuple[bool, BaseException | None]:
        """Drive `run` in a task of its own; being cancelled aborts it, twice cancels it hard.

        Whether it was cancelled, and what it broke with.
        """
        driver = self._driver = asyncio.ensure_future(run.drive())
        while not driver.done():
            try:
                await asyncio.wait({driver})
            except asyncio.CancelledError:
                if cancelled:
                    driver.cancel()
                cancelled = True
                run.signal.abort("cancelled")
        if self.closed and self._conversation.inbox:
            # Closed after the run made room for another one: what was sent meanwhile is handed back.
            try:
                await run.report_idle()
            except asyncio.CancelledError:
                cancelled = True
        return cancelled, asyncio.CancelledError() if driver.cancelled() else driver.exception()

    def _due_compaction(self, run: Run | Compaction) -> Compaction | None:
        """The compaction to make now that `run` has ended, if it left the conversation too long."""
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
        """The run has ended: release its waiters, or begin a run with what was sent meanwhile (A-82)."""
        conversation = self._conversation
        conversation.undelivered.extend(run.drop_unstored())
        self._run = self._driver = None
        aborted, self._aborted_next = self._aborted_next, None
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
            log.exception("Session '%s' could not go on with what was sent", self.id)
            return
        if aborted is not None:
            self.abort(aborted)
