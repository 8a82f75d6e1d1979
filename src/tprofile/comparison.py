"""`Comparison`: two Profiles side by side."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .analysis import comparison
from .analysis.comparison import Difference, difference
from .analysis.finding import Finding
from .analysis.outcomes import outcomes
from .analysis.replacement import replacement
from .errors import TprofileError
from .files import whole_file
from .result import Profile
from .trace.recorded import Compiled

if TYPE_CHECKING:
    import pandas as pd


def compare(a: Profile, b: Profile) -> Comparison:
    """Return two profiles side by side, A before and B after a change; of any machine or time.

    Raises TprofileError for what is no Profile.
    """
    return Comparison(a, b)


class Comparison:
    """Two profiles, `a` and `b`: what differs, and whether it is more than noise.

    Times are microseconds. Frames are sums over the profiled runs, as those of a Profile are; where
    B has more or fewer runs, its figures are brought to as many as A has. `summary` is per run.
    Every frame is the caller's own copy.
    """

    def __init__(self, a: Profile, b: Profile) -> None:
        for one in (a, b):
            if not isinstance(one, Profile):
                raise TprofileError(
                    f"cannot compare a {type(one).__name__}. Give two Profiles: "
                    "tprofile.compare(tprofile.load(path), tprofile.last())."
                )
        self.a, self.b = a, b
        self._frames: dict[str, pd.DataFrame] = {}

    @property
    def labels(self) -> tuple[str, str]:
        """What the two are called: their labels, or A and B."""
        given = [one.trace.recorded.label for one in (self.a, self.b)]
        named = given[0] or "A", given[1] or "B"
        return ("A", "B") if named[0] == named[1] else named

    @cached_property
    def summary(self) -> Difference:
        """Figures of both per run, with what was not measured as None."""
        return difference((self.a._found, self.a.summary), (self.b._found, self.b.summary))

    @property
    def compiled(self) -> Compiled | None:
        """What torch.compile did to make B: graphs, breaks, recompiles, and whether the results are
        those of A. None where B is no such variant.
        """
        return self.b.trace.recorded.compiled

    @property
    def operators(self) -> pd.DataFrame:
        """A row per operator of either: `name`, then `calls`, `self_cpu_us`, `cpu_us`,
        `self_device_us`, `device_us`, `self_launched_us` and `launched_us`, each with `_a` and
        `_b`, then `delta_us, ratio`.

        `delta_us` is B less A of the device time of a row itself, with what it launched outside all
        operators (`self_device_us` and `self_launched_us`), or where neither has device work of the
        self CPU time; `ratio` B over A, NaN where A has none. The largest difference comes first.
        Device times are NaN for a profile without device work.
        """
        return self._frame("operators", comparison.operators)

    @property
    def kernels(self) -> pd.DataFrame:
        """A row per kernel, copy or set of either, by name: `name, calls_a, calls_b, device_us_a,
        device_us_b, delta_us, ratio`. The largest difference comes first. Calls and times are NaN
        for a profile without device work.
        """
        return self._frame("kernels", comparison.kernels)

    @property
    def replaced(self) -> pd.DataFrame | None:
        """What became of the kernels of A in B, in the median run of each: `change, kernels_a,
        kernel_b, operators_a, times, device_us_a, device_us_b, delta_us`.

        `change` is "same", "fused" (several became one), "replaced" (one became another),
        "vanished" or "new"; `kernels_a` a tuple of names in the order of their launches,
        `operators_a` of the operators that launched them (or None), `kernel_b` a name, or None for
        those that vanished; `times` how often a run has that. They are matched
        by name, order and operator, which for kernels of one operator with unlike names is the best
        guess that there is. Only a kernel that torch.compile wrote stands for those of several
        operator calls. Times are NaN for a profile without device work. None for runs of more
        than some thousands of kernels, and where an error stopped the only run.
        """
        return None if self._replaced is None else self._replaced.copy()

    @cached_property
    def _replaced(self) -> pd.DataFrame | None:
        return replacement(self.a._found, self.b._found)

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        ended = [one.trace.recorded.stopped for one in (self.a, self.b)]
        return tuple(
            outcomes(
                self.labels, self.summary, self.operators, self.replaced, self.compiled,
                None if ended[0] else ended[1], self.b.complete,
            )
        )  # fmt: skip

    @property
    def findings(self) -> list[Finding]:
        """What the comparison says, the most important first."""
        return list(self._findings)

    def text(self, limit: int | None = 15) -> str:
        """Return figures, findings and tables as text, kernel names whole; `limit` is the most rows
        of a table, None for all.
        """
        from .views.compare import text

        if limit is not None and (type(limit) is not int or limit < 1):
            raise TprofileError(f"limit is {limit!r}, but must be 1 or more, or None for all rows.")
        return text(self, limit)

    def to_html(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> str:
        """Write all that the notebook shows as one HTML file, and return the path.

        It needs no kernel, no server and no network, and holds the two traces too (each if its file
        has at most 16 MB). Raises TprofileError where it cannot be written, or exists and
        `overwrite` is off.
        """
        from .views.compare_page import compare_document

        with whole_file(path, overwrite=overwrite) as file:
            file.write(compare_document(self).encode())
        return os.fspath(path)

    def _frame(self, name: str, make: Any) -> pd.DataFrame:
        if name not in self._frames:
            self._frames[name] = make(self.a._found, self.b._found)
        return self._frames[name].copy()

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<tprofile.Comparison: {' against '.join(map(repr, self.labels))}>"

    def _repr_html_(self) -> str:
        from .views.compare_page import compare_page
        from .views.compare_payload import compare_payload

        return compare_page(self, compare_payload(self))

    def _ipython_display_(self) -> None:
        from .views.show import compare_show

        compare_show(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self) if cycle else str(self))
