"""What page and widget show of two profiles: a capped copy, with a payload of each of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..errors import TprofileError
from . import findings
from .compare import gain, labels, operators, warnings
from .compare_figures import compared, details, title
from .pack import LABEL, NAME, Names, size, table
from .payload import finding_row, lines_kept, payload, say_findings, say_rows, told
from .words import LINE, cut, device_word

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.finding import Finding
    from ..comparison import Comparison
    from ..result import Profile

MOST_BYTES = 130_000
"""Of the whole: with the bundle and the tables beside it, half of what a notebook may grow by."""

PROFILE_BYTES = 40_000
"""What is kept for the second profile, whatever the first has."""

TABLE_BYTES, FINDINGS_BYTES, LINES_BYTES = 14_000, 10_000, 3_000
"""Of the groups of kernels, the operators and the kernels each; of the findings; of the warnings
and the details each."""

MEMBERS, MEMBERS_LETTERS = 40, 4_000
"""Kernels of a group that became one, and letters of their names: of more, the first are named."""

TONES = {**findings.TONES, "results": "wait", "fused-kernels": "device", "other-kernels": "device",
         "same-kernels": "device", "vanished-operators": "cpu", "compile-time": "cpu",
         "compile-error": "cpu", "not-compiled": "cpu", "recompile-limit": "cpu"}  # fmt: skip
"""What a kind of finding is about, as for one profile."""

_OPERATOR_COLUMNS = ("calls", "self_cpu_us", "self_device_us")


def compare_payload(comparison: Comparison, sort: str | None = None) -> dict[str, Any]:
    """Return all that page and widget show, as plain values of at most 140,000 bytes of JSON.

    Times and calls are per run. Names in columns are indices into `names`, here and in `a` and `b`,
    the payloads of the two profiles, whose own `names` are empty. `sort` is the order of their
    operators, where they have such a column. None stands for what was not measured.
    """
    names, left_out = Names(), list[str]()
    result: dict[str, Any] = {
        "id": uuid.uuid4().hex[:16],
        "labels": list(labels(comparison)),
        "title": cut(title(comparison), LINE),
        "details": lines_kept("details", details(comparison), LINES_BYTES, left_out),
        "warnings": lines_kept("warnings", warnings(comparison), LINES_BYTES, left_out),
        "figures": [
            {key: cut(text, 2 * LABEL) if text else "" for key, text in asdict(one).items()}
            for one in compared(comparison)
        ],
        "device": cut(device_word(_with_device(comparison)), LABEL),
        "findings": _findings(comparison, left_out),
        "became": _became(comparison, names, left_out),
        "operators": _operators(comparison, names, left_out),
        "kernels": _kernels(comparison, names, left_out),
        "names": names.shown,
    }
    for key, profile in (("a", comparison.a), ("b", comparison.b)):
        left = MOST_BYTES - size(result) - size(left_out) - 500
        # The first leaves room for the second, if it must.
        most = left - PROFILE_BYTES if key == "a" else left
        result[key] = {**_payload(profile, sort, names, most), "names": []}
    if names.cut:
        left_out.append(
            f"names: {names.cut:,} of more than {NAME:,} characters are cut in their middle"
        )
    return {**result, "left_out": left_out}


def _with_device(comparison: Comparison) -> Profile:
    """Return the profile by which devices are called: one that has seen some."""
    return comparison.b if comparison.b.summary.device_names else comparison.a


def _payload(profile: Profile, sort: str | None, names: Names, most: int) -> dict[str, Any]:
    try:
        shown = payload(profile, sort, names=names, most=most)
    except TprofileError:
        # A column that only the other one has.
        shown = payload(profile, names=names, most=most)
    return {**shown, "left_out": [one for one in shown["left_out"] if not one.startswith("names:")]}


def _findings(comparison: Comparison, left_out: list[str]) -> dict[str, Any]:
    every = comparison.findings
    rows = told(
        (
            finding_row(one, _tone(one), gain(comparison, one), _hint)
            for one in every
        ),
        FINDINGS_BYTES,
    )  # fmt: skip
    say_findings(len(rows), len(every), "Comparison", left_out)
    none = None if every else "Nothing can be said: no time of a run is known for both"
    return {"of": len(every), "rows": rows, "none": none}


def _tone(one: Finding) -> str | None:
    # Results that are alike are no call for attention.
    return None if one.kind == "results" and "tensors" not in one.title else TONES.get(one.kind)


def _hint(kind: str) -> str | None:
    """Return the call that tells more, for the kinds that a profile has too."""
    return findings.hint(kind) if kind in findings.TONES else None


def _became(comparison: Comparison, names: Names, left_out: list[str]) -> dict[str, Any]:
    """Return the groups of kernels, those that differ most first; or why there are none."""
    frame = comparison.replaced
    if frame is None:
        why = "The runs have too many kernels to tell which of them became which."
        if not (comparison.a.complete and comparison.b.complete):
            why = "A run was stopped by an error, so it is not told what became of what."
        return {"of": 0, "columns": None, "none": why}
    if frame.empty:
        return {"of": 0, "columns": None, "none": "No device work was recorded."}
    named = [_members(one) for one in frame["kernels_a"]]
    columns: dict[str, Iterable[Any] | None] = {
        "change": frame["change"].tolist(),
        "count": [len(one) for one in frame["kernels_a"]],
        "kernels_a": [one[:n] for one, n in zip(frame["kernels_a"], named, strict=True)],
        "operators_a": [one[:n] for one, n in zip(frame["operators_a"], named, strict=True)],
        "kernel_b": frame["kernel_b"].tolist(),
        "times": frame["times"].tolist(),
        "device_us_a": frame["device_us_a"].tolist(),
        "device_us_b": frame["device_us_b"].tolist(),
    }
    texts = {"kernels_a", "operators_a", "kernel_b"}
    packed = table(len(frame), "delta_us", columns, texts, names, TABLE_BYTES)
    kept = len(packed["columns"]["times"])
    if kept < len(frame):
        left_out.append(
            f"became: the {kept:,} that differ most of {len(frame):,} are here; all are in "
            "Comparison.replaced"
        )
    return {**packed, "none": None}


def _members(kernels: tuple[str, ...]) -> int:
    """Return how many kernels of a group are named, at least the first."""
    room, seen = MEMBERS_LETTERS, set[str]()
    for i, name in enumerate(kernels[:MEMBERS]):
        room -= 0 if name in seen else len(name)
        seen.add(name)
        if i and room < 0:
            return i
    return min(len(kernels), MEMBERS)


def _operators(comparison: Comparison, names: Names, left_out: list[str]) -> dict[str, Any]:
    frame, lead = operators(comparison)
    return _sides(comparison, "operators", frame, _OPERATOR_COLUMNS, lead, names, left_out)


def _kernels(comparison: Comparison, names: Names, left_out: list[str]) -> dict[str, Any]:
    frame = comparison.kernels
    return _sides(comparison, "kernels", frame, ("calls", "device_us"), "device_us", names,
                  left_out)  # fmt: skip


def _sides(
    comparison: Comparison,
    what: str,
    frame: pd.DataFrame,
    of: tuple[str, ...],
    lead: str,
    names: Names,
    left_out: list[str],
) -> dict[str, Any]:
    """Return figures of both for each name, per run, the largest difference in `lead` first."""
    runs = max(len(comparison.a.runs), 1)
    columns: dict[str, Iterable[Any] | None] = {"name": frame["name"].tolist()}
    for column in of:
        for side in "ab":
            values = frame[f"{column}_{side}"]
            known = values.notna().any() or not len(frame)
            columns[f"{column}_{side}"] = (values / runs).tolist() if known else None
    packed = table(len(frame), lead, columns, {"name"}, names, TABLE_BYTES)
    say_rows(what, len(packed["columns"]["name"]), len(frame), "difference", "Comparison",
             left_out)  # fmt: skip
    return packed
