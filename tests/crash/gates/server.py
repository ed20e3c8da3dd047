"""`interlock serve` with a short lease: `python -m tests.crash.gates.server SECONDS ARGUMENTS`."""

from __future__ import annotations

import sys

from interlock.app.cli.main import main
from interlock.engine.history.postgres import server

from . import deaths

if __name__ == "__main__":
    server.LEASE_SECONDS = float(sys.argv[1])
    server.PATIENCE = server.LEASE_SECONDS / 2
    deaths.install()
    sys.exit(main(["serve", *sys.argv[2:]]))
