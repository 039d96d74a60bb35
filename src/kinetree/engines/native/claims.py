"""Lets processes that need the same code at the same time compile it once.

Programs often start several processes at once, with the same robot. The first one that needs a kernel claims it by
locking a file in the cache; the others wait for its code. The system releases the claims of a process that ends,
however it ends. Claims are a courtesy: whoever cannot claim, or has waited for too long, compiles on its own.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from kinetree.engines.native import cache

try:
    import fcntl
except ImportError:  # Windows has other locks
    _CAN_LOCK = False
else:
    _CAN_LOCK = True

# the largest kernels take 5 s to compile
_PATIENCE_SECONDS = 20.0
_POLL_SECONDS = 0.005


@contextlib.contextmanager
def claimed(name: str | None) -> Iterator[None]:
    """Claim an entry of the cache inside a `with` block, after waiting for a process that has done so before.

    Args:
        name: The key of the entry; None for code that is not cached.
    """
    path = cache.claim_file(name) if _CAN_LOCK else None
    descriptor = None
    if path is not None:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            end = time.monotonic() + _PATIENCE_SECONDS
            while not _locked(descriptor) and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        if path is not None and descriptor is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Try to lock a file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
