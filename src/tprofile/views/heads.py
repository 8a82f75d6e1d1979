"""What stands in the columns of the widget's tables, as plain values: their heads and meaning."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..explaining import meaning

Head = dict[str, Any]
"""Of a column: `key`, in which the values are; `head`; `kind`: `name` and `text` are words (names
take the room that is left, and are looked at by a filter), `time` microseconds, `bytes`, `count`
and `number` what they say, `share` the part of `whole` that `key` is, `spread` a fraction. `about`
says what it is, `color` that of its bars. `unit` is the column whose largest value chooses the unit
and the scale of the bars, `scale` those that have the scale in common. Sums are per run but where
`each` is set. `aside` is left out where there is little room, 2 before 1. `least` are the pixels
that a name needs.
"""

_SPREAD = "Half of what lies between the shortest and the longest run, in percent of the median run"


def lines(columns: Collection[str], word: str, elsewhere: bool) -> list[Head]:
    """Return the heads of the lines of code."""
    heads = [
        _head("source", "code" if elsewhere else "cell", "name", least=300),
        _head("calls", "calls", "count", "How often the line ran", aside=2),
        _time(
            "cpu_us", "CPU", "cpu",
            "Time in the line, without the lines inside it; of a line of a function, with all that "
            "it calls",
        ),
        _time(
            "device_us", word, "device",
            "Time of kernels, copies and sets that were launched while it ran",
        ),
        _time(
            "backward_device_us", "backward", "pale",
            f"Time on {word} in the backward pass of what it computed: a part of the line that "
            "waits for it",
        ),
        _head("launches", "launches", "count", meaning("launch"), aside=1),
    ]  # fmt: skip
    scaled = [key for key in ("cpu_us", "device_us") if key in columns]
    return [
        {**one, "scale": scaled} if one["kind"] == "time" else one
        for one in heads
        if one["key"] in columns
    ]


def modules(columns: Collection[str], word: str) -> list[Head]:
    """Return the heads of the modules."""
    scaled = [key for key in ("cpu_us", "device_us") if key in columns]
    return _there(columns, [
        _head("module", "module", "name", least=230),
        _head("type", "type", "name"),
        _calls(),
        _time("cpu_us", "CPU", "cpu", "Time in the calls of the module", scale=scaled),
        _time(
            "self_device_us", f"self {word}", None,
            "Time of kernels, copies and sets of the module itself, without the modules in it",
            unit="device_us",
        ),
        _time(
            "device_us", f"{word} total", "device",
            "Time of kernels, copies and sets of the module and those in it", scale=scaled,
        ),
        _time(
            "backward_device_us", "backward", None,
            f"Time on {word} in the backward pass of the module",
        ),
        _head("launches", "launches", "count", meaning("launch"), aside=1),
    ])  # fmt: skip


def tree(columns: Collection[str], word: str) -> list[Head]:
    """Return the heads of the call tree."""
    return _there(columns, [
        _head("name", "call", "name", least=300),
        _calls(aside=2),
        _time("self_cpu_us", "self CPU", None, meaning("self CPU"), unit="cpu_us"),
        _time("cpu_us", "CPU total", "cpu", meaning("total CPU")),
        _time("self_device_us", f"self {word}", None, meaning("self CUDA"), unit="device_us"),
        _time("device_us", f"{word} total", "device", meaning("total CUDA")),
    ])  # fmt: skip


def operators(
    columns: Collection[str],
    word: str,
    whole: dict[str, float | None],
    bytes_of: str | None,
    by: str | None = None,
) -> list[Head]:
    """Return the heads of the operators; `by` is what else tells their rows apart."""
    spread = _head("spread", "±%", "spread", _SPREAD, aside=2)
    on_device = "self_device_us" in columns
    return _there(columns, [
        _head("name", "operator", "name"),
        *([_head(by, by, "name")] if by else ()),
        _calls(),
        _time("self_cpu_us", "self CPU", "cpu", meaning("self CPU"), unit="cpu_us"),
        _share("self_cpu_us", whole, "the CPU time in all of these"),
        *(() if on_device else (spread,)),
        _time("cpu_us", "CPU total", "inner", meaning("total CPU")),
        _time("self_device_us", f"self {word}", "device", meaning("self CUDA"), unit="device_us"),
        _share("self_device_us", whole, f"all {word} time"),
        *((spread,) if on_device else ()),
        _time("device_us", f"{word} total", "pale", meaning("total CUDA")),
        _head(
            "self_bytes", "self", "bytes",
            f"Bytes of {bytes_of} memory that the operator itself allocated, less those that it "
            "released",
        ),
    ])  # fmt: skip


def kernels(
    columns: Collection[str], word: str, whole: float | None, devices: bool, streams: bool
) -> list[Head]:
    """Return the heads of kernels, copies and sets; of several devices, or streams, which."""
    each = [
        _time(f"{key}_us", key, None, f"Time of {what}", unit="max_us", each=True)
        for key, what in (
            ("mean", "one call, on average"), ("min", "the shortest call"),
            ("median", "one call, the median"), ("max", "the longest call"),
        )
    ]  # fmt: skip
    return _there(columns, [
        _head("name", "kernel", "name"),
        *([_head("device", "device", "text", meaning("device"))] if devices else ()),
        _head("operator", "operator", "name"),
        _calls(),
        _time("device_us", word, "device", "Time of kernels, copies and sets of this name"),
        _share("device_us", {"device_us": whole}, f"all {word} time"),
        _head("spread", "±%", "spread", _SPREAD, aside=2),
        *each,
        *([_head("stream", "stream", "number", meaning("stream"))] if streams else ()),
        _head("grid", "grid", "text", meaning("grid"), aside=2),
        _head("block", "block", "text", meaning("block"), aside=2),
        _head("occupancy", "occupancy", "number", meaning("occupancy"), unit="%", aside=2),
    ])  # fmt: skip


def _there(columns: Collection[str], heads: list[Head]) -> list[Head]:
    return [one for one in heads if one["key"] in columns]


def _head(key: str, head: str, kind: str, about: str = "", **more: Any) -> Head:
    return {"key": key, "head": head, "kind": kind, **({"about": about} if about else {}), **more}


def _calls(**more: Any) -> Head:
    return _head("calls", "calls", "count", meaning("calls"), **more)


def _time(key: str, head: str, color: str | None, about: str, **more: Any) -> Head:
    return _head(key, head, "time", about, **({"color": color} if color else {}), **more)


def _share(key: str, whole: dict[str, float | None], of: str) -> Head:
    return _head(key, "%", "share", f"Percent of {of}", whole=whole[key], aside=1)
