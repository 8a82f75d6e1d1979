"""What a comparison says in words: faster or not, what was fused, what the compiler did."""

from __future__ import annotations

import math
import re

import pandas as pd

from ..trace.recorded import Break, Compiled, Results, Stopped
from ..units import duration, times
from .comparison import Difference
from .doubts import short
from .finding import Finding
from .findings.context import listed
from .formulas import MATRIX
from .kernel_names import kernel_kind

_NAMED = 4
"""Names that are listed; there may be many."""

_COMPILED = ("Torch-Compiled Region", "## Call CompiledFxGraph")
"""How the names of the rows begin that torch.compile's code leaves."""

_SIZE = re.compile("size|shape|rank|stride").search
_SIZES = "torch.compile(..., dynamic=True), torch._dynamo.mark_dynamic(x, 0), or a few fixed sizes."
_STEADY = "Keep what the reason names the same from call to call, or make it a tensor."

_OTHER = 0.2
"""The part of its time by which a kernel of one code and equal inputs does not differ."""


def outcomes(
    labels: tuple[str, str],
    figures: Difference,
    operators: pd.DataFrame,
    replaced: pd.DataFrame | None,
    compiled: Compiled | None,
    stopped: Stopped | None = None,
    whole: bool = True,
) -> list[Finding]:
    """Return what two profiles tell together. What is not known is not said.

    `stopped` is what ended the runs of B alone, where something did; `whole` says that a profiled
    run of B came to its end.
    """
    if compiled is None:
        found = [*_speed(labels, figures)]
    else:
        ran = _ran_compiled(operators)
        found = [*_failed(labels, compiled, stopped)]
        if whole and not ran:
            found += _not_compiled(labels, compiled)
        found += _speed(labels, figures)
        if compiled.results is not None or whole:
            found += _results(labels, compiled.results)
        found += _breaks(compiled)
        found += _given_up(compiled)
        found += _recompiles(compiled)
        if ran or compiled.graphs:
            found += _compile_time(figures, compiled)
    if replaced is not None:
        found += _fused(labels, replaced)
        found += _changed(labels, replaced, compiled)
        found += _same(labels, replaced, compiled)
    if compiled is not None and whole:
        found += _vanished(labels, operators)
    return found


def _ran_compiled(operators: pd.DataFrame) -> bool:
    ran = operators.loc[operators["calls_b"] > 0, "name"]
    return bool(ran.str.startswith(_COMPILED).any())


def _failed(labels: tuple[str, str], compiled: Compiled, stopped: Stopped | None) -> list[Finding]:
    if stopped is None:
        return []
    names = listed(compiled.names, _NAMED)
    during = stopped.during.rpartition(": ")[2]
    return [
        Finding(
            kind="compile-error",
            title=f"{labels[1]} failed: {short(stopped.by)} in {during}",
            evidence=f"{labels[0]} came to its end. With torch.compile of {names} the code did "
            "not.",
            advice="--compile-names compiles some names alone; without --fullgraph, Python goes on "
            "at what breaks a graph.",
            gain_us=None,
            where=names,
        )
    ]


def _not_compiled(labels: tuple[str, str], compiled: Compiled) -> list[Finding]:
    # Where torch gave up, that is said.
    if compiled.graphs or compiled.given_up:
        return []
    names = listed(compiled.names, _NAMED)
    return [
        Finding(
            kind="not-compiled",
            title=f"torch compiled nothing: {labels[1]} ran as {labels[0]} did",
            evidence=f"Of {names} torch.compile made no graph, and no compiled code ran.",
            advice="A module compiles where it is called itself (model(x)), not by another method; "
            "a function where it has tensors to work on, and the cell does not define it anew.",
            gain_us=None,
            where=names,
        )
    ]


def _speed(labels: tuple[str, str], figures: Difference) -> list[Finding]:
    a, b, ratio = figures.wall_us_a, figures.wall_us_b, figures.wall_ratio
    if a is None or b is None or ratio is None:
        return []
    factor = times(1 / ratio if ratio < 1 else ratio)
    how = "as fast as" if factor == "1.00" else ("faster than" if ratio < 1 else "slower than")
    title = f"{labels[1]} is {'' if how == 'as fast as' else factor + ' times '}{how} {labels[0]}"
    if figures.differs is False:
        title = f"no difference between {labels[0]} and {labels[1]} beyond noise"
    noise = (
        "; how much runs scatter is not known, which takes five unprofiled runs of each"
        if figures.wall_error is None
        else f"; the ratio is {ratio:.3f} ±{figures.wall_error:.3f} (standard error)"
    )
    return [
        Finding(
            kind="speed",
            title=title,
            evidence=f"A run takes {duration(a)} and {duration(b)}{noise}.{_loop(labels, figures)}",
            advice="The operators and kernels that differ most say where it comes from.",
            gain_us=a - b if a > b and figures.differs is not False else None,
            where="the whole run",
        )
    ]


