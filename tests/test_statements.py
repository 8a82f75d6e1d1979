"""Notes of the statements of a cell, which change nothing of what it does."""

from __future__ import annotations

import ast
import atexit
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from tprofile.cell import Cell, compile_cell


@pytest.fixture(scope="module")
def the_shell() -> Iterator[Any]:
    config = Config()
    config.HistoryManager.enabled = False
    shell = cast(Any, InteractiveShell)(config=config)
    yield shell
    shell.restore_sys_module_state()
    atexit.unregister(shell.atexit_operations)


@pytest.fixture
def shell(the_shell: Any) -> Iterator[Any]:
    before = set(the_shell.user_ns)
    yield the_shell
    for name in set(the_shell.user_ns) - before:
        del the_shell.user_ns[name]


class Log:
    """Tells which statements began, and which have not ended."""

    CLOCK_ID = 7
    outermost = False

    def __init__(self) -> None:
        self.lines: list[int] = []
        """In the order in which they began."""
        self.open: list[tuple[int, int]] = []
        """Depth and line of those that go on."""
        self.made = 0

    def now(self) -> float:
        return self.clock(self.CLOCK_ID)

    def clock(self, which: int) -> float:
        assert which == self.CLOCK_ID
        return 0.5

    def begins(self, line: int, depth: int) -> Callable[[float], None]:
        self.made += 1

        def take(now: float) -> None:
            self._end(depth, now)
            # What stands in others is begun while they go on.
            assert [one for one, _ in self.open] == list(range(depth))
            self.open.append((depth, line))
            self.lines.append(line)

        return take

    def ends(self, depth: int) -> Callable[[float], None]:
        return lambda now: self._end(depth, now)

    def _end(self, depth: int, now: float) -> None:
        assert now == 0.5
        while self.open and self.open[-1][0] >= depth:
            self.open.pop()


def noted(shell: Any, text: str) -> tuple[Cell, Log]:
    log = Log()
    return compile_cell(shell, text).noted(cast(Any, log)), log


def lines(shell: Any, text: str) -> list[int]:
    cell, log = noted(shell, text)
    cell.run()
    assert log.open == []
    return log.lines


# --- which statements have one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\n\nb = 2", [1, 3]),
        ("a = 1; b = 2", [1, 1]),
        ("a = (1 +\n  2)\nb = 3", [1, 3]),
        ("3 + 4", [1]),
        ("3 + 4;", [1]),
        ("for i in range(2):\n    i\n    i + 1", [1, 2, 3, 2, 3]),
        ("for i in []:\n    pass\nelse:\n    a = 1", [1, 4]),
        ("n = 0\nwhile n < 2:\n    n += 1", [1, 2, 3, 3]),
        ("for i in range(3):\n    if i == 1:\n        continue\n    i", [1, 2, 4, 2, 3, 2, 4]),
        ("for i in range(3): i", [1, 1, 1, 1]),
        ("if 0:\n    a = 1\nelif 0:\n    b = 2\nelif 1:\n    c = 3\nelse:\n    d", [1, 3, 5, 6]),
        ("if 0:\n    a = 1\nelse:\n    if 1:\n        b = 2", [1, 4, 5]),
        ("with open(__file__) as f:\n    s = f.read(1)", [1, 2]),
        ("try:\n    1 / 0\nexcept ArithmeticError:\n    a = 1\nfinally:\n    b = 2", [1, 2, 4, 6]),
        ("try:\n    a = 1\nexcept KeyError:\n    b = 1\nelse:\n    c = 2", [1, 2, 6]),
        ("match 3:\n    case 1:\n        a = 1\n    case x if x > 2:\n        b = x", [1, 5]),
        ("def f():\n    a = 1\n    for i in range(2):\n        i\nf()\nf()", [1, 5, 6]),
        ("class A:\n    x = 1\n    def f(self):\n        return 2\nA().f()", [1, 5]),
        ("def d(f):\n    return f\n@d\n@d\ndef g():\n    pass", [1, 3]),
        ("f = lambda: 3\nf()", [1, 2]),
        ("[i for i in range(3)]", [1]),
        ("'text'", []),
        ("'text'\na = 1\n'more'\n3", [2]),
        ("from __future__ import annotations\nimport os\nfrom os import path", [2, 3]),
        ("import os\nfrom __future__ import annotations\na = 1", [1, 3]),
        ("global a\na = 1", [2]),
        ("a: int = 3\ndel a\nassert True\npass", [1, 2, 3, 4]),
        ("!echo it > /dev/null\na = 1", [1, 2]),
        ("", []),
        ("# nothing", []),
    ],
)  # fmt: skip
def test_the_statements_that_have_a_mark(shell: Any, text: str, expected: list[int]) -> None:
    shell.user_ns["__file__"] = __file__
    assert lines(shell, text) == expected


@pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")
def test_groups_of_exceptions(shell: Any) -> None:
    text = "try:\n    raise ExceptionGroup('', [KeyError()])\nexcept* KeyError:\n    a = 1"
    assert lines(shell, text) == [1, 2, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = await sleep(0, 4)\ny = x", [2, 3]),
        ("await sleep(0, 4)", [2]),
        ("async for i in count(2):\n    i", [2, 3, 3]),
        ("async with Lock():\n    a = await sleep(0)", [2, 3]),
        ("a = [i async for i in count(3)]\nfor i in a:\n    await sleep(0)", [2, 3, 4, 4, 4]),
        ("await gather(sleep(0), sleep(0))\n1 + 1", [2, 3]),
    ],
)
def test_marks_around_awaits(shell: Any, text: str, expected: list[int]) -> None:
    compile_cell(shell, "async def count(n):\n    for i in range(n):\n        yield i").run()
    assert lines(shell, f"from asyncio import sleep, Lock, gather\n{text}") == [1, *expected]


def test_a_mark_serves_one_statement_in_all_its_runs(shell: Any) -> None:
    # GIVEN a statement that a compiler copies: `finally` is reached in several ways
    text = "for i in range(4):\n    try:\n        if i == 1: continue\n    finally:\n        i"
    cell, log = noted(shell, text)
    cell.run()
    cell.run()
    # THEN each has one mark, made when the cell was told to have any
    assert log.made == 5
    assert log.lines.count(5) == 8


def test_a_log_of_the_outermost_has_no_other(shell: Any) -> None:
    log = Log()
    log.outermost = True
    text = "for i in range(4):\n    if i: i\ndef f(): pass\ntry:\n    f()\nfinally:\n    f()\nf()"
    compile_cell(shell, text).noted(cast(Any, log)).run()
    assert log.lines == [1, 3, 4, 8]
    assert log.open == []


def test_lines_are_those_the_user_sees(shell: Any) -> None:
    log = Log()

    def magic(line: str, body: str) -> None:
        compile_cell(shell, body).noted(cast(Any, log)).run()

    shell.register_magic_function(magic, "cell", "marks")
    assert shell.run_cell("%%marks\n\n\nx = 1\n\ny = 2", store_history=True).success
    assert log.lines == [4, 6]


@pytest.mark.parametrize(
    ("visible", "source", "first"),
    [
        ("%%text\nx = 1\n\n  # end\n\n", "x = 1\n\n  # end", 2),
        ("\n%%text\n\n\nx = 1", "x = 1", 5),
        ("a = 1\n%text x = 1", "x = 1", 2),
        ("%%text\nfor i in []:\n\tpass  ", "for i in []:\n\tpass", 2),
        ("%%text\n!echo it\n%pwd", "!echo it\n%pwd", 2),
        ("%%text\n# a note", "# a note", 2),
        ("%%text\r\nx = 1\r\ny = 2", "x = 1\ny = 2", 2),
        # IPython makes one line of these two, and what is counted is lines of that.
        ("%%text\n!echo a \\\n  b\nx", "get_ipython().system('echo a    b')\nx", 2),
    ],
)
def test_the_source_is_as_it_was_written(shell: Any, visible: str, source: str, first: int) -> None:
    cells: list[Cell] = []

    def magic(line: str, body: str | None = None) -> None:
        cells.append(compile_cell(shell, line if body is None else body))

    shell.register_magic_function(magic, "line_cell", "text")
    assert shell.run_cell(visible, store_history=True).success
    assert (cells[0].source, cells[0].first_line) == (source, first)


