"""What page and widget show, as one small JSON object: a capped copy of what a Profile tells."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..errors import TprofileError
from ..explaining import meaning
from . import findings, heads, lines
from .drawing import drawing
from .figures import Headline, details, figures, headline, reason
from .pack import LABEL, NAME, Names, number, size, table
from .tables import (
    BYTES,
    by_name,
    bytes_column,
    column_words,
    operator_names,
    shares,
    sorted_kernels,
    sorted_modules,
    sorted_operators,
)
from .words import LINE, cut, device_label, device_word, sentence, visible

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.finding import Finding
    from ..result import Profile

MOST_BYTES = 130_000
"""Of the whole: a notebook with a hundred profiles in it must still open at once."""

TABLE_BYTES, STRIP_BYTES = 40_000, 20_000
"""Of the operators, the kernels and the strip each, with the names that no earlier part has; and
what is kept for the strip whatever the others take."""

LINES_BYTES, MODULES_BYTES, TREE_BYTES, FINDINGS_BYTES = 24_000, 20_000, 20_000, 14_000
"""Of the lines of code, the modules, the call tree and the findings."""

LINES, WARNINGS_BYTES, DETAILS_BYTES = 20, 12_000, 6_000
"""Warnings and details that are kept: these many, in these many bytes."""

SOURCE = 400
"""Characters of a line of code."""

RUNS = 100
"""Runs of which it is known where they are in the file of the trace."""

_BETWEEN = re.compile(" → | · |^in |^before ")
"""What stands between the names in what says where a finding is."""

_RESERVE = 3_000
"""Bytes for the sentences about what was left out, which come last."""


def payload(
    profile: Profile,
    sort: str | None = None,
    *,
    names: Names | None = None,
    most: int = MOST_BYTES,
) -> dict[str, Any]:
    """Return all that page and widget show, as plain values of at most 130,000 bytes of JSON.

    The tables are sums over the `runs`, the operators in the order of `sort` (a column, as for
    `Profile.text`). Times are microseconds with three decimals; None stands for what was not
    measured, and in place of a table for one that has nothing to tell. Names in columns are indices
    into `names`. `left_out` says what did not fit. Raises TprofileError where there is no such
    column.

    `names` are those of other payloads on the same page, to which this one's are added, `most` the
    bytes for all that is not in them yet.
    """
    names, left_out = names or Names(), list[str]()
    known, part = names.bytes, most / MOST_BYTES
    word = cut(device_word(profile), LABEL)
    operators, sort = sorted_operators(profile, sort)
    kernels = sorted_kernels(profile)
    work = kernels["device_us"].sum() if len(kernels) else math.nan
    answer, first = headline(profile), findings.first_finding(profile)
    result = {
        "id": uuid.uuid4().hex[:16],
        "headline": {
            "lead": answer.lead,
            "text": cut(answer.text, LINE),
            "tone": answer.tone,
            "about": _verdict(profile, answer),
        },
        "versions": cut(f"tprofile {__version__}{_torch(profile)}", LABEL),
        "reason": _sentence(reason(profile)),
        "first": None if first is None else list(first),
        "details": lines_kept("details", details(profile), int(DETAILS_BYTES * part), left_out),
        "figures": [
            {k: cut(v, LABEL) for k, v in asdict(figure).items()} | {"about": figure.about}
            for figure in figures(profile)
        ],
        "warnings": lines_kept(
            "warnings", profile.summary.warnings, int(WARNINGS_BYTES * part), left_out
        ),
        "device": word,
        "runs": max(len(profile.runs), 1),
        "complete": profile.complete,
        "run_times_ns": _run_times(profile),
        "names": names.shown,
        "findings": _findings(profile, names, int(FINDINGS_BYTES * part), left_out),
        "lines": _code(profile, word, names, int(LINES_BYTES * part), left_out),
    }

    def left() -> int:
        return most + known - _RESERVE - size(result)

    def room(table: int, share: float = 1) -> int:
        """Return the bytes for a table: not those that are kept for what comes after it."""
        return int(min(table * part, (left() - STRIP_BYTES * part) * share))

    result["modules"] = _modules(profile, word, names, room(MODULES_BYTES, 1 / 3), left_out)
    result["tree"] = _tree(profile.tree, word, names, room(TREE_BYTES, 1 / 4), left_out)
    result["operators"] = _operators(
        operators, sort, work, word, names, room(TABLE_BYTES, 1 / 2), left_out
    )
    result["kernels"] = _kernels(profile, kernels, work, word, names, room(TABLE_BYTES), left_out)
    drawn = min(left(), int(TABLE_BYTES * part))
    result["strip"] = drawing(profile, drawn, names, left_out)
    if names.cut:
        left_out.append(
            f"names: {names.cut:,} of more than {NAME:,} characters are cut in their middle"
        )
    return {**result, "left_out": left_out}


def _run_times(profile: Profile) -> dict[str, list[int]]:
    """Return start and end of the first runs, and of the one that is drawn, by their numbers."""
    times = profile.run_times_ns
    drawn = {profile.strip.run} if profile.strip else set()
    numbers = sorted(drawn.union(range(1, min(len(times), RUNS) + 1)))
    return {str(run): list(times[run - 1]) for run in numbers}


def _verdict(profile: Profile, answer: Headline) -> str | None:
    """Return what the verdict means; None where what leads the answer is none."""
    verdict = profile.summary.verdict
    return meaning(verdict) if answer.lead and profile.complete and verdict else None


def _torch(profile: Profile) -> str:
    version = profile.trace.recorded.torch
    return f" · torch {visible(version)}" if version else ""


def _sentence(text: str | None) -> str | None:
    return None if text is None else sentence(cut(text, LINE))


def _text(text: str, most: int) -> str:
    # Of nothing `cut` makes quotes.
    return cut(text, most) if text else ""


def lines_kept(what: str, lines: Sequence[str], room: int, left_out: list[str]) -> list[str]:
    """Return the first of the lines, as many as there is room for in so many bytes."""
    kept = []
    for line in lines[:LINES]:
        shown = cut(line, LINE)
        room -= size(shown) + 1
        if room < 0:
            break
        kept.append(shown)
    if len(kept) < len(lines):
        left_out.append(f"{what}: the first {len(kept)} of {len(lines):,} are here")
    return kept


def _findings(profile: Profile, names: Names, room: int, left_out: list[str]) -> dict[str, Any]:
    """Return the findings as text, the first that there is room for, each with its operator."""
    every = profile.findings
    rows = told(
        (
            finding_row(
                one, findings.TONES.get(one.kind), findings.gain(profile, one), findings.hint
            )
            for one in every
        ),
        room,
    )
    operators = set(profile.operators["name"]) if rows else set()
    for one, row in zip(every, rows, strict=False):
        said = (part for part in _BETWEEN.split(one.where) if part in operators)
        row["operator"] = names.index(next(said, None))
    say_findings(len(rows), len(every), "Profile", left_out)
    none = None if every else sentence(cut(findings.none_found(profile), LINE))
    return {"of": len(every), "rows": rows, "none": none}


def finding_row(
    one: Finding, tone: str | None, gain: str | None, more: Callable[[str], str | None]
) -> dict[str, Any]:
    """Return a finding as text: `gain` in words, `more` what tells all about its kind."""
    return {
        "kind": cut(one.kind, LABEL),
        "tone": tone,
        "title": sentence(cut(one.title, SOURCE)),
        "where": _text(one.where, SOURCE),
        "gain": gain,
        "evidence": _text(one.evidence, LINE),
        "advice": _text(one.advice, LINE),
        "more": more(cut(one.kind, LABEL)),
        "line": one.line,
    }


def told(rows: Iterable[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Return the first of the rows, as many as there is room for in so many bytes."""
    kept = []
    for row in rows:
        room -= size(row) + 1
        if room < 0:
            break
        kept.append(row)
    return kept


