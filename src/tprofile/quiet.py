"""Hold back what the profiler's start and stop would let through: interrupts, log lines."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
import threading
from collections.abc import Iterator
from types import FrameType

_OF_THE_PROFILER = re.compile(
    rb"(USDT:|STAGE:|INFO:).*(profiler_st|ActivityProfilerController)"
    # The first profile of a process may start in any thread: it works all the same.
    rb"|ERROR:.*External init callback must run in same thread"
)


_COMPLAINT = re.compile(rb"(?:WARNING|ERROR):\d[^\]]*\.cpp:\d+\] *(.+)")


@contextlib.contextmanager
def profiler_lines_dropped() -> Iterator[list[str]]:
    """Drop the lines that Kineto writes to file descriptor 2 when it starts and stops.

    They come from C++, so only the descriptor can be caught. Whatever else arrives meanwhile
    (CUPTI's errors, other threads) is passed on afterwards; Kineto's own warnings and errors among
    it are then in the list that the block gets.
    """
    complaints: list[str] = []
    try:
        saved = os.dup(2)
    except OSError:
        # No standard error at all, as under pythonw: nothing can appear on it.
        yield complaints
        return
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield complaints
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            caught.seek(0)
            kept = [line for line in caught if not _OF_THE_PROFILER.match(line)]
            told = filter(None, map(_COMPLAINT.match, kept))
            complaints += [match[1].decode("utf-8", "replace").strip() for match in told]
            if kept:
                os.write(2, b"".join(kept))


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Let Ctrl-C wait until the block has ended: a half-started profiler cannot be stopped."""
    if threading.current_thread() is not threading.main_thread():
        # Python delivers interrupts to the main thread alone.
        yield
        return
    pending: list[tuple[int, FrameType | None]] = []
    previous = signal.getsignal(signal.SIGINT)
    if previous is None:
        # Set from C; it could not be put back.
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: pending.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if pending and callable(previous):
            previous(*pending[0])
