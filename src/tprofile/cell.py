"""Compile a cell once and run it as the notebook would, and note when its lines run if wanted."""

from __future__ import annotations

import ast
import asyncio
import re
import signal
import sys
import threading
import tokenize
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from inspect import CO_COROUTINE
from io import StringIO
from types import CodeType
from typing import TYPE_CHECKING, Any

from .statements import (
    Placeholders,
    bound_names,
    called_names,
    first_line,
    is_noted,
    noted,
)

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .trace.line_log import LineLog, Take

_LINE_WITH_MAGIC = re.compile(r"\s*(.+=\s*)?%")
_FOREIGN_LOOP = re.compile(r"different (event )?loop")
_FOREIGN_LOOP_NOTE = (
    "Every run of a profiled cell has an event loop of its own, and the cell used an object that "
    "belongs to another loop. Create that object (queue, lock, client session, ...) inside the "
    "profiled cell."
)


@dataclass(frozen=True, eq=False)
class _Codes:
    """The statements of a cell, and its last expression apart from them for its value."""

    statements: CodeType | None
    expression: CodeType | None
    log: LineLog | None = None
    begin: Take | None = None
    """Notes that the expression begins, whose code has no place for it."""
    end: Take | None = None
    """Notes that all is done, or that an error has ended it."""

    @property
    def all(self) -> tuple[CodeType, ...]:
        return tuple(code for code in (self.statements, self.expression) if code is not None)

    def note(self, take: Take | None) -> None:
        """Note the time, where there is a log and a place in it."""
        if self.log is not None and take is not None:
            take(self.log.now())


@dataclass(frozen=True, eq=False)
class _Lines:
    """The same with a place for a note at each statement, at any depth."""

    codes: _Codes
    placeholders: Placeholders
    expression_line: int | None
    """Where the last expression begins; None where it is not noted."""
    outermost: CodeType | None
    """The statements with a place only for those that stand in no other."""


@dataclass(frozen=True, eq=False)
class Cell:
    """Notebook code compiled once, run as often as wanted as the notebook would run it.

    `names` are the global names that the code mentions, `called` those that it calls, or whose
    attributes it calls, and `bound` those that it gives a value. `silent` says that the code ends
    with `;`, so that its last value is not to be displayed. `filename` is the code's name in
    tracebacks and in `linecache`, whose line numbers are those of the syntax tree given to
    `transform`. `source` is the text as the user wrote it, from the line `first_line` on.
    """

    names: frozenset[str]
    called: tuple[str, ...]
    bound: tuple[str, ...]
    silent: bool
    filename: str
    source: str = field(repr=False)
    first_line: int
    _codes: _Codes = field(repr=False)
    _lines: _Lines | None = field(repr=False)
    _shell: InteractiveShell = field(repr=False)

    def noted(self, log: LineLog) -> Cell:
        """Return the cell with a log of when each of its statements begins and ends.

        Also of those inside loops, conditions and other compound statements, but not of those
        inside functions and classes, whose code objects are the same ones; where the log is of
        the outermost, of no others. A cell that nests more than Python can compile with notes in it
        is returned as it is.
        """
        if self._lines is None:
            return self
        return replace(self, _codes=_filled(self._lines, self._codes, log))

    def file_name(self, filename: str) -> str | None:
        """Return what a user calls a file that code is from: None for this cell itself."""
        if filename == self.filename:
            return None
        label = self._shell.compile.format_code_name(filename)
        return " ".join(label) if label else filename

    def run(self) -> object:
        """Run the code once in the user's namespace and return its last expression's value.

        None if the code does not end in an expression. What the code raises comes out as it is.
        Code that awaits runs in a fresh event loop; tasks it leaves unfinished are cancelled.
        """
        __tracebackhide__ = True
        # Two dictionaries only in an embedded shell; elsewhere they are one and the same.
        scopes = self._shell.user_global_ns, self._shell.user_ns
        codes = self._codes
        if any(code.co_flags & CO_COROUTINE for code in codes.all):
            return _run_in_own_loop(codes, scopes)
        try:
            if codes.statements is not None:
                eval(codes.statements, *scopes)
            if codes.expression is None:
                return None
            codes.note(codes.begin)
            return eval(codes.expression, *scopes)
        finally:
            codes.note(codes.end)


