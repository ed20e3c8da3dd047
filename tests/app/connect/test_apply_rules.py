"""The rules screen's key that compares rules with a server's and applies them there (G-67)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.screens.common.confirm import Confirm
from interlock.app.screens.live.loosen import Loosen
from interlock.app.screens.rules.apply import ApplyRules
from interlock.app.screens.rules.screen import RulesScreen

from .seats import Seat, attached, served

GUARDED = "require human-approval before deploy risk high\nblock rm\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(file: str, text: str) -> None:
    Path(file).write_text(text)


async def open_comparison(seat: Seat, text: str, file: str = "server.rules") -> None:
    """Open the panel that compares the server's rules with the file's new text."""
    await seat.starter.running_rules()  # makes the server read its files
    write(file, text)
    await seat.press("R")
    await seat.at(RulesScreen)
    await seat.shows(f"▸ {file}", "nothing found")
    await seat.press("a")
    await seat.at(ApplyRules)


async def press_and_confirm(seat: Seat, key: str) -> str:
    """Press a key of the panel, confirm the question with yes, and return the question."""
    await seat.press(key)
    await seat.at(Confirm)
    question = await seat.shows("y yes")
    seat.seconds += 1.0
    await seat.press("y")
    await seat.until(lambda: not isinstance(seat.app.screen, Confirm))
    return question


@pytest.mark.slow
async def test_applied_with_a_reason(here: Path) -> None:
    """The panel shows the differences, requires a reason, and applies the rules to new sessions."""
    (here / "server.rules").write_text("block rm\nblock push\n")
    async with served(here, server_rules=["server.rules"]) as server, attached(server) as seat:
        await open_comparison(seat, "block rm\nblock mkfs\n")
        panel = await seat.shows("- block-push: block push", "+ block-mkfs: block mkfs", "-block push")
        assert "+block mkfs" in panel
        question = await press_and_confirm(seat, "n")
        assert "Apply these rules to sessions that begin from now on?" in question
        await seat.at(Loosen)
        await seat.shows("may loosen block-push. Give a reason")
        await seat.type("push is fine")
        await seat.press("enter")
        await seat.shows("Applied to sessions that begin from now on; live ones", "push is fine")
        await seat.shows("The rules are the same")
        running = await seat.starter.running_rules()
        assert running.applied is not None
        assert (running.applied.by, running.applied.reason) == ("ada", "push is fine")
        await seat.press("n")
        await seat.shows("The server runs these rules.")
        assert isinstance(seat.app.screen, ApplyRules)


@pytest.mark.slow
async def test_two_operators(here: Path) -> None:
    """The second operator sees the first one's proposal for live sessions and confirms exactly that."""
    (here / "server.rules").write_text(GUARDED)
    async with served(here, server_rules=["server.rules"]) as server:
        async with attached(server) as seat:
            await open_comparison(seat, "block rm\n")
            await press_and_confirm(seat, "l")
            await seat.at(Loosen)
            await seat.type("night")
            await seat.press("enter")
            await seat.shows("Proposed, nothing is changed yet: another operator")
            await seat.shows("Proposed by ada, 1 of 2 operators", "for live sessions, too: night")
        async with attached(server, server.ben) as other:
            await open_comparison(other, "block rm\nblock push\n")
            await other.shows("+ block-push", "Proposed by ada")
            await other.press("p")
            await other.until(lambda: "+ block-push" not in other.painted())
            question = await press_and_confirm(other, "l")
            assert "Apply these rules to live sessions" in question
            await other.shows("Applied to sessions that begin from now on.", "0 live sessions")
            assert "Applied by ada and ben" in await other.shows("Applied by")


@pytest.mark.slow
async def test_proposal_can_be_withdrawn(here: Path) -> None:
    """A key withdraws a proposal, which has changed nothing."""
    (here / "server.rules").write_text(GUARDED)
    async with served(here, server_rules=["server.rules"]) as server, attached(server) as seat:
        running = await seat.starter.running_rules()
        texts = {"server.rules": "block rm\n"}
        assert (await seat.starter.apply_rules(texts, by="", against=running.digest, reason="x")).ok
        await open_comparison(seat, "block rm\n")
        await seat.shows("Proposed by ada")
        await press_and_confirm(seat, "x")
        await seat.shows("The proposed rules are taken back")
        assert (await seat.starter.running_rules()).proposed is None


@pytest.mark.slow
async def test_faulty_rules_and_read_only_consoles(here: Path) -> None:
    """Files with errors are not compared, and a read-only console cannot apply rules."""
    (here / "server.rules").write_text("block rm\n")
    async with served(here, server_rules=["server.rules"]) as server:
        (here / "server.rules").write_text("blck rm\n")
        async with attached(server) as seat:
            await seat.press("R")
            await seat.shows("1 error")
            await seat.press("a")
            await seat.shows("These files have errors")
        async with attached(server, only_reading=True) as seat:
            await seat.press("R")
            await seat.shows("1 error")
            await seat.press("a")
            assert isinstance(seat.app.screen, RulesScreen)


@pytest.mark.variants
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_looks(here: Path, size: tuple[int, int]) -> None:
    """The difference and the keys fit into the panel, also at 80 columns."""
    (here / "server.rules").write_text("block rm\n")
    async with served(here, server_rules=["server.rules"]) as server, attached(server, size=size) as seat:
        await open_comparison(seat, "block rm\nlimit push to 3 per session\n")
        painted = await seat.shows("+ limit-push-3: limit push to 3 per session", "0 calls in 0 sessions")
        assert "judging" not in painted
        assert "esc close" in painted
