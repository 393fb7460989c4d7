"""Logs of others that a terminal is spared."""

from __future__ import annotations

import logging
import os


def quiet_libp2p() -> None:
    """Keep py-libp2p's warnings, for example of peers that vanish, out of the terminal.

    Its LIBP2P_DEBUG brings them back.
    """
    if not os.environ.get("LIBP2P_DEBUG"):
        logging.getLogger("libp2p").addHandler(logging.NullHandler())
