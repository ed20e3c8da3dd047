"""Masking: the events of a typical session, then megabytes of typical output and of worst-case texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

from interlock.engine.history.model.events import CallResult
from interlock.engine.history.redaction.redaction import Redaction

from ..app.screens.replay.recording import BODIES

SIZE = 1_000_000
TURNS = 5

USUAL = {
    "log lines": '{"at":"14:02:07","level":"info","path":"src/app.py","msg":"request-done in 12 ms"}\n',
    "source": "def read(self, path: str, key: int = 0) -> str:\n    return self.files[path].text\n",
    "pages": '<p class="note">See <a href="https://example.org/docs?page=2">the pages</a>.</p>\n',
}

WORST = {
    "plain": "the quick brown fox jumps over it ",
    "equals": "a=",
    "names": "a" * 64 + "=",
    "telling": "token=x ",
    "telling, empty": 'token="" ',
    "colons": '": ',
    "quotes": "\"'",
    "unclosed": 'password="',
    "backslashes": "\\",
    "escaped quotes": '\\"password\\": \\',
    "brackets": "auth: [",
    "options": "--token ",
    "dashes": "-",
    "spaces": " ",
    "bearers": "bearer ",
    "addresses": "://a:",
    "tokens of three parts": "-eyJaaaaaaaaaa",
    "grid keys": "SG.aaaaaaaaaaaaaaaaaaa",
    "private keys": "-----BEGIN PRIVATE KEY ",
    "private keys, unclosed": "-----BEGIN PRIVATE KEY-----",
    "blocks": "secret: |\n a\n",
    "curl": "curl -u a",
    "elements": "<token>a</token>",
    "elements, unclosed": "<token>",
    "elements, nested": "<token><token>" * 6 + "</token>",
    "tags, unclosed": '<token a="',
    "blocks below names": "token:\n  a: b\n",
    "names of blocks": "token:\n\n",
    "glued words": "token=a'b'",
    "glued words, unclosed": "token=a' ",
    "programs": "xh -A bearer x ",
    "users": "az sql -p ",
    "heredocs": "<<a\ntoken=b\n",
    "heredocs, unclosed": "<<a ",
}


def measure() -> Iterator[tuple[str, float, str]]:
    """Measure the events of a recorded session, then megabytes."""
    redaction = Redaction()

    def session() -> None:
        for body in BODIES:
            redaction.body(body)

    session()
    once = median(_seconds(session) for _ in range(TURNS * 20))
    yield "masking an event of a usual session", once / len(BODIES) * 1e6, "µs"
    body = CallResult(call_id="c", tool="t", output=WORST["plain"] * 3, is_error=False)
    yield "masking a result of 100 characters", _each(lambda: redaction.body(body)), "µs"
    slowest, name = 0.0, ""
    for kind, piece in {**USUAL, **WORST}.items():
        text = (piece * (SIZE // len(piece) + 1))[:SIZE]
        half = median(_seconds(lambda text=text: redaction.text(text[: SIZE // 2])) for _ in range(TURNS))
        whole = median(_seconds(lambda text=text: redaction.text(text)) for _ in range(TURNS))
        yield f"masking 1 MB of {kind}", whole * 1000, f"ms ({whole / half:.1f} times half of it)"
        if whole > slowest:
            slowest, name = whole, kind
    yield f"slowest megabyte ({name})", slowest * 1000, "ms"


def _each(work: Callable[[], object], times: int = 2_000) -> float:
    return _seconds(lambda: [work() for _ in range(times)]) / times * 1e6


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