def _loop(labels: tuple[str, str], figures: Difference) -> str:
    a, b, ratio = figures.loop_us_a, figures.loop_us_b, figures.loop_ratio
    if a is None or b is None or ratio is None:
        return ""
    return (
        f" Many in a row, with one wait for the device after them all, take {duration(a)} and "
        f"{duration(b)} each: {labels[1]} takes {times(ratio)} times as long."
    )


def _results(labels: tuple[str, str], results: Results | None) -> list[Finding]:
    if results is None:
        title, evidence = "results were not compared", "There was no time left for it."
    elif results.unchecked is not None:
        title, evidence = "results were not compared", f"{results.unchecked}."
        evidence = evidence[:1].upper() + evidence[1:]
    elif results.unlike:
        title = f"results differ in {len(results.unlike)} of {results.tensors} tensors"
        evidence = "; ".join(results.unlike[:_NAMED]) + "."
    elif results.absolute is None or not results.tensors:
        title, evidence = "results were not compared", "No tensor was looked at."
    elif not results.absolute:
        n = results.tensors
        title = "results are equal"
        evidence = f"{n} tensor{'s' * (n != 1)}, equal to the last bit."
    else:
        title = f"results differ by at most {results.absolute:.3g}"
        evidence = (
            f"{results.tensors} tensor{'s' * (results.tensors != 1)} compared; the largest "
            f"difference of two elements is {results.absolute:.3g}"
        )
        if results.relative is not None:
            title = f"results differ by at most {results.relative:.2g} of the largest element"
            of = f" ({results.where})" if results.where is not None else ""
            evidence += (
                f"; relative to the largest element of its tensor it is {results.relative:.2g}{of}"
            )
        evidence += "."
    return [
        Finding(
            kind="results",
            title=title,
            evidence=evidence,
            advice="In float32 some 1e-6 is rounding, in bfloat16 some 1e-2; more is a fault.",
            gain_us=None,
            where=(results.where if results else None) or "results",
        )
    ]


def _breaks(compiled: Compiled) -> list[Finding]:
    if not compiled.breaks:
        return []
    n = len(compiled.breaks)
    places = [_place(one) for one in compiled.breaks]
    told = [
        f"{place}: {one.reason}" if place else one.reason
        for place, one in zip(places, compiled.breaks, strict=True)
    ]
    return [
        Finding(
            kind="graph-breaks",
            title=f"{n} graph break{'s' * (n != 1)}",
            evidence=_sentence("; ".join(told)),
            advice="Take what breaks the graph out of the compiled function, or find it at once "
            "with fullgraph=True, which makes each an error.",
            gain_us=None,
            where=places[0] or "the compiled code",
            line=next((one.line for one in compiled.breaks if one.file is None), None),
        )
    ]


def _given_up(compiled: Compiled) -> list[Finding]:
    if not compiled.given_up:
        return []
    names = listed(compiled.given_up)
    advice = _SIZES if any(map(_SIZE, compiled.recompiles)) else _STEADY
    return [
        Finding(
            kind="recompile-limit",
            title="torch gave up compiling, and ran code as it is",
            evidence=f"It had compiled {names} as often as it may, each time for another reason: "
            "later runs are of the code as it was, whatever the label says.",
            advice=f"Let one compilation serve them all. {advice}",
            gain_us=None,
            where=names,
        )
    ]


def _place(one: Break) -> str:
    parts = [f"line {one.line}"] if one.line else []
    return " of ".join([*parts, *([one.file] if one.file else [])])


def _sentence(told: str) -> str:
    return told if told.endswith(".") else f"{told}."


def _recompiles(compiled: Compiled) -> list[Finding]:
    if not compiled.recompiles and not compiled.late_recompiles:
        return []
    timed, late = compiled.timed_recompiles, len(compiled.late_recompiles)
    n = len(compiled.recompiles) + late
    reasons = list(dict.fromkeys([*compiled.late_recompiles, *compiled.recompiles]))
    more = f" and {len(reasons) - _NAMED} more" if len(reasons) > _NAMED else ""
    return [
        Finding(
            kind="recompiles",
            title=f"compiled again {n} time{'s' * (n != 1)}"
            + (f", {timed} of them while timed" if timed else "")
            + (f", {late} of them while profiled" if late else ", none of them while profiled"),
            evidence=_sentence("; ".join(reasons[:_NAMED]) + more)
            + (" The wall of those runs has compiling in it." if timed else ""),
            advice=_SIZES if any(map(_SIZE, reasons)) else _STEADY,
            gain_us=None,
            where=reasons[0].partition(":")[0],
        )
    ]


