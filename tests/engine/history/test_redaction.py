"""What is masked, what is not, and that masking does nothing else."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.engine.history.chain import CONTENT
from interlock.engine.history.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalGiven,
    ApprovalWithdrawn,
    CallResult,
    EventBody,
    GrantGiven,
    GrantRevoked,
    LimitRaised,
    MessageAdded,
    MessageQueued,
    MessageWithdrawn,
    ModeChanged,
    NetToggled,
    SessionOpened,
    SessionResumed,
    SessionStatus,
    StepEnded,
)
from interlock.engine.history.flow import FlowStepped
from interlock.engine.history.parts import CallRecord, GrantRecord
from interlock.engine.history.redaction import MASK, NAMES, Redaction
from interlock.engine.records import net_record
from tests.engine.history.recording import approval, asks, decided, recorded, request, result

R = Redaction()
SECRET = "correct-horse-9"
WORDS = "abcdefghijklmnopqrstuvwxyz"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def run(length: int, of: str = LETTERS) -> str:
    """A made-up key's random part."""
    return (of * (length // len(of) + 1))[:length]


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            *NAMES,
            "dbPassword",
            "DB_PASSWORD",
            "X-Api-Key",
            "apiKey",
            "APIKey",
            "api_key_2",
            "password1",
            "aws.secret.access.key",
            "AWS_SECRET_ACCESS_KEY",
            "accessToken",
            "refresh_token",
            "PGPASSWORD",
            "authtoken",
            "clientsecret",
            "--db-password",
            "Set-Cookie",
            "proxyAuthorization",
        ],
    )
    def test_telling(self, name: str) -> None:
        """A name that ends with a telling word says what is under it, however it is written."""
        assert R.fields({name: SECRET}) == {name: MASK}

    @pytest.mark.parametrize(
        "name",
        [
            "max_tokens",
            "input_tokens",
            "tokenizer",
            "author",
            "secretary",
            "passwords_file",
            "token_count",
            "keyboard",
            "key",
            "path",
            "authors",
            "compass",
            "",
            "123",
            "é",
        ],
    )
    def test_not_telling(self, name: str) -> None:
        """A name that only has such letters in it hides nothing: the very same object comes back."""
        value: dict[str, JsonValue] = {name: SECRET, "n": 5}
        assert R.fields(value) is value

    def test_masked_already(self) -> None:
        """What is masked, or empty, under a telling name comes back as the very same object."""
        value: dict[str, JsonValue] = {"token": f"{MASK}", "auth": {"a": "", "b": [None, True]}}
        assert R.fields(value) is value

    def test_names_of_ones_own(self) -> None:
        """Others can be named; those that are known stay."""
        mine = Redaction(["customer id", "Pin", "", "--"])
        assert mine.fields({"customerId": 7, "pin": "0000", "pins": 1, "token": "t"}) == {
            "customerId": MASK,
            "pin": MASK,
            "pins": 1,
            "token": MASK,
        }

    def test_all_below_a_telling_name(self) -> None:
        """Texts and numbers in any nesting are hidden; what can only be yes, no or nothing is not."""
        value: dict[str, JsonValue] = {
            "credentials": {
                "user": "u",
                "list": ["a", 1, 2.5, None, True, {"x": "y", "z": False}],
                "e": "",
            },
            "use_token": True,
            "plain": [{"deep": [{"password": 12345678}]}],
        }
        assert R.value(value) == {
            "credentials": {
                "user": MASK,
                "list": [MASK, MASK, MASK, None, True, {"x": MASK, "z": False}],
                "e": "",
            },
            "use_token": True,
            "plain": [{"deep": [{"password": MASK}]}],
        }

    def test_names_beside_values(self) -> None:
        """Lists of names and values, and words of a command, are understood."""
        assert R.value([{"name": "API_KEY", "value": "v"}, {"name": "HOME", "value": "h"}]) == [
            {"name": "API_KEY", "value": MASK},
            {"name": "HOME", "value": "h"},
        ]
        assert R.value(["mysql", "--password", "p", "--user", "u", "--token", "--quiet"]) == [
            "mysql",
            "--password",
            MASK,
            "--user",
            "u",
            "--token",
            "--quiet",
        ]

    @pytest.mark.parametrize(
        ("names", "held"),
        [
            (("Name", "Value"), "Value"),
            (("Key", "Value"), "Value"),
            (("field", "value"), "value"),
            (("header", "value"), "value"),
            (("variable", "value"), "value"),
        ],
    )
    def test_other_names_of_names(self, names: tuple[str, str], held: str) -> None:
        """Programs say a name under different names."""
        name, value = names
        assert R.value([{name: "DB_PASSWORD", value: SECRET}]) == [{name: "DB_PASSWORD", held: MASK}]
        plain: list[JsonValue] = [{name: "HOME", value: SECRET}]
        assert R.value(plain) is plain

    def test_pairs(self) -> None:
        """A list of names with their values, as headers are given; not a list of two names."""
        shown = R.value({"headers": [["Authorization", SECRET], ["Accept", "x"]]})
        assert shown == {"headers": [["Authorization", MASK], ["Accept", "x"]]}
        plain: dict[str, JsonValue] = {"required": ["password", "email"], "rows": [["a", "b"], ["c"]]}
        assert R.value(plain) is plain

    def test_users_as_words(self) -> None:
        """A user's password behind an option of curl, which other programs have for other things."""
        assert R.value(["curl", "-u", f"bob:{SECRET}", "x"]) == ["curl", "-u", f"bob:{MASK}", "x"]
        for plain in (["curl", "-u", "bob"], ["docker", "run", "-u", "1000:1000"]):
            assert R.value(plain) is plain  # pyright: ignore[reportArgumentType]

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("ghp_" + run(36), MASK),
            (f"https://bob:{SECRET}@host/", f"https://bob:{MASK}@host/"),
            (f"password={SECRET}", f"password={MASK}"),
            (f"Bearer {SECRET}", f"Bearer {MASK}"),
            (json.dumps({"token": SECRET}), json.dumps({"token": MASK})),
        ],
    )
    def test_in_a_name(self, name: str, shown: str) -> None:
        """A secret is hidden where it is in the name of a member, too."""
        assert R.fields({name: 1}) == {shown: 1}
        assert R.value({"a": [{name: SECRET, "b": 2}]}) == {"a": [{shown: SECRET, "b": 2}]}

    def test_names_alike_behind_their_masks(self) -> None:
        """Two members stay two, so that nobody approves less than there is."""
        shown = R.fields({f"token={n}{SECRET}": n for n in range(3)})
        assert list(shown.values()) == [0, 1, 2]
        assert SECRET not in str(shown)


