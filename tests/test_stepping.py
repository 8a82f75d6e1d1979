"""Marks around the lines that functions run, as Python tells of them."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import inspect
import os
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tprofile import stepping
from tprofile.stepping import OTHERS, Stepper, UserFiles, own_codes


class Log:
    """Marks that say in which one they are entered, and break if they are entered twice."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.depth = self.made = 0

    def mark(self, line: int, function: str, file: str | None) -> Any:
        self.made += 1
        return _Mark(self, f"{line} {function}" + (f" {file}" if file != "code.py" else ""))


class _Mark:
    def __init__(self, log: Log, name: str) -> None:
        self.log, self.name, self.inside = log, name, False

    def __enter__(self) -> None:
        assert not self.inside
        self.inside = True
        self.log.told.append("  " * self.log.depth + self.name)
        self.log.depth += 1

    def __exit__(self, *error: object) -> None:
        assert self.inside
        self.inside = False
        self.log.depth -= 1


@pytest.fixture(autouse=True)
def no_other_tracer() -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(None)
    yield
    assert sys.gettrace() is None
    sys.settrace(before)


def stepper(log: Log, files: dict[str, Any] | None = None) -> Stepper:
    known = {"code.py": "code.py", **(files or {})}
    return Stepper(log.mark, lambda filename: known.get(filename, OTHERS))


def names(code: str, filename: str = "code.py") -> dict[str, Any]:
    """Run code whose first line is line 1, and return its names."""
    space: dict[str, Any] = {}
    exec(compile(textwrap.dedent(code).lstrip("\n"), filename, "exec"), space)
    return space


def stepped(code: str, call: Callable[[dict[str, Any]], object]) -> list[str]:
    """Return the lines that a call ran, each indented by those that it ran in."""
    space, log = names(code), Log()
    one = stepper(log)
    with one:
        call(space)
    assert log.depth == 0
    assert one.notes == []
    return log.told


def test_lines_one_after_the_other() -> None:
    code = """
        def f(n):
            if n > 2:
                n = 0
            for i in range(2):
                n += g(i)
            return n
        def g(i):
            return (i +
                    1)
    """
    assert stepped(code, lambda space: space["f"](1)) == [
        "2 f", "4 f", "5 f", "  8 g", "  9 g", "  8 g", "4 f", "5 f", "  8 g", "  9 g", "  8 g",
        "4 f", "6 f",
    ]  # fmt: skip


def test_a_function_that_calls_itself() -> None:
    code = "def f(n):\n    if n:\n        f(n - 1)\n    return n"
    space, log = names(code), Log()
    with stepper(log):
        space["f"](2)
        space["f"](2)
    assert log.told[:9] == [
        "2 f", "3 f", "  2 f", "  3 f", "    2 f", "    4 f", "  4 f", "4 f", "2 f",
    ]  # fmt: skip
    # One mark for each that is open at a time, used again and again: two of line 3, of the others
    # one, as they call nothing.
    assert log.made == 4


def test_generators_are_left_where_they_yield() -> None:
    code = """
        def gen(n):
            for i in range(n):
                yield g(i)
        def g(i):
            return i
        def f():
            for i in gen(2):
                g(i)
    """
    assert stepped(code, lambda space: space["f"]()) == [
        "7 f", "  2 gen", "  3 gen", "    5 g", "8 f", "  5 g",
        "7 f", "  3 gen", "  2 gen", "  3 gen", "    5 g", "8 f", "  5 g",
        "7 f", "  3 gen", "  2 gen",
    ]  # fmt: skip


def test_generators_that_are_closed_or_thrown_into() -> None:
    code = """
        def gen():
            try:
                yield 1
            finally:
                done = 1
    """

    def call(space: dict[str, Any]) -> None:
        one, other = space["gen"](), space["gen"]()
        next(one), next(other)
        one.close()
        with pytest.raises(KeyError):
            other.throw(KeyError)

    assert stepped(code, call) == ["2 gen", "3 gen"] * 2 + ["3 gen", "5 gen"] * 2


def test_coroutines_take_turns() -> None:
    code = """
        import asyncio
        async def one(log):
            await asyncio.sleep(0)
            log.append(1)
        async def both(log):
            await asyncio.gather(one(log), one(log))
    """
    told = stepped(code, lambda space: asyncio.run(space["both"]([])))
    # A line that waits is left, and come to again: nothing of another task is in it.
    assert told == [
        "6 both", "3 one", "3 one", "3 one", "4 one", "3 one", "4 one", "6 both",
    ]  # fmt: skip


