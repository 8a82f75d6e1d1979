"""A cell with and without torch.compile, with its real compiler."""

from __future__ import annotations

import atexit
import dataclasses
import itertools
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import tprofile
from tprofile import compiled, pairing
from tprofile.trace.recorded import Results

# torch's own compiler uses what torch advises against.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

FAST = "-q -w 2 -r 1"

SETUP = """
import functools, torch, torch.nn as nn, torch.nn.functional as F
x = torch.randn(64, 64)
def pointwise(x): return (F.gelu(torch.sin(x) * 2 + 1) + x).sigmoid()
def broken(x):
    y = torch.sin(x)
    torch._dynamo.graph_break()
    return torch.cos(y)
def doubled(x): return x * 2
def raising(x): raise ValueError("mine")
def only_eager(x):
    if torch.compiler.is_compiling():
        raise RuntimeError("not in here")
    return x + 1
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
class Net(nn.Module):
    def forward(self, x): return x + 1
layers = nn.ModuleList([nn.Linear(64, 64)])
plus = functools.partial(torch.add, 1)
many = [torch.randn(8 + n, 4) for n in range(400)]
"""


@pytest.fixture(scope="module")
def the_shell() -> Iterator[Any]:
    config = Config()
    config.HistoryManager.enabled = False
    shell = cast(Any, InteractiveShell)(config=config)
    shell.run_line_magic("load_ext", "tprofile")
    assert shell.run_cell(SETUP, store_history=True).success
    yield shell
    shell.restore_sys_module_state()
    atexit.unregister(shell.atexit_operations)


@pytest.fixture
def shell(the_shell: Any) -> Iterator[Any]:
    torch._dynamo.reset()
    before = dict(the_shell.user_ns)
    yield the_shell
    # Whatever a test did, each name stands for what it stood for.
    for name in ("pointwise", "broken", "doubled", "raising", "only_eager", "net", "x"):
        assert the_shell.user_ns[name] is before[name]


def compared(shell: Any, cell: str, options: str = "") -> Any:
    text = f"%%tprofile --compile {FAST} {options}\n{cell}"
    assert shell.run_cell(text, store_history=True).success
    return shell.user_ns["_tcomparison"]


def kinds(one: tprofile.Comparison) -> list[str]:
    return [found.kind for found in one.findings]


def test_operators_become_one_piece_of_code(shell: Any) -> None:
    one = compared(shell, "y = pointwise(x)")
    assert one.labels == ("eager", "compiled")
    assert one.compiled.names == ["pointwise"]
    assert (one.compiled.graphs, one.compiled.breaks, one.compiled.recompiles) == (1, [], [])
    eager, compiled = (set(p.operators["name"]) for p in (one.a, one.b))
    gone = {"aten::sin", "aten::mul", "aten::add", "aten::gelu", "aten::sigmoid"}
    assert gone <= eager
    assert not gone & compiled
    # AND the results are the same but for rounding, and each was timed before it was profiled.
    assert one.compiled.results.tensors == 1
    assert one.compiled.results.unchecked is None
    assert one.compiled.results.relative < 1e-6
    assert len(one.a.trace.recorded.unprofiled_s) == len(one.b.trace.recorded.unprofiled_s) >= 5
    assert "vanished-operators" in kinds(one)
    # AND `_tprofile` is the profile of the code as it is.
    assert shell.user_ns["_tprofile"] is one.a


def test_a_module_of_the_notebook(shell: Any) -> None:
    one = compared(shell, "with torch.no_grad():\n    y = net(x)")
    assert one.compiled.names == ["net"]
    assert "Torch-Compiled Region: 0/0" in set(one.b.operators["name"])
    assert "Torch-Compiled Region: 0/0" not in set(one.a.operators["name"])


def test_a_module_and_a_function_are_left_as_they_were(shell: Any) -> None:
    parts = {name: shell.user_ns[name] for name in ("net", "doubled")}
    before = {name: dict(vars(part)) for name, part in parts.items()}
    one = compared(shell, "y = net(doubled(x))")
    assert one.compiled.names == ["net", "doubled"]
    assert one.compiled.graphs == 2
    assert {name: dict(vars(part)) for name, part in parts.items()} == before