def say_findings(kept: int, of: int, whose: str, left_out: list[str]) -> None:
    """Say how many findings are here, if not all."""
    if kept < of:
        left_out.append(
            f"findings: the first {kept} of {of:,} are here; all are in {whose}.findings"
        )


def _code(
    profile: Profile, word: str, names: Names, room: int, left_out: list[str]
) -> dict[str, Any] | None:
    """Return the lines, in the order of the code; None where no more than one ran."""
    if not lines.worth_showing(profile):
        return None
    every = lines.all_lines(profile)
    # Those that cost most are kept; the order is then that of the code again.
    frame = lines.by_weight(every)
    device, backward = lines.has_device(every), lines.has_backward(every)
    elsewhere = frame["file"].notna().any()
    columns: dict[str, Iterable[Any] | None] = {
        "file": frame["file"].tolist() if elsewhere else None,
        "short": [cut(short, LABEL) if short else None for short in frame["short"]]
        if elsewhere
        else None,
        "function": frame["function"].tolist() if frame["function"].notna().any() else None,
        "line": frame["line"].tolist(),
        "source": [_text(text, SOURCE) for text in frame["source"]],
        "label": [
            lines.label(profile, one, several) or None
            for one, several in zip(frame["finding"], frame["findings"], strict=True)
        ],
        "finding": [one if one >= 0 else None for one in frame["finding"].tolist()],
    }
    for key in ("calls", "cpu_us", "device_us", "backward_device_us", "launches"):
        known = backward if key.startswith("backward") else device or key in ("calls", "cpu_us")
        columns[key] = frame[key].tolist() if known else None
    sort = "line" if lines.has_cell(every) else "device_us" if device else "cpu_us"
    packed = table(len(every), sort, columns, {"file", "function"}, names, room)
    kept = packed["columns"]
    order = frame.index[: len(kept["line"])].argsort(kind="stable").tolist()
    packed["columns"] = {key: values and [values[i] for i in order] for key, values in kept.items()}
    _say("lines", packed, "time", left_out)
    return {**packed, "heads": heads.lines(_there(packed), word, bool(elsewhere))}


