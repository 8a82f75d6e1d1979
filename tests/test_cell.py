from __future__ import annotations

import ast
import asyncio
import atexit
import gc
import inspect
import linecache
import os
import re
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from traitlets.config import Config

from tprofile import cell as cell_module
from tprofile.cell import Cell, compile_cell

SOURCES = Path(cell_module.__file__).parents[1]
LONG = 60  # seconds that no passing test waits for

Caller = Callable[[Callable[[], object]], object]


@pytest.fixture
def shell() -> Iterator[Any]:
    config = Config()
    config.HistoryManager.enabled = False
    shell = cast(Any, InteractiveShell)(config=config)
    yield shell
    shell.restore_sys_module_state()
    shell.user_ns.clear()
    atexit.unregister(shell.atexit_operations)  # which would keep every shell until then


@pytest.fixture
def profiled(shell: Any) -> list[Any]:
    """Register `%%twice` and `%twice`; the list collects the Cells that they make."""
    cells: list[Any] = []

    def twice(line: str, body: str | None = None) -> object:
        cells.append(compile_cell(shell, line if body is None else body))
        cells[-1].run()
        return cells[-1].run()

    shell.register_magic_function(twice, "line_cell")
    return cells


def run(shell: Any, text: str, times: int = 1) -> object:
    cell = compile_cell(shell, text)
    for _ in range(times - 1):
        cell.run()
    return cell.run()


def raised(shell: Any, text: str) -> BaseException:
    """Give what compiling and running `text` raises."""
    try:
        run(shell, text)
    except BaseException as error:
        return error
    pytest.fail("nothing was raised")


def frames(error: BaseException, filename: str) -> list[int]:
    return [
        at for f, at in traceback.walk_tb(error.__traceback__) if f.f_code.co_filename == filename
    ]


def notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))


# --- values and variables


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 1", 2),
        ("x = 5\nx * 2", 10),
        ("x = 5\nx * 2;", 10),
        ("x = 5", None),
        ("for i in range(3):\n    i", None),
        ("", None),
        ("\n\n", None),
        ("# nothing", None),
        ("#a\n\n   # b\n", None),
        ("'text'", "text"),
        ("s = '''a\n  $x {y}\n\n%b\n!c'''\ns", "a\n  $x {y}\n\n%b\n!c"),
        ("'a  b' + \"it's\"", "a  bit's"),
    ],
)
def test_run_gives_the_value_of_the_last_expression(shell: Any, text: str, value: object) -> None:
    assert run(shell, text) == value


def test_names_persist_between_runs_and_cells(shell: Any) -> None:
    shell.user_ns["x"] = 10
    assert run(shell, "x += 1\nx", times=3) == 13
    assert shell.user_ns["x"] == 13
    assert run(shell, "x") == 13


def test_code_is_compiled_once(shell: Any) -> None:
    cell = compile_cell(shell, "def f(): pass\nf.__code__")
    assert cell.run() is cell.run()


def test_every_run_executes_every_statement_once(shell: Any) -> None:
    shell.user_ns["log"] = []
    run(shell, "log.append('a')\nlog.append('b')", times=2)
    assert shell.user_ns["log"] == ["a", "b", "a", "b"]


def test_del_removes_the_name(shell: Any) -> None:
    run(shell, "x = 1\ndel x", times=2)
    assert "x" not in shell.user_ns


def test_scopes_are_those_of_a_module(shell: Any) -> None:
    text = """
        import functools
        k = 2
        def bump():
            global k
            k += 1
            return [k * i for i in range(3) if i < k]
        @functools.lru_cache
        def double(n):
            return n * k
        class Box:
            size = k
            sizes = tuple(i for i in range(size))
            def double(self):
                return double(self.size)
        first = bump()
        (first, k, Box.sizes, Box().double(), [double(k) for k in (1, 2)], k)
    """
    assert run(shell, text, times=2) == ([0, 3, 6], 3, (0, 1), 6, [3, 6], 3)
    assert "i" not in shell.user_ns


def test_an_embedded_shell_keeps_its_globals_and_locals_apart(shell: Any) -> None:
    # GIVEN a shell embedded in a function: the module's names, and the function's
    shell.user_module.outer = 1
    shell.user_ns = {"inner": 2}
    # WHEN / THEN code sees both and writes the function's
    assert run(shell, "both = inner + outer\nboth") == 3
    assert shell.user_ns["both"] == 3
    assert not hasattr(shell.user_module, "both")


