from __future__ import annotations

import atexit
import gc
import gzip
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from notebook import Kernel, error, errors, kernel, kinds, result, results, streams, values
from traitlets.config import Config

import tprofile

HEAVY = ("torch", "pandas", "numpy", "msgspec", "anywidget")
SEVEN = "7 runs: 3 warm-up, 1 profiler warm-up, 3 profiled"


@pytest.fixture(scope="module")
def running() -> Iterator[Kernel]:
    with kernel() as client:
        loaded = client.run(f"import sys\n[m for m in {HEAVY!r} if m in sys.modules]")
        client.run("import asyncio, os, time, warnings, torch, tprofile\nx = torch.ones(4, 4)")
        client.nb.metadata["loaded"] = values(loaded)
        yield client


@pytest.fixture
def k(running: Kernel) -> Iterator[Kernel]:
    """A kernel with `n = 0`, whose working directory is put back at the end."""
    running.run("n = 0\ncwd = os.getcwd()")
    yield running
    running.run("os.chdir(cwd)")


def value(k: Kernel, text: str) -> str:
    (shown,) = values(k.run(text))
    return shown


def ran(cell: Any) -> str:
    """Return the line on what was run, below the answer."""
    return next(line for line in result(cell).split("\n") if line[:1].isdigit())


# --- the cell behaves as it would without the magic


def test_loading_imports_nothing_heavy(running: Kernel) -> None:
    assert running.nb.metadata["loaded"] == ["[]"]


def test_variables_persist_and_runs_are_as_many_as_announced(k: Kernel) -> None:
    cell = k.run("%%tprofile\nn += 1\ny = x @ x")
    assert ran(cell) == SEVEN
    assert value(k, "n, y.sum().item()") == "(7, 64.0)"
    cell = k.run("%%tprofile -w 1 -r 2\nn += 1")
    assert ran(cell) == "4 runs: 1 warm-up, 1 profiler warm-up, 2 profiled"
    assert value(k, "n") == "11"
    cell = k.run("%%tprofile --once\nn += 1")
    assert ran(cell) == "1 run, profiled, no warm-up"
    assert value(k, "n") == "12"
    cell = k.run("%%tprofile --max-seconds 0.01\nn += 1\ntime.sleep(0.1)")
    assert ran(cell).startswith("2 runs: 1 warm-up, 1 profiled; 5 of 7 left out: more than")
    assert value(k, "n") == "14"


def test_the_last_expression_is_displayed_once(k: Kernel) -> None:
    cell = k.run("%%tprofile\nn += 1\nn")
    assert kinds(cell) == ["result", "execute_result"]
    assert values(cell) == ["7"]
    assert value(k, "_") == "7"


@pytest.mark.parametrize("text", ["n;", "n;  # no value", "n = 1", "None", "if True:\n    n"])
def test_no_value_no_display(k: Kernel, text: str) -> None:
    assert kinds(k.run(f"%%tprofile\n{text}")) == ["result"]


def test_the_line_magic(k: Kernel) -> None:
    cell = k.run("%tprofile n += 1")
    assert ran(cell) == SEVEN
    assert value(k, "n") == "7"
    assert values(k.run("%tprofile -w 0 -r 1 s = 'a  b'; s")) == ["'a  b'"]
    assert kinds(k.run("%tprofile n;")) == ["result"]
    assert value(k, "p = %tprofile -o -w 0 -r 2 x @ x\nlen(p.runs)") == "2"


def test_shell_commands_and_magics_inside(k: Kernel) -> None:
    cell = k.run("%%tprofile -w 0 -r 1\n!echo it's")
    assert errors(cell) == []
    cell = k.run("%%tprofile -w 0 -r 2\nfiles = !echo hello\n!echo shell\n%env TPROFILE_X=1\nfiles")
    assert streams(cell).replace("\r", "") == "shell\nenv: TPROFILE_X=1\n"
    assert values(cell) == ["['hello']"]
    cell = k.run("%%tprofile -w 0 -r 1\n%%capture held\nprint('captured')")
    assert kinds(cell) == ["result"]
    assert value(k, "held.stdout") == r"'captured\n'"


