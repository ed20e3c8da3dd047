"""Files in `docs/ops`: their metrics exist, and their alerts fire correctly."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from interlock.app.cli.main import parser
from interlock.app.hosting.audit.settings import AuditSettings
from interlock.app.hosting.audit.streams import AuditStreams
from interlock.app.hosting.monitoring.metrics import Metrics
from interlock.engine.history.database.location import PostgresLocation
from interlock.rules import compile_rules
from tests.engine.gateway.served import served

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "docs" / "ops"
NAME = re.compile(r"\binterlock_[a-z_]+\b")
REMEDY = "needs promtool: apt-get install --no-install-recommends prometheus"
SUFFIXES = ("_bucket", "_count", "_sum", "_total")
ONLY_POSTGRESQL = {"interlock_lease_age_seconds"}
STREAM = AuditSettings(stream=("http://127.0.0.1:9/in",))
"""A stream without a receiver: only a server with a stream has stream metrics."""


def names_in(text: str) -> set[str]:
    """Return the metrics that a text names."""
    return set(NAME.findall(text))


def expressions(value: object) -> list[str]:
    """Return every expression in a dashboard."""
    if isinstance(value, dict):
        own = [each for key, each in value.items() if key in ("expr", "query") and isinstance(each, str)]
        return own + [each for part in value.values() for each in expressions(part)]
    return [each for part in value for each in expressions(part)] if isinstance(value, list) else []


async def metrics_of(directory: Path) -> str:
    """Return the metrics of a server with a stream."""
    async with served(directory) as server:
        streams = AuditStreams(server.hub, STREAM, print)
        await streams.start()
        try:
            return Metrics(server.hub, server.gateway, streams).text().decode()
        finally:
            await streams.finish()


def promtool(*words: str, directory: Path) -> str:
    """Return promtool's output; skip the test if it is not installed."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip(REMEDY)
    done = subprocess.run(
        [program, *words], cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class TestAlerts:
    def test_are_rules(self) -> None:
        """promtool accepts the file and finds the alerts."""
        assert "rules found" in promtool("check", "rules", "alerts.yml", directory=OPS)

    def test_fire_only_for_their_series(self) -> None:
        """Each alert fires only for its series."""
        promtool("test", "rules", "alerts_test.yml", directory=OPS)

    def test_each_alert_has_tests(self) -> None:
        """The alert tests have each alert at least twice, firing and not firing."""
        tried = (OPS / "alerts_test.yml").read_text()
        for name in re.findall(r"alert: (\w+)", (OPS / "alerts.yml").read_text()):
            assert tried.count(f"alertname: {name}\n") >= 2, name

    def test_wrong_threshold_fails_the_tests(self, tmp_path: Path) -> None:
        """The alert tests fail for a file with another threshold."""
        for name in ("alerts.yml", "alerts_test.yml"):
            shutil.copy(OPS / name, tmp_path)
        rules = tmp_path / "alerts.yml"
        rules.write_text(rules.read_text().replace("> 900", "> 9000"))
        with pytest.raises(AssertionError, match="FAILED"):
            promtool("test", "rules", "alerts_test.yml", directory=tmp_path)


class TestNames:
    @pytest.mark.parametrize("name", ["dashboard.json", "alerts.yml"])
    async def test_are_exported(self, name: str, tmp_path: Path) -> None:
        """A server exports each metric that the file names."""
        text = (OPS / name).read_text()
        if name == "dashboard.json":
            text = "\n".join(expressions(json.loads(text)))
        named = names_in(text)
        assert named
        exported = names_in(await metrics_of(tmp_path))
        whole = exported | {each + suffix for each in exported for suffix in SUFFIXES}
        assert named - whole - ONLY_POSTGRESQL == set()

    async def test_stream_metrics_have_panels(self, tmp_path: Path) -> None:
        """Each stream metric has a panel, grouped by its label."""
        text = await metrics_of(tmp_path)
        labels = dict(re.findall(r"^(interlock_audit_stream_\w+)\{(\w+)=", text, re.MULTILINE))
        assert len(labels) == 5
        asked = expressions(json.loads((OPS / "dashboard.json").read_text()))
        for name, label in labels.items():
            assert [each for each in asked if f"{name}{{" in each and f"by ({label})" in each], name

    def test_dashboard_expressions_are_valid(self, tmp_path: Path) -> None:
        """promtool accepts each expression of the dashboard, with its variables replaced."""
        asked = expressions(json.loads((OPS / "dashboard.json").read_text()))
        plain = [each.replace("$__rate_interval", "5m").replace("$instance", ".*") for each in asked]
        rules = [
            {"record": f"panel:{number}", "expr": each}
            for number, each in enumerate(plain)
            if not each.startswith("label_values(")
        ]
        assert len(rules) >= 19
        (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
        assert "rules found" in promtool("check", "rules", "panels.yml", directory=tmp_path)

    async def test_database_server_exports_its_metrics(
        self, postgresql: PostgresLocation, tmp_path: Path
    ) -> None:
        """A server on a database exports the metrics that only it has."""
        from interlock.engine.gateway.cluster.shared_hub import open_hub
        from interlock.engine.gateway.protocol.tokens import TokenFile
        from interlock.engine.gateway.server.rule_sets import RuleSets
        from interlock.engine.gateway.server.server import Gateway

        hub = open_hub(postgresql)
        try:
            gateway = Gateway(hub, TokenFile(tmp_path / "tokens.json"), rules=RuleSets.of({}))
            assert names_in(Metrics(hub, gateway).text().decode()) >= ONLY_POSTGRESQL
        finally:
            await hub.close()

    def test_panels_do_not_overlap(self) -> None:
        """The dashboard's panels have distinct places and ids."""
        panels = json.loads((OPS / "dashboard.json").read_text())["panels"]
        cells = [
            (x, y)
            for each in panels
            for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
            for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])
        ]
        assert len(cells) == len(set(cells))
        assert len({each["id"] for each in panels}) == len(panels)


