"""Device time by nn.Module, counted once more by hand from the raw events."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

import tprofile
from tprofile.intervals import NONE

MARK = "tprofile::module "

# torch's own, on the way to its compiler and in it.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning"),
]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.act = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width: int = 256, again: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(3)])
        self.head = nn.Linear(width, 8)
        self.again = again

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return self.head(x * 2)


PATHS = [
    "Model",
    *(f"blocks.{i}{path}" for i in range(3) for path in ("", ".norm", ".up", ".act", ".down")),
    "head",
]


def training(model: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def by_hand(one: tprofile.Profile) -> dict[str, tuple[float, float, int]]:
    """Return forward and backward device time and the kernels' launches of each path.

    Device work is a module's if the call that launched it begins within one of its marks; of a
    backward pass, if the operator does whose backward it is.
    """
    events = one.events
    device = events[events["device"] != NONE]
    work = device[device["category"].isin(["kernel", "gpu_memcpy", "gpu_memset"])]
    work = work[work["run"] != NONE]
    assert (work["parent"] != NONE).all()
    found: dict[str, tuple[float, float, int]] = {}
    marks = events[events["name"].str.startswith(MARK) & (events["run"] != NONE)]
    for name, calls in marks.groupby("name"):
        parts = str(name).removeprefix(MARK).split(" ", 2)
        path = parts[2] if len(parts) > 2 else parts[1]

        def inside(rows: pd.Series, calls: pd.DataFrame = calls) -> pd.Series:
            """Tell which of the events given by number begin in a call, on its thread."""
            at = events.loc[rows.where(rows != NONE, 0)]
            hit = pd.Series(False, index=rows.index)
            for mark in calls.itertuples():
                begins = at["start_us"].between(
                    mark.start_us, mark.start_us + mark.duration_us, inclusive="left"
                )
                hit |= (begins & (at["thread"] == mark.thread)).to_numpy()
            return hit & (rows != NONE)

        own = inside(work["parent"])
        behind = inside(work["forward"]) & ~own
        kernels = work[own & (work["category"] == "kernel")]
        found[path] = (
            work["duration_us"][own].sum(),
            work["duration_us"][behind].sum(),
            kernels["parent"].nunique(),
        )
    return found


def assert_as_by_hand(one: tprofile.Profile) -> None:
    frame = one.modules
    wanted = by_hand(one)
    assert set(frame["module"]) == set(wanted)
    for row in frame.itertuples():
        device, backward, launches = wanted[row.module]
        assert row.device_us == pytest.approx(device, abs=1e-3), row.module
        assert row.backward_device_us == pytest.approx(backward, abs=1e-3), row.module
        assert row.launches == launches, row.module


def test_device_time_forward_and_backward() -> None:
    model = Model().cuda()
    x = torch.randn(512, 256, device="cuda")
    one = tprofile.run(training(model, x), modules=True)
    frame = one.modules
    assert frame["module"].tolist() == PATHS
    assert frame["calls"].tolist() == [3] * len(PATHS)
    assert_as_by_hand(one)
    # AND a linear layer runs one product forward, and two backward
    kernels = one.operators_by("module").set_index(["name", "module"])
    for path in [path for path in PATHS if path.endswith((".up", ".down"))]:
        assert kernels["calls"]["aten::addmm", path] == 3
        assert kernels["calls"]["aten::mm", path] == 6
    # AND the whole is the model, the loss and the optimizer
    by = one.operators_by("module")
    rest = by[by["module"] == ""]
    whole = frame.iloc[0]
    outside = rest["self_device_us"].sum() + rest["self_launched_us"].sum()
    total = one.kernels["device_us"].sum()
    assert whole["device_us"] + whole["backward_device_us"] + outside == pytest.approx(total)
    assert 0 < outside < total / 2
    # AND each is the sum of what is in it
    for at in range(1, len(PATHS) - 1, 5):
        block, inner = frame.iloc[at], frame.iloc[at + 1 : at + 5]
        for column in ("device_us", "backward_device_us"):
            assert block[column] >= inner[column].sum() - 1e-6
    assert (frame["backward_device_us"] > 0).all()


def test_a_checkpoint_on_the_device() -> None:
    model = Model(again=True).cuda()
    x = torch.randn(512, 256, device="cuda", requires_grad=True)
    one = tprofile.run(training(model, x), modules=True)
    frame = one.modules.set_index("module")
    # The backward pass runs in a thread of autograd's own, which knows the paths all the same.
    assert frame["calls"].to_dict() == {
        path: 6 if path.startswith("blocks") else 3 for path in PATHS
    }
    assert one.events["thread"][one.events["name"].str.startswith(MARK)].nunique() == 2
    by = one.operators_by("module")
    rest = by[by["module"] == ""]
    outside = rest["self_device_us"].sum() + rest["self_launched_us"].sum()
    whole = frame.loc["Model"]
    total = one.kernels["device_us"].sum()
    assert whole["device_us"] + whole["backward_device_us"] + outside == pytest.approx(total)


@pytest.mark.parametrize("in_place", [False, True], ids=["torch.compile", "model.compile"])
def test_a_compiled_model_is_one_and_is_not_compiled_again(in_place: bool) -> None:
    torch._dynamo.reset()
    counters.clear()
    model: Any = Model().cuda()
    if in_place:
        model.compile(fullgraph=True)
    else:
        model = torch.compile(model, fullgraph=True)
    x = torch.randn(512, 256, device="cuda")
    step = training(model, x)
    step()
    done = ("stats", "frames", "graph_break")
    before = {key: dict(counters[key]) for key in done}
    assert before["stats"]["unique_graphs"] == 1
    one = tprofile.run(step, modules=True)
    assert {key: dict(counters[key]) for key in done} == before
    (row,) = one.modules.to_dict("records")
    assert (row["module"], row["type"], row["calls"]) == ("Model", "Model", 3)
    assert row["compiled"]
    assert_as_by_hand(one)
    # AND there are kernels of the compiler's among them
    assert one.kernels["name"].str.startswith("triton_").any()
    assert row["device_us"] > 0
    assert row["backward_device_us"] > 0


def test_marks_change_nothing_else(tmp_path: Path) -> None:
    model = Model().cuda()
    compiled = torch.compile(Block(256).cuda())
    x = torch.randn(512, 256, device="cuda")

    def step() -> None:
        model(compiled(x)).sum().backward()

    one = tprofile.run(step, modules=True)
    path = Path(one.export_trace(tmp_path / "marked.json.gz"))
    file = json.loads(gzip.decompress(path.read_bytes()))
    file["traceEvents"] = [
        event for event in file["traceEvents"] if not str(event.get("name")).startswith(MARK)
    ]
    other = tprofile.load(json.dumps(file).encode())
    assert other.modules.empty
    for name in ("operators", "kernels", "runs", "devices", "tree", "startup"):
        pd.testing.assert_frame_equal(
            getattr(one, name), getattr(other, name), check_exact=True, obj=name
        )
    assert repr(one.summary) == repr(other.summary)
    pd.testing.assert_frame_equal(one.modules, tprofile.load(path).modules, check_exact=True)


def test_a_graph_that_a_module_replays() -> None:
    class Replaying(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = torch.randn(256, 256, device="cuda")
            for _ in range(2):
                self.x.relu()
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = (self.x.relu() * 2).sum()

        def forward(self) -> torch.Tensor:
            self.graph.replay()
            return self.y

    model = Replaying()
    one = tprofile.run(lambda: model(), modules=True)
    (row,) = one.modules.to_dict("records")
    assert row["device_us"] == pytest.approx(one.kernels["device_us"].sum())
    assert row["launches"] == 3
    assert one.kernels["calls"].sum() == 9


def test_copies_of_a_module_on_several_devices() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two devices")
    model = nn.DataParallel(Model().cuda())
    x = torch.randn(512, 256, device="cuda")
    one = tprofile.run(lambda: model(x), modules=True)
    frame = one.modules.set_index("module")
    assert frame["calls"]["Model"] == 3 * torch.cuda.device_count()
    assert frame["calls"]["DataParallel"] == 3
