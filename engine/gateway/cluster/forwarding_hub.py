"""Hub that forwards operations on a session to the server of its database that owns the session.

The operation is written to an inbox in the database. The owner reads it there, executes it, and writes
the answer.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, cast
from uuid import uuid4

from pydantic import BaseModel, JsonValue, RootModel, TypeAdapter

from ...approvals.policy import Credential, Needed
from ...core.approvers import Operator
from ...history.errors import JournalError, SessionNotFound
from ...history.fold.flow_steps import DIED
from ...history.journal.journal import Journal
from ...history.model.times import to_ms
from ...history.postgres.acts import Act, Acts
from ...history.postgres.bell import Bell
from ...history.postgres.servers.lease import ServerLease
from ...hub.api import HubApi, Outcome
from ...hub.hub import Hub, UnknownSessionError
from ...hub.operations import Operation, operations
from ...hub.request_api import RequestAct, RequestActAnswer
from ..protocol.console_methods import OPERATIONS, method_of, params_of
from ..protocol.framing import Nothing
from .peers import PeerSessions
from .recorded_changes import RECORDED, record_change, tightening

EVERY = 0.5
"""Seconds after which a server polls the journal without a notification."""
ANSWER_SECONDS = 15.0
"""Time for which an operator waits for the server that owns a session."""
HAND_OVER = "session.hand_over"
"""Method that hands the session of an external agent over to the server to which the agent connected."""
CONSOLE_GONE = "console.gone"
"""Method that reports to another server that a console with claims there has disconnected."""
REQUEST_ACT = "request.act"
"""Method that executes an approval client's operation on a request at another server."""
MOVED = "the server that the agent went to"
"""Actor recorded for closing a session that continues at another server."""
NOT_RESUMED = "its server has ended. Nothing was done. Try again once its agent has resumed it"
"""Addition to the error of an act on a session that was taken over and is not resumed yet."""
_OPERATOR = TypeAdapter(Operator | None)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Posted:
    """The token with which an operator here acted at another server, and the right that it needed."""

    credential: Credential
    needed: Needed


@dataclass(slots=True)
class _ForeignToken:
    """A token of another server's operator who acted on a session here, as last reported."""

    session: str
    operator: Operator | None
    in_force: bool = True