# --- what IPython adds to Python


def test_shell_commands(shell: Any, capfd: pytest.CaptureFixture[str]) -> None:
    shell.user_ns["word"] = "you"
    assert run(shell, "!echo it\\'s $word;\nout = !echo a; echo b\nlist(out)") == ["a", "b"]
    assert capfd.readouterr().out.replace("\r", "") == "it's you\n"


def test_line_and_cell_magics(shell: Any) -> None:
    shell.register_magic_function(lambda line: f"<{line}>", "line", "bracket")
    shell.register_magic_function(lambda line, body: (line, body), "cell", "pair")
    assert run(shell, "a = 1\n%bracket x  y") == "<x  y>"
    assert run(shell, "v = %bracket z\nv") == "<z>"
    assert run(shell, "%%pair top\n 'it''s' {a}\n%b") == ("top", " 'it''s' {a}\n%b\n")


def test_future_imports_of_the_cell(shell: Any) -> None:
    annotation = "f.__annotations__['x']"
    head = "from __future__ import annotations\n"
    assert run(shell, f"{head}def f(x: Unknown): pass\n{annotation}") == "Unknown"
    # It stays on in the shell, as after a plain cell.
    assert run(shell, f"def f(x: Other): pass\n{annotation}") == "Other"


def test_future_imports_active_in_the_shell(shell: Any) -> None:
    shell.run_cell("from __future__ import annotations")
    assert run(shell, "def f(x: Unknown): pass\nf.__annotations__['x']") == "Unknown"


def test_future_imports_after_other_statements(shell: Any) -> None:
    text = "y = 1\nfrom __future__ import annotations\ndef f(x: U): pass\nf.__annotations__['x'], y"
    assert run(shell, text) == ("U", 1)


def test_the_await_flag_does_not_stay_in_the_shell(shell: Any) -> None:
    before = shell.compile.flags
    run(shell, "import asyncio\nawait asyncio.sleep(0)")
    assert shell.compile.flags == before


def test_getsource_of_what_the_cell_defines(shell: Any) -> None:
    run(shell, "\n\nx = 1\ndef f(a):\n    return a  # here\n\ng = 2")
    assert inspect.getsource(shell.user_ns["f"]) == "def f(a):\n    return a  # here\n"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch announces the end of jit.script
def test_torch_reads_the_source_of_the_cell(shell: Any) -> None:
    torch = pytest.importorskip("torch")
    text = """
        import torch
        @torch.jit.script
        def scripted(x):
            return x * 2
        @torch.compile(backend="eager")
        def compiled(x):
            return x + 1
        compiled(scripted(torch.ones(2)))
    """
    assert torch.equal(run(shell, text, times=2), torch.tensor([3.0, 3.0]))
    # torch takes back what it has put into the namespace: to be done before that is cleared.
    torch._dynamo.reset()


# --- what the Cell tells


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        ("x", False),
        ("x;", True),
        ("x ;  \n\n", True),
        ("x;  # it's", True),
        ("x;\n# it's\n\n# so", True),
        ("x  # ;", False),
        ("';'", False),
        ("';';", True),
        ("s = '''\n;\n'''", False),
        ("x; y", False),
        ("if True:\n    x;\n", True),
        ("!echo it's", False),
        ("!echo it's;", False),
        ("%pwd;", False),
        ("%%html\n<b>it's;", False),
        ("# ;", False),
        ("", False),
    ],
)
def test_silent(shell: Any, text: str, silent: bool) -> None:
    assert compile_cell(shell, text).silent is silent


def test_names_are_those_the_code_mentions(shell: Any) -> None:
    text = "y = model(x.data)\ndef step(p):\n    return [w - q for w in weights]\n'z'; del old"
    expected = {"y", "model", "x", "w", "q", "weights", "old"}
    assert compile_cell(shell, text).names == expected


