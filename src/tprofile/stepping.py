"""Mark the lines of the user's functions, one after the other, while a run is profiled."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType, FunctionType
from typing import Any

Mark = AbstractContextManager[object]

MarkLine = Callable[[int, str, "str | None"], Mark]
"""Returns a mark for a line of a function (its name) of a file (None for the profiled cell)."""

OTHERS = object()
"""Stands for a file whose functions are not the user's."""

_EXPRESSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Code of its own to some versions of Python, but to a reader a part of the line it stands in."""

_COMPILED = ("__compiled_fn_", "__resume_at_")
"""What the names in code that torch.compile wrote begin with. Such code says in which function it
was, but its lines are not those of what it does."""


class Stepper:
    """Marks each line of the user's functions that one thread runs, in `with` blocks of a session.

    The user's are those of notebook cells and of files that came neither with Python nor with an
    installed package: what torch and others do is part of the line that calls them. So is what
    torch.compile compiled. Python tells of every line (`sys.settrace`), and the code stays as it
    is, so that torch.compile does not see it.
    """

    def __init__(self, mark: MarkLine, look: Callable[[str], Any]) -> None:
        """`look` tells of the file of a code what a `UserFiles` tells of it, and is asked once."""
        self._mark, self._look = mark, look
        self._files: dict[str, Any] = {}
        self._codes: dict[int, _Code | None] = {}
        self._kept: list[CodeType] = []  # so that no other code gets the id of one
        self._open: list[tuple[Mark, list[Mark]]] = []
        self._outer: FrameType | None = None
        self._began = False
        self.notes: list[str] = []
        """What kept lines from being marked, for a person to read."""

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self, outer: FrameType | None = None) -> None:
        """Begin, in this thread; the lines of `outer`, which runs already, are marked as well."""
        if (other := sys.gettrace()) is not None:
            self._say(
                f"the lines of functions are not told: {type(other).__module__} follows Python's "
                "lines already (a debugger, or what measures the coverage of tests). Stop it, or "
                "leave the option stack out"
            )
            return
        self._began = True
        if outer is not None and (code := self._known(outer.f_code, whole=True)):
            self._outer = outer
            outer.f_trace = _Frame(self, code).step
        sys.settrace(self._call)

    def stop(self) -> None:
        """End; to do so twice does no harm."""
        if not self._began:
            return
        self._began = False
        # A bound method is equal to the next one, not identical.
        if sys.gettrace() == self._call:
            sys.settrace(None)
        else:
            self._say(
                "the lines of functions are not told to the end: the code set a trace function of "
                "its own (`sys.settrace`, a debugger)"
            )
        if self._outer is not None:
            self._outer.f_trace = None
            self._outer = None
        while self._open:
            self.leave()

    def lines(self) -> list[tuple[str, int, str]]:
        """Return file, line and text of each line that was marked, but for those of the cell.

        The text is what the file says now, without what ends the line; empty if it is not there.
        """
        found = {
            (code.file, line): linecache.getline(code.filename, line).rstrip("\r\n")
            for code in self._codes.values()
            if code is not None and code.file is not None
            for line in code.free
        }
        return [(file, line, text) for (file, line), text in sorted(found.items())]

    def _say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Follow the lines of a function that begins or goes on, if it is the user's."""
        code = self._known(frame.f_code)
        if code is None:
            return None
        # A generator that goes on is in the line in which it stopped.
        before = getattr(frame.f_trace, "__self__", None)
        if isinstance(before, _Frame) and before.stepper is self:
            before.enter(frame.f_lineno)
            return before.step
        return _Frame(self, code).step

    def _known(self, code: CodeType, whole: bool = False) -> _Code | None:
        try:
            file = self._files[code.co_filename]
        except KeyError:
            file = self._files[code.co_filename] = self._look(code.co_filename)
        if file is OTHERS:
            return None
        if id(code) not in self._codes:
            self._kept.append(code)
            self._codes[id(code)] = _Code(code, file) if whole or _steps(code) else None
        return self._codes[id(code)]

    def enter(self, code: _Code, line: int) -> None:
        free = code.free.get(line)
        if free is None:
            free = code.free[line] = []
        # One for each that is open at a time: a function can call itself.
        mark = free.pop() if free else self._mark(line, code.function, code.file)
        self._open.append((mark, free))
        mark.__enter__()

    def leave(self) -> None:
        mark, free = self._open.pop()
        mark.__exit__(None, None, None)
        free.append(mark)


class _Frame:
    """A call of a function, and whether the mark of a line of it is open."""

    __slots__ = ("code", "inside", "stepper")

    def __init__(self, stepper: Stepper, code: _Code) -> None:
        self.stepper, self.code, self.inside = stepper, code, False

    def enter(self, line: int) -> None:
        if self.inside:
            self.stepper.leave()
        self.inside = True
        self.stepper.enter(self.code, line)

    def step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.enter(frame.f_lineno)
        elif event == "return" and self.inside:
            # Also where it yields, awaits, or is left by an exception.
            self.inside = False
            self.stepper.leave()
        return self.step


class _Code:
    """A function of the user's, and the marks of its lines that are not open."""

    def __init__(self, code: CodeType, file: str | None) -> None:
        self.filename, self.file = code.co_filename, file
        name = getattr(code, "co_qualname", code.co_name)
        self.function = "_".join(name.split()) or "?"
        self.free: dict[int, list[Mark]] = {}


class UserFiles:
    """Tells what a user calls a file of code: None for the profiled cell, `OTHERS` for what is not
    the user's.
    """

    def __init__(
        self,
        name: Callable[[str], str | None] = lambda filename: filename,
        others: Iterable[str] = (),
    ) -> None:
        """`name` gives a notebook's cell its own name, and nothing else another one.

        `others` are folders in which nothing is the user's, beside those of Python and of packages.
        """
        self._name = name
        folders = [os.path.dirname(__file__), *others]
        folders += [sysconfig.get_path(scheme) for scheme in ("stdlib", "platstdlib")]
        # A folder that packages were installed into, whatever it is called (`pip --target`).
        folders += [path for path in sys.path if path and _holds_packages(path)]
        if cache := os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
            folders.append(cache)
        self._folders = tuple(os.path.normcase(os.path.join(one, "")) for one in folders if one)

    def __call__(self, filename: str) -> Any:
        name = self._name(filename)
        return OTHERS if name == filename and self._of_others(filename) else name

    def _of_others(self, filename: str) -> bool:
        path = os.path.normcase(filename)
        parts = path.replace(os.sep, "/").split("/")
        return (
            filename.startswith("<")
            or path.startswith(self._folders)
            or any(
                part in ("site-packages", "dist-packages") or part.startswith("torchinductor_")
                for part in parts
            )
        )


def _holds_packages(folder: str) -> bool:
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


def own_codes() -> list[CodeType]:
    """Return the code of what Python calls for each line, which no compiler is to take for code of
    the user's.
    """
    members = [*vars(Stepper).values(), *vars(_Frame).values(), *vars(_Code).values()]
    return [one.__code__ for one in (*members, _steps) if isinstance(one, FunctionType)]


def _steps(code: CodeType) -> bool:
    """Tell whether the lines of a code are marked: of a function, as the user wrote it."""
    return (
        bool(code.co_flags & CO_OPTIMIZED)
        and code.co_name not in _EXPRESSIONS
        and not code.co_name.startswith("torch_dynamo_resume_in_")
        and not any(name.startswith(_COMPILED) for name in code.co_names)
    )
