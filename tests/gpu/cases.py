"""Code that is slow for one known reason, the same code repaired, and code that is healthy.

Each case is a function that prepares its data on the device and returns what is to be profiled.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Make = Callable[[], Callable[[], object]]


@dataclass(frozen=True)
class Case:
    make: Make
    verdict: str | None = None
    """What the profile must say; None where that may be one or the other."""
    kind: str | None = None
    """The finding that must be there; None where none of any cost may be."""
    repairs: str | None = None
    """Name of the case that this is the repair of."""


CASES: dict[str, Case] = {}


def case(
    verdict: str | None = None, kind: str | None = None, repairs: str | None = None
) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        CASES[make.__name__] = Case(make, verdict, kind, repairs)
        return make

    return add


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


# --- twins -------------------------------------------------------------------------------------


@case("overhead-bound", "small-kernels")
def small_kernels() -> Callable[[], object]:
    xs, w = randn(100, 64, 64), randn(64, 64)
    return lambda: [torch.relu(x @ w) for x in xs]


@case(repairs="small_kernels")
def small_kernels_repaired() -> Callable[[], object]:
    xs, w = randn(100, 64, 64), randn(64, 64)
    return lambda: torch.relu(xs @ w)


@case("sync-bound", "sync")
def sync() -> Callable[[], object]:
    x, w = randn(1024, 1024), randn(1024, 1024)

    def step() -> float:
        total = 0.0
        for _ in range(40):
            total += (x @ w).sum().item()
        return total

    return step


@case(repairs="sync")
def sync_repaired() -> Callable[[], object]:
    x, w = randn(1024, 1024), randn(1024, 1024)

    def step() -> torch.Tensor:
        total = torch.zeros((), device="cuda")
        for _ in range(40):
            total += (x @ w).sum()
        return total

    return step


@case("transfer-bound", "pageable-copy")
def pageable_copy() -> Callable[[], object]:
    x = torch.randn(32 << 20)
    return lambda: x.to("cuda") * 2


@case(repairs="pageable_copy")
def pageable_copy_repaired() -> Callable[[], object]:
    x = torch.randn(32 << 20).pin_memory()
    return lambda: x.to("cuda", non_blocking=True) * 2


@case("python-bound", "host-gap")
def host_gap() -> Callable[[], object]:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
    words = [f"word {i} of some text" for i in range(3000)]

    def step() -> object:
        ids = [sum(map(ord, word)) % 512 for word in words]
        x = torch.zeros(64, 512).cuda()
        return model(x), ids

    return step


@case(repairs="host_gap")
def host_gap_repaired() -> Callable[[], object]:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
    x = torch.zeros(64, 512).cuda()
    return lambda: model(x)


def _gelu(x: torch.Tensor) -> torch.Tensor:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + torch.tanh(inner))


@case("memory-bound", "fusion")
def fusion() -> Callable[[], object]:
    x = randn(1 << 26)
    return lambda: _gelu(x)


@case(repairs="fusion")
def fusion_repaired() -> Callable[[], object]:
    x, compiled = randn(1 << 26), torch.compile(_gelu)
    return lambda: compiled(x)


@case("compute-bound", "tensor-cores")
def tensor_cores() -> Callable[[], object]:
    x, w = randn(4096, 4096), randn(4096, 4096)

    def step() -> torch.Tensor:
        torch.backends.cuda.matmul.allow_tf32 = False
        return x @ w

    return step


@case("compute-bound", repairs="tensor_cores")
def tensor_cores_repaired() -> Callable[[], object]:
    x, w = randn(4096, 4096), randn(4096, 4096)

    def step() -> torch.Tensor:
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return x @ w
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    return step


@case(None, "low-occupancy")
def low_occupancy() -> Callable[[], object]:
    x = randn(4, 1 << 22)
    return lambda: torch.softmax(x, -1)


@case(repairs="low_occupancy")
def low_occupancy_repaired() -> Callable[[], object]:
    x = randn(4, 1 << 22)

    def by_parts(x: torch.Tensor) -> torch.Tensor:
        parts = x.view(4, 1024, -1)
        most = parts.amax(-1, keepdim=True).amax(-2, keepdim=True)
        powers = torch.exp(parts - most)
        return (powers / powers.sum(-1, keepdim=True).sum(-2, keepdim=True)).view_as(x)

    compiled = torch.compile(by_parts)
    return lambda: compiled(x)


def _broken(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = torch.relu(x * 2 + 1)
        torch._dynamo.graph_break()
    return x


def _whole(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = torch.relu(x * 2 + 1)
    return x


def _breaking(x: torch.Tensor) -> torch.Tensor:
    x = torch.relu(x * 2 + 1)
    torch._dynamo.graph_break()
    x = torch.relu(x * 2 + 1)
    torch._dynamo.graph_break()
    x = torch.relu(x * 2 + 1)
    torch._dynamo.graph_break()
    return torch.relu(x * 2 + 1)


@case("overhead-bound", "graph-breaks")
def graph_breaks() -> Callable[[], object]:
    x, compiled = randn(256, 256), torch.compile(_breaking)

    def step() -> torch.Tensor:
        y = x
        for _ in range(10):
            y = compiled(y)
        return y

    return step


@case(repairs="graph_breaks")
def graph_breaks_repaired() -> Callable[[], object]:
    x, compiled = randn(256, 256), torch.compile(_whole, fullgraph=True)

    def step() -> torch.Tensor:
        y = x
        for _ in range(10):
            y = compiled(y)
        return y

    return step


_sizes = itertools.count(1024, 8)
"""Each is new to all that was compiled before."""


def _by_size(dynamic: bool) -> Callable[[], object]:
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.reset()
    x = randn(4096, 256)
    compiled = torch.compile(lambda x: torch.relu(x * 2 + 1).sum(), dynamic=dynamic)
    return lambda: compiled(x[: next(_sizes)])


@case(None, "recompiles")
def recompiles() -> Callable[[], object]:
    return _by_size(dynamic=False)


@case(repairs="recompiles")
def recompiles_repaired() -> Callable[[], object]:
    return _by_size(dynamic=True)


def _allocating(empty: bool) -> Callable[[], object]:
    x = randn(4096, 4096)

    def step() -> None:
        for _ in range(10):
            y = x * 2
            y = y + 1
            del y
            if empty:
                torch.cuda.empty_cache()

    return step


@case(None, "allocator")
def allocator() -> Callable[[], object]:
    return _allocating(empty=True)


@case(repairs="allocator")
def allocator_repaired() -> Callable[[], object]:
    return _allocating(empty=False)


def _convolutions(memory_format: torch.memory_format) -> Callable[[], object]:
    model = nn.Sequential(*[nn.Conv2d(128, 128, 3, padding=1) for _ in range(6)])
    model = model.cuda().half().to(memory_format=memory_format)
    x = randn(32, 128, 56, 56, dtype=torch.half).contiguous(memory_format=memory_format)

    def step() -> torch.Tensor:
        with torch.no_grad():
            return model(x)

    return step


@case(None, "layout-copies")
def layout_copies() -> Callable[[], object]:
    return _convolutions(torch.contiguous_format)


@case(repairs="layout_copies")
def layout_copies_repaired() -> Callable[[], object]:
    return _convolutions(torch.channels_last)


@case(None, "layout-copies")
def layout_copies_by_hand() -> Callable[[], object]:
    x = randn(64, 256, 4096, dtype=torch.bfloat16)
    w = randn(256, 256, dtype=torch.bfloat16)

    def step() -> torch.Tensor:
        y = x
        for _ in range(4):
            y = (y.transpose(1, 2).contiguous() @ w).transpose(1, 2).contiguous()
        return y

    return step


@case(repairs="layout_copies_by_hand")
def layout_copies_by_hand_repaired() -> Callable[[], object]:
    x = randn(64, 4096, 256, dtype=torch.bfloat16)
    w = randn(256, 256, dtype=torch.bfloat16)

    def step() -> torch.Tensor:
        y = x
        for _ in range(4):
            y = y @ w
        return y

    return step


def _optimized(**options: Any) -> Callable[[], object]:
    model = nn.Sequential(*[nn.Linear(128, 128) for _ in range(40)]).cuda()
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    optimizer = torch.optim.Adam(model.parameters(), **options)
    return lambda: optimizer.step()


@case("overhead-bound", "for-loop-optimizer")
def for_loop_optimizer() -> Callable[[], object]:
    return _optimized(foreach=False)


@case(repairs="for_loop_optimizer")
def for_loop_optimizer_repaired() -> Callable[[], object]:
    return _optimized(fused=True)


# --- more of the same kinds --------------------------------------------------------------------


@case(None, "sync")
def sync_by_condition() -> Callable[[], object]:
    x, w = randn(1024, 1024), randn(1024, 1024)

    def step() -> torch.Tensor:
        y = x
        for _ in range(30):
            y = torch.tanh(y @ w)
            if y.abs().max() > 10:
                break
        return y

    return step


@case("sync-bound", "sync")
def sync_by_call() -> Callable[[], object]:
    x, w = randn(1024, 1024), randn(1024, 1024)

    def step() -> torch.Tensor:
        y = x
        for _ in range(30):
            y = torch.tanh(y @ w)
            torch.cuda.synchronize()
        return y

    return step


@case(None, "sync")
def sync_by_mask() -> Callable[[], object]:
    x = randn(1 << 18)

    def step() -> list[torch.Tensor]:
        return [x[x > i / 10].sum() for i in range(30)]

    return step


@case(None, "sync")
def sync_by_cpu() -> Callable[[], object]:
    x, w = randn(512, 512), randn(512, 512)

    def step() -> list[torch.Tensor]:
        return [torch.relu(x @ w).mean(0).cpu() for _ in range(30)]

    return step


@case(None, "pageable-copy")
def pageable_small_copies() -> Callable[[], object]:
    w = randn(1024, 1024)
    batches = [torch.randn(256, 1024) for _ in range(20)]
    return lambda: [batch.cuda() @ w for batch in batches]


@case("transfer-bound", "pageable-copy")
def pageable_to_host() -> Callable[[], object]:
    x = randn(32 << 20)
    return lambda: (x * 2).cpu()


@case("python-bound", "host-gap")
def host_gap_sleeping() -> Callable[[], object]:
    x, w = randn(1024, 1024), randn(1024, 1024)

    def step() -> torch.Tensor:
        y = x
        for _ in range(4):
            time.sleep(0.002)
            y = torch.tanh(y @ w)
        return y

    return step


@case("python-bound", "host-gap")
def host_gap_numpy() -> Callable[[], object]:
    import numpy as np

    w = randn(512, 512)
    generator = np.random.default_rng(0)

    def step() -> torch.Tensor:
        total = torch.zeros((), device="cuda")
        for _ in range(5):
            batch = np.sort(generator.standard_normal((64, 512)), axis=1)
            batch = (batch - batch.mean()) / batch.std()
            x = torch.from_numpy(batch.astype(np.float32)).cuda()
            total += (x @ w).square().mean()
        return total

    return step


@case("overhead-bound", "small-kernels")
def small_transformer() -> Callable[[], object]:
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    model = nn.TransformerEncoder(layer, 6).cuda()
    model.train()
    x = randn(4, 32, 128)
    return lambda: model(x).sum().backward()


@case("memory-bound", "fusion")
def fusion_norm() -> Callable[[], object]:
    x = randn(16384, 4096)

    def step() -> torch.Tensor:
        y = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()
        return torch.sigmoid(y) * y + x

    return step


@case("compute-bound", "tensor-cores")
def tensor_cores_training() -> Callable[[], object]:
    model = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096)).cuda()
    x = randn(4096, 4096)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(x).square().mean().backward()

    return step


@case("compute-bound", "tensor-cores")
def tensor_cores_convolution() -> Callable[[], object]:
    model = nn.Conv2d(256, 256, 3, padding=1).cuda()
    x = randn(32, 256, 56, 56)

    def step() -> torch.Tensor:
        torch.backends.cudnn.allow_tf32 = False
        try:
            with torch.no_grad():
                return model(x)
        finally:
            torch.backends.cudnn.allow_tf32 = True

    return step


@case("compute-bound", "tensor-cores")
def tensor_cores_double() -> Callable[[], object]:
    x, w = randn(2048, 2048, dtype=torch.double), randn(2048, 2048, dtype=torch.double)
    return lambda: x @ w @ w


# --- healthy -----------------------------------------------------------------------------------


@case("compute-bound")
def healthy_training() -> Callable[[], object]:
    model = nn.Sequential(
        nn.Linear(4096, 8192), nn.GELU(), nn.Linear(8192, 4096), nn.LayerNorm(4096)
    )
    model = model.cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = randn(16384, 4096, dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(x).float().square().mean().backward()
        optimizer.step()

    return step


@case("compute-bound")
def healthy_attention() -> Callable[[], object]:
    q, k, v = (randn(8, 16, 4096, 128, dtype=torch.bfloat16) for _ in range(3))
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


@case("compute-bound")
def healthy_convolution() -> Callable[[], object]:
    model = nn.Sequential(*[nn.Conv2d(256, 256, 3, padding=1) for _ in range(4)])
    model = model.cuda().bfloat16().to(memory_format=torch.channels_last)
    x = randn(64, 256, 56, 56, dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)

    def step() -> torch.Tensor:
        with torch.no_grad():
            return model(x)

    return step


@case("compute-bound")
def healthy_compiled_transformer() -> Callable[[], object]:
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda().bfloat16()
    compiled = torch.compile(model)
    x = randn(32, 512, 1024, dtype=torch.bfloat16)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        compiled(x).float().square().mean().backward()

    return step


@case("memory-bound")
def healthy_add() -> Callable[[], object]:
    x, y = randn(1 << 27), randn(1 << 27)
    return lambda: x.add_(y)


@case("memory-bound")
def healthy_norm() -> Callable[[], object]:
    norm, x = nn.LayerNorm(4096).cuda(), randn(32768, 4096)

    def step() -> torch.Tensor:
        with torch.no_grad():
            return norm(x)

    return step


@case("memory-bound")
def healthy_fused_optimizer() -> Callable[[], object]:
    parameters = [nn.Parameter(randn(4096, 4096)) for _ in range(8)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    optimizer = torch.optim.AdamW(parameters, fused=True)
    return lambda: optimizer.step()


@case("memory-bound")
def healthy_embedding() -> Callable[[], object]:
    table = nn.Embedding(100_000, 1024).cuda()
    ids = torch.randint(0, 100_000, (131072,), device="cuda")

    def step() -> torch.Tensor:
        with torch.no_grad():
            return table(ids)

    return step


@case("transfer-bound")
def healthy_pinned_copy() -> Callable[[], object]:
    x = torch.randn(64 << 20).pin_memory()
    held = torch.empty(64 << 20, device="cuda")
    return lambda: held.copy_(x, non_blocking=True)


@case("compute-bound")
def healthy_loss_read_once() -> Callable[[], object]:
    model = nn.Sequential(*[nn.Linear(8192, 8192) for _ in range(4)]).cuda().bfloat16()
    x = randn(8192, 8192, dtype=torch.bfloat16)

    def step() -> float:
        loss = model(x).float().square().mean()
        loss.backward()
        return loss.item()

    return step


@case(None)
def healthy_graph() -> Callable[[], object]:
    xs, w = randn(100, 64, 64), randn(64, 64)

    def small() -> None:
        for x in xs:
            torch.relu(x @ w)

    small()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        small()
    return graph.replay