def test_files_have_the_names_that_a_user_knows(shell: Any) -> None:
    shell.run_cell("def f():\n    pass", store_history=True)
    number = shell.execution_count - 1
    other = shell.user_ns["f"].__code__.co_filename
    cell = compile_cell(shell, "x = 1")
    assert cell.file_name(cell.filename) is None
    assert cell.file_name(other) == f"Cell In[{number}]"
    assert cell.file_name("/home/me/model.py") == "/home/me/model.py"


# --- nothing else changes


def test_the_value_is_that_of_the_last_expression(shell: Any) -> None:
    assert noted(shell, "x = 4\nx + 1")[0].run() == 5
    assert noted(shell, "x = 4")[0].run() is None
    assert noted(shell, "'text'")[0].run() == "text"
    assert noted(shell, "import asyncio\nawait asyncio.sleep(0, 6)")[0].run() == 6


def test_no_name_is_added(shell: Any) -> None:
    before = set(shell.user_ns)
    noted(shell, "for x in range(2):\n    y = x\nwith open(__file__): pass\n3")
    noted(shell, "for x in range(2):\n    y = x\nx")[0].run()
    assert set(shell.user_ns) - before == {"x", "y"}


def test_functions_are_the_same_code_objects(shell: Any) -> None:
    text = (
        "from functools import wraps\nx = 3\n"
        "def f(): return lambda: x\nclass A:\n    def g(self): return [i for i in (1, 2)]\n"
        "for i in range(1):\n    h = lambda: i\n    k = lambda: i\n"
        "try:\n    pass\nfinally:\n    def late(): pass\nlambda: 4"
    )
    cell = compile_cell(shell, text)
    seen = []
    for one in (cell, cell.noted(cast(Any, Log()))):
        last = cast(Any, one.run())
        functions = [shell.user_ns[name] for name in ("f", "h", "k", "late")]
        functions += [shell.user_ns["A"].g, shell.user_ns["f"](), last]
        seen.append([function.__code__ for function in functions])
    assert len(seen[0]) == 7
    assert all(plain is marked for plain, marked in zip(*seen, strict=True))


def test_the_compiler_warns_once(shell: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compile_cell(shell, "x = 1\nx is 3\ny = 2")
    assert [one.category for one in caught] == [SyntaxWarning]


FAILING = [
    "x = 1\n\nx / 0",
    "x = 1\ny = (x +\n     x / 0)\nx",
    "def f(x):\n    return x / 0\nfor i in range(3):\n    if i == 1:\n        f(1) + 1",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['key']",
    "try:\n    1 / 0\nfinally:\n    x = 1",
    "with open('/no/such/file') as f:\n    pass",
    "for i in range(2):\n    with open(__file__) as f:\n        [][i]",
    "assert 1 == 2, 'not so'",
    "raise ValueError('mine') from KeyError('cause')",
    "from asyncio import sleep\nfor i in range(2):\n    await sleep(0)\n    i / 0",
    "from asyncio import sleep\nawait sleep('text', 3)",
    "while True:\n    int('x')",
    "match 3:\n    case 3:\n        undefined",
    "@undefined\ndef f():\n    pass",
    "class A:\n    x = 1 / 0",
    "import no_such_module_at_all",
    "del undefined",
    "(1).real.\\\n    none",
]


@pytest.mark.parametrize("text", FAILING)
def test_tracebacks_are_the_same(shell: Any, text: str) -> None:
    shell.user_ns["__file__"] = __file__
    cell = compile_cell(shell, text)
    log = Log()
    told = []
    for one in (cell, cell.noted(cast(Any, log))):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            one.run()
        entries = [e for e in traceback.extract_tb(caught.value.__traceback__)
                   if e.filename == cell.filename]  # fmt: skip
        positions = [
            (e.lineno, getattr(e, "colno", 0), getattr(e, "end_colno", 0)) for e in entries
        ]
        shown = traceback.format_exception(type(caught.value), caught.value, None)
        told.append((entries, positions, shown, repr(caught.value.__context__)))
    assert told[0][0]
    assert told[0] == told[1]
    # AND no mark is left open.
    assert log.lines
    assert log.open == []


def nested(depth: int) -> str:
    return "\n".join(
        [*("  " * i + f"for i{i} in range(1):" for i in range(depth)), "  " * depth + "x = 1"]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (nested(7), [*range(1, 9)]),
        # The most that Python can nest.
        (nested(20), [*range(1, 22)]),
    ],
)
def test_cells_that_nest_deeply(shell: Any, text: str, expected: list[int]) -> None:
    assert lines(shell, text) == expected
    assert shell.user_ns["x"] == 1


