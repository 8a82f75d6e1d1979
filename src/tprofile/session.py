"""Run something warmed up, then under torch's profiler, and return what was recorded."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar, NoReturn

import torch
from torch._C._profiler import _ExperimentalConfig, _RecordFunctionFast

from .conditions import Conditions
from .errors import TprofileError
from .modules import ModuleMarks, skip
from .quiet import deferred_interrupt, profiler_lines_dropped
from .stepping import Stepper, UserFiles, own_codes
from .trace import Trace, marks
from .trace.build import empty
from .trace.line_log import MOST, LineLog
from .trace.lines import with_lines
from .trace.live import read_results
from .trace.recorded import Line, Stopped


@dataclass(frozen=True)
class Plan:
    """How often to run, and what to record."""

    warmup: int = 3
    """Unprofiled runs, each timed. With any, one more run under the profiler is discarded."""
    repeat: int = 3
    """Profiled runs, at least 1."""
    max_seconds: float | None = None
    """After the first run, make fewer if they would take longer than this; one is profiled."""
    device: str = "auto"
    """`cpu`, `cuda` (an error where there is none), or `auto`: CUDA where there is one."""
    shapes: bool = True
    """Record the shapes of each operator's inputs."""
    memory: bool = False
    """Record allocations and releases, which slows whatever makes many of them."""
    flops: bool = False
    """Count the operations of operators, from the shapes of their inputs."""
    modules: bool = False
    """Mark the calls of every nn.Module, which adds some µs to each."""
    stack: bool = False
    """Mark the lines of the user's functions, which slows all Python code."""


Around = Callable[[bool], contextlib.AbstractContextManager[object]]


Noted = Callable[[LineLog], Callable[[], object]]
"""Returns the code of a run that logs when each of its statements runs."""


def _nothing_around(last: bool) -> contextlib.AbstractContextManager[object]:
    return contextlib.nullcontext()


def record(
    run: Callable[[], object],
    plan: Plan,
    *,
    before: Callable[[], object] | None = None,
    around: Around = _nothing_around,
    stage: Callable[[str], None] = lambda text: None,
    noted: Noted | None = None,
    file_name: Callable[[str], str | None] = lambda filename: filename,
) -> tuple[Trace, BaseException | None]:
    """Make the runs of `plan`; return the Trace, and the error that ended them early, if any.

    `before` is called ahead of every run, and both happen inside `around(last)`, a context in which
    `last` says that no other run follows. Neither is timed or in the figures. `stage` is told what
    is being done. `noted` gives what is run under the profiler in the place of `run`: the same
    with notes of its lines. `file_name` is what a user calls a file of code, None for that of the
    lines that are noted.

    An error, an interrupt included, ends the session: it is returned beside what was measured until
    then. Raises TprofileError where nothing can be profiled from the beginning.
    """
    session = Session(run, plan, before, around, stage, noted, file_name)
    try:
        session.warm_up()
        session.profile()
    except BaseException as error:
        return session.trace(error), error
    return session.trace(None), None


class Recorder:
    """Record one stretch of code, without warm-up: for `tprofile.record`."""

    def __init__(self, plan: Plan) -> None:
        self._session = Session(lambda: None, plan, None, _nothing_around, lambda text: None)
        self._mark = _mark(marks.RUN)
        self._thread = threading.get_ident()

    def start(self, caller: FrameType) -> None:
        """Start recording what `caller` does; what interrupts the start leaves nothing running."""
        profiler = self._session.profiler
        self._session.look()
        try:
            profiler.prepare()
            profiler.start()
            if self._session.modules:
                self._session.modules.start()
            self._session.doing = "profiled run 1 of 1"
            self._began = time.perf_counter()
            self._mark.__enter__()
            if self._session.stepper:
                self._session.stepper.start(caller)
        except BaseException:
            self._mark.__exit__(None, None, None)
            self._end()
            raise

    def stop(self) -> None:
        """Stop recording; device work that fails only now raises the user's error.

        Raises TprofileError in another thread than that of the start, which can still stop it.
        """
        if threading.get_ident() != self._thread:
            raise TprofileError(
                "a recording has to end in the thread that began it: torch records that one. "
                "Leave the `with` block of tprofile.record there."
            )
        if self._session.stepper:
            self._session.stepper.stop()
        try:
            with _mark(marks.SYNCHRONIZE):
                synchronize()
        finally:
            self._mark.__exit__(None, None, None)
            self._session.ran_s += time.perf_counter() - self._began
            self._end()

    def _end(self) -> None:
        if self._session.stepper:
            self._session.stepper.stop()
        if self._session.modules:
            self._session.modules.stop()
        self._session.profiler.stop(self._session.notes)

    def trace(self, error: BaseException | None) -> Trace:
        """Return what was recorded; `error` is what ended the stretch early, if any."""
        self._session.profiled = 0 if error else 1
        return self._session.trace(error)


