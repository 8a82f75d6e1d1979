"""Mark each call of an nn.Module while a run is profiled, with its path in the model."""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
import torch._guards
from torch._C._profiler import _RecordFunctionFast
from torch.fx import GraphModule

from .errors import TprofileError
from .quiet import deferred_interrupt
from .trace import marks

_COMPILED = "_orig_mod"
"""Under this name torch.compile's wrapper of a module holds the module itself."""


_Place = tuple["weakref.ref[torch.nn.Module]", str, "str | None"]
"""A module, its path, and the mark of its calls: None for none."""

_Stack = list[tuple["_Root", str, torch.nn.Module]]
"""The calls that a thread is in: the outermost module, the path of this one, and it."""


class ModuleMarks:
    """Marks the calls of modules in the blocks of `marked`, for one session.

    A mark names the class, the outermost module called in the thread and the path below that one.
    What is called in a compiled region calls no module, and has no mark.

    Raises TprofileError where this torch calls its modules in a way that is not known here.
    """

    def __init__(self) -> None:
        _prepare()
        self._roots: dict[int, _Root] = {}
        self._holders: dict[str, _Root] = {}
        self._naming = threading.RLock()
        self._threads = threading.local()
        self._run = 0

    @contextlib.contextmanager
    def marked(self) -> Iterator[None]:
        """Mark what is called inside, in all threads. A block is a run."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def start(self) -> None:
        global _active
        self._run += 1
        # Afresh: an interrupt can have kept a call from being taken off.
        self._threads = threading.local()
        with deferred_interrupt():
            _active = self
            _CALL.__code__ = _marked_call.__code__

    def stop(self) -> None:
        """Leave torch as it was; to do so twice does no harm."""
        global _active
        with deferred_interrupt():
            _CALL.__code__ = _tprofile_plain.__code__
            _active = None

    def begin(self, module: torch.nn.Module) -> tuple[Any, _Stack]:
        """Return the mark to put around a call, and the calls from which to take it off then.

        The mark is None for a call that is to have none of its own, and is not among the calls.
        """
        try:
            stack: _Stack = self._threads.stack
        except AttributeError:
            stack = self._threads.stack = []
        around, caller = "", None
        if stack:
            root, around, caller = stack[-1]
        elif _of_compiler(module):
            return None, stack
        else:
            root = self._known(module) or self._root(module)
        place = root.places.get(id(module))
        if place is None or place[0]() is not module:
            place = root.look(module, around, caller, self._run)
        _, path, mark = place
        if mark is None:
            return None, stack
        stack.append((root, path, module))
        return _RecordFunctionFast(mark), stack

    def _known(self, module: torch.nn.Module) -> _Root | None:
        """Return the root in which a module has a place that a backward pass runs once more."""
        if not _in_backward():
            return None
        for root in list(self._roots.values()):
            if root.knows(module):
                return root
        return None

    def _root(self, module: torch.nn.Module) -> _Root:
        root = self._roots.get(id(module))
        if root is not None and root.ref() is module and root.run == self._run:
            return root
        with self._naming:
            # Another thread may have come before.
            root = self._roots.get(id(module))
            if root is None or root.ref() is not module:
                root = self._roots[id(module)] = _Root(module)
            if root.run != self._run:
                self._name(root, getattr(module, "_is_replica", False))
                root.run = self._run
        return root

    def _name(self, root: _Root, replica: bool) -> None:
        """Give a root the name that it had, or one that no other module has in this run."""
        if self._holders.get(root.name) is root:
            return
        name, count = root.wanted, 1
        # The copies that nn.DataParallel makes of a module, anew in each call, are one to a reader.
        while not replica and self._held(name, root.kind):
            count += 1
            name = f"{root.wanted}#{count}"
        self._holders[name] = root
        root.name, root.places = name, {}

    def _held(self, name: str, kind: str) -> bool:
        holder = self._holders.get(name)
        if holder is None:
            return False
        # A cell that makes its model makes another one in each run: the same to a reader.
        gone = holder.ref() is None or holder.run != self._run
        return not gone or holder.kind != kind


class _Root:
    """A module that was called in no other one, and the places of those that it holds."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.ref = weakref.ref(module)
        self.kind = _class(module)
        self.wanted = _variable(module) or self.kind
        """Its name, if no other has it."""
        self.name = ""
        self.run = self.looked = 0
        """The newest runs in which it was called, and in which its modules were looked for."""
        self.places: dict[int, _Place] = {}
        """By the `id` of each module."""

    def knows(self, module: torch.nn.Module) -> bool:
        place = self.places.get(id(module))
        return place is not None and place[0]() is module

    def look(
        self, module: torch.nn.Module, around: str, caller: torch.nn.Module | None, run: int
    ) -> _Place:
        """Find the place of a module that is called by another one, of path `around`."""
        root = self.ref()
        if root is not None and self.looked != run:
            self.looked = run
            self._look_in(root, "")
        if not self.knows(module):
            # Made since then, or not held by the model: one that a forward makes or borrows.
            children = {} if caller is None else caller._modules
            own = [name for name, child in children.items() if child is module]
            name = own[0] if own else f"{_class(module)}()"
            self._look_in(module, f"{around}.{name}" if around else name)
        return self.places[id(module)]

    def _look_in(self, module: torch.nn.Module, path: str) -> None:
        held = [("", module)]
        # No `suppress`, which is code of Python's own: torch.compile would come upon it here.
        try:  # noqa: SIM105
            held += module.named_modules()
        except Exception:
            # It may be the user's own, and this is no place for its errors.
            pass
        for name, one in held:
            parts = [part for part in (path, *name.split(".")) if part and part != _COMPILED]
            own = name.rpartition(".")[2] != _COMPILED and not _of_compiler(one)
            at = ".".join(parts)
            mark = marks.module(_class(one), self.name, at)
            self.places[id(one)] = weakref.ref(one), at, mark if own else None


