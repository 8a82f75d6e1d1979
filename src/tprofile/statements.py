"""Put what notes the time ahead of each statement of a cell, so that a trace tells its lines."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from .trace.line_log import LineLog

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LEAVING = (ast.Break, ast.Continue)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WITH = (ast.With, ast.AsyncWith)


class Placeholders:
    """Constants that stand in code for what notes the time, until that is known.

    What the code looked up by name would be one more name among the user's.
    """

    def __init__(self) -> None:
        self._key = uuid4().hex
        self._known: dict[str, Callable[[LineLog], object]] = {}

    def begin(self, statement: ast.stmt, depth: int) -> ast.stmt:
        """Return a statement that will note that another begins, in `depth` others."""
        line = first_line(statement)
        return self._note(lambda log: log.begins(line, depth), statement)

    def end(self, statement: ast.stmt, depth: int) -> ast.stmt:
        """Return a statement that will note that another has ended."""
        return self._note(lambda log: log.ends(depth), statement)

    def _note(self, take: Callable[[LineLog], object], at: ast.stmt) -> ast.stmt:
        clock = self._constant("clock", lambda log: log.clock)
        which = self._constant("which", lambda log: log.CLOCK_ID)
        now = ast.Call(clock, [which], [])
        note = ast.Expr(ast.Call(self._constant(str(len(self._known)), take), [now], []))
        for node in ast.walk(note):
            ast.copy_location(node, at)
        return note

    def _constant(self, name: str, tell: Callable[[LineLog], object]) -> ast.Constant:
        text = f"tprofile {self._key} {name}"
        self._known[text] = tell
        return ast.Constant(text)

    def fill(self, code: CodeType, plain: CodeType, log: LineLog) -> CodeType:
        """Return code that was compiled with placeholders, which then notes the time in a log.

        The code of functions and classes becomes that of `plain`, the same statements compiled
        without placeholders: to torch.compile another object is another function.
        """
        same = {inner: inner for inner in plain.co_consts if isinstance(inner, CodeType)}
        return code.replace(
            co_consts=tuple(
                same.get(value, value)
                if isinstance(value, CodeType)
                else self._known[value](log)
                if isinstance(value, str) and value in self._known
                else value
                for value in code.co_consts
            )
        )


def called_names(tree: ast.AST) -> tuple[str, ...]:
    """Return the names that code calls, or whose attributes it calls, in the order of the code."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            while isinstance(called, ast.Attribute | ast.Subscript):
                called = called.value
            if isinstance(called, ast.Name):
                found[called.id] = (called.lineno, called.col_offset)
    return tuple(sorted(found, key=found.__getitem__))


def bound_names(tree: ast.Module) -> tuple[str, ...]:
    """Return the names that code gives values to, those inside its functions left out."""
    found: dict[str, None] = {}
    left: list[ast.AST] = [*reversed(tree.body)]
    while left:
        node = left.pop()
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found[node.id] = None
        if not isinstance(node, _SCOPES + _INNER):
            left += reversed([*ast.iter_child_nodes(node)])
    return tuple(found)


def first_line(statement: ast.stmt) -> int:
    """Return the line in which a statement begins, decorators included."""
    above = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in above)])


def is_noted(statement: ast.stmt) -> bool:
    """Tell whether a statement is one that runs: not what a compiler reads and no code does.

    Behind a note, a text at the beginning would be no docstring, and an import from `__future__` no
    longer at the beginning.
    """
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.ImportFrom):
        return statement.module != "__future__"
    return not isinstance(statement, ast.Global | ast.Nonlocal)


def noted(
    statements: list[ast.stmt],
    placeholders: Placeholders,
    depth: int = 0,
    left: int = 0,
    *,
    inner: bool = True,
) -> list[ast.stmt]:
    """Return statements with notes of when each begins, by default those inside others as well.

    One ends where the next begins, and the last has a note of its end. `left` is the depth of what
    `break` and `continue` leave. Compound statements are changed in place. The bodies of functions
    and classes stay as they are.
    """
    told: list[ast.stmt] = []
    last = None
    for one in statements:
        if is_noted(one):
            told.append(placeholders.begin(one, depth))
            last = one
            if isinstance(one, _LEAVING):
                # What follows is the time of the loop, or of what is done on the way to it.
                told.append(placeholders.end(one, left))
                last = None
        late = depth == left and depth > 0 and _is_left_late(one)
        if inner and not isinstance(one, _SCOPES):
            _note_inner(one, placeholders, depth + 1, left)
        told.append(_ended(one, [one], placeholders, depth) if late else one)
    return told if last is None else [*told, placeholders.end(last, depth)]


def _note_inner(statement: ast.stmt, placeholders: Placeholders, depth: int, left: int) -> None:
    parts = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
    for part in parts:
        for name in ("body", "orelse", "finalbody"):
            if inner := getattr(part, name, None):
                within = isinstance(statement, _LOOPS) and name == "body"
                within |= isinstance(statement, _WITH)
                within |= name != "finalbody" and bool(getattr(statement, "finalbody", ()))
                body = noted(inner, placeholders, depth, depth if within else left)
                if isinstance(statement, _WITH):
                    # An error, too, ends what is in it before it is left.
                    body = [_ended(inner[-1], body, placeholders, depth)]
                setattr(part, name, body)


def _is_left_late(statement: ast.stmt) -> bool:
    """Tell whether on the way from a `break` or `continue` in a statement something is run."""
    return any(
        (isinstance(one, _WITH) or (isinstance(one, ast.Try) and one.finalbody))
        and any(isinstance(inner, _LEAVING) for inner in ast.walk(one))
        for one in ast.walk(statement)
    )


def _ended(at: ast.stmt, body: list[ast.stmt], placeholders: Placeholders, depth: int) -> ast.stmt:
    """Return statements with a note behind them that is taken however they are left."""
    return ast.copy_location(ast.Try(body, [], [], [placeholders.end(at, depth)]), at)
