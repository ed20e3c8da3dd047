"""Server for a hook: a running one, or one that the hook starts for this user.

A server started here uses the user's rules, never a project's alone: an agent may be able to write in its
project. A project's rules are only added, on a server of that project, which checks them.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ....engine.gateway.hooks.client import HookClient, NoTokenError, token_of
from ....engine.gateway.hooks.websocket import (
    GoneError,
    HookError,
    LateError,
    NoServerError,
    NotLetInError,
    prove,
)
from ....engine.gateway.protocol.address import TOKEN, URL, each_url, server_url
from ....engine.gateway.protocol.token_paths import agent_token_file, config_directory
from ...config.loader import SettingsError
from .command_line import HookLine
from .project_rules import project_rules, rules_to_start

if TYPE_CHECKING:
    import subprocess

START_TIMEOUT = 20.0
"""Seconds allowed for a server to start."""
CONNECT_TIMEOUT = 5.0
"""Seconds allowed for a server's greeting."""
STILL_STARTING = "its server is still starting; make the call again in a moment (its output is in {})"
NOT_WITH_PROJECT = (
    "a server could not be started with the rules that the project adds: they do not compile, or take "
    "calls from yours; {} says why"
)
_POLL = 0.05
_LONGEST_PATH = 100
"""Longest path of a Unix socket, in bytes, that every system accepts."""


class StartingError(LateError):
    """A server takes longer to start than the time allows; the next call may reach it."""

    can_retry = True


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection, and the URL for `console --connect` if the server is not the default one.

    `start_seconds` is the time that starting the server took.
    """

    client: HookClient
    console: str | None
    start_seconds: float = 0.0


def connect(
    line: HookLine,
    until: float,
    *,
    interlock: tuple[str, ...],
    may_start: bool,
    idle_exit: str,
    environ: Mapping[str, str] = os.environ,
) -> Connected:
    """Connect to a server; `interlock` is the command that starts one. Raises `HookError`.

    If INTERLOCK_URL is set, only its servers are tried, in order. A server started here ends after
    `idle_exit` without work.
    """
    try:
        usual = server_url(None, environ)
    except ValueError as error:
        raise HookError(f"{URL}: {error}") from error
    try:
        return Connected(_first_client(usual, until, environ), None)
    except (NoServerError, NoTokenError):
        if environ.get(URL):
            raise
    # Read once: the answer decides both whether the project has its own server and which rules that
    # server uses.
    added = _project_rules(line.project, environ)
    key = sha256(os.fsencode(line.project)).hexdigest()[:12] if line.project and added else None
    place = directory(environ) / (key or "user")
    socket = Path(f"{place}.sock")
    url = f"unix:{socket}"
    try:
        return Connected(_client(url, until, environ), url)
    except (NoServerError, NoTokenError, GoneError):
        # A server that is about to end accepts no connections; once the lock is free, it has ended.
        if not may_start:
            raise
    with _lock(Path(f"{place}.lock"), until):
        try:
            return Connected(_client(url, until, environ), url)
        except (NoServerError, NoTokenError):
            command = [*interlock, "serve", "--listen", url, "--idle-exit", idle_exit]
            if rules := _rules(line, environ):
                command += ["--rules", *rules]
            if key is not None:
                # A journal has one writer, and the user's own server already writes the user's journal.
                command += ["--added-rules", *added, "--db", f"{place}.db"]
            started_at = time.monotonic()
            client = _start(place, url, command, until, environ, quiet=key is not None)
            return Connected(client, url, time.monotonic() - started_at)


def others(environ: Mapping[str, str]) -> int:
    """Return the number of servers that INTERLOCK_URL names besides the first."""
    with suppress(ValueError):
        return len(each_url(server_url(None, environ))) - 1
    return 0


def _first_client(urls: str, until: float, environ: Mapping[str, str]) -> HookClient:
    """Return a connection to the first of several servers that answers.

    Raises the last server's error.
    """
    *others, last = each_url(urls)
    for url in others:
        with suppress(NoServerError, GoneError, LateError):
            return _client(url, until, environ)
    return _client(last, until, environ)


def _client(url: str, until: float, environ: Mapping[str, str]) -> HookClient:
    token = environ.get(TOKEN) or token_of(agent_token_file(environ))
    latest = min(until, time.monotonic() + CONNECT_TIMEOUT)
    gone: GoneError | None = None
    while True:
        try:
            prove(url, token, latest)
            return HookClient(url, token, latest)
        except NotLetInError as error:
            raise NotLetInError(
                f"{error}. Give it a token of that server as {TOKEN}; make one with "
                "`interlock token new agent NAME`"
            ) from error
        except LateError as late:
            if gone is None:
                raise
            raise gone from late
        except GoneError as error:
            # No request was sent yet. A TCP port may belong to a server that is restarting; a Unix socket
            # whose listener hangs up belongs to a server that is about to end.
            if url.startswith("unix:") or time.monotonic() + _POLL > latest:
                raise
            gone = error
        time.sleep(_POLL)


def directory(environ: Mapping[str, str]) -> Path:
    """Return the directory of these servers' sockets and logs, accessible to this user only."""
    from platformdirs import user_state_path

    state = environ.get("XDG_STATE_HOME")
    directory = (Path(state) / "interlock" if state else user_state_path("interlock")) / "hook"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = directory.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise HookError(f"{directory}: others may open it; run: chmod 700 '{directory}'")
    except OSError as error:
        raise HookError(f"{directory}: cannot be used: {error.strerror}") from error
    if len(os.fsencode(directory)) + 20 > _LONGEST_PATH:
        raise HookError(f"{directory}: is too long for a socket; set XDG_STATE_HOME to a shorter one")
    return directory


