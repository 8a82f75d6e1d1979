"""Marks of lines around real device work: they change nothing, and tell where all of it is from."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from test_lines import assert_unmarked_is_the_same
from traces import assert_same
from traitlets.config import Config

import tprofile
from tprofile.trace.write import dump

SETUP = """
import torch
x = torch.randn(512, 512, device="cuda")
w = torch.randn(512, 512, device="cuda", requires_grad=True)
host = torch.randn(1 << 16)
graph = torch.cuda.CUDAGraph()
side = torch.cuda.Stream()
with torch.no_grad():
    with torch.cuda.stream(side):
        for _ in range(3):
            g = (x @ x).relu()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        g = (x @ x).relu()
"""

CELL = """def f(a):
    b = a @ w
    return b.relu()

for i in range(3):
    y = f(x)
    if i == 1:
        c = host.cuda()
y.sum().backward()
graph.replay()
torch.cuda.synchronize()
w.grad = None
with torch.cuda.stream(side):
    z = torch.zeros(1 << 20, device="cuda")
x.sum().item()"""


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    config = Config()
    config.HistoryManager.enabled = False
    shell = cast(Any, InteractiveShell)(config=config)
    shell.run_line_magic("load_ext", "tprofile")
    assert shell.run_cell(SETUP, store_history=True).success
    yield shell
    shell.restore_sys_module_state()
    atexit.unregister(shell.atexit_operations)


@pytest.mark.parametrize("options", ["", "--stack", "--memory", "--modules --stack"])
def test_marks_change_nothing_and_tell_all(shell: Any, options: str) -> None:
    text = f"%%tprofile -q -w 2 -r 2 {options}\n{CELL}"
    assert shell.run_cell(text, store_history=True).success
    one: tprofile.Profile = shell.user_ns["_tprofile"]
    assert_unmarked_is_the_same(one)
    assert_same(one, tprofile.load(b"".join(dump(one.trace))))
    found = one.lines
    cell = found[found["function"].isna()].set_index("line")
    print(found.to_string())
    assert cell["device_us"].sum() == pytest.approx(one.kernels["device_us"].sum())
    assert cell["launches"].sum() == one.runs["launches"].sum()
    assert cell["calls"].to_dict() == {
        2: 2, 6: 2, 7: 6, 8: 6, 9: 2, 10: 2, 11: 2, 12: 2, 13: 2, 14: 2, 15: 2, 16: 2,
    }  # fmt: skip
    worked = cell["device_us"] > 0
    assert worked[worked].index.tolist() == [7, 9, 10, 11, 15, 16]
    # The graph is one launch, of two kernels.
    assert cell["launches"][11] == 2
    # The gradient of line 7 is what `backward` runs, but for what fills the first one.
    assert 0 < cell["backward_device_us"][7] < cell["device_us"][10]
    if "--stack" in options:
        inner = found[found["function"] == "f"].set_index("line")
        assert inner["calls"].to_dict() == {3: 6, 4: 6}
        assert inner["device_us"].sum() == pytest.approx(cell["device_us"][7])
        assert inner["backward_device_us"].sum() == pytest.approx(cell["backward_device_us"][7])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kernels_of_triton_and_torch_compile_have_lines(shell: Any) -> None:
    shell.run_cell(
        "@torch.compile\ndef h(a):\n    return (a + 1).sin() * 2\nh(x)", store_history=True
    )
    counters = torch._dynamo.utils.counters
    before = {key: dict(value) for key, value in counters.items()}
    text = "%%tprofile -q -w 1 -r 1 --stack\ny = h(x)\nz = h(y)"
    assert shell.run_cell(text, store_history=True).success
    one: tprofile.Profile = shell.user_ns["_tprofile"]
    assert {key: dict(value) for key, value in counters.items()} == before
    assert one.lines[["line", "launches", "function"]].to_numpy().tolist() == [
        [2, 1, None], [3, 1, None],
    ]  # fmt: skip
    assert one.lines["device_us"].sum() == pytest.approx(one.kernels["device_us"].sum())
    chain = one.chain(one.kernels["name"][0])
    assert chain["level"].iloc[0] == "line"
    assert_unmarked_is_the_same(one)
