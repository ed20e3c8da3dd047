"""Keys recognised by their format, anywhere in a text."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from ..random_words import looks_random
from ..shell.options import PASSWORD_SIGNS, password_options
from ..shell.pipes import here_string_passwords, piped_passwords, sent_passwords
from ..spans import Masking, Span
from .private_keys import bare_keys, private_keys, putty_keys


def _key(mark: str, pattern: str) -> str:
    """Return a pattern for a key that begins with `mark`, at a word's start or after an escaped newline.

    What precedes the mark is tested by a lookbehind after it, because a pattern that begins with plain
    text is found fast.
    """
    literal = re.escape(mark)
    return rf"{literal}(?:(?<![A-Za-z0-9]{literal})|(?<=\\[nrt]{literal})){pattern}"


_BEFORE_WORDS = ("=", "=[\"']", ": ", ": [\"']", '": "', " is ")
_MNEMONIC = (
    f"(?:{'|'.join(rf'(?<=(?i:mnemonic){sign})' for sign in _BEFORE_WORDS)})"
    r"(?:[a-z]{3,8} ){11,23}[a-z]{3,8}\b"
)
"""The words from which a wallet derives its key."""
_KEY_FORMATS: Mapping[str, Mapping[str, str]] = {
    "-": {
        # glpat-, gldt-, glrt-, glcbt-, glptt-, glft-, glimt-, glagent-, glsoat-, gloas-
        "gl": _key("gl", r"(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas)-[A-Za-z0-9_.-]{20,}"),
        "pypi-": _key("pypi-", r"[A-Za-z0-9_-]{30,}"),
        "sk-": _key("sk-", r"[A-Za-z0-9_-]{16,}"),
        "xai-": _key("xai-", r"[A-Za-z0-9]{40,}"),
        "GOCSPX-": _key("GOCSPX-", r"[A-Za-z0-9_-]{20,}"),
        "HRKU-": _key("HRKU-", r"[A-Za-z0-9_-]{12,}"),
        "NRAK-": _key("NRAK-", r"[A-Z0-9]{20,}"),
        "PMAK-": _key("PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
        "key-": _key("key-", r"[0-9a-f]{32}(?![0-9a-f])"),
        "nvapi-": _key("nvapi-", r"[A-Za-z0-9_-]{40,}"),
        "pa-": _key("pa-", r"(?=[A-Za-z_-]*[0-9])(?=[a-z0-9_-]*[A-Z])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),
        "pat-": _key("pat-", r"(?:na|eu)[0-9]-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        "pplx-": _key("pplx-", r"[A-Za-z0-9]{40,}"),
        "pul-": _key("pul-", r"[a-f0-9]{40}"),
        "sq0": _key("sq0", r"(?:atp|csp|idp)-[A-Za-z0-9_-]{22,}"),
        "tskey-": _key("tskey-", r"[a-z]{3,12}-[A-Za-z0-9-]{16,}"),
        "tvly-": _key("tvly-", r"[A-Za-z0-9_-]{20,}"),
        "xapp-": _key("xapp-", r"[0-9]-[A-Z0-9]+-[0-9]+-[A-Za-z0-9]{20,}"),
        "xkeysib-": _key("xkeysib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
        "CFPAT-": _key("CFPAT-", r"[A-Za-z0-9_-]{40,}"),
        "FLWSECK": _key("FLWSECK", r"(?:_TEST)?-[0-9a-f]{32}-X"),
        "NRI": _key("NRI", r"[IQ]-[A-Za-z0-9_-]{30,}"),
        "SWMTKN-1-": _key("SWMTKN-1-", r"[a-z0-9]{40,}-[a-z0-9]{20,}"),
        "access-": _key(
            "access-", r"(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
        ),
        "csk-": _key("csk-", r"[A-Za-z0-9]{40,}"),
        "fio-u-": _key("fio-u-", r"[A-Za-z0-9_-]{60,}"),
        "sdk-": _key("sdk-", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        "AGE-SECRET-KEY-1": _key("AGE-SECRET-KEY-1", r"[A-Z0-9]{40,}"),
        "xox": _key("xox", r"[abcdeoprs](?:\.xox[bp])?-[A-Za-z0-9%/+-]{10,}"),
    },
    "_": {
        "gh": _key("gh", r"[pousr]_[A-Za-z0-9]{20,}"),
        "github_pat_": _key("github_pat_", r"[A-Za-z0-9_]{20,}"),
        "hf_": _key("hf_", r"[A-Za-z0-9]{30,}"),
        "npm_": _key("npm_", r"[A-Za-z0-9]{30,}"),
        "k_live_": r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))[rs]k_live_[A-Za-z0-9]{16,}",
        "k_test_": r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))[rs]k_test_[A-Za-z0-9]{16,}",
        "gsk_": _key("gsk_", r"[A-Za-z0-9]{40,}"),
        "whsec_": _key("whsec_", r"[A-Za-z0-9+/]{20,}=*"),
        "shp": _key("shp", r"(?:at|ca|pa|ss)_[A-Fa-f0-9]{32,}"),
        "_v1_": _key("do", r"[opr]_v1_[a-f0-9]{40,}"),
        "dckr_": _key("dckr_", r"[po]at_[A-Za-z0-9_-]{20,}"),
        "ilk_": _key("ilk_", r"(?:[a-z]{3,12}_)?[A-Za-z0-9_-]{16,}"),
        "CCIPAT_": _key("CCIPAT_", r"[A-Za-z0-9]{10,}_[a-f0-9]{40}"),
        "CLOJARS_": _key("CLOJARS_", r"[a-f0-9]{58,}"),
        "aio_": _key("aio_", r"[A-Za-z0-9]{26,}"),
        "duffel_": _key("duffel_", r"(?:live|test)_[A-Za-z0-9_-]{40,}"),
        "fw_": _key("fw_", r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}"),
        "live_": _key("live_", r"[0-9a-f]{35}(?![0-9A-Za-z])"),
        "napi_": _key("napi_", r"[A-Za-z0-9]{40,}"),
        "ph": _key("ph", r"[xs]_[A-Za-z0-9]{40,}"),
        "pnu_": _key("pnu_", r"[A-Za-z0-9]{36}"),
        "rdme_": _key("rdme_", r"[a-z0-9]{60,}"),
        "re_": _key("re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
        "rootly_": _key("rootly_", r"[a-f0-9]{64}"),
        "rzp_": _key("rzp_", r"(?:live|test)_[A-Za-z0-9]{14,}"),
        "sb_secret_": _key("sb_secret_", r"[A-Za-z0-9_-]{20,}"),
        "snyk_": _key("snyk_", r"[us]at\.[A-Za-z0-9]{8}\.[A-Za-z0-9_.-]{20,}"),
        "sq": _key("sq", r"[aup]_[a-f0-9]{40}"),
        "tfp_": _key("tfp_", r"[A-Za-z0-9_-]{40,}"),
        "vercel_blob_rw_": _key("vercel_blob_rw_", r"[A-Za-z0-9]{10,}_[A-Za-z0-9]{20,}"),
        "wandb_v1_": _key("wandb_v1_", r"[A-Za-z0-9_]{30,}"),
        "bkua_": _key("bkua_", r"[a-f0-9]{40}"),
        "figd_": _key("figd_", r"[A-Za-z0-9_-]{30,}"),
        "fo1_": _key("fo1_", r"[A-Za-z0-9_-]{40,}"),
        "fm2_": _key("fm2_", r"[A-Za-z0-9+/=_-]{40,}"),
        "glc_": _key("glc_", r"[A-Za-z0-9+/]{32,}={0,2}"),
        "glsa_": _key("glsa_", r"[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
        "lin_": _key("lin_", r"(?:api|oauth)_[A-Za-z0-9]{32,}"),
        "lsv2_": _key("lsv2_", r"[ps][kt]_[a-f0-9]{32}_[a-f0-9]{10}"),
        "nfp_": _key("nfp_", r"[A-Za-z0-9]{36,}"),
        "ntn_": _key("ntn_", r"[A-Za-z0-9]{40,}"),
        "ops_eyJ": _key("ops_eyJ", r"[A-Za-z0-9+/_-]{40,}={0,2}"),
        "pcsk_": _key("pcsk_", r"[A-Za-z0-9_]{40,}"),
        "pscale_": _key("pscale_", r"(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}"),
        "r8_": _key("r8_", r"[A-Za-z0-9]{37}"),
        "rnd_": _key("rnd_", r"[A-Za-z0-9]{28,}"),
        "rubygems_": _key("rubygems_", r"[a-f0-9]{48}"),
        "sbp_": _key("sbp_", r"[a-f0-9]{40}"),
        "sk_": _key("sk_", r"[a-f0-9]{48}(?![A-Za-z0-9])"),
        "secret_": _key("secret_", r"[A-Za-z0-9]{43}(?![A-Za-z0-9])"),
        "sgp_": _key("sgp_", r"(?:[a-f0-9]{16}_|local_)?[a-f0-9]{40}"),
        "sntry": _key("sntry", r"[su]_[A-Za-z0-9+/=_-]{40,}"),
    },
    ".": {
        "dp.": _key("dp.", r"(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}"),
        "dt0c01.": _key("dt0c01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
        "hvr.": _key("hvr.", r"[A-Za-z0-9_-]{20,}"),
        "pat": _key("pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
        "s.": _key("s.", r"(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{24}(?![A-Za-z0-9(.])"),
        "t1.": _key("t1.", r"[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{80,}"),
        "v1.": _key("v1.", r"(?:0-[0-9a-f]{24}-[0-9a-f]{100,}|[0-9a-f]{40}(?![0-9a-f]))"),
        # A bot's number in Base64, a time and a signature.
        **{
            mark: _key(mark, r"[A-Za-z0-9_-]{22,26}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,}")
            for mark in ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT")
        },
        "hvb.": _key("hvb.", r"[A-Za-z0-9_-]{20,}"),
        ".atlasv1.": r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}",
        "hvs.": _key("hvs.", r"[A-Za-z0-9_-]{20,}"),
        "ya29.": _key("ya29.", r"[A-Za-z0-9_-]{20,}"),
        "SG.": _key("SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
        # Its first part may have hyphens: searching it after each of them would take forever in a long
        # text.
        "eyJ": (
            r"eyJ(?:(?<![A-Za-z0-9_-]eyJ)|(?<=\\[nrt]eyJ))[A-Za-z0-9_-]{7,}+"
            r"\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
        ),
    },
    "A": {
        "AKIA": _key("AKIA", r"[A-Z0-9]{16}(?![A-Z0-9])"),
        "ASIA": _key("ASIA", r"[A-Z0-9]{16}(?![A-Z0-9])"),
        "AIza": _key("AIza", r"[A-Za-z0-9_-]{30,}"),
        "ATATT3": _key("ATATT3", r"[A-Za-z0-9_=-]{20,}"),
        "AC": _key("AC", r"[0-9a-f]{32}(?![0-9A-Za-z])"),
        "ABSK": _key("ABSK", r"[A-Za-z0-9+/]{90,}={0,2}"),
        "AKID": _key("AKID", r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
        "AQVN": _key("AQVN", r"[A-Za-z0-9_-]{34,}"),
        "ATBB": _key("ATBB", r"[A-Za-z0-9]{28,}"),
        "ATCTT3": _key("ATCTT3", r"[A-Za-z0-9_=-]{20,}"),
        "AKCp": _key("AKCp", r"[A-Za-z0-9]{40,}"),
        "EAA": _key("EAA", r"(?=[A-Za-z]*[0-9])[A-Za-z0-9_-]{40,}"),
        "LTAI": _key("LTAI", r"[A-Za-z0-9]{16,24}(?![A-Za-z0-9])"),
        ":AA": r"(?:(?<=[^0-9])|\A)[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}",
    },
    "-us": {
        "-us": r"(?<![A-Za-z0-9])[0-9a-f]{32}-us[0-9]{1,2}(?![0-9a-z])",
    },
    "~": {
        "sha256~": _key("sha256~", r"[A-Za-z0-9_-]{40,}"),
        "Q~": r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.-])",
    },
    "$": {
        "access_token$": _key(
            "access_token$", r"(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}(?![0-9a-f])"
        ),
    },
    "K": {
        "EZ": _key("EZ", r"[AT]K[A-Za-z0-9]{54}(?![A-Za-z0-9])"),
        "SK": _key("SK", r"[0-9a-f]{32}(?![0-9A-Za-z])"),
    },
    "Z": {
        "AZDO": r"(?<![A-Za-z0-9])[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])",
        "b3BlbnNzaC1rZXktdjE": _key(
            "b3BlbnNzaC1rZXktdjE", r"[A-Za-z0-9+/]{20,}={0,2}(?:(?:\s|\\n)[A-Za-z0-9+/]{1,76}={0,2})*"
        ),
    },
    "J": {
        "eyJrIjoi": _key("eyJrIjoi", r"[A-Za-z0-9+/_-]{50,}={0,2}"),
        "eyJhdXRocyI6": _key("eyJhdXRocyI6", r"[A-Za-z0-9+/]{20,}={0,2}"),
    },
    "G": {
        "GR1348941": _key("GR1348941", r"[A-Za-z0-9_-]{20,}"),
        "cmVmdGtu": _key("cmVmdGtu", r"[A-Za-z0-9+/]{40,}={0,2}"),
        "dG9rO": _key("dG9rO", r"[A-Za-z0-9+/]{40,}={0,2}"),
    },
    "L": {
        # A private key in Base64 once more, as in a cluster's files; certificates do not match.
        "LS0tLS1CRUdJTi": _key(
            "LS0tLS1CRUdJTi",
            r"(?:BQUk|BSU0EgUFJJ|BFQyBQUk|BPUEVOU1NI|BFTkNSWVB|BEU0EgUFJJ|BQR1AgUFJJ)[A-Za-z0-9+/]{8,}={0,2}",
        ),
    },
    "//": {
        "1//0": _key("1//0", r"[A-Za-z0-9_-]{30,}"),
    },
    "mnemonic": dict.fromkeys(("nemonic", "NEMONIC"), _MNEMONIC),
    "dapi": {
        "dapi": _key("dapi", r"[a-h0-9]{32}(?:-[0-9])?"),
    },
}
"""Patterns by a text that each match has, grouped by a character or text: most texts lack some."""

_LONG = {
    "-": re.compile(r"-[A-Za-z0-9_=+/-]{10}"),
    "_": re.compile(r"_[A-Za-z0-9_=+/-]{16}"),
    ".": re.compile(r"\.[A-Za-z0-9_-]{8}"),
    "A": re.compile(r"A[A-Za-z0-9_-]{15}"),
}
"""Text that follows such a character in every key with it."""

_FORMATS = {
    sign: {mark: re.compile(pattern, re.DOTALL) for mark, pattern in patterns.items()}
    for sign, patterns in _KEY_FORMATS.items()
}

_BY_CHARACTER = {sign: formats for sign, formats in _FORMATS.items() if len(sign) == 1}
_BY_SIGN = {sign: formats for sign, formats in _FORMATS.items() if len(sign) > 1}

_MARKS = re.compile(
    "|".join(
        map(re.escape, (*(mark for marks in _FORMATS.values() for mark in marks), "-----BEGIN", "MI"))
    )
)
_SHORTEST = 12


@lru_cache(maxsize=1024)
def may_hold_key(name: str) -> bool:
    """Return whether a field's name may have a key of such a format in it."""
    return len(name) >= _SHORTEST and _MARKS.search(name) is not None


