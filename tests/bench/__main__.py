"""Time tprofile against torch's own events and table: `python tests/bench`.

Prints a table and writes the figures as JSON (`--json FILE`). Every case runs in a process of its
own, so that one's memory is not another's; ratios compare medians of the same session.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

SIZES = (10_000, 100_000, 350_000)
WAYS = {
    "torch": "torch: events() + key_averages()",
    "tprofile": "tprofile, as it records",
    "events": "columns from torch's events() (torch before 2.13)",
    "json": "columns from torch's exported JSON",
}
STEPS = ("record_s", "stop_s", "columns_s", "nesting_s", "tables_s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="EVENTS")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--repeat", type=int, default=3, help="processes per case (default 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    chosen = parser.parse_args()
    found = {}
    for size in chosen.sizes:
        # Round by round, so that a machine that slows down does so for all alike.
        rounds = [{way: measure(way, size) for way in chosen.ways} for _ in range(chosen.repeat)]
        found[size] = {
            way: {key: statistics.median(r[way][key] for r in rounds) for key in rounds[0][way]}
            for way in chosen.ways
        }
        show(size, found[size])
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


def measure(way: str, size: int) -> dict[str, float]:
    """Return seconds per step and peak memory of one case, from a new process."""
    case = Path(__file__).with_name("case.py")
    done = subprocess.run(
        [sys.executable, str(case), way, str(size)], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def show(size: int, cases: dict[str, dict[str, float]]) -> None:
    print(f"\n{size:,} CPU events asked for, {cases[next(iter(cases))]['events']:,.0f} recorded")
    heads = [step.removesuffix("_s") for step in STEPS]
    print(f"{'seconds':52}" + "".join(f"{h:>9}" for h in heads) + f"{'after':>9}{'MB':>7}")
    for way, figures in cases.items():
        after = after_stop(figures)
        cells = "".join(f"{figures[step]:9.3f}" for step in STEPS)
        print(f"{WAYS[way]:52}{cells}{after:9.3f}{figures['peak_mb']:7.0f}")
    if "torch" in cases:
        for way in cases:
            if way != "torch":
                print(f"  {way}: {ratios(cases['torch'], cases[way])}")


def after_stop(figures: dict[str, float]) -> float:
    return figures["columns_s"] + figures["nesting_s"] + figures["tables_s"]


def ratios(torch: dict[str, float], ours: dict[str, float]) -> str:
    after = after_stop(torch) / after_stop(ours)
    whole = (after_stop(torch) + torch["stop_s"]) / (after_stop(ours) + ours["stop_s"])
    memory = ours["peak_mb"] / torch["peak_mb"]
    return f"{whole:.1f}× faster with the stop, {after:.1f}× after it, {memory:.2f} of the memory"


if __name__ == "__main__":
    main()
