"""The answer, why it is so, and the five figures under it, each with its meaning in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..explaining import meaning
from ..units import DASH, duration
from .findings import first_finding
from .startup import startup_sentences
from .words import (
    NO_OPERATOR,
    after_first,
    after_others,
    begins_cold,
    compared,
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

_STOPPED = "Stopped"

_TOO_SHORT = "the run was too short for the clock"


_UNTOLD = ("cpu-only", "unknown")
"""Verdicts on runs of which it is not told how long a device works."""

TONES = {
    "compute-bound": "device",
    "memory-bound": "device",
    "transfer-bound": "copy",
    "overhead-bound": "wait",
    "sync-bound": "wait",
    "python-bound": "wait",
    "cpu-only": "cpu",
}
"""What a verdict is about, which gives it its colour: the device works, copies, or waits for the
CPU; or there is the CPU alone. One meaning has one colour in every view."""


_TERMS = {
    "wall": "wall",
    "busy": "busy",
    "launches": "launch",
    "overhead": "profiled wall",
    "first": "first run",
}
"""What the glossary calls a figure."""


@dataclass(frozen=True)
class Headline:
    """The sentence above all else."""

    lead: str | None
    """A verdict of a word or two, to stand out before the text; None where there is none."""
    text: str
    tone: str | None = None
    """One of the values of `TONES`, or None."""

    @property
    def sentence(self) -> str:
        """Both as one sentence."""
        between = " " if self.lead == _STOPPED else ": "
        return f"{self.lead}{between}{self.text}" if self.lead else self.text


@dataclass(frozen=True)
class Figure:
    """A number with its unit, and what it means."""

    key: str
    """`wall`, `busy`, `launches`, `overhead` or `first`."""
    value: str
    """A dash where it was not measured; the label then says why."""
    label: str

    @property
    def about(self) -> str:
        """What the glossary says of it."""
        return meaning(_TERMS[self.key])


def headline(profile: Profile) -> Headline:
    """Return the answer, with the two numbers that prove it."""
    summary, stopped = profile.summary, profile.trace.recorded.stopped
    if stopped and _nothing_per_run(profile):
        return Headline(_STOPPED, f"by {visible(stopped.by)} in {visible(stopped.during)}")
    if not len(profile.trace):
        return Headline(None, "nothing was profiled")
    if not profile.complete:
        return Headline(_STOPPED, "before the first profiled run was over")
    verdict = summary.verdict
    tone = TONES.get(verdict or "")
    if verdict in _UNTOLD:
        return Headline(_lead(summary), f"a run takes {duration(summary.wall_us)}", tone)
    lead = _lead(summary)
    word, devices = gpu(profile), len(summary.device_names)
    who = f"the {word}" if devices == 1 else f"the busiest of {devices} {word}s"
    if not summary.wall_us:
        return Headline(lead, f"{who} works {duration(summary.device_busy_us)} of each run", tone)
    # Under the profiler, a device can be busy for longer than a run takes without it.
    part = (
        "all"
        if summary.device_busy_fraction == 1
        else compared(summary.device_busy_us, summary.wall_us)
    )
    return Headline(lead, f"{who} works {part} of a {duration(summary.wall_us)} run", tone)


def _lead(summary: Summary) -> str | None:
    """Return the verdict as words to begin a sentence with."""
    if summary.verdict is None:
        return None
    if summary.verdict == "unknown":
        return "Device not seen" if summary.device_busy_us is None else "Cause unknown"
    return "CPU only" if summary.verdict == "cpu-only" else summary.verdict.capitalize()


def reason(profile: Profile) -> str | None:
    """Return the sentence that proves the verdict; None where there is none to prove."""
    told = profile.summary.reason
    return visible(told) if told is not None and profile.complete else None


def answer(profile: Profile) -> list[str]:
    """Return the answer as a text has it: the verdict, what proves it, what to look at first."""
    told, why = headline(profile), reason(profile)
    lines = [told.sentence]
    if why is not None and profile.summary.verdict in _UNTOLD:
        # How long a run takes is among the figures that follow.
        lines = [f"{told.lead}: {why}"]
    elif why is not None:
        lines.append(why)
    first = first_finding(profile)
    return lines if first is None else [*lines, "".join(first)]


def details(profile: Profile) -> list[str]:
    """Return what was run, on what, and what is told of it beside the answer."""
    lines = [what_ran(profile)]
    if not len(profile.trace):
        return lines
    if not profile.complete:
        return [*lines, "the tables are of the run that was stopped, up to there"]
    devices = profile.devices["device"].tolist()
    if len(devices) == 1:
        # How busy it was is a figure of its own.
        lines[0] += f" · {device_label(profile, devices[0])}{_model(profile)}"
    else:
        lines += devices_busy(profile)
    if profile.operators.empty:
        lines.append(NO_OPERATOR)
    lines += memory(profile)
    if n := profile.summary.earlier_profiles:
        lines.append(
            f"this process was profiled {n} time{'s' * (n != 1)} before: CUPTI stays on, and small "
            "operators take longer than in a fresh one"
        )
    return [*lines, *startup_sentences(profile)]


def _model(profile: Profile) -> str:
    name = profile.devices["name"].iloc[0]
    return f" ({visible(name)})" if name else ""


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


def _without_work(summary: Summary) -> str | None:
    """Return why no device work was recorded, or None where some was."""
    return None if summary.device_names else summary.reason


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
        why = _without_work(summary) or _nothing_per_run(profile) or _TOO_SHORT
        return Figure("busy", DASH, f"{word} busy: {why}")
    numbers = profile.devices["device"].tolist()
    who = f"busiest of {len(numbers)} {word}s"
    if len(numbers) == 1:
        who = device_label(profile, numbers[0])
    return Figure("busy", f"{percent(fraction)} %", f"{who} busy")


def _launches(profile: Profile) -> Figure:
    summary = profile.summary
    if summary.launches is None:
        why = _without_work(summary) or _nothing_per_run(profile)
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
