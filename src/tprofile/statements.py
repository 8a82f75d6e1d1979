"""Wrap each statement of a cell in a mark, so that a trace tells its lines."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from uuid import uuid4

Mark = AbstractContextManager[object]
"""What stands around each run of a statement."""

MarkLine = Callable[[int], Mark]
"""Returns the mark of a statement that begins in the given line, for that statement alone."""

_DEEPEST = 8
"""How many marks are open at a time at most: Python nests 20 blocks in a code, the user's included.
What stands deeper is part of the statement around it."""

_ELIFS = 4
"""How many of them may be of one chain of `elif`, each of which stands in the one before."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Placeholders:
    """Constants that stand in code for its marks, until they are known.

    A mark that the code looked up by name would be one more name among the user's.
    """

    def __init__(self) -> None:
        self._key = uuid4().hex
        self.lines: dict[str, int] = {}
        """Line of the statement that each one stands for."""

    def stand_in(self, statement: ast.stmt) -> ast.Constant:
        """Return the constant that stands for the mark of a statement."""
        text = f"tprofile {self._key} {len(self.lines)}"
        self.lines[text] = first_line(statement)
        return ast.copy_location(ast.Constant(text), statement)

    def fill(self, code: CodeType, plain: CodeType, mark: MarkLine) -> CodeType:
        """Return code that was compiled with placeholders, with marks in their places.

        The code of functions and classes becomes that of `plain`, the same statements compiled
        without placeholders: to torch.compile another object is another function.
        """
        same = {inner: inner for inner in plain.co_consts if isinstance(inner, CodeType)}
        return code.replace(
            co_consts=tuple(
                same.get(value, value)
                if isinstance(value, CodeType)
                else mark(self.lines[value])
                if isinstance(value, str) and value in self.lines
                else value
                for value in code.co_consts
            )
        )


def first_line(statement: ast.stmt) -> int:
    """Return the line in which a statement begins, decorators included."""
    above = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in above)])


def has_mark(statement: ast.stmt) -> bool:
    """Tell whether a statement can have a mark: not what a compiler reads and no code does.

    In a mark, a text at the beginning would be no docstring, and an import from `__future__` no
    longer at the beginning.
    """
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.ImportFrom):
        return statement.module != "__future__"
    return not isinstance(statement, ast.Global | ast.Nonlocal)


def wrap(statements: list[ast.stmt], placeholders: Placeholders, depth: int = 0) -> list[ast.stmt]:
    """Return statements each in `with PLACEHOLDER:`, those inside compound statements as well.

    Compound statements are changed in place. The bodies of functions and classes stay as they are.
    """
    if depth == _DEEPEST:
        return statements
    return [_wrapped(one, placeholders, depth) if has_mark(one) else one for one in statements]


def _wrapped(statement: ast.stmt, placeholders: Placeholders, depth: int) -> ast.stmt:
    mark = ast.withitem(context_expr=placeholders.stand_in(statement))
    if not isinstance(statement, _SCOPES):
        _wrap_inner(statement, placeholders, depth + 1)
    return ast.copy_location(ast.With(items=[mark], body=[statement]), statement)


def _wrap_inner(statement: ast.stmt, placeholders: Placeholders, depth: int) -> None:
    parts = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
    for part in parts:
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(part, name, None)
            if not inner:
                continue
            if name == "orelse" and depth >= _ELIFS and _is_elif(statement):
                _wrap_inner(inner[0], placeholders, depth)
            else:
                setattr(part, name, wrap(inner, placeholders, depth))


def _is_elif(statement: ast.stmt) -> bool:
    """Tell whether a statement goes on with `elif`, or with an `else` that is nothing but `if`."""
    return (
        isinstance(statement, ast.If)
        and len(statement.orelse) == 1
        and isinstance(statement.orelse[0], ast.If)
    )
