"""Tests in several processes, forked once all is imported and collected: `pytest --processes 4`.

pytest-xdist begins each process anew: every one of them imports and collects all tests again, and starts
the helpers of `forked.py` for itself. Here it is done once. The first process hands out one test after
the other and reports what comes back; the others take a module as a whole as long as there are any, and
then what is left of another's.

In these processes `PYTEST_XDIST_WORKER` is set, which plugins and tests take for "one of several".
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import random
import signal
import sys
import tempfile
import traceback
import uuid
import warnings
from collections import deque
from collections.abc import Iterator
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import cast

import pytest
from _pytest._io import TerminalWriter
from _pytest.capture import CaptureManager, FDCapture

from . import forked

NEXT, REPORT, WARNING, HELPER = "next", "report", "warning", "helper"
"""What a process says: that it may have another test; what came of one; that it needs a helper."""

MANY = 5_000
"""Tests of a run that is of everything."""


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processes", type=int, default=0, help="Run the tests in so many forks of this process."
    )


def install(config: pytest.Config) -> None:
    """Take over the loop of the tests, where several processes are wanted."""
    if config.getoption("processes"):
        config.pluginmanager.register(FirstProcess(config.getoption("processes")), "processes")


class FirstProcess:
    """The process that has collected the tests; it runs none itself."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._forks: dict[Connection, Fork] = {}
        self._modules = deque[deque[int]]()
        self._begun = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest's own loop says why
        modules = groupby(range(len(session.items)), lambda number: session.items[number].path)
        self._modules = deque(deque(numbers) for _, numbers in modules)
        os.environ["PYTEST_XDIST_TESTRUNUID"] = uuid.uuid4().hex
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        reporter.showfspath = False  # files are in no order
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        # Collected objects stay to the end in all of them; none is to be copied by a look for garbage.
        if len(session.items) >= MANY:
            # Takes as long as hundreds of tests, and each of the processes comes to need it.
            from interlock.engine.agents.models import litellm_model

            litellm_model._litellm()
        gc.freeze()
        try:
            for _ in range(min(self._count, len(session.items))):
                self._fork(session)
            while self._forks:
                for connection in wait(list(self._forks)):
                    self._hear(session, cast("Connection", connection))
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        finally:
            for fork in self._forks.values():
                os.kill(fork.pid, signal.SIGKILL)
                os.waitpid(fork.pid, 0)
        return True

    def _fork(self, session: pytest.Session) -> None:
        here, there = Pipe()
        self._begun += 1
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            here.close()
            for connection in self._forks:
                connection.close()
            TestProcess(session, there, self._begun).run()
        there.close()
        self._forks[here] = Fork(pid)

    def _hear(self, session: pytest.Session, connection: Connection) -> None:
        hook, fork = session.config.hook, self._forks[connection]
        try:
            kind, said = connection.recv()
        except EOFError:
            self._end(session, connection)
            return
        match kind:
            case "next":
                number = self._next(fork)
                fork.given += [] if number is None else [number]
                connection.send(number)
            case "report":
                report = hook.pytest_report_from_serializable(config=session.config, data=said)
                hook.pytest_runtest_logreport(report=report)
                if report.when == "teardown":
                    fork.given.popleft()
                    hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
            case "warning":
                text, place, when, nodeid = said
                message = warnings.WarningMessage(UserWarning(text), UserWarning, *place)
                hook.pytest_warning_recorded.call_historic(
                    kwargs={
                        "warning_message": message,
                        "when": when,
                        "nodeid": nodeid,
                        "location": None,
                    }
                )
            case "helper":
                connection.send(forked.begin(said))
            case _:
                raise ValueError(f"unknown: {kind}")

    def _next(self, fork: Fork) -> int | None:
        """A test of the module that a process is at, of one that nobody is at, or of another process."""
        if not fork.module:
            if self._modules:
                fork.module = self._modules.popleft()
            else:
                longest = max(self._forks.values(), key=lambda each: len(each.module)).module
                fork.module = deque(longest.pop() for _ in range((len(longest) + 1) // 2))
                fork.module.reverse()
        return fork.module.popleft() if fork.module else None

    def _end(self, session: pytest.Session, connection: Connection) -> None:
        """A process has ended; the test that it ran then has failed, and another one does the rest."""
        fork = self._forks.pop(connection)
        connection.close()
        code = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        if not fork.given:
            if code:
                raise RuntimeError(f"a process of the tests ended with {code} between two of them")
            return
        failed = session.items[fork.given.popleft()]
        report = pytest.TestReport(
            failed.nodeid,
            failed.location,
            {},
            "failed",
            f"its process ended with {code} in this test",
            "call",
        )
        session.config.hook.pytest_runtest_logreport(report=report)
        if rest := deque([*fork.given, *fork.module]):
            self._modules.appendleft(rest)
        if self._modules:
            self._fork(session)


class Fork:
    """A process as the first one knows it: its tests to come, and those that it has not finished."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.module = deque[int]()
        self.given = deque[int]()


class Colourless:
    """The reporter of a process that reports nothing by itself."""

    def __init__(self) -> None:
        self._tw = TerminalWriter(io.StringIO())


class TestProcess:
    """One of the processes that run tests."""

    __test__ = False

    def __init__(self, session: pytest.Session, connection: Connection, number: int) -> None:
        self._session = session
        self._connection = connection
        self._number = number

    def run(self) -> None:
        """Run what is handed out, and end."""
        code = 1
        try:
            self._leave_first()
            for item, following in self._items():
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            atexit._run_exitfuncs()
            code = 0
        except KeyboardInterrupt:
            pass
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)

    def _leave_first(self) -> None:
        """Share no captured output, folder, random number or duty at the end with the first process."""
        config = self._session.config
        os.environ["PYTEST_XDIST_WORKER"] = f"gw{self._number}"
        atexit._clear()
        random.seed()
        plugins = config.pluginmanager
        _capture_anew(cast("CaptureManager", plugins.getplugin("capturemanager")))
        for name, plugin in list(plugins.list_name_plugin()):
            if name in ("terminalreporter", "processes") or type(plugin).__name__ == "LogXML":
                plugins.unregister(plugin)
        plugins.register(self)
        # What compares values of a failed assertion asks the reporter for colours, of which it gets none.
        plugins.register(Colourless(), "terminalreporter")
        factory = config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = Path(factory.getbasetemp(), f"process-{self._number}")
        factory._basetemp.mkdir(0o700)
        forked.begin = self._helper

    def _items(self) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
        """Each test with the one that comes after it, for which fixtures may stay."""
        item = self._next()
        while item is not None:
            following = self._next()
            yield item, following
            item = following

    def _next(self) -> pytest.Item | None:
        self._connection.send((NEXT, None))
        number = self._connection.recv()
        return None if number is None else self._session.items[number]

    def _helper(self, modules: tuple[str, ...]) -> str:
        self._connection.send((HELPER, modules))
        return self._connection.recv()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        config = self._session.config
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        self._connection.send((REPORT, data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        if when != "runtest":
            return  # of the collection, which the first process has told
        text = f"{warning_message.category.__name__}: {warning_message.message}"
        place = (warning_message.filename, warning_message.lineno)
        self._connection.send((WARNING, (text, place, when, nodeid)))


def _capture_anew(manager: CaptureManager) -> None:
    """Capture into files of this process, behind the same streams: modules may have kept those."""
    manager.suspend_global_capture()
    capturing = manager._global_capturing
    for each in (capturing.out, capturing.err) if capturing is not None else ():
        if isinstance(each, FDCapture):
            with tempfile.TemporaryFile() as own:
                os.dup2(own.fileno(), each.tmpfile.fileno(), inheritable=False)
    manager.resume_global_capture()