def test_nothing_is_expanded(k: Kernel) -> None:
    assert values(k.run("%%tprofile -q\n'$n {n} {}'")) == ["'$n {n} {}'"]
    assert values(k.run("%tprofile -q '$n {n} {}'")) == ["'$n {n} {}'"]
    k.run("%%tprofile -q s = '$n {n} {}'\npass")
    assert value(k, "s") == "'$n {n} {}'"


def test_top_level_await(k: Kernel) -> None:
    cell = k.run("%%tprofile -w 1 -r 1\nn += await asyncio.sleep(0.01, 1)\ny = x @ x\nn")
    assert values(cell) == ["3"]
    assert "aten::mm" in result(cell)
    assert value(k, "await asyncio.sleep(0, 5)") == "5"


@pytest.mark.parametrize(
    "decorator",
    [
        "@torch.jit.script",
        "@torch.compile(backend='eager')",
        "@torch.compile(backend='aot_eager')",
        pytest.param("@torch.compile", marks=pytest.mark.long),
    ],
)
def test_functions_whose_source_is_read(k: Kernel, decorator: str) -> None:
    text = f"{decorator}\ndef f(x: torch.Tensor) -> torch.Tensor:\n    return x * 2 + 1\nf(x)[0, 0]"
    cell = k.run(f"%%tprofile -w 1 -r 1\n{text}")
    assert errors(cell) == []
    assert values(cell) == ["tensor(3.)"]


@pytest.mark.parametrize("text", ["# a comment", "\n\n", "pass", "''"])
def test_cells_that_do_nothing(k: Kernel, text: str) -> None:
    cell = k.run(f"%%tprofile -w 0 -r 1\n{text}\n")
    assert errors(cell) == []
    assert ran(cell) == "1 run, profiled, no warm-up"


def test_a_cell_without_a_body_is_a_usage_error(k: Kernel) -> None:
    # IPython's own word: a cell magic needs a body.
    assert "UsageError" in streams(k.run("%%tprofile"), "stderr")
    assert "there is no statement to profile" in streams(k.run("%tprofile -w 1"), "stderr")


def test_chdir_in_mid_session(k: Kernel, tmp_path: Path) -> None:
    k.run(f"%%tprofile -w 0 -r 1 -D t.json\nos.chdir({str(tmp_path)!r})\nx @ x")
    assert value(k, "os.getcwd()") == repr(str(tmp_path))
    assert "aten::mm" in (tmp_path / "t.json").read_text()
    assert ran(k.run("%%tprofile\nx @ x")) == SEVEN


# --- what is displayed


def test_only_the_last_run_puts_out(k: Kernel) -> None:
    cell = k.run(
        "%%tprofile\nn += 1\nprint('out', n)\nprint('err', n, file=sys.stderr)\n"
        "from IPython.display import Markdown, display\ndisplay(Markdown(f'run {n}'))\n!echo sub"
    )
    assert kinds(cell) == ["stdout", "stderr", "display_data", "stdout", "result"]
    assert streams(cell).replace("\r", "") == "out 7\nsub\n"
    assert streams(cell, "stderr") == "err 7\n"
    assert cell.outputs[2].data["text/markdown"] == "run 7"


def test_output_of_the_newest_run_is_shown_where_none_was_known_to_be_the_last(k: Kernel) -> None:
    cell = k.run("%%tprofile -w 0 --max-seconds 0.01\nn += 1\nprint('run', n)\ntime.sleep(0.1)")
    assert kinds(cell) == ["stdout", "result"]
    assert streams(cell) == "run 1\n"


def test_what_a_failing_run_printed_is_shown(k: Kernel) -> None:
    cell = k.run("%%tprofile\nn += 1\nprint('run', n)\nassert n < 2\nprint('not reached')")
    assert kinds(cell) == ["stdout", "result", "error"]
    assert streams(cell) == "run 2\n"


