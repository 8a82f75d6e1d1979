"""How figures and names are put into words, the same in every view."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING

from ..units import DASH, amount, duration, unit

if TYPE_CHECKING:
    from ..analysis.summary import Summary
    from ..result import Profile
    from ..trace.recorded import Recorded

COLUMNS = 100
"""Width of a text, in columns of a terminal."""

LINE = 1_000
"""Characters of a sentence, in which names may be megabytes."""

NO_OPERATOR = "no torch operator was recorded"


def percent(fraction: float | None) -> str:
    """Return a fraction as percent: a part too small to print is not 0."""
    if fraction is None or math.isnan(fraction):
        return DASH
    if 0 < fraction < 0.0005:
        return "<0.1"
    return f"{fraction * 100:.1f}" if fraction else "0"


def compared(us: float | None, whole_us: float | None) -> str:
    """Return a time, if it can be, in the unit of the whole of which it is a part."""
    fit = unit([whole_us])
    if us is not None and fit.size / 10 <= us < fit.size:
        return f"{fit.number(us)} {fit.name}"
    return duration(us)


def sentence(text: str) -> str:
    """Return a text with a capital, unless it begins with a name, which stays as it is."""
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+ ", text) else text


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


def cut(text: str, most: int) -> str:
    """Return a text as it can be shown: of more than `most` characters, both ends.

    The result is longer than `most` where it was cut, by the words that say so. Of a long text
    only the ends are looked at: some names are megabytes.
    """
    end = most // 2 - 10
    if len(text) > most:
        head, tail = visible(text[:end]), visible(text[-end:])
        left = len(text) - 2 * end
        # An escape takes the place of some of the characters that were to be kept.
        more = "more than " if max(len(head), len(tail)) > end else ""
    else:
        head = tail = visible(text)
        if len(head) <= most:
            return head
        left, more = len(head) - 2 * end, ""
    return f"{head[:end]} … {more}{left:,} characters left out … {tail[-end:]}"


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
    timed, loops = len(told.unprofiled_s), len(told.loop_s)
    parts = [
        f"{n} {what}"
        for n, what in (
            (warmups, "warm-up"),
            (timed, "timed"),
            (discarded, "profiler warm-up"),
            (profiled, "profiled"),
        )
        if n
    ]
    planned = warmups + discarded + profiled
    total = planned + timed
    said = f"{total} run{'s' * (total != 1)}" + (f": {', '.join(parts)}" if parts else "")
    if not total:
        said = "no run completed"
    if total == profiled == 1:
        said = "1 run, profiled, no warm-up"
    if loops:
        said += f"; and {loops} time{'s' * (loops != 1)} many in a row"
    if (stopped := told.stopped) is not None:
        return f"{said}; stopped by {visible(stopped.by)} in {visible(stopped.during)}"
    return said + _left_out(told, planned)


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


def what_was_run(profile: Profile) -> list[str]:
    """Return the sentences on what was run, how long, how busy: the figures of a text."""
    lines = [what_ran(profile), *_walls(profile)]
    if not len(profile.trace):
        return lines
    if not profile.complete:
        return [*lines, "the tables are of the run that was stopped, up to there"]
    if profile.operators.empty:
        lines.append(NO_OPERATOR)
    if busy := devices_busy(profile):
        lines.append(" · ".join([*busy, *_launches(profile.summary)]))
    return [*lines, *memory(profile)]


def _walls(profile: Profile) -> list[str]:
    summary, parts = profile.summary, []
    if summary.wall_source == "unprofiled":
        spread = f" ±{percent(summary.wall_spread)} %" if summary.wall_spread is not None else ""
        said = f"not profiled{after_others(summary)}{spread}"
        parts.append(f"wall {duration(summary.wall_us)} per run, {said}")
        if summary.profiled_wall_us is not None:
            parts.append(f"{duration(summary.profiled_wall_us)} profiled")
    elif summary.wall_source == "profiled":
        parts.append(f"wall {duration(summary.wall_us)} per run{after_first(profile)}")
    # What is said of start-up tells how long the first run of a cold profile took.
    if summary.first_run_us is not None and not begins_cold(profile):
        parts.append(f"first run {duration(summary.first_run_us)}")
    return [" · ".join(parts)] if parts else []


def after_first(profile: Profile) -> str:
    """Return what to add to a time per run that was taken under the profiler."""
    return f"{' after the first' if begins_cold(profile) else ''}, under the profiler"


def begins_cold(profile: Profile) -> bool:
    """Tell whether the first profiled run was the first of all, and later ones can be told from it.

    The figures are then of the later ones.
    """
    return profile.trace.recorded.asked_warmup == 0 and profile.summary.first_run_us is not None


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


def memory(profile: Profile) -> list[str]:
    """Return the sentences about memory, if it was recorded."""
    peak, lines = profile.summary.peak_device_bytes, []
    if peak is not None:
        lines.append(f"at most {amount(peak)} of device memory allocated in a run")
    if profile.trace.recorded.memory:
        if peak is None and profile.memory.empty:
            lines.append("no device memory was allocated")
        elif peak is None:
            lines.append("the peak of device memory is not known")
        lines.append("with memory, torch records the cell's own thread and those of autograd alone")
    return lines


def _launches(summary: Summary) -> list[str]:
    if summary.launches is None:
        return []
    s = "" if summary.launches == 1 else "es"
    return [f"{count(summary.launches)} launch{s} per run"]
