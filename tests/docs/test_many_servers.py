"""The unit and the compose file for servers that share a journal: their options are valid."""

from __future__ import annotations

import json
import shlex
from configparser import ConfigParser
from pathlib import Path

import yaml

from interlock.app.cli.main import parser
from interlock.engine.gateway.protocol.address import Address
from interlock.engine.history.database.location import location_of

OPS = Path(__file__).resolve().parents[2] / "docs" / "ops"


class TestManyServers:
    """Files for several servers."""

    def check(self, line: list[str]) -> None:
        """Check that the options are accepted; raises `SystemExit` otherwise."""
        args = parser("serve").parse_args(line)
        assert args.rules == ["/etc/interlock/server.rules"]
        assert Address.parse(args.listen.replace("%i", "8737")).port == 8737

    def test_unit_is_valid(self) -> None:
        """The unit has valid options, ends the server with SIGTERM and restarts it."""
        unit = ConfigParser(interpolation=None, strict=False)
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read(OPS / "interlock@.service")
        service = unit["Service"]
        program, *line = shlex.split(service["ExecStart"])
        assert Path(program).name == "interlock"
        self.check(line)
        assert (service["Restart"], service["KillSignal"]) == ("always", "SIGTERM")

    def test_compose_file_is_valid(self) -> None:
        """Both services run a server with a valid database, distinct ports and declared volumes."""
        found = yaml.safe_load((OPS / "compose-many-servers.yml").read_text())
        servers = {name: each for name, each in found["services"].items() if name != "database"}
        assert len(servers) == 2
        [*_, command] = (OPS / "Dockerfile").read_text().splitlines()
        line = json.loads(command.removeprefix("CMD "))
        assert len({each["ports"][0] for each in servers.values()}) == 2
        for each in servers.values():
            self.check(line)
            assert location_of(each["environment"]["INTERLOCK_DB"]) is not None
            mounted = {volume.split(":")[0] for volume in each["volumes"]} - {"./rules"}
            assert mounted <= found["volumes"].keys()
