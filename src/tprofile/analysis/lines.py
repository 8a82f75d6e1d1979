"""Which line of the user's code each event belongs to, and what each line took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ..errors import TprofileError
from ..intervals import NONE, Floats, Ints, Nesting, climb, depths, nest, number, union
from ..trace import Trace, marks
from ..trace.marks import Line
from .attribution import Attribution, Mask, kernel_starts, once
from .backward import ENGINE, forward
from .frames import user_frames

_DEEPEST = 49
"""Calls around the last one that a stack tells of: of a function that calls itself, enough."""

Keyed = tuple[Ints, np.ndarray]
"""For each event the index of its label, and the labels."""


@dataclass(frozen=True, eq=False)
class Stretches:
    """The stretches of time in which Python was in a line. Arrays but `of` have a value for each.

    They come from marks that our recorder left, or from the calls of functions that torch recorded:
    then a line is that in which a function begins.
    """

    lines: tuple[Line, ...]
    """The distinct lines: those of the cell first, then by file and number."""
    line: Ints
    """Index into `lines`."""
    event: Ints
    """Event of the trace that a stretch is."""
    start_ns: Ints
    end_ns: Ints
    """Where it ends, or one begins that is not inside it but overlaps it."""
    nesting: Nesting
    whole: Mask
    """Of a function, as our recorder marks it: it counts with all that it calls. Others count
    without the stretches inside them."""
    frames: bool
    """Whether they are torch's calls of functions."""
    of: Ints
    """For each event of the trace the innermost stretch that it was caused in, or `NONE`."""

    def __len__(self) -> int:
        return len(self.event)

    @cached_property
    def alone(self) -> Ints:
        """For each event the innermost of the stretches that count without others, or `NONE`."""
        if not len(self):
            return self.of
        return climb(self.nesting.parent, self.of, self.whole)

    @cached_property
    def of_cell(self) -> Mask:
        """Mark the statements of the cell itself."""
        cell = np.array([one.function is None and one.file is None for one in self.lines], bool)
        return cell[self.line] & ~self.whole

    @cached_property
    def caller(self) -> Ints:
        """The stretch of the function that called the one a stretch is in; `NONE` at the top."""
        # Of statements of the cell that stand in each other, the innermost is where it was.
        return np.where(self.whole | self.frames, self.nesting.parent, NONE)

    def label(self, line: int) -> str:
        """Return a line as text."""
        one = self.lines[line]
        if self.frames:
            return f"{one.file}({one.number}): {one.function}"
        within = "" if one.function is None else f" in {one.function}"
        return f"line {one.number}{within}" + ("" if one.file is None else f" of {one.file}")


def line_of(found: Attribution) -> Ints:
    """Return for each event the line of the cell that caused it, or `NONE`.

    The line is the one of the innermost statement of the cell around the event, on its own thread;
    of device work that of its launch; of what autograd's engine runs in another thread, that in
    which the run's own thread then was. It counts as the user counts: the magic's line is 1.
    """
    seen = stretches(found)
    number_of = np.array([one.number for one in seen.lines], np.int64)
    own = np.where(seen.of_cell, number_of[seen.line], NONE)
    return np.append(own, NONE)[seen.alone]


def line_marks(found: Attribution) -> Ints:
    """Return the events that are runs of a statement of the cell."""
    seen = stretches(found)
    return seen.event[seen.of_cell]


def lines(found: Attribution) -> pd.DataFrame:
    """Return a row per line of code that ran, as `Profile.lines` describes it."""
    trace, seen = found.trace, stretches(found)
    rows = np.flatnonzero(found.work)
    ahead = forward(found)[rows]
    in_backward = ahead != NONE
    starts = kernel_starts(found)
    nanoseconds = trace.duration_ns
    device = _of_lines(seen, seen.of[rows], nanoseconds[rows])
    behind = _of_lines(seen, seen.of[ahead[in_backward]], nanoseconds[rows[in_backward]])
    frame = pd.DataFrame(
        {
            "file": _texts(one.file for one in seen.lines),
            "line": np.array([one.number for one in seen.lines], np.int64),
            "source": _texts(_sources(trace, seen)),
            "calls": np.bincount(seen.line, minlength=len(seen.lines)),
            "cpu_us": _own_ns(seen) / 1000,
            "device_us": device / 1000,
            "backward_device_us": behind / 1000,
            "launches": _of_lines(seen, seen.of[starts], np.ones(len(starts))),
            "function": _texts(one.function for one in seen.lines),
        }
    )
    if not len(rows):
        frame[["device_us", "backward_device_us", "launches"]] = np.nan
    elif not in_backward.any() and _in_backward(found, rows):
        # Nothing tells what it belongs to.
        frame["backward_device_us"] = np.nan
    return frame