class ForwardingHub(Hub):
    """Hub on a database; its operations on one session or request are executed by the session's owner.

    The forwarding methods are added below, from the declared operations. Waiting operations check for
    their answers whenever `_looked` is notified.
    """

    def __init__(self, journal: Journal, **options: Any) -> None:
        assert isinstance(journal.lock, ServerLease)
        super().__init__(journal, **options)
        self._lease = journal.lock
        self._peers = PeerSessions(self._lease, journal, self.redaction)
        self._acts = Acts(self._lease)
        self._looked = asyncio.Condition()
        self._bell: Bell | None = None
        self._acting: dict[str, asyncio.Task[None]] = {}
        self._posted: dict[str, _Posted] = {}
        self._foreign: dict[str, _ForeignToken] = {}
        # For each console here, the sessions at other servers in which it has claimed requests.
        self._claimed: dict[str, set[str]] = {}
        # When agents of sessions here last came, by the database's time.
        self._came: dict[str, int] = {}
        self._live.tokens.elsewhere = self._foreign_operator
        self._live.tokens.reported = self._reported

    # Operations of Agent Approval Protocol clients on sessions at other servers

    async def has_elsewhere(self, session_id: str) -> bool:
        owner = await asyncio.to_thread(self._journal.owner, session_id)
        return owner is not None and owner.id != self._lease.id

    async def act_elsewhere(self, session_id: str, act: RequestAct) -> RequestActAnswer | None:
        if not await self.has_elsewhere(session_id):
            return None
        answer, _ = await self._ask(uuid4().hex, session_id, REQUEST_ACT, act.model_dump_json(), {})
        if answer is None:
            where = self.server_of(session_id) or "another server"
            raise JournalError(f"{where}, which owns session '{session_id}', does not answer")
        try:
            return RequestActAnswer.model_validate(result_of(answer))
        except (LookupError, UnknownSessionError, ValueError) as error:
            raise JournalError(f"the server that owns the session refused: {error}") from error

    async def _act_on_request(self, act: Act) -> str:
        try:
            if self.request_actor is None:
                raise JournalError("this server does not serve approval requests")
            done = await self.request_actor(RequestAct.model_validate_json(act.params))
        except Exception as error:
            log.exception("an operation on '%s' from a client at another server failed", act.session)
            return _error(error)
        return json.dumps({"result": done.model_dump(mode="json")})

    # Operations of operators on sessions at other servers

    def _elsewhere(self, arguments: Mapping[str, object]) -> str | None:
        """The session at another server to which an operation applies; `None` if it is here."""
        approval, session = arguments.get("approval_id"), arguments.get("session_id")
        if isinstance(approval, str):
            return self._peers.of_request(approval)
        if isinstance(session, str) and self._peers.find(session) is not None:
            return session
        return None

    async def _forward(
        self, operation: Operation, session: str, arguments: Mapping[str, object]
    ) -> object:
        """Execute an operation at the server that owns a session, and return its result."""
        if (divergence := self._journal.diverged_sessions.get(session)) is not None:
            return _refused(operation, divergence.error())
        method = method_of(operation)
        declared = inspect.signature(operation.function).parameters
        params = params_of(operation, **{each: arguments[each] for each in declared & arguments.keys()})
        credential = cast("Credential | None", arguments.get("credential"))
        act = uuid4().hex
        actor: dict[str, object] = {name: arguments.get(name) for name in ("by", "console")}
        if credential is not None and operation.changes:
            actor |= {"token": act, "operator": _OPERATOR.dump_python(credential.operator, mode="json")}
            is_decision = operation.needs == "decide" and arguments.get("grant") is None
            self._posted[act] = _Posted(credential, "decide" if is_decision else "administer")
        if operation.name == "claim" and isinstance(console := arguments.get("console"), str):
            self._claimed.setdefault(console, set()).add(session)
        body = params.model_dump_json(by_alias=True)
        answer, withdrawn = await self._ask(act, session, operation.wire_name, body, actor)
        if (answer is not None or withdrawn) and not _takes_credential(getattr(Hub, operation.name)):
            self._posted.pop(act, None)  # it is done, whatever happens to the token
        if answer is None:
            return self._unanswered(operation, session, withdrawn=withdrawn)
        result = method.result.model_validate(result_of(answer))
        if isinstance(result, Nothing):
            return None
        return cast("RootModel[object]", result).root if isinstance(result, RootModel) else result

    async def _ask(
        self, act: str, session: str, method: str, params: str, actor: Mapping[str, object]
    ) -> tuple[str | None, bool]:
        """Post an act to a session's owner and wait: its answer, if any, and whether it was withdrawn.

        Raises `JournalError` only if the act was certainly not posted.
        """
        try:
            await asyncio.to_thread(self._acts.post, act, session, method, params, json.dumps(actor))
        except JournalError:
            if await self._withdraw(act):
                raise
            return None, False
        self._ring()
        if (answer := await self._wait_for(act)) is not None:
            return answer, False
        withdrawn = await self._withdraw(act)
        with suppress(JournalError):
            answer = await asyncio.to_thread(self._acts.result, act)
        return answer, withdrawn

    async def _withdraw(self, act: str) -> bool:
        """Withdraw an act; return false if its execution may have begun."""
        try:
            return await asyncio.to_thread(self._acts.withdraw, act)
        except JournalError:
            return False

    async def _wait_for(self, act: str) -> str | None:
        """Wait for the answer to an act; `None` if it does not come in time."""
        until = time.monotonic() + ANSWER_SECONDS
        while (remaining := until - time.monotonic()) > 0:
            with suppress(JournalError):  # the database may answer the next query
                if (answer := await asyncio.to_thread(self._acts.result, act)) is not None:
                    return answer
            with suppress(TimeoutError):
                async with asyncio.timeout(min(remaining, EVERY)), self._looked:
                    await self._looked.wait()
        return None

    async def console_gone(self, console: str) -> None:
        """End the claims of a disconnected console at every server."""
        await super().console_gone(console)
        for session in self._claimed.pop(console, ()):
            actor = json.dumps({"console": console})
            await asyncio.to_thread(self._acts.post, uuid4().hex, session, CONSOLE_GONE, "{}", actor)
        self._ring()

    def _unanswered(self, operation: Operation, session: str, *, withdrawn: bool) -> object:
        where = self.server_of(session)
        reason = f"{where}, which owns session '{session}', does not answer"
        if where is None:
            reason = f"the server of session '{session}' has ended, and its agent is not back yet"
        if withdrawn:
            message = f"Not {operation.done}: {reason}. Try again in some seconds"
        else:
            message = f"Perhaps not {operation.done}: {reason}. Check the session before you try again"
        return _refused(operation, JournalError(reason), message)

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    # Operations from other servers on sessions here

    def arrival(self) -> Callable[[str], None]:
        return partial(self._note_arrival, to_ms(self._journal.clock()))

    def _note_arrival(self, at: int, session_id: str) -> None:
        """Note that the agent of a session here came `at` this time, unless it came later as well."""
        self._came[session_id] = max(at, self._came.get(session_id, at))

    async def _hand_over_session(self, session_id: str, came: int | None = None) -> None:
        """Release an external agent's session to the server to which the agent has connected.

        `came` is the time of that connection, in UTC milliseconds of the database's clock. An agent that
        has connected here since keeps its session here.
        """
        # Events of a session that is just beginning, resuming or ending here have to be recorded first.
        await self._live.settled(session_id)
        if came is not None and came < self._came.get(session_id, came):
            raise JournalError(f"the agent of session '{session_id}' has come back here since")
        with suppress(UnknownSessionError):
            if self._live.hosted(session_id).kind != "outside":
                raise ValueError(f"session '{session_id}' runs here")
            await self._live.close(session_id, MOVED)
        await asyncio.to_thread(self._journal.release, session_id)

    async def _perform(self, act: Act) -> None:
        """Execute an operator's act from another server, and write its answer to the inbox."""
        try:
            await self._note_answer(act, await self._answer(act))
        except JournalError as error:
            log.warning(
                "the answer to act '%s' on '%s' could not be written: %s", act.id, act.session, error
            )
        finally:
            self._acting.pop(act.id, None)
            self._ring()

    async def _note_answer(self, act: Act, answer: str) -> None:
        """Write an answer, with repeated attempts while the other server waits. Raises `JournalError`."""
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return await asyncio.to_thread(self._acts.answer, act.id, answer)
            except JournalError:
                if time.monotonic() > until or self._journal.disturbed is not None:
                    raise
            await asyncio.sleep(EVERY)

    async def _answer(self, act: Act) -> str:
        if act.method == HAND_OVER:
            try:
                # A session that has come to this server in the meantime needs no hand-over.
                if act.origin != self._lease.id:
                    came = json.loads(act.params).get("came")
                    await self._hand_over_session(act.session, came)
            except Exception as error:
                return _error(error)
            return json.dumps({"result": {}})
        if act.method == CONSOLE_GONE:
            await super().console_gone(str(json.loads(act.actor).get("console")))
            return json.dumps({"result": {}})
        if act.method == REQUEST_ACT:
            # Idempotent, so it may be repeated after the server that began it has ended.
            return await self._act_on_request(act)
        operation = OPERATIONS.get(act.method)
        if operation is None or operation.name not in _FORWARDED:
            return _error(ValueError(f"this server does not support '{act.method}'"))
        if act.taken is not None and not operation.may_repeat:
            return _interrupted(operation)
        method = method_of(operation)
        if act.lapsed and "token" in (actor := json.loads(act.actor)):
            return _lapsed(operation, actor.get("by"))
        try:
            params = method.params.model_validate_json(act.params)
            arguments = {name: getattr(params, name) for name in method.params.model_fields}
            function = getattr(Hub, operation.name)
            actor = json.loads(act.actor)
            by: dict[str, object] = {"by": actor.get("by"), "console": actor.get("console")}
            if _takes_credential(function):
                by["credential"] = self._credential(act, actor)
            parameters = inspect.signature(function).parameters
            arguments |= {name: value for name, value in by.items() if name in parameters}
            try:
                result = await function(self, **arguments)
            except UnknownSessionError as error:
                if (result := await self._change_recorded(operation, arguments)) is None:
                    return _error(await self._not_live(act.session, error))
        except Exception as error:
            if not isinstance(error, tuple(_ERRORS.values())):
                log.exception("act '%s' on '%s' failed", act.id, act.session)
            return _error(error)
        if result is None:
            return json.dumps({"result": {}})
        answer = result if isinstance(result, BaseModel) else method.result.model_validate(result)
        return json.dumps({"result": answer.model_dump(mode="json", by_alias=True)})

    async def _not_live(self, session: str, error: UnknownSessionError) -> UnknownSessionError:
        """Return the error of an act on a session that is not live; it says whether that may change."""
        with suppress(JournalError, SessionNotFound):
            line = await asyncio.to_thread(self._journal.reader().session, session, whole=True)
            if (line.status, line.error) == ("failed", DIED):
                return UnknownSessionError(f"{error}: {NOT_RESUMED}")
        return error

    async def _change_recorded(
        self, operation: Operation, arguments: Mapping[str, object]
    ) -> Outcome | None:
        """Tighten a session that runs at no server in its record; `None` if its server has to do it.

        An operator may act while the session's server is dead, and the agent may come back much later.
        """
        session, change = arguments.get("session_id"), tightening(operation.name, arguments)
        if change is None or not isinstance(session, str):
            return None
        await self._live.settled(session)
        with self._live.left_open(session) as is_free:
            if not is_free:
                again = "the session has just been resumed. Try again"
                return Outcome(ok=False, message=f"Not {operation.done}: {again}")
            try:
                events, outcome = await asyncio.to_thread(record_change, self._journal, session, change)
                await asyncio.to_thread(self._journal.release, session)
            except SessionNotFound:
                return None
            except JournalError as error:
                return Outcome(ok=False, message=f"Not {operation.done}: {error}")
        for event in events:
            self._hand_over(self.redaction.event(event))
        return outcome

    def _credential(self, act: Act, actor: dict[str, JsonValue]) -> Credential | None:
        """Return the actor's token, if there is one; the server that posted the act validates it."""
        if not isinstance(actor.get("token"), str):
            return None
        operator = _OPERATOR.validate_python(actor.get("operator"))
        self._foreign[act.id] = _ForeignToken(act.session, operator)
        return Credential(act.id, self._is_in_force, operator)

    def _is_in_force(self, token: str, needed: Any) -> bool:
        """Return whether a token is valid, including a token that was used at another server.

        That server checked its rights when the act came, and its last report on the token counts. Once
        the server has ended, the token is invalid.
        """
        reported = self._reported(token)
        if reported is not None:
            return reported
        check = self._live.tokens.check
        return check is not None and check(token, needed)

    def _reported(self, token: str) -> bool | None:
        """Return whether a token that was used at another server is valid; `None` for any other token."""
        foreign = self._foreign.get(token)
        return None if foreign is None else foreign.in_force

    async def _check_tokens(self) -> None:
        """Report tokens that are no longer valid to other servers, and read their reports."""
        for act, posted in list(self._posted.items()):
            if not self._still_holds(posted):
                await asyncio.to_thread(self._acts.lapse, act)
                self._posted.pop(act, None)
        for act, token in list(self._foreign.items()):
            if act not in self._acting and not self._is_open(token.session):
                del self._foreign[act]
        if foreign := [*self._foreign]:
            valid = await asyncio.to_thread(self._acts.in_force, foreign)
            for act in self._foreign.keys() & foreign:
                self._foreign[act].in_force = act in valid

    def _still_holds(self, posted: _Posted) -> bool:
        """Return whether an operator who acted at another server still has the rights and groups."""
        credential = posted.credential
        if not credential.in_force(credential.token, posted.needed):
            return False
        operator = credential.operator
        if operator is None or not operator.groups:
            return True
        return {*operator.groups} <= {*self._live.tokens.operator(operator.name).groups}

    def _foreign_operator(self, token: str) -> Operator | None:
        """Return the operator who acted with a token at another server, as that server reported."""
        foreign = self._foreign.get(token)
        return None if foreign is None else foreign.operator

    def _is_open(self, session: str) -> bool:
        """Return whether a session here has open requests or changes that an act may concern."""
        with suppress(UnknownSessionError):
            state = self._live.hosted(session).state
            return bool(state.approvals or state.changes)
        return False


