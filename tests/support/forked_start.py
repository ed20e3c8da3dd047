"""Program started by `forked.python_with`: passes its own start to a process that forks for it.

It imports only built-in modules, so that it starts within a hundredth of a second.
"""

from __future__ import annotations

import _signal as signal
import _socket as socket
import marshal
import os
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LOST = 70
"""Exit code if the forking process is gone."""


def main(path: str, asked: list[str]) -> None:
    """Request the fork, forward signals that can be caught, and end as the fork ends."""
    # Signals sent before the fork's process id is known are delivered later.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.connect(path)
    said = marshal.dumps((asked, os.getcwd(), dict(os.environ)))
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    length = len(said).to_bytes(8, "big")
    server.sendmsg([length], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    while said:
        said = said[server.send(said) :]
    pid = _number(server)
    # The fork has the streams now: their readers must see the fork's end, not this process's.
    for number in (0, 1, 2):
        os.close(number)
    for number in PASSED_ON:
        signal.signal(number, lambda which, _: os.kill(pid, which))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = os.waitstatus_to_exitcode(_number(server))
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _number(server: socket.socket) -> int:
    said = b""
    while len(said) < 8:
        said += (more := server.recv(8 - len(said)))
        if not more:
            os._exit(LOST)
    return int.from_bytes(said, "big")


main(sys.argv[1], sys.argv[2:])
