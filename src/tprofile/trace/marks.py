"""Names under which the recorder marks its own doings, so that analysis can tell them apart."""

from __future__ import annotations

import re
from typing import NamedTuple

OURS = "tprofile::"
"""What all of them begin with."""

RUN = "tprofile::run"
"""Around each profiled run, the synchronise at its end included."""

WARMUP = "tprofile::warmup"
"""Around the run that warms up the profiler itself: what was recorded up to its end is dropped."""

SYNCHRONIZE = "tprofile::synchronize"
"""Around our own wait for the device: never one of the user's rows."""

BEFORE = "tprofile::each"
"""Around what resets the state ahead of a run: in no run, so in no figure."""

_CLOCK = "tprofile::clock "
"""What a mark begins with that ties a clock to that of the trace. Dropped when that is done."""

KEPT = (RUN, SYNCHRONIZE, BEFORE)
"""Those that stand in a recorded trace."""

LINE = "tprofile::line "
"""What the mark around each run of a line begins with. The line's number follows; in a function, as
`--stack` records them, the function's name; and the file, which may hold blanks, unless it is the
cell itself."""

MODULE = "tprofile::module "
"""What the mark around each call of an nn.Module begins with; its type, the name of the outermost
module and the path below it follow, with a blank between them. A path may hold blanks."""

_LINE = re.compile(re.escape(LINE) + r"([1-9][0-9]{0,8})(?: (\S+)(?: (.+))?)?", re.DOTALL)


def clock(number: int) -> str:
    """Return the name of a mark that ties the clocks: a number of its own for each."""
    return f"{_CLOCK}{number}"


def is_clock(name: str) -> bool:
    """Tell whether a mark is one that ties the clocks."""
    return name.startswith(_CLOCK)


class Line(NamedTuple):
    """What the mark of a line says."""

    number: int
    """In the cell as its user sees it, the magic's line being 1, or in the file."""
    function: str | None = None
    """None for a statement of the cell that is in no function."""
    file: str | None = None
    """None for the cell."""


def line(number: int, function: str | None = None, file: str | None = None) -> str:
    """Return the name of the mark of a line; a function's name holds no blank."""
    return " ".join([f"{LINE}{number}", *(part for part in (function, file) if part is not None)])


def parse_line(name: str) -> Line | None:
    """Return what the name of a mark says of a line; None if it is not the mark of one."""
    found = _LINE.fullmatch(name)
    return Line(int(found[1]), found[2], found[3]) if found else None


class Module(NamedTuple):
    """What the mark of a call of an nn.Module says."""

    type: str
    """Name of its class."""
    root: str
    """Name of the outermost module called, in which this one was."""
    path: str = ""
    """Below that one; empty for that one itself."""


def module(type_: str, root: str, path: str = "") -> str:
    """Return the name of the mark of a module; class and root hold no blank."""
    return MODULE + " ".join([type_, root, *([path] if path else [])])


def parse_module(name: str) -> Module | None:
    """Return what the name of a mark says of a module; None if it is not the mark of one."""
    parts = name.removeprefix(MODULE).split(" ", 2)
    good = name.startswith(MODULE) and len(parts) > 1 and all(parts)
    return Module(*parts) if good else None


def is_place(name: str) -> bool:
    """Tell whether a mark says where the code was: no figure but those by place knows of it."""
    return name.startswith(MODULE) or parse_line(name) is not None
