"""Dependencies of a flow's functions: provided by `deps`, and not recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.history.model.events import SessionStatus

from .shipping import bodies, flow, here, only_run, run

__all__ = ["here"]


class TestDeps:
    def test_every_host_calls_deps(self, here: Path) -> None:
        """P-159: each host of a run calls the flow's `deps`; the journal does not contain them."""
        assert run(here, "Undated").returncode == 1
        session = only_run(here)
        [*_, last] = bodies(here, SessionStatus)
        assert last.error == (
            "MissingDependency: the context has no Stamps; give it in the flow's deps(), or with "
            "Context(deps=…) (in work 'Commit')"
        )
        (here / "stamp").write_text("second of May")
        module = here / "ship.py"
        given = module.read_text().replace("class Undated(Flow", "class Base(Flow")
        module.write_text(given.replace("(Undated)", "(Base)") + "\nUndated = Dated\n")
        done = flow(here, "resume", session, "--headless", "--answer", "approve")
        assert (done.returncode, "stamped with 13 letters" in done.stdout) == (0, True)
        assert b"second of May" not in (here / "flow.db").read_bytes()

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("Dated", "ship:Dated: deps failed: "),
            ("BadDeps", "ship:BadDeps: deps has the key 'Stamps', expected a mapping from types"),
            ("NoDeps", "ship:NoDeps: deps returned list, expected a mapping from types"),
        ],
    )
    def test_faulty_deps_are_reported_before_the_start(self, here: Path, name: str, problem: str) -> None:
        """P-159: `deps` that fail or return something else are reported before anything starts."""
        done = run(here, name)
        assert (done.returncode, done.stdout, (here / "flow.db").exists()) == (2, "", False)
        assert done.stderr.startswith(f"interlock flow run: {problem}")
        if name == "Dated":
            assert "ship.py:" in done.stderr
            assert "No such file" in done.stderr