_SCHEMES = {
    "bearer": re.compile(r"\s{1,8}([A-Za-z0-9+/._~-]{8,}=*)"),
    "basic": re.compile(r"\s{1,8}([A-Za-z0-9+/_-]{6,}=*)"),
}
_ADDRESS = re.compile(r"(://[^\s/:@\"'\\<>]*:)[^\s/\"'\\<>]+(?=@)")
_USER = re.compile(r"://([A-Za-z0-9_-]{12,})(?=[:@])")
"""A user name that may be a key: long, or without words."""
_LONG_USER = 20
_HOOK = re.compile(
    r"(://(?:hooks\.slack\.com/[a-z]{1,20}/|(?:\w{1,10}\.)?discord(?:app)?\.com/api/webhooks/"
    r"|hooks\.zapier\.com/hooks/catch/|[\w.-]{1,60}\.webhook\.office\.com/webhookb2/"
    r"|outlook\.office\.com/webhook/"
    r"|hook\.[a-z0-9.]{1,20}\.(?:make|integromat)\.com/|[\w.-]{1,60}/open-apis/bot/v2/hook/"
    r"|webhook\.site/|hooks\.[\w.-]{1,60}/hooks?/))[A-Za-z0-9/@_-]{16,}"
)
_TRIGGER = re.compile(r"(://maker\.ifttt\.com/trigger/\w{1,64}/(?:json/)?with/key/)[A-Za-z0-9/@_-]{16,}")
_PING = re.compile(r"(://hc-ping\.com/)[A-Za-z0-9/@_-]{16,}")
_CHANNEL = re.compile(r"(://[\w.-]{1,100}/t/)[A-Za-z0-9-]{16,}(?=/)")
"""A channel of conda packages, with its access token."""
_LOGIN = re.compile(r"(://[^\s#\"'\\<>]{1,200}/login#)[A-Za-z0-9_-]{16,}")
_IN_ADDRESSES = {
    "@": _ADDRESS,
    "hook": _HOOK,
    "maker.ifttt.com": _TRIGGER,
    "hc-ping.com": _PING,
    "/login#": _LOGIN,
    "/t/": _CHANNEL,
}
"""Text before a key in an address, by a part of that text."""
_PASSWORD_LINE = re.compile(
    r"(?:^[ \t]*|[\"'])(?:[\w.-]{1,253}|\*):(?:5432|\*):(?!\d+:)[\w.*-]{1,64}:[\w.*@-]{1,64}"
    r":([^\s:\"']{4,200})"
    r"(?=[ \t\r]*$|[\"'])",
    re.MULTILINE,
)
"""A line of a `.pgpass`: host, port, database, user and password."""
_HASH = re.compile(
    r"\$(?:2[abxy]\$\d\d\$[./A-Za-z0-9]{53}"
    r"|(?:1|5|6|7|y|gy|apr1|argon2(?:id?|d))\$[^\s$:\"'\\]{1,80}(?:\$[^\s$:\"'\\]{1,80})?\$[^\s$:\"'\\,;)]{16,256})"
)
"""A password hash, which allows guessing the password offline."""
_QUERY = re.compile(
    r"[?&](?:(X-(?:Amz|Goog)-Signature|sig|signature)"
    r"|key|k|auth|code|sid|app_?id|app_?key|jwt|ticket|license|sk|credential|hash|assertion|st)"
    r"=([^\s&#\"'\\<>]+)",
    re.IGNORECASE,
)
"""Query parameters that alone grant access: a signature, or a key if it looks random."""