def _class(module: torch.nn.Module) -> str:
    if type(module).__name__ == "OptimizedModule":
        module = module._modules.get(_COMPILED) or module
    # The one word in front of the others in a mark.
    return "_".join(type(module).__name__.split()) or "Module"


def _variable(module: torch.nn.Module) -> str | None:
    """Return the name of the global variable that holds a module, of the nearest caller's."""
    frame: FrameType | None = sys._getframe()
    seen = set()
    while frame := frame.f_back if frame else None:
        # No locals: to ask a function for its own keeps them alive.
        names = frame.f_globals
        if id(names) not in seen:
            seen.add(id(names))
            for name, value in list(names.items()):
                if value is module and not name.startswith("_"):
                    return name
    return None


def _of_compiler(module: torch.nn.Module) -> bool:
    """Tell whether torch.compile made a module: of the operators that it found."""
    return isinstance(module, GraphModule) and any(
        one.__name__ == "_LazyGraphModule" for one in type(module).__mro__
    )


def _in_backward() -> bool:
    return _graph_task() != -1


_graph_task = getattr(torch._C, "_current_graph_task_id", lambda: -1)
_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
"""How many modes watch the operators of this thread: a compiler's calls are made under one."""

_active: ModuleMarks | None = None


_CALL: Any = getattr(torch.nn.Module, "_wrapped_call_impl", None)
"""The function that calls a module. For a run its code is ours: another function in its place would
be another `nn.Module.__call__` to torch.compile, which would read it, and compile anew without it.
"""

_tprofile_plain: Any = None
"""A function with the code that is torch's own."""


def _tprofile_begin(module: torch.nn.Module) -> tuple[Any, _Stack]:
    active = _active
    if active is None or (_modes() and _traced()):
        return None, []
    return active.begin(module)


def _traced() -> bool:
    """Tell whether a compiler makes this call, to see what comes out: it is none of the user's."""
    return torch._guards.TracingContext.try_get() is not None


def _marked_call(self, *args, **kwargs):  # type: ignore[no-untyped-def]
    # In the namespace of torch's function, where our two names are put.
    __tracebackhide__ = True
    if torch.compiler.is_compiling():
        # Read by torch.compile (with hooks, it reads the call itself): nothing of ours is in it.
        return _tprofile_plain(self, *args, **kwargs)
    mark, calls = _tprofile_begin(self)
    if mark is None:
        return _tprofile_plain(self, *args, **kwargs)
    try:
        with mark:
            return _tprofile_plain(self, *args, **kwargs)
    finally:
        calls.pop()


def _prepare() -> None:
    """Make ready what a run needs, once in a process."""
    global _tprofile_plain
    if _tprofile_plain is not None:
        return
    names = getattr(_CALL, "__globals__", {})
    if (
        not isinstance(_CALL, FunctionType)
        or _CALL.__code__.co_freevars
        or names.get("torch") is not torch
    ):
        raise TprofileError(
            f"torch {torch.__version__} calls its modules in a way that tprofile does not know, or "
            "another package has changed it. Leave the option modules out."
        )
    _tprofile_plain = FunctionType(_CALL.__code__, names, _CALL.__name__)
    for name in ("_tprofile_plain", "_tprofile_begin"):
        # They stay: another thread may be in a call when a run ends.
        names[name] = globals()[name]
    skip(marks.module.__code__)
    ours = [*globals().values(), *vars(ModuleMarks).values(), *vars(_Root).values()]
    for one in ours:
        if isinstance(one, FunctionType) and one.__module__ == __name__:
            skip(one.__code__)


def skip(code: CodeType) -> None:
    """Tell torch.compile to leave code as it is, should it come upon it after a graph break."""
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "skip_code"):
        frames.skip_code(code)
    elif hasattr(frames, "set_code_exec_strategy"):
        leave, go_on = frames._FrameAction.SKIP, frames._FrameAction.DEFAULT
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(leave, go_on))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            skip(inner)
