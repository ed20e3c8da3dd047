"""A server that records its stdin in the file RECORD and writes the content of SAY.

It answers only the gate's own requests of `tools/list`, with the tools in TOOLS, and keeps no record.
After `"END"` it exits with code 3. With `trap` it exits on SIGTERM only, with code 7; with `child` it
leaves a child process behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

LIST = re.compile(rb'\{"jsonrpc":"2\.0","id":"(interlock-tools-[^"]+)","method":"tools/list"[^\n]*\n')


def leave(number: int, _: FrameType | None) -> None:
    os.write(2, f"got {number}\n".encode())
    os._exit(7)


signal.signal(signal.SIGTERM, leave if "trap" in sys.argv else signal.SIG_DFL)
os.write(2, b"ready\n")
sys.stdout.buffer.write(Path(os.environ["SAY"]).read_bytes())
sys.stdout.buffer.flush()
if "child" in sys.argv:
    left = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    Path(os.environ["RECORD"] + ".pid").write_text(str(left.pid))
with Path(os.environ["RECORD"]).open("ab", buffering=0) as file:
    while chunk := os.read(0, 65536):
        for asked in LIST.findall(chunk):
            tools = [{"name": name} for name in os.environ["TOOLS"].split()]
            answer = {"jsonrpc": "2.0", "id": asked.decode(), "result": {"tools": tools}}
            os.write(1, json.dumps(answer).encode() + b"\n")
        file.write(LIST.sub(b"", chunk))
        if b'"END"' in chunk:
            os._exit(3)
if "trap" in sys.argv:
    signal.pause()
