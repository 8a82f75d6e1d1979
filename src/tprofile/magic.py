"""`%tprofile` and `%%tprofile`: options, then runs, then what a person sees."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from . import options
from .cell import compile_cell
from .changes import Watch
from .files import whole_file
from .output import Held, Warned
from .progress import NotebookScreen, Progress, Screen, TerminalScreen

_PLANNED = ("warmup", "repeat", "once", "max_seconds", "cpu", "cuda", "shapes")
_HERE = os.path.dirname(__file__) + os.sep


@magics_class
class TprofileMagics(Magics):
    """The magics, for one shell."""

    @no_var_expand
    @line_cell_magic
    def tprofile(self, line: str, cell: str | None = None) -> object:
        """Profile a cell, or a statement, under torch.profiler.

            %%tprofile [options] [setup statement]
            code

            %tprofile [options] statement

        Runs the code warmed up, then under the profiler, and shows what took the time. The newest
        profile is `_tprofile` in the notebook, and `tprofile.last()`.
        """
        __tracebackhide__ = True
        chosen, rest = options.parse(line)
        if cell is None and not rest.strip():
            raise UsageError("%tprofile: there is no statement to profile. See %tprofile?")
        code, setup = (rest, "") if cell is None else (cell, rest)
        return _profile(self.shell, chosen, code, setup)


def _profile(shell: Any, chosen: argparse.Namespace, code: str, setup: str) -> object:
    __tracebackhide__ = True
    # torch and pandas are imported here, not when the extension is loaded.
    from .profiling import make_plan, profile_runs

    plan = make_plan(**{name: getattr(chosen, name) for name in _PLANNED})
    body = compile_cell(shell, code)
    each = compile_cell(shell, chosen.each) if chosen.each else None
    prepare = compile_cell(shell, setup) if setup.strip() else None
    screen, shows = _screen(shell), not (chosen.quiet or chosen.give)
    of_setup, of_run, warned = Held(shell), Held(shell), Warned()
    value: list[object] = []

    @contextlib.contextmanager
    def around(last: bool) -> Any:
        value.clear()
        of_run.forget()
        if not last:
            with of_run.capture(), warned.collected():
                yield
            return
        progress.leave(shows)
        of_setup.show()
        warned.show()
        yield

    bundle = None
    with Progress(screen) as progress:
        try:
            if prepare is not None:
                try:
                    with of_setup.capture():
                        prepare.run()
                except BaseException as problem:
                    _raise(shell, problem, chosen.raise_error)
                    return None
            watch = Watch(shell.user_ns, body.names)
            # What is in the note's advice was followed already.
            repeatable = each is not None or plan.warmup + plan.repeat == 1
            profile, error = profile_runs(
                lambda: value.append(body.run()),
                plan,
                before=None if each is None else each.run,
                around=around,
                stage=progress.stage,
                remark=lambda: None if repeatable else watch.note(shell.user_ns),
            )
            if shows or (error is not None and not chosen.quiet):
                bundle = _bundle(profile, chosen)
        finally:
            # Held still if there was no last run: an error or a limit came before.
            progress.leave(shows)
            of_setup.show()
            warned.show()
            of_run.show()
    shell.user_ns["_tprofile"] = profile
    if chosen.variable:
        shell.user_ns[chosen.variable] = profile
    if bundle is not None:
        screen.result(bundle)
    _write_files(profile, chosen)
    if error is not None:
        _raise(shell, error, chosen.raise_error)
    if chosen.give:
        return profile
    return None if body.silent or not value else value[0]


def _screen(shell: Any) -> Screen:
    if getattr(shell, "kernel", None) is not None:
        return NotebookScreen(shell.display_pub)
    return TerminalScreen()


def _bundle(profile: Any, chosen: argparse.Namespace) -> dict[str, str]:
    from .views.html import html

    return {
        "text/plain": profile.text(chosen.sort, chosen.limit),
        "text/html": html(profile, chosen.sort, chosen.limit),
    }


def _write_files(profile: Any, chosen: argparse.Namespace) -> None:
    if chosen.trace:
        profile.export_trace(chosen.trace)
    if chosen.text:
        with whole_file(chosen.text) as file:
            file.write((profile.text(chosen.sort, None) + "\n").encode())


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
    # Written here, so that %tprofile? shows the options that the parser knows.
    TprofileMagics.tprofile.__doc__ = f"{inspect.cleandoc(_DOC)}\n\n{options.usage()}"
    shell.register_magics(TprofileMagics)


def unregister(shell: Any) -> None:
    """Take the magics out of a shell again."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("tprofile", None)
    shell.magics_manager.registry.pop("TprofileMagics", None)


_DOC = TprofileMagics.tprofile.__doc__ or ""