KEY_SIGNS = (*_BY_SIGN, *_SCHEMES, *PASSWORD_SIGNS)
"""Parts of most such keys, in lower case; most texts have none of them."""


def hide_keys(masking: Masking, signs: Collection[str]) -> bool:
    """Hide keys of known formats, and credentials in headers and addresses.

    `signs` are those of `KEY_SIGNS` that are in the text. Return whether this hid anything more.
    """
    text = masking.text
    if "B" in text and "-----BEGIN" in text:
        masking.hide(private_keys(text))
    if "P" in text and "Private-Lines" in text:
        masking.hide(putty_keys(masking.text))
    if "M" in text and (masking.text.find("MI") >= 0 or "MHcC" in text or "MC4C" in text):
        masking.hide(bare_keys(masking.text))
    for character, formats in _BY_CHARACTER.items():
        if character in text and (character not in _LONG or _LONG[character].search(masking.text)):
            _hide_formats(masking, formats)
    for sign, formats in _BY_SIGN.items():
        if sign in signs:
            _hide_formats(masking, formats)
    for scheme in _SCHEMES:
        if scheme in signs:
            masking.hide(_credentials(scheme, masking.text, masking.lower))
    masking.hide(password_options(masking.text, masking.lower, signs))
    if "|" in text:
        masking.hide(piped_passwords(masking.text))
    if "<" in text and "<<<" in text:
        masking.hide(here_string_passwords(masking.text))
    if '"' in text and "send" in text:
        masking.hide(sent_passwords(masking.text))
    if ":" in text and (":5432:" in text or ("*" in text and ":*:" in text)):
        masking.hide(match.span(1) for match in _PASSWORD_LINE.finditer(masking.text))
    if "$" in text:
        masking.hide(match.span() for match in _HASH.finditer(masking.text))
    if "//" in signs and "://" in text:
        _hide_in_addresses(masking)
    return masking.text is not text


