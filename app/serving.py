"""A server's parts put together: the hub, its rules, who may connect, and the agents consoles start."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue, ValidationError

from ..engine.gate.types import Mode
from ..engine.gateway.address import Address
from ..engine.gateway.agent_sessions import RuleSets
from ..engine.gateway.places import agent_token_file, operator_token_file
from ..engine.gateway.server import Gateway
from ..engine.gateway.tokens import Kind, TokenError, TokenFile, read_secret, write_private
from ..engine.history.redaction import Redaction
from ..engine.hub import Hub, Nets
from ..engine.net import SkillNet
from ..engine.questions import ApprovalPolicy
from ..rules import load_rules
from .agent_build import prepare
from .agent_spec import AgentSpec, AgentSpecError
from .gateway_settings import GatewaySettings
from .starting import NO_TASK, go_on, start


@dataclass(frozen=True, slots=True)
class Serving:
    """What a server is started with; for `rules` and `mode` see `interlock serve --help`."""

    database: Path
    address: Address
    rules: tuple[str, ...]
    mode: Mode
    settings: GatewaySettings
    tokens: TokenFile
    redaction: Redaction
    policy: ApprovalPolicy
    tls: ssl.SSLContext | None = None


def rule_sets(files: tuple[str, ...], named: Mapping[str, tuple[str, ...]]) -> RuleSets:
    """Every set compiled once, so that what is wrong is found at the start. Raises `RuleError`."""

    def compiled(names: tuple[str, ...]) -> Mapping[str, SkillNet]:
        every = [*files, *(file for name in names for file in named[name])]
        return load_rules(*every).registry if every else {}

    for name in named:
        compiled((name,))
    compiled(tuple(sorted(named)))
    return RuleSets(compiled, named)


async def serve(serving: Serving, ready: Callable[[Address], None]) -> None:
    """Serve until a signal ends it; `ready` hears where. Raises what its parts raise at the start."""
    rules = await asyncio.to_thread(rule_sets, serving.rules, serving.settings.rules)
    hub = Hub.open(serving.database, redaction=serving.redaction, policy=serving.policy)
    try:
        gateway = Gateway(
            hub,
            serving.tokens,
            rules=rules,
            mode=serving.mode,
            agents_may_shadow=serving.settings.agents_may_shadow,
            hosts=serving.settings.hosts,
            origins=serving.settings.origins,
            starter=HubStarter(hub),
        )
        ready(await gateway.start(serving.address, tls=serving.tls))
        try:
            await _until_told()
        finally:
            await gateway.close()
    finally:
        await hub.close()


async def _until_told() -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, told.set)
    await told.wait()


def own_token(tokens: TokenFile, kind: Kind, name: str) -> Path:
    """The file with a token of this user's own, for clients on this machine; made where it is missing.

    One that was revoked is not made again. Raises `TokenError`.
    """
    path = agent_token_file() if kind == "agent" else operator_token_file()
    with suppress(FileNotFoundError):
        path.stat()
        found = tokens.find(read_secret(path))
        if found is not None and found.kind == kind:
            return path
        raise TokenError(
            f"{path}: the token in it is not in force; delete the file to have a new one made"
        )
    taken = {each.name for each in tokens.tokens()}
    write_private(path, (tokens.rotate(name) if name in taken else tokens.issue(kind, name)) + "\n")
    return path


class HubStarter:
    """Starts agents on the server, from what consoles say of them; see `agent_file` for the fields."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def start(self, spec: dict[str, JsonValue], *, by: str) -> str:
        """Open a session and set its agent to work; its id. Raises `AgentSpecError`."""
        try:
            wanted = AgentSpec.model_validate(spec)
        except ValidationError as error:
            raise AgentSpecError(
                [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
            ) from error
        if wanted.task is None:
            raise AgentSpecError([NO_TASK])
        return await start(self._hub, await asyncio.to_thread(prepare, wanted), by)

    async def go_on(
        self,
        session_id: str,
        *,
        by: str,
        at: int | None,
        nets: Nets,
        task: str | None,
        max_cost: float | None,
    ) -> str:
        """Go on with a recorded session; the id of the live one. Raises as `starting.go_on`."""
        return await go_on(self._hub, session_id, by, at=at, nets=nets, task=task, max_cost=max_cost)
