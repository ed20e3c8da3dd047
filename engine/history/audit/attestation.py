"""Signature of an imported session: where it comes from, and that masked content is as it came.

That a session was imported is no part of its chain, so its first event is signed: the mark can be neither
put on nor taken off by itself. Of masked events nothing but the hash of what is behind the masks is part
of the chain. So the content as it is shown could be changed afterwards, and so could that of any event
once it is said to be imported and its salt is gone. The key and the signature follow that hash in
the event's column `content`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .signing import Signer

HASH_BYTES = 32
KEY_BYTES = 32
SIGNATURE_BYTES = 64


class Vouch(NamedTuple):
    """A signature by the Ed25519 key whose public half is `key`."""

    key: bytes
    signature: bytes

    def holds(self, event: bytes, body: str) -> bool:
        """Tell whether it is for the event of this hash, with this body as it is stored."""
        # Loaded with the first: most journals hold nothing that was imported.
        from .signing import signed

        return signed(_message(event, body), self.signature, self.key)


def is_vouched(seq: int, salt: bytes | None) -> bool:
    """Tell whether the event of this number and salt is signed when its session is imported."""
    return seq == 1 or salt is None


def vouched(content: bytes, event: bytes, body: str, signer: Signer) -> bytes:
    """The column `content` of a signed event: its content's hash and the vouch of `signer`."""
    return content + signer.public + signer.sign(_message(event, body))


def vouch_in(stored: bytes | None) -> tuple[bytes | None, Vouch | None]:
    """A content's hash and its vouch in a column's value; older versions stored none."""
    if type(stored) is not bytes or len(stored) != HASH_BYTES + KEY_BYTES + SIGNATURE_BYTES:
        return stored, None
    signature = HASH_BYTES + KEY_BYTES
    return stored[:HASH_BYTES], Vouch(stored[HASH_BYTES:signature], stored[signature:])


def _message(event: bytes, body: str) -> bytes:
    return b"interlock-import\0" + event + hashlib.sha256(body.encode("utf-8", "surrogatepass")).digest()
