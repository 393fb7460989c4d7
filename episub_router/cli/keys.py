"""Identity keys in files.

A file holds a libp2p private key (its protobuf form) in base64, as in the configuration of
Kubo. Only its owner may read it.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.keys import KeyPair
from libp2p.crypto.serialization import deserialize_private_key

from episub_router.cli.arguments import CommandError

_MAX_BYTES = 16 * 1024


def load_or_create(path: Path) -> KeyPair:
    """The key in `path`, or a new Ed25519 key that is written there.

    Raises CommandError if the file can't be read or written or holds no key.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return _create(path)
    except OSError as error:
        raise CommandError(f"can't read the key file {path}: {error.strerror}") from error
    try:
        private = deserialize_private_key(base64.b64decode(text.strip(), validate=True))
        return KeyPair(private, private.get_public_key())
    except Exception as error:
        # The key libraries raise nearly anything for bad bytes.
        raise CommandError(f"{path} holds no libp2p private key in base64") from error


def _create(path: Path) -> KeyPair:
    pair = create_new_key_pair()
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(base64.b64encode(pair.private_key.serialize()) + b"\n")
    except OSError as error:
        raise CommandError(f"can't write the key file {path}: {error.strerror}") from error
    return pair