class Session:
    """The runs of one piece of code: unprofiled ones, then those under the profiler, once."""

    def __init__(
        self,
        run: Callable[[], object],
        plan: Plan,
        before: Callable[[], object] | None,
        around: Around,
        stage: Callable[[str], None],
        noted: Noted | None = None,
        file_name: Callable[[str], str | None] = lambda filename: filename,
    ) -> None:
        refuse_nested()
        self._run, self._plan, self._stage = run, plan, stage
        self._before, self._around = before, around
        self.profiler = _Profiler(plan)
        self.modules = ModuleMarks() if plan.modules else None
        self.stepper = _stepper(file_name) if plan.stack else None
        self._log = LineLog()
        self._make_noted = noted
        self._noted = noted(self._log) if noted else None
        self._began = time.perf_counter()
        self._last_s = self.ran_s = 0.0
        self._conditions = Conditions()
        self.warmup_s: list[float] = []
        self.timed_s: list[float] = []
        self.loop_s: list[float] = []
        self.discarded = 0
        self.profiled = 0
        self.notes: list[str] = []
        if self._noted and self._log.empty:
            self.notes.append(
                "the cell nests too deeply for its lines to be told: Python cannot compile it with "
                "notes of them. Put its inner part into a function."
            )
        self.doing = ""
        self.called = ""
        """What tells the runs from those of another session."""

    def warm_up(self) -> None:
        wanted = self._plan.warmup
        # At least a profiled run, and the discarded one before it, are to fit behind each warm-up.
        while len(self.warmup_s) < wanted and (not self.warmup_s or self.fits(3)):
            self.warm()

    def warm(self) -> None:
        """Make one warm-up run."""
        self._say(f"warm-up {len(self.warmup_s) + 1} of {self._plan.warmup}")
        self.warmup_s.append(self._timed(last=False))
        # One that the code started and left running.
        refuse_nested()

    def check(self) -> None:
        """Make one run whose results are looked at, and that is in no figure."""
        self._say("run for the results")
        self._timed(last=False)

    def time(self) -> None:
        """Make one more unprofiled run: with any, they are the measure, and not the warm-up."""
        self._say(f"timed run {len(self.timed_s) + 1}")
        self.timed_s.append(self._timed(last=False))

    @property
    def resets(self) -> bool:
        """Whether something is to be done ahead of every run."""
        return self._before is not None

    def loop(self, runs: int) -> None:
        """Make unprofiled runs in a row, and wait for the device once, after all of them."""
        self._say(f"{runs} runs in a row")
        with self._around(False):
            synchronize()
            begin = time.perf_counter()
            for _ in range(runs):
                self._run()
            synchronize()
            took = time.perf_counter() - begin
        self.ran_s += took
        self.loop_s.append(took / runs)

    def profile(self) -> None:
        self._say(self.profiler.start_text)
        try:
            self.profiler.prepare()
            self.profiler.start()
            # After the start, which takes milliseconds: the run behind it is slower than the next.
            if self._plan.warmup and self.fits(2):
                self._say("profiler warm-up")
                self._timed(last=False, name=marks.WARMUP)
                self.discarded = 1
                self._thin_out(self._plan.repeat)
                self._log.clear()
            self._profiled_runs()
            self._stage("reading what was recorded")
        finally:
            if self.modules:
                # Once more: an interrupt can come just as a run has ended.
                self.modules.stop()
            self.profiler.stop(self.notes)

    def _thin_out(self, runs: int) -> None:
        """Note fewer statements from now on where so many runs of what is noted are too many."""
        begun = self._log.begun
        if self._make_noted is None or self._log.outermost or begun * runs <= MOST:
            return
        self._log.outermost = True
        self._noted = self._make_noted(self._log)
        self.notes.append(
            f"a run of the cell has at least {begun:,} statements, too many to time each: those "
            "inside others are told as part of them. Put a loop of plain Python into a function, "
            "inside which no lines are told, and the rest of the cell has its lines"
        )

    def _profiled_runs(self) -> None:
        wanted = self._plan.repeat
        ran = bool(self.warmup_s)
        last = False
        # No run follows one that was called the last, even if time is left after all.
        while not last and (not self.profiled or self.fits(1)):
            self._say(f"profiled run {self.profiled + 1} of {wanted}")
            last = self.profiled + 1 == wanted or (ran and not self.fits(2))
            self._timed(last)
            self.profiled += 1
            ran = True

    def _timed(self, last: bool, name: str = marks.RUN) -> float:
        self.look()
        run = self._run
        stepping: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        # No mark may be open while a profiler starts or stops, as one of the user's may in warm-up.
        prepared = self.profiler.prepared
        mark = _mark if prepared else contextlib.nullcontext
        if prepared and self._noted:
            run = self._noted
        if prepared and self.stepper:
            stepping = self.stepper
        # Only the code itself is inside the clock and the mark: all else would be taken for it.
        with self._around(last), contextlib.ExitStack() as settings:
            if self._before is not None:
                with mark(marks.BEFORE):
                    self._before()
                    synchronize()
            if prepared and self._noted:
                settings.enter_context(self._log.between_readings(_mark))
            if prepared and self.modules:
                settings.enter_context(self.modules.marked())
            begin = time.perf_counter()
            with mark(name):
                with stepping:
                    run()
                with mark(marks.SYNCHRONIZE):
                    synchronize()
            self._last_s = time.perf_counter() - begin
        if self._conditions.begun:
            self.ran_s += self._last_s
        return self._last_s

    def look(self) -> None:
        """Look at what else uses the devices, once: those of a first run are known after it."""
        if not self._conditions.begun:
            self._conditions.begin(_uuids())

    def fits(self, runs: int) -> bool:
        """Tell whether there is time for more runs like the last one."""
        limit = self._plan.max_seconds
        return limit is None or time.perf_counter() - self._began + runs * self._last_s <= limit

    def _say(self, doing: str) -> None:
        self.doing = doing = f"{self.called}: {doing}" if self.called else doing
        self._stage(doing)

    def trace(self, error: BaseException | None) -> Trace:
        """Return what was recorded, with what only this session knows."""
        plan, recorded = self._plan, self.profiler.recorded
        if recorded is not None:
            self._thin_out(1)
            recorded = with_lines(recorded, self._log)
            warmup = recorded.named(marks.WARMUP)
            recorded = recorded.since(recorded.end_ns[warmup].max()) if len(warmup) else recorded
            if not len(recorded.named(marks.RUN)):
                # What is left is of the run that was to be discarded, or of what resets the state.
                recorded = None
        self._log.clear()
        if self.profiled and recorded is None:
            self.notes.append(
                "nothing of the profiled runs is left: the code started a torch profiler of its "
                "own, which ended ours. Take it out of the cell."
            )
        self.notes += self._conditions.end(_uuids(), self.ran_s)
        if self.stepper:
            self.notes += self.stepper.notes
        unseen = self.profiler.unseen()
        if not unseen:
            self.notes += self.profiler.complaints()
        return (recorded or empty()).with_recorded(
            torch=str(torch.__version__),  # a class of its own, which no encoder knows
            platform=_platform() if self.profiler.cuda else "CPU",
            cuda_available=torch.cuda.is_available(),
            asked_warmup=plan.warmup,
            asked_repeat=plan.repeat,
            max_seconds=plan.max_seconds,
            memory=plan.memory,
            flops=plan.flops,
            modules=plan.modules,
            stack=plan.stack,
            lines=[Line(*one) for one in self.stepper.lines()] if self.stepper else [],
            earlier=self.profiler.earlier,
            unseen=unseen,
            warmup_s=self.warmup_s,
            unprofiled_s=self.timed_s,
            loop_s=self.loop_s,
            discarded=self.discarded,
            profiled=self.profiled,
            stopped=None if error is None else Stopped(type(error).__name__, self.doing),
            notes=self.notes,
        )