def test_transform_gets_the_tree_after_the_shells_transformers(shell: Any) -> None:
    class Negate(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            return ast.UnaryOp(ast.USub(), node)

    given = []

    def keep_and_mark(tree: ast.Module) -> ast.Module:
        given.append(ast.unparse(tree))
        mark = ast.parse("marks.append(1)").body
        return ast.Module(mark + tree.body, [])

    shell.ast_transformers.append(Negate())
    shell.user_ns["marks"] = []
    cell = compile_cell(shell, "y = 3\ny", transform=keep_and_mark)
    assert (cell.run(), cell.run()) == (-3, -3)
    assert shell.user_ns["marks"] == [1, 1]
    assert given == ["y = -3\ny"]
    assert cell.names == {"y"}


def test_transform_may_add_to_the_end(shell: Any) -> None:
    def end(tree: ast.Module) -> ast.Module:
        return ast.Module([*tree.body, *ast.parse("'end'").body], [])

    assert compile_cell(shell, "'start'", transform=end).run() == "end"


def test_transform_may_come_before_a_future_import(shell: Any) -> None:
    def mark(tree: ast.Module) -> ast.Module:
        first = ast.Assign([ast.Name("m", ast.Store())], ast.Constant(1))  # has no line yet
        return ast.Module([first, *tree.body], [])

    text = "from __future__ import annotations\nm"
    assert compile_cell(shell, text, transform=mark).run() == 1


# --- lines


@pytest.mark.parametrize(
    ("visible", "line"),
    [
        ("%%twice\nx = 1\n1 / 0\n", 3),
        ("%%twice -r 3\n\n\n# note\n1 / 0", 5),
        ("\n\n%%twice\n1 / 0", 4),
        ("   %%twice\n   x = 1\n   1 / 0", 3),
        ("%%capture\n%%twice\n1 / 0", 3),
        ("x = 1\n\n%twice 1 / 0\ny = 1", 3),
        ("x = 1 % 2\nx = %twice 1 / 0", 2),
        ("x = '1 / 0'\nx = 3 % 2  # 1 / 0\n%twice 1 / 0", 3),
        ("%twice 1 / 0", 1),
    ],
)
def test_lines_are_those_of_the_visible_cell(
    shell: Any, profiled: list[Any], visible: str, line: int
) -> None:
    result = shell.run_cell(visible, store_history=True)
    if "%%capture" not in visible:  # which shows the error and goes on
        assert isinstance(result.error_in_exec, ZeroDivisionError)
        assert frames(result.error_in_exec, profiled[0].filename) == [line]
    assert linecache.getline(profiled[0].filename, line) == "1 / 0\n"


def test_setup_on_the_magics_line_is_on_that_line(shell: Any) -> None:
    shell.register_magic_function(lambda line, body: run(shell, line), "cell", "setup")
    result = shell.run_cell("\n%%setup 0 / 0\nx = 1\n1 / 0", store_history=True)
    _, line = list(traceback.walk_tb(result.error_in_exec.__traceback__))[-1]
    assert line == 2


def test_code_that_is_in_no_cell_begins_at_line_1(shell: Any) -> None:
    shell.run_cell("x = 1\ny = 2", store_history=True)
    cell = compile_cell(shell, "z = 3\n1 / 0")
    with pytest.raises(ZeroDivisionError) as caught:
        cell.run()
    assert frames(caught.value, cell.filename) == [2]


def test_transform_sees_the_visible_lines(shell: Any) -> None:
    seen: list[int] = []

    def look(tree: ast.Module) -> ast.Module:
        seen.extend(node.lineno for node in tree.body)
        return tree

    def magic(line: str, body: str) -> None:
        compile_cell(shell, body, transform=look)

    shell.register_magic_function(magic, "cell", "look")
    assert shell.run_cell("%%look\nx = 1\n\ny = 2", store_history=True).success
    assert seen == [2, 4]


def test_code_is_named_after_the_running_cell(shell: Any, profiled: list[Any]) -> None:
    shell.run_cell("'first'", store_history=True)
    result = shell.run_cell("%%twice\nx", store_history=True)
    label = shell.compile.format_code_name(profiled[0].filename)
    assert (result.execution_count, label) == (2, ("Cell", "In[2]"))


def test_a_plain_cell_of_the_same_text_keeps_its_lines(
    shell: Any, profiled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a shell that names code by the raw text alone, as ipykernel does
    monkeypatch.setattr(
        shell.compile, "get_code_name", lambda raw, code, number: f"<{hash(raw)}>", raising=True
    )
    shell.run_cell("def f():\n    pass\n", store_history=True)
    plain = shell.user_ns["f"]
    # WHEN the same text is profiled
    shell.run_cell("%%twice\ndef f():\n    pass\n", store_history=True)
    # THEN both functions have their source
    assert inspect.getsource(plain) == "def f():\n    pass\n"
    assert inspect.getsource(shell.user_ns["f"]) == "def f():\n    pass\n"


# --- errors


@pytest.mark.parametrize("prefix", ["", "import asyncio\nawait asyncio.sleep(0)\n"])
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, StopAsyncIteration])
def test_exceptions_come_out_unchanged(shell: Any, prefix: str, kind: type[BaseException]) -> None:
    shell.user_ns["error"] = kind("mine")
    error = raised(shell, f"{prefix}raise error")
    assert error is shell.user_ns["error"]
    assert error.args == ("mine",)
    assert (error.__cause__, error.__context__, notes(error)) == (None, None, [])