class TestFormats:
    @pytest.mark.parametrize(
        ("key", "near"),
        [
            ("AKIA" + run(16), "AKIA" + run(15)),
            ("ASIA" + run(16), "ASIA" + run(17)),
            ("AIza" + run(35, WORDS), "AIza" + run(20, WORDS)),
            ("ghp_" + run(36), "ghp_" + run(10)),
            ("gho_" + run(36), "ghx_" + run(36)),
            ("ghs_" + run(36), "highs_" + run(9)),
            ("github_pat_" + run(60), "github_pattern_" + run(4)),
            ("glpat-" + run(20), "glpat-" + run(8)),
            ("hf_" + run(34, WORDS), "hf_hub_download"),
            ("npm_" + run(36), "npm_config_registry"),
            ("pypi-" + run(60), "pypi-server"),
            ("sk_live_" + run(24), "sk_live_" + run(5)),
            ("rk_test_" + run(24), "sk_testing_things"),
            ("sk-" + run(48, WORDS), "sk-learn"),
            ("sk-ant-api03-" + run(40, WORDS), "task-management-of-software"),
            ("sk-proj-" + run(40, WORDS), "risk-assessment-of-everything"),
            ("SG." + run(22) + "." + run(43), "SG.example.com"),
            ("gsk_" + run(52), "gsk_label_view"),
            ("xai-" + run(80), "xai-tools"),
            ("whsec_" + run(32), "whsec_" + run(8)),
            ("shpat_" + run(32, "abcdef0123"), "shpat_table"),
            ("dop_v1_" + run(64, "abcdef0123"), "dop_v1_" + run(64)),
            ("dckr_pat_" + run(27), "dckr_pat_" + run(9)),
            ("AGE-SECRET-KEY-1" + run(58), "AGE-SECRET-KEY-1" + run(9)),
            ("hvs." + run(24), "hvs.example.com"),
            ("ya29." + run(60), "ya29.com"),
            ("123456789:AA" + run(33), "12:34:AAB"),
            ("xoxb-" + "1234567890-" + run(20), "xox-box"),
            ("eyJ" + run(20) + "." + run(30) + "." + run(20), "eyJ"),
            ("eyJ" + run(20) + "." + run(30) + ".", "keyJumble.of.words"),
        ],
    )
    def test_by_its_look(self, key: str, near: str) -> None:
        """A key is hidden wherever it stands; what only looks a little like one stays."""
        for text in ("{}", "see {} there", "{},", "'{}'", "x={}", "a/{}/b", "line\\n{}\\nline", "_{}_"):
            if "_{}" in text and key.startswith("eyJ"):
                continue
            shown = R.text(text.format(key))
            assert key not in shown, text
            assert MASK in shown
            assert R.text(text.format(near)) == text.format(near)

    @pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
    @pytest.mark.parametrize("end", ["\n", "\\n"])
    def test_private_keys(self, kind: str, end: str) -> None:
        """A private key in PEM is hidden whole, also one that is cut off; a public one is not."""
        body = end.join([run(64), run(64), run(20) + "=="])
        key = f"-----BEGIN {kind}PRIVATE KEY-----{end}{body}{end}-----END {kind}PRIVATE KEY-----"
        assert R.text(f"before {key} after") == f"before {MASK} after"
        assert R.text(f"before {key[:100]}") == f"before {MASK}"
        public = key.replace("PRIVATE", "PUBLIC")
        assert R.text(public) is public

    def test_pgp(self) -> None:
        """So is one of PGP."""
        key = f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{run(64)}\n-----END PGP PRIVATE KEY BLOCK-----"
        assert R.text(key) == MASK


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
    def test_forms(self, text: str, shown: str) -> None:
        """Values that a text gives to a telling name are hidden, and nothing around them."""
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
            # Words of a shell that are put together
            (f'TOKEN=abc"{SECRET}" ls', f"TOKEN={MASK} ls"),
            (f"TOKEN=abc\" d {SECRET}\"e'f g' ls", f"TOKEN={MASK} ls"),
            (f"TOKEN=a'b c'$'d {SECRET}'; ls", f"TOKEN={MASK}; ls"),
            (f'echo "TOKEN={SECRET}" "seen"', f'echo "TOKEN={MASK}" "seen"'),
            (f'{{"a":"TOKEN={SECRET}","b":"seen"}}', f'{{"a":"TOKEN={MASK}","b":"seen"}}'),
            (f'echo "it\'s TOKEN={SECRET}" seen "x"', f'echo "it\'s TOKEN={MASK}" seen "x"'),
            (f"x --token abc'd {SECRET}' -v", f"x --token {MASK} -v"),
            # Users and files of settings
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
    def test_forms_of_several_parts(self, text: str, shown: str) -> None:
        """Elements, blocks of lines, glued words and heredocs are hidden whole, nothing around them."""
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
    def test_what_only_looks_so(self, text: str) -> None:
        """Code, usage lines and empty elements come back as the very same object."""
        assert R.text(text) is text

    @pytest.mark.parametrize("depth", [1, 2, 3])
    def test_json_in_json(self, depth: int) -> None:
        """JSON in the strings of JSON is understood, however deep."""
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
    def test_the_same_object(self, text: str) -> None:
        """Where nothing is hidden the very same object comes back, so nothing is copied."""
        assert R.text(text) is text
        value: JsonValue = [text, {"x": text, "y": [text, 1, None]}]
        assert R.value(value) is value


