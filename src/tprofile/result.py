"""`Profile`: what a user holds."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .analysis import idle, lines, memory, modules, roofline, startup, tables
from .analysis.attribution import Attribution, attribute
from .analysis.chain import chain
from .analysis.finding import Finding
from .analysis.findings import findings
from .analysis.strip import Strip, strip
from .analysis.summary import Summary, summarize
from .analysis.timeline import Timeline, run_index, timeline
from .analysis.tree import tree
from .errors import TprofileError
from .files import whole_file
from .trace import Trace
from .trace.read import read
from .trace.write import dump, offset_ns, write

if TYPE_CHECKING:
    import pandas as pd

    from .comparison import Comparison


class Profile:
    """One profiled piece of code: tables, figures, and the trace that they all come from.

    Times are microseconds. `operators`, `operators_by` and `kernels` are sums over the profiled
    runs, `summary` and `devices` are per run. Every frame is the caller's own copy.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._frames: dict[str, pd.DataFrame] = {}

    @cached_property
    def _found(self) -> Attribution:
        return attribute(self.trace)

    @cached_property
    def summary(self) -> Summary:
        """Figures per run (medians), with what was not measured as None."""
        return summarize(self._found)

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return tuple(findings(self._found, self.summary))

    @property
    def findings(self) -> list[Finding]:
        """What holds the code back, or spoils the record: the largest gain first, then those
        without one. None in a healthy run.
        """
        return list(self._findings)

    @cached_property
    def strip(self) -> Strip | None:
        """A typical run to scale, for a chart of a few rows; None where nothing was recorded."""
        return strip(self._found)

    def timeline(self, run: int) -> Timeline:
        """Return a run, counted from 1, with every call at its depth, for a chart to zoom into.

        Raises TprofileError where there is no such run.
        """
        return timeline(self._found, run)

    @property
    def run_source(self) -> str:
        """What tells one run from the next: "marks" (ours), "steps" (ProfilerStep#N), "trace"."""
        return self._found.runs.source

    @property
    def run_times_ns(self) -> list[tuple[int, int]]:
        """Start and end of each run, in nanoseconds, as in the file that `export_trace` writes."""
        runs, offset = self._found.runs, offset_ns(self.trace)
        starts, ends = runs.start_ns + offset, runs.end_ns + offset
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    @property
    def complete(self) -> bool:
        """Whether the profiled runs came to their end: False if an error stopped the only one."""
        return self._found.runs.complete

    @property
    def operators(self) -> pd.DataFrame:
        """A row per operator: `name, calls, self_cpu_us, cpu_us, self_device_us, device_us`.

        The CPU rows of torch's `key_averages()`, sums over the runs, busiest device first. Python
        functions (`with_stack`), which torch 2.13 lists beside them, are no operators and are left
        out, as in the versions before: an operator's time is the same with stacks and without.

        `self_launched_us` and `launched_us` are the device time of what was launched outside all
        operators (a CUDA graph): in the row of the call that did it, and in those around it. With
        `self_device_us`, the former adds up to all device work whose launch was recorded.

        `X_min_us, X_median_us, X_max_us` say how the sum in one run differs from run to run, for X
        of `self_cpu, cpu, self_device, device`: 0 for a run without the operator. What a trace with
        ProfilerStep marks has outside all runs is in the sums, but in no run.

        Device columns are NaN without device work; those by run, where no run is complete.

        With `flops` also `flops`: operations on numbers in the sum over the calls, a multiplication
        with its addition as two, from the shapes of inputs; NaN where those of any call are not
        known, and for what only calls others.

        With `memory` also `self_device_bytes, self_cpu_bytes`: bytes allocated less bytes released
        by the operator itself. torch counts by the clock alone, and adds to that what other threads
        allocate meanwhile (a backward pass, to an annotation around it).
        """
        return self._frame("operators", self._operators)

    def operators_by(self, key: str) -> pd.DataFrame:
        """Return `operators` with a row per name and value of `key`: "shape", "thread", "run",
        "line", "module" or "stack".

        Shapes are as torch writes them, but for those in a list of tensors, which torch leaves out.
        By "line" it is the innermost line of the user's code that the calls were made in, by
        "stack" that with those it was called from, the outermost first; "" for none. Both are text.
        By "module" it is the innermost nn.Module, as in `modules`; what is part of a backward pass
        is that of its forward operator; "" for none.
        Raises TprofileError where lines, stacks or modules were not recorded.
        By "run" there are no columns of how runs differ: each row is of one.
        """
        if not isinstance(key, str):
            raise TprofileError(f"the key is {key!r}, but must be text, such as 'shape'.")
        return self._frame(f"operators by {key}", lambda: self._operators(key))

    def _operators(self, by: str | None = None) -> pd.DataFrame:
        return memory.operators(self._found, tables.operators(self._found, by), by)

    @property
    def tree(self) -> pd.DataFrame:
        """The calls as a tree, a row per node: `id, parent, depth, name, calls, self_cpu_us,
        cpu_us, self_device_us, device_us`.

        Calls of a name under the same node are one node; parents come first. Sums over the runs.
        Device time is that of what the calls launched, graphs included.
        """
        return self._frame("tree", lambda: tree(self._found))

    def tree_of(self, run: int) -> pd.DataFrame:
        """Return `tree` of one run, counted from 1.

        Raises TprofileError where there is no such run.
        """
        at = run_index(self._found, run)
        return self._frame(f"tree of {at}", lambda: tree(self._found, at))

    @property
    def kernels(self) -> pd.DataFrame:
        """A row per kernel, copy or set, with the operator, device and stream that it ran for.

        Columns `name, operator, device, stream, calls, device_us, mean_us, min_us, median_us,
        max_us` (of a call), `run_min_us, run_median_us, run_max_us` (of the sum in a run, 0 for a
        run without it; NaN where no run is complete), `delay_us` and `queued` (medians: from launch
        to start, and how many works of its device were launched and not done at its launch; NaN
        where no launch was recorded), and where recorded `grid, block, occupancy`.
        """
        return self._frame("kernels", lambda: tables.kernels(self._found))

    @property
    def runs(self) -> pd.DataFrame:
        """A row per profiled run: `run, wall_us, device_busy_us, cpu_us, launches, outlier`.

        `device_busy_us` and `launches` are NaN without device work, and for a run of which the
        profiler lost all. `outlier` marks a run, of three or more, whose wall or device busy time
        is away from the median by more than a quarter of it, five times the median distance from
        it, and 100 µs; never the first of a profile without warm-up, as what it paid for is told.

        With `memory` also `peak_device_bytes`: the most that was allocated at a time on any one
        device, with what was there when the run began. NaN where nothing tells what that was.
        """
        return self._frame("runs", lambda: memory.runs(self._found, tables.runs(self._found)))

    @property
    def memory(self) -> pd.DataFrame:
        """A row per allocation or release on a device, by time: `time_us, device, allocated_bytes,
        reserved_bytes, bytes, operator, run`.

        `time_us` is on the clock of `events`. Allocated is what tensors hold of the device after
        it, reserved what torch's allocator does (both NaN where not recorded), `bytes` the change
        itself, below 0 for a release, `operator` the innermost one around it on its thread, or
        None, `run` -1 outside the runs. Memory of the host has no row, as torch knows no total of
        it. Empty where memory was not recorded: profile with `--memory`, or `memory=True`.
        """
        return self._frame("memory", lambda: memory.memory(self._found))

    @property
    def roofline(self) -> pd.DataFrame:
        """A row per name, operator, input shapes and device of device work: `name, operator, shape,
        device, kind, calls, device_us, flops, bytes, intensity, tflops_per_s, gb_per_s, bound,
        fraction`.

        Sums over the runs, the most time first. `flops` and `bytes` come from the recorded shapes
        of the operator's inputs, `intensity` is operations per byte; `bound` says which limit of
        the device is the nearer one, "compute" or "memory", and `fraction` how much of that was
        reached. NaN, and None, where shapes or limits are not known. The page "roofline" of the
        documentation tells what is counted.
        """
        return self._frame("roofline", lambda: roofline.frame(self._found))

    @property
    def lines(self) -> pd.DataFrame:
        """A row per line of code that ran: `file, line, source, calls, cpu_us, device_us,
        backward_device_us, launches, function`. Sums over the runs, by file and line.

        A statement of the cell has neither file nor function: its line is counted as the user sees
        it, the magic's being 1, and its figures are of it alone, without those of the statements
        inside it. `calls` is how often it ran, `cpu_us` how long. `device_us` is all that it
        launched, in functions that it called too, and in the backward pass that it waited for.
        `backward_device_us` is what the backward pass of its operators took in turn, so it is part
        of another line's `device_us`. `launches` are calls that started kernels. The last three are
        NaN without device work; `backward_device_us` also where nothing in the trace ties the
        backward pass to what it belongs to.

        With `stack` also the lines of functions, of the cell (`file` is None), other cells and
        files. Each counts with all that it calls, once where a function calls itself: such rows
        are part of those that call them.

        In a trace of torch's own with stacks, a row is a function of the user's, its line the one
        that it begins in, its figures of it alone; `source` is None. Empty where neither was
        recorded.
        """
        return self._frame("lines", lambda: lines.lines(self._found))

    @property
    def modules(self) -> pd.DataFrame:
        """A row per nn.Module that was called: `module, type, parent, calls, cpu_us, self_cpu_us,
        device_us, self_device_us, backward_cpu_us, backward_device_us, launches, compiled`.

        Sums over the runs, in the order of the first calls. `module` is the path below the
        outermost module called; that one itself has the name of the global variable that it is the
        value of, else of its class, and stands before the paths where there are several. `parent`
        is the row of the module around its first call, -1 for none. `cpu_us` is how long the calls
        took, `device_us` the work that they launched, with the modules inside and once where a
        module is inside itself; `self_` is without those. `backward_` is what the backward pass of
        its operators took: a part of no other column. `launches` are calls that started kernels.
        `compiled` says that it ran code of torch.compile, in which modules are not told apart.

        Device columns are NaN without device work; those of the backward pass also where nothing in
        the trace ties it to what it belongs to. A trace of torch's own with stacks tells the class
        and number of each module in place of its name. Empty where neither was recorded: profile
        with `--modules`, or `modules=True`.
        """
        return self._frame("modules", lambda: modules.modules(self._found))

    @property
    def source(self) -> str | None:
        """Text of the profiled cell, with a blank line for each one above it in the cell that the
        user sees, so that its lines are counted as in `lines`. None where it was not recorded.
        """
        recorded = self.trace.recorded
        if recorded.source is None:
            return None
        return "\n" * (recorded.first_line - 1) + recorded.source

    @property
    def devices(self) -> pd.DataFrame:
        """A row per device: `device, name, busy_us, busy_fraction, kernels_us, copies_us`.

        Medians per run.
        """
        return self._frame("devices", lambda: tables.devices(self._found, self.summary.wall_us))

    @property
    def idle(self) -> pd.DataFrame:
        """A row per stretch of a run in which a device had nothing to do: `device, run, start_us,
        duration_us, sync_us, overhead_us, python_us, queued, wait, next`.

        `sync_us`, `overhead_us` and `python_us` say what the host did meanwhile, and add up to the
        duration: it had waited for the device, it was in torch operators and launches (or the work
        had been launched already: then `queued` is true, and the delay is the device's own), or it
        did work of its own (Python, operators that run on the CPU). What is missing is our own wait
        at the end of a run. `wait` and `next` are rows of `events`: the call in which the host
        waited when the stretch began, and the work that ended it; -1 for none.
        """
        return self._frame("idle", lambda: idle.frame(self._found))

    @property
    def startup(self) -> pd.DataFrame:
        """A row per cost that a run paid for and the others did not: `run, cost, name, calls,
        cpu_us`.

        Loading kernels, compiling, asking for memory; of a cold profile with several runs also
        what no event says. The times of a run add up to no more than its wall.
        """
        return self._frame("startup", lambda: startup.startup(self._found))

    @property
    def events(self) -> pd.DataFrame:
        """Every recorded event, raw, by start: `name, category, start_us, duration_us, thread,
        device, stream, correlation, external_id, parent, run, forward`. -1 stands for "none".

        `parent` and `forward` are rows of this frame: what an event stands in (device work: its
        launch), and the operator of the forward pass whose backward it is part of.
        """
        return self._frame("events", lambda: tables.events(self._found))

    def chain(self, kernel: int | str) -> pd.DataFrame:
        """Return what led to a kernel, copy or set, the outermost first: `level, name, start_us,
        duration_us, delay_us, waited_for, event`.

        `kernel` is a row of `events`, or a name, which stands for its longest call. `level` is
        `line` (the line of code, and those of functions that it was called from), `forward` (the
        operator whose backward this is, its lines and module ahead of it), `annotation`, `module`
        (the innermost), `operator`, `launch`, or, of the work itself, `kernel`, `copy` or `set`.
        `delay_us` is from the start of the launch to that of the work, NaN where it is not known;
        `waited_for` the work on the same stream that was not over when this was launched, or None;
        `event` the row of `events`. Raises TprofileError for what is no such work.
        """
        return chain(self._found, kernel)

    def compare(self, other: Profile) -> Comparison:
        """Return this profile, as A, and another one, as B, side by side."""
        from .comparison import compare

        return compare(self, other)

    def __reduce__(self) -> tuple[Any, ...]:
        # torch's own record cannot be pickled; the file that it would be saved as says the same.
        return _unpickled, (b"".join(dump(self.trace)),)

    def _frame(self, name: str, make: Any) -> pd.DataFrame:
        if name not in self._frames:
            self._frames[name] = make()
        return self._frames[name].copy()

    def export_trace(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> str:
        """Write the trace as Kineto JSON, gzipped if `path` ends in `.gz`, and return the path.

        The file is complete or absent, and `tprofile.load` of it gives equal frames. Raises
        TprofileError where it cannot be written, or exists and `overwrite` is off.
        """
        return write(self.trace, path, overwrite=overwrite)

    def text(self, sort: str | None = None, limit: int | None = 15) -> str:
        """Return the figures and tables as text of at most 100 columns.

        `sort` is a column of `operators`; `limit` the most rows in a table, None for all.
        """
        from .views.text import text

        if limit is not None and (type(limit) is not int or limit < 1):
            raise TprofileError(f"limit is {limit!r}, but must be 1 or more, or None for all rows.")
        return text(self, sort, limit)

    def to_html(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> str:
        """Write all that the notebook shows as one HTML file, and return the path.

        It needs no kernel, no server and no network, and holds the trace too (if its file has at
        most 16 MB), to be downloaded or opened in Perfetto. Raises TprofileError where it cannot
        be written, or exists and `overwrite` is off.
        """
        from .views.page import document

        with whole_file(path, overwrite=overwrite) as file:
            file.write(document(self).encode())
        return os.fspath(path)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<tprofile.Profile: {len(self.trace)} events, {len(self._found.runs)} runs>"

    def _repr_html_(self) -> str:
        from .views.page import page
        from .views.payload import payload

        return page(self, payload(self))

    def _ipython_display_(self) -> None:
        from .views.show import show

        show(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self) if cycle else str(self))


def _unpickled(data: bytes) -> Profile:
    return Profile(read(data))
