"""Compare cells with their compiled selves as a notebook does, and time both by hand as well.

Prints a JSON object a line. In a fresh process, whose launches no profile has slowed before.
"""

from __future__ import annotations

import json
import sys
from typing import Any, cast

import torch
from IPython.core.interactiveshell import InteractiveShell
from torch.utils.benchmark import Timer

GPT2 = """
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.ln_1(x)).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, words, length, width, heads, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.ln = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.ln(self.blocks(x)) @ self.words.weight.T


gpt2 = GPT2(50257, 512, 512, 8, 4).to("cuda", torch.bfloat16).eval()
ids = torch.randint(0, 50257, (16, 512), device="cuda")
"""

CASES = {
    "pointwise": (
        "x = torch.randn(8192, 8192, device='cuda')\nw = torch.randn(8192, device='cuda')\n"
        "def f(x): return (F.gelu(torch.sin(x) * 2 + 1) + w).sigmoid()",
        "y = f(x)",
        "",
    ),
    "mlp": (
        "mlp = nn.Sequential(nn.Linear(4096, 16384), nn.ReLU(), nn.Linear(16384, 4096))\n"
        "mlp = mlp.to('cuda', torch.bfloat16)\n"
        "x = torch.randn(4096, 4096, device='cuda', dtype=torch.bfloat16)",
        "with torch.no_grad():\n    y = mlp(x)",
        "",
    ),
    "geglu": (
        "class GeGLU(nn.Module):\n    def __init__(self, n, m):\n        super().__init__()\n"
        "        self.gate, self.up = nn.Linear(n, m, bias=False), nn.Linear(n, m, bias=False)\n"
        "        self.down = nn.Linear(m, n, bias=False)\n"
        "    def forward(self, x):\n"
        "        return self.down(F.gelu(self.gate(x), approximate='tanh') * self.up(x))\n"
        "geglu = GeGLU(4096, 11008).to('cuda', torch.bfloat16)\n"
        "x = torch.randn(4096, 4096, device='cuda', dtype=torch.bfloat16)",
        "with torch.no_grad():\n    y = geglu(x)",
        "",
    ),
    "layer_norm_gelu": (
        "ln = nn.LayerNorm(4096).to('cuda')\nx = torch.randn(16384, 4096, device='cuda')\n"
        "def f(x): return F.gelu(ln(x))",
        "with torch.no_grad():\n    y = f(x)",
        "",
    ),
    "gpt2": (GPT2, "with torch.no_grad():\n    y = gpt2(ids)", ""),
    "two_breaks": (
        "def f(x):\n    y = torch.sin(x) * 2\n    torch._dynamo.graph_break()\n"
        "    y = torch.cos(y) + 1\n    if y.sum().item() > 0:\n        y = y * 3\n"
        "    return y.exp()\nx = torch.randn(8192, 8192, device='cuda')",
        "y = f(x)",
        "",
    ),
    "new_shapes": (
        "def f(x): return x.sin() * 2\n"
        "every = [torch.randn(1000 + 8 * n, 2048, device='cuda') for n in range(400)]\n"
        "import itertools\nsizes = itertools.cycle(every)",
        "y = f(next(sizes))",
        "--no-dynamic --compile-names f",
    ),
    "reduce_overhead": (
        "w = torch.randn(256, 256, device='cuda') / 16\nx = torch.randn(256, 256, device='cuda')\n"
        "def f(x):\n    for _ in range(20): x = torch.sin(x) @ w\n    return x",
        "y = f(x)",
        "--compile-mode reduce-overhead",
    ),
}  # fmt: skip

TURNS, MOST_TURNS, IN_A_ROW = 9, 90, 100
"""How many turns of both are looked at, how many are made until those agree, and how many runs of a
turn are timed in a row. (Left to itself the timer takes some ten, of which the wait at their end is
a part that counts.)"""
STEADY = 0.05
"""How far apart turns are that agree. Others who use the host hold it up for seconds."""


def by_hand(cell: str, namespace: dict[str, Any], name: str, mode: str | None) -> list[float]:
    """Return how many times as long the compiled cell takes, by torch's own timer.

    The last nine turns: those that agree, or, on a host that never comes to rest, just the last.
    """
    plain = namespace[name]
    forms = plain, torch.compile(plain, mode=mode)
    for form in forms:
        namespace[name] = form
        for _ in range(5):
            exec(cell, namespace)
    took: list[list[float]] = [[], []]
    while len(took[0]) < MOST_TURNS:
        for form, times in zip(forms, took, strict=True):
            namespace[name] = form
            times.append(Timer(cell, globals=namespace).timeit(IN_A_ROW).median)
        last = [times[-TURNS:] for times in took]
        if len(took[0]) >= TURNS and all(max(s) <= min(s) * (1 + STEADY) for s in last):
            break
    namespace[name] = plain
    return [other / one for one, other in zip(*last, strict=True)]


def measure(shell: Any, name: str) -> dict[str, Any]:
    setup, cell, given = CASES[name]
    assert shell.run_cell(setup, store_history=True).success
    before = {key: id(value) for key, value in shell.user_ns.items()}
    called = next(n for n in ("f", "mlp", "geglu", "gpt2") if f"{n}(" in cell)
    mode = "reduce-overhead" if "reduce-overhead" in given else None
    timed = None
    if name != "new_shapes":
        # Before the first profile of the cell, after which launches take longer.
        timed = by_hand(cell, shell.user_ns, called, mode)
        torch._dynamo.reset()
    assert shell.run_cell(f"%%tprofile --compile -q {given}\n{cell}", store_history=True).success
    one = shell.user_ns["_tcomparison"]
    same = all(id(shell.user_ns[key]) == before[key] for key in before if key in ("f", called))
    summary, compiled, replaced = one.summary, one.compiled, one.replaced
    return {
        "name": name,
        "by_hand": timed,
        "wall_ratio": summary.wall_ratio,
        "loop_ratio": summary.loop_ratio,
        "loops": [profile.trace.recorded.loop_s for profile in (one.a, one.b)],
        "kernels": [summary.kernels_a, summary.kernels_b],
        "launches": [summary.launches_a, summary.launches_b],
        "changes": [
            [row.change, len(row.kernels_a), row.kernel_b, row.times, list(row.operators_a)]
            for row in replaced.itertuples()
        ],
        "breaks": [[b.line, b.file, b.reason] for b in compiled.breaks],
        "recompiles": [compiled.recompiles, compiled.late_recompiles],
        "given_up": compiled.given_up,
        "results": [compiled.results.unchecked, compiled.results.relative, compiled.results.unlike],
        "findings": [[f.kind, f.title] for f in one.findings],
        "walls_us": [summary.wall_us_a, summary.wall_us_b, summary.loop_us_a, summary.loop_us_b],
        "restored": same,
    }


def main(names: list[str]) -> None:
    shell = cast(Any, InteractiveShell).instance()
    shell.run_cell("%load_ext tprofile")
    shell.run_cell("import torch, torch.nn as nn, torch.nn.functional as F")
    for name in names:
        print(json.dumps(measure(shell, name)), flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1:] or list(CASES))
