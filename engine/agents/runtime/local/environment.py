"""Environment of commands: this program's, without secrets."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

# Interlock's own settings and tokens, and providers' names for keys: OPENAI_API_KEY, HF_TOKEN,
# AWS_SECRET_ACCESS_KEY, AWS_BEARER_TOKEN_BEDROCK, AZURE_CLIENT_SECRET, WATSONX_APIKEY, SNOWFLAKE_JWT.
# Names of passwords as well: GITHUB_PAT, MYSQL_PWD. Values are not examined: a build may need
# DATABASE_URL.
_SECRET = re.compile(
    r"INTERLOCK_.*|.*(_KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSPHRASE|CREDENTIAL|JWT)S?"
    r"|.*_(KEY|TOKEN|SECRET)_.*|.+_(PAT|PASS|PASSWD|PWD|OAUTH)|PASSWD",
    re.IGNORECASE,
)


def environment_without_secrets(
    environ: Mapping[str, str], secrets: Collection[str] = ()
) -> dict[str, str]:
    """Return `environ` without variables that are named like secrets, and without `secrets`."""
    return {
        name: value
        for name, value in environ.items()
        if name not in secrets and not _SECRET.fullmatch(name)
    }