_ERRORS: dict[str, type[Exception]] = {
    each.__name__: each for each in (JournalError, LookupError, UnknownSessionError, ValueError)
}


def result_of(answer: str) -> object:
    """Return the result in an answer, or raise the error in it."""
    content = json.loads(answer)
    if "error" in content:
        raise _ERRORS.get(content["error"], JournalError)(content["message"])
    return content["result"]


def _refused(operation: Operation, error: JournalError, message: str | None = None) -> Outcome:
    """Return a refusal as the operation's result; raise `error` if its result cannot express one.

    `message` replaces the refusal's usual message.
    """
    if not operation.done:
        raise error
    result = method_of(operation).result
    assert issubclass(result, Outcome)
    return result(ok=False, message=message or f"Not {operation.done}: {error}")


def _lapsed(operation: Operation, by: object) -> str:
    """Return the answer to an act whose token is no longer valid."""
    error = JournalError(
        f"the token of {by} is no longer in force, or the server that knows it has ended"
    )
    if not operation.done:
        return _error(error)
    refusal = _refused(operation, error)
    return json.dumps({"result": refusal.model_dump(mode="json", by_alias=True)})


def _interrupted(operation: Operation) -> str:
    """Return the answer to an act that a server began before it ended, and that may not be repeated."""
    error = JournalError("the server that began it has ended: check whether it was done")
    if not operation.done:
        return _error(error)
    refusal = _refused(operation, error, f"Perhaps not {operation.done}: {error}")
    return json.dumps({"result": refusal.model_dump(mode="json", by_alias=True)})