def test_exceptions_leave_what_they_pass_through() -> None:
    code = """
        def f():
            try:
                g()
            except KeyError:
                return 1
        def g():
            h()
        def h():
            raise KeyError
    """
    assert stepped(code, lambda space: space["f"]()) == [
        "2 f", "3 f", "  7 g", "    9 h", "4 f", "5 f",
    ]  # fmt: skip


def test_an_error_comes_out_as_it_is() -> None:
    space, log = names("def f():\n    x = 1\n    1 / 0"), Log()
    with pytest.raises(ZeroDivisionError) as caught, stepper(log):
        space["f"]()
    assert log.told == ["2 f", "3 f"]
    assert log.depth == 0
    last = caught.traceback[-1]
    assert (last.name, last.lineno + 1) == ("f", 3)


def test_what_is_part_of_a_line() -> None:
    code = """
        def f():
            a = [g(i) for i in range(1)]
            b = {i for i in a}
            c = sum(g(i) for i in a)
            class A:
                x = 1
            d = (lambda: 3)()
            return A
        def g(i):
            return i
    """
    told = stepped(code, lambda space: space["f"]())
    # Python 3.12 comes to the line of a comprehension once more for each of its items.
    told = [one for one, before in zip(told, ["", *told], strict=False) if one != before]
    assert told == [
        "2 f", "  10 g", "3 f", "4 f", "  10 g", "5 f", "7 f",
        f"  7 {'f.<locals>.' if sys.version_info >= (3, 11) else ''}<lambda>", "8 f",
    ]  # fmt: skip


def test_functions_are_told_apart_by_class() -> None:
    code = "class A:\n    def f(self):\n        return 1"
    name = "A.f" if sys.version_info >= (3, 11) else "f"
    assert stepped(code, lambda space: space["A"]().f()) == [f"3 {name}"]


def test_functions_of_others_are_not_looked_into() -> None:
    space, log = names("def f(g):\n    return g()"), Log()
    inner = names("def h():\n    return 1", "other.py")
    with stepper(log):
        space["f"](inner["h"])
        inner["h"]()
    assert log.told == ["2 f"]


def test_a_file_of_its_own_name_and_the_cell() -> None:
    log = Log()
    one = stepper(log, {"cell": None, "tmp": "Cell In[3]"})
    with one:
        names("def f():\n    return 1", "cell")["f"]()
        names("def f():\n    return 1", "tmp")["f"]()
    assert log.told == ["2 f None", "2 f Cell In[3]"]
    assert [(file, line) for file, line, _ in one.lines()] == [("Cell In[3]", 2)]


def test_other_threads_are_left_alone() -> None:
    space, log = names("def f():\n    return 1"), Log()
    thread = threading.Thread(target=space["f"])
    with stepper(log):
        thread.start()
        thread.join()
    assert log.told == []


def test_code_of_torch_compile_is_part_of_the_line_that_calls_it() -> None:
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    first = inspect.currentframe().f_lineno + 3  # type: ignore[union-attr]

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    compiled = torch.compile(f, backend=backend)
    compiled(torch.ones(2))
    before = len(graphs)
    log = Log()
    with stepper(log, {__file__: "here"}):
        compiled(torch.ones(2))
    assert log.told == []
    # AND what is not compiled has lines.
    log = Log()
    with stepper(log, {__file__: "here"}):
        f(torch.ones(2))
    assert [one.split()[0] for one in log.told] == [str(first + n) for n in range(3)]
    assert before == len(graphs) > 0


# --- beginning and end


def test_a_frame_that_runs_already() -> None:
    code = """
        def f(one, here):
            a = 1
            one.start(here())
            b = g()
            c = 3
            one.stop()
            return g()
        def g():
            return 1
    """
    space, log = names(code), Log()
    one = stepper(log)
    space["f"](one, lambda: sys._getframe(1))
    one.stop()
    assert log.told == ["4 f", "  9 g", "5 f", "6 f"]


def test_nothing_is_left_on_a_frame_or_alive() -> None:
    space, log = names("def gen():\n    yield 1\n    yield 2"), Log()
    one = stepper(log)
    generator = space["gen"]()
    with one:
        next(generator)
    # WHEN it goes on in another session
    other = Log()
    with stepper(other):
        next(generator)
    # THEN the marks are of that one
    assert log.told == ["2 gen"]
    assert other.told == ["3 gen"]
    alive = weakref.ref(one)
    del one, generator
    gc.collect()
    assert alive() is None


