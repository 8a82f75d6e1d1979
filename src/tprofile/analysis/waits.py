"""Which calls of the host wait for a device."""

from __future__ import annotations

import re

import numpy as np

from ..intervals import NONE
from .attribution import Attribution, Mask, once

_WAITS = re.compile(
    r"(cuda|hip|cu)((Device|Ctx|Stream|Event)Synchronize|Memcpy(?!\w*Async))\w*"
).fullmatch


@once
def waits(found: Attribution) -> Mask:
    """Mark the user's calls that return only when a device has done something.

    They are those that say so, and copies that are over when the call returns: to or from memory
    that is not pinned, also `cudaMemcpyAsync` waits. The wait at a run's end, which is ours, is
    not one.
    """
    trace = found.trace
    marked = found.counted & trace.name_is(_WAITS) & ~trace.on_device
    copies = np.flatnonzero(found.work & trace.category_is("gpu_memcpy") & (found.launch != NONE))
    call = found.launch[copies]
    blocking = trace.end_ns[call] >= trace.end_ns[copies]
    marked[call[blocking & found.counted[call]]] = True
    return marked
