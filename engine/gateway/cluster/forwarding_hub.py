"""A hub that forwards what is asked about a session to the server of its database that owns it.

The request of an operator is written down in the database, where the owner finds it, acts, and writes the
answer.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any, cast
from uuid import uuid4

from pydantic import BaseModel, JsonValue, RootModel, TypeAdapter

from ...approvals.policy import Credential
from ...core.approvers import Operator
from ...history.errors import JournalError
from ...history.journal.journal import Journal
from ...history.postgres.acts import Act, Acts
from ...history.postgres.bell import Bell
from ...history.postgres.server import ServerLease
from ...hub.api import HubApi, Outcome
from ...hub.hub import Hub, UnknownSessionError
from ...hub.operations import Operation, operations
from ...hub.request_api import RequestAct, RequestActAnswer
from ..protocol.console_methods import OPERATIONS, method_of, params_of
from ..protocol.framing import Nothing
from .peers import PeerSessions

EVERY = 0.5
"""Seconds after which a server looks at the journal even though no bell rang."""
ANSWER_SECONDS = 15.0
"""Time for which an operator waits for the server that owns a session."""
HAND_OVER = "session.hand_over"
"""Method by which one server asks another for the session of an agent that has come to it."""
CONSOLE_GONE = "console.gone"
"""Method by which one server tells another that a console with claims there is gone."""
REQUEST_ACT = "request.act"
"""Method by which one server has another do what a client wants of a request."""
MOVED = "the server that the agent went to"
"""Name in the record for who closed a session that goes on at another server."""
_OPERATOR = TypeAdapter(Operator | None)

log = logging.getLogger(__name__)


class ForwardingHub(Hub):
    """A hub on a database whose declared operations on one session or request reach the session's owner.

    They are added below. Answers are looked for whenever `_looked` is notified.
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
        self._posted: dict[str, Credential] = {}
        self._in_force: dict[str, bool] = {}
        # Sessions at other servers of whose requests consoles here have claimed some.
        self._claimed: dict[str, set[str]] = {}
        self._acted_on: dict[str, str] = {}

    # What clients of the Agent Approval Protocol ask of sessions at other servers

    async def has_elsewhere(self, session_id: str) -> bool:
        owner = await asyncio.to_thread(self._journal.owner, session_id)
        return owner is not None and owner.id != self._lease.id

    async def act_elsewhere(self, session_id: str, act: RequestAct) -> RequestActAnswer | None:
        if not await self.has_elsewhere(session_id):
            return None
        answer, _ = await self._ask(uuid4().hex, session_id, REQUEST_ACT, act.model_dump_json(), {})
        if answer is None:
            where = self.server_of(session_id) or "another server"
            raise JournalError(f"{where}, which has session '{session_id}', does not answer")
        try:
            return RequestActAnswer.model_validate(result_of(answer))
        except (LookupError, UnknownSessionError, ValueError) as error:
            raise JournalError(f"another server cannot do it: {error}") from error

    async def _act_on_request(self, act: Act) -> str:
        try:
            if self.request_actor is None:
                raise JournalError("this server takes no requests")
            done = await self.request_actor(RequestAct.model_validate_json(act.params))
        except Exception as error:
            log.exception("what a client at another server asks of '%s' failed", act.session)
            return _error(error)
        return json.dumps({"result": done.model_dump(mode="json")})

    # What operators ask of sessions at other servers

    def _elsewhere(self, arguments: Mapping[str, object]) -> str | None:
        """The session at another server that an operation is about."""
        approval, session = arguments.get("approval_id"), arguments.get("session_id")
        if isinstance(approval, str):
            return self._peers.of_request(approval)
        if isinstance(session, str) and self._peers.find(session) is not None:
            return session
        return None

    async def _forward(
        self, operation: Operation, session: str, arguments: Mapping[str, object]
    ) -> object:
        """Have the server that owns a session do something; what it answered."""
        method = method_of(operation)
        declared = inspect.signature(operation.function).parameters
        params = params_of(operation, **{each: arguments[each] for each in declared & arguments.keys()})
        credential = cast("Credential | None", arguments.get("credential"))
        act = uuid4().hex
        actor: dict[str, object] = {name: arguments.get(name) for name in ("by", "console")}
        if credential is not None:
            actor |= {"token": act, "operator": _OPERATOR.dump_python(credential.operator, mode="json")}
            self._posted[act] = credential
        if operation.name == "claim" and isinstance(console := arguments.get("console"), str):
            self._claimed.setdefault(console, set()).add(session)
        asked = params.model_dump_json(by_alias=True)
        answer, withdrawn = await self._ask(act, session, operation.wire_name, asked, actor)
        if answer is None:
            return self._unanswered(operation, session, withdrawn=withdrawn)
        result = method.result.model_validate(result_of(answer))
        if isinstance(result, Nothing):
            return None
        return cast("RootModel[object]", result).root if isinstance(result, RootModel) else result

    async def _ask(
        self, act: str, session: str, method: str, params: str, actor: Mapping[str, object]
    ) -> tuple[str | None, bool]:
        """Have the owner of a session do something: its answer, if any, and whether it was withdrawn.

        Raises `JournalError` where nothing was asked. What may have been is not told as undone.
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
        """Take back what was asked; false where it may have been begun with, or nobody knows."""
        try:
            return await asyncio.to_thread(self._acts.withdraw, act)
        except JournalError:
            return False

    async def _wait_for(self, act: str) -> str | None:
        """The answer to what was asked, `None` where it does not come in time."""
        until = time.monotonic() + ANSWER_SECONDS
        while (left := until - time.monotonic()) > 0:
            with suppress(JournalError):  # the next look may be answered
                if (answer := await asyncio.to_thread(self._acts.result, act)) is not None:
                    return answer
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, EVERY)), self._looked:
                    await self._looked.wait()
        return None

    async def console_gone(self, console: str) -> None:
        """A console here is gone: its claims are over at every server."""
        await super().console_gone(console)
        for session in self._claimed.pop(console, ()):
            actor = json.dumps({"console": console})
            await asyncio.to_thread(self._acts.post, uuid4().hex, session, CONSOLE_GONE, "{}", actor)
        self._ring()

    def _unanswered(self, operation: Operation, session: str, *, withdrawn: bool) -> object:
        where = self.server_of(session) or "another server"
        said = f"{where}, which has session '{session}', does not answer"
        if not operation.done:
            raise JournalError(said)
        result = method_of(operation).result
        assert issubclass(result, Outcome)
        if withdrawn:
            return result(ok=False, message=f"Not {operation.done}: {said}. Try again in some seconds")
        said = f"Perhaps not {operation.done}: {said}. Look before you try again"
        return result(ok=False, message=said)

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    # What others ask of sessions here

    async def _hand_over_session(self, session_id: str) -> None:
        """Leave an external agent's session to the server that its agent has come to."""
        # It may begin, go on or end here at this moment: what that records has to come first.
        await self._live.settled(session_id)
        with suppress(UnknownSessionError):
            if self._live.hosted(session_id).kind != "outside":
                raise ValueError(f"session '{session_id}' runs here")
            await self._live.close(session_id, MOVED)
        await asyncio.to_thread(self._journal.release, session_id)

    async def _perform(self, act: Act) -> None:
        """Do what an operator at another server asks, and write down the answer."""
        try:
            await self._note_answer(act, await self._answer(act))
        except JournalError as error:
            log.warning("what '%s' asks of '%s' was not answered: %s", act.id, act.session, error)
        finally:
            self._acting.pop(act.id, None)
            self._ring()

    async def _note_answer(self, act: Act, answer: str) -> None:
        """Write down an answer, for as long as somebody waits for it. Raises `JournalError`."""
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
                # Of a session that came here meanwhile, there is nothing to hand over.
                if act.origin != self._lease.id:
                    await self._hand_over_session(act.session)
            except Exception as error:
                return _error(error)
            return json.dumps({"result": {}})
        if act.method == CONSOLE_GONE:
            await super().console_gone(str(json.loads(act.actor).get("console")))
            return json.dumps({"result": {}})
        if act.method == REQUEST_ACT:
            # Each of these is the same when it is done again, as after the end of a server.
            return await self._act_on_request(act)
        operation = OPERATIONS.get(act.method)
        if operation is None or operation.name not in _FORWARDED:
            return _error(ValueError(f"this server does not know '{act.method}'"))
        if act.taken is not None and not operation.may_repeat:
            return _error(
                JournalError("the server that began with it has ended: look whether it was done")
            )
        method = method_of(operation)
        try:
            params = method.params.model_validate_json(act.params)
            arguments = {name: getattr(params, name) for name in method.params.model_fields}
            taken = inspect.signature(getattr(Hub, operation.name)).parameters
            own = self._actor(act, json.loads(act.actor))
            arguments |= {name: value for name, value in own.items() if name in taken}
            result = await getattr(Hub, operation.name)(self, **arguments)
        except Exception as error:
            if not isinstance(error, tuple(_ERRORS.values())):
                log.exception("what '%s' asks of '%s' failed", act.id, act.session)
            return _error(error)
        if result is None:
            return json.dumps({"result": {}})
        shown = result if isinstance(result, BaseModel) else method.result.model_validate(result)
        return json.dumps({"result": shown.model_dump(mode="json", by_alias=True)})

    def _actor(self, act: Act, actor: dict[str, JsonValue]) -> dict[str, object]:
        """The actor, as this server's operations want it. Their token is the other server's to judge."""
        token = actor.get("token")
        credential = None
        if isinstance(token, str):
            self._in_force[act.id] = True
            self._acted_on[act.id] = act.session
            credential = Credential(
                act.id, self._is_in_force, _OPERATOR.validate_python(actor.get("operator"))
            )
        return {"by": actor.get("by"), "console": actor.get("console"), "credential": credential}

    def _is_in_force(self, token: str, needed: Any) -> bool:
        """Tell whether a token still counts, also one that was used at another server.

        Its rights were judged there when it came. What that server last said of it holds; of one that has
        ended nothing does.
        """
        if token in self._in_force:
            return self._in_force[token]
        check = self._live.tokens.check
        return check is not None and check(token, needed)

    async def _check_tokens(self) -> None:
        """Tell other servers of tokens that are no longer in force, and ask them about theirs."""
        for act, credential in list(self._posted.items()):
            if not credential.in_force(credential.token, "decide"):
                await asyncio.to_thread(self._acts.lapse, act)
                self._posted.pop(act, None)
        for act, session in list(self._acted_on.items()):
            if act not in self._acting and not self._is_open(session):
                del self._acted_on[act], self._in_force[act]
        if asked := [*self._in_force]:
            good = await asyncio.to_thread(self._acts.in_force, asked)
            self._in_force.update({act: act in good for act in asked if act in self._in_force})

    def _is_open(self, session: str) -> bool:
        """Tell whether something waits in a session here for which somebody may have acted."""
        with suppress(UnknownSessionError):
            state = self._live.hosted(session).state
            return bool(state.approvals or state.changes)
        return False


