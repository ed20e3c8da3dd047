"""The signing key of a journal; its signatures can be checked with its public half."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ..errors import JournalError
from ..journal.schema import name_of

WRITTEN_WITHIN = 2.0
"""Seconds within which another process has written the key that it creates."""


class Signer:
    """An Ed25519 key in a file that only its owner can read. Create it with `open`."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def open(cls, path: Path) -> Signer:
        """Read the key at `path`, or create one if there is none. Raises `JournalError`."""
        key = _read(path)
        return cls(_make(path) if key is None else key)

    @property
    def public(self) -> bytes:
        return _raw(self._key.public_key())

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def public_key(path: Path) -> bytes | None:
    """Return the public half of the key at `path`, if the file exists.

    Raises `JournalError` for a file without such a key.
    """
    key = _read(path)
    return None if key is None else _raw(key.public_key())


def trusted_key(path: Path) -> bytes:
    """Read a trusted public key from a PEM file with the public half or the whole key.

    Raises `JournalError` for a file that cannot be read or has no such key.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise JournalError(
            f"Cannot read the key to trust, '{name_of(path)}': {error.strerror}. "
            "Name a file with the public key of whoever signed."
        ) from error
    try:
        if b"PRIVATE KEY" in text:
            key = serialization.load_pem_private_key(text, password=None).public_key()
        else:
            key = serialization.load_pem_public_key(text)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise JournalError(_no_key_to_trust(path)) from error
    if not isinstance(key, Ed25519PublicKey):
        raise JournalError(_no_key_to_trust(path))
    return _raw(key)


def _no_key_to_trust(path: Path) -> str:
    return (
        f"'{name_of(path)}' has no Ed25519 key in PEM. The signer writes their public key with: "
        "openssl pkey -in journal-key.pem -pubout"
    )


def signed(message: bytes, signature: bytes, public: bytes) -> bool:
    """Return whether the owner of the key `public` has signed `message`."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def fingerprint(public: bytes) -> str:
    """Return a public key in a form short enough to compare by eye."""
    return hashlib.sha256(public).hexdigest()[:16]


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _read(path: Path) -> Ed25519PrivateKey | None:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalError(
            f"Cannot read the signing key '{name_of(path)}': {error.strerror}. Check its permissions."
        ) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise JournalError(_no_key(path)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise JournalError(_no_key(path))
    return key


def _no_key(path: Path) -> str:
    return f"'{name_of(path)}' is not an Ed25519 key. Restore it, or move it away to create a new one."


def _make(path: Path) -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            path.unlink()  # half a key would break the next attempt
            raise
    except FileExistsError:
        return _made_meanwhile(path)
    except OSError as error:
        raise JournalError(
            f"Cannot write the signing key '{name_of(path)}': {error.strerror}. "
            "Check the permissions of its directory."
        ) from error
    return key


def _made_meanwhile(path: Path) -> Ed25519PrivateKey:
    """Read the key that another process is creating at `path`, once it is written."""
    deadline = time.monotonic() + WRITTEN_WITHIN
    while True:
        try:
            key = _read(path)
        except JournalError:
            if time.monotonic() > deadline:
                raise
        else:
            if key is not None:
                return key
        if time.monotonic() > deadline:
            raise JournalError(
                f"The signing key '{name_of(path)}' was removed while it was made. Try again."
            )
        time.sleep(0.01)
