"""Traces of any size, as torch would write them: for the benchmark of what a browser shows."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = (
    "aten::linear", "aten::addmm", "aten::matmul", "aten::relu", "aten::layer_norm", "aten::add",
    "aten::mul", "aten::softmax", "aten::gelu", "aten::dropout", "aten::cat", "aten::transpose",
)  # fmt: skip
KERNELS = tuple(f"void at::native::{name[6:]}_kernel<float, 4>(int, float*)" for name in NAMES)
DEPTH = 6
UNIT = 2 + 2 * DEPTH
"""Spans of a call on a thread: two branches of calls below it, each with a launch and a kernel."""


def timeline(path: Path, spans: int) -> None:
    """Write one run of so many spans: two threads, calls six deep, a stream of kernels for each."""
    made = random.Random(spans)
    units = max(round(spans / (2 * (UNIT - 1))), 1)
    ids = iter(range(1, 10 * spans))
    events = [
        event
        for tid, stream in ((1, 7), (2, 20))
        for event in _thread(made, units, tid, stream, ids)
    ]
    events.append(_slice("user_annotation", "ProfilerStep#1", 0, _end(events), 1))
    _write(path, events)


def shapes(path: Path, rows: int) -> None:
    """Write a run of so many operators that all differ by name or shape."""
    made = random.Random(rows)
    events = [
        _slice(
            "cpu_op", f"{NAMES[i % len(NAMES)]}_{i % 240}", 10 * i, made.uniform(1, 9), 1,
            {"External id": i + 1, "Input Dims": [[i // 240 + 1, i % 240 + 1, 64], [64, 64]]},
        )
        for i in range(rows)
    ]  # fmt: skip
    _write(path, [*events, _slice("user_annotation", "ProfilerStep#1", 0, 10 * rows, 1)])


def _thread(
    made: random.Random, units: int, tid: int, stream: int, ids: Iterator[int]
) -> Iterator[dict[str, Any]]:
    now = busy = 1.0
    for _ in range(units):
        name = made.randrange(len(NAMES))
        begin, now = now, now + 1
        inside: list[dict[str, Any]] = []
        for branch in range(2):
            # Calls in each other, of which the innermost launches.
            here, launch = now, next(ids)
            length = 2.0 * DEPTH + made.expovariate(0.3)
            inside += [
                _slice("cpu_op", NAMES[(name + branch + depth) % len(NAMES)],
                       here + depth, length - 2 * depth, tid, {"External id": next(ids)})
                for depth in range(1, DEPTH - 1)
            ]  # fmt: skip
            at = here + DEPTH - 1
            inside.append(
                _slice("cuda_runtime", "cudaLaunchKernel", at, length - 2 * DEPTH + 2, tid,
                       {"correlation": launch})
            )  # fmt: skip
            busy = max(busy + 0.5, at + 4)
            took = made.expovariate(0.12)
            yield _slice(
                "kernel", KERNELS[(name + branch) % len(KERNELS)], busy, took, stream,
                {"device": 0, "stream": stream, "correlation": launch}, pid=0,
            )  # fmt: skip
            busy += took
            now += length + 0.5
        yield _slice("cpu_op", NAMES[name], begin, now - begin, tid, {"External id": next(ids)})
        yield from inside
        # Between them is Python's own time, and now and then a pause.
        now += made.expovariate(0.2) + (200 if made.random() < 0.002 else 0)


def _slice(
    cat: str, name: str, ts: float, dur: float, tid: int, args: dict[str, Any] | None = None,
    *, pid: int = 100,
) -> dict[str, Any]:  # fmt: skip
    return {
        "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
        "ts": round(ts, 3), "dur": round(dur, 3), "args": args or {},
    }  # fmt: skip


def _end(events: list[dict[str, Any]]) -> float:
    return max(event["ts"] + event["dur"] for event in events)


def _write(path: Path, events: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps({"traceEvents": events}))
