"""From something to profile to a Profile: `run`, `record`, `load`, `last`."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .errors import TprofileError
from .result import Profile
from .trace import Trace
from .trace.read import read

if TYPE_CHECKING:
    from .comparison import Comparison
    from .session import Plan, Recorder

_last: Profile | None = None
_labelled: dict[str, Profile] = {}


def run(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    warmup: int = 3,
    repeat: int = 3,
    each: Callable[[], object] | None = None,
    **options: Any,
) -> Profile:
    """Profile `fn(*args, **kwargs)`: warm-up runs, one discarded under the profiler, then `repeat`.

    `each` is called ahead of every run and not measured. `options` are the magic's: `once`,
    `max_seconds` (seconds), `cpu`, `cuda`, `shapes`, `memory`, `flops`, `modules`, `stack`. An
    error of `fn` is raised as it is; what was measured until then is in `tprofile.last()`. Raises
    TprofileError for options that make no sense, and where torch is being profiled already.
    """
    if not callable(fn):
        raise TprofileError(
            f"tprofile.run needs something to call, not {type(fn).__name__}. "
            "Give the function itself: tprofile.run(step, args=(x,)), not tprofile.run(step(x))."
        )
    if each is not None and not callable(each):
        raise TprofileError(
            f"each is {each!r}, but must be something to call. Give a function, or a lambda."
        )
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise TprofileError(f"args is {args!r}, but must be a tuple or list: args=(x,).")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TprofileError(f"kwargs is {kwargs!r}, but must be a dict of names and values.")
    plan = make_plan(warmup=warmup, repeat=repeat, **options)
    given = dict(kwargs or {})
    profile, error = profile_runs(lambda: _ran(fn(*args, **given)), plan, before=each)
    if error is not None:
        raise error
    return profile


def _ran(result: object) -> None:
    """Raise TprofileError if what a function returned shows that it has not run at all."""
    if inspect.iscoroutine(result):
        result.close()
        how = "lambda: asyncio.run(fn())"
    elif inspect.isgenerator(result):
        how = "lambda: list(fn())"
    elif inspect.isasyncgen(result):
        how = "a function that iterates over it"
    else:
        return
    raise TprofileError(
        f"the function returned a {type(result).__name__}, of which nothing has run yet. "
        f"Give a function that runs it: {how}."
    )


def profile_runs(
    once: Callable[[], object],
    plan: Plan,
    *,
    remark: Callable[[], str | None] = lambda: None,
    source: tuple[str, int] | None = None,
    **hooks: Any,
) -> tuple[Profile, BaseException | None]:
    """Make the runs of `plan` and return the Profile, and the error that ended them early.

    `remark` is called afterwards, for a note on the runs; `source` is the text of the code and the
    number of its first line; `hooks` are those of `session.record`.
    """
    # torch is imported with the session: only when something is profiled.
    from .session import record as record_runs

    trace, error = record_runs(once, plan, **hooks)
    return _keep(_told(trace, remark(), source)), error


def _told(trace: Trace, note: str | None, source: tuple[str, int] | None) -> Profile:
    """Return the Profile of a trace, with a note on its runs and the text of their code."""
    if note:
        trace = trace.with_recorded(notes=[*trace.recorded.notes, note])
    if source is not None:
        trace = trace.with_recorded(source=source[0], first_line=source[1])
    return Profile(trace)


def compile_runs(
    once: Callable[[], object],
    plan: Plan,
    *,
    namespace: MutableMapping[str, Any],
    called: Iterable[str],
    chosen: Iterable[str] | None = None,
    compiling: Mapping[str, Any],
    remark: Callable[[], str | None] = lambda: None,
    source: tuple[str, int] | None = None,
    **hooks: Any,
) -> tuple[Comparison, tuple[BaseException | None, BaseException | None]]:
    """Make the runs of `plan` with the names of a namespace as they are, and compiled.

    `called`, `chosen` and `compiling` are the arguments of `compiled.variants`, `hooks` those of
    `compiling.record_compiled`, the others those of `profile_runs`. Returns the Comparison, and
    the errors that ended either variant early. Raises TprofileError where nothing can be compiled.
    """
    from .comparison import Comparison
    from .compiled import variants
    from .compiling import record_compiled

    forms = variants(namespace, called, chosen, **compiling)
    plain, other = record_compiled(once, plan, forms, namespace, **hooks)
    note = remark()
    a, b = (_told(one.trace, note, source) for one in (plain, other))
    if plain.error is None and other.error is not None:
        a = _told(a.trace, _failed(b.trace, other.error), None)
    return Comparison(_keep(a), b), (plain.error, other.error)


def _failed(trace: Trace, error: BaseException) -> str:
    """Return a sentence on the error that ended the runs of compiled code."""
    said = ""
    with contextlib.suppress(Exception):
        # The error is the user's, and so is what it does when it is to be read.
        said = str(error).strip().partition("\n")[0][:300]
    stopped = trace.recorded.stopped
    during = "" if stopped is None else f" in {stopped.during.rpartition(': ')[2]}"
    return (
        f"the cell failed with torch.compile{during}: {type(error).__name__}"
        f"{f': {said}' if said else ''}. What is here is of the cell as it is"
    )


def label(profile: Profile, name: str) -> Profile:
    """Keep a profile under a name, in the place of one that had it, and return it with that."""
    _labelled[name] = Profile(profile.trace.with_recorded(label=name))
    return _keep(_labelled[name])


def labelled(name: str) -> Profile:
    """Return the profile that was kept under a name; raise TprofileError if there is none."""
    if name not in _labelled:
        known = ", ".join(map(repr, _labelled)) or "none yet"
        raise TprofileError(
            f"no profile is labelled {name!r} in this session (labels: {known}). Profile with "
            "--label first, or compare files: tprofile.compare(tprofile.load(a), tprofile.load(b))."
        )
    return _labelled[name]


def make_plan(
    *,
    warmup: int = 3,
    repeat: int = 3,
    once: bool = False,
    max_seconds: float | None = None,
    cpu: bool = False,
    cuda: bool = False,
    shapes: bool = True,
    memory: bool = False,
    flops: bool = False,
    modules: bool = False,
    stack: bool = False,
    **unknown: Any,
) -> Plan:
    """Return what the options ask for; raise TprofileError for what cannot be done."""
    if unknown:
        raise TprofileError(
            f"unknown option {', '.join(map(repr, unknown))}. Options are warmup, repeat, once, "
            "max_seconds, cpu, cuda, shapes, memory, flops, modules, stack."
        )
    if once:
        warmup, repeat = 0, 1
    for name, value, least in (("warmup", warmup, 0), ("repeat", repeat, 1)):
        if not isinstance(value, int) or not _is_number(value) or value < least:
            raise TprofileError(
                f"{name} is {value!r}, but must be a whole number, {least} or more."
            )
    switches = {
        "once": once,
        "cpu": cpu,
        "cuda": cuda,
        "shapes": shapes,
        "memory": memory,
        "flops": flops,
        "modules": modules,
        "stack": stack,
    }
    if odd := [name for name, value in switches.items() if not isinstance(value, bool)]:
        raise TprofileError(f"{odd[0]} is {switches[odd[0]]!r}, but must be True or False.")
    if max_seconds is not None and not (_is_number(max_seconds) and 0 < max_seconds < float("inf")):
        raise TprofileError(f"max_seconds is {max_seconds!r}, but must be seconds, more than 0.")
    if flops and not shapes:
        raise TprofileError(
            "flops are counted from the shapes of inputs, but shapes is False. Record them, or "
            "leave flops out."
        )
    if cpu and cuda:
        raise TprofileError(
            "cpu and cuda were both given. Give one, or none to record what is there."
        )
    from .session import Plan

    return Plan(
        warmup=warmup,
        repeat=repeat,
        max_seconds=max_seconds,
        device="cpu" if cpu else "cuda" if cuda else "auto",
        shapes=shapes,
        memory=memory,
        flops=flops,
        modules=modules,
        stack=stack,
    )


def _is_number(value: object) -> bool:
    # True and False are integers to Python; as a number of anything they are a mistake.
    return isinstance(value, int | float) and not isinstance(value, bool)


_OF_ONE_RUN = ("cpu", "cuda", "shapes", "memory", "flops", "modules", "stack")


class record:
    """Profile a `with` block: one run, no warm-up; for scripts and inside training loops.

        with tprofile.record() as r:
            step(batch)
        print(r.profile)

    Options: `cpu`, `cuda`, `shapes`, `memory`, `flops`, `modules`, `stack`. An error in
    the block is raised as it is; what was measured until then is in `r.profile`.
    """

    def __init__(self, **options: Any) -> None:
        if odd := [name for name in options if name not in _OF_ONE_RUN]:
            raise TprofileError(
                f"tprofile.record has no option {odd[0]!r}: it makes one run, of what is in its "
                f"block. Options are {', '.join(_OF_ONE_RUN)}."
            )
        self._plan = make_plan(warmup=0, repeat=1, **options)
        self._recorder: Recorder | None = None
        self._profile: Profile | None = None

    @property
    def profile(self) -> Profile:
        """What was recorded; raises TprofileError until the block has ended."""
        if self._profile is None:
            raise TprofileError("nothing is recorded yet: the `with` block has not ended.")
        return self._profile

    def __enter__(self) -> record:
        from .session import Recorder

        if self._recorder is not None:
            raise TprofileError("a tprofile.record serves one `with` block. Make a new one.")
        self._recorder = Recorder(self._plan)
        self._recorder.start(sys._getframe(1))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._recorder is None:
            raise TprofileError("this tprofile.record was never entered. Use it in a `with`.")
        try:
            self._recorder.stop()
        finally:
            self._profile = _keep(Profile(self._recorder.trace(error)))


def load(
    source: Any, *, unprofiled_s: float | Iterable[float] | None = None, flops: bool = False
) -> Profile:
    """Return the Profile of a recorded trace.

    `source` is the path of a Kineto or Chrome trace (`.json`, `.json.gz`), its bytes, or a finished
    `torch.profiler.profile`. `unprofiled_s` are the seconds that unprofiled runs of the same code
    took, one number or one per run: the wall is then theirs. `flops` adds the operations of each
    operator to `operators`, as far as the trace has the shapes of inputs. Raises
    TprofileError for what is no trace.
    """
    if isinstance(source, str | os.PathLike | bytes):
        trace: Trace = read(source)
    elif hasattr(source, "profiler") or hasattr(source, "kineto_results"):
        from .trace.live import finished, read_results

        trace = read_results(finished(source))
    else:
        raise TprofileError(
            f"cannot load a {type(source).__name__}. Give the path or the bytes of a trace, or a "
            "stopped torch.profiler.profile."
        )
    if unprofiled_s is not None:
        trace = trace.with_recorded(unprofiled_s=_walls(unprofiled_s))
    if not isinstance(flops, bool):
        raise TprofileError(f"flops is {flops!r}, but must be True or False.")
    if flops:
        trace = trace.with_recorded(flops=True)
    return _keep(Profile(trace))


def _walls(given: float | Iterable[float]) -> list[float]:
    try:
        walls = [float(s) for s in given] if isinstance(given, Iterable) else [float(given)]
        walls = [] if isinstance(given, bool) else walls
    except (TypeError, ValueError):
        walls = []
    if not walls or not all(0 < s < float("inf") for s in walls):
        raise TprofileError(
            f"unprofiled_s is {given!r}, but must be seconds of unprofiled runs, each more than 0."
        )
    return walls


def last() -> Profile | None:
    """Return the newest Profile of this process, or None."""
    return _last


def _keep(profile: Profile) -> Profile:
    global _last
    _last = profile
    return profile
