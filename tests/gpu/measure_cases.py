"""Time and profile the cases in a fresh process, and print what came out, a JSON object a line.

All are timed before any is profiled: a process that has been profiled launches more slowly.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch
from cases import CASES

import tprofile


def walls(step: Callable[[], object], runs: int) -> list[float]:
    took = []
    for _ in range(runs):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - begin)
    return took


def main(names: list[str]) -> None:
    timed = {}
    for name in names:
        step = CASES[name].make()
        walls(step, 3)
        timed[name] = walls(step, 5 if name == "recompiles" else 15)
        del step
        torch.cuda.empty_cache()
    for name in names:
        profile = tprofile.run(CASES[name].make())
        trace = profile.trace.with_recorded(unprofiled_s=timed[name], earlier=0)
        told = tprofile.Profile(trace)
        summary = told.summary
        found = [[one.kind, one.gain_us, one.where, one.title] for one in told.findings]
        result = {
            "name": name, "walls_s": timed[name], "verdict": summary.verdict,
            "reason": summary.reason, "findings": found,
        }  # fmt: skip
        print(json.dumps(result), flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1:] or list(CASES))
