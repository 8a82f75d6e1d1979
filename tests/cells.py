"""A profiled cell written by hand: its lines, what was found on them, and its modules."""

from __future__ import annotations

import dataclasses
from typing import Any

from traces import Event, call, note, op, profile, work

import tprofile
from tprofile import Finding
from tprofile.trace.marks import RUN, line

SOURCE = """\
total = 0.0

for step in range(3):
    y = x @ w
    total += y.sum().item()
if total < 0:
\tprint("never")"""
"""Of a cell in whose first line stands the magic."""

SYNC = Finding(
    kind="sync",
    title="3 waits for the GPU",
    evidence="In each run the CPU waits for the GPU 3 times, 24.0 µs in all.",
    advice="Keep the sum on the GPU (`total = total + y.sum()`), and read it once.",
    gain_us=24.0,
    where="line 6 · aten::item → cudaStreamSynchronize",
    line=6,
    label="3 waits",
)
SMALL = Finding(
    kind="small-kernels",
    title="the GPU runs 3 small kernels",
    evidence="Half of them take less than 5.00 µs.",
    advice="Let one call do the work of many.",
    gain_us=9.0,
    where="aten::mm",
)
ROUGH = Finding(
    kind="profiler-overhead",
    title="the profiler slows this code",
    evidence="A run takes 50.0 µs without it.",
    advice="",
    gain_us=None,
    where="",
)


def cell(
    *, source: str = SOURCE, lines: dict[int, str] | None = None, events: tuple[Event, ...] = ()
) -> tprofile.Profile:
    """Return two runs of 100 µs of the cell on a GPU that works 21 µs of each.

    `lines` are marks to add to its own, by microsecond of the first run.
    """
    made: list[Event] = []
    for run in range(2):
        t, ext = 1000 * run, 100 * run
        made += [note(RUN, t, 100), op(line(2), t + 1, 2), op(line(4), t + 5, 90),
                 op(line(7), t + 97, 1)]  # fmt: skip
        for i in range(3):
            at, key = t + 6 + 28 * i, ext + 10 * i
            made += [
                op(line(5), at, 10), op("aten::mm", at + 1, 8, key + 1),
                call("cudaLaunchKernel", at + 3, 4, key + 1, key + 1),
                work("gemm", at + 8, 5, key + 1, key + 1),
                op(line(6), at + 11, 16), op("aten::item", at + 12, 12, key + 2),
                call("cudaMemcpyAsync", at + 13, 2, key + 2, key + 2),
                work("Memcpy DtoH", at + 16, 2, key + 2, key + 2, cat="gpu_memcpy"),
                call("cudaStreamSynchronize", at + 15, 8, key + 3, key + 2),
            ]  # fmt: skip
    made += [op(name, at, 0.5) for at, name in (lines or {}).items()]
    told = {"profiled": 2, "platform": "CUDA", "warmup_s": [1e-3, 5e-5], "source": source,
            "first_line": 2}  # fmt: skip
    return profile(*made, *events, recorded=told)


def given(one: tprofile.Profile, *findings: Finding, **summary: Any) -> tprofile.Profile:
    """Return a profile, changed to have these findings, and this in its summary."""
    vars(one)["_findings"] = findings
    vars(one)["summary"] = dataclasses.replace(one.summary, **summary)
    return one
