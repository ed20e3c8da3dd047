"""Signatures in an imported session: that it was imported, and that masked content is unchanged.

That a session was imported is not part of its chain, so its first event is signed: nobody can set or
remove the mark alone. For masked events only the hash of the unmasked content is part of the chain. The
masked content could therefore be changed afterwards, and so could that of any event once its session is
marked as imported and its salt is removed. The key and the signature follow the content hash in the
event's column `content`.
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
        """Return whether it is valid for the event with this hash and this stored body."""
        # Imported on first use: most journals have no imported sessions.
        from .signing import signed

        return signed(_message(event, body), self.signature, self.key)


def is_vouched(seq: int, salt: bytes | None) -> bool:
    """Return whether the event with this number and salt is signed if its session is imported."""
    return seq == 1 or salt is None


def vouched(content: bytes, event: bytes, body: str, signer: Signer) -> bytes:
    """Return a signed event's column `content`: its content's hash, the public key, the signature."""
    return content + signer.public + signer.sign(_message(event, body))


def vouch_in(stored: bytes | None) -> tuple[bytes | None, Vouch | None]:
    """Split a column's value into content hash and signature; older versions stored no signature."""
    if type(stored) is not bytes or len(stored) != HASH_BYTES + KEY_BYTES + SIGNATURE_BYTES:
        return stored, None
    signature = HASH_BYTES + KEY_BYTES
    return stored[:HASH_BYTES], Vouch(stored[HASH_BYTES:signature], stored[signature:])


def _message(event: bytes, body: str) -> bytes:
    return b"interlock-import\0" + event + hashlib.sha256(body.encode("utf-8", "surrogatepass")).digest()
