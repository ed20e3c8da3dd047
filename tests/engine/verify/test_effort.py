"""The cost of a question."""

from __future__ import annotations

import pytest

from interlock.engine import SkillNet, Transition, define_skill_net
from interlock.engine.verify import Together, Unknown
from interlock.engine.verify.budget import Effort, SpentError
from interlock.engine.verify.machine import Machine


class TestEffort:
    """The cost of a question is counted wherever it arises."""

    @pytest.mark.slow
    def test_no_question_exceeds_its_effort(self) -> None:
        """No question uses more steps than its effort allows, even if it gives up."""
        growing = hostile()
        together = Together({"n": growing}, effort=30_000)
        whole = together.certain
        for name in whole.named:
            before = whole.effort.left
            together.way(name)
            assert before - whole.effort.left <= 30_000
            together.most(name)
            assert before - whole.effort.left <= 60_000

    def test_each_move_costs_at_least_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each move of a net costs at least one, so the effort bounds the moves."""
        made = 0
        real = Machine.advance

        def counted(*args: object, **options: object) -> object:
            nonlocal made
            made += 1
            return real(*args, **options)  # type: ignore[arg-type]

        together = Together({"n": hostile()}, effort=30_000)
        monkeypatch.setattr(Machine, "advance", counted)
        answers = [together.way(name) for name in together.certain.named]
        assert any(isinstance(answer, Unknown) for answer in answers)
        assert made <= 30_000 * len(answers)

    def test_overdraft_of_a_part_is_not_charged(self) -> None:
        """The cost of a part is taken from the whole, but its overdraft is not."""
        effort = Effort(100)
        with effort.within(30):
            effort.charge(20)
            with pytest.raises(SpentError):
                effort.charge(20)
        assert effort.left == 70
        with effort.within(500):
            effort.charge(10)
        assert effort.left == 60


def hostile() -> SkillNet:
    """A net with structural transitions, weights and growth on which neither search ends."""
    places = [f"p{i}" for i in range(8)]
    return define_skill_net(
        "hostile",
        places=[*places, "odd", "even", "goal"],
        transitions=[
            *(Transition(f"grow-{p}", (p,), (p, p), (f"grow-{p}",)) for p in places),
            *(
                Transition(f"mix-{i}", (places[i],) * 3, (places[i - 1],) * 2, (f"mix-{i}",))
                for i in range(8)
            ),
            Transition("even", ("odd", "odd"), ("even",)),
            Transition("make", ("p0",), ("p0", "odd"), ("make",)),
            Transition("pair", ("odd",) * 3, ("goal",), ("pair",)),
            Transition("never", ("goal", *places * 4), ("goal",), ("never",)),
        ],
        initial_marking=dict.fromkeys(places, 1),
    )
