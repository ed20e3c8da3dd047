"""Masking in texts: the values of telling names."""

from __future__ import annotations

import json

import pytest
from pydantic import JsonValue

from interlock.engine.history.redaction.redaction import MASK

from ..support.made_secrets import SECRET, R, run


class TestTexts:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            # Shells
            (f"PASSWORD={SECRET} ./run", f"PASSWORD={MASK} ./run"),
            (f"export DB_PASSWORD='{SECRET} x'; ls", f"export DB_PASSWORD='{MASK}'; ls"),
            (f'TOKEN="a \\" {SECRET}" ls', f'TOKEN="{MASK}" ls'),
            (f"TOKEN=a\\ {SECRET} ls", f"TOKEN={MASK} ls"),
            (f"TOKEN='it'\"'\"'{SECRET}' ls", f"TOKEN={MASK} ls"),
            (f"x --password={SECRET} -v", f"x --password={MASK} -v"),
            (f"x --api-key {SECRET} -v", f"x --api-key {MASK} -v"),
            (f"x --token '{SECRET} y' -v", f"x --token '{MASK}' -v"),
            ("x --token --verbose", "x --token --verbose"),
            ("x --max-tokens 500", "x --max-tokens 500"),
            (f"PASSWORD='{SECRET}", f"PASSWORD='{MASK}"),
            (f'PASSWORD="{SECRET}', f'PASSWORD="{MASK}'),
            ("PASSWORD=", "PASSWORD="),
            ("TOKEN=null ls", "TOKEN=null ls"),
            (f"TOKEN=null-{SECRET} ls", f"TOKEN={MASK} ls"),
            (f"run -e 'PASSWORD={SECRET}' 'image'", f"run -e 'PASSWORD={MASK}' 'image'"),
            (f"PASSWORD='{SECRET}'{SECRET} ls", f"PASSWORD={MASK} ls"),
            ("PASSWORD='' ls", "PASSWORD='' ls"),
            (f"curl -u admin:{SECRET} x", f"curl -u admin:{MASK} x"),
            (f"curl -H 'X-Api-Key: {SECRET}' x", f"curl -H 'X-Api-Key: {MASK}' x"),
            (f"curl -H 'Authorization: Bearer {SECRET}'", f"curl -H 'Authorization: {MASK}'"),
            (f"Cookie: a=b; c={SECRET}\nHost: x", f"Cookie: {MASK}\nHost: x"),
            (f"sent bearer {SECRET} on", f"sent bearer {MASK} on"),
            ("sent basic dXNlcjpzZWNyZXQ= on", f"sent basic {MASK} on"),
            ("a basic understanding of it", "a basic understanding of it"),
            # Notes on edits for a model
            (
                f'A person changed password from "{SECRET}" to "b\\"{SECRET} to x" before it ran.\nok',
                f'A person changed password from "{MASK}" to "{MASK}" before it ran.\nok',
            ),
            (
                f'changed env from "a" to "b", changed token from "{SECRET}" to 5 and removed x',
                f'changed env from "a" to "b", changed token from "{MASK}" to {MASK} and removed x',
            ),
            (
                f"changed api_key from \u2026{SECRET}\u2026 to \u2026{SECRET} before it ran.",
                f"changed api_key from {MASK} to {MASK} before it ran.",
            ),
            ('changed env from "prod" to "staging"', 'changed env from "prod" to "staging"'),
            # Addresses
            (f"postgres://u:{SECRET}@host/db", f"postgres://u:{MASK}@host/db"),
            (f"redis://:{SECRET}@host", f"redis://:{MASK}@host"),
            (f"postgres://u:p@{SECRET}@host/db", f"postgres://u:{MASK}@host/db"),
            ("http://host:8080/a@b", "http://host:8080/a@b"),
            (f"https://{run(40)}@host/a.git", f"https://{MASK}@host/a.git"),
            ("https://somebody@host/a.git", "https://somebody@host/a.git"),
            (
                f"https://hooks.slack.com/services/{run(44)} x",
                f"https://hooks.slack.com/services/{MASK} x",
            ),
            (
                f"https://discord.com/api/webhooks/123/{run(44)}",
                f"https://discord.com/api/webhooks/{MASK}",
            ),
            ("https://hooks.slack.com/services/", "https://hooks.slack.com/services/"),
            (f"https://h/x?sv=1&sig={SECRET}%3D&a=1", f"https://h/x?sv=1&sig={MASK}&a=1"),
            (f"https://h/x?X-Amz-Signature={SECRET}", f"https://h/x?X-Amz-Signature={MASK}"),
            ("https://h/x?design=1&signal=2", "https://h/x?design=1&signal=2"),
            # Programs
            (f"sshpass -p {SECRET} ssh h", f"sshpass -p {MASK} ssh h"),
            (f"sshpass -p'{SECRET} x' ssh h", f"sshpass -p'{MASK}' ssh h"),
            (f"sshpass -p 'mysql -p{SECRET} x' ssh h", f"sshpass -p '{MASK}' ssh h"),
            (f'{{"c":"sshpass -p \\"{SECRET} x\\" ssh"}}', f'{{"c":"sshpass -p \\"{MASK}\\" ssh"}}'),
            (f"mysql -u root -p{SECRET} db", f"mysql -u root -p{MASK} db"),
            ("mysql -u root -p db --port 3", "mysql -u root -p db --port 3"),
            ("mysql x; mkdir -p a/b", "mysql x; mkdir -p a/b"),
            (f"redis-cli -h h -a {SECRET} ping", f"redis-cli -h h -a {MASK} ping"),
            (f"docker login -u bob -p {SECRET} h", f"docker login -u bob -p {MASK} h"),
            (f"machine h login bob password {SECRET}", f"machine h login bob password {MASK}"),
            (f"CREATE USER u WITH PASSWORD '{SECRET}';", f"CREATE USER u WITH PASSWORD '{MASK}';"),
            (f"ALTER USER u IDENTIFIED BY '{SECRET}'", f"ALTER USER u IDENTIFIED BY '{MASK}'"),
            ("the password of the login page", "the password of the login page"),
            (f"https://h/x?a=1&api_key={SECRET}&b=2", f"https://h/x?a=1&api_key={MASK}&b=2"),
            # Configuration
            (f"password: {SECRET} and more\nuser: u", f"password: {MASK}\nuser: u"),
            (f"token: {SECRET} and more", f"token: {MASK} and more"),
            (f"secret: |\n  {SECRET}\n  {SECRET}\nuser: u\n", f"secret: {MASK}user: u\n"),
            (f'password = "{SECRET}"', f'password = "{MASK}"'),
            (f"'password' => '{SECRET}'", f"'password' => '{MASK}'"),
            (f"{{'password': '{SECRET}', 'n': 1}}", f"{{'password': '{MASK}', 'n': 1}}"),
            # JSON in texts
            (f'{{"password": "{SECRET}", "n": 1}}', f'{{"password": "{MASK}", "n": 1}}'),
            (f'{{"password":\n  "{SECRET}"}}', f'{{"password":\n  "{MASK}"}}'),
            ('{"token": 1234567, "n": 1}', f'{{"token": {MASK}, "n": 1}}'),
            ('{"token": null, "secret": true}', '{"token": null, "secret": true}'),
            (f'{{"secrets": ["a]", "{SECRET}"], "n": 1}}', f'{{"secrets": {MASK}, "n": 1}}'),
            (f'{{"auth": {{"a": {{"b": "{SECRET}"}}}}, "n": 1}}', f'{{"auth": {MASK}, "n": 1}}'),
            (f'{{"password": "a\\"{SECRET}", "n": 1}}', f'{{"password": "{MASK}", "n": 1}}'),
            (f'{{"password": "{SECRET}\\\\", "n": 1}}', f'{{"password": "{MASK}", "n": 1}}'),
            (f'{{"password": "{SECRET}', f'{{"password": "{MASK}'),
            (f'{{"auth": {{"a": "{SECRET}"', f'{{"auth": {MASK}'),
        ],
    )
    def test_values_of_telling_names_are_masked(self, text: str, shown: str) -> None:
        """Values of telling names in a text are masked, and the text around them stays."""
        assert R.text(text) == shown

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            # Elements
            (
                f"<password>{SECRET} x</password><user>u</user>",
                f"<password>{MASK}</password><user>u</user>",
            ),
            (f"<api-key a='>' b=\"c\">{SECRET}</api-key>", f"<api-key a='>' b=\"c\">{MASK}</api-key>"),
            (f"<w:Password T='x'>{SECRET}</w:Password>", f"<w:Password T='x'>{MASK}</w:Password>"),
            (
                f"<credentials>\n <user>u</user>\n <x>{SECRET}</x>\n</credentials> y",
                f"<credentials>{MASK}</credentials> y",
            ),
            (f"<auth><auth>a</auth>{SECRET}</auth><b/>", f"<auth>{MASK}</auth><b/>"),
            (
                f"<a>{{'x': '<token>{SECRET}<\\/token>'}}</a>",
                f"<a>{{'x': '<token>{MASK}<\\/token>'}}</a>",
            ),
            (
                f'<user password="{SECRET}" n="u">text</user>',
                f'<user password="{MASK}" n="u">text</user>',
            ),
            (f'<user password="{SECRET}"/>', f'<user password="{MASK}"/>'),
            (f'<password value="{SECRET} x" n="u"/>', f'<password value="{MASK}" n="u"/>'),
            (
                f'<add key="DbPassword" value="{SECRET}"/><b>',
                f'<add key="DbPassword" value="{MASK}"/><b>',
            ),
            (f'<string name="api_key">{SECRET}</string>', f'<string name="api_key">{MASK}</string>'),
            (f"<c>\n <private-key>\n{SECRET} {SECRET}", f"<c>\n <private-key>{MASK}"),
            (f"seen <password>{SECRET}", f"seen <password>{MASK}"),
            # Names and values side by side
            (
                f"env:\n- name: DB_PASSWORD\n  value: {SECRET} x\n- name: HOME\n  value: /h",
                f"env:\n- name: DB_PASSWORD\n  value: {MASK}\n- name: HOME\n  value: /h",
            ),
            (
                f'[{{"name": "DB_PASSWORD", "value": "{SECRET} x"}}, {{"name": "A", "value": "b"}}]',
                f'[{{"name": "DB_PASSWORD", "value": "{MASK}"}}, {{"name": "A", "value": "b"}}]',
            ),
            (
                f'{{"m": "[{{\\"name\\": \\"api_key\\", \\"value\\": \\"{SECRET}\\"}}]"}}',
                f'{{"m": "[{{\\"name\\": \\"api_key\\", \\"value\\": \\"{MASK}\\"}}]"}}',
            ),
            ('{"Key":"token","Value":1234}', f'{{"Key":"token","Value":{MASK}}}'),
            ('{"key": "token", "value": null}', '{"key": "token", "value": null}'),
            (
                "- name: DB_PASSWORD\n  valueFrom:\n    x: y",
                "- name: DB_PASSWORD\n  valueFrom:\n    x: y",
            ),
            ("name: primary_key\nvalue: 5", "name: primary_key\nvalue: 5"),
            ("username: token\nvalue: 5", "username: token\nvalue: 5"),
            ("a: token\nvalue: 5", "a: token\nvalue: 5"),
            # Lines below a name
            (f"password:\n  value: {SECRET}\n  other: x\nuser: u", f"password:\n  {MASK}\nuser: u"),
            (f"secrets:\n- a\n- {SECRET}\nuser: u", f"secrets:\n{MASK}\nuser: u"),
            (f"- token:\n    x: {SECRET}\n  user: u", f"- token:\n    {MASK}\n  user: u"),
            (f"a:\n  auth: # n\n    x: y\n\n    z: {SECRET}\n  u: v", f"a:\n  auth: {MASK}\n  u: v"),
            (f'"password":\n  x: {SECRET}\nuser: u', f'"password":\n  {MASK}\nuser: u'),
            (f'"password":\n  "x": {SECRET}\nuser: u', f'"password":\n  {MASK}\nuser: u'),
            (f"secret: >-\n  a\n\n  {SECRET}\nuser: u", f"secret: {MASK}user: u"),
            (f"x:\n  secret: |\n    {SECRET}\n  user: u", f"x:\n  secret: {MASK}  user: u"),
            (f"password: !vault |\n  {SECRET}\nuser: u", f"password: {MASK}user: u"),
            # Composed words of a shell
            (f'TOKEN=abc"{SECRET}" ls', f"TOKEN={MASK} ls"),
            (f"TOKEN=abc\" d {SECRET}\"e'f g' ls", f"TOKEN={MASK} ls"),
            (f"TOKEN=a'b c'$'d {SECRET}'; ls", f"TOKEN={MASK}; ls"),
            (f'echo "TOKEN={SECRET}" "seen"', f'echo "TOKEN={MASK}" "seen"'),
            (f'{{"a":"TOKEN={SECRET}","b":"seen"}}', f'{{"a":"TOKEN={MASK}","b":"seen"}}'),
            (f'echo "it\'s TOKEN={SECRET}" seen "x"', f'echo "it\'s TOKEN={MASK}" seen "x"'),
            (f"x --token abc'd {SECRET}' -v", f"x --token {MASK} -v"),
            # Users and settings files
            (f"curl -u 'admin:a {SECRET}' x", f"curl -u 'admin:{MASK}' x"),
            (f'{{"c":"curl -u \\"u:a {SECRET}\\" x"}}', f'{{"c":"curl -u \\"u:{MASK}\\" x"}}'),
            ("curl -u admin x", "curl -u admin x"),
            (
                f"cat > .env <<EOF\nPASSWORD=a {SECRET}\nTOKEN='b {SECRET}'\nUSER=u v\nEOF\nTOKEN=x ls",
                f"cat > .env <<EOF\nPASSWORD={MASK}\nTOKEN='{MASK}'\nUSER=u v\nEOF\nTOKEN={MASK} ls",
            ),
            (
                f"<<-'E'\n\texport API_KEY=a {SECRET}\n\tE\nls",
                f"<<-'E'\n\texport API_KEY={MASK}\n\tE\nls",
            ),
        ],
    )
    def test_multipart_values_are_masked_completely(self, text: str, shown: str) -> None:
        """Elements, line blocks, composed words and heredocs are masked completely, all else stays."""
        assert R.text(text) == shown
        assert R.text(shown) == shown

    @pytest.mark.parametrize(
        "text",
        [
            "if not password:\n    raise ValueError\n",
            "class Token:\n    kind: str\n",
            "mysql -p <password> -h host",
            "usage: x <token> [options]",
            "<token></token> <secret/> <auth>null</auth>",
            "the password is not told <here>",
            "tokens:\n  a: b",
        ],
    )
    def test_harmless_lookalikes_are_unchanged(self, text: str) -> None:
        """Code, usage lines and empty elements come back as the same object."""
        assert R.text(text) is text

    @pytest.mark.parametrize("depth", [1, 2, 3])
    def test_json_in_json(self, depth: int) -> None:
        """JSON within JSON strings is recognized at any depth."""
        text = json.dumps({"password": f'a"{SECRET}', "list": {"secrets": [f"]'{SECRET}"]}, "n": "seen"})
        for _ in range(depth):
            text = json.dumps({"said": text, "last": "seen"})
        shown = R.text(text)
        assert SECRET not in shown
        assert shown.count("seen") == depth + 1

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "nothing to hide",
            "./deploy prod --env=staging",
            "a = b: c",
            '{"a": "b", "max_tokens": 500}',
            "http://127.0.0.1:8080/x?y=z",
            "if tokens == 5: return",
            f"PASSWORD={MASK}",
            f'{{"password": "{MASK}"}}',
        ],
    )
    def test_text_without_secrets_is_same_object(self, text: str) -> None:
        """Without masked content the same object comes back, so nothing is copied."""
        assert R.text(text) is text
        value: JsonValue = [text, {"x": text, "y": [text, 1, None]}]
        assert R.value(value) is value