def _hide_formats(masking: Masking, formats: Mapping[str, re.Pattern[str]]) -> None:
    text = masking.text
    for mark, pattern in formats.items():
        if mark in text:
            masking.hide(match.span() for match in pattern.finditer(masking.text))


def _hide_in_addresses(masking: Masking) -> None:
    """Hide the passwords in addresses, and what alone grants access: a key, a signature."""
    text = masking.text
    if "@" in text:
        masking.hide(
            match.span(1)
            for match in _USER.finditer(text)
            if looks_random(match[1]) or (len(match[1]) >= _LONG_USER and text[match.end()] == "@")
        )
    for sign, pattern in _IN_ADDRESSES.items():
        if sign in text:
            masking.hide((match.end(1), match.end()) for match in pattern.finditer(masking.text))
    if "=" in text and ("?" in text or "&" in text):
        queries = _QUERY.finditer(masking.text)
        masking.hide(match.span(2) for match in queries if match[1] or looks_random(match[2]))


def _credentials(scheme: str, text: str, lower: str) -> Iterator[Span]:
    """Yield the spans after `Bearer`, or after `Basic` if they are a user name with a password."""
    at = lower.find(scheme)
    while at >= 0:
        end = at + len(scheme)
        match = _SCHEMES[scheme].match(text, end)
        is_within_word = at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")
        if match is not None and not is_within_word and (scheme == "bearer" or _is_user(match[1])):
            yield match.span(1)
            end = match.end()
        at = lower.find(scheme, end)


def _is_user(key: str) -> bool:
    """Return whether a word is a user name with a password in Base64, not a word of a sentence."""
    text = key.rstrip("=")
    try:
        return b":" in b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return False