def test_warnings_of_runs_that_are_held_back_are_shown_once(k: Kernel) -> None:
    cell = k.run("%%tprofile\nwarnings.warn('mine')\nn += 1\nif n == 2: warnings.warn('second')")
    assert streams(cell, "stderr").count("UserWarning: mine") == 1
    assert streams(cell, "stderr").count("UserWarning: second") == 1
    assert kinds(cell) == ["stderr", "result"]
    # Filters that the cell, or what it imports, sets stay set.
    k.run("%%tprofile -q\nif not n: warnings.filterwarnings('ignore', 'unwanted')\nn += 1")
    assert kinds(k.run("warnings.warn('unwanted')")) == ["stderr"]
    k.run("n = 0")
    k.run("%%tprofile -q\nif not n: warnings.filterwarnings('ignore', 'unwanted')\nn += 1")
    assert kinds(k.run("warnings.warn('unwanted')")) == []
    assert value(k, "warnings.showwarning.__module__") == "'warnings'"


def test_setup_is_run_once_and_its_output_shown(k: Kernel) -> None:
    cell = k.run("%%tprofile -w 1 -r 1 n = 40; print('set  up')\nn += 1\nprint(n)\nn")
    assert streams(cell) == "set  up\n43\n"
    assert values(cell) == ["43"]
    names = value(k, "list(_tprofile.operators['name'])")
    k.run("%%tprofile -q y = x.sin()\nx @ x")
    assert "aten::sin" not in names + value(k, "list(_tprofile.operators['name'])")


def test_each_runs_ahead_of_every_run(k: Kernel) -> None:
    cell = k.run("%%tprofile --each 'n = 5; print(n); x.sin()'\nn += 1\nprint('run')\nn")
    assert values(cell) == ["6"]
    assert streams(cell) == "5\nrun\n"
    assert "aten::sin" not in result(cell)


def test_a_view_that_fails_loses_nothing(k: Kernel) -> None:
    k.run("import tprofile.views.show as s; s.kept, s.payload = s.payload, None")
    cell = k.run("%%tprofile -v mine\nx @ x")
    assert "TypeError" in error(cell)
    assert value(k, "mine is _tprofile and len(mine.runs)") == "3"
    k.run("s.payload = s.kept")
    assert ran(k.run("%%tprofile\nx @ x")) == SEVEN


def test_the_result_is_text_and_html(k: Kernel) -> None:
    (bundle,) = results(k.run("%%tprofile\nx @ x;"))
    assert sorted(bundle) == ["text/html", "text/plain"]
    answer, what_ran = bundle["text/plain"].split("\n")[:2]
    assert answer.startswith("CPU only: ")
    assert what_ran == SEVEN
    assert "aten::mm" in bundle["text/plain"]
    assert "aten::mm" in bundle["text/html"]
    assert f">{SEVEN}<" in bundle["text/html"]


def test_a_reopened_notebook_shows_the_result(k: Kernel, tmp_path: Path) -> None:
    shown = k.run("%%tprofile\nx @ x")
    nbformat.write(k.nb, tmp_path / "saved.ipynb")
    again = nbformat.read(tmp_path / "saved.ipynb", as_version=4)
    nbformat.validate(again)
    assert again.cells[-1].outputs == shown.outputs
    assert result(again.cells[-1]) == result(shown)


def test_two_results_in_one_kernel(k: Kernel) -> None:
    k.run("%%tprofile -v first\nx @ x")
    k.run("%%tprofile -w 0 -r 1\nx.sin()")
    assert value(k, "len(first.runs), len(_tprofile.runs)") == "(3, 1)"
    assert value(k, "_tprofile is tprofile.last(), first is _tprofile") == "(True, False)"
    assert value(k, "'aten::sin' in set(first.operators['name'])") == "False"
    assert value(k, "list(_tprofile.operators['name'])") == "['aten::sin']"


def test_what_changes_in_place_is_noted(k: Kernel) -> None:
    k.run("w = torch.ones(3)\nmodel = torch.nn.Linear(3, 1)\nother = torch.ones(3)")
    training = (
        "model(w + other).sum().backward()\nw += 1\n"
        "torch.optim.SGD(model.parameters(), lr=0.1).step()"
    )
    said = " ".join(result(k.run(f"%%tprofile\n{training}")).split())
    assert "in place: model (module, 14 changes), w (tensor, 7 changes)." in said
    assert "--once" in said
    assert "--each" in said
    for options in ("--once", "-w 0 -r 1", "--each 'w = torch.ones(3)'"):
        assert "in place" not in result(k.run(f"%%tprofile {options}\n{training}"))
    assert "in place" not in result(k.run("%%tprofile\nw + 1"))