@pytest.mark.parametrize("prefix", ["", "import asyncio\nawait asyncio.sleep(0)\n"])
def test_tracebacks_hold_the_users_frames_and_hidden_ones(shell: Any, prefix: str) -> None:
    cell = compile_cell(shell, f"{prefix}def f():\n    1 / 0\nf()")
    with pytest.raises(ZeroDivisionError) as caught:
        cell.run()
    first = 1 + prefix.count("\n")
    assert frames(caught.value, cell.filename) == [first + 2, first + 1]
    others = [
        frame
        for frame, _ in traceback.walk_tb(caught.value.__traceback__)
        if frame.f_code.co_filename not in (cell.filename, __file__)
    ]
    assert {frame.f_code.co_filename for frame in others} == {cell_module.__file__}
    assert all(frame.f_locals["__tracebackhide__"] is True for frame in others)


@pytest.mark.parametrize(
    ("text", "kind", "line", "code"),
    [
        ("x = 1\nx = = 2", SyntaxError, 2, "x = = 2"),
        ("\n\nx = = 2", SyntaxError, 3, "x = = 2"),
        ("x = 1\n\nreturn x", SyntaxError, 3, "return x"),
        ("def f():\n    await x", SyntaxError, 2, "    await x"),
        ("x = 1\n  y = 2", IndentationError, 2, "  y = 2"),
        ("def f():\npass", IndentationError, 2, "pass"),
        ("if x:\n    y\n  z", IndentationError, 3, "  z"),
        ("\nif x:\n    y\n  z", IndentationError, 4, "  z"),
        ("from __future__ import nonsense", SyntaxError, 1, "from __future__ import nonsense"),
    ],
)
def test_syntax_errors_point_into_the_cell(
    shell: Any, text: str, kind: type[SyntaxError], line: int, code: str
) -> None:
    with pytest.raises(SyntaxError) as caught:
        compile_cell(shell, text)
    assert type(caught.value) is kind
    assert caught.value.lineno == line
    filename = caught.value.filename or ""
    assert shell.compile.format_code_name(filename)[0] == "Cell"
    assert linecache.getline(filename, line).rstrip() == code
    # No frames but this test's and compile_cell's own.
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2


@pytest.mark.parametrize("body", ["x = 1\nx = = 2", "if x:\n    1\n  2"])
def test_syntax_errors_count_the_visible_lines(shell: Any, profiled: list[Any], body: str) -> None:
    result = shell.run_cell(f"%%twice\n\n{body}", store_history=True)
    assert isinstance(result.error_in_exec, SyntaxError)
    assert result.error_in_exec.lineno == 3 + body.count("\n")
    assert profiled == []


def test_autoawait_off_forbids_await(shell: Any) -> None:
    shell.autoawait = False
    with pytest.raises(SyntaxError, match="outside function"):
        compile_cell(shell, "await x")


# --- top-level await


def under_a_running_loop(function: Callable[[], object]) -> object:
    """Call `function` where a magic is called: synchronously, in a task of a running loop."""

    async def kernel() -> object:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            return function()
        finally:
            assert asyncio.get_running_loop() is loop
            assert asyncio.current_task() is task
            # The loop still does its work.
            assert await asyncio.create_task(asyncio.sleep(0, "alive")) == "alive"

    return asyncio.run(kernel())


