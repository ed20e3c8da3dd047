"""Commands on this machine, beyond the behaviour of all runtimes."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine.agents import (
    AbortSignal,
    AgentRuntimeError,
    LocalRuntime,
    RuntimeAbortError,
    RuntimeTimeoutError,
)
from interlock.engine.agents.runtime.local import process

from ..script import until
from ..turn.test_abort import alive, pid_in


@pytest.fixture
def here(tmp_path: Path) -> LocalRuntime:
    return LocalRuntime(tmp_path)


class TestSignal:
    @pytest.mark.parametrize(("signal", "code"), [(9, 137), (15, 143), (10, 138)])
    async def test_each_killing_signal_is_reported(
        self, here: LocalRuntime, signal: int, code: int
    ) -> None:
        """A-100: each killing signal gives 128 plus its number, and is reported."""
        result = await here.exec(f"kill -{signal} $$")
        assert (result.exit_code, result.signal) == (code, signal)


class TestDirectory:
    async def test_anywhere(self, here: LocalRuntime) -> None:
        """A-101: a call's directory can be anywhere on this machine."""
        assert (await here.exec("pwd -P", cwd="/")).stdout == "/\n"


class TestPipe:
    """A pipe without its other end does not block a thread of this program."""

    async def test_reading_refuses_irregular_files(self, here: LocalRuntime, tmp_path: Path) -> None:
        """Reading refuses everything except regular files."""
        os.mkfifo(tmp_path / "pipe")
        reading = asyncio.create_task(here.read_file("pipe"))
        done, _ = await asyncio.wait({reading}, timeout=5)
        if not done:
            os.close(os.open(tmp_path / "pipe", os.O_WRONLY))
        with pytest.raises(AgentRuntimeError, match="pipe is not a regular file"):
            await reading

    @pytest.mark.parametrize("has_reader", [False, True])
    async def test_writing_to_a_pipe_is_refused(
        self, here: LocalRuntime, tmp_path: Path, has_reader: bool
    ) -> None:
        """Writing to a pipe is refused as well."""
        os.mkfifo(tmp_path / "pipe")
        reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK) if has_reader else None
        writing = asyncio.create_task(here.write_file("pipe", "x"))
        done, _ = await asyncio.wait({writing}, timeout=5)
        if not done:
            os.close(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK))
        with pytest.raises(AgentRuntimeError, match="pipe is not a regular file"):
            await writing
        if reader is not None:
            os.close(reader)

    async def test_permissions_of_written_files(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A new file has the permissions of the umask, and an old file is replaced."""
        await here.write_file("new/file", "something")
        (tmp_path / "other").write_text("")
        assert (tmp_path / "new/file").stat().st_mode == (tmp_path / "other").stat().st_mode
        await here.write_file("new/file", "less")
        assert await here.read_file("new/file") == "less"


class TestFlood:
    async def test_both_streams(self, tmp_path: Path) -> None:
        """A-102: a command that has filled both streams is killed with its background processes."""
        runtime = LocalRuntime(tmp_path, output_limit=1000)
        result = await runtime.exec("yes >&2 & yes")
        assert result.exit_code == 137
        assert (len(result.stdout), len(result.stderr), result.truncated) == (1000, 1000, True)

    async def test_one_stream(self, tmp_path: Path) -> None:
        """A-102: a command with endless output is killed even if only one stream is full."""
        runtime = LocalRuntime(tmp_path, output_limit=1000, flood_limit=1_000_000)
        result = await runtime.exec("yes")
        assert (result.exit_code, len(result.stdout)) == (137, 1000)


class TestBackground:
    @pytest.mark.slow
    async def test_background_process_ends_with_the_call(
        self, here: LocalRuntime, tmp_path: Path
    ) -> None:
        """A-104: a background process is ended with the call, whether or not it holds the pipe."""
        await here.exec("sleep 1000 & echo $! > one; sleep 1000 > /dev/null 2>&1 & echo $! > two")
        pids = [await pid_in(tmp_path / name) for name in ("one", "two")]
        await until(lambda: not any(alive(pid) for pid in pids))

    async def test_output_after_the_shells_end_is_included(self, here: LocalRuntime) -> None:
        """Output of a background process right after the shell's end is included."""
        result = await here.exec("(sleep 0.1; echo late) &")
        assert result.stdout == "late\n"


DAEMON = """
import os, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("pid", "w") as file:
            file.write(f"{os.getpid()}\\n")
        os.close(write)
        HOLD
        time.sleep(1000)
    os._exit(0)
os.close(write)
os.read(read, 1)
"""
RELAY = """
import fcntl, os, time
os.setsid()
os.closerange(0, 3)
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
until = time.monotonic() + 5
hops = 0
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    hops += 1
    if hops == 50:
        open("runs", "w").close()
"""
BOMB = """
import os, resource, time
os.setgroups([])
os.setgid(60123)
os.setuid(60123)
resource.setrlimit(resource.RLIMIT_NPROC, (50, 50))
until = time.monotonic() + 5
while time.monotonic() < until:
    try:
        os.fork()
    except OSError:
        print("full", flush=True)
"""
PROGRAM = """
import asyncio
from interlock.engine.agents import LocalRuntime
command = "setsid sh -c 'echo $$ > daemon; exec sleep 1000' & echo $$ > pid; sleep 1000"
asyncio.run(LocalRuntime().exec(command))
"""
HOLDS = {
    "keeps the pipes": "",
    "lets go of the pipes": "os.closerange(0, 3)",
    "has no environment": "os.execve('/bin/sleep', ['sleep', '1000'], {})",
}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to a subreaper")
class TestDaemon:
    """A process that left the command's session by forking twice is ended with the command."""

    @pytest.fixture(params=HOLDS)
    def daemon(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        """A command that starts a daemon and writes its process id into `pid`."""
        (tmp_path / "daemon.py").write_text(DAEMON.replace("HOLD", HOLDS[request.param]))
        return f"{sys.executable} -I -S daemon.py"

    @pytest.mark.slow
    async def test_call_returns_after_the_daemon_has_ended(
        self, here: LocalRuntime, tmp_path: Path, daemon: str
    ) -> None:
        """A-104: the call returns the command's own result after the daemon has ended."""
        result = await here.exec(f"{daemon}; echo done; exit 3")
        assert (result.stdout, result.exit_code) == ("done\n", 3)
        assert not alive(await pid_in(tmp_path / "pid"))

    async def test_abort_ends_the_daemon(self, here: LocalRuntime, tmp_path: Path, daemon: str) -> None:
        """A-105: an abort also ends the daemon."""
        signal = AbortSignal()
        running = asyncio.create_task(here.exec(f"{daemon}; sleep 1000", abort=signal))
        pid = await pid_in(tmp_path / "pid")
        signal.abort()
        with pytest.raises(RuntimeAbortError):
            await running
        assert not alive(pid)

    @pytest.mark.slow
    async def test_timeout_ends_the_daemon(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A-104: a timeout also ends the daemon."""
        with pytest.raises(RuntimeTimeoutError):
            await here.exec("setsid sh -c 'echo $$ > pid; exec sleep 1000' & sleep 1000", timeout=1)
        assert not alive(await pid_in(tmp_path / "pid"))

    @pytest.mark.slow
    async def test_process_that_keeps_forking_is_found(self, here: LocalRuntime, tmp_path: Path) -> None:
        """A process that repeatedly forks and exits is found, whatever its current process id."""
        (tmp_path / "relay.py").write_text(RELAY)
        await here.exec(f"{sys.executable} -I -S relay.py & until [ -e runs ]; do sleep 0.01; done")
        with (tmp_path / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # The one that is alive holds it.

    @pytest.mark.slow
    @pytest.mark.skipif(os.geteuid() != 0, reason="root only can give a bomb a user of its own")
    async def test_fork_bomb_is_ended(self, here: LocalRuntime, tmp_path: Path) -> None:
        """Processes that fork whenever another one ends are all ended."""
        (tmp_path / "bomb.py").write_text(BOMB)
        abort = AbortSignal()
        bomb = f"exec {sys.executable} -I -S bomb.py"
        with pytest.raises(RuntimeAbortError):
            await here.exec(bomb, abort=abort, on_data=lambda _: abort.abort())
        await until(lambda: not any(map(is_of_bomb, Path("/proc").glob("[0-9]*"))))

    async def test_slow_processes_are_ended_later(
        self, here: LocalRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Processes that take longer to end than the call waits are still ended."""
        monkeypatch.setattr(process, "END_SECONDS", 0.0)
        running = asyncio.create_task(here.exec("setsid sleep 1000 & echo $! > pid; sleep 1000"))
        pid = await pid_in(tmp_path / "pid")
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        await until(lambda: not alive(pid))

    @pytest.mark.slow
    async def test_processes_end_with_the_program(self, tmp_path: Path) -> None:
        """Processes of a command end with the program that runs it, however that ends."""
        program = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, cwd=tmp_path)
        pids = [await pid_in(tmp_path / name) for name in ("pid", "daemon")]
        program.kill()
        await program.wait()
        await until(lambda: not any(map(alive, pids)))

    @pytest.mark.slow
    async def test_end_of_a_command_keeps_others_running(
        self, here: LocalRuntime, tmp_path: Path
    ) -> None:
        """The end of one command does not affect another's processes."""
        other = asyncio.create_task(
            here.exec("setsid -w sh -c 'echo $$ > pid; until [ -e go ]; do sleep 0.01; done'")
        )
        pid = await pid_in(tmp_path / "pid")
        await here.exec("setsid sleep 1000 &")
        assert alive(pid)
        await here.exec("touch go")
        assert (await other).exit_code == 0


class TestEnvironment:
    @pytest.mark.parametrize(
        "name",
        [
            "INTERLOCK_TOKEN", "INTERLOCK_URL", "INTERLOCK_CONFIG_DIR", "OPENAI_API_KEY", "HF_TOKEN",
            "AIMLAPI_KEY", "WATSONX_APIKEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
            "AWS_BEARER_TOKEN_BEDROCK", "AZURE_CLIENT_SECRET", "AZURE_PASSWORD", "GIGACHAT_CREDENTIALS",
            "GOOGLE_APPLICATION_CREDENTIALS", "SNOWFLAKE_JWT", "anthropic_api_key",
            "GITHUB_PAT", "DB_PASS", "MYSQL_PWD", "GPG_PASSPHRASE", "PASSWD", "GITHUB_OAUTH",
        ],
    )  # fmt: skip
    async def test_secrets_are_not_passed(
        self, here: LocalRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """Commands do not get Interlock's tokens and providers' keys, unless passed explicitly."""
        monkeypatch.setenv(name, "sesame")
        assert "sesame" not in (await here.exec("env")).stdout
        passing = LocalRuntime(tmp_path, env={name: "sesame"})
        assert f"{name}=sesame\n" in (await passing.exec("env")).stdout

    @pytest.mark.parametrize(
        "name",
        [
            "LANG",
            "EDITOR",
            "KEYBOARD",
            "SSH_AUTH_SOCK",
            "TOKENIZERS_PARALLELISM",
            "DATABASE_URL",
            "COMPASS",
        ],
    )
    async def test_other_variables_are_passed(
        self, here: LocalRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """Commands get all other variables, except those named as secrets."""
        monkeypatch.setenv(name, "sesame")
        assert f"{name}=sesame\n" in (await here.exec("env")).stdout
        keeping = LocalRuntime(tmp_path, secrets=[name])
        assert "sesame" not in (await keeping.exec("env")).stdout


NOT_US = f"[ $PPID -ne {os.getpid()} ]"
"""A shell condition: the parent is not the process of these tests."""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no supervisor")
class TestSupervisor:
    async def test_adds_nothing_to_the_environment(
        self, here: LocalRuntime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The supervisor adds nothing to a command's environment."""
        for name in [*os.environ]:
            if name.startswith(("LC_", "LANG")):
                monkeypatch.delenv(name)
        result = await here.exec("env")
        assert {line.split("=")[0] for line in result.stdout.splitlines()} - set(os.environ) <= {
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
        }

    async def test_passes_only_standard_streams(self, here: LocalRuntime) -> None:
        """It passes on only its standard streams."""
        result = await here.exec("ls /proc/$$/fd; true")
        assert result.stdout.split() == ["0", "1", "2"]

    async def test_descriptors_of_a_call_are_closed(self, here: LocalRuntime) -> None:
        """Descriptors opened for a call are closed with it."""
        before = eventfds()
        await here.exec("true")
        assert eventfds() <= before

    async def test_imports_nothing_from_the_commands_directory(
        self, here: LocalRuntime, tmp_path: Path
    ) -> None:
        """It imports no module from the command's directory."""
        for name in ("signal", "ctypes", "sitecustomize"):
            (tmp_path / f"{name}.py").write_text("open('planted', 'w')")
        assert (await here.exec("true")).exit_code == 0
        assert not (tmp_path / "planted").exists()

    @pytest.mark.parametrize("signal", ["TERM", "INT", "HUP", "USR1", "ALRM", "SEGV"])
    async def test_survives_signals_of_the_command(self, here: LocalRuntime, signal: str) -> None:
        """A command that signals its parent or its own group does not end the supervisor."""
        result = await here.exec(
            f"trap : {signal}; {NOT_US} && kill -{signal} $PPID && kill -{signal} 0 && echo on"
        )
        assert (result.stdout, result.exit_code) == ("on\n", 0)

    async def test_command_without_a_reader_gets_sigpipe(self, here: LocalRuntime) -> None:
        """A command that writes without a reader is killed by SIGPIPE, as usual."""
        assert (await here.exec("yes | true; echo ${PIPESTATUS[0]}")).stdout == "141\n"


ABOVE = "inner=$PPID; outer=$(cut -d ' ' -f 4 /proc/$PPID/stat)"
ATTACKS = [
    "kill -KILL $inner",
    "kill -STOP $inner",
    "kill -KILL $outer",
    "kill -STOP $outer",
    "kill -STOP $inner $outer",
    "kill -STOP $outer; kill -KILL $inner",
]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no supervisor")
class TestAttackedSupervisor:
    """A command that kills or stops its supervisors is ended with all its processes."""

    @pytest.mark.parametrize("attack", ATTACKS)
    async def test_other_supervisor_ends_detached_processes(
        self, here: LocalRuntime, tmp_path: Path, attack: str
    ) -> None:
        """The other supervisor also ends processes that left the session and lost their parent."""
        (tmp_path / "daemon.py").write_text(DAEMON.replace("HOLD", ""))
        daemon = f"{sys.executable} -I -S daemon.py"
        guarded = f"{ABOVE}; {NOT_US} && [ $outer -ne {os.getpid()} ] && {{ {attack}; }}"
        try:
            result = await here.exec(f"{daemon}; {guarded}; sleep 1000", timeout=20)
            assert (result.exit_code, result.signal) == (137, 9)
            assert not alive(await pid_in(tmp_path / "pid"))
        finally:
            end(await pid_in(tmp_path / "pid"))

    async def test_both_killed_still_ends_session_processes(
        self, here: LocalRuntime, tmp_path: Path
    ) -> None:
        """Processes of the command's session and their descendants are ended."""
        names = ["below", "orphan", "shell"]
        started = "setsid sleep 1000 & echo $! > below; (sleep 1000 & echo $! > orphan); echo $$ > shell"
        guarded = f"{ABOVE}; {NOT_US} && [ $outer -ne {os.getpid()} ] && kill -KILL $inner $outer"
        try:
            result = await here.exec(f"{started}; {guarded}; sleep 1000", timeout=20)
            assert (result.exit_code, result.signal) == (137, 9)
            assert not any([alive(await pid_in(tmp_path / name)) for name in names])
        finally:
            for name in names:
                end(await pid_in(tmp_path / name))


def eventfds() -> set[str]:
    """Return this process's descriptors of that kind."""
    found: set[str] = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the folder itself, for example
            if str(path.readlink()) == "anon_inode:[eventfd]":
                found.add(path.name)
    return found


def is_of_bomb(process: Path) -> bool:
    with contextlib.suppress(OSError):
        return process.stat().st_uid == 60123
    return False


def end(pid: int) -> None:
    """End a process, so that even a failed test leaves none behind."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 9)


@pytest.mark.slow
class TestLightness:
    def test_local_runtime_loads_no_other_packages(self) -> None:
        """Importing the local runtime does not load the packages of the others."""
        probe = (
            "import sys; from interlock.engine import LocalRuntime, SandboxRuntime, FakeRuntime;"
            "from interlock.engine import JustBashRuntime, VercelSandboxRuntime;"
            "print({'just_bash', 'nest_asyncio', 'vercel', 'httpx2', 'httpx'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
        assert done.stdout == "set()\n"