SECRETS = st.text("abcdefXYZ0189+/._~-", min_size=12, max_size=40).filter(lambda s: s[0].isalnum())
ANY_SECRETS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=12, max_size=40
).filter(lambda s: s.strip() == s and len(set(s)) > 6 and s[0] != "-" and MASK not in s)
TELLING = st.sampled_from(
    ["password", "api_key", "X-Api-Key", "accessToken", "DB_PASSWORD", "client-secret", "auth"]
)


def glued(secret: str) -> str:
    """The secret as a word of a shell that is put together of all kinds of parts."""
    third = len(secret) // 3
    double = secret[third : 2 * third]
    for character in '\\"$`':
        double = double.replace(character, f"\\{character}")
    bare = "".join(c if c.isalnum() or not c.isascii() else f"\\{c}" for c in secret[:third])
    single = secret[2 * third :].replace("'", "'\\''")
    return f"{bare}\"{double}\"'{single}'"


def escaped(secret: str) -> str:
    return secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


FORMS: tuple[Callable[[str, str], str], ...] = (
    lambda name, secret: json.dumps({name: secret}),
    lambda name, secret: json.dumps({name: [secret, {"x": secret}]}, indent=1),
    lambda name, secret: json.dumps({"out": json.dumps({"a": 1, name: secret})}),
    lambda name, secret: json.dumps({name: secret}, ensure_ascii=False),
    lambda name, secret: f"{name}={shlex.quote(secret)} run",
    lambda name, secret: f"run --{name} {shlex.quote(secret)} now",
    lambda name, secret: f"run --{name}={shlex.quote(secret)}",
    lambda name, secret: f"<{name}>{escaped(secret)}</{name}>",
    lambda name, secret: f"<a>\n <x:{name} type='t'>\n{escaped(secret)}\n </x:{name}>\n</a>",
    lambda name, secret: f"<{name}><deep>{escaped(secret)}</deep></{name}>",
    lambda name, secret: f"{name}:\n  deep:\n  - {json.dumps(secret, ensure_ascii=False)}\nnext: 1",
    lambda name, secret: f"a:\n- {name}:\n    x: {secret}\n\n    y: {secret}\n  next: 1",
    lambda name, secret: f"{name}: |\n  first\n\n  {secret}\nnext: 1",
    lambda name, secret: f"export {name}={glued(secret)} ; run",
    lambda name, secret: f"run --{name} {glued(secret)} now",
    lambda name, secret: f"cat > .env <<'EOF'\n{name}={secret}\nEOF\nrun",
    lambda name, secret: f"curl -u {shlex.quote(f'user:{secret}')} --next",
)


