"""What notes of lines cost: `python tests/bench/lines.py`, on a GPU where there is one.

A loop of three operators, and the same in functions, under torch's profiler: µs per iteration as
it is, with notes of its statements, and with what tells of functions. The ways take turns, in
one process, and what is shown are medians.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from IPython.core.interactiveshell import InteractiveShell

from tprofile.cell import compile_cell
from tprofile.quiet import profiler_lines_dropped
from tprofile.session import _config, _stepper, synchronize
from tprofile.trace.line_log import LineLog

LOOP = """for _ in range({n}):
    y = x @ w
    y = y + b
    y = y.relu()
"""

CALLS = """def step():
    y = x @ w
    y = y + b
    return y.relu()
for _ in range({n}):
    step()
"""

MODULES = """for _ in range({n}):
    model(x)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--iterations", type=int, default=500)
    chosen = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shell: Any = InteractiveShell.instance()
    layers = [torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)]
    shell.user_ns.update(
        x=torch.ones(64, 64, device=device), w=torch.ones(64, 64, device=device),
        b=torch.ones(64, device=device), model=torch.nn.Sequential(*layers).to(device),
    )  # fmt: skip
    torch.set_num_threads(1)
    print(f"torch {torch.__version__} on {device}, µs per iteration, and times the plain loop's")
    with torch.no_grad():
        for name, text in {"loop": LOOP, "function": CALLS, "modules": MODULES}.items():
            measure(shell, name, text.format(n=chosen.iterations), chosen)


def measure(shell: Any, name: str, text: str, chosen: argparse.Namespace) -> None:
    cell = compile_cell(shell, text)
    noted = cell.noted(LineLog())
    stepper = _stepper(cell.file_name)

    def stepped() -> None:
        with stepper:
            noted.run()

    ways: dict[str, Callable[[], object]] = {
        "plain": cell.run, "again": cell.run, "noted": noted.run, "--stack": stepped,
    }  # fmt: skip
    took: dict[str, list[float]] = {}
    for _ in range(chosen.rounds):
        for profiled in (False, True):
            for way, run in ways.items():
                if not profiled and way == "--stack":
                    continue
                with profiler(False) if profiled else contextlib.nullcontext():
                    key = f"{way}, {'profiled' if profiled else 'not profiled'}"
                    took.setdefault(key, []).append(timed(run))
        with profiler(True):
            took.setdefault("torch's with_stack, profiled", []).append(timed(cell.run))
    for key, seconds in took.items():
        plain = took[f"plain, {key.split(', ')[1]}"]
        each = statistics.median(seconds) / chosen.iterations * 1e6
        ratio = statistics.median(a / b for a, b in zip(seconds, plain, strict=True))
        print(f"{name:10}{key:32}{each:8.2f}{ratio:8.3f}")


def timed(run: Callable[[], object]) -> float:
    synchronize()
    begin = time.perf_counter()
    run()
    took = time.perf_counter() - begin
    synchronize()
    return took


@contextlib.contextmanager
def profiler(with_stack: bool) -> Iterator[None]:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    one = torch.profiler.profile(
        activities=activities, record_shapes=True, with_stack=with_stack,
        # What is fastest to read tells no stacks.
        experimental_config=None if with_stack else _config(all_threads=True),
    )  # fmt: skip
    warnings.filterwarnings("ignore", message=".*Profiler clears events.*")
    gc.disable()
    with profiler_lines_dropped():
        one.prepare_trace()
        one.start_trace()
        yield
        one.stop_trace()
    gc.enable()


if __name__ == "__main__":
    main()