def test_a_debugger_keeps_its_place() -> None:
    space, log = names("def f():\n    return 1"), Log()
    one = stepper(log)

    def theirs(frame: object, event: str, arg: object) -> None:
        return None

    sys.settrace(theirs)
    try:
        with one:
            space["f"]()
        assert sys.gettrace() is theirs
    finally:
        sys.settrace(None)
    assert log.told == []
    assert one.notes == [
        "the lines of functions are not told: builtins follows Python's lines already (a debugger, "
        "or what measures the coverage of tests). Stop it, or leave the option stack out"
    ]


def test_code_that_takes_the_trace_function_away() -> None:
    code = """
        import sys
        def f(theirs):
            a = 1
            sys.settrace(theirs)
            g()
        def g():
            return 1
    """
    for theirs in (None, lambda frame, event, arg: None):
        space, log = names(code), Log()
        one = stepper(log)
        with one:
            space["f"](theirs)
        assert sys.gettrace() is theirs
        sys.settrace(None)
        # What was open is closed in any case.
        assert log.depth == 0
        assert log.told[:2] == ["3 f", "4 f"]
        assert one.notes == [
            "the lines of functions are not told to the end: the code set a trace function of its "
            "own (`sys.settrace`, a debugger)"
        ]


def test_it_can_be_used_again() -> None:
    space, log = names("def f():\n    return 1"), Log()
    one = stepper(log)
    for _ in range(3):
        with one:
            space["f"]()
        one.stop()
    assert log.told == ["2 f"] * 3
    assert log.made == 1
    assert one.notes == []


def test_the_text_of_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "a file.py"
    path.write_text("def f(n):\r\n    if n:\r\n\r\n        f(n - 1)\t\n", encoding="utf-8")
    log = Log()
    one = stepper(log, {str(path): str(path), "gone.py": "gone.py"})
    with one:
        names(path.read_text(encoding="utf-8"), str(path))["f"](1)
        names("def f():\n    return 1", "gone.py")["f"]()
    assert one.lines() == [
        (str(path), 2, "    if n:"), (str(path), 4, "        f(n - 1)\t"), ("gone.py", 2, ""),
    ]  # fmt: skip


# --- whose a file is


def folder_of(module: Any) -> str:
    return os.path.dirname(module.__file__)


@pytest.mark.parametrize(
    "filename",
    [
        "<string>", "<frozen importlib._bootstrap>", "<eval_with_key>.3", "<__array_function__ x>",
        dataclasses.__file__, asyncio.events.__file__, torch.__file__, torch.nn.functional.__file__,
        pytest.__file__, stepping.__file__, os.path.join(folder_of(stepping), "trace", "live.py"),
        os.path.join(os.sep, "x", "site-packages", "mine.py"),
        os.path.join(os.sep, "x", "dist-packages", "mine", "a.py"),
        os.path.join(os.sep, "tmp", "torchinductor_me", "ab", "cab.py"),
        os.path.join(os.sep, "cache", "xy", "cxy.py"), os.path.join(os.sep, "other", "a.py"),
    ],
)  # fmt: skip
def test_files_of_others(filename: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", os.path.join(os.sep, "cache"))
    assert UserFiles(others=[os.path.join(os.sep, "other")])(filename) is OTHERS


@pytest.mark.parametrize(
    "filename",
    [__file__, "train.py", os.path.join(os.sep, "home", "me", "project", "model.py"),
     os.path.join(os.sep, "others", "a.py"), os.path.join(os.sep, "tmp", "ipykernel_7", "9.py")],
)  # fmt: skip
def test_files_of_the_user(filename: str) -> None:
    assert UserFiles(others=[os.path.join(os.sep, "other")])(filename) == filename


def test_a_folder_that_packages_were_installed_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, inside in (("site", "thing-1.0.dist-info"), ("mine", "thing")):
        (tmp_path / folder / inside).mkdir(parents=True)
        monkeypatch.syspath_prepend(tmp_path / folder)
    monkeypatch.syspath_prepend(tmp_path / "gone")
    look = UserFiles()
    assert look(str(tmp_path / "site" / "thing.py")) is OTHERS
    assert look(mine := str(tmp_path / "mine" / "thing.py")) == mine


def test_files_that_a_notebook_names() -> None:
    cells = {"<ipython-input-3-ab>": None, "<ipython-input-2-cd>": "Cell In[2]"}
    look = UserFiles(lambda filename: cells.get(filename, filename))
    assert look("<ipython-input-3-ab>") is None
    assert look("<ipython-input-2-cd>") == "Cell In[2]"
    assert look("<ipython-input-9-ef>") is OTHERS


def test_what_runs_for_each_line_is_known() -> None:
    known = {code.co_name for code in own_codes()}
    assert {"_call", "_known", "enter", "leave", "step", "_steps", "__init__"} <= known