def compile_cell(
    shell: InteractiveShell,
    text: str,
    *,
    transform: Callable[[ast.Module], ast.Module] | None = None,
) -> Cell:
    """Compile `text`, the body of a cell magic or the statement of a line magic.

    `transform` changes the syntax tree after the shell's own transformers. Raises SyntaxError at
    the line of the cell where the mistake is.
    """
    __tracebackhide__ = True
    ip: Any = shell  # whose own types are incomplete
    # `%%time` calls the first line of the body 1 and shows no source. A traceback that says
    # "Cell In[n], line k", as ours does, must mean the k-th line that the user sees in that cell,
    # with the magic's line as 1 (VS Code makes it a link); so blank lines stand for those above.
    above = "\n" * _lines_above(shell, text)
    # IPython 9 counts `execution_count` up before it runs a cell, IPython 8 afterwards.
    number = ip.displayhook.prompt_count
    try:
        source = ip.transform_cell(text)
    except SyntaxError as error:
        # IPython tokenises first, and the tokeniser's errors name no cell.
        error.filename = ip.compile.cache(above + text, number)
        error.lineno = (error.lineno or 1) + len(above) + _blank_lines(text)
        raise error.with_traceback(None) from None
    # IPython drops leading blank lines, which would move every line number up.
    above += "\n" * (_blank_lines(text) - _blank_lines(source))
    written = _as_written(text, source)
    source = above + source
    # ipykernel names code by `raw_code` alone, so without the blank lines in it a plain cell of
    # the same text would get our line numbers.
    filename = ip.compile.cache(source, number, raw_code=above + text)
    try:
        with ip.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if ip.autoawait else 0):
            tree = ip.transform_ast(ip.compile.ast_parse(source, filename))
            names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
            called, bound = called_names(tree), bound_names(tree)
            if transform is not None:
                tree = ast.fix_missing_locations(transform(tree))
            codes, lines = _compile(ip.compile, tree, filename)
    except SyntaxError as error:
        # IPython shows every frame of a syntax error; those of the compiler help no user.
        raise error.with_traceback(None) from None
    return Cell(
        names=names,
        called=called,
        bound=bound,
        silent=_ends_with_semicolon(source),
        filename=filename,
        source=written,
        first_line=above.count("\n") + 1,
        _codes=codes,
        _lines=lines,
        _shell=shell,
    )


def _lines_above(shell: InteractiveShell, text: str) -> int:
    """Count the lines above `text` in the cell that the user sees."""
    history = shell.history_manager
    if history is None:
        return 0
    cell = history.input_hist_raw[-1].rstrip().split("\n")
    body = text.rstrip().split("\n")
    # IPython takes indentation common to the whole cell away before a magic gets the body.
    if [line.strip() for line in cell[-len(body) :]] == [line.strip() for line in body]:
        return len(cell) - len(body)
    for number, line in enumerate(cell):
        magic = _LINE_WITH_MAGIC.match(line)
        if magic and text.strip() in line[magic.end() :]:
            return number
    return 0


def _blank_lines(text: str) -> int:
    """Count the blank lines at the start."""
    return text[: len(text) - len(text.lstrip())].count("\n")


def _as_written(text: str, source: str) -> str:
    """Return the cell's text from the line on that is the first of `source`, what IPython made.

    That text itself, unless what IPython wrote in the place of a magic has fewer lines than it.
    """
    dropped = _blank_lines(text) - _blank_lines(source)
    written = "\n".join(text.rstrip().replace("\r\n", "\n").split("\n")[dropped:])
    made = source.rstrip()
    return written if written.count("\n") == made.count("\n") else made


