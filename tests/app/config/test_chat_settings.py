"""`[notify.chat.slack]` and the operators' accounts: only the user's settings say who decides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from interlock.app.config.loader import SettingsError
from interlock.app.config.notifications import NotifySettings, notify_settings
from interlock.app.config.operators import operators, slack_accounts
from interlock.app.hosting.notifications.slack import chat_terms

WEBHOOK = "https://hooks.slack.com/services/T012/B012/s3cr3t"
LEAST = f'[notify.chat.slack]\nwebhook = "{WEBHOOK}"\n'


def environment(folder: Path, text: str) -> Mapping[str, str]:
    config = folder / "config"
    config.mkdir(exist_ok=True)
    (config / "interlock.toml").write_text(text, "utf-8")
    return {"INTERLOCK_CONFIG_DIR": str(config)}


def settings(folder: Path, text: str) -> NotifySettings:
    found = notify_settings(environ=environment(folder, text), directory=folder)
    assert found is not None
    return found


class TestSlack:
    def test_alone_and_with_other_services(self, tmp_path: Path) -> None:
        """Slack is a notification channel, alone or beside an address or services."""
        assert settings(tmp_path, LEAST).ways == (WEBHOOK,)
        found = settings(tmp_path, f'[notify]\nurl = "https://a.example"\n{LEAST}')
        assert found.ways == (None, WEBHOOK)
        assert found.services == (WEBHOOK,)
        assert found.is_chat(WEBHOOK)
        assert not found.is_chat(None)

    def test_secret_in_a_private_file_or_the_environment(self, tmp_path: Path) -> None:
        """The secret is in a private file beside the settings, or in the environment."""
        slack = settings(tmp_path, f'{LEAST}signing_secret_file = "slack.secret"\n').chat
        assert slack is not None
        file = tmp_path / "config" / "slack.secret"
        with pytest.raises(SettingsError, match=r"there is no file .*slack\.secret; put .* chmod 600"):
            slack.slack.secret({})
        file.write_text("8f742231\n")
        file.chmod(0o644)
        with pytest.raises(SettingsError, match="others may read or write it"):
            slack.slack.secret({})
        file.chmod(0o600)
        assert slack.slack.secret({"INTERLOCK_SLACK_SIGNING_SECRET": "other"}) == "8f742231"
        file.write_text("\n")
        with pytest.raises(SettingsError, match="expected the app's signing secret, on one line"):
            slack.slack.secret({})

    def test_environment_may_hold_the_secret(self, tmp_path: Path) -> None:
        """The environment may hold the secret; without one the error says how to set it."""
        chat = settings(tmp_path, LEAST).chat
        assert chat is not None
        assert chat.slack.secret({"INTERLOCK_SLACK_SIGNING_SECRET": "x"}) == "x"
        with pytest.raises(SettingsError, match=r"signing_secret_file; or set INTERLOCK_SLACK_SIGN"):
            chat.slack.secret({})

    def test_secrets_are_not_shown(self, tmp_path: Path) -> None:
        """Printed settings do not contain the secret."""
        assert "s3cr3t" not in repr(settings(tmp_path, LEAST))

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("[notify.chat.slack]\n", r"chat\.slack\.webhook: is missing: a Slack app"),
            ("[notify.chat.teams]\n", r"chat: unknown setting 'teams'; known: slack"),
            (f'{LEAST}secret = "x"\n', r"chat\.slack: unknown setting 'secret'; known: webhook, sign"),
            ('[notify]\nchat = "slack"\n', r"chat: expected a table, found 'slack'"),
            (f'[notify]\nto = "{WEBHOOK}"\n{LEAST}', "is in to as well; name it once"),
            *(
                (
                    f'[notify.chat.slack]\nwebhook = "{url}"\n',
                    r"webhook: expected a webhook of your Slack",
                )
                for url in (
                    "http://hooks.slack.com/services/T012/B012/s3cr3t",
                    "https://hooks.slack.com.evil.example/services/T012/B012/s3cr3t",
                    "https://x@hooks.slack.com/services/T012/B012/s3cr3t",
                    "https://hooks.slack.com",
                    "slack://T012/B012/s3cr3t",
                )
            ),
        ],
    )
    def test_errors_name_place_and_expected_value(self, tmp_path: Path, text: str, problem: str) -> None:
        """Each error names the file, the key and what is expected, but no secret."""
        pytest.importorskip("apprise")
        with pytest.raises(SettingsError, match=problem) as caught:
            settings(tmp_path, text)
        assert "interlock.toml: [notify]" in str(caught.value)
        assert "s3cr3t" not in str(caught.value)

    def test_working_directory_cannot_enable_slack(self, tmp_path: Path) -> None:
        """The working directory cannot enable Slack, because an agent may write there."""
        (tmp_path / "interlock.toml").write_text(LEAST, "utf-8")
        with pytest.raises(
            SettingsError, match=r"\[notify\]: chat: is allowed in .*config/interlock.toml"
        ):
            notify_settings(environ=environment(tmp_path, ""), directory=tmp_path)


class TestAccounts:
    def test_operators(self, tmp_path: Path) -> None:
        """An account is assigned to an operator by the ids of team and user."""
        text = '[operators.maria]\nslack = "T012/U034"\n[operators.ada]\n'
        text += '[operators.ben]\nslack = "T9A/W1B"\n'
        environ = environment(tmp_path, text)
        found = slack_accounts(environ=environ, directory=tmp_path)
        assert found == {"T012/U034": "maria", "T9A/W1B": "ben"}
        assert slack_accounts(environ=environment(tmp_path, ""), directory=tmp_path) == {}

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            *(
                (f'[operators.maria]\nslack = "{each}"', r"maria\.slack: expected the ids of a team and")
                for each in ("maria", "@maria", "U034", "T012/maria", "T012/U034/x", "t012/u034", "")
            ),
            (
                '[operators.maria]\nslack = "T012/U034"\n[operators.ada]\nslack = "T012/U034"',
                r"ada\.slack: is that of 'maria', too: list each person once",
            ),
            (
                '[operators.maria]\nslack = "T012/U034"\nsubject = "42"\n'
                '[oidc]\nissuer = "https://id.example.com"\nclient_id = "x"',
                r"maria\.slack: the provider says the role of people .*: leave out slack or subject",
            ),
            ("[operators.maria]\nslack = 1", r"maria\.slack: expected text in quotes, found 1"),
        ],
    )
    def test_invalid_account_stops_the_start(self, tmp_path: Path, text: str, problem: str) -> None:
        """An account must be ids, belong to one operator, and have a role that is known."""
        for read in (operators, slack_accounts):
            with pytest.raises(SettingsError, match=problem):
                read(environ=environment(tmp_path, text), directory=tmp_path)

    def test_working_directory_cannot_assign_accounts(self, tmp_path: Path) -> None:
        """The working directory cannot assign accounts, because an agent may write there."""
        (tmp_path / "interlock.toml").write_text('[operators.maria]\nslack = "T012/U034"\n', "utf-8")
        with pytest.raises(
            SettingsError, match=r"operators\].*is allowed in .*config/interlock.toml only"
        ):
            slack_accounts(environ=environment(tmp_path, ""), directory=tmp_path)


class TestTerms:
    def test_come_from_the_users_settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The terms come from the user's settings; without the table there are none."""
        monkeypatch.chdir(tmp_path)
        text = f'[operators.maria]\nslack = "T012/U034"\n[notify]\ninclude_input = true\n{LEAST}'
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", environment(tmp_path, text)["INTERLOCK_CONFIG_DIR"])
        monkeypatch.setenv("INTERLOCK_SLACK_SIGNING_SECRET", "x")
        terms = chat_terms()
        assert terms is not None
        assert (terms.secret, terms.shows_input) == ("x", True)
        assert terms.people == "maria (T012/U034)"
        assert "'x'" not in repr(terms)
        environment(tmp_path, LEAST)
        terms = chat_terms()
        assert terms is not None
        assert terms.people.startswith("nobody: name an account in [operators.NAME]")
        environment(tmp_path, "")
        assert chat_terms() is None
