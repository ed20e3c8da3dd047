"""`[oidc]`: valid settings, and errors that name the place and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.config.loader import SettingsError
from interlock.app.config.oidc import OidcSettings, oidc_settings
from interlock.app.config.operators import operators
from interlock.engine.core.approvers import login_id

ISSUER = "https://id.example.com"
LEAST = f'[oidc]\nissuer = "{ISSUER}"\nclient_id = "interlock"\n'


def written(directory: Path, text: str) -> dict[str, str]:
    """Write the user's file and return the environment that leads to it."""
    config = directory / "config"
    config.mkdir(exist_ok=True)
    (config / "interlock.toml").write_text(text)
    return {"INTERLOCK_CONFIG_DIR": str(config)}


def settings(directory: Path, text: str) -> OidcSettings:
    found = oidc_settings(environ=written(directory, text), directory=directory)
    assert found is not None
    return found


class TestOidc:
    def test_minimal_settings(self, tmp_path: Path) -> None:
        """Issuer and client are enough; then no login has a role, and logins last eight hours."""
        found = settings(tmp_path, LEAST)
        assert found.terms.audiences == ("interlock",)
        assert found.terms.session == 8 * 3600
        assert found.terms.default_role is None
        assert not any(found.terms.roles.values())
        assert found.offer.client_id == "interlock"
        assert oidc_settings(environ=written(tmp_path, ""), directory=tmp_path) is None

    def test_all_settings(self, tmp_path: Path) -> None:
        """All settings are read: roles, groups, claims and both clients."""
        text = LEAST + (
            'client_secret_file = "oidc.secret"\ndevice_client_id = "cli"\nscopes = ["openid", "email"]\n'
            'name_claim = "email"\ngroups_claim = "roles"\nsession = "1h"\ndefault_role = "look"\n'
            '[oidc.roles]\nadminister = "sre"\ndecide = ["dev", "qa"]\n'
            '[oidc.groups]\nsecurity = ["sec"]\n'
        )
        found = settings(tmp_path, text)
        assert found.terms.roles == {"look": (), "decide": ("dev", "qa"), "administer": ("sre",)}
        assert found.terms.groups == {"security": ("sec",)}
        assert found.terms.audiences == ("interlock", "cli")
        assert found.offer.model_dump() == {
            "issuer": ISSUER,
            "client_id": "cli",
            "scopes": ("openid", "email"),
        }
        assert found.client_secret_file == str(tmp_path / "config" / "oidc.secret")

    def test_consoles_need_no_secret(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Consoles are not offered a client that needs a secret."""
        found = settings(tmp_path, LEAST + 'client_secret_file = "oidc.secret"\n')
        assert found.offer.client_id is None
        monkeypatch.setenv("INTERLOCK_OIDC_SECRET", "x")
        assert settings(tmp_path, LEAST).offer.client_id is None

    def test_secret_in_a_private_file_or_the_environment(self, tmp_path: Path) -> None:
        """The secret is in a private file or in the environment; printed settings do not contain it."""
        found = settings(tmp_path, LEAST + 'client_secret_file = "oidc.secret"\n')
        file = tmp_path / "config" / "oidc.secret"
        with pytest.raises(SettingsError, match=r"there is no file .*oidc\.secret; put"):
            found.secret({})
        file.write_text("s3cret!\n")
        file.chmod(0o644)
        with pytest.raises(SettingsError, match="others may read or write it"):
            found.secret({})
        file.chmod(0o600)
        assert found.secret({}) == "s3cret!"
        assert "s3cret" not in repr(found)
        assert settings(tmp_path, LEAST).secret({"INTERLOCK_OIDC_SECRET": "x"}) == "x"
        assert settings(tmp_path, LEAST).secret({}) is None

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('[oidc]\nclient_id = "x"\n', r"\[oidc\]: issuer: is missing: the provider's URL"),
            ('[oidc]\nissuer = "http://id.example.com"\nclient_id = "x"\n', "expected https://"),
            (LEAST + 'secret = "x"\n', "unknown setting 'secret'"),
            (LEAST + 'scopes = ["profile"]\n', 'a list of scopes, "openid" among them'),
            (LEAST + 'session = "1s"\n', "expected a time from 1m to 30d, found '1s'"),
            (LEAST + 'session = "soon"\n', "expected a length of time"),
            (LEAST + 'default_role = "admin"\n', "default_role: expected 'look', 'decide' or"),
            (LEAST + '[oidc.roles]\nadmin = ["x"]\n', "oidc.*roles: unknown setting 'admin'"),
            (LEAST + '[oidc.groups]\n"a b" = ["x"]\n', "a group is one word"),
        ],
    )
    def test_errors_name_place_and_expected_value(self, tmp_path: Path, text: str, said: str) -> None:
        """Each error names the file, the key and what is expected."""
        with pytest.raises(SettingsError, match=said) as caught:
            settings(tmp_path, text)
        assert str(tmp_path / "config" / "interlock.toml") in str(caught.value)


class TestSubjects:
    def test_operator_has_a_subject(self, tmp_path: Path) -> None:
        """`[operators]` assigns a subject at the provider; rules may name the provider's groups."""
        text = (
            LEAST
            + '[oidc.groups]\nsecurity = ["sec"]\n[operators.ada]\nsubject = "42"\nrole = "decide"\n'
        )
        found = operators(environ=written(tmp_path, text), directory=tmp_path)
        assert found.find("ada").login == login_id(ISSUER, "42")
        assert (found.claimed, found.issuer) == (("security",), ISSUER)

    def test_subject_without_a_provider_is_refused(self, tmp_path: Path) -> None:
        """A subject without a provider, or one that two operators have, is refused."""
        with pytest.raises(SettingsError, match=r"ada\.subject: belongs to the provider in \[oidc\]"):
            operators(environ=written(tmp_path, '[operators.ada]\nsubject = "42"\n'), directory=tmp_path)
        two = LEAST + '[operators.ada]\nsubject = "42"\n[operators.ben]\nsubject = "42"\n'
        with pytest.raises(SettingsError, match=r"ben\.subject: is that of 'ada', too"):
            operators(environ=written(tmp_path, two), directory=tmp_path)
