"""A software authenticator: creates passkeys and signs with them, in the form that browsers send."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from hashlib import sha256

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from interlock.engine.approvals.passkeys import KeyAnswer, NewKey
from interlock.engine.history.audit.passkeys import encoded
from interlock.engine.hub.api import KeyRequest
from interlock.engine.hub.hub import Hub

PAGE = "https://laptop.example:8738"


@dataclass
class Authenticator:
    """A device with keys. `verified`: it verifies its user; `counts`: it has a signature counter."""

    origin: str = PAGE
    verified: bool = True
    counts: bool = True
    uses: int = 0
    keys: dict[str, ec.EllipticCurvePrivateKey] = field(default_factory=dict)

    def make(self, request: KeyRequest, name: str = "phone") -> NewKey:
        """Create a key for the options of a request."""
        assert request.options is not None
        private = ec.generate_private_key(ec.SECP256R1())
        raw = os.urandom(32)
        self.keys[encoded(raw)] = private
        numbers = private.public_key().public_numbers()
        key = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}
        rp = request.options["rp"]["id"]  # type: ignore[index,call-overload]
        credential = bytes(16) + len(raw).to_bytes(2) + raw + cbor2.dumps(key)
        data = self._data(rp, 0x40) + credential
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", request.options["challenge"])
        return NewKey(
            id=request.id,
            name=name,
            credential=encoded(raw),
            attestation=encoded(attestation),
            client=encoded(client),
        )

    def sign(self, request: KeyRequest, credential: str | None = None) -> KeyAnswer:
        """Sign the options of a request with the first allowed key of this device."""
        assert request.options is not None
        allowed = [each["id"] for each in request.options["allowCredentials"]]  # type: ignore[union-attr]
        chosen = credential or next(each for each in allowed if each in self.keys)
        data = self._data(request.options["rpId"], 0)
        client = self._client("webauthn.get", request.options["challenge"])
        signed = data + sha256(client).digest()
        signature = self.keys[chosen].sign(signed, ec.ECDSA(hashes.SHA256()))
        return KeyAnswer(
            id=request.id,
            credential=chosen,
            authenticator=encoded(data),
            client=encoded(client),
            signature=encoded(signature),
        )

    def _data(self, rp: object, flags: int) -> bytes:
        self.uses += self.counts
        flags |= 0x01 | (0x04 if self.verified else 0)
        return sha256(str(rp).encode()).digest() + bytes([flags]) + self.uses.to_bytes(4)

    def _client(self, kind: str, challenge: object) -> bytes:
        said = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(said).encode()


async def enroll(
    hub: Hub, operator: str, device: Authenticator, name: str = "phone", by: Authenticator | None = None
) -> str:
    """Enroll a key of an operator, confirmed by the code or an earlier key; return its id."""
    codes: list[str] = []
    hub.serve_keys(None, codes.append)
    begun = await hub.begin_key(origin=device.origin, by=operator)
    assert begun.ok, begun.message
    new = device.make(begun, name)
    made = await hub.register_key(new, by=operator)
    assert made.ok, made.message
    if made.options is None:
        code = codes[-1].partition("code ")[2][:9]
        done = await hub.confirm_key(made.id, code=code, by=operator)
    else:
        done = await hub.confirm_key(made.id, passkey=(by or device).sign(made), by=operator)
    assert done.ok, done.message
    return new.credential
