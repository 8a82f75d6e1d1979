"""What a recorder knows and no event tells: the key `tprofile` of a trace file."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

_Seconds = Annotated[float, Meta(ge=0)]
_Count = Annotated[int, Meta(ge=0)]
_Number = Annotated[int, Meta(ge=1, le=1_000_000)]


class Stopped(Struct, frozen=True):
    """What ended a session early."""

    by: str
    """Type of the error."""
    during: str
    """What was being done: "profiled run 2 of 3"."""


class Line(Struct, frozen=True):
    """A line of a file other than the cell."""

    file: str
    line: _Count
    text: str


class Recorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a trace came to be. Everything is absent in a trace that another program wrote."""

    torch: str | None = None
    """Version of torch."""
    platform: str | None = None
    """What was recorded: `CPU`, `CUDA` or `HIP`."""
    cuda_available: bool | None = None
    asked_warmup: _Count | None = None
    asked_repeat: _Count | None = None
    max_seconds: float | None = None
    memory: bool | None = None
    """Whether allocations were recorded."""
    flops: bool | None = None
    """Whether the operators are to tell their operations."""
    modules: bool | None = None
    """Whether the calls of modules were marked."""
    stack: bool | None = None
    """Whether the lines of functions were marked, which slows Python code."""
    source: str | None = None
    """Text of the profiled cell, as its user wrote it."""
    first_line: _Number = 1
    """Number of the first line of that in the cell that the user sees."""
    lines: list[Line] = []
    """The lines of functions that are not the cell's."""
    earlier: _Count = 0
    """CUDA profiles that this process had made before, and that have left it slower."""
    unseen: list[str] = []
    """Why device work of this process is not in the record: a reason for each kind of device."""
    warmup_s: list[_Seconds] = []
    """Wall of each unprofiled warm-up run, in seconds."""
    discarded: _Count = 0
    """Runs under the profiler that were thrown away."""
    profiled: _Count | None = None
    """Profiled runs that came to their end."""
    stopped: Stopped | None = None
    notes: list[str] = []
    """What a reader must know to trust the figures."""
    unprofiled_s: list[_Seconds] = []
    """Wall of unprofiled runs as the user gave them to `load`, in seconds."""

    def but(self, **known: Any) -> Recorded:
        """Return the same with some fields replaced."""
        return msgspec.structs.replace(self, **known)


def decode(value: Any) -> tuple[Recorded, str | None]:
    """Return what a file says of its recording, and a note where that makes no sense."""
    try:
        return msgspec.convert(value, Recorded), None
    except msgspec.ValidationError as error:
        return Recorded(), f"what the file says of its own recording is unusable: {error}"


def encode(recorded: Recorded) -> Any:
    """Return the same as plain values for JSON."""
    return msgspec.to_builtins(recorded)