class _Profiler:
    """torch's profiler, started and stopped once, with nothing of it left on the screen."""

    _cuda_started = 0
    """How often this process has profiled CUDA: the first start takes seconds."""
    _complaints: ClassVar[list[str]] = []
    """What Kineto complained of in this process: of CUPTI only in the first profile."""

    def __init__(self, plan: Plan) -> None:
        self.cuda, self._shapes, self._memory = use_cuda(plan.device), plan.shapes, plan.memory
        # CUPTI stays on after a profile, and all later launches of the process take longer. What
        # switches it off, TEARDOWN_CUPTI, can stop a process for good if it is set in mid-life; so
        # that is the choice of who starts the process.
        stays = not torch.version.hip and os.environ.get("TEARDOWN_CUPTI") != "1"
        self.earlier = _Profiler._cuda_started if stays else 0
        self._told = len(_Profiler._complaints)
        with _quiet():
            self._torch = self._new()
        self.prepared = self._started = False
        self.recorded: Trace | None = None
        """What was recorded, once stopped; None where nothing had been started."""

    def _new(self) -> Any:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.cuda:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        return torch.profiler.profile(
            activities=activities,
            record_shapes=self._shapes,
            profile_memory=self._memory,
            # With all threads, torch records no memory.
            experimental_config=_config(all_threads=not self._memory),
        )

    @property
    def start_text(self) -> str:
        if self.cuda and not _Profiler._cuda_started:
            return f"starting {_platform()} profiling, first time in this process"
        return "starting the profiler"

    def prepare(self) -> None:
        """Switch the collection on; what runs before `start` is thrown away."""
        with _quiet(), deferred_interrupt(), _starting():
            try:
                self._torch.prepare_trace()
            except RuntimeError:
                # torch 2.11 prepares none while another one, whosever it was, is prepared and
                # never started. To start and stop clears that away.
                self._torch.start_trace()
                self._torch.stop_trace()
                self._torch = self._new()
                self._torch.prepare_trace()
            self.prepared = True
            _shut_others_out()
        _Profiler._cuda_started += self.cuda

    def start(self) -> None:
        with _quiet(), deferred_interrupt(), _starting():
            _let_others_in()
            self._torch.start_trace()
            self._started = True
            _shut_others_out()

    def stop(self, notes: list[str]) -> None:
        """Stop, and read what was recorded.

        torch's profiler loses everything, or the process, if it is stopped twice, so an interrupt
        waits until all is read.
        """
        if not self.prepared:
            return
        with deferred_interrupt():
            self.prepared = False
            _let_others_in()
            try:
                with _quiet():
                    if not self._started:
                        # Only a started collection can be ended.
                        self._torch.start_trace()
                    self._torch.stop_trace()
            except Exception as error:
                # A device in error state fails its synchronise here as everywhere.
                notes.append(f"the profiler could not be stopped: {type(error).__name__}: {error}")
                return
            if self._started:
                self.recorded = read_results(self._torch.profiler.kineto_results)

    def complaints(self) -> list[str]:
        """Return what Kineto said in this session of anything that is missing from its record."""
        said = dict.fromkeys(_Profiler._complaints[self._told :])
        return [f"torch's profiler says: {one}" for one in said if _OF_LOSS.search(one)]

    def unseen(self) -> list[str]:
        """Return a reason for each kind of device that the process uses and that is not recorded.

        The wait at the end of a run calls CUDA's runtime, so a record of none of its calls is one
        that CUPTI gave nothing to.
        """
        reasons = [
            f"the process uses {kind}, which torch's profiler cannot trace here"
            for kind in _untraceable()
        ]
        if not _in_use():
            return reasons
        if not self.cuda:
            return ["only the CPU was recorded", *reasons]
        recorded = self.recorded
        called = recorded is not None and recorded.category_is("cuda_runtime", "cuda_driver").any()
        if recorded is None or called:
            return reasons
        told = "; ".join(_Profiler._complaints[-3:])
        return [
            f"torch's profiler got nothing from {_platform()}: another profiler (Nsight, a "
            "debugger) may hold it, or this user may not be permitted to profile"
            + (f". It said: {told}" if told else ""),
            *reasons,
        ]