def test_a_long_chain_of_elif(shell: Any) -> None:
    branches = "".join(f"elif n == {i}:\n    x = {i}\n" for i in range(60))
    tried = [2 * i + 4 for i in range(51)]
    text = f"n = 50\nif n == -1:\n    pass\n{branches}"
    assert lines(shell, text) == [1, 2, *tried, 105]
    assert shell.user_ns["x"] == 50


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="annotations are made when asked for")
def test_annotations_of_the_cell(shell: Any) -> None:
    cell = compile_cell(shell, "x: 1 + 1 = 3\nif x:\n    y: 2 + 2 = 'a'")
    seen = []
    for one in (cell, cell.noted(cast(Any, Log()))):
        shell.user_ns.pop("__annotations__", None)
        one.run()
        seen.append(shell.user_ns["__annotations__"])
    assert list(seen[0]) == ["x", "y"]
    assert seen[0] == seen[1]


# --- any program

NAMES = st.sampled_from("abc")
SIMPLE = st.one_of(
    st.builds("{} = len(log)".format, NAMES),
    st.builds("log.append({!r})".format, NAMES),
    st.builds("{} += 1".format, NAMES),
    st.sampled_from(["pass", "break", "continue", "raise KeyError", "1 / 0", "del a", "'text'"]),
    st.builds("def f{0}():\n    log.append('{0}')\n    return {0}".format, NAMES),
    st.builds("fa() if {} else [log.append(i) for i in range(2)]".format, NAMES),
)


def indented(body: list[str]) -> str:
    return "\n".join("    " + line for text in body for line in text.split("\n"))


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map(indented)
    one = inner.map(lambda text: indented([text]))
    return st.one_of(
        st.builds("for {} in range(2):\n{}\nelse:\n{}".format, NAMES, body, body),
        st.builds(
            "if {} % 2:\n{}\nelif {} > 3:\n{}\nelse:\n{}".format, NAMES, body, NAMES, one, body
        ),
        st.builds(
            "try:\n{}\nexcept KeyError as e:\n{}\nelse:\n{}\nfinally:\n{}".format,
            body, body, body, body,
        ),
        st.builds("with around({!r}):\n{}".format, NAMES, body),
        st.builds("match {}:\n    case 1 | 2:\n{}".format, NAMES, one.map(lambda t: indented([t]))),
    )  # fmt: skip


