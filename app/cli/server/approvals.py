"""`interlock approvals`: decisions of a server's operators without a screen: requests, lost events.

The safeguards are those of a console: an approval carries the digest of what was shown, masked text has
to be revealed first, and the server takes the operator's name from the token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ...config.arguments import BAD_INPUT, refuse
from ..options import add_command, add_operator_connection, add_switch, operator_connection

if TYPE_CHECKING:
    from ....engine.gateway.client.console import ConsoleClient
    from ....engine.history.model.state import ApprovalState
    from ....engine.hub.api import Outcome, Revealed

FAILED = 1
LISTED = {
    "id",
    "session",
    "agent",
    "tool",
    "called",
    "since",
    "expires",
    "risk",
    "people",
    "given",
    "late",
}
"""Fields of a request that a list shows."""
LOADING = 30.0
"""Seconds allowed for reading a long queue."""


class RequestError(LookupError):
    """A request that is not open, or cannot be decided like this; the message includes the remedy."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their options."""
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True)
    listed = add_command(parts, "list", "list open requests, the longest waiting first")
    shown = add_command(parts, "show", "show a whole request, and the digest with which to approve it")
    _add_id(shown)
    add_switch(shown, "--reveal", "show its masked text, too; that is recorded with your name")
    approve = add_command(parts, "approve", "approve a request as it was shown")
    _add_id(approve)
    approve.add_argument(
        "--digest", metavar="DIGEST", required=True, help="the digest that `show` printed"
    )
    deny = add_command(parts, "deny", "deny a request")
    _add_id(deny)
    deny.add_argument("--digest", metavar="DIGEST", help="fail if the request no longer has this digest")
    for part in (approve, deny):
        add_switch(part, "--claimed", "decide it even though someone else has claimed it")
        part.add_argument("--reason", metavar="TEXT", help="the reason, for the agent and the record")
    lost = add_command(
        parts, "accept-loss", "let a diverged session continue without the events that were lost"
    )
    lost.add_argument("session", metavar="SESSION", help="the session's id")
    lost.add_argument("--reason", metavar="TEXT", required=True, help="the reason, for the record")
    for part in (listed, shown, approve, deny, lost):
        add_switch(part, "--json", "print JSON")
        add_operator_connection(part)


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("request", metavar="ID", help="the request's id or the beginning of it")


def run(args: argparse.Namespace) -> int:
    """Run the subcommand in `args.part`. Returns the exit code; 1 if the server refused."""
    from ....engine.gateway.client.connection import GatewayError
    from ....engine.gateway.protocol.tokens import TokenError

    command = f"approvals {args.part}"
    parts: dict[str, Callable[[ConsoleClient, argparse.Namespace], Awaitable[int]]] = {
        "list": _list,
        "show": _show,
        "approve": _decide,
        "deny": _decide,
        "accept-loss": _accept_loss,
    }
    try:
        url, secret = operator_connection(args)
        return asyncio.run(_connected(url, secret, parts[args.part], args))
    except (GatewayError, RequestError) as error:
        return refuse(command, error, FAILED)
    except (TokenError, ValueError) as error:
        return refuse(command, error, BAD_INPUT)


async def _connected(
    url: str | None,
    secret: str | None,
    part: Callable[[ConsoleClient, argparse.Namespace], Awaitable[int]],
    args: argparse.Namespace,
) -> int:
    """Run a subcommand with a connection whose queue has been read."""
    from ....engine.gateway.client.console import ConsoleClient

    loaded = asyncio.Event()
    client = ConsoleClient(url, secret, connected=lambda _: loaded.set(), read_only=args.part == "list")
    try:
        args.operator = await client.open()
        with suppress(TimeoutError):
            async with asyncio.timeout(LOADING):
                while client.unread().sessions:
                    await loaded.wait()
                    loaded.clear()
        return await part(client, args)
    finally:
        await client.close()


async def _list(client: ConsoleClient, args: argparse.Namespace) -> int:
    """Print the open requests, without digests: approving takes more than one line of a request."""
    from ....engine.core.sanitize import visible_words

    requests = await client.approvals()
    if (frozen := client.current_freeze()) is not None:
        print(visible_words(f"All agents are {frozen.words}"), file=sys.stderr)
    if (outage := client.current_outage()) is not None:
        from ....engine.core.clock import utc_now
        from ...format.outage import outage_sentence

        print(visible_words(outage_sentence(outage, utc_now())), file=sys.stderr)
    if args.json:
        print(json.dumps([each.model_dump(mode="json", include=LISTED) for each in requests], indent=2))
    for each in () if args.json else requests:
        people = f"  {len(each.given)} of {each.needs}" if each.asks_for else ""
        if each.claim is not None:
            people += f", {each.claim.by} has it" if people else f"  {each.claim.by} has it"
        if each.escalated is not None and each.approvers is not None and each.approvers.escalation:
            people += f", escalated to {each.approvers.escalation.group}"
        people += _absence(each)
        text = f"{each.id}  {each.since.astimezone():%H:%M:%S}  {each.agent}  {each.tool}{people}"
        print(visible_words(text))
    if unread := client.unread().requests:
        print(f"{unread} more requests were not read in time; list them again", file=sys.stderr)
    elif not requests and not args.json:
        print("No request is open.", file=sys.stderr)
    return 0