# --- options


def test_sort_and_limit(k: Kernel) -> None:
    shown = result(k.run("%%tprofile -s name -l 2\ny = x @ x + x.sin()"))
    table = shown[shown.index("Operators") :].splitlines()
    assert table[0].startswith("Operators")
    assert [row.split()[0] for row in table[2:4]] == ["aten::add", "aten::matmul"]
    assert table[4] == "… and 3 more"


def test_quiet(k: Kernel) -> None:
    cell = k.run("%%tprofile -q\nprint('mine')\nx[0, 0]")
    assert kinds(cell) == ["stdout", "execute_result"]
    assert values(cell) == ["tensor(1.)"]
    assert value(k, "len(_tprofile.runs)") == "3"
    failed = k.run("%%tprofile -q\n1/0")
    assert kinds(failed) == ["error"]


def test_give(k: Kernel) -> None:
    cell = k.run("%%tprofile -o\nx @ x")
    assert kinds(cell) == ["result"]
    assert ran(cell) == SEVEN
    assert value(k, "_ is _tprofile") == "True"
    assert kinds(k.run("%%tprofile -o --once\n1/0")) == ["result", "error"]


def test_files(k: Kernel, tmp_path: Path) -> None:
    k.run(f"os.chdir({str(tmp_path)!r})")
    cell = k.run("%%tprofile -D 'a trace.json.gz' -T out.txt -l 1\nx @ x")
    written = json.loads(gzip.decompress((tmp_path / "a trace.json.gz").read_bytes()))
    names = {event["name"] for event in written["traceEvents"]}
    assert "aten::mm" in names
    text = (tmp_path / "out.txt").read_text(encoding="utf-8")
    assert "… and 2 more" in result(cell)
    assert "more" not in text
    assert "aten::resolve_conj" in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a trace.json.gz", "out.txt"]
    assert (
        value(
            k, "tprofile.load('a trace.json.gz').text(None, None) + '\\n' == open('out.txt').read()"
        )
        == "True"
    )


def test_a_file_that_cannot_be_written(k: Kernel) -> None:
    # GIVEN a folder that is missing from the beginning, which is told before anything runs
    cell = k.run("%%tprofile -D no/such/folder/t.json\nn += 1")
    assert kinds(cell) == ["error"]
    assert error(cell).startswith(
        "TprofileError: cannot write 'no/such/folder/t.json': there is no folder 'no/such/folder'"
    )
    assert "\n" not in error(cell)
    # AND one that goes away meanwhile: the result is there, and the error of the cell stays its own
    k.run("import tempfile, shutil\nfolder = tempfile.mkdtemp()")
    path = values(k.run("folder"))[0].strip("'")
    cell = k.run(f"%%tprofile --once -D {path}/t.json\nshutil.rmtree(folder)\n1/0")
    assert kinds(cell) == ["result", "error", "error"]
    assert [message.splitlines()[-1].split(":")[0] for message in errors(cell)] == [
        "TprofileError",
        "ZeroDivisionError",
    ]


def test_help_lists_the_options(k: Kernel) -> None:
    k.run("%tprofile?")
    pages = [page["data"]["text/plain"] for page in k.reply["content"]["payload"]]
    assert "%%tprofile [options] [setup statement]" in pages[0]
    assert "--max-seconds S" in pages[0]
    assert "-r N, --repeat N" in pages[0]


def test_unload_and_reload(k: Kernel) -> None:
    assert k.run("%unload_ext tprofile").outputs == []
    assert "not found" in streams(k.run("%tprofile -q n"), "stderr")
    assert "not found" in streams(k.run("%%tprofile -q\nn"), "stderr")
    assert k.run("%load_ext tprofile").outputs == []
    assert values(k.run("%tprofile -q n")) == ["0"]
    assert k.run("%reload_ext tprofile").outputs == []
    assert values(k.run("%%tprofile -q\nn")) == ["0"]