_OF_LOSS = re.compile(r"CUPTI|buffer|dropp|truncat|exceed|terminat|missing", re.IGNORECASE)

_DOORS = ("_prepare_profiler", "_enable_profiler", "_disable_profiler")
_shut: dict[str, Any] = {}


def _shut_others_out() -> None:
    """Make every other torch profiler of the process, in any thread, raise where it is started.

    torch does not refuse it: 2.13 gives the second one our session, and dies when ours goes on.
    """
    for door in _DOORS:
        if hasattr(torch.autograd.profiler, door):
            _shut[door] = getattr(torch.autograd.profiler, door)
            setattr(torch.autograd.profiler, door, _refuse_second)


def _let_others_in() -> None:
    while _shut:
        setattr(torch.autograd.profiler, *_shut.popitem())


def _refuse_second(*args: Any, **kwargs: Any) -> NoReturn:
    __tracebackhide__ = True
    raise TprofileError(
        "a torch profiler was started in code that tprofile is profiling, and would have taken its "
        "recording away. Take it out of the code, or run the code without tprofile and give the "
        "finished profiler to tprofile.load."
    )


def refuse_nested() -> None:
    """Raise TprofileError if this thread, or this process by tprofile, is profiled already."""
    # The first tells of this thread, the second of the process.
    if (
        _shut
        or torch.autograd._profiler_enabled()
        or getattr(torch.autograd.profiler, "_is_profiler_enabled", False)
    ):
        raise TprofileError(
            "torch's profiler is running already, and a second one would destroy its recording. "
            "Stop the other one (leave its `with` block, in whatever thread it is) before you "
            "profile with tprofile."
        )


