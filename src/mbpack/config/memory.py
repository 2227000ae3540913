"""A bound on what one step may allocate, for readers that are not ours and believe the sizes a damaged file names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_STATM = "/proc/self/statm"


@contextmanager
def at_most(extra: int) -> Iterator[None]:
    """Let allocations fail with MemoryError once the process has grown by ``extra`` bytes of address space.

    Does nothing where the system does not tell how large the process is (outside Linux).
    """
    try:
        import resource

        with open(_STATM, encoding="ascii") as stream:
            size = int(stream.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    known = [limit for limit in (before, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([size + extra, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