def _project_rules(project: Path | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return project_rules(project, environ)
    except SettingsError as error:
        raise HookError(str(error)) from error


def _rules(line: HookLine, environ: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return rules_to_start(line.rules, environ)
    except SettingsError as error:
        raise HookError(f"no server is running, and none was started: {error}") from error


@contextmanager
def _lock(path: Path, until: float):
    """Let only one process at a time start a server."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _takes_lock(descriptor):
            if time.monotonic() + _POLL > until:
                raise StartingError(STILL_STARTING.format(path.with_suffix(".log")))
            time.sleep(_POLL)
        yield
    finally:
        os.close(descriptor)


def _start(
    place: Path,
    url: str,
    command: list[str],
    until: float,
    environ: Mapping[str, str],
    *,
    quiet: bool,
) -> HookClient:
    """Start a server in the background, and wait until it answers.

    Also waits for a server that an earlier hook has started and that does not answer yet, or is about to
    end. With `quiet` the agent does not get the output of a server that fails to start: errors in a rules
    file quote its lines, and a project may name any file.
    """
    log, server = Path(f"{place}.log"), None
    latest = min(until, time.monotonic() + START_TIMEOUT)
    # The server inherits this descriptor, and with it holds the lock for as long as it runs.
    alive = os.open(f"{place}.alive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            if server is None and _takes_lock(alive):
                server = _spawned(command, log, alive, environ)
            try:
                return _client(url, latest, environ)
            except (NoServerError, NoTokenError):
                if server is not None and server.poll() is not None:
                    if quiet:
                        raise HookError(NOT_WITH_PROJECT.format(log)) from None
                    output = log.read_text("utf-8", "replace").strip()[-2000:]
                    raise HookError(f"a server could not be started: {output}") from None
                if time.monotonic() + _POLL > latest:
                    raise StartingError(STILL_STARTING.format(log)) from None
            except LateError as error:
                raise StartingError(STILL_STARTING.format(log)) from error
            time.sleep(_POLL)
    finally:
        os.close(alive)


def _takes_lock(descriptor: int) -> bool:
    """Acquire a file's lock if it is free; return whether that succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _spawned(
    command: list[str], log: Path, alive: int, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    import subprocess

    config = config_directory(environ)
    try:
        config.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise HookError(f"{config}: cannot be created: {error.strerror}") from error
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        try:
            # Start it in the user's settings directory, not where an agent can write: its relative paths
            # start there.
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=config,
                env=dict(environ),
                pass_fds=(alive,),
                start_new_session=True,
            )
        except OSError as error:
            raise HookError(f"a server could not be started: {error}") from error
