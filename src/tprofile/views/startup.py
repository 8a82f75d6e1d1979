"""What the first run of a cold profile cost beyond the later ones: a sentence, and a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..units import duration, unit
from .tables import Table
from .words import begins_cold, percent, visible

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from ..result import Profile

_LEAST = 0.01
"""A cost that is a smaller part of the start-up is not told by itself."""
_NAME = 0.05
"""The same for a name of a cost."""
_LATER = 0.1
"""The same for a cost of a later run, as a part of that run."""


@dataclass(frozen=True)
class _Cold:
    """The runs of a cold profile. Times in microseconds."""

    first: str
    """What the first run is called."""
    first_us: float
    later_us: NDArray[np.float64]
    """The later runs, the shortest first."""
    costs: pd.DataFrame
    """Those of the first run, longest first; none where they are not worth a word."""
    also: list[str]
    """What later runs paid, where it took a good part of one."""

    @property
    def whole_us(self) -> float:
        """What the first run took beyond the later ones, or, alone, as a whole."""
        later = np.median(self.later_us) if len(self.later_us) else 0.0
        return max(self.first_us - float(later), self.costs["cpu_us"].sum())

    @property
    def runs(self) -> str:
        """How long each took: the median of the later ones, if it stands for all."""
        said = f"{self.first} {duration(self.first_us)}"
        if not len(later := self.later_us):
            return said
        least, most = duration(later[0]), duration(later[-1])
        alike = later[-1] <= 2 * later[0]
        return f"{said}, later ones {duration(np.median(later)) if alike else f'{least} to {most}'}"

    @property
    def by_cost(self) -> pd.Series[float]:
        return self.costs.groupby("cost")["cpu_us"].sum().sort_values(ascending=False)


def startup_sentences(profile: Profile, *, beside_table: bool = False) -> list[str]:
    """Return what the first run cost, its largest parts, and what contains it; none if warm.

    `beside_table` leaves out what `startup_table` says, where there is one.
    """
    lines, cold = [], _cold(profile)
    if cold is not None and (cold.costs.empty or not beside_table):
        lines.append(_sentence(cold))
    if begins_cold(profile):
        lines.append("the tables contain the first run")
    return lines


def _sentence(cold: _Cold) -> str:
    if cold.costs.empty:
        slower = cold.first_us > 2 * cold.later_us[-1]
        return f"{cold.runs}: " + (
            "what start-up cost is not in the trace" if slower else "no start-up to speak of"
        )
    sums = cold.by_cost[:3]
    told = sums[sums >= min(_LEAST * cold.whole_us, sums.iloc[0])]
    parts = ", ".join(f"{duration(us)} {cost}" for cost, us in told.items())
    whole = f"start-up {duration(cold.whole_us)}, of it " if len(cold.later_us) else "start-up "
    return f"{cold.runs}: {whole}{parts}"


def startup_table(profile: Profile) -> tuple[Table, list[str]] | None:
    """Return where the time of the first run went, and remarks; None where that is not known."""
    cold = _cold(profile)
    if cold is None or cold.costs.empty:
        return None
    whole, fit, sums = cold.whole_us, unit([cold.whole_us]), cold.by_cost
    parts: list[tuple[str, float]] = []
    for cost, us in sums[sums >= _LEAST * whole].items():
        parts.append((str(cost), us))
        names = cold.costs[(cold.costs["cost"] == cost) & (cold.costs["cpu_us"] >= _NAME * whole)]
        parts += [(f"  {visible(r.name)}", r.cpu_us) for r in names.dropna().itertuples()]
    if len(small := sums[sums < _LEAST * whole]):
        parts.append((f"other: {', '.join(map(str, small.index))}", small.sum()))
    remarks = []
    if not len(cold.later_us):
        remarks.append("What else of it is start-up takes later runs to tell: repeat 2 or more.")
    elif (rest := whole - sums.sum()) >= _LEAST * whole:
        parts.append(("not accounted for", rest))
    if cold.also:
        remarks.append(f"Later runs paid too: {', '.join(cold.also)}.")
    rows = [[name, fit.number(us), percent(us / whole)] for name, us in parts]
    return Table(f"Start-up, {cold.runs}", ["cost", fit.name, "%"], "nrr", rows, 0), remarks


def _cold(profile: Profile) -> _Cold | None:
    asked = profile.trace.recorded.asked_warmup
    # A warm profile's costs are in its frame; looking for them takes time that each view has not.
    if asked or not profile.complete or not len(profile.runs):
        return None
    walls, costs = profile.runs["wall_us"].to_numpy(), profile.startup
    first = costs[costs["run"] == 1]
    if first["cpu_us"].sum() < _LEAST * walls[0]:
        first = first[:0]
    if first.empty and (len(walls) == 1 or asked is None):
        return None
    later = costs[costs["run"] > 1][["run", "cost", "cpu_us"]]
    later = later.groupby(["run", "cost"], sort=False, as_index=False).sum()
    also = [
        f"{duration(us)} {cost} in run {run}"
        for run, cost, us in zip(later["run"], later["cost"], later["cpu_us"], strict=True)
        if us >= _LATER * walls[run - 1]
    ]
    return _Cold(
        first=(
            "only run" if len(walls) == 1 else "first run" if asked == 0 else "first recorded run"
        ),
        first_us=float(walls[0]),
        later_us=np.sort(walls[1:]),
        costs=first,
        also=also,
    )
