"""`interlock serve` with a short lease: `python -m tests.crash.gates.server SECONDS ARGUMENTS`."""

from __future__ import annotations

import sys

from interlock.app.cli.main import main
from interlock.engine.history.postgres.servers import lease as leasing

from . import deaths

if __name__ == "__main__":
    leasing.LEASE_SECONDS = float(sys.argv[1])
    leasing.PATIENCE = leasing.LEASE_SECONDS / 2
    deaths.install()
    sys.exit(main(["serve", *sys.argv[2:]]))
