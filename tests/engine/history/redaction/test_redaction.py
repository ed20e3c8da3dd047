"""Values that are masked, values that are not, and no other changes."""

from __future__ import annotations

import json

import pytest
from pydantic import JsonValue

from interlock.engine.history.redaction.redaction import MASK, NAMES

from ..support.made_secrets import SECRET, WORDS, R, Sizeless, run


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
    def test_telling_name_masks_its_value(self, name: str) -> None:
        """A name that ends with a telling word masks its value, in any spelling."""
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
    def test_similar_name_masks_nothing(self, name: str) -> None:
        """A name that only contains such letters masks nothing: the same object comes back."""
        value: dict[str, JsonValue] = {name: SECRET, "n": 5}
        assert R.fields(value) is value

    def test_masked_or_empty_value_is_unchanged(self) -> None:
        """A masked or empty value under a telling name comes back as the same object."""
        value: dict[str, JsonValue] = {"token": f"{MASK}", "auth": {"a": "", "b": [None, True]}}
        assert R.fields(value) is value

    def test_additional_names_can_be_given(self) -> None:
        """Additional names can be given; the known ones still apply."""
        mine = Sizeless(["customer id", "Pin", "", "--"])
        assert mine.fields({"customerId": 7, "pin": "0000", "pins": 1, "token": "t"}) == {
            "customerId": MASK,
            "pin": MASK,
            "pins": 1,
            "token": MASK,
        }

    def test_nested_values_are_masked(self) -> None:
        """Nested texts and numbers are masked; booleans and null are not."""
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

    def test_lists_of_name_and_value_are_recognized(self) -> None:
        """Lists of name and value, and words of a command, are recognized."""
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
    def test_different_keys_for_the_name_are_recognized(self, names: tuple[str, str], held: str) -> None:
        """Different keys for the name are recognized."""
        name, value = names
        assert R.value([{name: "DB_PASSWORD", value: SECRET}]) == [{name: "DB_PASSWORD", held: MASK}]
        plain: list[JsonValue] = [{name: "HOME", value: SECRET}]
        assert R.value(plain) is plain

    def test_name_value_pairs_are_recognized(self) -> None:
        """A list of name-value pairs, such as headers, is recognized; a list of two names is not."""
        shown = R.value({"headers": [["Authorization", SECRET], ["Accept", "x"]]})
        assert shown == {"headers": [["Authorization", MASK], ["Accept", "x"]]}
        plain: dict[str, JsonValue] = {"required": ["password", "email"], "rows": [["a", "b"], ["c"]]}
        assert R.value(plain) is plain

    def test_curl_user_password_is_masked(self) -> None:
        """The password in curl's user option is masked; other programs' options of that name are not."""
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
    def test_secret_in_member_name_is_masked(self, name: str, shown: str) -> None:
        """A secret in the name of a member is masked."""
        assert R.fields({name: 1}) == {shown: 1}
        assert R.value({"a": [{name: SECRET, "b": 2}]}) == {"a": [{shown: SECRET, "b": 2}]}

    def test_equally_masked_names_stay_separate(self) -> None:
        """Members whose masked names would be equal stay separate, so that none is hidden."""
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
    def test_key_is_masked_anywhere_in_text(self, key: str, near: str) -> None:
        """A key is masked anywhere in a text; a similar text is not."""
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
        """A PEM private key is masked completely, even if truncated; a public key is not."""
        body = end.join([run(64), run(64), run(20) + "=="])
        key = f"-----BEGIN {kind}PRIVATE KEY-----{end}{body}{end}-----END {kind}PRIVATE KEY-----"
        assert R.text(f"before {key} after") == f"before {MASK} after"
        assert R.text(f"before {key[:100]}") == f"before {MASK}"
        public = key.replace("PRIVATE", "PUBLIC")
        assert R.text(public) is public

    def test_pgp_private_key_is_masked(self) -> None:
        """A PGP private key is masked."""
        key = f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{run(64)}\n-----END PGP PRIVATE KEY BLOCK-----"
        assert R.text(key) == MASK
