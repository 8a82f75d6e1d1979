"""How figures and names are put into words, the same in every view."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..analysis.summary import Summary
    from ..result import Profile
    from ..trace.recorded import Recorded

DASH = "–"
"""Stands for what was not measured."""

_UNITS = (("s", 1e6), ("ms", 1e3), ("µs", 1.0), ("ns", 1e-3))
_BYTES = (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0))


@dataclass(frozen=True)
class Unit:
    """A unit that suits a whole column, so that its numbers can be compared by eye."""

    name: str
    size: float
    """In microseconds, or bytes."""
    decimals: int = 2

    def number(self, value: float | None) -> str:
        """Return a value in this unit, without its name: one too small to print is not 0."""
        if value is None or math.isnan(value):
            return DASH
        least = 10.0**-self.decimals
        if 0 < abs(value) / self.size < least / 2:
            return f"<{least:.{self.decimals}f}" if value > 0 else f">-{least:.{self.decimals}f}"
        return f"{value / self.size:.{self.decimals}f}" if value else "0"


def unit(us: Iterable[float | None]) -> Unit:
    """Return the unit in which the largest of the given times has one to three digits."""
    largest = max((abs(t) for t in us if t is not None and not math.isnan(t)), default=0.0)
    least = _UNITS[-1] if largest else ("µs", 1.0)
    name, size = next(((n, s) for n, s in _UNITS if largest >= s), least)
    return Unit(name, size)


def bytes_unit(values: Iterable[float | None]) -> Unit:
    """Return the unit in which the largest of the given numbers of bytes is 1 or more."""
    largest = max((abs(b) for b in values if b is not None and not math.isnan(b)), default=0.0)
    name, size = next(((n, s) for n, s in _BYTES if largest >= s), _BYTES[-1])
    return Unit(name, size, 0 if size == 1 else 2)


def amount(number: float | None) -> str:
    """Return a number of bytes with its unit."""
    fit = bytes_unit([number])
    return f"{fit.number(number)} {fit.name}"


def duration(us: float | None) -> str:
    """Return a time with three digits that count and its unit."""
    if us is None or math.isnan(us):
        return DASH
    # As it will be written: 999.9 as 1000, for which there is a larger unit.
    written = float(f"{us:.3g}")
    fit = unit([written])
    shown = abs(written / fit.size)
    decimals = 0 if shown >= 100 else 1 if shown >= 10 else 2
    return f"{us / fit.size:.{decimals}f} {fit.name}"


def percent(fraction: float | None) -> str:
    """Return a fraction as percent: a part too small to print is not 0."""
    if fraction is None or math.isnan(fraction):
        return DASH
    if 0 < fraction < 0.0005:
        return "<0.1"
    return f"{fraction * 100:.1f}" if fraction else "0"


def count(number: float) -> str:
    """Return a number of calls per run, which need not be whole."""
    if number == int(number):
        return f"{number:.0f}"
    return "<0.01" if 0 < number < 0.005 else f"{number:.2f}"


def visible(text: str) -> str:
    """Return a name with what cannot be seen, or moves what is seen, as an escape."""
    if not text.strip():
        return repr(text)
    return "".join(
        c if unicodedata.category(c)[0] not in "CZ" or c == " " else
        c.encode("unicode_escape").decode() for c in text
    )  # fmt: skip


def width(text: str) -> int:
    """Return the columns that a text takes in a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def fit(text: str, columns: int) -> str:
    """Return a name cut in its middle to at most this many columns, and padded to them.

    Kernel names begin alike and end alike: both ends say something, so neither is cut.
    """
    text = visible(text)
    if width(text) > columns:
        head = beginning(text, columns // 2)
        tail = beginning(text[::-1], columns - 1 - width(head))[::-1]
        text = f"{head}…{tail}"
    return text + " " * (columns - width(text))


def beginning(text: str, columns: int) -> str:
    """Return as much of the beginning as fits: one pass, for some names are megabytes."""
    for i, c in enumerate(text):
        columns -= width(c)
        if columns < 0:
            return text[:i]
    return text


def device_word(profile: Profile) -> str:
    """Return what a person calls the devices: CUDA, HIP."""
    trace = profile.trace
    platform = trace.recorded.platform
    if platform is not None and platform != "CPU":
        return visible(platform)
    # AMD's runtime keeps its names in Kineto's files, where all else is called CUDA.
    told = [*map(str, trace.header), *trace.names]
    return "HIP" if any(text.startswith("hip") for text in told) else "CUDA"


def device_label(profile: Profile, device: int) -> str:
    """Return what tells a device from the others: its number, or the text that stood for one."""
    return f"{device_word(profile)} {visible(profile.trace.lanes.get(device, str(device)))}"


def what_ran(profile: Profile) -> str:
    """Return the sentence that says which runs there were: "7 runs: 3 warm-up, ..."."""
    told = profile.trace.recorded
    if told.profiled is None:
        return _found_runs(profile)
    warmups, discarded, profiled = len(told.warmup_s), told.discarded, told.profiled
    parts = [
        f"{n} {what}"
        for n, what in (
            (warmups, "warm-up"),
            (discarded, "profiler warm-up"),
            (profiled, "profiled"),
        )
        if n
    ]
    total = warmups + discarded + profiled
    said = f"{total} run{'s' * (total != 1)}" + (f": {', '.join(parts)}" if parts else "")
    if not total:
        said = "no run completed"
    if total == profiled == 1:
        said = "1 run, profiled, no warm-up"
    if (stopped := told.stopped) is not None:
        return f"{said}; stopped by {visible(stopped.by)} in {visible(stopped.during)}"
    return said + _left_out(told, total)


def _left_out(told: Recorded, total: int) -> str:
    warmup, repeat = told.asked_warmup or 0, told.asked_repeat or 0
    # A warm-up has a run under the profiler at its end.
    wanted = warmup + bool(warmup) + repeat
    if told.max_seconds is None or total >= wanted:
        return ""
    return f"; {wanted - total} of {wanted} left out: more than {told.max_seconds:g} s"


def _found_runs(profile: Profile) -> str:
    n = len(profile.runs)
    source = profile.run_source
    if not n:
        return "no runs: the trace is empty"
    if source == "trace":
        return "1 run: the whole trace"
    marks = "ProfilerStep" if source == "steps" else "run"
    return f"{n} run{'s' * (n != 1)}, by the {marks} marks of the trace"


def answer(profile: Profile) -> list[str]:
    """Return the sentences that stand above everything: what was run, how long, how busy."""
    summary = profile.summary
    lines = [what_ran(profile), *_walls(summary)]
    if not len(profile.trace):
        return [*lines, "nothing was profiled"]
    if not profile.complete:
        return [*lines, "the tables are of the run that was stopped, up to there"]
    if profile.operators.empty:
        lines.append("no torch operator ran in it")
    if summary.reason is not None:
        said = "device not seen" if summary.verdict == "unknown" else "CPU only"
        return [*lines, f"{said}: {visible(summary.reason)}"]
    lines.append(" · ".join([*devices_busy(profile), *_launches(summary)]))
    return [*lines, *peak(summary)]


def _walls(summary: Summary) -> list[str]:
    parts = []
    if summary.wall_source == "unprofiled":
        spread = f" ±{percent(summary.wall_spread)} %" if summary.wall_spread is not None else ""
        said = f"not profiled{after_others(summary)}{spread}"
        parts.append(f"wall {duration(summary.wall_us)} per run, {said}")
        if summary.profiled_wall_us is not None:
            parts.append(f"{duration(summary.profiled_wall_us)} profiled")
    elif summary.wall_source == "profiled":
        parts.append(f"wall {duration(summary.wall_us)} per run, under the profiler")
    if summary.first_run_us is not None:
        parts.append(f"first run {duration(summary.first_run_us)}")
    return [" · ".join(parts)] if parts else []


def after_others(summary: Summary) -> str:
    """Return what to add to a time that was taken in a process that had been profiled before.

    CUPTI stays on after a profile, so that it is not the time that a fresh process would take.
    """
    n = summary.earlier_profiles
    return f" (after {n} profile{'s' * (n != 1)})" if n else ""


def devices_busy(profile: Profile) -> list[str]:
    """Return for each device that worked what it is and how busy: "CUDA 0 (NVIDIA H200) busy"."""
    lines = []
    for row in profile.devices.to_dict("records"):
        name = device_label(profile, row["device"])
        name += f" ({visible(row['name'])})" if row["name"] else ""
        busy, fraction = duration(row["busy_us"]), percent(row["busy_fraction"])
        lines.append(f"{name} busy {busy} of each run, {fraction} %")
    return lines


def peak(summary: Summary) -> list[str]:
    """Return the sentence about memory, if it was recorded."""
    if summary.peak_device_bytes is None:
        return []
    return [f"at most {amount(summary.peak_device_bytes)} of device memory allocated in a run"]


def _launches(summary: Summary) -> list[str]:
    if summary.launches is None:
        return []
    s = "" if summary.launches == 1 else "es"
    return [f"{count(summary.launches)} launch{s} per run"]
