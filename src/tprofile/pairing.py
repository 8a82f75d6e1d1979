"""Run two variants of one piece of code in turns, so that neither has the better conditions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from .session import Plan, Session
from .trace import Trace

_PAIRS = range(5, 51)
"""Timed runs of each variant, as the time allows."""

_TIMED_S = 0.5
"""Seconds after which no more runs than the fewest are timed."""

_LOOPS, _LOOP_S, _LOOP_MOST, _LOOP_LONGEST_S = 5, 0.15, 200, 1.0
"""How often runs are made in a row, about how many seconds they take, how many there are at most,
and how long a run may take: of a longer one, the wait at its end is a small part."""


@dataclass(frozen=True)
class Outcome:
    """What came of one variant."""

    trace: Trace
    error: BaseException | None
    """What ended it early, if anything did."""


def record_pair(
    plain: Session,
    other: Session,
    plan: Plan,
    check: Callable[[Session, Callable[[], bool]], None],
    profiling: Callable[[], None],
) -> tuple[Outcome, Outcome]:
    """Make the runs of both, and return what was recorded of each.

    Both are warmed up, then `check` may run each some more, the other one by a call that tells
    whether it came to its end; then unprofiled runs are timed, all in turns; and only then, after a
    call of `profiling`, are both profiled, the other one first, so that what is left behind is the
    plain one's. An error of the other variant ends that one alone; one of the plain variant, or an
    interrupt, ends both.
    """
    errors: list[BaseException | None] = [None, None]

    def attempt(of_other: Callable[[], None]) -> bool:
        if errors[1] is None:
            try:
                of_other()
            except Exception as error:
                errors[1] = error
            except BaseException:
                # It ends the plain one too, but came here.
                plain.doing = other.doing
                raise
        return errors[1] is None

    def goes_on(runs: int = 0) -> bool:
        """Tell whether both are still there, and there is time for more of each, and the rest."""
        return bool(plan.warmup) and errors[1] is None and plain.fits(2 * runs + 6)

    try:
        while len(plain.warmup_s) < plan.warmup and (not plain.warmup_s or plain.fits(6)):
            plain.warm()
            attempt(other.warm)
        if goes_on():
            check(plain, lambda: attempt(other.check))
        began = time.perf_counter()
        while (
            goes_on()
            and len(plain.timed_s) < _PAIRS.stop - 1
            and (len(plain.timed_s) < _PAIRS.start or time.perf_counter() - began < _TIMED_S)
        ):
            plain.time()
            attempt(other.time)
        runs = _in_a_row(plain, other)
        for _ in range(_LOOPS if runs else 0):
            if goes_on(runs):
                plain.loop(runs)
                attempt(lambda: other.loop(runs))
        profiling()
        attempt(other.profile)
        plain.profile()
    except BaseException as error:
        errors[0] = error
    # What the driver held down, it did in the runs of both.
    plain.ran_s = other.ran_s = plain.ran_s + other.ran_s
    first, second = (
        Outcome(one.trace(error), error) for one, error in zip((plain, other), errors, strict=True)
    )
    return first, second


def _in_a_row(plain: Session, other: Session) -> int:
    """Return how many runs to make in a row: 0 where each has to be reset before it, or is long."""
    if plain.resets or not plain.timed_s or not other.timed_s:
        return 0
    longer = max(statistics.median(one.timed_s) for one in (plain, other))
    if longer > _LOOP_LONGEST_S:
        return 0
    return max(2, min(round(_LOOP_S / max(longer, 1e-9)), _LOOP_MOST))