def _modules(
    profile: Profile, word: str, names: Names, room: int, left_out: list[str]
) -> dict[str, Any] | None:
    frame, sort = sorted_modules(profile)
    if frame.empty:
        return None
    columns: dict[str, Iterable[Any] | None] = {key: frame[key].tolist() for key in _MODULE_COLUMNS}
    kinds = zip(frame["type"], frame["compiled"], strict=True)
    columns["type"] = [f"{kind}, compiled" if compiled else kind for kind, compiled in kinds]
    for key in _MODULE_COLUMNS[4:]:
        if frame[key].isna().all():
            columns[key] = None
    if not (frame["backward_device_us"] > 0).any():
        columns["backward_device_us"] = None
    packed = table(len(frame), sort, columns, {"module", "type"}, names, room)
    _say("modules", packed, column_words(sort, word), left_out)
    return {**packed, "heads": heads.modules(_there(packed), word)}


_MODULE_COLUMNS = (
    "module", "type", "calls", "cpu_us", "self_device_us", "device_us", "backward_device_us",
    "launches",
)  # fmt: skip


def _tree(
    frame: pd.DataFrame, word: str, names: Names, room: int, left_out: list[str]
) -> dict[str, Any] | None:
    """Return the call tree, parents first, with the nodes that take most; None where it has none.

    What is inside another call takes no more than that one, so no node is kept without those around
    it.
    """
    if frame.empty:
        return None
    device = frame["device_us"].notna().any()
    keys = ["calls", "self_cpu_us", "cpu_us", *(("self_device_us", "device_us") if device else ())]
    weight = shares(frame["cpu_us"])
    if device:
        weight = weight.combine(shares(frame["device_us"]), max)
    order = (-weight).argsort(kind="stable").tolist()
    columns: dict[str, Iterable[Any] | None] = {
        "id": order,
        "parent": frame["parent"].iloc[order].tolist(),
        "name": frame["name"].iloc[order].tolist(),
        **{key: frame[key].iloc[order].tolist() for key in keys},
    }
    packed = table(len(frame), "weight", columns, {"name"}, names, room)
    kept = packed["columns"]
    place = {node: i for i, node in enumerate(sorted(kept["id"]))}
    rows = sorted(range(len(place)), key=kept["id"].__getitem__)
    packed["columns"] = {key: [kept[key][i] for i in rows] for key in ("name", *keys)}
    packed["columns"]["parent"] = [place.get(kept["parent"][i], -1) for i in rows]
    say_rows("tree", len(rows), len(frame), f"CPU or {word} time", "Profile", left_out)
    shown = "device_us" if device else "cpu_us"
    return {**packed, "sort": shown, "heads": heads.tree(_there(packed), word)}


GROUP_BYTES = 4_000_000
"""Of a table that is asked for: ten thousand rows and more."""

GROUPS = {"operators": ("shape", "thread", "line", "module", "stack"), "kernels": ("name",)}
"""What rows of a table can be told apart by, or be put together by, beside what they are."""


