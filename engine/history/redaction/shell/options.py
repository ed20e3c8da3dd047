"""Where commands give a password to a program whose option for it has a short name, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from ..random_words import looks_random
from ..spans import MASK, Span
from .words import QUOTE, ShellWords, quoted

_BETWEEN = r"\s(?:[^\n;|&]{0,200}?\s)?"
_QUOTED = r"\s{1,8}(?=\\{0,15}')"
_COMMA = r"(?:\\{0,15}[\"'],)?"
_WORD = r"\S{1,200}\s{1,8}"
_STRING = r"\\{0,15}[\"'][^\"'\n\\]{1,64}\\{0,15}[\"'],\s{0,64}"
_OPENS = r"(?=\\{0,15}[\"'])"
_DASHED = r"\s{0,8}(?:-\S{1,20}\s{1,8}(?:sha-?\d{3}\s{1,8}|md5\s{1,8})?){0,4}"
_MADE_UP = r"(?!(?:aes|argon|base|bcrypt|md|scrypt|sha|utf)-?\d)(?=\S{0,60}[a-z])(?=\S{0,60}\d)(?=\S{8})"
"""What a sentence calls a password, and is no word of it."""
_NEAR = r"\s(?:[^\n;|&]{0,160}?\s)?"
_PHRASES: Mapping[str, Mapping[str, re.Pattern[str]]] = {
    "config ": {
        "mc": re.compile(
            rf"\bmc\s{{1,8}}config\s{{1,8}}host\s{{1,8}}add\s{{1,8}}{_WORD}{_WORD}{_WORD}(?=[^\s-])"
        ),
        "http-basic.": re.compile(rf"\bconfig\s[^\n]{{0,40}}?http-basic\.{_WORD}{_WORD}(?=\S)"),
        "-oauth.": re.compile(rf"\bconfig\s[^\n]{{0,40}}?\w-oauth\.{_WORD}(?=\S)"),
        "bundle": re.compile(
            r"\bbundle\s{1,8}config\s(?:[^\n]{0,40}?\s)?[\w-]{1,60}\.\S{1,200}\s{1,8}[\w.-]{1,64}:(?=\S)"
        ),
        "-token.": re.compile(rf"\bconfig\s[^\n]{{0,40}}?\w-token\.{_WORD}(?=\S)"),
    },
    "security ": {
        "keychain": re.compile(rf"\bsecurity\s{{1,8}}\w+-keychain{_BETWEEN}-p\s{{1,8}}(?=\S)"),
        "-generic-": re.compile(
            rf"\bsecurity\s{{1,8}}\w+-generic-password{_BETWEEN}-w\s{{1,8}}(?=[^\s-])"
        ),
    },
    "-": {
        "bearer": re.compile(
            r"\b(?:https?|xhs?)\s(?:[^\n;|&]{0,80}?\s)?(?:-A|--auth-type)[ =]{0,8}"
            r"bearer\s(?:[^\n;|&]{0,80}?\s)?(?:-a|--auth)[ =]{1,8}(?=[^\s-])"
        ),
        "snmp-server": re.compile(r"\bsnmp-server\s{1,8}community\s{1,8}(?=\S)"),
        "az ": re.compile(
            r"\baz\s{1,8}(?:sql|postgres|mysql|mariadb|synapse|vm|vmss|login|acr)\s[^\n;|&]{0,200}?\s-p\s{1,8}(?=[^\s-])"
        ),
        "qpdf": re.compile(
            rf"\bqpdf{_NEAR}--encrypt\s{{1,8}}(?=[^\s-])"
            rf"|(?<=--encrypt )[^\s-]\S{{0,200}}\s{{1,8}}(?=\S{{1,200}}\s{{1,8}}(?:40|128|256)\b)"
        ),
        "securestring": re.compile(
            r"\bConvertTo-SecureString\s{1,8}(?:-String\s{1,8})?(?=[^\s$-])", re.IGNORECASE
        ),
    },
    "<": {
        'type="password': re.compile(
            r"<input\s[^<>]{0,200}?type=\\{0,15}[\"']password[^<>]{0,200}?\svalue\s?=\s?(?=\\{0,15}[\"'])"
        )
    },
    "_": {
        "bundle_": re.compile(r"\bBUNDLE_[A-Z0-9_]{1,40}__[A-Z0-9_]{1,40}=[\"']?[\w.-]{1,64}:(?=[^\s/])"),
        "_pw ": re.compile(r"\b(?:input|owner|user)_pw\s{1,8}(?=\S)"),
        "encrypt_string": re.compile(r"\bencrypt_string\s{1,8}(?=[^\s-])"),
        "secret_access_key": re.compile(r"\bsecret_access_key\s{1,8}(?=[A-Za-z0-9/+]{16})"),
        "rabbitmqctl": re.compile(
            rf"\brabbitmqctl\s{{1,8}}(?:add_user|change_password)\s{{1,8}}{_WORD}(?=\S)"
        ),
    },
    "/": {
        "schtasks": re.compile(rf"\bschtasks\S{{0,4}}{_NEAR}/rp\s{{1,8}}(?=[^\s/*])", re.IGNORECASE),
        "smbclient": re.compile(r"\bsmbclient\s{1,8}(?:[/\\]{2,8})\S{1,120}\s{1,8}(?=[^\s-])"),
        "signtool": re.compile(rf"\bsigntool\S{{0,4}}{_NEAR}/p\s{{1,8}}(?=\S)", re.IGNORECASE),
        "mc alias": re.compile(
            rf"\bmc\s{{1,8}}alias\s{{1,8}}set\s{{1,8}}{_WORD}{_WORD}{_WORD}(?=[^\s-])"
        ),
        "freerdp": re.compile(r"freerdp\S{0,10}\s[^\n;|&]{0,300}?/p:(?=\S)"),
        "jdbc:oracle": re.compile(r"\boracle:(?:thin|oci8?):[\w.-]{1,64}/(?=[^\s@/])"),
        "net use": re.compile(
            rf"\bnet user\s{{1,8}}{_WORD}(?=[^\s/*])|\bnet use\s[^\n]{{0,200}}?/user:{_WORD}(?=[^\s/*])"
            rf"|\bnet use\s{{1,8}}(?:[a-z*]:?\s{{1,8}})?\\{{2,8}}{_WORD}(?=[^\s/*])",
            re.IGNORECASE,
        ),
        "sqlplus": re.compile(r"\bsqlplus\s{1,8}(?:-\S{1,20}\s{1,8}){0,4}[\w.-]{1,64}/(?=[^\s@/])"),
    },
    "'": {
        "identified": re.compile(rf"\bidentified\s(?:[^\n;]{{0,60}}\s)?by{_QUOTED}", re.IGNORECASE),
        "pragma": re.compile(r"\bpragma\s{1,8}(?:re)?key\s{0,8}=\s{0,8}(?=\\{0,15}['\"])", re.IGNORECASE),
    },
    "pass": {
        "walletpassphrase": re.compile(r"\bwalletpassphrase\s{1,8}(?=\S)|\bencryptwallet\s{1,8}(?=\S)"),
        "mosquitto_passwd": re.compile(
            rf"\bmosquitto_passwd\s{{1,8}}(?:-[cUH]\s{{1,8}})?-\w?b\s{{1,8}}{_WORD}{_WORD}(?=\S)"
        ),
        "_pbkdf2": re.compile(rf"\bpassword_pbkdf2\s{{1,8}}{_WORD}(?=\S)"),
        "mysqladmin": re.compile(rf"\bmysqladmin{_NEAR}password\s{{1,8}}(?=[^\s-])"),
        "admin": re.compile(r"\breset-admin-password\s{1,8}(?=[^\s-])"),
        "neighbor": re.compile(rf"\bneighbor\s{{1,8}}{_WORD}password\s{{1,8}}(?:\d\s{{1,8}})?(?=\S)"),
        "_password": re.compile(r"[_-]password(?:-again)?\s{1,8}password\s{1,8}(?=[^\s-])"),
        "-password": re.compile(r"/[\w-]{0,40}password(?:-again)?\s{1,8}password\s{1,8}(?=[^\s-])"),
        "sshpass": re.compile(
            rf"\bsshpass{_COMMA}(?:\s{{1,8}}-v)?\s{{1,8}}\\{{0,15}}[\"']?-p{_COMMA}\s{{0,8}}(?=\S)"
        ),
        "password": re.compile(
            rf"\b\w{{0,40}}password{_QUOTED}|=\s{{0,4}}password\(\s{{0,4}}(?=\\{{0,15}}')"
            rf"|\bset-initial-password\s{{1,8}}(?=\S)|\bnmcli{_BETWEEN}password\s{{1,8}}(?=\S)"
            rf"|(?:\A|(?<=\n))[ \t]{{0,16}}password[ \t]{{1,8}}{_MADE_UP}"
            rf"|\binsecure-password\s{{1,8}}(?=\S)"
            rf"|\bpassword is (?:generated for \S{{1,200}}: (?=\S)|{_MADE_UP})"
            r"|\b\w{0,40}password (?=\\{0,15}\"[^\s\"\\]{0,60}\d[^\s\"\\]{0,60}\\{0,15}\")",
            re.IGNORECASE,
        ),
        "set password": re.compile(
            r"\bset password for [^\n;=]{1,100}=\s{0,4}(?=\\{0,15}')", re.IGNORECASE
        ),
        "passwd": re.compile(
            rf"\bopenssl\s{{1,8}}passwd\s{_DASHED}{_MADE_UP}|\bmkpasswd\s{_DASHED}{_MADE_UP}",
            re.IGNORECASE,
        ),
        "requirepass": re.compile(r"\brequirepass\s{1,8}(?=\S)"),
        "htpasswd": re.compile(
            rf"\bhtpasswd\s{{1,8}}-(?=\w*b)(?:\w*n\w*\s{{1,8}}|\w+\s{{1,8}}{_WORD}){_WORD}(?=\S)"
        ),
        "wpa_passphrase": re.compile(rf"\bwpa_passphrase\s{{1,8}}{_WORD}(?=\S)"),
    },
    "nuget": {
        "oy2": re.compile(r"(?<![A-Za-z0-9])(?=oy2[a-z0-9]{43}(?![A-Za-z0-9]))"),
        "setapikey": re.compile(r"\bnuget\S{0,4}\s{1,8}setapikey\s{1,8}(?=[^\s-])", re.IGNORECASE),
        "push": re.compile(
            r"\bnuget\S{0,4}\s{1,8}push\s{1,8}[^\s-]\S{0,200}\s{1,8}(?=[^\s-])", re.IGNORECASE
        ),
    },
    "user": {
        "username": re.compile(
            r"[\"']username\\{0,15}[\"']\s{0,8}:\s{0,8}\\{0,15}[\"'][\w.@-]{1,64}\\{0,15}[\"'],\s{0,8}\\{0,15}[\"']key\\{0,15}[\"']\s{0,8}:\s{0,8}(?=\\{0,15}[\"'])"
        ),
        "setuser": re.compile(
            r"\bACL\s{1,8}SETUSER\s[^\n;|&]{0,160}?\s[\"']?>(?=[^\s>\"'])", re.IGNORECASE
        ),
        "samba-tool": re.compile(
            rf"\bsamba-tool\s{{1,8}}user\s{{1,8}}(?:create|add)\s{{1,8}}{_WORD}(?=[^\s-])"
        ),
        "ftp": re.compile(
            r"\bl?ftp\s[^|&]{0,160}?(?<![\w-])user\s{1,8}[\w.@-]{1,64}[ \t]{1,8}(?=[^\s-])"
        ),
        " pass": re.compile(
            rf"\buser(?:name)?\s{{1,8}}{_WORD}(?:there\s)?pass(?:word)?\s{{1,8}}(?:[05-9]\s{{1,8}})?(?=\S)"
        ),
    },
    "pw ": {
        "": re.compile(
            r"(?:\A|(?<=\n))[ \t]{0,16}(?:rootpw|bindpw|rootbindpw)[ \t]{1,8}"
            r"(?:--(?:plaintext|iscrypted)[ \t]{1,8}){0,2}(?=[^\s-])"
        ),
    },
    "psk ": {
        "": re.compile(
            r"(?:\bwifi-sec|\bwireless-security|-sec)\.psk\s{1,8}(?=\S)|\bPSK\s{1,8}(?=\\{0,15}\")"
        ),
    },
    "radtest": {
        "": re.compile(
            r"\bradtest\s{1,8}(?:-\w{1,8}\s{1,8}(?:\w{1,12}\s{1,8})?){0,3}[^\s-]\S{0,80}\s{1,8}(?=\S)"
        )
    },
    "@": {
        "proxy=": re.compile(r"_proxy=[\"']?[\w.-]{1,64}:(?=[^\s:/\"'@]{1,200}@)", re.IGNORECASE),
        "pserver": re.compile(r":pserver:[\w.-]{1,64}:(?=[^\s:]{1,200}@)"),
        "impacket": re.compile(
            rf"\bimpacket-[\w-]{{1,30}}{_NEAR}[\w.-]{{1,64}}(?:/[\w.-]{{1,64}})?:(?=[^\s:]{{1,200}}@)"
        ),
        ".py": re.compile(
            rf"\b(?:psexec|smbexec|wmiexec|atexec|dcomexec|secretsdump|smbclient|lookupsid|getTGT|getST|GetUserSPNs"
            rf"|GetNPUsers|GetADUsers|mssqlclient|samrdump|rpcdump|ticketer|services|addcomputer)\.py{_NEAR}"
            r"[\w.-]{1,64}(?:/[\w.-]{1,64})?:(?=[^\s:]{1,200}@)"
        ),
    },
    "chamber": {"": re.compile(rf"\bchamber\s{{1,8}}write\s{{1,8}}{_WORD}{_WORD}(?=[^\s-])")},
    "credstash": {"": re.compile(rf"\bcredstash\s{{1,8}}put\s{{1,8}}{_WORD}(?=[^\s-])")},
    "vault kv": {
        " put": re.compile(r"\bvault\s{1,8}kv\s{1,8}put\s[^\n;|&]{0,160}?\s[\w.-]{1,64}=(?=[^\s@-])"),
    },
    "secret": {
        "secret ": re.compile(r"\b(?:enable\s{1,8}secret|IPSec\s{1,8}secret)\s{1,8}(?:\d\s{1,8})?(?=\S)"),
        "secrets set": re.compile(r"\bsecrets\s{1,8}set\s(?:[^\n;|&]{0,160}?\s)?\w{1,64}=(?=\S)"),
    },
    '"kty': {
        "": re.compile(
            r"(?<=[\"'])(?:d|k|p|q|dp|dq|qi)\\{0,15}[\"']\s{0,8}:\s{0,8}(?=\\{0,15}[\"'][\w-]{16,})"
        )
    },
    "identified": {"identified": re.compile(rf"\bidentified by\s{{1,8}}{_MADE_UP}", re.IGNORECASE)},
    "cloudflared": {
        "cloudflared": re.compile(r"\bcloudflared\S{0,4}\s{1,8}service\s{1,8}install\s{1,8}(?=[^\s-])")
    },
    "auth": {
        "b2": re.compile(r"\bauthorize-account\s{1,8}[^\s-]\S{0,80}\s{1,8}(?=[^\s-])"),
        "masterauth": re.compile(r"\bmasterauth\s{1,8}(?=\S)"),
        "redis": re.compile(
            r"\bredis\S{0,12}[^\n]{0,200}?\sAUTH\s{1,8}(?:[\w.-]{1,64}\s{1,8}(?=[\w!#%+.:=?@^~/-]))?(?=\S)"
            r"|\bredis-cli\s[^\n]{0,200}?[\"']AUTH\s{1,8}(?=\S)"
        ),
        "snyk": re.compile(r"\bsnyk\s{1,8}auth\s{1,8}(?=[^\s-])"),
        " auth ": re.compile(
            rf"\bcf\s{{1,8}}auth\s{{1,8}}{_WORD}(?=[^\s-])|\bstats\s{{1,8}}auth\s{{1,8}}[\w.-]{{1,64}}:(?=\S)"
        ),
    },
    "unlock": {
        "": re.compile(r"\bbw\s{1,8}unlock\s{1,8}(?:--(?:raw|quiet)\s{1,8}){0,2}(?=[^\s-])"),
    },
    "unseal": {
        "": re.compile(
            r"\bvault\s{1,8}(?:operator\s{1,8})?unseal\s{1,8}(?:-\S{1,80}\s{1,8}){0,4}(?=[^\s-])"
            r"|\bUnseal Key(?: \d{1,3})?:\s{1,8}(?=\S)"
        ),
    },
    "::add-mask::": {"": re.compile(r"::add-mask::(?=\S)")},
    "issecret=true": {"": re.compile(r"issecret=true\](?=\S)")},
    "login": {
        "wandb": re.compile(r"\bwandb\s{1,8}login\s{1,8}(?:--relogin\s{1,8})?(?=[\w-]{8,})(?!-)"),
        "login=": re.compile(r"\slogin=[\w.-]{1,64}:(?=\S)"),
        "": re.compile(
            rf"\blogin{_BETWEEN}password\s{{1,8}}(?=\S)|\blogin\s{{1,8}}{_WORD}password\s{{1,8}}(?=\S)|\b(?:cargo|vault)\s{{1,8}}login\s{{1,8}}(?=[\w.]{{12,}})"
            rf"|sonar\.login=(?=\S)|\bbw\s{{1,8}}login\s{{1,8}}[^\s-]\S{{0,200}}\s{{1,8}}(?=[^\s-])"
        ),
    },
}
"""Patterns of what stands before a password, by a sign and a word that each has in it."""
_CODES = {
    "code": re.compile(
        r"code(?:(?<=verification.code)|(?<=security.code)|(?<=login.code)|(?<=auth.code)|(?<=sms.code)"
        r"|(?<=mfa.code)|(?<=otp.code)|(?<=2fa.code)|(?<=token.code))"
        r"[\"']?(?: is|\s?[:=])?\s?[\"']?(?=\d{3} ?\d{1,5}(?![\w.]))"
    ),
}
"""What stands before digits that somebody is asked for, in small letters."""
_CALLS: Mapping[str, re.Pattern[str]] = {
    "auth": re.compile(
        rf"(?:\bauth\s?=\s?|basic_?auth\w{{0,20}})\(\s{{0,8}}{_STRING}(?:Some\()?{_OPENS}",
        re.IGNORECASE,
    ),
    "credential": re.compile(
        rf"\b(?:Network|Password)Credential\]?(?:::new)?\(\s{{0,8}}{_STRING}{_OPENS}"
    ),
    "client(": re.compile(
        rf"\b\w*Client\(\s{{0,8}}{_STRING}(?=\\{{0,15}}[\"'][0-9a-f]{{32}}\\{{0,15}}[\"'])"
    ),
    "connect": re.compile(
        rf"\b(?:getConnection|DBI->connect|pymysql\.connect|MySQLdb\.connect|mysqli?_connect)\(\s{{0,8}}[^,\n]{{1,300}},\s{{0,64}}{_STRING}{_OPENS}"
    ),
    "jwt.": re.compile(
        rf"\bjwt\.(?:encode|sign|decode|verify)\(\s{{0,8}}[^,\n]{{1,200}},\s{{0,8}}b?{_OPENS}"
    ),
    ".login(": re.compile(rf"\.login\(\s{{0,8}}{_STRING}{_OPENS}"),
    "fernet(": re.compile(rf"\bFernet\(\s{{0,8}}b?{_OPENS}"),
    "hmac": re.compile(rf"\bhmac\.new\(\s{{0,8}}b?{_OPENS}|\bcreateHmac\(\s{{0,8}}{_STRING}{_OPENS}"),
    "@tcp(": re.compile(r"[\"'`][\w.-]{1,64}:(?=[^\s@\"']{1,200}@tcp\()"),
    ".tochararray": re.compile(r"[(,]\s{0,8}(?=\"[^\"\n]{1,200}\"\.toCharArray)"),
    "auth(": re.compile(rf"(?<=[.:])auth\(\s{{0,8}}(?:{_STRING})?{_OPENS}"),
    "pdo(": re.compile(rf"\bPDO\(\s{{0,8}}[^,\n]{{1,300}},\s{{0,64}}{_STRING}{_OPENS}"),
    "mysqli(": re.compile(rf"\bmysqli\(\s{{0,8}}[^,\n]{{1,300}},\s{{0,64}}{_STRING}{_OPENS}"),
    ".set": re.compile(
        rf"\.set_?(?:\w{{0,20}}password|passphrase|\w{{0,20}}secret|\w{{0,20}}token|\w{{0,20}}api_?key)\(\s{{0,8}}{_OPENS}",
        re.IGNORECASE,
    ),
}
"""Patterns of what stands before a password that is a string in a call, by a word that each has in it."""


class Taking(NamedTuple):
    """How an option takes its value, and what of it is a password."""

    apart: bool = True
    """The value may be the next word."""
    glued: bool = True
    """The value may follow in the same word."""
    behind: str = ""
    """The password begins behind this, as in `user:password`; without it there is none."""
    random: bool = False
    """Only a word that looks random is one."""

    def password(self, value: str) -> int | None:
        """Where in a value its password begins; `None` for a value without one."""
        at = value.find(self.behind)
        if at < 0 or _PORTS.fullmatch(value) or (self.random and not looks_random(value)):
            return None
        start = at + len(self.behind)
        return start if start < len(value) else None


_BOTH = Taking()
_APART = Taking(glued=False)
_GLUED = Taking(apart=False)
_USER = Taking(glued=False, behind=":")
_OPENSSL = Taking(glued=False, behind="pass:")
_BODY = Taking(glued=False, random=True)

_PROGRAMS: Mapping[str, Mapping[str, Taking]] = {
    "mysql mysqldump mysqladmin mysqlsh mysqlimport mysqlcheck mycli mariadb mariadb-dump": {
        "-p": _GLUED
    },
    "redis-cli valkey-cli": {"-a": _APART},
    "login twine poetry": {"-p": _APART},
    "mongo mongosh mongodump mongorestore mongoexport mongoimport cqlsh cypher-shell": {"-p": _APART},
    "sqlcmd bcp isql ipmitool mosquitto_pub mosquitto_sub zip unzip": {"-P": _BOTH},
    "openssl": {"-k": _APART, "-K": _APART, "-pass": _OPENSSL, "-passin": _OPENSSL, "-passout": _OPENSSL},
    "7z 7za 7zr 7zz rar unrar": {"-p": _GLUED, "-hp": _GLUED},
    "ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldapcompare": {"-w": _BOTH},
    "ldappasswd": {"-w": _BOTH, "-s": _BOTH, "-a": _BOTH},
    "lftp": {"-u": Taking(behind=",")},
    "smbclient rpcclient smbget winexe net": {"-U": Taking(behind="%")},
    "curl": {
        "-b": Taking(behind="="),
        "-d": Taking(random=True),
        "-E": Taking(behind=":"),
        "--cert": Taking(glued=False, behind=":"),
        "--oauth2-bearer": _APART,
        "--data": _BODY,
        "--data-raw": _BODY,
        "--data-binary": _BODY,
    },
    "http https xh": {"-a": _USER, "--auth": _USER},
    "ab": {"-A": _USER, "-P": _USER},
    "snmpwalk snmpget snmpset": {"-A": _APART, "-X": _APART, "-c": _APART},
    "keytool jarsigner": {"-storepass": _APART, "-keypass": _APART},
    "ssh-keygen": {"-N": _APART, "-P": _APART},
    "plink pscp psftp": {"-pw": _APART},
    "pdftotext pdftoppm pdfinfo pdfimages": {"-upw": _APART, "-opw": _APART},
    "netexec nxc crackmapexec evil-winrm rdesktop hydra yt-dlp youtube-dl": {"-p": _APART},
    "buildah": {"--creds": _USER},
    "ctr": {"--user": _USER, "-u": _USER},
    "rabbitmqadmin racadm conan supabase altool certutil": {"-p": _APART},
    "swift": {"-K": _APART},
    "oathtool": {"-b": _APART},
    "fly vercel": {"-t": _APART},
    "dgst": {"-hmac": _APART},
    "import": {"-P": _APART},
    "create secret:create secret:set": {"--value": Taking(glued=False, random=True)},
    "kadmin": {"-w": _APART},
    "useradd usermod": {"-p": _APART},
    "ccrypt": {"-K": _APART},
    "psexec psexec64 PsExec PsExec64": {"-p": _APART},
    "bw": {"--session": _APART},
    "swaks": {"-ap": _APART},
    "sendemail sendEmail": {"-xp": _APART},
    "p4 knife": {"-P": _APART},
    "steghide ncftp ncftpput ncftpget": {"-p": _APART},
    "flyctl codecov codecov.io": {"-t": _APART},
    "slappasswd": {"-s": _APART},
    "skopeo": {"--creds": _USER, "--src-creds": _USER, "--dest-creds": _USER},
    "drone": {"--data": _APART},
    "nuget": {"-k": _APART, "-p": _APART},
    "influx": {"-password": _APART, "-t": _APART},
    "doctl": {"-t": _APART},
    "secret": {
        "--from-literal": Taking(glued=False, behind="="),
        "--value": _APART,
        "--body": _APART,
        "-b": _BOTH,
    },
    "secretsmanager": {"--secret-string": _APART},
    "SecureString": {"--value": _APART},
}
"""Programs that go alike, with their options for a password."""

_TAKING = {name: options for names, options in _PROGRAMS.items() for name in names.split()}
_BY_OPTION = {
    option: [name for name, each in _TAKING.items() if option in each]
    for option in {option for each in _TAKING.values() for option in each}
}
_LETTERS = "".join({option[1] for each in _TAKING.values() for option in each if len(option) == 2})
_NAMES = "|".join(
    sorted(
        {
            option[1:]
            for each in _TAKING.values()
            for option in each
            if len(option) > 2 and option != "-hp"
        },
        reverse=True,
    )
)
_OPTION = re.compile(rf"-(?<![^\s\"'(,\[]-)(?:(?:{_NAMES})(?=[\s\"'=])|hp(?=\S)|[{_LETTERS}])")
_BLANKS = str.maketrans(dict.fromkeys("\"'()[]{},=/\\", " "))
"""What may stand around the name of a program."""
_NAMING = frozenset({"--name", "--hostname", "--network", "--link", "-h"})
"""Options whose value is no program, though it may be called like one."""
_SEPARATORS = ";|&\n"
_FARTHEST = 300
"""Characters before an option in which its program is looked for."""
_NEXT = re.compile(r"=|\\{0,15}[\"'],\s{0,8}|(?:\s|\\\n){1,16}")
_PORTS = re.compile(r"(?:[\d.]{1,40}:)?\d{1,5}(?:-\d{1,5})?:\d{1,5}(?:-\d{1,5})?(?:/\w{1,8})?")
"""`8080:80`, as programs have it that publish ports."""


def password_options(text: str, lower: str) -> Iterator[Span]:
    """The spans of such passwords in `text`, which is `lower` in small letters."""
    found = [
        (match.end(), _BOTH)
        for sign, patterns in _PHRASES.items()
        if sign in lower
        for word, pattern in patterns.items()
        if word in lower
        for match in pattern.finditer(text)
    ]
    if "(" in text and ("'" in text or '"' in text):
        found += [
            (match.end(), _BOTH)
            for word, pattern in _CALLS.items()
            if word in lower
            for match in pattern.finditer(text)
        ]
    if "-" in text:
        found += _options(text)
    found += [
        (match.end(), _BOTH)
        for word, pattern in _CODES.items()
        if word in lower
        for match in pattern.finditer(lower)
    ]
    words = ShellWords(text)
    done = 0
    for at, taking in sorted(found):
        if at < done or text.startswith(MASK, at):
            continue
        quote = QUOTE.match(text, at)
        start, end = quoted(text, quote)[0] if quote is not None and quote[1] else words.word(at)
        password = taking.password(text[start:end])
        if password is not None:
            yield start + password, end
            done = end


def holds_program(words: Sequence[JsonValue]) -> bool:
    """Tell whether there is a program in a list of words that has such an option."""
    return any(isinstance(word, str) and (word in _TAKING or word == "sshpass") for word in words)


def password_start(before: Sequence[JsonValue], word: str) -> int | None:
    """Where the password begins in the word of a command that follows those `before`; `None` without."""
    option = before[-1]
    if before[-2:] == ["sshpass", "-p"]:
        return 0
    known = [_TAKING[each] for each in before if isinstance(each, str) and each in _TAKING]
    for options in reversed(known):
        if isinstance(option, str) and option in options and options[option].apart:
            return options[option].password(word)
        if word[:2] in options and options[word[:2]].glued and len(word) > 2:
            start = options[word[:2]].password(word[2:])
            return None if start is None else start + 2
    return None


def _options(text: str) -> Iterator[tuple[int, Taking]]:
    """Where what options of `text` take begins, with the way they take it."""
    known: list[Mapping[str, Taking]] = []
    present: dict[str, bool] = {}
    done = 0
    for option in _OPTION.finditer(text):
        if option[0] not in present:
            present[option[0]] = _has_any(text, _BY_OPTION[option[0]])
        if not present[option[0]]:
            continue
        at = option.start()
        cut = _command(text, max(done, at - _FARTHEST), at)
        if cut > done:
            known = []
        words = text[cut:at].translate(_BLANKS).split()
        if not _TAKING.keys().isdisjoint(words):
            known += [
                _TAKING[word]
                for before, word in zip(("", *words), words, strict=False)
                if word in _TAKING and before not in _NAMING
            ]
        done = option.end()
        taking = next((each[option[0]] for each in reversed(known) if option[0] in each), None)
        if taking is None:
            continue
        apart = _NEXT.match(text, done)
        if apart is None and taking.glued:
            yield done, taking
        elif apart is not None and taking.apart and not text.startswith("-", apart.end()):
            yield apart.end(), taking


def _has_any(text: str, words: Sequence[str]) -> bool:
    """Tell whether one of `words` is in `text`, in half the time of `any` for a short one."""
    for word in words:  # noqa: SIM110
        if word in text:
            return True
    return False


def _command(text: str, start: int, end: int) -> int:
    """Where the last command begins between `start` and `end`; a line may go on behind a backslash."""
    while (cut := max(text.rfind(sign, start, end) for sign in _SEPARATORS)) >= 0:
        if not text.startswith("\\\n", cut - 1):
            return cut + 1
        end = cut
    return start
