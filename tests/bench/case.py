"""One case of the benchmark, in a process of its own: prints its figures as a line of JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig

import tprofile.analysis.summary  # noqa: F401  (imports are not what is measured)
from tprofile.analysis.attribution import attribute
from tprofile.analysis.tables import operators
from tprofile.quiet import profiler_lines_dropped
from tprofile.trace import live
from tprofile.trace.build import build
from tprofile.trace.read import read

EVENTS_PER_STEP = 8


def main(way: str, size: int) -> None:
    x = torch.randn(8, 8)
    figures: dict[str, float] = {}

    def body(steps: int) -> None:
        for _ in range(steps):
            (x @ x + x).relu()

    def timed(name: str, step: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        result = step()
        figures[name] = time.perf_counter() - begin
        return result

    lean = way == "tprofile" and hasattr(_ExperimentalConfig(), "trace_only")
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        record_shapes=True,
        experimental_config=_ExperimentalConfig(**({"trace_only": True} if lean else {})),
    )
    warnings.filterwarnings("ignore", message=".*Profiler clears events.*")
    with profiler_lines_dropped():
        profiler.prepare_trace()
        body(10)
        profiler.start_trace()
        timed("record_s", lambda: body(size // EVENTS_PER_STEP))
        before_mb = resident_mb()
        timed("stop_s", profiler.stop_trace)
    results = profiler.profiler.kineto_results
    if way == "torch":
        found = timed("columns_s", profiler.events)
        figures["nesting_s"] = 0.0
        timed("tables_s", profiler.key_averages)
    else:
        found = timed("columns_s", lambda: READERS[way](profiler, results))
        attributed = timed("nesting_s", lambda: attribute(found))
        timed("tables_s", lambda: operators(attributed))
    figures["events"] = len(found)
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mb
    print(json.dumps(figures))


def from_events(profiler: Any, results: Any) -> Any:
    return build(**live._events(results, results.events()))


def from_json(profiler: Any, results: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        return read(path)


READERS: dict[str, Callable[[Any, Any], Any]] = {
    "tprofile": lambda profiler, results: live.read_results(results),
    "events": from_events,
    "json": from_json,
}


def resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