def looking(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map(indented)
    return st.one_of(
        st.builds("for a in Looks(2):\n{}\nelse:\n{}".format, body, body),
        st.builds("b = 3\nwhile look() and (b := b - 1):\n{}\nelse:\n{}".format, body, body),
        st.builds("if look() and a:\n{}\nelif look():\n{}\nelse:\n{}".format, body, body, body),
        st.builds(
            "try:\n{}\nexcept KeyError as e:\n{}\nelse:\n{}\nfinally:\n{}".format,
            body, body, body, body,
        ),
        st.builds("with Looks({}) as c:\n{}".format, st.integers(0, 1), body),
        st.builds("match look():\n    case 1 | 2:\n{}".format, body.map(lambda t: indented([t]))),
    )  # fmt: skip


LOOK = st.sampled_from(["look()"] * 3 + ["break", "continue", "raise KeyError"])
LOOKING = st.lists(st.recursive(LOOK, looking, max_leaves=12), min_size=1, max_size=5).map(
    "\n".join
)


PROGRAM = st.lists(st.recursive(SIMPLE, compound, max_leaves=8), min_size=1, max_size=5).map(
    "\n".join
)


def outcome(cell: Cell, shell: Any) -> tuple[Any, ...]:
    log: list[object] = []

    @contextmanager
    def around(name: str) -> Iterator[None]:
        log.append(f"into {name}")
        yield
        log.append(f"out of {name}")

    names = {"a": 1, "b": 2, "c": 3, "log": log, "around": around}
    shell.user_ns.clear()
    shell.user_ns.update(names)
    error: Any = None
    value: Any = None
    try:
        value = cell.run()
    except Exception as raised:
        lines = [at for f, at in traceback.walk_tb(raised.__traceback__)
                 if f.f_code.co_filename == cell.filename]  # fmt: skip
        error = repr(raised), repr(raised.__context__), lines
    state = {name: repr(shell.user_ns.get(name)) for name in "abc"}
    return log, state, error, repr(value), sorted(set(shell.user_ns) - {"fa", "fb", "fc"})


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(PROGRAM)
def test_any_program_does_the_same(shell: Any, text: str) -> None:
    try:
        ast.parse(text)
        compile(text, "", "exec")
    except SyntaxError:  # a `break` outside of all loops
        return
    kept = dict(shell.user_ns)
    try:
        cell = compile_cell(shell, text)
        log = Log()
        assert outcome(cell, shell) == outcome(cell.noted(cast(Any, log)), shell)
        assert log.open == []
    finally:
        shell.user_ns.clear()
        shell.user_ns.update(kept)


def seen_from_within(shell: Any, text: str) -> list[tuple[int, int]]:
    """Run a program whose parts look; return the line that runs and the line that is told."""
    seen: list[tuple[int, int]] = []
    log = Log()

    def look(frame: Any = None) -> int:
        line = (frame or sys._getframe(1)).f_lineno
        seen.append((line, log.open[-1][1] if log.open else 0))
        return 1

    class Looks:
        """Looks whenever a statement that it is in does something with it."""

        def __init__(self, n: int) -> None:
            look(sys._getframe(1))
            self.left = n

        def __enter__(self) -> None:
            look(sys._getframe(1))

        def __exit__(self, *error: object) -> bool:
            look(sys._getframe(1))
            return self.left == 1

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            look(sys._getframe(1))
            self.left -= 1
            if self.left < 0:
                raise StopIteration
            return self.left

    shell.user_ns.update({"a": 0, "look": look, "Looks": Looks})
    with suppress(KeyError):
        compile_cell(shell, text).noted(cast(Any, log)).run()
    return seen


@pytest.mark.parametrize(
    "text",
    [
        "for a in Looks(2):\n    if look():\n        continue",
        "for a in Looks(2):\n    if look():\n        break\nlook()",
        "for a in Looks(2):\n    with Looks(0):\n        if look():\n            continue",
        "for a in Looks(2):\n    if look():\n        with Looks(0):\n            with Looks(0):\n"
        "                continue\n        look()",
        "for a in Looks(2):\n    if look():\n        try:\n            break\n        finally:\n"
        "            look()\nlook()",
        "for a in Looks(2):\n    if look():\n        with Looks(0):\n            look()\n"
        "        look()\n    look()",
        "b = 3\nwhile look() and (b := b - 1):\n    if look():\n        continue",
        "for a in Looks(1):\n    for c in Looks(1):\n        look()\n    else:\n        continue",
        "with Looks(1):\n    look()\n    raise KeyError\nlook()",
        "with Looks(0):\n    with Looks(0):\n        raise KeyError",
        "try:\n    with Looks(0):\n        raise KeyError\nexcept KeyError:\n    look()",
    ],
)
def test_what_runs_is_in_the_statement_that_it_is_of(shell: Any, text: str) -> None:
    seen = seen_from_within(shell, text)
    assert seen
    assert [told for _, told in seen] == [line for line, _ in seen]


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(LOOKING)
def test_what_runs_in_any_program_is_in_its_statement(shell: Any, text: str) -> None:
    try:
        compile(text, "", "exec")
    except SyntaxError:
        return
    kept = dict(shell.user_ns)
    try:
        seen = seen_from_within(shell, text)
        assert [told for _, told in seen] == [line for line, _ in seen]
    finally:
        shell.user_ns.clear()
        shell.user_ns.update(kept)
