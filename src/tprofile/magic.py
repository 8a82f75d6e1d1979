"""`%tprofile` and `%%tprofile`: options, then runs, then what a person sees."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from . import options
from .cell import Cell, compile_cell
from .changes import Watch
from .errors import TprofileError
from .files import checked, whole_file
from .output import Outputs
from .progress import NotebookScreen, Progress, Screen, TerminalScreen

if TYPE_CHECKING:
    from .comparison import Comparison
    from .result import Profile
    from .trace.line_log import LineLog

_PLANNED = ("warmup", "repeat", "once", "max_seconds", "cpu", "cuda", "shapes", "memory", "modules",
            "flops", "stack")  # fmt: skip
_HERE = os.path.dirname(__file__) + os.sep


_HELP = f"""Profile a cell, or a statement, under torch.profiler.

    %%tprofile [options] [setup statement]
    code

    %tprofile [options] statement

Runs the code warmed up, then under the profiler, and shows what took the time. The newest profile
is `_tprofile` in the notebook, and `tprofile.last()`.

{options.usage()}"""


@magics_class
class TprofileMagics(Magics):
    """The magics, for one shell."""

    @no_var_expand
    @line_cell_magic
    def tprofile(self, line: str, cell: str | None = None) -> object:
        __tracebackhide__ = True
        chosen, rest = options.parse(line)
        if cell is None and not rest.strip():
            raise UsageError("%tprofile: there is no statement to profile. See %tprofile?")
        code, setup = (rest, "") if cell is None else (cell, rest)
        return _profile(self.shell, chosen, code, setup)

    tprofile.__doc__ = _HELP


def _profile(shell: Any, chosen: argparse.Namespace, code: str, setup: str) -> object:
    __tracebackhide__ = True
    for path in (chosen.trace, chosen.text):
        if path is not None:
            # Before the runs: they may take long.
            checked(path)
    body = _compile(shell, code)
    each = _compile(shell, chosen.each) if chosen.each else None
    prepare = _compile(shell, setup) if setup.strip() else None
    shows, value = not (chosen.quiet or chosen.give), _Value(body)
    screen = _screen(shell)
    bundles = both = None
    with Progress(screen) as progress:
        outputs = Outputs(shell, lambda: progress.leave(shows))
        try:
            if prepare is not None and (error := _failed(prepare, outputs)) is not None:
                outputs.release()
                _raise(shell, error, chosen.raise_error)
                return None
            profile, comparison, error = _run(shell, chosen, value, each, outputs, progress)
            made = profile if comparison is None else comparison
            # First of all: whatever goes wrong with showing it, it is not lost.
            shell.user_ns["_tprofile"] = profile
            if comparison is not None:
                shell.user_ns["_tcomparison"] = comparison
            if chosen.variable:
                shell.user_ns[chosen.variable] = made
            # Where B came to nothing, what there is of A is more than half of a comparison.
            if comparison is not None and (not error or comparison.b.summary.wall_us):
                both = comparison
            if shows or (error is not None and not chosen.quiet):
                bundles = _bundles(shell, profile, both, chosen)
        finally:
            outputs.release()
    if bundles is not None:
        screen.result(*bundles)
    _write_files(shell, profile, both, chosen, failed=error is not None)
    if error is not None:
        _raise(shell, error, chosen.raise_error)
    if chosen.give:
        return made
    return None if body.silent else value.newest


class _Value:
    """A cell, and the value of its newest run; no run's value outlives the next one's start."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.names = cell.names
        self.newest: object = None

    def run(self) -> None:
        __tracebackhide__ = True
        self.newest = self.cell.run()

    def noted(self, log: LineLog) -> Callable[[], None]:
        """Return what runs the cell and notes when its statements run."""
        cell = self.cell.noted(log)

        def run() -> None:
            __tracebackhide__ = True
            self.newest = cell.run()

        return run

    def results(self, namespace: Mapping[str, Any]) -> dict[str, object]:
        """Return what the newest run has left: what it bound, and its last value."""
        left = {name: namespace[name] for name in self.cell.bound if name in namespace}
        return left if self.newest is None else {**left, "the last value": self.newest}


def _failed(prepare: Cell, outputs: Outputs) -> BaseException | None:
    """Run the setup and return what it raised."""
    try:
        with outputs.setup():
            prepare.run()
    except BaseException as error:
        return error
    return None


