"""Device time by line of the cell, against events of CUDA around each line."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

IPython = pytest.importorskip("IPython")

SETUP = """
import torch, torch.nn.functional as F
torch.manual_seed(0)
big, w = torch.randn(8192, 8192, device="cuda"), torch.randn(8192, 8192, device="cuda")
x, v = torch.randn(1024, 1024, device="cuda"), torch.randn(1024, 1024, device="cuda")
model = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.GELU()).cuda()
data = torch.randn(16384, 4096, device="cuda")
compiled = torch.compile(torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()).cuda())
"""

LINES = [
    "for i in range(3):",
    "    a = big @ w",
    "    b = torch.relu(x)",
    "    total = (big @ w @ w).sum().item()",
    "    c = big.clone()",
    "    with torch.no_grad():",
    "        d = compiled(x)",
    "    e = [F.gelu(x) for _ in range(5)]",
    "    loss = model(data).square().mean()",
    "    loss.backward()",
    "    model.zero_grad()",
]

# Each line as the loop runs it, alone: line of the cell (the magic's is 1), code, times a run.
ALONE = {
    3: ("a = big @ w", 3),
    4: ("b = torch.relu(x)", 3),
    5: ("total = (big @ w @ w).sum().item()", 3),
    6: ("c = big.clone()", 3),
    8: ("with torch.no_grad(): d = compiled(x)", 3),
    9: ("e = [F.gelu(x) for _ in range(5)]", 3),
    10: ("loss = model(data).square().mean()", 3),
    11: ("loss.backward()", 3),
}

SCRIPT = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
setup, cell, alone = json.loads(sys.argv[1])
shell.run_cell(setup)
shell.run_cell("%load_ext tprofile")
scope = shell.user_ns
for _ in range(3):
    exec(cell, scope)
import torch
def timed(code):
    # The device sleeps while the CPU launches, so that events do not time the launching.
    torch.cuda.synchronize()
    torch.cuda._sleep(20_000_000)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    exec(code, scope)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1000
took = {line: [] for line in alone}
for _ in range(7):
    for line, (code, _) in alone.items():
        if code == "loss.backward()":
            exec("loss = model(data).square().mean()", scope)
        took[line].append(timed(code))
compilations = torch._dynamo.utils.counters["stats"]["unique_graphs"]
# In the history, as a notebook's cells are: it tells how many lines are above the code.
shell.run_cell("%%tprofile -q -v profile\\n" + cell, store_history=True)
profile = scope["profile"]
print("RESULT", json.dumps({
    "lines": profile.lines.to_dict("records"), "took": took, "runs": len(profile.runs),
    "compiled": torch._dynamo.utils.counters["stats"]["unique_graphs"] - compilations,
    "all": profile.kernels["device_us"].sum(), "launches": profile.runs["launches"].sum(),
    "findings": [[one.kind, one.line, one.where] for one in profile.findings],
}, default=float))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    given = json.dumps([SETUP, "\n".join(LINES), ALONE])
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, given],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    lines = [line for line in ran.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, ran.stdout[-2000:] + ran.stderr[-3000:]
    result: dict[str, Any] = json.loads(lines[0].removeprefix("RESULT "))
    for row in result["lines"]:
        print(row, result["took"].get(str(row["line"])))
    return result


@pytest.mark.parametrize("line", ALONE)
def test_a_lines_device_time_is_that_between_events(told: dict[str, Any], line: int) -> None:
    (row,) = [row for row in told["lines"] if row["line"] == line and row["file"] is None]
    calls = ALONE[line][1] * told["runs"]
    assert row["calls"] == calls
    took = sorted(told["took"][str(line)])
    alone = took[len(took) // 2]
    each = row["device_us"] / calls
    # Events also time what lies between the kernels of a line, up to a few microseconds. (Of a
    # short line that waits they would time how long the CPU takes to come back.)
    assert each == pytest.approx(alone, rel=0.01, abs=0 if alone >= 5000 else 10)


def test_lines_have_all_the_device_work(told: dict[str, Any]) -> None:
    rows = told["lines"]
    assert sum(row["device_us"] for row in rows) == pytest.approx(told["all"])
    assert sum(row["launches"] for row in rows) == told["launches"]


def test_backward_is_the_forward_lines_and_backwards_own(told: dict[str, Any]) -> None:
    rows = {row["line"]: row for row in told["lines"]}
    forward, backward = rows[10]["backward_device_us"], rows[11]["device_us"]
    # What adds up gradients has no forward operator: with none before, it only takes them over.
    assert forward == pytest.approx(backward, rel=0.02)
    assert rows[3]["backward_device_us"] == 0


def test_marks_make_nothing_compile_again(told: dict[str, Any]) -> None:
    assert told["compiled"] == 0
