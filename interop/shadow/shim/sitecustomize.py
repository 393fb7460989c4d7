"""What Shadow lacks for trio, in the Python processes that it runs. This folder is on their
PYTHONPATH.

Shadow 3.3 answers `setsockopt(SO_RCVBUF)` on a Unix socket pair with ENOSYS; trio wants the pair
small over which threads and signals wake it. And `signal.set_wakeup_fd` on that pair fails with
EINVAL. Both are passed over: a signal then waits for trio's next event.
"""

import errno
import signal
import socket
from typing import Any

_set_option = socket.socket.setsockopt
_set_wakeup = signal.set_wakeup_fd


def _set_option_if_known(self: socket.socket, *arguments: Any) -> None:
    try:
        _set_option(self, *arguments)
    except OSError as error:
        if error.errno != errno.ENOSYS or self.family != socket.AF_UNIX:
            raise


def _set_wakeup_if_known(fd: int, *, warn_on_full_buffer: bool = True) -> int:
    try:
        return _set_wakeup(fd, warn_on_full_buffer=warn_on_full_buffer)
    except (OSError, ValueError):
        return -1


socket.socket.setsockopt = _set_option_if_known  # type: ignore[method-assign,assignment]
signal.set_wakeup_fd = _set_wakeup_if_known
