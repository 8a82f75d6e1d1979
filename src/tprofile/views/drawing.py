"""The strip as plain values of few bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .pack import LABEL, Names, number, size
from .words import cut, device_label

if TYPE_CHECKING:
    from ..analysis.strip import Lane, Strip
    from ..result import Profile


def drawing(
    profile: Profile, room: int, names: Names, left_out: list[str]
) -> dict[str, Any] | None:
    """Return the strip in so many bytes, the names that it adds among them; None without one.

    Where there is no room, it is drawn coarser, and the shortest spans bear no name.
    """
    strip = profile.strip
    if strip is None:
        return None
    lanes = [lane_row(profile, lane) for lane in strip.lanes]
    drawn = _drawn(strip, lanes)
    while (taken := size(drawn)) > room and len(strip.at_most(len(strip) - 1)) < len(strip):
        strip = strip.at_most(len(strip) * 3 // 4)
        drawn = _drawn(strip, lanes)
    nameless = _name(strip, drawn["spans"], names, room - taken)
    if strip.more_devices:
        left_out.append(f"strip: {strip.more_devices:,} more devices are not drawn")
    if nameless:
        left_out.append(f"strip: there was no room for {nameless:,} of the names")
    return drawn


def lane_row(profile: Profile, lane: Lane) -> dict[str, Any]:
    """Return a lane as plain values."""
    return {
        "kind": lane.kind,
        "label": cut(lane.label or device_label(profile, lane.device), LABEL),
        "rows": lane.rows,
        "streams": list(lane.streams) if lane.kind == "device" else None,
    }


def _drawn(strip: Strip, lanes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the strip as it is without names."""

    def numbers(values: Any) -> list[int | float | None]:
        return [number(value) for value in values.tolist()]

    single = bool((strip.count == 1).all())
    return {
        "run": strip.run,
        "of": strip.of,
        "wall_us": number(strip.wall_us),
        "resolution_us": number(strip.resolution_us),
        "lanes": lanes,
        "spans": {
            "lane": strip.lane.tolist(),
            "row": strip.row.tolist(),
            "kind": strip.kind.tolist(),
            "start_us": numbers(strip.start_us),
            "duration_us": numbers(strip.duration_us),
            "count": None if single else strip.count.tolist(),
            "busy_us": None if single else numbers(strip.busy_us),
            "name": [None] * len(strip),
            "operator": [None] * len(strip),
            "launch": strip.launch.tolist(),
            "line": None
            if (strip.line < 0).all()
            else [line if line >= 0 else None for line in strip.line.tolist()],
        },
    }


def _name(strip: Strip, spans: dict[str, list[Any]], names: Names, room: int) -> int:
    """Fill in names, of the longest spans first, and return for how many there was no room."""
    refused: set[str] = set()
    for i in (-strip.duration_us).argsort(kind="stable").tolist():
        for key, name in (("name", strip.name[i]), ("operator", strip.operator[i])):
            if name in refused:
                continue
            n, before = len(names.shown), names.bytes
            index = names.index(name)
            if (took := names.bytes - before) > room:
                names.forget(n)
                refused.add(name)
                continue
            room -= took
            spans[key][i] = index
    return len(refused)