def commands(text: str) -> list[list[str]]:
    """Return the arguments of `interlock serve` in a Dockerfile or a unit."""
    found = [json.loads(each) for each in re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)]
    return found + [
        each.split() for each in re.findall(r"^ExecStart=\S*/interlock (.*)$", text, re.MULTILINE)
    ]


class TestDeployments:
    @pytest.mark.parametrize("name", ["Dockerfile", "interlock.service", "interlock@.service"])
    def test_options_exist(self, name: str) -> None:
        """`interlock serve` accepts the server's command line."""
        [words] = commands((OPS / name).read_text().replace("%i", "8737"))
        args = parser().parse_args(words)
        assert args.command == "serve"
        assert (args.metrics == "127.0.0.1:9464") == (name != "interlock@.service")

    @pytest.mark.parametrize("name", ["compose.yml", "compose-many-servers.yml"])
    def test_containers_are_healthy(self, name: str) -> None:
        """Servers are built from this tree, serve the address of the probe, and find their rules."""
        image = (OPS / "Dockerfile").read_text()
        [asked] = re.findall(r"urlopen\('http://([^/]+)/readyz'", image)
        services = yaml.safe_load((OPS / name).read_text())["services"]
        servers = [each for service, each in services.items() if service != "database"]
        assert servers
        for each in servers:
            # An image named `interlock` in a registry would be from another project.
            assert "image" not in each
            assert (OPS / each["build"]["context"]).resolve() == ROOT
            [words] = [each["command"]] if "command" in each else commands(image)
            args = parser().parse_args(words)
            assert args.metrics == asked
            folders = [mount.split(":") for mount in each["volumes"] if mount.startswith(".")]
            mounted = {inside: OPS / outside for outside, inside, _ in folders}
            for rules in map(Path, args.rules):
                compile_rules((mounted[str(rules.parent)] / rules.name).read_text())

    @pytest.mark.parametrize("name", ["interlock.service", "interlock@.service"])
    def test_units_have_a_user_for_tokens(self, name: str) -> None:
        """The unit runs as a fixed user, and the page creates tokens as that user."""
        text = (OPS / name).read_text()
        assert "\nUser=interlock\n" in text
        assert "DynamicUser" not in text
        assert "INTERLOCK_CONFIG_DIR=/var/lib/interlock/config" in text
        page = (ROOT / "docs" / "how-to" / "operations.md").read_text()
        assert "useradd --system" in page
        assert "sudo -u interlock env INTERLOCK_CONFIG_DIR=/var/lib/interlock/config" in page

    def test_image_copies_existing_paths(self) -> None:
        """The image's paths and extras exist, and it copies every source folder."""
        text = (OPS / "Dockerfile").read_text()
        copied = set[str]()
        for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE):
            *sources, _ = line.split()
            assert all((ROOT / each).exists() for each in sources), line
            copied |= set(sources)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        rooms = set(project["tool"]["setuptools"]["package-dir"].values())
        assert rooms <= copied, "its build needs every room"
        [extras] = re.findall(r"'/src\[(.*)\]'", text)
        assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])

    def test_compose_uses_the_dockerfile_and_its_rules(self) -> None:
        """The compose file builds the Dockerfile and mounts the rules that the image uses."""
        text = (OPS / "compose.yml").read_text()
        assert "dockerfile: docs/ops/Dockerfile" in text
        assert "./rules:/etc/interlock:ro" in text
        compile_rules((OPS / "rules" / "server.rules").read_text())
        assert "/etc/interlock/server.rules" in (OPS / "Dockerfile").read_text()

    @pytest.mark.parametrize("name", ["interlock.service", "interlock@8737.service"])
    def test_unit_is_valid(self, name: str, tmp_path: Path) -> None:
        """systemd accepts the unit, with a placeholder for the program."""
        program = shutil.which("systemd-analyze")
        if program is None:
            pytest.skip("needs systemd-analyze: apt-get install systemd")
        unit = tmp_path / name
        text = (OPS / name.replace("8737", "")).read_text()
        unit.write_text(text.replace("/opt/interlock/bin/interlock", "/bin/true"))
        done = subprocess.run(
            [program, "verify", "--man=no", str(unit)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert [each for each in done.stderr.splitlines() if name in each] == []