@pytest.fixture(params=["no loop", "running loop"])
def caller(request: pytest.FixtureRequest) -> Caller:
    return under_a_running_loop if request.param == "running loop" else lambda function: function()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("await asyncio.sleep(0, 'v')", "v"),
        ("x = await asyncio.sleep(0, 4)\nx + 1", 5),
        ("x = await asyncio.sleep(0, 4)", None),
        ("[await asyncio.sleep(0, i) for i in (1, 2)]", [1, 2]),
        ("x = []\nasync for i in count(3):\n    x.append(i)\nx", [0, 1, 2]),
        ("[i async for i in count(2)]", [0, 1]),
        ("async with asyncio.Lock() as x:\n    y = x\ny", None),
        ("t = asyncio.create_task(asyncio.sleep(0, 'task'))\nawait t", "task"),
        ("await asyncio.gather(*(asyncio.sleep(0, i) for i in range(3)))", [0, 1, 2]),
    ],
)
def test_await(shell: Any, caller: Caller, text: str, value: object) -> None:
    run(shell, "import asyncio\nasync def count(n):\n    for i in range(n):\n        yield i")
    assert caller(lambda: run(shell, text, times=2)) == value


def test_await_stays_in_the_thread(shell: Any, caller: Caller) -> None:
    text = "import asyncio, threading\nawait asyncio.sleep(0)\nthreading.get_ident()"
    assert caller(lambda: run(shell, text)) == threading.get_ident()


def test_code_without_await_gets_no_loop(shell: Any) -> None:
    text = "import asyncio\nasync def f():\n    await g()\nasyncio._get_running_loop()"
    assert run(shell, text) is None


def test_every_run_has_a_loop_of_its_own(shell: Any, caller: Caller) -> None:
    cell = compile_cell(shell, "import asyncio\nawait asyncio.sleep(0)\nasyncio.get_running_loop()")
    loops = caller(lambda: [cell.run(), cell.run()])
    assert isinstance(loops, list)
    assert loops[0] is not loops[1]
    assert [loop.is_closed() for loop in loops] == [True, True]


@pytest.mark.parametrize("error", ["ValueError(1)", "KeyboardInterrupt()", "SystemExit(3)"])
def test_the_loop_outside_outlives_errors(shell: Any, caller: Caller, error: str) -> None:
    kind = type(eval(error))
    with pytest.raises(kind):
        caller(lambda: run(shell, f"import asyncio\nawait asyncio.sleep(0)\nraise {error}"))


def test_an_interrupt_while_the_loop_waits_shows_the_users_await(
    shell: Any, caller: Caller
) -> None:
    cell = compile_cell(shell, f"import asyncio\n\nawait asyncio.sleep({LONG})")
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        caller(cell.run)
    timer.join()
    assert frames(caught.value, cell.filename) == [3]


def test_an_interrupt_before_the_first_step(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(asyncio.SelectorEventLoop):
        calls = 0

        def _run_once(self) -> None:
            self.calls += 1
            if self.calls == 1:
                raise KeyboardInterrupt
            super()._run_once()  # type: ignore[misc]

    shell.user_ns["log"] = []
    monkeypatch.setattr(asyncio, "new_event_loop", Interrupted)
    cell = compile_cell(shell, "import asyncio\nlog.append(1)\nawait asyncio.sleep(0)")
    with pytest.raises(KeyboardInterrupt):
        cell.run()
    assert shell.user_ns["log"] == []


def test_an_exit_in_another_task_ends_the_run(shell: Any, caller: Caller) -> None:
    text = f"""
        import asyncio, sys
        async def leave():
            sys.exit(3)
        task = asyncio.create_task(leave())
        await asyncio.sleep({LONG})
    """
    cell = compile_cell(shell, text)
    with pytest.raises(SystemExit) as caught:
        caller(cell.run)
    assert caught.value.code == 3
    assert frames(caught.value, cell.filename) == [4]
    assert isinstance(shell.user_ns["task"].exception(), SystemExit)


def test_an_error_is_raised_by_the_await_of_a_cancelled_task(shell: Any) -> None:
    text = "import asyncio\nt = asyncio.create_task(asyncio.sleep(9))\nt.cancel()\nawait t"
    assert type(raised(shell, text)) is asyncio.CancelledError


def test_what_the_cell_leaves_behind_is_ended(shell: Any, caller: Caller) -> None:
    text = f"""
        import asyncio
        log = []
        async def background():
            try:
                await asyncio.sleep({LONG})
            finally:
                await asyncio.sleep(0.01)
                log.append("cancelled")
        async def numbers():
            try:
                yield 1
            finally:
                log.append("closed")
        task = asyncio.create_task(background())
        generator = numbers()
        await generator.__anext__()
    """
    assert caller(lambda: run(shell, text)) == 1
    assert shell.user_ns["log"] == ["cancelled", "closed"]
    assert shell.user_ns["task"].cancelled()


@pytest.mark.filterwarnings("ignore:.*event_loop_policy.*:DeprecationWarning")
def test_the_event_loop_that_is_set_stays_set(shell: Any) -> None:
    mine = asyncio.new_event_loop()
    asyncio.set_event_loop(mine)
    try:
        run(shell, "import asyncio\nawait asyncio.sleep(0)")
        raised(shell, "await asyncio.sleep(0)\n1 / 0")
        assert asyncio.get_event_loop_policy().get_event_loop() is mine
        assert mine.run_until_complete(asyncio.sleep(0, "alive")) == "alive"
    finally:
        asyncio.set_event_loop(None)
        mine.close()


def test_the_interrupt_handler_is_given_back(shell: Any) -> None:
    def mine(number: int, frame: object) -> None:
        pass

    before = signal.signal(signal.SIGINT, mine)
    try:
        run(shell, "import asyncio\nawait asyncio.sleep(0)")
        assert signal.getsignal(signal.SIGINT) is mine
        # An interrupt that is ignored stays ignored.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        text = "import signal\nawait asyncio.sleep(0)\nsignal.getsignal(signal.SIGINT)"
        assert run(shell, text) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(sys.platform == "win32", reason="no add_signal_handler")
def test_the_wakeup_descriptor_of_signals_is_given_back(shell: Any) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    try:
        run(
            shell,
            "import asyncio, signal\n"
            "asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)\n"
            "await asyncio.sleep(0)",
        )
        assert signal.set_wakeup_fd(before) == write
    finally:
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)


