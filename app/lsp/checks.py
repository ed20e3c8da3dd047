"""Analyses of the documents that are open in an editor, run outside the server's event loop.

A changed text is analysed once its author pauses, one text at a time. An analysis that a later change
overtakes is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ...rules import Problem
from .analysis import Analysis, analyse

PAUSE = 0.2
"""Seconds without a change after which a text is analysed."""
log = logging.getLogger(__name__)


class Checks:
    """The latest analysis of each open document, by URI.

    `finish` is called with each analysis that was not overtaken.
    """

    def __init__(self, finish: Callable[[str, Analysis], None], pause: float = PAUSE) -> None:
        self._finish = finish
        self._pause = pause
        self._tasks: dict[str, asyncio.Task[Analysis]] = {}
        self._thread = ThreadPoolExecutor(1, "analysis")

    def start(self, uri: str, file: str, text: str) -> None:
        """Analyse a document's new text after the pause, and drop the previous analysis."""
        self.stop(uri)
        self._tasks[uri] = asyncio.create_task(self._analyse(uri, file, text))

    def stop(self, uri: str) -> None:
        """Drop the analysis of a document that was closed or changed."""
        task = self._tasks.pop(uri, None)
        if task is not None:
            task.cancel()

    async def latest(self, uri: str) -> Analysis | None:
        """Return the analysis of a document's latest text; `None` if the document is not open."""
        while (task := self._tasks.get(uri)) is not None:
            await asyncio.wait([task])
            if not task.cancelled():
                return task.result()
            if self._tasks.get(uri) is task:
                return None
        return None

    async def _analyse(self, uri: str, file: str, text: str) -> Analysis:
        await asyncio.sleep(self._pause)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._thread, analyse, file, text)
        except Exception as error:
            log.exception("'%s' cannot be analysed", file)
            remedy = "report it with the text of this file"
            message = f"this file could not be checked: {type(error).__name__}"
            found = Analysis(file, text, (Problem(file, 0, 0, 0, "", message, remedy),))
        self._finish(uri, found)
        return found