def test_a_function_with_some_of_its_arguments(shell: Any) -> None:
    one = compared(shell, "y = plus(x)")
    assert (one.compiled.names, one.compiled.graphs) == (["plus"], 1)


def test_a_name_that_the_cell_deletes(shell: Any) -> None:
    # GIVEN a cell of which every run but the first fails
    text = "y = gone(x)\ndel gone"
    shell.user_ns["gone"] = lambda x: x + 1
    result = shell.run_cell(f"%%tprofile --compile {FAST}\n{text}", store_history=True)
    assert str(result.error_in_exec) == "name 'gone' is not defined"


def test_chosen_names_alone_are_compiled(shell: Any) -> None:
    one = compared(shell, "y = doubled(pointwise(x))", "--compile-names doubled")
    assert one.compiled.names == ["doubled"]
    assert "aten::gelu" in set(one.b.operators["name"])


def test_what_is_compiled_already_is_compared_with_its_original(shell: Any) -> None:
    original = shell.user_ns["doubled"]
    shell.user_ns["made"] = made = torch.compile(original)
    one = compared(shell, "y = made(x)")
    assert one.compiled.already == ["made"]
    assert "aten::mul" in set(one.a.operators["name"])
    assert "aten::mul" not in set(one.b.operators["name"])
    assert shell.user_ns["made"] is made


def test_graph_breaks_have_a_line_and_a_reason(shell: Any) -> None:
    one = compared(shell, "y = broken(x)")
    (found,) = one.compiled.breaks
    assert found.line == SETUP.strip().split("\n").index("    torch._dynamo.graph_break()") + 1
    assert found.reason == "Call to `torch._dynamo.graph_break()`"
    assert one.compiled.graphs == 2
    assert "graph-breaks" in kinds(one)


def test_new_shapes_until_torch_gives_up(shell: Any) -> None:
    shell.user_ns["sizes"] = itertools.cycle(shell.user_ns["many"])
    one = compared(shell, "y = doubled(next(sizes))", "--no-dynamic --compile-names doubled")
    assert len(one.compiled.recompiles) >= 5
    assert all(
        text.startswith("doubled: tensor 'x' size mismatch at index 0. expected ")
        for text in one.compiled.recompiles
    )
    # AND results of other inputs are not compared.
    assert one.compiled.results.unchecked == (
        "the cell may take its inputs from sizes, and so others in each run"
    )
    assert 0 < one.compiled.timed_recompiles < len(one.compiled.recompiles)
    if len(one.compiled.recompiles) >= 8:
        assert one.compiled.given_up == ["doubled (recompile_limit is 8)"]
        assert "recompile-limit" in kinds(one)


def test_what_changes_in_place_is_not_compared(shell: Any) -> None:
    one = compared(shell, "doubled(x)\nx.add_(0)")
    assert one.compiled.results.unchecked.startswith("the cell changes x (tensor")


def test_what_changes_out_of_sight_is_not_compared(shell: Any) -> None:
    # GIVEN a training step whose model the cell does not name, and numbers from elsewhere
    shell.run_cell(
        "import numpy\n"
        "hidden = nn.Linear(64, 64)\n"
        "sgd = torch.optim.SGD(hidden.parameters(), lr=0.1)\n"
        "def loss(): return hidden(x).square().mean()\n"
        "def step(): sgd.zero_grad(); l = loss(); l.backward(); sgd.step(); return l.detach()\n"
        "def noisy(x): return x * float(numpy.random.rand())"
    )
    told = "two runs of the cell as it is differ too, from the same random state "
    assert compared(shell, "step()").compiled.results.unchecked.startswith(told)
    one = compared(shell, "y = noisy(x)", "--compile-names noisy")
    assert one.compiled.results.unchecked.startswith(told)


def test_results_in_memory_that_each_run_writes_to_are_not_compared(shell: Any) -> None:
    shell.run_cell(
        "out = torch.empty(64, 64)\ndef into(x): return torch.mul(x, 2, out=out).view(-1)"
    )
    one = compared(shell, "y = into(x)")
    assert one.compiled.results.unchecked.startswith("each run writes over y (tensor, ")