def _error(error: Exception) -> str:
    kinds = (name for name, each in reversed(_ERRORS.items()) if isinstance(error, each))
    return json.dumps({"error": next(kinds, "JournalError"), "message": f"{error}"})


def _takes_credential(function: Callable[..., object]) -> bool:
    """Return whether a hub's method checks the operator's token again when it takes effect."""
    return "credential" in inspect.signature(function).parameters


def _forwarding(operation: Operation) -> Callable[..., object]:
    """Wrap an operation so that it is forwarded if its session is at another server.

    Every change takes the operator's token as `credential`: one that waits for the other server does not
    count once the token is revoked.
    """
    method = getattr(Hub, operation.name)
    own = signature = inspect.signature(method)
    if operation.changes and not _takes_credential(method):
        credential = inspect.Parameter("credential", inspect.Parameter.KEYWORD_ONLY, default=None)
        signature = own.replace(parameters=[*own.parameters.values(), credential])

    async def call(self: ForwardingHub, *args: object, **kwargs: object) -> object:
        arguments = signature.bind(self, *args, **kwargs).arguments
        del arguments["self"]
        session = self._elsewhere(arguments)  # pyright: ignore[reportPrivateUsage]
        if session is None:
            if signature is not own:
                kwargs.pop("credential", None)
            try:
                return await method(self, *args, **kwargs)
            except UnknownSessionError:
                session = str(arguments.get("session_id"))
                if tightening(operation.name, arguments) is None:
                    raise
                if not await self.has_elsewhere(session):
                    outcome = await self._change_recorded(operation, arguments)  # pyright: ignore[reportPrivateUsage]
                    if outcome is None:
                        raise
                    return outcome
        return await self._forward(operation, session, arguments)  # pyright: ignore[reportPrivateUsage]

    forwarding = wraps(method)(call)
    forwarding.__dict__["__signature__"] = signature
    return forwarding


_FORWARDED = [
    name
    for name, each in operations(HubApi).items()
    if each.wire_name
    and not each.is_job
    and {"approval_id", "session_id"} & inspect.signature(each.function).parameters.keys()
    and name not in ("origin", "recorded", "decision_event", "note_reading", "accept_loss")
]
"""Operations on one live session or on one open request."""

NEXT_OWNER = [
    operations(HubApi)[name].wire_name
    for name in _FORWARDED
    if operations(HubApi)[name].changes
    and "session_id" in inspect.signature(operations(HubApi)[name].function).parameters
    and name not in RECORDED
]
"""Methods that wait in the inbox until a session whose server ended is resumed."""

for _name in _FORWARDED:
    setattr(ForwardingHub, _name, _forwarding(operations(HubApi)[_name]))