def use_cuda(device: str) -> bool:
    """Tell whether to record CUDA (or HIP) work; raise TprofileError where it was asked in vain."""
    if device == "cpu":
        return False
    supported = torch.profiler.ProfilerActivity.CUDA in torch.profiler.supported_activities()
    usable = torch.cuda.is_available() and supported
    if device == "cuda" and not usable:
        reason = (
            "torch.cuda.is_available() is False"
            if not torch.cuda.is_available()
            else "this build of torch cannot profile CUDA"
        )
        raise TprofileError(
            f"CUDA cannot be profiled here: {reason} (torch {torch.__version__}). "
            "Leave the option out, or say cpu, to profile the CPU."
        )
    return usable


def synchronize() -> None:
    """Wait for every device that this process uses, and start none that it does not."""
    for index in _in_use():
        torch.cuda.synchronize(index)


def _mark(name: str) -> Any:
    # The fast kind costs 0.1 µs outside a profile and casts no shadow on the device's streams.
    return _RecordFunctionFast(name)


def _line_mark(number: int, function: str | None = None, file: str | None = None) -> Any:
    return _mark(marks.line(number, function, file))


def _stepper(file_name: Callable[[str], str | None]) -> Stepper:
    # torch.compile looks at all that is called after a graph break, ours included.
    for code in (*own_codes(), *(one.__code__ for one in (_mark, _line_mark, marks.line))):
        skip(code)
    look = UserFiles(file_name, [os.path.dirname(torch.__file__)])
    frames = torch._C._dynamo.eval_frame

    def unseen(filename: str) -> Any:
        # What is called here is not all ours.
        before = frames.set_eval_frame(None)
        try:
            return look(filename)
        finally:
            frames.set_eval_frame(before)

    skip(unseen.__code__)
    return Stepper(_line_mark, unseen)


def _platform() -> str:
    return "HIP" if torch.version.hip else "CUDA"


def _config(all_threads: bool) -> _ExperimentalConfig:
    """Ask for the cheapest form of results, and for all threads, where this torch can give them.

    2.13 hands out its activities without building events first, which takes a third of the time
    of the stop; older versions must be asked to keep how kernels were launched.
    """
    wishes = ["trace_only", "expose_kineto_event_metadata"]
    # Not every version knows every wish, so their names are data to a type checker.
    config: Any = _ExperimentalConfig
    found: dict[str, bool] = {}
    for wish in [*wishes, "profile_all_threads"] if all_threads else wishes:
        # What the first gives, the second would build.
        if wish == "expose_kineto_event_metadata" and found:
            continue
        with contextlib.suppress(TypeError):
            config(**{wish: True})
            found[wish] = True
    return config(**found)


def _in_use() -> list[int]:
    """Return the CUDA devices that this process has a context on."""
    if not torch.cuda.is_initialized():
        return []
    return [i for i in range(torch.cuda.device_count()) if torch._C._cuda_hasPrimaryContext(i)]


def _uuids() -> dict[int, str]:
    """Return the names by which NVIDIA's driver knows the devices in use."""
    known = {i: getattr(torch.cuda.get_device_properties(i), "uuid", None) for i in _in_use()}
    return {index: f"GPU-{uuid}" for index, uuid in known.items() if uuid is not None}


def _untraceable() -> list[str]:
    """Return the kinds of accelerators that this process uses, but for CUDA and HIP."""
    found = []
    if torch.backends.mps.is_available() and torch.mps.driver_allocated_memory():
        found.append("MPS")
    for name in ("xpu", "mtia", "hpu", "npu"):
        started = getattr(getattr(torch, name, None), "is_initialized", None)
        if started is not None and started():
            found.append(name.upper())
    return found


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise TprofileError(
            f"torch's profiler did not start: {type(error).__name__}: {error}. Another profiler "
            "(Nsight, a debugger, a second torch.profiler) may hold the device: stop it, or "
            "profile the CPU alone."
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's remarks about its own profiler off the screen, and everything else on it."""
    with warnings.catch_warnings(), profiler_lines_dropped() as complaints:
        warnings.filterwarnings("ignore", module=r"torch\.(profiler|autograd)")
        warnings.filterwarnings("ignore", message=".*Profiler clears events.*")
        yield
    _Profiler._complaints += complaints