_ERRORS: dict[str, type[Exception]] = {
    each.__name__: each for each in (JournalError, LookupError, UnknownSessionError, ValueError)
}


def result_of(answer: str) -> object:
    """The result in an answer. Raises the error that it has instead."""
    found = json.loads(answer)
    if "error" in found:
        raise _ERRORS.get(found["error"], JournalError)(found["message"])
    return found["result"]


def _error(error: Exception) -> str:
    kinds = (name for name, each in reversed(_ERRORS.items()) if isinstance(error, each))
    return json.dumps({"error": next(kinds, "JournalError"), "message": f"{error}"})


def _forwarding(operation: Operation) -> Callable[..., object]:
    """An operation that is forwarded where it is about a session at another server."""
    own = getattr(Hub, operation.name)
    signature = inspect.signature(own)

    async def call(self: ForwardingHub, *args: object, **kwargs: object) -> object:
        arguments = signature.bind(self, *args, **kwargs).arguments
        del arguments["self"]
        session = self._elsewhere(arguments)  # pyright: ignore[reportPrivateUsage]
        if session is None:
            return await own(self, *args, **kwargs)
        return await self._forward(operation, session, arguments)  # pyright: ignore[reportPrivateUsage]

    return wraps(own)(call)


_FORWARDED = [
    name
    for name, each in operations(HubApi).items()
    if each.wire_name
    and not each.is_job
    and {"approval_id", "session_id"} & inspect.signature(each.function).parameters.keys()
    and name not in ("origin", "recorded", "decision_event", "note_reading")
]
"""Operations on one live session or on one open request."""

for _name in _FORWARDED:
    setattr(ForwardingHub, _name, _forwarding(operations(HubApi)[_name]))
