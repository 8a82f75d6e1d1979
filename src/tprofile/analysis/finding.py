"""`Finding`: one thing that holds the code back, or that spoils the record of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something to change, with the evidence for it. `tprofile.explain(kind)` tells all about it.

    Texts are for people, and hold names from the trace as they were recorded.
    """

    kind: str
    """One of `KINDS`."""
    title: str
    """What it is, in a few plain words: "30 waits for the GPU"."""
    evidence: str
    """The numbers of this profile that prove it, in a sentence or two."""
    advice: str
    """What to write instead, with the torch call to use."""
    gain_us: float | None
    """Microseconds of a run that would be saved at most; None where no bound is known."""
    where: str
    """The line, operator or kernel that it is about."""
    line: int | None = None
    """Line of the cell, as in `Profile.lines`; None where it is not known, or not of the cell."""
    label: str = ""
    """Two or three words for the row of that line: "30 waits"."""


KINDS = (
    "small-kernels", "sync", "pageable-copy", "host-gap", "fusion", "tensor-cores",
    "low-occupancy", "graph-breaks", "recompiles", "cold-start", "allocator", "layout-copies",
    "for-loop-optimizer", "dropped-events", "truncated", "profiler-overhead",
)  # fmt: skip
"""Every kind that there is; each has a page of this name in the documentation."""