# --- errors and interrupts


def test_an_error_stops_run_all_and_shows_what_was_measured(k: Kernel) -> None:
    body = "def inner():\n    return 1 / 0\n\nn += 1\ny = x @ x\nif n == 6:\n    inner()"
    failed, after = k.run_all(f"%%tprofile\n{body}", "n = 'not reached'")
    assert kinds(failed) == ["result", "error"]
    assert ran(failed).startswith("5 runs: 3 warm-up, 1 profiler warm-up, 1 profiled; stopped")
    assert "stopped by ZeroDivisionError in profiled run 2 of 3" in " ".join(result(failed).split())
    assert "aten::mm" in result(failed)
    shown = error(failed)
    assert "----> 8     inner()" in shown
    assert "----> 3     return 1 / 0" in shown
    assert shown.endswith("ZeroDivisionError: division by zero")
    assert "tprofile/" not in shown
    assert "run_cell_magic" not in shown
    assert (after.outputs, after.execution_count) == ([], None)
    assert value(k, "n, _tprofile is tprofile.last()") == "(6, True)"


@pytest.mark.parametrize(
    ("at", "during"), [(1, "warm-up 1 of 3"), (4, "profiler warm-up"), (6, "profiled run 2 of 3")]
)
def test_an_interrupt_does_the_same(k: Kernel, tmp_path: Path, at: int, during: str) -> None:
    flag = tmp_path / "flag"
    cell = k.run_interrupted(
        f"%%tprofile\nn += 1\nif n == {at}:\n    open({str(flag)!r}, 'w').close()\n"
        "    time.sleep(60)",
        flag,
    )
    assert kinds(cell) == ["result", "error"]
    said = " ".join(result(cell).split())
    assert f"stopped by KeyboardInterrupt in {during}" in said
    assert "----> 5     time.sleep(60)" in error(cell)
    assert error(cell).rstrip().endswith("KeyboardInterrupt:")
    assert "tprofile/" not in error(cell)
    assert value(k, "n") == str(at)
    assert ran(k.run("%%tprofile\nx @ x")) == SEVEN


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%%tprofile\nraise KeyboardInterrupt", "KeyboardInterrupt"),
        # An interrupt is no error of the cell.
        ("%%tprofile --no-raise-error\nraise KeyboardInterrupt", "KeyboardInterrupt"),
        ("%%tprofile\nraise SystemExit", "SystemExit"),
        ("%%tprofile 1/0\npass", "ZeroDivisionError"),
        ("%%tprofile --each 1/0\npass", "ZeroDivisionError"),
        ("%tprofile 1/0", "ZeroDivisionError"),
        ("%%tprofile\nx = = 2", "SyntaxError"),
        ("%%tprofile x = = 2\npass", "SyntaxError"),
        ("%%tprofile --each 'x = = 2'\npass", "SyntaxError"),
        ("%%tprofile\ntprofile.load('no.json')", "TprofileError: cannot read"),
    ],
)
def test_run_all_stops(k: Kernel, text: str, shown: str) -> None:
    failed, after = k.run_all(text, "n = 'not reached'")
    assert shown in error(failed)
    assert after.outputs == []
    assert value(k, "n") == "0"


def test_no_raise_error(k: Kernel) -> None:
    failed, after = k.run_all("%%tprofile --no-raise-error\n1 / 0", "'reached'")
    assert kinds(failed) == ["result", "error"]
    assert "----> 2 1 / 0" in error(failed)
    assert values(after) == ["'reached'"]


def test_a_syntax_error_points_at_the_cell(k: Kernel) -> None:
    failed = k.run("%%tprofile\nn += 1\nx = = 2")
    lines = error(failed).rstrip().splitlines()
    assert lines[-4].endswith(f"Cell In[{failed.execution_count}], line 3")
    assert lines[-3].strip() == "x = = 2"
    assert lines[-2].strip() == "^"
    assert lines[-1] == "SyntaxError: invalid syntax"
    # AND nothing else is shown: no frame of ours, none of IPython's
    assert "run_cell_magic" not in error(failed)
    assert "tprofile/" not in error(failed)
    assert value(k, "n") == "0"