def nested(name: str, secret: str, path: list[str | int]) -> JsonValue:
    """The secret under its name, in objects and lists."""
    value: JsonValue = {name: secret}
    for step in path:
        value = {step: value} if isinstance(step, str) else [None] * (step % 3) + [value]
    return value


def exact_grant() -> GrantRecord:
    """A grant for one input."""
    net = net_record("grant-1", approval("t"))
    return GrantRecord(
        key="grant-1", net=net, asks="n", asked="t", tool="t", names=("t",), exact=True, since=0.0
    )


def events(text: str, value: dict[str, JsonValue]) -> list[EventBody]:
    """One of each kind of event, with `text` and `value` in every field of its content."""
    call = CallRecord(call_id="c", tool="t", input=value, malformed=text)
    asked = request("a", "c", "t").model_copy(
        update={
            "input": value,
            "title": text,
            "message": text,
            "uninspectable": text,
            "preview": text,
        }
    )
    return [
        SessionOpened(agent="a", model="m", mode="enforce", source=value),
        SessionResumed(agent="a", model="m", mode="enforce", source=value),
        SessionStatus(status="failed", error=text, by="ben"),
        asks(("c", "t"), text=text).model_copy(update={"calls": (call, call)}),
        MessageAdded(role="tool", text=text, call_id="c", tool="t", input=value),
        MessageQueued(message_id="m", mode="queue", text=text),
        MessageWithdrawn(message_id="m", reason=text),
        StepEnded(finish_reason="stop"),
        decided("c", "t", input=value, reason=text),
        result("c", "t", output=text, anomaly=text),
        asked,
        ApprovalDecided(approval_id="a", call_id="c", approved=False, by="ben", reason=text, input=value),
        ApprovalWithdrawn(approval_id="a", call_id="c", reason=text),
        ApprovalExpired(approval_id="a", call_id="c", reason=text),
        ApprovalGiven(approval_id="a", call_id="c", by="ben"),
        ApprovalExtended(approval_id="a", call_id="c", until=None, by="ben"),
        GrantGiven(grant=exact_grant(), by="ben", input=value),
        GrantRevoked(key="grant-1", by="ben"),
        NetToggled(net="n", active=True, by="ben", message=text),
        ModeChanged(mode="shadow", by="ben"),
        LimitRaised(max_cost=5, by="ben"),
        FlowStepped(step=1, node="A", live=("B",), output=value),
    ]


