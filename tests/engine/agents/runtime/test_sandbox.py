"""The sandbox: accessible things, protected things, and errors if it is unavailable."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from interlock.engine.agents import AgentRuntimeError, RuntimeTimeoutError, SandboxRuntime

from ..script import until
from .kinds import numbers, process_sleeps, skip_without_sandbox


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working directory beside private files."""
    skip_without_sandbox()
    (tmp_path / "secret").write_text("the host's secret")
    (tmp_path / "private").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def server() -> Iterator[str]:
    """An HTTP server on this machine's loopback interface; yields its port."""

    class Hello(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hello) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield str(http.server_port)
        http.shutdown()


KERNEL = ("sys", "sysrq-trigger", "keys", "kallsyms")

# A shell cannot connect by itself, so this tests whether the kernel allows the connection. It uses the
# machine's interpreter, because that of the tests may be outside the sandbox.
CONNECT = """
for python in /usr/bin/python3 /usr/local/bin/python3; do
  [ -x $python ] && exec $python -c "import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
done
exec perl -MIO::Socket::INET -e "IO::Socket::INET->new('127.0.0.1:{port}') or exit 1"
"""


class TestNetwork:
    async def test_no_network_by_default(self, work: Path, server: str) -> None:
        """Without `network` no server can be reached, not even on this machine."""
        result = await SandboxRuntime(work).exec(CONNECT.format(port=server), timeout=30)
        assert result.exit_code != 0
        interfaces = await SandboxRuntime(work).exec("cat /proc/net/dev")
        assert [line.split(":")[0].strip() for line in interfaces.stdout.splitlines()[2:]] == ["lo"]

    async def test_network_allows_the_connection(self, work: Path, server: str) -> None:
        """With `network` the same connection succeeds."""
        result = await SandboxRuntime(work, network=True).exec(CONNECT.format(port=server), timeout=30)
        assert (result.exit_code, result.stderr) == (0, "")


class TestFileSystem:
    async def test_outside_is_invisible(self, work: Path) -> None:
        """Neither a neighbour of the working directory nor the user's home is visible."""
        runtime = SandboxRuntime(work)
        hidden = [work.parent / "secret", Path.home(), Path("/root"), Path("/etc/shadow"), Path("/var")]
        for path in hidden:
            assert (await runtime.exec(f"ls -d '{path}'")).exit_code != 0, path
        assert (await runtime.exec("ls ..")).stdout == "work\n"

    async def test_working_directory_is_writable(self, work: Path) -> None:
        """Files that a command writes in its directory exist on this machine."""
        await SandboxRuntime(work).exec("echo made > here; mkdir -p a/b; echo x > a/b/c")
        assert (work / "here").read_text() == "made\n"
        assert (work / "a/b/c").read_text() == "x\n"

    async def test_system_is_read_only_and_home_discarded(self, work: Path) -> None:
        """The system is read-only, and files in /tmp or the home are discarded."""
        runtime = SandboxRuntime(work)
        for path in ("/usr/x", "/etc/x", "/x", "/bin/x"):
            assert (await runtime.exec(f"touch {path}")).exit_code != 0, path
        left = f"interlock-left-{os.getpid()}"
        assert (await runtime.exec(f"touch /tmp/{left} ~/{left}")).exit_code == 0
        assert (await runtime.exec(f"ls /tmp/{left} || ls ~/{left}")).exit_code != 0
        assert not (Path("/tmp") / left).exists()

    @pytest.mark.slow
    async def test_allowed_paths_are_accessible(self, work: Path) -> None:
        """`read_only` and `writable` allow access to the named paths only, as they say."""
        (work.parent / "private/file").write_text("read me\n")
        (work.parent / "cache").mkdir()
        runtime = SandboxRuntime(
            work, read_only=[work.parent / "private"], writable=[work.parent / "cache"]
        )
        assert (await runtime.exec("cat ../private/file")).stdout == "read me\n"
        assert (await runtime.exec("touch ../private/new")).exit_code != 0
        assert (await runtime.exec("touch ../cache/new")).exit_code == 0
        assert (work.parent / "cache/new").exists()

    async def test_read_only_in_the_working_directory(self, work: Path) -> None:
        """A repository's `.git` can be read, but neither changed, moved nor removed."""
        (work / ".git").mkdir()
        (work / ".git/config").write_text("as it was")
        runtime = SandboxRuntime(work, read_only=[work / ".git"])
        for attempt in ("echo x > .git/config", "rm -rf .git", "mv .git other", "ln -sfn / .git"):
            await runtime.exec(attempt)
        assert (work / ".git/config").read_text() == "as it was"
        assert (await runtime.exec("cat .git/config; touch new")).stdout == "as it was"
        assert (work / "new").exists()

    async def test_missing_allowed_path_is_named(self, work: Path) -> None:
        """The error names an allowed path that does not exist."""
        runtime = SandboxRuntime(work, read_only=[work.parent / "gone"])
        with pytest.raises(AgentRuntimeError, match=r"could not make a sandbox: .*/gone"):
            await runtime.exec("true")


