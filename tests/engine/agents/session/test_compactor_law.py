"""Laws of a session that is compacted among all its other operations."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.engine.agents import Reply, SummaryMessage, T, prompt_of
from tests.support.laws import examples

from ..turn.test_law import EVERY_EVENT, Faults, Scene, decisions, moments, replies, valid

KINDS = ["steer", "queue", "compact", "compact", "abort", "close", "cancel"]

actions = st.lists(
    st.tuples(moments | st.just(80), st.sampled_from(["steer", *KINDS])), min_size=1, max_size=10
)
faults = st.builds(
    Faults,
    appends=st.frozensets(st.integers(0, 8), max_size=2),
    listeners=st.frozensets(st.sampled_from(EVERY_EVENT), max_size=1),
    reactions=st.dictionaries(
        st.sampled_from(EVERY_EVENT),
        st.lists(
            st.sampled_from(["steer", "queue", "abort", "close", "compact"]), min_size=1, max_size=2
        ),
        max_size=3,
    ),
    patience=st.integers(0, 2),
)


class Compacted(Scene):
    """A scene with compactions and their cancellation."""

    def __init__(self, faults: Faults, answers: list[tuple[int, str]]) -> None:
        super().__init__(faults, answers)
        self.compacting: list[asyncio.Task[object]] = []

    async def play(
        self, script: list[Reply], said: list[tuple[int, str]], max_steps: int, follow_up: str
    ) -> None:
        await super().play(script, said, max_steps, follow_up)
        async with asyncio.timeout(10):
            await asyncio.gather(*self.compacting, return_exceptions=True)
            while self.w.session.status == "busy":
                await asyncio.gather(self.w.session.wait_for_idle(), return_exceptions=True)
            await asyncio.gather(*self.workers, *self.closing, return_exceptions=True)

    def act(self, action: str) -> None:
        match action:
            case "compact":
                self.compacting.append(asyncio.ensure_future(self.w.session.compact(1)))
            case "cancel":
                if self.compacting:
                    self.killed = True
                    self.compacting[-1].cancel()
            case _:
                super().act(action)


class TestLaws:
    # A message during the summary and its abort, which is rare in random examples.
    @example(
        [T("a"), T(*"abcdef")],
        [(0, "steer"), (80, "compact"), (6, "queue"), (0, "abort"), (0, "steer")],
        [],
        Faults(),
    )
    @example(
        [T("a"), T(*"abcdef")], [(0, "steer"), (80, "compact"), (6, "queue"), (0, "close")], [], Faults()
    )
    @settings(max_examples=examples(200), deadline=None)
    @given(replies, actions, decisions, faults)
    def test_no_message_is_lost(
        self,
        script: list[Reply],
        said: list[tuple[int, str]],
        answers: list[tuple[int, str]],
        faults: Faults,
    ) -> None:
        """A-77, A-63: for compactions at any time, the session's messages equal the store's.

        Every prompt is valid and follows from a beginning of the store. Each text that was sent is in
        exactly one place, and the session becomes idle.
        """

        async def scenario() -> None:
            scene = Compacted(faults, answers)
            await scene.play(script, said, 4, "one")
            w, session = scene.w, scene.w.session
            stored = await scene.store.load("s")
            assert list(session.messages) == stored
            beginnings = [prompt_of(stored[:n]) for n in range(len(stored) + 1)]
            for request in w.model.requests:
                prompt = list(request.messages)
                if "<conversation>" not in prompt[0].text:
                    assert prompt in beginnings
                    assert valid(prompt)
            told = [e.message for e in w.events if e.type == "compacted"]
            assert told == [m for m in stored if isinstance(m, SummaryMessage)]

            assert scene.lost == []
            assert session.status == "idle"
            assert session.waiting == ()
            assert sorted([*scene.store.said, *session.undelivered]) == sorted(scene.sent)
            if not scene.killed:
                in_events = {t for e in w.events for t in getattr(e, "undelivered", ())}
                assert in_events == set(session.undelivered)
                statuses = [e.status for e in w.events if e.type == "status"]
                assert all(one != other for one, other in pairwise(statuses) if one == "busy")
                assert statuses[-1:] in ([], ["idle"])

        logging.disable(logging.CRITICAL)
        try:
            asyncio.run(scenario())
        finally:
            logging.disable(logging.NOTSET)