class TestEvents:
    def test_one_of_each(self) -> None:
        """The examples below have every kind of event and every field that may hold content."""
        kinds = set(get_args(get_args(EventBody)[0]))
        found = events("x", {"x": 1})
        assert {type(body) for body in found} == kinds
        for kind in kinds:
            examples = [body for body in found if type(body) is kind]
            for name in kind.model_fields.keys() & CONTENT:
                assert any(getattr(body, name) for body in examples), (kind, name)

    @settings(max_examples=150, deadline=None)
    @given(
        SECRETS,
        TELLING,
        st.lists(st.text(max_size=3) | st.integers(0, 2), max_size=5),
        st.sampled_from(FORMS),
    )
    def test_nothing_leaks(
        self,
        secret: str,
        name: str,
        path: list[str | int],
        form: Callable[[str, str], str],
    ) -> None:
        """LAW: a secret under a telling name is in no masked event, whatever it is nested in."""
        value: dict[str, JsonValue] = {"outer": nested(name, secret, path)}
        for body in events(form(name, secret), value):
            shown = R.body(body)
            if secret in body.model_dump_json():
                assert shown is not body
            assert secret not in shown.model_dump_json()

    @settings(max_examples=200, deadline=None)
    @given(ANY_SECRETS, TELLING, st.sampled_from(FORMS))
    @example("0000\xa000000012345", "password", FORMS[-4])
    @example("=00000;01234", "password", FORMS[-2])
    def test_no_part_leaks(self, secret: str, name: str, form: Callable[[str, str], str]) -> None:
        """LAW: of a secret of any characters, quoted as JSON or a shell wants it, not even parts stay."""
        shown = R.text(form(name, secret))
        parts = [secret[at : at + 6] for at in range(len(secret) - 5)]
        harmless = form(name, "")
        assert not [part for part in parts if part in shown and part not in harmless]

    @settings(max_examples=60, deadline=None)
    @given(SECRETS, TELLING, st.sampled_from(FORMS))
    def test_facts_stay(self, secret: str, name: str, form: Callable[[str, str], str]) -> None:
        """LAW: of no event a fact changes, whose hash would then be another."""
        for body in events(form(name, secret), {name: secret}):
            before, after = (
                {k: v for k, v in b.model_dump().items() if k not in CONTENT}
                for b in (body, R.body(body))
            )
            assert before == after
            for was, now in zip(
                getattr(body, "calls", ()), getattr(R.body(body), "calls", ()), strict=True
            ):
                assert (was.call_id, was.tool) == (now.call_id, now.tool)

    def test_the_same_object(self) -> None:
        """An event in which nothing is hidden comes back itself."""
        for event in recorded(*events("nothing to hide", {"path": "a", "n": [1, None, {"x": "y"}]})):
            assert R.event(event) is event
            assert R.body(event.body) is event.body
        (event,) = recorded(events(f"PASSWORD={SECRET}", {})[9])
        assert isinstance(event.body, CallResult)
        assert R.event(event).body.model_dump()["output"] == f"PASSWORD={MASK}"
        assert R.event(event).model_dump(exclude={"body"}) == event.model_dump(exclude={"body"})


PIECES = st.sampled_from(
    [
        "password",
        "token",
        "auth",
        "x",
        "=",
        ": ",
        ":",
        "=>",
        " ",
        "--",
        "-u a:b",
        "curl",
        '"',
        "'",
        '\\"',
        '\\\\\\"',
        "\\",
        "\\n",
        "\n",
        "{",
        "}",
        "[",
        "]",
        ",",
        "|\n  ",
        MASK,
        "Bearer abcdefgh",
        "basic dXNlcjpw",
        "://u:p@h",
        "sk-" + run(20),
        "-----BEGIN PRIVATE KEY-----",
        "null",
        "7",
        "&",
        ";",
        "<password>",
        "</password>",
        "<a token",
        "<",
        "/>",
        "> ",
        "value='v'",
        "\npassword:\n",
        "\n  x: y\n",
        "\n- ",
        "#",
        "<<EOF\n",
        "\nEOF\n",
        "AKIA" + "A" * 16,
        "é",
    ]
)


class TestNothingElse:
    @settings(max_examples=300, deadline=None)
    @given(st.text(st.sampled_from("abz XYZ019=:-_.<>/\"'\\\n{}[],|&;#@$"), max_size=80))
    def test_the_same_object(self, text: str) -> None:
        """LAW: a text without telling names, keys, users and addresses comes back itself."""
        assert R.text(text) is text

    @settings(max_examples=100, deadline=None)
    @given(st.lists(PIECES, max_size=14).map("".join))
    def test_around(self, text: str) -> None:
        """LAW: what stands on lines of its own before and after a text is neither hidden nor changed."""
        assert R.text(f"seen here\n{text}").startswith("seen here\n")


class TestAgain:
    @settings(max_examples=400, deadline=None)
    @given(st.lists(PIECES, max_size=14).map("".join))
    def test_twice_is_once(self, text: str) -> None:
        """LAW: what was masked stays as it is when it is masked again, be it the worst of texts."""
        once = R.text(text)
        assert R.text(once) == once

    @settings(max_examples=100, deadline=None)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.lists(PIECES, max_size=5).map("".join),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=3),
            max_leaves=8,
        )
    )
    def test_values(self, value: JsonValue) -> None:
        """LAW: so do values, which come back themselves then."""
        once = R.value(value)
        assert R.value(once) == once
