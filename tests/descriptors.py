"""A process that can open no file any more."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_descriptor_left"]


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Let this process open nothing within the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)  # the lowest that is free
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            assert error.errno == errno.EMFILE  # noqa: PT017 -- the other way out fails, too
        else:
            raise AssertionError("a descriptor is left")
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
