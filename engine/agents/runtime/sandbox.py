"""Commands and files in bubblewrap: the machine's programs, the working directory, and nothing else.

A command can read `/usr` and a few files of `/etc`, and write to its working directory. It has its own
empty `/tmp` and home directory, sees only its own processes, and has no network. Anything else that it
may reach is named when the runtime is created. Everything that it has started ends with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.condition import Shell, shell_named
from ..errors import AgentRuntimeError, RuntimeFileNotFoundError
from .base import CheckedCommand, ExecResult, RuntimeBase
from .local.process import Launch, run, shell_program
from .output import FLOOD_LIMIT, OUTPUT_LIMIT, OutputLimits

PROGRAM = "bwrap"
MISSING = "bubblewrap is not installed: apt-get install bubblewrap"
_FORBIDDEN = (
    "This machine forbids user namespaces: allow them (sysctl kernel.unprivileged_userns_clone=1 or "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container, its seccomp and AppArmor profiles), "
    "or use another runtime"
)
_SIGNS_OF_A_FORBIDDEN_NAMESPACE = (
    "No permissions to creat",
    "Creating new namespace failed",
    "setting up uid map",
    "Operation not permitted",
)
FILE_LIMIT = 64 * OUTPUT_LIMIT
FILE_SECONDS = 60.0
HOME = "/tmp/home"
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "HOME": HOME}

# Files that programs need to start, and for users' names and time zones; none contains a secret.
_SYSTEM_PATHS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "/etc/alternatives",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
)
_ETC_FOR_NETWORK = (
    "/etc/ca-certificates",
    "/etc/hosts",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)

# Files of the whole machine, even in a private /proc: root outside owns them and could write to them
# inside without any capability. bubblewrap itself covers writable directories.
_PROC_READ_ONLY = (
    "acpi",
    "bus",
    "driver",
    "dynamic_debug",
    "fs",
    "irq",
    "mtrr",
    "pressure",
    "scsi",
    "sys",
    "sysrq-trigger",
    "tty",
)
# Files that reveal the kernel's memory, addresses and keys.
_PROC_HIDDEN = (
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "modules",
    "sched_debug",
    "slabinfo",
    "timer_list",
    "vmallocinfo",
)

# Nothing outside the mounts lasts after a command, so /dev must not accept files that would be lost.
_READ_ONLY_DEV = ("--remount-ro", "/dev")
# Each script first reports its progress as a letter on standard input, to which every shell can write; if
# bubblewrap itself failed, there is no letter. The command gets an empty standard input instead.
_STARTED, _NO_DIRECTORY, _MISSING, _NO_FILE = "sdmf"
_COMMAND = """
cd -- "$2" 2>/dev/null || { echo d >&0; exit 1; }
echo s >&0
unset OLDPWD
exec "$3" -c "$1" </dev/null"""
_READ = """
[ -e "$1" ] || { echo m >&0; exit 1; }
[ -f "$1" ] || { echo f >&0; exit 1; }
echo s >&0
exec cat -- "$1" """
_WRITE = """
echo s >&0
mkdir -p -- "$2" && cat /.content > "$1" """


class SandboxRuntime(RuntimeBase):
    """Runs commands with `bash -c` or `sh -c`, see `LocalRuntime`, in bubblewrap (A-101, A-109).

    Commands can write to `cwd` and the paths in `writable`, and read those in `read_only`, even if these
    are directly in a writable one; each is visible under the given name. `/tmp` and the home directory
    are new for each command. With `network`, a command has this machine's network, including its loopback
    interface and its abstract sockets. Its environment is `PATH`, `LANG` and `HOME`, and the variables in
    `env`. It cannot write kernel settings or read kernel memory or keys, even if root runs this program.
    Memory, processor time and disk space are not limited.

    Files are read and written inside the sandbox, so that a link created by a command cannot lead
    outside. Files up to 64 MiB can be read; writing to a place that does not last is an error. Output is
    limited as in `LocalRuntime`. A killing signal shows only in the exit code, because bubblewrap reports
    nothing else (A-100).

    Raises `AgentRuntimeError` if bubblewrap is not installed, or when a command runs on a machine that
    forbids what bubblewrap needs; `ValueError` for paths that would isolate nothing.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str] | None = None,
        *,
        network: bool = False,
        read_only: Sequence[str | os.PathLike[str]] = (),
        writable: Sequence[str | os.PathLike[str]] = (),
        env: Mapping[str, str] | None = None,
        output_limit: int = OUTPUT_LIMIT,
        flood_limit: int = FLOOD_LIMIT,
    ) -> None:
        program = shutil.which(PROGRAM)
        if program is None:
            raise AgentRuntimeError(MISSING)
        self._program = program
        self._cwd = Path(os.path.abspath(cwd or "."))
        self._network = network
        self._mounts = mount_order(
            [Path(os.path.abspath(path)) for path in read_only],
            [Path(os.path.abspath(path)) for path in (self._cwd, *writable)],
        )
        self._shell = shell_program()
        self._environment = ENVIRONMENT | dict(env or {})
        self._limits = OutputLimits(output_limit, flood_limit)

    @property
    def shell(self) -> Shell | None:
        """Shell that runs the commands."""
        return shell_named(self._shell)

    async def _run(self, command: CheckedCommand) -> ExecResult:
        directory = str(self._cwd / (command.cwd or "."))
        with self._launch(
            ["--tmpfs", "/tmp", "--dir", HOME], [_COMMAND, "sh", command.text, directory, self._shell]
        ) as it:
            result = await run(
                it.launch,
                self._limits,
                timeout=command.timeout,
                abort=command.abort,
                on_data=command.on_data,
            )
            if it.script_status(result) == _NO_DIRECTORY:
                raise AgentRuntimeError(f"Working directory does not exist: {directory}")
        return result

    async def read_file(self, path: str) -> str:
        """See `Runtime.read_file`; bytes that are not UTF-8 become U+FFFD.

        Raises `AgentRuntimeError` for a path that is not a file, cannot be read, or is too large.
        """
        with self._launch(_READ_ONLY_DEV, [_READ, "sh", str(self._cwd / path)]) as it:
            result = await run(it.launch, OutputLimits(FILE_LIMIT, 2 * FILE_LIMIT), timeout=FILE_SECONDS)
            status = it.script_status(result)
        if status == _MISSING:
            raise RuntimeFileNotFoundError(path)
        if status == _NO_FILE:
            raise AgentRuntimeError(f"Cannot read {path}: it is not a regular file")
        if result.truncated:
            raise AgentRuntimeError(f"Cannot read {path}: it is larger than {FILE_LIMIT} bytes")
        if result.exit_code != 0:
            raise AgentRuntimeError(f"Cannot read {path}: {result.stderr.strip()}")
        return result.stdout

    async def write_file(self, path: str, content: str) -> None:
        """See `Runtime.write_file`. Raises `AgentRuntimeError` for a place where no file lasts."""
        target = self._cwd / path
        with tempfile.TemporaryFile() as file:
            file.write(content.encode())
            file.seek(0)
            mounts = [*_READ_ONLY_DEV, "--ro-bind-data", str(file.fileno()), "/.content"]
            script = [_WRITE, "sh", str(target), str(target.parent)]
            with self._launch(mounts, script, pass_fds=(file.fileno(),)) as it:
                result = await run(it.launch, self._limits, timeout=FILE_SECONDS)
                it.script_status(result)
        if result.exit_code != 0:
            raise AgentRuntimeError(f"Cannot write {path}: {result.stderr.strip()}")

    @contextlib.contextmanager
    def _launch(
        self, mounts: Sequence[str], script: Sequence[str], pass_fds: tuple[int, ...] = ()
    ) -> Generator[_SandboxLaunch]:
        """Launch of a shell in the sandbox, with `mounts` in addition to what every command sees."""
        if not self._cwd.is_dir():
            raise AgentRuntimeError(f"Working directory does not exist: {self._cwd}")
        argv = [self._program, *self._isolation(), *self._system(), *mounts]
        for mount in self._mounts:
            argv += ["--bind" if mount.is_writable else "--ro-bind", str(mount.path), str(mount.path)]
        argv += ["--remount-ro", "/", "--", "/bin/sh", "-c", *script]
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            yield _SandboxLaunch(Launch(argv, Path("/"), self._environment, write, pass_fds), read)
        finally:
            os.close(read)
            os.close(write)

    def _isolation(self) -> list[str]:
        # No --new-session: bubblewrap already has a session without a terminal. Another one inside would
        # leave the process group that is killed; for a moment, nothing else would end the processes
        # inside.
        arguments = ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
        return [*arguments, "--share-net"] if self._network else arguments

    def _system(self) -> list[str]:
        """Programs, libraries and their required files, under the names that this machine uses."""
        arguments = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
        for name in _PROC_READ_ONLY:
            arguments += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
        for path in (f"/proc/{name}" for name in _PROC_HIDDEN):
            if os.path.exists(path):
                arguments += ["--ro-bind", "/dev/null", path]
        for path in map(Path, _SYSTEM_PATHS):
            if path.is_symlink():
                arguments += ["--symlink", os.readlink(path), str(path)]
            elif path.exists():
                arguments += ["--ro-bind", str(path), str(path)]
        for name in _ETC + (_ETC_FOR_NETWORK if self._network else ()):
            arguments += ["--ro-bind-try", os.path.realpath(name), name]
        return arguments


