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


class Break(Struct, frozen=True):
    """A place at which torch.compile had to stop, and Python goes on."""

    reason: str
    file: str | None = None
    """None for the profiled cell, and where it is not known."""
    line: _Count | None = None


class Results(Struct, frozen=True, kw_only=True):
    """How the results of two variants compare, of one run each from the same random state."""

    tensors: _Count = 0
    """How many were compared."""
    absolute: float | None = None
    """The largest difference of two elements."""
    relative: float | None = None
    """The same, of a tensor, over its largest element; the largest that there is."""
    where: str | None = None
    """Name of the tensor with that."""
    unlike: list[str] = []
    """What differs in kind: shapes, types, NaN in one of them."""
    unchecked: str | None = None
    """Why nothing, or not all, can be said."""

    def but(self, **known: Any) -> Results:
        """Return the same with some fields replaced."""
        return msgspec.structs.replace(self, **known)


class Compiled(Struct, frozen=True, kw_only=True):
    """What is known of the variant of a cell that torch.compile made."""

    names: list[str]
    """Names of the notebook that stood for their compiled forms."""
    already: list[str] = []
    """Those of them that had been compiled before."""
    graphs: _Count = 0
    """Graphs made in the unprofiled runs."""
    breaks: list[Break] = []
    recompiles: list[str] = []
    """Why code was compiled once more, in the unprofiled runs."""
    timed_recompiles: _Count = 0
    """How many of those were in runs whose time was taken, after the warm-up."""
    late_recompiles: list[str] = []
    """The same in the profiled runs."""
    given_up: list[str] = []
    """Functions that torch would not compile once more, which then ran as they are, and why."""
    results: Results | None = None
    """None where they were not looked at."""


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
    """Wall of unprofiled runs that were made to be timed, or as the user gave them to `load`, in
    seconds. Where there are any, they count, and not the warm-up runs."""
    loop_s: list[_Seconds] = []
    """Seconds per run of several unprofiled runs in a row, with one wait at the end of them all."""
    label: str | None = None
    """What its user calls it."""
    compiled: Compiled | None = None
    """What torch.compile did, where it made this variant."""

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
