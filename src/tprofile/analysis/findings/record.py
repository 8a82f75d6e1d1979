"""What spoils the record itself, so that its figures say less than they seem to."""

from __future__ import annotations

import numpy as np

from ...units import duration
from ..attribution import Attribution
from ..doubts import lost_launches
from ..finding import Finding
from ..lines import line_marks
from ..summary import Summary

_SLOWER, _LONGER_US = 2.5, 1000.0
"""How many times as long, and by how much longer, a run takes where the profiler distorts it."""


def dropped_events(found: Attribution) -> list[Finding]:
    """Launches whose device work is not in the record."""
    lost = lost_launches(found)
    missing = lost.head + lost.between
    if not missing:
        return []
    return [
        Finding(
            kind="dropped-events",
            title=f"the work of {missing:,} launches is missing",
            evidence=(
                f"{missing:,} of {lost.of:,} launches ({lost.names}) have no work of a device in "
                "the record: device times, busy time and verdict leave it out."
            ),
            advice=(
                "Profile again; if it stays, record less at a time (fewer or shorter runs, "
                "--no-shapes), and let no other profiler hold the device."
            ),
            gain_us=None,
            where="the record",
        )
    ]


def truncated(found: Attribution) -> list[Finding]:
    """A record of the device that ends before the code does."""
    lost = lost_launches(found)
    if not lost.tail:
        return []
    return [
        Finding(
            kind="truncated",
            title="the device's record ends too early",
            evidence=(
                f"The last {lost.tail:,} of {lost.of:,} launches have no work in it: the "
                "profiler's buffer was full, or it was stopped too soon."
            ),
            advice="Profile fewer iterations (a smaller --repeat, a shorter loop in the cell).",
            gain_us=None,
            where="the record",
        )
    ]


def profiler_overhead(found: Attribution, summary: Summary) -> list[Finding]:
    """A profiler that makes the code so much slower that shares of its time mean little."""
    ratio, wall, profiled = summary.overhead_ratio, summary.wall_us, summary.profiled_wall_us
    if ratio is None or wall is None or profiled is None:
        return []
    if ratio < _SLOWER or profiled - wall < _LONGER_US:
        return []
    runs = max(len(found.runs), 1)
    events, lines = np.count_nonzero(found.counted) / runs, len(line_marks(found)) / runs
    noted = f" and {lines:,.0f} times that a line of the cell began" if lines > events else ""
    less = (
        "put the loop over them into a function, inside which no lines are told"
        if noted
        else "leave out --stack, --memory and shapes (--no-shapes), or profile a part with fewer "
        "and larger operators"
    )
    return [
        Finding(
            kind="profiler-overhead",
            title=f"the profiler makes the code {ratio:.1f} times slower",
            evidence=(
                f"A run takes {duration(wall)}, and {duration(profiled)} under the profiler, which "
                f"recorded {events:,.0f} operators and calls{noted} in it: CPU times are too "
                "long by about as much, those of the GPU are right."
            ),
            advice=f"Trust the wall and the GPU's times; {less}.",
            gain_us=None,
            where="all CPU times",
        )
    ]
