"""`[audit]`: its receivers, and errors with their remedies."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.config.loader import SettingsError
from interlock.app.hosting.audit.settings import (
    SYSLOG_BYTES,
    AuditSettings,
    audit_settings,
    stream_address,
)
from tests.app.config.test_tables import environment

SECRET = "whsec_" + "A" * 43 + "="


def read(folder: Path, text: str) -> AuditSettings | None:
    """The user's settings from a file with this table."""
    return audit_settings(environ=environment(folder, f"[audit]\n{text}\n"), directory=folder / "work")


class TestStreams:
    def test_none(self, tmp_path: Path) -> None:
        """Without the table nothing is sent."""
        environ = {"INTERLOCK_CONFIG_DIR": str(tmp_path)}
        assert audit_settings(environ=environ, directory=tmp_path) is None

    def test_relative_path_starts_at_the_settings_file(self, tmp_path: Path) -> None:
        """A relative path is relative to the settings file, not to the working directory."""
        found = read(tmp_path, 'stream = "file:audit.jsonl"')
        assert found is not None
        [address] = found.addresses
        assert (address.kind, address.path) == ("file", tmp_path / "audit.jsonl")
        assert (found.format, found.begin, found.unmasked, found.largest) == (
            "events",
            "start",
            False,
            SYSLOG_BYTES,
        )

    def test_several_addresses(self, tmp_path: Path) -> None:
        """A list has one stream for each address, with the usual ports."""
        found = read(
            tmp_path,
            'stream = ["syslog:udp://siem", "syslog:tcp://siem:99", "syslog:tls://[::1]", '
            '"syslog:/dev/log", "https://siem.example/in?t=1"]',
        )
        assert found is not None
        assert [each.name for each in found.addresses] == [
            "syslog:udp://siem:514",
            "syslog:tcp://siem:99",
            "syslog:tls://[::1]:6514",
            "syslog:/dev/log",
            "https://siem.example",
        ]
        assert found.addresses[2].host == "::1"
        assert found.addresses[3].transport == "unix"

    def test_name_hides_tokens_of_an_address(self) -> None:
        """Tokens in an address are in no message and in no name of a stream."""
        address = stream_address("https://siem.example:8443/services/SECRET-1?token=SECRET-2")
        assert "SECRET" not in address.name + address.id
        assert address.id != stream_address("https://siem.example:8443/").id

    def test_secrets_are_not_shown(self, tmp_path: Path) -> None:
        """The settings' representation contains neither the secret nor the headers."""
        found = read(
            tmp_path,
            f'stream = "https://siem.example/"\nsecret = "{SECRET}"\n'
            'headers = { Authorization = "Bearer hush" }',
        )
        assert SECRET not in repr(found)
        assert "hush" not in repr(found)


class TestFaults:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("", "stream: is missing: where every event goes"),
            ("stream = []", "stream: "),
            ("stream = ''", "stream[0]: expected some text"),
            ("stream = 'audit.jsonl'", "stream: expected file:PATH, syslog:udp://HOST"),
            ("stream = 'file:'", "stream: expected file:PATH"),
            ("stream = 'syslog:siem:514'", "stream: expected file:PATH"),
            ("stream = 'syslog:udp://siem:port'", "stream: expected file:PATH"),
            ("stream = 'syslog:udp://siem:514/x'", "stream: expected file:PATH"),
            ("stream = 'http://siem.example/'", "stream: expected https://…, or http:// on this machine"),
            ("stream = 'https://me:pw@siem.example/'", "stream: expected a URL without a user name"),
            ("stream = ['file:/a', 'file:/a']", "stream: names one receiver twice"),
            ("stream = 'file:/a'\nformat = 'csv'", "format: expected "),
            ("stream = 'file:/a'\nbegin = 'later'", "begin: expected "),
            ("stream = 'file:/a'\nunmasked = 1", "unmasked: expected true or false"),
            ("stream = 'file:/a'\nlargest = 100", "largest: expected a number from 2048"),
            ("stream = 'https://a/'\nsecret = 'x'", "secret: expected whsec_ and 32 bytes in base64"),
            (f"stream = 'file:/a'\nsecret = '{SECRET}'", "has secret, which are for a stream to https"),
            ("stream = 'https://a/'\nca = 'none.pem'", "ca: there is no file"),
            ("stream = 'file:/a'\nca = 'interlock.toml'", "has ca or certificate, which are for streams"),
            ("stream = 'file:/a'\nstreams = 1", "unknown setting 'streams'; known: stream, format"),
        ],
    )
    def test_error_names_the_place_and_the_expected_value(
        self, tmp_path: Path, text: str, problem: str
    ) -> None:
        """Each error names its file, table, key and the expected value."""
        with pytest.raises(SettingsError) as caught:
            read(tmp_path, text)
        found = str(caught.value)
        assert found.startswith(f"{tmp_path}/interlock.toml: [audit]")
        assert problem in found

    @pytest.mark.parametrize(
        ("header", "problem"),
        [
            (r'Authorization = "Bearer hush\r"', "headers: the value of Authorization cannot be sent"),
            (r'Authorization = "Bearer hush\nX-Other: 1"', "the value of Authorization cannot be sent"),
            (r'Authorization = "Bearer hush\u00e9"', "the value of Authorization cannot be sent"),
            (r'"X: hush" = "1"', "headers: expected names of headers like Authorization"),
        ],
    )
    def test_invalid_header_is_refused(self, tmp_path: Path, header: str, problem: str) -> None:
        """A header that cannot be sent is an error at the start, without its value."""
        with pytest.raises(SettingsError) as caught:
            read(tmp_path, f"stream = 'https://a/'\nheaders = {{ {header} }}")
        assert problem in str(caught.value)
        assert "Bearer hush" not in str(caught.value)

    def test_relative_path_in_a_named_settings_file_is_refused(self, tmp_path: Path) -> None:
        """In a settings file that is not the user's own, a path must be absolute."""
        named = tmp_path / "named.toml"
        named.write_text('[audit]\nstream = "file:a.jsonl"\n')
        with pytest.raises(SettingsError, match="expected an absolute path"):
            audit_settings(environ={"INTERLOCK_CONFIG": str(named)}, directory=tmp_path)

    def test_working_directory_cannot_change_streams(self, tmp_path: Path) -> None:
        """A file in the working directory cannot send the record elsewhere or turn streams off."""
        (tmp_path / "interlock.toml").write_text('[audit]\nstream = "file:/tmp/x"\n')
        environ = {"INTERLOCK_CONFIG_DIR": str(tmp_path / "config")}
        with pytest.raises(SettingsError, match=r"\[audit\]: stream: is allowed in .*config"):
            audit_settings(environ=environ, directory=tmp_path)