def _compile(
    compiler: Callable[..., CodeType], tree: ast.Module, filename: str
) -> tuple[_Codes, _Lines | None]:
    """Compile a tree, and again with a place for notes; None where that nests too deeply."""
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    # A notebook compiles statement by statement and so takes `__future__` imports anywhere.
    tree.body.sort(key=lambda node: getattr(node, "module", None) != "__future__")
    expression = None

    def statements() -> CodeType | None:
        return compiler(tree, filename, "exec") if tree.body else None

    plain = statements()
    if isinstance(last, ast.Expr):
        expression = compiler(ast.Expression(last.value), filename, "eval")
    codes = _Codes(plain, expression)
    placeholders = Placeholders()
    # What it has to warn of, the compiler has said.
    with suppress(SyntaxError, RecursionError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every, tree.body = tree.body, noted(tree.body, placeholders, inner=False)
        outermost = statements()
        tree.body = noted(every, placeholders)
        at = first_line(last) if last is not None and is_noted(last) else None
        return codes, _Lines(_Codes(statements(), expression), placeholders, at, outermost)
    return codes, None


def _filled(lines: _Lines, plain: _Codes, log: LineLog) -> _Codes:
    statements = lines.outermost if log.outermost else lines.codes.statements
    if statements is not None and plain.statements is not None:
        statements = lines.placeholders.fill(statements, plain.statements, log)
    at = lines.expression_line
    begin = None if at is None else log.begins(at, 0)
    return _Codes(statements, lines.codes.expression, log, begin, log.ends(0))


def _ends_with_semicolon(source: str) -> bool:
    """Tell whether the last token of valid Python code, comments aside, is a semicolon."""
    last = ""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type != tokenize.COMMENT and token.string.strip():
            last = token.string
    return last == ";"


def _run_in_own_loop(codes: _Codes, scopes: tuple[dict[str, Any], ...]) -> object:
    """Run codes that await: in this thread, as the profiler sees no other."""
    __tracebackhide__ = True
    value: Any = None
    failure: BaseException | None = None

    async def steps() -> None:
        __tracebackhide__ = True
        nonlocal value, failure
        try:
            for code in codes.all:
                if code is codes.expression:
                    codes.note(codes.begin)
                value = eval(code, *scopes)
                if code.co_flags & CO_COROUTINE:
                    value = await value
        # Handed over, not raised through the loop: its frames would stand in the traceback.
        except BaseException as error:
            failure = error
        finally:
            codes.note(codes.end)

    with _own_loop() as loop:
        interrupt: BaseException | None = None
        try:
            loop.run_until_complete(steps())
        # What comes through the loop is from its own wait, or from another task.
        except BaseException as error:
            interrupt = error
        _wind_down(loop)
    if interrupt is not None:
        if isinstance(failure, asyncio.CancelledError) and _struck_in_loop(interrupt):
            interrupt.__traceback__ = failure.__traceback__  # which ends at the user's `await`
        failure = interrupt
    if failure is None:
        return value
    if sys.version_info >= (3, 11) and isinstance(failure, (RuntimeError, ValueError)):
        if _FOREIGN_LOOP.search(str(failure)):
            failure.add_note(_FOREIGN_LOOP_NOTE)
    try:
        raise failure
    finally:
        del failure, interrupt  # or the traceback would hold this frame, and it the traceback


@contextmanager
def _own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Give a fresh event loop while the running loop and its task stand aside.

    It never becomes the thread's `set_event_loop`, so there is none to restore.
    """
    outer = asyncio._get_running_loop()
    task = asyncio.current_task(outer) if outer else None
    with _own_signals():
        loop = asyncio.new_event_loop()
        # The task as well: from Python 3.14 on a thread has one current task, not one per loop.
        if outer and task:
            asyncio._leave_task(outer, task)
        asyncio._set_running_loop(None)
        try:
            yield loop
        finally:
            loop.close()
            asyncio._set_running_loop(outer)
            if outer and task:
                asyncio._enter_task(outer, task)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Let an interrupt reach the code, and give the outer loop its signal handling back."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread
        return
    # A cell that awaits beside `%tprofile` has a handler that only tells the loop standing aside.
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Loops take the wake-up descriptor (on Windows every one does) and reset it on closing.
    wakeup = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        if callable(handler):
            signal.signal(signal.SIGINT, handler)


def _wind_down(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what the cell left in its loop, and close its asynchronous generators."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
    loop.run_until_complete(loop.shutdown_asyncgens())


def _struck_in_loop(error: BaseException) -> bool:
    """Tell whether an exception was raised in the event loop's own code."""
    *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").partition(".")[0] in ("asyncio", "selectors")