def test_an_error_of_the_run_for_the_results_is_the_cells_own(shell: Any) -> None:
    # GIVEN a cell that fails in the run for the results, which the plain form makes first
    shell.user_ns["seen"] = []
    text = "seen.append(0)\ny = doubled(x)\nif len(seen) == 5: raise ValueError('fifth')"
    result = shell.run_cell(
        f"%%tprofile --compile {FAST} --compile-names doubled\n{text}", store_history=True
    )
    assert str(result.error_in_exec) == "fifth"
    one = shell.user_ns["_tcomparison"]
    assert one.a.trace.recorded.stopped.during == "eager: run for the results"
    assert one.b.trace.recorded.stopped is None


@dataclasses.dataclass
class Pair:
    one: torch.Tensor
    other: torch.Tensor


NAN, INF = float("nan"), float("inf")
LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("a", "b", "unlike"),
    [
        (torch.tensor([2**60]), torch.tensor([2**60 + 1]), ["y: 1 of 1 elements differ"]),
        (torch.tensor([True, False]), torch.tensor([True, True]), ["y: 1 of 2 elements differ"]),
        (torch.tensor([1.0, NAN]), torch.tensor([NAN, 1.0]),
         ["y: NaN or infinite in other places"]),
        (torch.tensor([INF]), torch.tensor([-INF]), ["y: NaN or infinite in other places"]),
        (torch.ones(1).double(), torch.ones(1), ["y: dtype torch.float64 and torch.float32"]),
        (torch.eye(2), torch.eye(2).to_sparse(), ["y: layout torch.strided and torch.sparse_coo"]),
        (torch.empty(0), torch.empty(0, 2), ["y: shape [0] and [0, 2]"]),
        ({"a": torch.ones(1)}, {"b": torch.ones(1)},
         ["y['a'] is in one of them only", "y['b'] is in one of them only"]),
        (torch.tensor([1e308], dtype=torch.float64), torch.tensor([-1e308], dtype=torch.float64),
         ["y: elements lie further apart than numbers of float64 go"]),
    ],
)  # fmt: skip
def test_results_unlike_in_kind(a: Any, b: Any, unlike: list[str]) -> None:
    found = results_of(a, b)
    assert (found.unlike, found.unchecked) == (unlike, None)
    assert found.tensors == len(unlike)


@pytest.mark.parametrize(
    ("a", "b", "absolute", "relative", "where"),
    [
        (torch.tensor([1.0, NAN, INF]), torch.tensor([1.5, NAN, INF]), 0.5, 0.5, "y"),
        (torch.tensor([3 + 4j]), torch.tensor([3 + 9j]), 5.0, 1.0, "y"),
        (torch.eye(2).to_sparse(), torch.eye(2).to_sparse() * 3, 2.0, 2.0, "y"),
        (torch.zeros(2), torch.tensor([0.0, 2.0]), 2.0, None, "y"),
        (torch.empty(0), torch.empty(0), 0.0, 0.0, "y"),
        (Pair(torch.ones(1), torch.ones(1)), Pair(torch.ones(1), torch.full((1,), 1.25)),
         0.25, 0.25, "y.other"),
        ([(torch.ones(1),)], [(torch.full((1,), 1.5),)], 0.5, 0.5, "y[0][0]"),
    ],
)  # fmt: skip
def test_results_differ_by(
    a: Any, b: Any, absolute: float, relative: float | None, where: str
) -> None:
    found = results_of(a, b)
    assert (found.absolute, found.relative, found.where) == (absolute, relative, where)
    assert (found.unlike, found.unchecked) == ([], None)


@pytest.mark.parametrize(
    ("a", "b", "unchecked"),
    [
        (LOOP, LOOP, "the cell binds no tensor, and its last value is none"),
        (1.5, 2.5, "the cell binds no tensor, and its last value is none"),
        (torch.empty(1, device="meta"), torch.empty(1, device="meta"),
         "y cannot be compared: Tensor.item() cannot be called on meta tensors"),
        ([torch.empty(1, device="meta"), torch.ones(1)],
         [torch.empty(1, device="meta"), torch.full((1,), 1.5)],
         "y[0] cannot be compared: Tensor.item() cannot be called on meta tensors; the others "
         "differ by at most 0.5 of the largest element (y[1])"),
    ],
)  # fmt: skip
def test_results_that_cannot_be_compared(a: Any, b: Any, unchecked: str) -> None:
    assert results_of(a, b).unchecked == unchecked