class TestRights:
    async def test_environment_is_not_passed(self, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A command does not get this program's environment or its secrets."""
        monkeypatch.setenv("A_SECRET_TOKEN", "sesame")
        result = await SandboxRuntime(work, env={"GIVEN": "yes"}).exec("env; cat /proc/*/environ")
        assert "sesame" not in result.stdout
        names = {line.split("=")[0] for line in (await SandboxRuntime(work).exec("env")).stdout.split()}
        assert names - {"SHLVL", "_"} == {"PATH", "LANG", "HOME", "PWD"}
        assert "GIVEN=yes" in result.stdout

    async def test_only_own_processes_are_visible(self, work: Path) -> None:
        """A command sees only its own processes and can signal no other."""
        result = await SandboxRuntime(work).exec(f"ls -d /proc/[0-9]*; kill -0 {os.getpid()}")
        assert len(result.stdout.split()) < 10
        assert result.exit_code != 0

    async def test_command_has_no_capabilities(self, work: Path) -> None:
        """A command has no capabilities, whichever user runs this program."""
        status = (await SandboxRuntime(work).exec("grep Cap /proc/self/status")).stdout
        assert {line.split()[1] for line in status.splitlines()} == {"0" * 16}

    @pytest.mark.parametrize("name", [name for name in KERNEL if Path("/proc", name).exists()])
    async def test_kernel_controls_are_covered(self, work: Path, name: str) -> None:
        """Kernel controls and secrets in /proc are covered by a read-only mount."""
        mounts = (await SandboxRuntime(work).exec("cat /proc/mounts")).stdout.splitlines()
        options = {mount.split()[1]: mount.split()[3].split(",") for mount in mounts}
        assert "ro" in options[f"/proc/{name}"]

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root owns the kernel's settings")
    @pytest.mark.parametrize("file", ["vm/swappiness", "kernel/core_pattern"])
    async def test_root_can_read_but_not_write_settings(self, work: Path, file: str) -> None:
        """Root of this machine can read the kernel's settings inside, but not write them."""
        command = f"cat /proc/sys/{file} > old && cat old > /proc/sys/{file}"
        done = await SandboxRuntime(work).exec(command)
        assert done.exit_code != 0
        assert f"/proc/sys/{file}: Read-only file system" in done.stderr

    @pytest.mark.skipif(os.geteuid() != 0, reason="others cannot read all of it out here either")
    async def test_root_cannot_read_kernel_secrets(self, work: Path) -> None:
        """Root of this machine cannot read the kernel's keys and addresses inside."""
        done = await SandboxRuntime(work).exec("cat /proc/keys /proc/key-users /proc/kallsyms")
        assert done.stdout == ""

    @pytest.mark.slow
    async def test_no_process_outlives_the_call(self, work: Path) -> None:
        """A-104: no process outlives the call, even if it left its session and group."""
        slow, quick = next(numbers), next(numbers)
        with pytest.raises(RuntimeTimeoutError):
            await SandboxRuntime(work).exec(f"setsid sleep {slow} & sleep {slow}", timeout=0.5)
        await until(lambda: not process_sleeps(slow))
        await SandboxRuntime(work).exec(f"setsid sleep {quick} > /dev/null 2>&1 &")
        await until(lambda: not process_sleeps(quick))


OTHER = 60124
AS_OTHER = """
import asyncio, os, sys
from interlock.engine.agents import SandboxRuntime

os.setgroups([])
os.setgid(OTHER)
os.setuid(OTHER)

async def check():
    runtime = SandboxRuntime(sys.argv[1], read_only=[sys.argv[1] + "/kept"])
    await runtime.write_file("made", "by another user")
    assert await runtime.read_file("made") == "by another user"
    for command in sys.argv[2:]:
        result = await runtime.exec(command, timeout=20)
        print(f"{command} -> {result.exit_code}")

asyncio.run(check())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="root only can become another user")
class TestAnotherUser:
    """A sandbox that is started by a user other than root, as usual."""

    def test_same_restrictions_apply(self) -> None:
        """A command writes only where it may, and own namespaces give it no more access."""
        skip_without_sandbox(OTHER)
        held = [
            "touch /usr/x || touch /etc/x || touch /x",
            "echo x > /proc/sys/kernel/hostname",
            "cat /etc/shadow || ls /root || ls /home",
            "grep . /proc/keys /proc/kallsyms",
            "echo x > kept/file || mv kept other",
            "unshare -Urm sh -c 'umount -l kept; mount -o remount,rw,bind kept; echo x > kept/file'",
            "unshare -Urm sh -c 'umount -l /proc/keys && cat /proc/keys'",
            "unshare -Urmpf mount -t proc proc /proc",
        ]
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            (work / "kept").mkdir()
            (work / "kept/file").write_text("as it was")
            for path in (work, work / "kept", work / "kept/file"):
                os.chown(path, OTHER, OTHER)
            program = [sys.executable, "-c", AS_OTHER.replace("OTHER", str(OTHER)), name]
            done = subprocess.run(
                [*program, "echo on > on", *held], capture_output=True, text=True, check=False
            )
            assert done.stderr == ""
            codes = dict(line.rsplit(" -> ", 1) for line in done.stdout.splitlines())
            assert codes.pop("echo on > on") == "0"
            assert [command for command, code in codes.items() if code == "0"] == []
            assert (len(codes), (work / "kept/file").read_text()) == (len(held), "as it was")


class TestEnd:
    async def test_first_process_is_in_the_killed_session(self, work: Path) -> None:
        """A-97: the first process inside is in the group and session that are ended from outside."""
        # Inside, a group or session that began outside has the number 0.
        done = await SandboxRuntime(work).exec("cut -d ' ' -f 5,6 /proc/1/stat")
        assert done.stdout == "0 0\n"

    async def test_no_terminal(self, work: Path) -> None:
        """A command cannot open the terminal of its starter."""
        done = await SandboxRuntime(work).exec(": < /dev/tty")
        assert done.exit_code != 0


class TestPlantedLinks:
    """File methods do not follow a link that a command planted out of the sandbox."""

    async def test_link_to_outside_does_not_exist_for_reading(self, work: Path) -> None:
        """A-106: the target of a link to the outside does not exist for reading."""
        runtime = SandboxRuntime(work)
        await runtime.exec("ln -s ../secret file; ln -s .. up; ln -s /etc/shadow shadow")
        assert (work / "file").read_text() == "the host's secret"
        for path in ("file", "up/secret", "shadow", "../secret", str(work.parent / "secret")):
            with pytest.raises(FileNotFoundError):
                await runtime.read_file(path)

    async def test_writing_through_a_link_to_outside_is_refused(self, work: Path) -> None:
        """A-106: writing through a link to the outside is refused with an error."""
        runtime = SandboxRuntime(work)
        await runtime.exec("ln -s ../secret file; ln -s ../private dir; ln -s .. up")
        for path in ("file", "dir/new", "up/private/new", "up/new", "../new", str(work.parent / "new")):
            with pytest.raises(AgentRuntimeError, match="Cannot write"):
                await runtime.write_file(path, "overwritten")
        assert (work.parent / "secret").read_text() == "the host's secret"
        assert list((work.parent / "private").iterdir()) == []
        assert sorted(path.name for path in work.parent.iterdir()) == ["private", "secret", "work"]

    async def test_links_inside(self, work: Path) -> None:
        """A-106: links within the working directory work as usual."""
        runtime = SandboxRuntime(work)
        await runtime.exec("echo x > file; ln -s file link")
        assert await runtime.read_file("link") == "x\n"
        await runtime.write_file("link", "y")
        assert (work / "file").read_text() == "y"

    async def test_writing_to_a_discarded_place_is_an_error(self, work: Path) -> None:
        """A-106: writing to a place whose files are discarded is an error."""
        for path in ("/tmp/x", "/x", "/dev/x", "/dev/shm/x", "/usr/x"):
            with pytest.raises(AgentRuntimeError, match="Cannot write"):
                await SandboxRuntime(work).write_file(path, "lost")

    @pytest.mark.parametrize("path", ["fifo", "/dev/zero", "."])
    async def test_irregular_file_is_not_read(self, work: Path, path: str) -> None:
        """A-106: a path that is not a regular file is not read."""
        runtime = SandboxRuntime(work)
        await runtime.exec("mkfifo fifo")
        with pytest.raises(AgentRuntimeError, match="it is not a regular file"):
            await runtime.read_file(path)

    async def test_too_large_file_is_not_loaded(self, work: Path) -> None:
        """A-106: a file beyond the size limit is not loaded into memory."""
        runtime = SandboxRuntime(work)
        await runtime.exec("truncate -s 65M large")
        with pytest.raises(AgentRuntimeError, match="it is larger than 67108864 bytes"):
            await runtime.read_file("large")


class TestPlaces:
    """Places that are refused at creation, because they would make the sandbox ineffective."""

    def test_root_is_refused_as_working_directory(self, work: Path) -> None:
        """The root is refused as working directory, by any name."""
        (work / "root").symlink_to("/")
        for path in ("/", "/tmp/..", work / "root"):
            with pytest.raises(ValueError, match="keeps nothing out"):
                SandboxRuntime(path)

    @pytest.mark.parametrize("name", ["deep/down", "link", "gone", "alias"])
    def test_replaceable_read_only_path_is_refused(self, work: Path, name: str) -> None:
        """A read-only path that a command could replace by a link is refused."""
        (work / "deep/down").mkdir(parents=True)
        (work / "link").symlink_to("/etc")
        (work.parent / "alias").symlink_to(work / "deep/down")
        path = work.parent / name if name == "alias" else work / name
        with pytest.raises(ValueError, match="could exchange it"):
            SandboxRuntime(work, read_only=[path])

    async def test_working_directory_within_a_writable_place(self, work: Path) -> None:
        """A working directory within a writable place is part of it."""
        (work / "a/b").mkdir(parents=True)
        runtime = SandboxRuntime(work / "a/b", writable=[work])
        assert (await runtime.exec("pwd; touch ../../top")).stdout == f"{work}/a/b\n"
        assert (work / "top").exists()


class TestWithoutBubblewrap:
    def test_missing_program_names_its_package(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The error names the package that has the missing program."""
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(AgentRuntimeError) as raised:
            SandboxRuntime(tmp_path)
        assert str(raised.value) == "bubblewrap is not installed: apt-get install bubblewrap"

    async def test_forbidden_namespaces_run_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the machine forbids user namespaces, the error says so and nothing runs unprotected."""
        program = tmp_path / "bwrap"
        program.write_text(
            "#!/bin/sh\n"
            "echo 'bwrap: No permissions to create a new namespace, likely because the kernel does not "
            "allow non-privileged user namespaces.' >&2\n"
            "exit 1\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        runtime = SandboxRuntime(tmp_path)
        with pytest.raises(AgentRuntimeError) as raised:
            await runtime.exec(f"touch {tmp_path}/ran")
        assert "No permissions to create a new namespace" in str(raised.value)
        assert "This machine forbids user namespaces: allow them" in str(raised.value)
        with pytest.raises(AgentRuntimeError, match="could not make a sandbox"):
            await runtime.read_file("bwrap")
        with pytest.raises(AgentRuntimeError, match="could not make a sandbox"):
            await runtime.write_file("ran", "")
        assert not (tmp_path / "ran").exists()

    async def test_removed_working_directory_is_named(self, work: Path) -> None:
        """The error names a working directory that was removed."""
        runtime = SandboxRuntime(work)
        await asyncio.to_thread(os.rmdir, work)
        with pytest.raises(AgentRuntimeError, match=f"Working directory does not exist: {work}$"):
            await runtime.exec("true")
