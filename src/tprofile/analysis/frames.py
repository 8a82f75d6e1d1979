"""The user's Python functions in a trace that torch recorded with stacks."""

from __future__ import annotations

import re
import sys

import numpy as np
from numpy.typing import NDArray

from ..intervals import NONE, Ints, climb, nest
from ..trace import Trace
from ..trace.marks import Line

_FRAME = re.compile(r"(?P<file>.+)\((?P<line>[0-9]{1,9})\): (?P<function>.+)", re.DOTALL)
"""How torch names a function: by the line that it begins in. Calls of C functions and of modules
are named otherwise."""

_INSTALLED = re.compile(r"(^|[/\\])(site-packages|dist-packages|lib[/\\]python3\.\d+t?)[/\\]")

_PACKAGES = frozenset(
    (
        *("torch", "torchgen", "functorch", "triton", "numpy", "tprofile"),
        *("IPython", "ipykernel", "ipykernel_launcher", "traitlets", "tornado", "zmq"),
        *("jupyter_client", "debugpy", "_pydevd_bundle", "pytest", "_pytest", "pluggy"),
    )
)
"""Not the user's. torch cuts off the folder in which Python looked for a file, so that an installed
package looks like one of the user's; these are the ones that run code of others, or torch's."""


_TORCHS = re.compile(r"(.*-packages[/\\])?torch[/\\](?!utils[/\\]data[/\\]).*", re.DOTALL)
"""Files of torch, but for what makes batches: that is work of the user's, whoever wrote it."""


def user_frames(trace: Trace) -> tuple[Ints, list[Line | None]]:
    """Return the calls of the user's functions, and for each name of the trace what it says.

    A function is the user's unless its file is of Python itself, in a folder of installed packages,
    of torch, or of what runs a notebook or a test. The line is the one that the function begins in:
    torch records no other.
    """
    said = [_line(name) for name in trace.names]
    users = np.array([one is not None for one in said] or [False])
    rows = np.flatnonzero(trace.category_is("python_function"))
    return rows[users[trace.name[rows]]], said


def torchs_frames(
    trace: Trace, rows: Ints, lane: Ints, works: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """Return stretches of these events, on threads `lane`, in which Python was in torch's own code.

    From when to when. What it calls of C, and what has no file, goes with it, but not what `works`
    marks, for each event of the trace.
    """
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    kinds = np.array([_is_torchs(name) for name in trace.names] or [NONE])[trace.name[rows]]
    kinds[works[rows]] = 0
    nesting = nest(lane, start, end)
    of = climb(nesting.parent, np.arange(len(rows)), kinds == NONE)
    kinds = np.where(of == NONE, 0, kinds[of])
    around = np.append(kinds, 0)[nesting.parent]
    # Where one kind calls the other the stretch changes, and does again when that returns.
    turn = np.flatnonzero(kinds != around)
    step = np.where(kinds[turn] == 1, 1, -1)
    time, change = np.r_[start[turn], end[turn]], np.r_[step, -step]
    lanes = np.r_[lane[turn], lane[turn]]
    order = np.lexsort((time, lanes))
    inside = np.cumsum(change[order])[:-1] > 0
    time, same = time[order], np.diff(lanes[order]) == 0
    some = inside & same & (time[1:] > time[:-1])
    return time[:-1][some], time[1:][some]


def _is_torchs(name: str) -> int:
    """Tell whether a function is torch's own, 1 or 0; `NONE` of one that bears no file."""
    found = _FRAME.fullmatch(name)
    if found is None or found["file"].startswith("<"):
        return NONE
    return int(_TORCHS.fullmatch(found["file"]) is not None)


def _line(name: str) -> Line | None:
    found = _FRAME.fullmatch(name)
    if found is None or not _of_user(found["file"]):
        return None
    return Line(int(found["line"]), found["function"], found["file"])


def _of_user(file: str) -> bool:
    top = re.split(r"[/\\]", file)[0].removesuffix(".py")
    return (
        not file.startswith("<")
        and not _INSTALLED.search(file)
        and top not in _PACKAGES
        and top not in sys.stdlib_module_names
    )