def _in_backward(found: Attribution, work: Ints) -> bool:
    """Tell whether any of this device work is of a backward pass, beyond what adds up gradients."""
    trace, table = found.trace, found.table
    node = _nodes(trace) & ~trace.name_is(lambda name: name.endswith("::AccumulateGrad"))
    inside = table[found.nesting.covered(node[table])]
    return bool(np.isin(np.r_[found.launch[work], found.operator[work]], inside).any())


def around(found: Attribution, event: int) -> list[tuple[int, str]]:
    """Return the lines that an event was caused in, the outermost first: event and text of each."""
    seen = stretches(found)
    at = int(seen.of[event]) if event != NONE else NONE
    chain = []
    while at != NONE:
        chain.append(at)
        at = int(seen.caller[at])
    sources = _sources(found.trace, seen)
    told = []
    for at in reversed(chain):
        line = int(seen.line[at])
        source = (sources[line] or "").strip()
        told.append((int(seen.event[at]), seen.label(line) + (f": {source}" if source else "")))
    return told


def by_line(found: Attribution, table: Ints) -> Keyed:
    """Return the innermost line of each event, as text; "" where it is in none.

    Raises TprofileError where no lines were recorded.
    """
    seen = _recorded(found)
    at = seen.of[table]
    codes = np.where(at != NONE, seen.line[at], len(seen.lines))
    return codes, _objects([*(seen.label(i) for i in range(len(seen.lines))), ""])


def by_stack(found: Attribution, table: Ints) -> Keyed:
    """Return the lines that each event was called from, the outermost first; "" for none.

    Raises TprofileError where no stacks were recorded.
    """
    seen = _recorded(found, stack=True)
    code = np.zeros(len(seen), np.int64)
    labels = [""]
    depth = depths(seen.caller)
    for level in range(min(int(depth.max(initial=0)), _DEEPEST) + 1):
        at = np.flatnonzero(depth == level)
        above = np.where(seen.caller[at] != NONE, code[seen.caller[at]], 0)
        _, first, index = np.unique(
            number(above, seen.line[at]), return_index=True, return_inverse=True
        )
        code[at] = len(labels) + index.reshape(-1)
        labels += [
            f"{labels[up]} → {seen.label(line)}" if up else seen.label(line)
            for up, line in zip(above[first].tolist(), seen.line[at[first]].tolist(), strict=True)
        ]
    beyond = np.flatnonzero(depth > _DEEPEST)
    tops, index = np.unique(code[climb(seen.caller, beyond, depth > _DEEPEST)], return_inverse=True)
    code[beyond] = len(labels) + index.reshape(-1)
    labels += [f"{labels[top]} → …" for top in tops.tolist()]
    at = seen.of[table]
    return np.where(at != NONE, code[at], 0), _objects(labels)


def _recorded(found: Attribution, stack: bool = False) -> Stretches:
    seen = stretches(found)
    if not len(seen):
        raise TprofileError(
            "no lines were recorded. Profile a cell with %%tprofile, or give stack=True for those "
            "of functions."
        )
    if stack and not seen.frames and not found.trace.recorded.stack:
        raise TprofileError(
            "no stacks were recorded. Profile with --stack, or stack=True, for the lines of "
            "functions too."
        )
    return seen


@once
def stretches(found: Attribution) -> Stretches:
    """Return where in the user's code a trace was, worked out once for all figures."""
    trace = found.trace
    said = [marks.parse_line(name) for name in trace.names]
    named = np.array([one is not None for one in said] or [False])
    event = np.flatnonzero(trace.category_is("cpu_op"))
    event = event[named[trace.name[event]]]
    frames = not len(event)
    if frames:
        event, said = user_frames(trace)
    if found.runs.source == "marks":
        event = event[found.run[event] != NONE]
    used, index = np.unique(trace.name[event], return_inverse=True)
    told = [one for code in used.tolist() if (one := said[code]) is not None]
    order = sorted(range(len(told)), key=lambda i: _place(told[i]))
    rank = np.empty(len(told), np.int64)
    rank[order] = np.arange(len(told))
    line = rank[index.reshape(-1)] if len(told) else index.reshape(-1)
    lines = tuple(told[i] for i in order)

    lane = found.lane[event]
    start, end = trace.start_ns[event], trace.end_ns[event]
    nesting = nest(lane, start, end)
    end = _clipped(lane, start, end, nesting)
    in_function = np.array([one.function is not None for one in lines], bool)[line]
    return Stretches(
        lines=lines,
        line=line,
        event=event,
        start_ns=start,
        end_ns=end,
        nesting=nesting,
        whole=in_function & (not frames),
        frames=frames,
        of=_attributed(found, event, _Sweep(lane, start, end, nesting)),
    )


def _place(line: Line) -> tuple[str, int, str]:
    """Return what lines are sorted by. No file and no function are called ""."""
    return line.file or "", line.number, line.function or ""