def test_results_that_differ_from_run_to_run_say_nothing() -> None:
    a, again, b = ({"y": torch.full((1,), value)} for value in (1.0, 1.5, 1.25))
    assert compiled.compared(a, again, b, drawn=True).unchecked == (
        "two runs of the cell as it is differ too, from the same random state (by at most 0.5 of "
        "the largest element (y)), as compiled code does from them (by at most 0.25 of the "
        "largest element (y))"
    )
    # AND where the compiled form gives what the plain one gave, nothing is in doubt.
    assert compiled.compared(a, again, dict(a), drawn=True).unchecked is not None
    equal = {"y": torch.full((1,), 1.0)}
    assert compiled.compared(a, again, equal, drawn=True).unchecked is None


def results_of(a: Any, b: Any) -> Results:
    one, other = (compiled.tensors({"y": value}) for value in (a, b))
    return compiled.compared(one, one, other, drawn=False)


def test_results_that_differ_are_told(shell: Any) -> None:
    shell.run_cell("def odd(x): return x + 1 if torch.compiler.is_compiling() else x")
    one = compared(shell, "y = odd(x)")
    largest = float(shell.user_ns["x"].abs().max())
    assert one.compiled.results.absolute == pytest.approx(1, abs=1e-6)
    assert one.compiled.results.relative == pytest.approx(1 / largest, rel=1e-5)
    assert one.compiled.results.where == "y"
    assert "results differ" in next(f for f in one.findings if f.kind == "results").title


def test_what_cannot_be_compiled_shows_the_eager_profile_and_the_error(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    result = shell.run_cell("%%tprofile --compile -w 2 -r 1 --fullgraph\ny = broken(x)")
    assert type(result.error_in_exec).__name__ == "Unsupported"
    profile = shell.user_ns["_tprofile"]
    assert profile.complete
    assert "aten::cos" in set(profile.operators["name"])
    shown = capsys.readouterr().out
    assert "aten::cos" in shown
    assert "graph_break" in shown
    # AND the profile says which form it is of, and that the other one failed
    assert profile.summary.warnings[0].startswith(
        "the cell failed with torch.compile in warm-up 1 of 2: Unsupported: "
    )
    one = shell.user_ns["_tcomparison"]
    assert kinds(one)[0] == "compile-error"
    assert "vanished-operators" not in kinds(one)


def test_what_is_compiled_but_not_called_is_said_to_be_so(shell: Any) -> None:
    shell.run_cell(
        "class Other(nn.Module):\n"
        "    def forward(self, x): return x + 1\n"
        "    def twice(self, x): return self.forward(x) * 2\n"
        "other = Other()"
    )
    one = compared(shell, "y = other.twice(x)")
    assert kinds(one)[0] == "not-compiled"
    assert one.findings[0].title == "torch compiled nothing: compiled ran as eager did"


def test_what_was_compiled_before_says_so(shell: Any) -> None:
    compared(shell, "y = broken(x)")
    one = compared(shell, "y = broken(x)")
    assert (one.compiled.graphs, one.compiled.breaks) == (0, [])
    (told,) = [found for found in one.findings if found.kind == "compile-time"]
    assert told.title == "it was compiled before, so what that takes is not known"


@pytest.mark.parametrize(
    ("plain", "other", "resets", "runs"),
    [
        ([0.01], [0.005], False, 15), ([1e-6], [1e-7], False, 200), ([0.001], [0.9], False, 2),
        ([0.001, 0.001, 0.001], [0.01], False, 15),
        ([0.001], [1.1], False, 0), ([0.01], [0.01], True, 0), ([0.01], [], False, 0),
    ],
)  # fmt: skip
def test_so_many_runs_are_made_in_a_row(
    plain: list[float], other: list[float], resets: bool, runs: int
) -> None:
    sides = [types.SimpleNamespace(timed_s=s, resets=resets) for s in (plain, other)]
    assert pairing._in_a_row(*cast(Any, sides)) == runs


def test_a_terminal_shows_profile_and_comparison(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_cell("%%tprofile --compile -w 2 -r 1\ny = pointwise(x)").success
    shown = capsys.readouterr().out
    assert shown.count("\nOperators, per run, by self CPU time\n") == 1
    assert shown.count("\nOperators, per run, by difference in self CPU time\n") == 1


def test_an_error_of_the_cell_itself(shell: Any) -> None:
    result = shell.run_cell(f"%%tprofile --compile {FAST}\ny = raising(x)")
    assert isinstance(result.error_in_exec, ValueError)


def test_an_error_that_cannot_be_read_has_its_kind_alone(shell: Any) -> None:
    shell.run_cell(
        "class Mute(Exception):\n"
        "    def __str__(self): raise RuntimeError\n"
        "def is_compiled(f): return hasattr(f, '_torchdynamo_orig_callable')"
    )
    text = "y = doubled(x)\nif is_compiled(doubled): raise Mute"
    result = shell.run_cell(f"%%tprofile --compile {FAST} --compile-names doubled\n{text}")
    assert type(result.error_in_exec).__name__ == "Mute"
    assert shell.user_ns["_tprofile"].summary.warnings[0] == (
        "the cell failed with torch.compile in warm-up 1 of 2: Mute. What is here is of the cell "
        "as it is"
    )


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "ValueError"])
def test_what_ends_a_run_of_the_compiled_form_leaves_the_names(shell: Any, raised: str) -> None:
    # GIVEN a cell that fails in its fourth run, the second of the compiled form
    shell.user_ns["seen"] = seen = []
    text = f"y = doubled(x)\nseen.append(doubled)\nif len(seen) == 4: raise {raised}"
    result = shell.run_cell(f"%%tprofile --compile {FAST} --compile-names doubled\n{text}")
    assert type(result.error_in_exec).__name__ == raised
    plain = shell.user_ns["doubled"]
    assert [one is plain for one in seen[:4]] == [True, False, True, False]
    during = "compiled: warm-up 2 of 2"
    ended = [
        one.trace.recorded.stopped
        for one in (shell.user_ns["_tcomparison"].a, shell.user_ns["_tcomparison"].b)
    ]
    assert ended[raised == "ValueError"].during == during
    assert ended[raised != "ValueError"] is None
    # AND an interrupt ends all, an error of the compiled form that one alone.
    assert (len(seen) == 4) == (raised == "KeyboardInterrupt")


