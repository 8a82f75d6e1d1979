"""The answer in one sentence, and the five figures under it, each with its meaning in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..units import DASH, duration, unit
from .startup import startup_sentences
from .words import (
    NO_OPERATOR,
    after_first,
    after_others,
    begins_cold,
    count,
    device_label,
    device_word,
    devices_busy,
    memory,
    percent,
    visible,
    what_ran,
)

if TYPE_CHECKING:
    from ..analysis.summary import Summary
    from ..result import Profile

_TOO_SHORT = "the run was too short for the clock"


@dataclass(frozen=True)
class Headline:
    """The sentence above all else."""

    lead: str | None
    """A verdict of a word or two, to stand out before the text; None where there is none."""
    text: str


@dataclass(frozen=True)
class Figure:
    """A number with its unit, and what it means."""

    key: str
    """`wall`, `busy`, `launches`, `overhead` or `first`."""
    value: str
    """A dash where it was not measured; the label then says why."""
    label: str


def headline(profile: Profile) -> Headline:
    """Return the answer, with the two numbers that prove it."""
    summary, stopped = profile.summary, profile.trace.recorded.stopped
    if stopped and _nothing_per_run(profile):
        return Headline("Stopped", f"by {visible(stopped.by)} in {visible(stopped.during)}")
    if not len(profile.trace):
        return Headline(None, "nothing was profiled")
    if not profile.complete:
        return Headline("Stopped", "before the first profiled run was over")
    if summary.verdict == "cpu-only":
        return Headline("CPU only", f"a run takes {duration(summary.wall_us)}")
    if summary.verdict == "unknown":
        return Headline("Device not seen", f"a run takes {duration(summary.wall_us)}")
    word, devices = gpu(profile), len(summary.device_names)
    who = f"the {word}" if devices == 1 else f"the busiest of {devices} {word}s"
    if not summary.wall_us:
        return Headline(None, f"{who} works {duration(summary.device_busy_us)} of each run")
    # Under the profiler, a device can be busy for longer than a run takes without it.
    part = "all" if summary.device_busy_fraction == 1 else _part(summary)
    return Headline(None, f"{who} works {part} of a {duration(summary.wall_us)} run")


def _part(summary: Summary) -> str:
    """Return the busy time, if it can be, in the unit of the wall: the two are to be compared."""
    busy, fit = summary.device_busy_us, unit([summary.wall_us])
    if busy is not None and fit.size / 10 <= busy < fit.size:
        return f"{fit.number(busy)} {fit.name}"
    return duration(busy)


def details(profile: Profile) -> list[str]:
    """Return the sentences under the headline: what was run, and on what."""
    lines = [what_ran(profile)]
    if not len(profile.trace):
        return lines
    if not profile.complete:
        return [*lines, "the tables are of the run that was stopped, up to there"]
    if profile.operators.empty:
        lines.append(NO_OPERATOR)
    reason = profile.summary.reason
    lines += [reason] if reason is not None else devices_busy(profile)
    lines += memory(profile)
    if n := profile.summary.earlier_profiles:
        lines.append(
            f"this process was profiled {n} time{'s' * (n != 1)} before: CUPTI stays on, and small "
            "operators take longer than in a fresh one"
        )
    return [*lines, *startup_sentences(profile)]


def figures(profile: Profile) -> list[Figure]:
    """Return the five figures, always all and in the same order."""
    return [_wall(profile), _busy(profile), _launches(profile), _overhead(profile), _first(profile)]


def gpu(profile: Profile) -> str:
    """Return what a person calls one of the devices."""
    word = device_word(profile)
    return "GPU" if word in ("CUDA", "HIP") else word


def _nothing_per_run(profile: Profile) -> str | None:
    """Return why nothing is known per run, or None where it is."""
    if not len(profile.trace):
        return "nothing was profiled"
    return None if profile.complete else "the run was stopped"


def _wall(profile: Profile) -> Figure:
    summary = profile.summary
    if summary.wall_us is None:
        return Figure("wall", DASH, f"time of a run: {_nothing_per_run(profile)}")
    how = after_first(profile)
    if summary.wall_source == "unprofiled":
        how = f", not profiled{after_others(summary)}"
    if summary.wall_spread is not None:
        how += f", ±{percent(summary.wall_spread)} %"
    return Figure("wall", duration(summary.wall_us), f"per run{how}")


def _busy(profile: Profile) -> Figure:
    summary, word = profile.summary, gpu(profile)
    fraction = summary.device_busy_fraction
    if fraction is None:
        why = summary.reason or _nothing_per_run(profile) or _TOO_SHORT
        return Figure("busy", DASH, f"{word} busy: {why}")
    numbers = profile.devices["device"].tolist()
    who = f"busiest of {len(numbers)} {word}s"
    if len(numbers) == 1:
        who = device_label(profile, numbers[0])
    return Figure("busy", f"{percent(fraction)} %", f"{who} busy")


def _launches(profile: Profile) -> Figure:
    summary = profile.summary
    if summary.launches is None:
        why = summary.reason or _nothing_per_run(profile)
        return Figure("launches", DASH, f"launches: {why}")
    label = f"launch{'' if summary.launches == 1 else 'es'} per run, "
    median = summary.median_kernel_us
    label += "no kernels" if median is None else f"median kernel {duration(median)}"
    return Figure("launches", count(summary.launches), label)


def _overhead(profile: Profile) -> Figure:
    summary = profile.summary
    if (ratio := summary.overhead_ratio) is None:
        why = _nothing_per_run(profile)
        if why is None:
            why = _TOO_SHORT if summary.wall_source == "unprofiled" else _no_unprofiled(profile)
        return Figure("overhead", DASH, f"slower under the profiler: {why}")
    value = f"{ratio:.2f}×"
    if value == "1.00×":
        return Figure("overhead", value, "the unprofiled time, under the profiler")
    label = (
        "slower under the profiler" if ratio > 1 else "of the unprofiled time, under the profiler"
    )
    return Figure("overhead", value, label)


def _no_unprofiled(profile: Profile) -> str:
    # The first warm-up run is no measure of the others.
    return f"no unprofiled run{' but the first' if profile.trace.recorded.warmup_s else ''}"


def _first(profile: Profile) -> Figure:
    first = profile.summary.first_run_us
    if first is None:
        # What ran before a trace that another program wrote is not known.
        ours = profile.trace.recorded.profiled is not None
        return Figure("first", DASH, f"first run: no warm-up{'' if ours else ' was recorded'}")
    how = "profiled" if begins_cold(profile) else "not profiled"
    return Figure("first", duration(first), f"first run, {how}")
