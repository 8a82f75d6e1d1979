"""The user's Python functions in a trace that torch recorded with stacks."""

from __future__ import annotations

import re
import sys

import numpy as np

from ..intervals import Ints
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