def _absence(request: ApprovalState) -> str:
    """Return a note for a list about a request whose client is gone."""
    if request.late is None:
        return ""
    held = "" if request.fuse is None else f", approved by {request.fuse.by}"
    return f"{held}, late: its client is gone, open until {request.late.astimezone():%H:%M:%S}"


async def _show(client: ConsoleClient, args: argparse.Namespace) -> int:
    """Print all that a console shows of a request, and its digest."""
    from ....engine.core.sanitize import visible
    from ...hosting.headless import request_lines

    request = await _find(client, args.request)
    revealed: Revealed | None = None
    # Accepted on the command line only: revealing masked text is recorded, so it is requested each time.
    if "reveal" in args.typed:
        revealed = await client.reveal(request.id, by="")
        if not revealed.ok:
            raise RequestError(revealed.message)
    texts = () if revealed is None else revealed.texts
    lines = [line.rstrip() for line in request_lines(request, await client.session(request.session))]
    if args.json:
        shown = request.model_dump(mode="json") | {
            "shown": lines,
            "texts": [each.model_dump(mode="json") for each in texts],
        }
        print(json.dumps(shown, indent=2))
        return 0
    print(*lines, sep="\n")
    for each in texts:
        print(f"\n{visible(each.place)} unmasked:\n{visible(each.text, keep_newlines=True)}")
    if request.hidden and not texts:
        print("\nTo approve it, look at its masked text first: show --reveal")
    if request.late is not None:
        print(
            f"\nLate: its client is gone, and an answer counts until {request.late.astimezone():%H:%M:%S}"
        )
    server = client.server_of(request.session)
    where = "" if server is None else f" at {visible(server)}"
    print(f"\nagent   {visible(request.agent)} ({visible(request.session)}){where}")
    print(f"id      {visible(request.id)}\ndigest  {visible(request.digest or 'none: use a console')}")
    return 0


async def _decide(client: ConsoleClient, args: argparse.Namespace) -> int:
    """Approve or deny a request."""
    from ....engine.core.people import same_person

    request = await _find(client, args.request)
    approved = args.part == "approve"
    if approved and request.wants is not None:
        raise RequestError(f"{request.id} has a form to fill in: use a console")
    claim = request.claim
    # Accepted on the command line only: overriding another operator is a deliberate act each time.
    if claim is not None and "claimed" not in args.typed and not same_person(claim.by, args.operator):
        raise RequestError(f"{claim.by} has {request.id}: to decide it anyway, add --claimed")
    outcome: Outcome = await client.decide(
        request.id,
        approved=approved,
        by="",
        reason=args.reason,
        digest=args.digest if args.digest is not None else request.digest,
    )
    return _report(args, outcome, id=request.id)


async def _accept_loss(client: ConsoleClient, args: argparse.Namespace) -> int:
    """Accept the loss of acknowledged events of a session."""
    outcome = await client.accept_loss(args.session, by="", reason=args.reason)
    return _report(args, outcome, session=args.session)


def _report(args: argparse.Namespace, outcome: Outcome, **subject: str) -> int:
    """Print an outcome and return the exit code; JSON names the `subject`. Raises `RequestError`."""
    from ....engine.core.sanitize import visible

    if args.json:
        print(json.dumps(outcome.model_dump(mode="json") | subject, indent=2))
    elif outcome.ok:
        print(visible(outcome.message))
    else:
        raise RequestError(outcome.message)
    return 0 if outcome.ok else FAILED


async def _find(client: ConsoleClient, beginning: str) -> ApprovalState:
    """Return the one open request whose id begins with this text. Raises `RequestError`."""
    requests = await client.approvals()
    found = [each for each in requests if each.id == beginning]
    found = found or [each for each in requests if each.id.startswith(beginning)]
    if len(found) == 1:
        return found[0]
    if found:
        raise RequestError(f"{len(found)} open requests begin with '{beginning}': give more of the id")
    raise RequestError(f"no request '{beginning}' is open; see: interlock approvals list")