def grouped(profile: Profile, of: str, by: str) -> dict[str, Any]:
    """Return a table with a row per name and value of `by`, and the names that it refers to.

    Of the call tree `by` is the number of the run that it is of. Raises TprofileError where there
    is no such table, or nothing of the kind was recorded.
    """
    names, left_out = Names(), list[str]()
    if of == "tree" and by in {str(run) for run in profile.runs["run"]}:
        word = cut(device_word(profile), LABEL)
        shown = _tree(profile.tree_of(int(by)), word, names, GROUP_BYTES, left_out)
        return {"table": shown, "names": names.shown, "left_out": left_out}
    if by not in GROUPS.get(of, ()):
        raise TprofileError(f"there is no table of {of!r} by {by!r}.")
    word, kernels = cut(device_word(profile), LABEL), sorted_kernels(profile)
    work = kernels["device_us"].sum() if len(kernels) else math.nan
    if of == "kernels":
        frame = by_name(kernels)
        shown = _kernels(profile, frame, work, word, names, GROUP_BYTES, left_out)
    else:
        frame, sort = sorted_operators(profile, None, by)
        shown = _operators(frame, sort, work, word, names, GROUP_BYTES, left_out, by)
    return {"table": shown, "names": names.shown, "left_out": left_out}


def _operators(
    frame: pd.DataFrame,
    sort: str,
    work: float,
    word: str,
    names: Names,
    room: int,
    left_out: list[str],
    by: str | None = None,
) -> dict[str, Any]:
    device = not math.isnan(work)
    columns: dict[str, Iterable[Any] | None] = {"name": operator_names(frame)}
    if by is not None:
        columns[by] = [str(value) for value in frame[by]]
    for key in ("calls", "self_cpu_us", "cpu_us", "self_device_us", "device_us"):
        columns[key] = frame[key].tolist() if device or "device" not in key else None
    columns["spread"] = _told(frame["spread"])
    shown = bytes_column(frame, sort)
    columns["self_bytes"] = frame[shown].tolist() if shown in frame else None
    lead = "self_bytes" if sort in BYTES else sort
    packed = table(len(frame), lead, columns, {"name", by or "name"}, names, room)
    _say("operators", packed, column_words(sort, word), left_out)
    of = None if shown not in frame else word if shown == BYTES[0] else "CPU"
    whole = {"self_cpu_us": number(frame["self_cpu_us"].sum()), "self_device_us": number(work)}
    return {**packed, "heads": heads.operators(_there(packed), word, whole, of, by)}


def _kernels(
    profile: Profile,
    frame: pd.DataFrame,
    work: float,
    word: str,
    names: Names,
    room: int,
    left_out: list[str],
) -> dict[str, Any]:
    label = cache(lambda device: device_label(profile, device))
    columns: dict[str, Iterable[Any] | None] = {
        key: frame[key].tolist() for key in _KERNEL_COLUMNS if key in frame
    }
    if "device" in frame:
        columns["device"] = (label(device) for device in frame["device"].tolist())
    columns["spread"] = _told(frame["spread"])
    texts = {"name", "operator", "device", "grid", "block"}
    packed = table(len(frame), "device_us", columns, texts, names, room)
    _say("kernels", packed, f"{word} time", left_out)
    devices, streams = (len(set(packed["columns"].get(key, ()))) for key in ("device", "stream"))
    shown = heads.kernels(_there(packed), word, number(work), devices > 1, streams > 1)
    return {**packed, "heads": shown}


def _there(packed: dict[str, Any]) -> set[str]:
    return {key for key, values in packed["columns"].items() if values is not None}


def _told(values: pd.Series) -> list[float] | None:
    return values.tolist() if values.notna().any() else None


_KERNEL_COLUMNS = (
    "name", "operator", "device", "stream", "calls", "device_us", "mean_us", "min_us",
    "median_us", "max_us", "grid", "block", "occupancy",
)  # fmt: skip


def _say(what: str, packed: dict[str, Any], by: str, left_out: list[str]) -> None:
    say_rows(what, len(packed["columns"]["calls"]), packed["of"], by, "Profile", left_out)


def say_rows(what: str, kept: int, of: int, by: str, whose: str, left_out: list[str]) -> None:
    """Say how many rows of a table are here, if not all, and where all are."""
    if kept < of:
        those = f"the first {kept:,} by name" if by == "name" else f"the {kept:,} with most {by}"
        left_out.append(f"{what}: {those} of {of:,} are here; all are in {whose}.{what}")