def _compile_time(figures: Difference, compiled: Compiled) -> list[Finding]:
    a, b, first = figures.wall_us_a, figures.wall_us_b, figures.first_run_us_b
    before, ratio = figures.first_run_us_a, figures.wall_ratio
    names = listed(compiled.names, _NAMED)
    if not compiled.graphs:
        return [
            Finding(
                kind="compile-time",
                title="it was compiled before, so what that takes is not known",
                evidence=f"torch had compiled code of {names} in this process. It tells of graph "
                "breaks while it compiles, so they are not known either.",
                advice="torch._dynamo.reset() ahead of the cell forgets all compiled code.",
                gain_us=None,
                where=names,
            )
        ]
    if a is None or b is None or ratio is None or first is None or before is None:
        return []
    cost = first - b
    saved = a - b
    if saved > 0 and figures.differs is not False:
        runs = max(math.ceil((cost - (before - a)) / saved), 1)
        pays = f"it pays for itself after {runs:,} run{'s' * (runs != 1)}"
    else:
        pays = "it does not pay for itself"
    return [
        Finding(
            kind="compile-time",
            title=f"the first call took {duration(first)}; {pays}",
            evidence=(
                f"torch made {compiled.graphs} graph{'s' * (compiled.graphs != 1)} of {names}. A "
                f"later run takes {duration(b)}, and one as it was {duration(a)} (its first "
                f"{duration(before)}). What torch had in its caches was not compiled anew."
            ),
            advice="Compile what runs often; mode and dynamic shapes change what compiling costs.",
            gain_us=None,
            where="the first call",
        )
    ]


def _fused(labels: tuple[str, str], replaced: pd.DataFrame) -> list[Finding]:
    fused = replaced[replaced["change"] == "fused"]
    if fused.empty:
        return []
    before = int((fused["kernels_a"].map(len) * fused["times"]).sum())
    after = int(fused["times"].sum())
    return [
        Finding(
            kind="fused-kernels",
            title=f"{before} kernels became {after}",
            evidence=f"{_became(labels, fused)}: {listed(fused['kernel_b'], _NAMED)}.",
            advice="Fused kernels read and write memory once for what several did.",
            gain_us=_gained(fused),
            where=short(fused["kernel_b"].iloc[0]),
        )
    ]


def _changed(
    labels: tuple[str, str], replaced: pd.DataFrame, compiled: Compiled | None
) -> list[Finding]:
    changed = _of_matrices(replaced, "replaced")
    if changed.empty:
        return []
    first = changed.iloc[0]
    n = int(changed["times"].sum())
    return [
        Finding(
            kind="other-kernels",
            title=f"{n} matrix kernel{' is' if n == 1 else 's are'} another one",
            evidence=(
                f"{_became(labels, changed)}: {short(first['kernels_a'][0])} is now "
                f"{short(first['kernel_b'])}{_more_rows(len(changed))}."
            ),
            advice="Another kernel comes of another shape, layout, alignment or type of inputs; "
            "to give it that in the code makes it fast"
            + (" without a compiler too." if compiled is not None else "."),
            gain_us=_gained(changed),
            where=short(first["kernel_b"]),
        )
    ]


def _became(labels: tuple[str, str], rows: pd.DataFrame) -> str:
    before, after = (duration(rows[f"device_us_{side}"].sum()) for side in "ab")
    return f"{before} of {labels[0]} became {after} of {labels[1]}"


def _gained(rows: pd.DataFrame) -> float | None:
    return max(float(-rows["delta_us"].sum()), 0.0) or None


def _of_matrices(replaced: pd.DataFrame, change: str) -> pd.DataFrame:
    rows = replaced[replaced["change"] == change]
    return rows[rows["kernel_b"].map(kernel_kind).isin(MATRIX)]


def _more_rows(n: int) -> str:
    return f", and {n - 1} more" if n > 1 else ""


def _same(
    labels: tuple[str, str], replaced: pd.DataFrame, compiled: Compiled | None
) -> list[Finding]:
    same = _of_matrices(replaced, "same")
    if same.empty:
        return []
    n = int(same["times"].sum())
    before, after = same["device_us_a"], same["device_us_b"]
    means = "One name means one code"
    if ((after / before - 1).abs() > _OTHER).any():
        means += "; where it takes another time, its inputs are others, or the clocks."
    elif compiled is not None:
        means += ": compiling changed nothing there."
    else:
        means += "."
    return [
        Finding(
            kind="same-kernels",
            title=f"{n} matrix kernel{' is' if n == 1 else 's are'} the same in both",
            evidence=(
                f"{listed(same['kernel_b'], _NAMED)}: {duration(before.sum())} in {labels[0]} "
                f"and {duration(after.sum())} in {labels[1]}. {means}"
            ),
            advice="To make these faster, change shapes or types (bfloat16, TF32).",
            gain_us=None,
            where=short(same["kernel_b"].iloc[0]),
        )
    ]


def _vanished(labels: tuple[str, str], operators: pd.DataFrame) -> list[Finding]:
    gone = operators[(operators["calls_a"] > 0) & (operators["calls_b"] == 0)]
    gone = gone[gone["name"].str.startswith("aten::")]
    if gone.empty:
        return []
    names = gone["name"].tolist()
    n = len(names)
    return [
        Finding(
            kind="vanished-operators",
            title=f"{n} operator{'s are' if n != 1 else ' is'} gone",
            evidence=f"{listed(names, _NAMED)}: {labels[1]} never calls them.",
            advice="Their work is in the compiled code, or was none (views).",
            gain_us=None,
            where=names[0],
        )
    ]