class _SandboxLaunch:
    """A launch of bubblewrap, and the progress of its script."""

    def __init__(self, launch: Launch, status_fd: int) -> None:
        self.launch = launch
        self._status_fd = status_fd

    def script_status(self, result: ExecResult) -> str:
        """Return the script's letter. Raises `AgentRuntimeError` if no script ran."""
        with contextlib.suppress(BlockingIOError):
            if status := os.read(self._status_fd, 1).decode():
                return status
        problem = f"bubblewrap could not make a sandbox: {result.stderr.strip() or 'it does not say why'}"
        if any(sign in result.stderr for sign in _SIGNS_OF_A_FORBIDDEN_NAMESPACE):
            problem += f". {_FORBIDDEN}"
        raise AgentRuntimeError(problem)


# Directories and files of this machine that are visible in a sandbox


@dataclass(frozen=True, slots=True)
class Mount:
    """A path that is visible inside under its own name."""

    path: Path
    is_writable: bool


def mount_order(read_only: Iterable[Path], writable: Iterable[Path]) -> list[Mount]:
    """Return the mounts in order, outer ones first, so that inner ones take precedence.

    A mount that is already part of an outer one is omitted. Raises `ValueError` for the root, and for a
    path that a command could replace by a link elsewhere before it is mounted the next time.
    """
    mounts = [Mount(path, is_writable=False) for path in read_only]
    mounts += [Mount(path, is_writable=True) for path in writable]
    mounts_in_order: list[Mount] = []
    for mount in sorted(mounts, key=lambda mount: (len(mount.path.parts), not mount.is_writable)):
        if mount.path.resolve() == Path("/"):
            raise ValueError(f"A sandbox around the whole file system keeps nothing out: {mount.path}")
        around = _innermost(mount.path, mounts_in_order)
        if around is not None and around.is_writable:
            if _is_part(mount, around):
                continue
            _check_fixed(mount.path, around.path)
        mounts_in_order.append(mount)
    return mounts_in_order


def _innermost(path: Path, mounts: Iterable[Mount]) -> Mount | None:
    """Return the innermost mount that contains `path`, by its name or by the target of its links."""
    real = path.resolve()
    around = [
        mount
        for mount in mounts
        if path.is_relative_to(mount.path) or real.is_relative_to(mount.path.resolve())
    ]
    return max(around, key=lambda mount: len(mount.path.resolve().parts), default=None)


def _is_part(mount: Mount, outer: Mount) -> bool:
    """Return whether `mount` is part of the writable mount `outer`."""
    if mount.path == outer.path:
        return True
    inside = mount.path.resolve().is_relative_to(outer.path.resolve())
    return mount.is_writable and inside and mount.path.is_relative_to(outer.path)


def _check_fixed(path: Path, outer: Path) -> None:
    """Raise `ValueError` if `path` could be moved while it is mounted in the writable mount `outer`."""
    if path.parent != outer or path.is_symlink() or not path.exists():
        raise ValueError(
            f"A read-only path in a writable one must lie directly in it, exist and not be a link, "
            f"or a command could exchange it: {path}"
        )
