"""What a reader must know to trust a trace, each in a sentence. A sound trace gives none."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..intervals import NONE, Floats, Ints, nest, number, union
from ..trace import DEVICE_WORK, Trace
from ..units import duration
from .attribution import Attribution, Mask
from .spread import largest_change, outliers, outlying_runs
from .startup import marginal

_LAUNCHES = re.compile(
    r"(cuda|hip|cu)(Ext|Drv)?(Module)?Launch(Cooperative)?Kernel\w*|(cuda|hip|cu)GraphLaunch\w*"
).fullmatch
"""Calls that start work whatever they are given. A copy or set of no bytes starts none, and no
record says of how many a call was; libraries make such calls on purpose."""

GRAPH_LAUNCH = re.compile(r"GraphLaunch").search

_CAPTURE = re.compile(r"(cuda|hip|cu)Stream(Begin|End)Capture\w*").fullmatch

_MOST_LOST, _TAIL = 0.1, 10
"""A record is cut short where this many last launches have no work, and of the others no more
than this part: one or two at the end may have been under way."""

_ROUNDED_NS = 1000

_PART = 0.01
"""The part of a whole from which on it is told: less moves no figure that a reader sees. Kernels
of recent devices begin while the one before on their stream ends, up to 0.6 % of the time in sound
traces."""

_FASTER, _FLOOR_US = 0.95, 100.0
"""Nothing is faster under the profiler: by less than this, it is scatter."""

_MANY = 10
"""Warm-up runs after which code is warm, if more of them are of any help."""

_LONGEST = 80


def doubts(found: Attribution) -> list[str]:
    """Return what is to be said of the events of a trace."""
    return [
        *_lost(found),
        *_early(found),
        *_overlapping_hosts(found),
        *_overlapping_work(found),
        *_outside_operators(found),
    ]


def unmatched_launches(found: Attribution) -> Mask:
    """Mark the launches of kernels and graphs in the runs of which no device work is recorded.

    What is launched while a stream is captured, by whatever thread (a backward pass has its own),
    becomes part of a graph and starts nothing, and is not marked.
    """
    trace = found.trace
    launches = np.flatnonzero(_launches(found))
    known = np.isin(trace.correlation[launches], trace.correlation[_work(trace)])
    lost = np.zeros(len(trace), bool)
    lost[launches[~known]] = True
    return lost


def early_work(found: Attribution) -> Mask:
    """Mark device work that starts before the call that launched it."""
    rows = np.flatnonzero(found.work & (found.launch != NONE))
    early = np.zeros(len(found.trace), bool)
    start = found.trace.start_ns
    early[rows] = start[rows] < start[found.launch[rows]]
    return early


def overlaps(found: Attribution) -> tuple[Ints, Ints]:
    """Return pairs of operators and annotations of a thread that overlap, neither inside the other.

    Of many that overlap each other, each is paired with the next to start. Files with times in
    whole microseconds let what nests end that much too late: by so little, none overlaps. What a
    compiler tells of its steps is in ranges that begin and end anywhere, and is left out.
    """
    trace = found.trace
    own = found.counted & trace.category_is("cpu_op", "user_annotation") & ~marginal(trace)
    rows = np.flatnonzero(own)
    lane = number(trace.process[rows], trace.thread[rows])
    nesting = nest(lane, trace.start_ns[rows], trace.end_ns[rows])
    # Siblings in the order of their starts have rising ends, so neighbours tell of all.
    above = np.where(nesting.parent != NONE, nesting.parent, NONE - 1 - lane)
    order = np.lexsort((nesting.position, above))
    first, second, above = rows[order][:-1], rows[order][1:], above[order]
    common = trace.end_ns[first] - trace.start_ns[second]
    beyond = trace.end_ns[second] - trace.end_ns[first]
    meet = (above[1:] == above[:-1]) & (common > _ROUNDED_NS) & (beyond > _ROUNDED_NS)
    return first[meet], second[meet]


def run_doubts(
    found: Attribution, walls_us: Floats, busy_us: Floats, unprofiled_us: list[float]
) -> list[str]:
    """Return what is to be said of runs: of each profiled one, wall and busy time are given."""
    by_wall, by_busy = outlying_runs(found, walls_us), outlying_runs(found, busy_us)
    return [
        *_unlike(found, walls_us, by_wall, "{} under the profiler", host=True),
        *_unlike(found, busy_us, by_busy & ~by_wall, "a device busy for {}", host=False),
        *_unlike_unprofiled(found, np.array(unprofiled_us)),
        *_faster_profiled(found, walls_us, unprofiled_us),
    ]


def _launches(found: Attribution) -> Mask:
    trace = found.trace
    launch = found.counted & (trace.correlation != 0) & trace.name_is(_LAUNCHES)
    at = np.flatnonzero(trace.name_is(_CAPTURE) & ~trace.on_device)
    if not len(at):
        return launch
    ends = trace.name_is(lambda name: "EndCapture" in name)[at]
    depth = np.cumsum(np.where(ends, -1, 1))
    # A capture that ends without a beginning began before the record did.
    depth = np.r_[0, depth] - min(int(depth.min()), 0)
    return launch & (depth[np.searchsorted(at, np.arange(len(trace)))] == 0)


def _work(trace: Trace) -> Mask:
    return trace.category_is(*DEVICE_WORK)


@dataclass(frozen=True)
class Lost:
    """Launches without work in the record, by where they are among all."""

    of: int
    """How many launches there are."""
    head: int
    """The first ones, before any with work."""
    between: int
    tail: int
    """The last ones, after any with work, where they are so many that the record ends early."""
    names: str
    """Names of the calls, the most frequent first."""
    before: str
    """When the record ends, in words."""


def lost_launches(found: Attribution) -> Lost:
    """Return how many launches have no work in the record: none where it has no work at all."""
    launches = np.flatnonzero(_launches(found))
    lost = unmatched_launches(found)[launches]
    kept = np.flatnonzero(~lost)
    n, missing = len(launches), int(lost.sum())
    # Where nothing of a device is in the record, there is no figure to doubt.
    if not missing or not _work(found.trace).any():
        return Lost(n, 0, 0, 0, "", "")
    head, tail = (int(kept[0]), n - 1 - int(kept[-1])) if len(kept) else (0, 0)
    if missing - head - tail > _MOST_LOST * (n - head - tail):
        head = tail = 0
    tail = tail if tail >= _TAIL else 0
    before = _before_the_last(found, launches)
    return Lost(n, head, missing - head - tail, tail, _names(found, launches[lost]), before)


def _lost(found: Attribution) -> list[str]:
    lost = lost_launches(found)
    n, told = lost.of, []
    if lost.tail:
        told.append(
            f"the device's record ends {lost.before}: the last {lost.tail:,} of "
            f"{n:,} launches have no work in it (the profiler's buffer was full, or it was stopped "
            "too soon): profile fewer iterations"
        )
    if lost.head:
        told.append(
            f"the device's record begins late: the first {lost.head:,} of {n:,} launches "
            f"{_have(lost.head)} no work in it, and what they started is in no figure"
        )
    if lost.between:
        told.append(
            f"{lost.between:,} of {n:,} launches {_have(lost.between)} no work in the record "
            f"({lost.names}): what they started is in no figure"
        )
    return told


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _before_the_last(found: Attribution, launches: Ints) -> str:
    end = found.trace.end_ns[_work(found.trace)].max()
    gap = int(found.trace.start_ns[launches[-1]] - end)
    return f"{duration(gap / 1000)} before the last launch" if gap > 0 else "early"


def _early(found: Attribution) -> list[str]:
    rows = np.flatnonzero(early_work(found))
    if not len(rows):
        return []
    start = found.trace.start_ns
    most = int((start[found.launch[rows]] - start[rows]).max())
    return [
        f"{len(rows):,} of {int(found.work.sum()):,} kernels, copies and sets start before the "
        f"call that launched them, by up to {duration(most / 1000)}: the clocks of CPU and device "
        "disagree, and how long these waited to start is not known"
    ]


def _overlapping_hosts(found: Attribution) -> list[str]:
    trace = found.trace
    first, second = overlaps(found)
    shared = trace.end_ns[first] - trace.start_ns[second]
    lane = number(trace.process[first], trace.thread[first])
    least = _PART * int((found.runs.end_ns - found.runs.start_ns).sum())
    annotation = trace.category_is("user_annotation")
    both = annotation[first] & annotation[second]
    told = []
    for mask, what, why in (
        (both, "annotations", ", as asynchronous code does"),
        (~both, "operators", ""),
    ):
        on_lane = np.bincount(lane, shared * mask)
        mask = mask & (on_lane > least)[lane]
        if not mask.any():
            continue
        one, other = first[mask], second[mask]
        most = int(np.argmax(shared[mask]))
        names = (short(trace.names[trace.name[row]]) for row in (one[most], other[most]))
        pair = " and ".join(f"'{name}'" for name in names)
        times = f" ({len(one):,} such pairs)" if len(one) > 1 else ""
        told.append(
            f"{what} {pair} overlap in part on one thread{why}{times}: what they share is counted "
            "in both"
        )
    return told


def _overlapping_work(found: Attribution) -> list[str]:
    trace, rows = found.trace, np.flatnonzero(found.work)
    if not len(rows):
        return []
    stream = number(trace.device[rows], trace.stream[rows])
    time = int(trace.duration_ns[rows].sum())
    covered = union(stream, trace.start_ns[rows], trace.end_ns[rows], int(stream.max()) + 1)
    share = 1 - int(covered.sum()) / time
    if share <= _PART:
        return []
    return [
        f"{share * 100:.0f} % of the device time is of work that overlaps other work on its own "
        "stream: the kernels add up to more than the device was busy, which counts it once"
    ]


def _outside_operators(found: Attribution) -> list[str]:
    trace, time = found.trace, found.trace.duration_ns
    rows = np.flatnonzero(found.work & (found.operator == NONE))
    launch = found.launch[rows]
    # That no operator launches a graph is as it should be.
    called = (launch != NONE) & ~trace.name_is(GRAPH_LAUNCH)[launch]
    alone = rows[launch == NONE]
    by, weight = launch[called], time[rows[called]]
    whole = int(time[found.work].sum())
    told = []
    if (share := int(weight.sum())) and share >= _PART * whole:
        one = len(np.unique(trace.name[by])) == 1
        told.append(
            f"{share / whole * 100:.0f} % of the device time was launched by "
            f"{_names(found, by, weight)}, outside all recorded operators: it stands in the "
            f"{'row of that call' if one else 'rows of those calls'}"
        )
    if (share := int(time[alone].sum())) and share >= _PART * whole:
        told.append(
            f"{share / whole * 100:.0f} % of the device time has no recorded launch: it is in the "
            "kernels alone"
        )
    return told


def _unlike(
    found: Attribution, values_us: Floats, odd: Mask, what: str, *, host: bool
) -> list[str]:
    runs = np.flatnonzero(odd)
    if not len(runs):
        return []
    median = float(np.nanmedian(values_us))
    most = int(runs[np.argmax(np.abs(values_us[runs] - median))])
    if len(runs) == 1:
        who = f"run {most + 1} of {len(values_us)} is an outlier"
        took = duration(values_us[most])
    else:
        listed = ", ".join(str(run + 1) for run in runs[:5]) + ", …" * (len(runs) > 5)
        who = f"{len(runs)} of {len(values_us)} runs are outliers ({listed})"
        took = f"{duration(values_us[runs].min())} to {duration(values_us[runs].max())}"
    change = largest_change(found, most, float(values_us[most]) - median, host=host)
    why = ""
    if change is not None:
        kind = "device time" if change.on_device else "self CPU"
        sign = "+" if change.extra_us > 0 else "-"
        of = "" if len(runs) == 1 else f" in run {most + 1}"
        why = (
            f"; the largest part of the difference{of} is {short(change.name)} "
            f"({sign}{duration(abs(change.extra_us))} {kind})"
        )
    contain = "it" if len(runs) == 1 else "them"
    return [
        f"{who}: {what.format(took)}, where the median is {duration(median)}{why}; the sums "
        f"contain {contain}"
    ]


def _unlike_unprofiled(found: Attribution, walls_us: Floats) -> list[str]:
    runs = np.flatnonzero(outliers(walls_us))
    if not len(runs):
        return []
    # The first warm-up run is none of these, but it was run.
    before = 0 if found.trace.recorded.unprofiled_s else 1
    n, median = len(walls_us), duration(float(np.median(walls_us)))
    if len(runs) == 1:
        return [
            f"unprofiled run {runs[0] + 1 + before} of {n + before} took "
            f"{duration(walls_us[runs[0]])}, where the median is {median}"
        ]
    return [
        f"{len(runs)} of {n + before} unprofiled runs took {duration(walls_us[runs].min())} to "
        f"{duration(walls_us[runs].max())}, where the median is {median}"
    ]


def _faster_profiled(found: Attribution, walls_us: Floats, unprofiled_us: list[float]) -> list[str]:
    # A few runs each differ by chance; that all of them do is told.
    if not len(walls_us) or not unprofiled_us or walls_us.max() >= min(unprofiled_us):
        return []
    profiled, unprofiled = float(np.median(walls_us)), float(np.median(unprofiled_us))
    if profiled >= min(_FASTER * unprofiled, unprofiled - _FLOOR_US):
        return []
    recorded = found.trace.recorded
    asked, ran = recorded.asked_warmup, len(recorded.warmup_s)
    # Who gave the walls, did not record here, or had no time for what was asked, would get none.
    more = asked is not None and not recorded.unprofiled_s and asked <= ran < _MANY
    advice = f". More warm-up runs (warmup {_MANY}) tell which" if more else ""
    return [
        f"the profiled runs were faster ({duration(profiled)}) than the unprofiled ones "
        f"({duration(unprofiled)}): the code was still warming up, or conditions differed{advice}"
    ]


def _names(found: Attribution, rows: Ints, weight: Ints | None = None) -> str:
    """Return the names of events, the most frequent (or heaviest) first, at most three."""
    names, at = np.unique(found.trace.name[rows], return_inverse=True)
    order = np.argsort(-np.bincount(at, weight, len(names)), kind="stable")
    told = [short(found.trace.names[name]) for name in names[order[:3]]]
    more = len(names) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")


def short(name: str) -> str:
    """Return a name of a kernel, which can fill a page, with its ends alone."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[-_LONGEST // 2 :]}"