@pytest.mark.parametrize(
    ("cell", "options", "told"),
    [
        ("y = x * 2", "", "nothing here can be compiled"),
        ("y = layers[0](x)", "", "nothing here can be compiled"),
        ("doubled(x)", "--compile-names nowhere", "'nowhere' cannot be compiled: it is no name"),
        ("y = doubled(x)", "--compile-names x", "'x' cannot be compiled: it is nothing to call"),
        ("y = Net()(x)", "--compile-names Net", "'Net' cannot be compiled: it is a class"),
        ("y = doubled(x)", "--compile-mode fastest",
         "torch does not compile 'doubled' so: Unrecognized mode=fastest"),
    ],
)  # fmt: skip
def test_what_there_is_nothing_to_compile_in(
    shell: Any, cell: str, options: str, told: str
) -> None:
    result = shell.run_cell(f"%%tprofile --compile {FAST} {options}\n{cell}")
    assert told in str(result.error_in_exec)


def test_a_label_and_what_it_is_compared_with(shell: Any) -> None:
    assert shell.run_cell(f"%%tprofile {FAST} --label before\ny = pointwise(x)").success
    assert shell.run_cell(f"%%tprofile {FAST} --label after --vs before\ny = doubled(x)").success
    one = shell.user_ns["_tcomparison"]
    assert one.labels == ("before", "after")
    assert one.a.trace.recorded.label == "before"
    assert one.b is shell.user_ns["_tprofile"]
    calls = one.operators.set_index("name")[["calls_a", "calls_b"]]
    assert calls.loc["aten::gelu"].tolist() == [1, 0]
    assert calls.loc["aten::mul"].tolist() == [1, 1]


def test_a_file_of_text_has_the_comparison_too(shell: Any, tmp_path: Path) -> None:
    file = tmp_path / "told.txt"
    one = compared(shell, "y = pointwise(x)", f"-T {file}")
    both = f"{one.a.text(limit=None)}\n\n{one.text(None)}\n"
    assert file.read_text(encoding="utf-8") == both


def test_a_label_that_nobody_gave(shell: Any) -> None:
    result = shell.run_cell(f"%%tprofile {FAST} --vs no_such_label\ny = doubled(x)")
    assert "no_such_label" in str(result.error_in_exec)