def test_chained_errors_and_those_with_a_face_of_their_own(k: Kernel) -> None:
    text = "try:\n    1 / 0\nexcept Exception as e:\n    raise KeyError from e"
    shown = error(k.run(f"%%tprofile\n{text}"))
    assert "ZeroDivisionError: division by zero" in shown
    assert "----> 5     raise KeyError from e" in shown
    assert "tprofile/" not in shown
    k.run("class Own(Exception):\n    def _render_traceback_(self):\n        return ['my own']")
    assert error(k.run("%%tprofile\nraise Own")) == "my own"
    k.run("class Slots(BaseException):\n    __slots__ = ()\n    __dict__ = None")
    assert "Slots" in error(k.run("%%tprofile\nraise Slots"))


@pytest.mark.parametrize(
    "options", ["--nonsense", "-w x", "-r 0", "-s wall", "-v 1x", "--cpu --cuda", "--max-seconds 0"]
)
def test_wrong_options_stop_run_all(k: Kernel, options: str) -> None:
    failed, after = k.run_all(f"%%tprofile {options}\nn += 1", "n = 'not reached'")
    said = streams(failed, "stderr")
    assert said.startswith("UsageError: %tprofile: ")
    assert said.count("\n") == 1
    assert after.outputs == []
    assert value(k, "n") == "0"


def test_an_error_of_ours_is_one_line(k: Kernel) -> None:
    k.run("from torch.profiler import profile")
    cell = k.run("with profile():\n    %tprofile n += 1")
    assert error(cell).startswith("TprofileError: torch's profiler is running already")
    assert "\n" not in error(cell)
    cell = k.run("%%tprofile\nwith profile():\n    n += 1")
    assert error(cell).startswith("TprofileError: a torch profiler was started in code that")
    assert "stopped by TprofileError in profiler warm-up" in result(cell)
    assert ran(k.run("%%tprofile\nx @ x")) == SEVEN


# --- progress


@pytest.fixture
def impatient(k: Kernel) -> Iterator[Kernel]:
    k.run("import tprofile.progress, tprofile.session\ntprofile.progress.PATIENCE_S = 0")
    yield k
    k.run("tprofile.progress.PATIENCE_S = 1")


def progress_shown(k: Kernel) -> list[str]:
    return [
        text
        for message in k.messages
        if (text := message["content"].get("data", {}).get("text/plain", "")).endswith(" …")
    ]


def test_progress_appears_and_leaves_no_trace(impatient: Kernel) -> None:
    k = impatient
    cell = k.run(
        "%%tprofile -w 1 -r 1 print('set up')\nn += 1\ntime.sleep(0.5)\nprint('run', n)\nn"
    )
    shown = progress_shown(k)
    assert "tprofile: warm-up 1 of 1 …" in shown
    assert "tprofile: profiler warm-up …" in shown
    assert not any("profiled run" in text for text in shown)
    assert kinds(cell) == ["stdout", "stdout", "result", "execute_result"]
    assert streams(cell) == "set up\nrun 3\n"
    assert "…" not in str(cell.outputs)


def test_progress_leaves_no_trace_of_a_failing_cell(impatient: Kernel) -> None:
    k = impatient
    cell = k.run("%%tprofile\nprint('mine')\ntime.sleep(0.5)\n1/0")
    assert progress_shown(k) == ["tprofile: warm-up 1 of 3 …"]
    assert kinds(cell) == ["stdout", "result", "error"]
    assert streams(cell) == "mine\n"


@pytest.mark.parametrize(
    ("options", "outputs", "reads"),
    [
        ("", ["stdout", "result", "execute_result"], 1),
        ("-q", ["stdout", "execute_result"], 0),
        ("-o", ["stdout", "result"], 0),
    ],
)
def test_slow_reading_does_not_wipe_what_the_cell_put_out(
    impatient: Kernel, options: str, outputs: list[str], reads: int
) -> None:
    k = impatient
    k.run(
        "real = tprofile.session.read_results\n"
        "tprofile.session.read_results = lambda *a, **k: (time.sleep(0.5), real(*a, **k))[1]"
    )
    cell = k.run(f"%%tprofile {options} -w 1 -r 1\nprint('mine')\n5")
    k.run("tprofile.session.read_results = real")
    assert progress_shown(k) == [] or all("reading" in t for t in progress_shown(k))
    assert kinds(cell) == outputs
    assert streams(cell) == "mine\n"
    assert "…" not in str(cell.outputs)


