"""What stands above two profiles: the answer, what ran, and the figures of both, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..units import DASH, amount, duration, times
from . import figures
from .compare import labels
from .words import count, percent, sentence

if TYPE_CHECKING:
    from ..comparison import Comparison
    from ..result import Profile


@dataclass(frozen=True)
class Compared:
    """A figure of A and of B."""

    key: str
    head: str
    a: str
    b: str
    """A dash where it was not measured; `why` then says why."""
    a_more: str
    b_more: str
    """How much it scatters, or nothing."""
    ratio: str
    """What B is of A, or nothing where one of them is not known."""
    more: str
    """The difference, and whether it is more than noise."""
    why: str
    """Why there is no ratio, or nothing."""


def title(comparison: Comparison) -> str:
    """Return the answer: the first of what the comparison says."""
    found = comparison.findings
    return sentence(found[0].title) if found else " and ".join(comparison.labels)


def details(comparison: Comparison) -> list[str]:
    """Return what ran on what, said once where it is the same for both."""
    both = [figures.details(one) for one in (comparison.a, comparison.b)]
    same = [line for line in both[0] if line in both[1]]
    own = [
        f"{label}: {line}"
        for label, lines in zip(labels(comparison), both, strict=True)
        for line in lines
        if line not in same
    ]
    if both[0][0] == both[1][0]:
        return [f"each: {same[0]}", *own, *same[1:]]
    return [*own, *same]


def compared(comparison: Comparison) -> list[Compared]:
    """Return the figures of both per run, always all and in the same order."""
    told = comparison.summary
    return [
        _row(comparison, "wall", "wall of a run", told.wall_us_a, told.wall_us_b, duration),
        _row(comparison, "loop", "in a loop", told.loop_us_a, told.loop_us_b, duration),
        _row(comparison, "busy", "device busy", told.device_busy_us_a, told.device_busy_us_b,
             duration),
        _row(comparison, "launches", "launches", told.launches_a, told.launches_b, count),
        _row(comparison, "kernels", "kernels", told.kernels_a, told.kernels_b, count),
        _row(comparison, "memory", "peak memory", told.peak_device_bytes_a,
             told.peak_device_bytes_b, amount),
        _row(comparison, "first", "first run", told.first_run_us_a, told.first_run_us_b, duration),
    ]  # fmt: skip


def _row(
    comparison: Comparison,
    key: str,
    head: str,
    a: float | None,
    b: float | None,
    put: Callable[[float], str],
) -> Compared:
    told = comparison.summary
    ratio, more, why = "", "", ""
    if a is None or b is None:
        why = _reason(comparison, key, a, b)
    elif key == "wall" and told.wall_ratio is None:
        why = "one under the profiler, the other not: no ratio"
    elif a == b:
        more = "the same"
    else:
        ratio, more = f"{times(b / a)}×" if a > 0 else "", _difference(b - a, put)
        if key == "wall" and told.differs is False:
            more = f"{more}, within noise"
    spread = [_spread(one) if key == "wall" else "" for one in (comparison.a, comparison.b)]
    shown = [DASH if one is None else put(one) for one in (a, b)]
    return Compared(key, head, shown[0], shown[1], spread[0], spread[1], ratio, more, why)


def _difference(by: float, put: Callable[[float], str]) -> str:
    return f"{'+' if by > 0 else '−'}{put(abs(by))}"


def _spread(profile: Profile) -> str:
    spread = profile.summary.wall_spread
    return "" if spread is None else f"±{percent(spread)} %"


def _reason(comparison: Comparison, key: str, a: float | None, b: float | None) -> str:
    """Return why one of them, or both, are not known."""
    whys = [
        _why(one, key) if value is None else None
        for one, value in ((comparison.a, a), (comparison.b, b))
    ]
    if whys[0] == whys[1]:
        return whys[0] or ""
    return "; ".join(
        f"{label}: {why}" for label, why in zip(labels(comparison), whys, strict=True) if why
    )


_ONE_OF_FIVE = {"wall": "wall", "busy": "busy", "launches": "launches", "kernels": "launches",
                "first": "first"}  # fmt: skip


def _why(profile: Profile, key: str) -> str:
    if key == "loop":
        return "not timed in a loop"
    if key == "memory":
        return "not known" if profile.trace.recorded.memory else "not recorded"
    for figure in figures.figures(profile):
        if figure.key == _ONE_OF_FIVE[key] and figure.value == DASH:
            return figure.label.partition(": ")[2]
    return "not recorded"