def _run(
    shell: Any,
    chosen: argparse.Namespace,
    value: _Value,
    each: Cell | None,
    outputs: Outputs,
    progress: Progress,
) -> tuple[Profile, Comparison | None, BaseException | None]:
    # torch and pandas are imported here, not when the extension is loaded.
    from .profiling import compile_runs, label, labelled, make_plan, profile_runs

    plan = make_plan(**{name: getattr(chosen, name) for name in _PLANNED})
    before = labelled(chosen.vs) if chosen.vs is not None else None
    # One run, or one that is reset, has nothing to be told of.
    alone = each is not None or plan.warmup + plan.repeat == 1
    cell = value.cell
    watch = Watch(shell.user_ns, () if alone else cell.names)

    @contextlib.contextmanager
    def around(last: bool) -> Iterator[None]:
        value.newest = None
        with outputs.run(last):
            yield

    hooks: dict[str, Any] = {
        "before": None if each is None else each.run,
        "around": around,
        "stage": progress.stage,
        "remark": lambda: watch.note(shell.user_ns),
        "source": (cell.source, cell.first_line),
        "noted": value.noted,
        "file_name": cell.file_name,
    }
    if chosen.compile:
        comparison, errors = compile_runs(
            value.run,
            plan,
            namespace=shell.user_ns,
            called=cell.called,
            chosen=chosen.compile_names,
            compiling={
                "mode": chosen.compile_mode,
                "fullgraph": chosen.fullgraph,
                "dynamic": chosen.dynamic,
            },
            results=lambda: value.results(shell.user_ns),
            changing=tuple(cell.names),
            **hooks,
        )
        return comparison.a, comparison, errors[0] or errors[1]
    profile, error = profile_runs(value.run, plan, **hooks)
    if chosen.label is not None:
        profile = label(profile, chosen.label)
    return profile, before.compare(profile) if before and not error else None, error


def _screen(shell: Any) -> Screen:
    if getattr(shell, "kernel", None) is not None:
        return NotebookScreen(shell.display_pub)
    return TerminalScreen()


def _bundles(
    shell: Any, profile: Profile, comparison: Comparison | None, chosen: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return what to show: in a notebook the comparison alone, which has both profiles in it."""
    if getattr(shell, "kernel", None) is None:
        texts = [profile.text(chosen.sort, chosen.limit)]
        if comparison is not None:
            texts.append(comparison.text(chosen.limit))
        return [{"text/plain": text} for text in texts]
    from .views.show import bundles, compare_bundles

    if comparison is not None:
        return compare_bundles(shell, comparison, chosen.sort, chosen.limit)
    return bundles(shell, profile, chosen.sort, chosen.limit)


def _write_files(
    shell: Any,
    profile: Profile,
    comparison: Comparison | None,
    chosen: argparse.Namespace,
    failed: bool,
) -> None:
    texts = [profile.text(chosen.sort, None)] if chosen.text is not None else []
    if chosen.text is not None and comparison is not None:
        texts.append(comparison.text(None))
    try:
        if chosen.trace is not None:
            profile.export_trace(chosen.trace)
        if chosen.text is not None:
            with whole_file(chosen.text) as file:
                file.write(("\n\n".join(texts) + "\n").encode())
    except TprofileError as error:
        if not failed:
            raise
        # The error of the user's code comes after it.
        shell.showtraceback((type(error), error, None))


def _compile(shell: Any, code: str) -> Cell:
    __tracebackhide__ = True
    try:
        return compile_cell(shell, code)
    except SyntaxError as error:
        shown = shell.SyntaxTB.structured_traceback(type(error), error, [])
    # IPython shows every frame of a SyntaxError, ours too, and lets no other kind be shown as one.
    raise _told_as(SyntaxError, shown)


def _told_as(kind: type[Exception], frames: list[str]) -> Exception:
    """Return an error that IPython shows as the given lines, under the name of another kind."""
    told = type(kind.__name__, (Exception,), {"_render_traceback_": lambda self: frames})
    return told()


def _raise(shell: Any, error: BaseException, stop: bool) -> None:
    """Raise the user's error with the user's frames alone, or only show it."""
    __tracebackhide__ = True
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_HERE):
        traceback = traceback.tb_next
    error = error.with_traceback(traceback)
    if not stop and isinstance(error, Exception):
        shell.showtraceback((type(error), error, traceback), tb_offset=0)
        return
    if not hasattr(error, "_render_traceback_"):
        # Else the notebook begins with its own frame, the whole cell in one escaped line.
        shown = shell.InteractiveTB.structured_traceback(type(error), error, traceback, tb_offset=0)
        with contextlib.suppress(AttributeError):
            # An exception class with slots keeps the longer form.
            error._render_traceback_ = lambda: shown  # type: ignore[attr-defined]
    raise error


def register(shell: Any) -> None:
    """Add the magics to a shell."""
    shell.register_magics(TprofileMagics)


def unregister(shell: Any) -> None:
    """Take the magics out of a shell again."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("tprofile", None)
    shell.magics_manager.registry.pop("TprofileMagics", None)