def test_what_is_quick_shows_no_progress(k: Kernel) -> None:
    k.run("%%tprofile\nx @ x")
    assert progress_shown(k) == []
    assert "clear_output" not in [message["msg_type"] for message in k.messages]


# --- in a shell without a kernel


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    shell.run_line_magic("load_ext", "tprofile")
    yield shell
    shell.restore_sys_module_state()
    shell.atexit_operations()
    atexit.unregister(shell.atexit_operations)


def test_a_shell_prints_the_tables(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("import torch\nx = torch.ones(4, 4)\nn = 0")
    done = shell.run_cell("%%tprofile\nn += 1\nprint('run', n)\ny = x @ x\nn")
    out, err = capsys.readouterr()
    assert done.result == 7
    assert out.startswith("run 7\nCPU only: ")
    assert out.split("\n")[2] == SEVEN
    assert "aten::mm" in out
    assert err == ""
    assert shell.user_ns["_tprofile"] is tprofile.last()


def test_the_shell_gets_the_users_error(shell: InteractiveShell) -> None:
    done = shell.run_cell("%%tprofile\nraise KeyError('mine')")
    assert isinstance(done.error_in_exec, KeyError)
    done = shell.run_cell("%%tprofile -r 0\npass")
    assert isinstance(done.error_in_exec, UsageError)


def test_commands_are_run_as_before_afterwards(shell: InteractiveShell) -> None:
    system = shell.system
    shell.run_cell("%%tprofile -q\npass")
    assert shell.system == system


def test_no_tensor_is_kept_alive(shell: InteractiveShell) -> None:
    shell.run_cell("import torch\nx = torch.ones(4, 4)\ny = torch.ones(4, 4)")
    dead = [weakref.ref(shell.user_ns[name]) for name in "xy"]
    shell.run_cell("%%tprofile -q\nz = x @ y\nz.clone();")
    dead.append(weakref.ref(shell.user_ns["z"]))
    shell.run_cell("del x, y, z")
    gc.collect()
    assert [ref() for ref in dead] == [None, None, None]
    assert len(tprofile.last().runs) == 3  # type: ignore[union-attr]


LOAD = f"""
import asyncio, sys, time  # a kernel and a terminal have asyncio already
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
began = time.process_time()  # which a busy machine stretches little
shell.run_line_magic("load_ext", "tprofile")
print(time.process_time() - began, *[m for m in {HEAVY!r} if m in sys.modules])
"""


def test_loading_takes_less_than_50_ms() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-c", LOAD], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(5)
    ]
    assert [heavy for _, *heavy in told] == [[]] * 5
    assert min(float(seconds) for seconds, *_ in told) < 0.05


def test_terminal_ipython(tmp_path: Path) -> None:
    lines = [
        "%load_ext tprofile",
        "import torch; x = torch.ones(4, 4)",
        "%tprofile -w 1 -r 1 print('mine'); y = x @ x",
        "%tprofile -w 1 -r 1 1 / 0",
        "%tprofile -r 0 x",
        "exit",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"],
        input="\n".join(lines) + "\n",
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    out = done.stdout
    assert out.count("mine\n") == 1
    shown = out.partition("mine\n")[2].split("\n")
    assert shown[0].startswith("CPU only: ")
    assert shown[1] == "3 runs: 1 warm-up, 1 profiler warm-up, 1 profiled"
    assert "aten::mm" in out
    assert "no run completed; stopped by ZeroDivisionError in warm-up 1 of 1" in out
    assert "ZeroDivisionError: division by zero" in out
    assert "--repeat is 0, but must be 1 or more" in out + done.stderr
    assert "USDT" not in out + done.stderr
    assert "\x1b[2K" not in out + done.stderr