def test_await_in_a_thread_that_is_not_the_main_one(shell: Any) -> None:
    values: list[object] = []
    text = "import asyncio\nawait asyncio.sleep(0, 'thread')"
    thread = threading.Thread(target=lambda: values.append(run(shell, text)))
    thread.start()
    thread.join()
    assert values == ["thread"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take no notes")
@pytest.mark.parametrize(
    "text",
    [
        "await asyncio.get_running_loop().create_task(asyncio.sleep(0))\nawait future",
        "await asyncio.wait_for(event.wait(), 1)",
        "await asyncio.gather(future, asyncio.sleep(0))",
    ],
)
def test_objects_of_another_loop_get_a_note(shell: Any, text: str) -> None:
    async def kernel() -> BaseException:
        event = asyncio.Event()
        waiter = asyncio.create_task(event.wait())
        await asyncio.sleep(0)  # an event belongs to the loop where it is first waited for
        future = asyncio.get_running_loop().create_future()
        shell.user_ns.update(asyncio=asyncio, event=event, future=future)
        error = raised(shell, text)
        event.set()
        assert await waiter is True
        return error

    error = asyncio.run(kernel())
    assert isinstance(error, (RuntimeError, ValueError))
    (note,) = notes(error)
    assert "event loop of its own" in note
    assert "inside the profiled cell" in note


def test_other_runtime_errors_get_no_note(shell: Any) -> None:
    assert notes(raised(shell, "await asyncio.sleep(0)\nraise RuntimeError('a loop')")) == []


# --- what stays in memory


@pytest.mark.parametrize("prefix", ["", "import asyncio\nawait asyncio.sleep(0)\n"])
def test_nothing_of_the_users_is_kept_alive(shell: Any, prefix: str) -> None:
    run(shell, "class Big: pass")
    cell = compile_cell(shell, f"{prefix}Big()")
    gc.disable()
    try:
        cell.run()
        value = weakref.ref(cell.run())
        assert value() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("prefix", ["", "import asyncio\nawait asyncio.sleep(0)\n"])
def test_an_error_dies_with_its_last_holder(shell: Any, prefix: str) -> None:
    class Mine(Exception):
        pass

    shell.user_ns["Mine"] = Mine
    cell = compile_cell(shell, f"{prefix}raise Mine")

    def fail() -> weakref.ref[Mine]:
        try:
            cell.run()
        except Mine as error:
            return weakref.ref(error)
        raise AssertionError("nothing raised")

    gc.disable()
    try:
        assert fail()() is None
    finally:
        gc.enable()


def test_a_cell_is_frozen(shell: Any) -> None:
    cell = compile_cell(shell, "x")
    assert isinstance(cell, Cell)
    with pytest.raises(AttributeError):
        cell.silent = True  # type: ignore[misc]


# --- in a real kernel

MAGICS = f"""
import sys
sys.path.insert(0, {str(SOURCES)!r})
from tprofile.cell import compile_cell

def twice(line, body=None):
    __tracebackhide__ = True
    cell = compile_cell(get_ipython(), line if body is None else body)
    cell.run()
    return cell.run()

get_ipython().register_magic_function(twice, "line_cell")
"""


def execute(*cells: str, allow_errors: bool = True) -> list[Any]:
    """Run a notebook in a fresh kernel; give its code cells, less the one with the magics."""
    v4: Any = nbformat.v4
    book = v4.new_notebook(cells=[v4.new_code_cell(c) for c in (MAGICS, *cells)])
    client = NotebookClient(book, timeout=LONG, kernel_name="python3", allow_errors=allow_errors)
    try:
        client.execute()
    except Exception:
        if allow_errors:
            raise
    return list(book.cells[1:])


def plain(cell: Any) -> str:
    """Give a code cell's result, or its traceback, as a person reads it."""
    (output,) = cell.outputs
    if output.output_type == "error":
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output.traceback))
    return str(output.data["text/plain"])