def _clipped(lane: Ints, start: Ints, end: Ints, nesting: Nesting) -> Ints:
    """Return ends, moved to where another stretch begins that overlaps one in part."""
    walk = np.argsort(nesting.position)
    after = nesting.position + nesting.size
    next_one = walk[np.minimum(after, len(walk) - 1)] if len(walk) else after
    overlaps = (after < len(walk)) & (lane[next_one] == lane)
    return np.where(overlaps, np.minimum(end, start[next_one]), end)


class _Sweep:
    """Finds the innermost of nested stretches at given times."""

    def __init__(self, lane: Ints, start: Ints, end: Ints, nesting: Nesting) -> None:
        # Within an empty one there is nothing.
        one = np.flatnonzero(end > start)
        place = nesting.position[one] + 1
        lanes, time = np.r_[lane[one], lane[one]], np.r_[start[one], end[one]]
        # At one moment ends come before starts, the inner end first and the outer start first.
        order = np.lexsort((np.r_[place, -place], time, lanes))
        self._lane, self._time = lanes[order], time[order]
        self._inside = np.r_[one, nesting.parent[one]][order]

    def lanes(self) -> list[int]:
        return np.unique(self._lane).tolist()

    def at(self, lane: Ints, time: Ints) -> Ints:
        """Return the innermost stretch in which each time of a lane lies, or `NONE`."""
        inside = np.full(len(lane), NONE)
        for one in self.lanes():
            mine, asked = self._lane == one, lane == one
            before = np.searchsorted(self._time[mine], time[asked], "right")
            inside[asked] = np.r_[NONE, self._inside[mine]][before]
        return inside


def _attributed(found: Attribution, event: Ints, sweep: _Sweep) -> Ints:
    """Return for each event of the trace the innermost stretch that it was caused in."""
    trace = found.trace
    of = np.full(len(trace), NONE)
    if not len(event):
        return of
    host = np.flatnonzero(~trace.on_device)
    of[host] = sweep.at(found.lane[host], trace.start_ns[host])
    home = _home(found, sweep)
    waited_for = host[(of[host] == NONE) & (found.lane[host] != home)]
    waited_for = waited_for[_nodes(trace)[found.root[waited_for]]]
    begun = trace.start_ns[found.root[waited_for]]
    of[waited_for] = sweep.at(np.full(len(begun), home), begun)
    of[event] = np.arange(len(event))
    return found.with_work(of)


def _home(found: Attribution, sweep: _Sweep) -> int:
    """Return the lane of the thread that the runs are in, which waits for its backward passes."""
    if len(found.runs.rows):
        return int(found.lane[found.runs.rows[0]])
    lanes = sweep.lanes()
    return lanes[0] if len(lanes) == 1 else NONE


def _nodes(trace: Trace) -> Mask:
    """Mark what autograd's engine runs."""
    return trace.name_is(lambda name: name.startswith(ENGINE))


def _of_lines(seen: Stretches, at: Ints, values: Ints | Floats) -> Floats:
    """Return for each line the sum of values that belong to stretches (`NONE`: to none)."""
    at, values = at[at != NONE], values[at != NONE]
    alone = climb(seen.nesting.parent, at, seen.whole)
    outside = alone != NONE
    own = _sum(seen, alone[outside], values[outside])
    # Exact: nanoseconds are whole, and far below 2**53.
    sums = seen.nesting.subtree_sum(np.bincount(at, values, len(seen)).astype(np.int64))
    once = np.flatnonzero(seen.whole & ~seen.nesting.inside_same(seen.line))
    return own + _sum(seen, once, sums[once])


def _own_ns(seen: Stretches) -> Floats:
    """Return for each line the time that was spent in it, as `_of_lines` counts."""
    time = seen.end_ns - seen.start_ns
    above = climb(seen.nesting.parent, seen.nesting.parent, seen.whole)
    inner = np.flatnonzero(~seen.whole & (above != NONE))
    inside = union(above[inner], seen.start_ns[inner], seen.end_ns[inner], len(seen))
    counted = np.flatnonzero(~seen.whole | ~seen.nesting.inside_same(seen.line))
    own = time - np.where(seen.whole, 0, inside)
    return _sum(seen, counted, own[counted])


def _sum(seen: Stretches, at: Ints, values: Ints | Floats) -> Floats:
    return np.bincount(seen.line[at], values, len(seen.lines)).astype(np.float64)


def _sources(trace: Trace, seen: Stretches) -> list[str | None]:
    """Return the text of each line, None where the recorder did not keep it."""
    recorded = trace.recorded
    known: dict[tuple[str | None, int], str] = {
        (one.file, one.line): one.text for one in recorded.lines
    }
    if recorded.source is not None:
        own = enumerate(recorded.source.split("\n"), recorded.first_line)
        known.update({(None, number): text for number, text in own})
    if seen.frames:
        return [None] * len(seen.lines)
    return [known.get((one.file, one.number)) or None for one in seen.lines]


def _texts(values: Iterable[str | None]) -> pd.Series:
    return pd.Series(list(values), dtype=object)


def _objects(values: list[str]) -> np.ndarray:
    return np.array(values, object)