@pytest.mark.filterwarnings("default")
def test_await_in_a_kernel() -> None:
    ident = "import asyncio, threading\nthreading.get_ident()"
    event = "event = asyncio.Event()\nwaiter = asyncio.create_task(event.wait())\nNone"
    cells = execute(
        ident,
        "%%twice\nn = await asyncio.sleep(0.01, 7)\nn, threading.get_ident()",
        event,
        "%%twice\nawait event.wait()",
        "event.set()\nawait waiter",
        "await asyncio.sleep(0)\nv = %twice await asyncio.sleep(0, 'line')\nv",
    )
    assert plain(cells[1]) == f"(7, {plain(cells[0])})"
    error = plain(cells[3])
    assert "RuntimeError" in error
    assert "is bound to a different event loop" in error
    if sys.version_info >= (3, 11):
        assert "Create that object (queue, lock, client session, ...) inside" in error
    assert plain(cells[4]) == "True"
    assert plain(cells[5]) == "'line'"


@pytest.mark.filterwarnings("default")
def test_tracebacks_in_a_kernel() -> None:
    interrupt = "import os, signal, threading, asyncio\nto = os.getpid(), signal.SIGINT\n"
    cells = execute(
        "%%twice -r 3\ndef inner(x):\n    return x / 0\n\ninner(1)",
        "%%twice\nimport asyncio\nasync def inner(x):\n    return x / 0\nawait inner(1)",
        "%%twice\nx = 1\nx = = 2",
        f"%%twice\n{interrupt}threading.Timer(0.2, os.kill, to).start()\n"
        f"await asyncio.sleep({LONG})",
        f"{interrupt}await asyncio.sleep(0)\nthreading.Timer(0.2, os.kill, to).start()\n"
        f"%twice await asyncio.sleep({LONG})",
        "%%twice\n'alive'",
    )
    for number, cell in enumerate(cells[:2], start=2):
        shown = plain(cell)
        assert f"Cell In[{number}], line 5" in shown
        assert re.search(rf"^Cell In\[{number}\], line [34], in inner\(x\)$", shown, re.MULTILINE)
        assert re.search(r"^----> [34]     return x / 0", shown, re.MULTILINE)
        assert shown.endswith("ZeroDivisionError: division by zero")
        assert "cell.py" not in shown
        assert "base_events" not in shown
    assert re.search(r"Cell In\[4\], line 3\n +x = = 2\n +\^\nSyntaxError: ", plain(cells[2]))
    shown = plain(cells[3])
    assert f"----> 5 await asyncio.sleep({LONG})" in shown
    assert shown.rstrip().endswith("KeyboardInterrupt:")
    assert "cell.py" not in shown
    assert "KeyboardInterrupt" in plain(cells[4])
    assert plain(cells[5]) == "'alive'"


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("failing", ["1 / 0", "raise KeyboardInterrupt", "x = = 2", "  x\n y"])
def test_run_all_stops(failing: str) -> None:
    cells = execute(f"%%twice\n{failing}", "'not reached'", allow_errors=False)
    assert cells[0].outputs[0].output_type == "error"
    assert cells[1].outputs == []
