"""Read torch's profiling results in memory, where names are exact and nothing is written."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import torch
from torch._C._profiler import _EventType

from ..errors import TprofileError
from ..intervals import NONE, Ints
from .build import build
from .collector import collector_paused
from .columns import ARROW, DEVICE_WORK, INSTANT, Trace

_DRIVEN = frozenset(
    {
        "gpu_memcpy", "gpu_memset", "kernel", "cuda_runtime", "cuda_driver", "xpu_runtime",
        "xpu_driver", "mtia_runtime", "privateuse1_runtime", "privateuse1_driver",
    }
)  # fmt: skip
"""Categories whose own correlation id pairs launch and work; the linked one is the operator's."""


def finished(profile: Any) -> Any:
    """Return the results that a stopped `torch.profiler.profile` holds, or raise TprofileError."""
    inner = getattr(profile, "profiler", profile)
    results = getattr(inner, "kineto_results", None)
    if results is None:
        raise TprofileError(
            f"this {type(profile).__name__} holds no finished recording: it was never started, is "
            "still running, or its schedule has not reached the end of a cycle. "
            "Stop it first (leave its `with` block), then load it."
        )
    return results


def read_results(results: Any) -> Trace:
    """Return the Trace in a `_ProfilerResult` of torch.

    torch 2.13 gives its activities as they are; older versions give events, which lack a category
    and, unless `expose_kineto_event_metadata` was on, how kernels were launched.
    """
    header = {"deviceProperties": device_properties()}
    epoch = _base(results.trace_start_ns())
    with collector_paused():
        if hasattr(results, "trace_activities"):
            columns = _activities(results, results.trace_activities())
        else:
            columns = _events(results, results.events())
    columns["start_ns"] = np.asarray(columns["start_ns"], np.int64) - epoch
    return build(**columns, epoch_ns=epoch, header=header)


def _base(now_ns: int) -> int:
    """Return a round time before `now_ns`, as Kineto does, so that a float holds the rest."""
    quarter = 7_889_238 * 10**9
    return now_ns // quarter * quarter


def device_properties() -> list[dict[str, Any]]:
    """Describe the CUDA or HIP devices in use, under the names that Kineto writes."""
    if not torch.cuda.is_initialized():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        # Asking a device for its properties is free; a context on it is not.
        known = torch.cuda.get_device_properties(index)
        found.append(
            {
                "id": index,
                "name": known.name,
                "totalGlobalMem": known.total_memory,
                "computeMajor": known.major,
                "computeMinor": known.minor,
                "numSms": known.multi_processor_count,
                "warpSize": getattr(known, "warp_size", 32),
            }
        )
    return found


class _ActivityDetails:
    """What Kineto would write as `args`, made when asked for. Holds the results alive, no tensor.

    Kineto adds the operator's id to the text itself, so it is added here. The arrows that it would
    draw between operators are numbers here, so that they need no place to be found by.
    """

    def __init__(self, results: Any, activities: Sequence[Any], external: Sequence[int]) -> None:
        self._results = results
        self._activities = activities
        self._external = external

    def args(self, row: int) -> bytes:
        activity = self._activities[row]
        arrow = activity.flow_id() if _is_arrow(activity) else 0
        return object_text(activity.metadata_json(), self._external[row], arrow)

    def arrows(self, rows: Ints) -> Ints:
        found = [self._activities[row] for row in rows.tolist()]
        return np.array(
            [flow if (flow := one.flow_id()) and _is_arrow(one) else 0 for one in found], np.int64
        )


_FORWARD_TO_BACKWARD = 1
"""Kineto's type of such arrows; those from launches to their work are of another."""


def _is_arrow(activity: Any) -> bool:
    return activity.flow_type() == _FORWARD_TO_BACKWARD  # type: ignore[no-any-return]


def object_text(members: str | None, external_id: int, arrow: int = 0) -> bytes:
    """Return members of a JSON object, as Kineto keeps them, as an object with its id and arrow.

    What Kineto did not escape (a quote in a string argument) is kept as one plain string.
    """
    told = re.sub(r"\n\s*", " ", members or "").strip()
    ids = {name: one for name, one in (("External id", external_id), (ARROW, arrow)) if one}
    parts = [f'"{name}": {one}' for name, one in ids.items()]
    text = f"{{{', '.join([*parts, told] if told else parts)}}}".encode()
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.encode({**ids, "unparsed": told})
    return text


def _activities(results: Any, found: Sequence[Any]) -> dict[str, Any]:
    kinds = [a.type() for a in found]
    own = [a.correlation_id() for a in found]
    linked = [a.linked_correlation_id() for a in found]
    correlation, external = _ids(kinds, own, linked)
    duration = [a.duration() for a in found]
    if INSTANT in kinds:
        # An instant has no end; what is recorded as its duration runs to the end of the session.
        duration = [0 if k == INSTANT else d
                    for k, d in zip(kinds, duration, strict=True)]  # fmt: skip
    return {
        "names": [a.name() for a in found],
        "categories": kinds,
        "start_ns": [a.timestamp() for a in found],
        "duration_ns": duration,
        "process": [a.device_id() for a in found],
        "lane": [_lane(a.resource_id()) for a in found],
        "correlation": correlation,
        "external_id": external,
        "details": _ActivityDetails(results, found, external),
    }


def _ids(
    kinds: Sequence[str], own: Sequence[int], linked: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return what pairs launches with their work, and whose operator each event is part of."""
    driven = [kind in _DRIVEN for kind in kinds]
    return (
        [one if drive else 0 for one, drive in zip(own, driven, strict=True)],
        [
            link if drive or link else one
            for one, link, drive in zip(own, linked, driven, strict=True)
        ],
    )


def _lane(resource: int) -> int:
    # As Kineto writes it: the id of a thread is never negative in its files.
    return abs(resource)


_RUNTIME = re.compile(r"(cuda|hip)[A-Z]")
_OUT_OF_MEMORY = "[OutOfMemory]"
_INSTANTS = ("[memory]", _OUT_OF_MEMORY)
_DRIVER = re.compile(r"cu[A-Z]")
_BACKWARD = 1
"""The scope of a node's own range; the engine's around it, of the same number, has another."""


def _events(results: Any, found: Sequence[Any]) -> dict[str, Any]:
    """Read events of torch before 2.13, working out the category that they do not tell."""
    names = [e.name() for e in found]
    annotated = [e.is_user_annotation() for e in found]
    index = [e.device_index() for e in found]
    hosts = torch.autograd.DeviceType.CPU
    host = [e.device_type() == hosts for e in found]
    python = [e.is_python_function() if hasattr(e, "is_python_function") else False for e in found]
    own = [e.correlation_id() for e in found]
    linked = [e.linked_correlation_id() for e in found]
    kinds = [
        _category(*one) for one in zip(names, annotated, host, python, index, linked, strict=True)
    ]
    correlation, external = _ids(kinds, own, linked)
    start = [e.start_ns() for e in found]
    memory = [row for row, kind in enumerate(kinds) if kind == INSTANT]
    told = _memory(results, found, memory)
    return {
        "names": names,
        "categories": kinds,
        "start_ns": start,
        "duration_ns": [
            e.end_ns() - s if k != INSTANT else 0
            for e, s, k in zip(found, start, kinds, strict=True)
        ],
        "process": [os.getpid() if k == INSTANT else i for k, i in zip(kinds, index, strict=True)],
        "lane": [_lane(e.device_resource_id()) for e in found],
        "correlation": correlation,
        "external_id": external,
        "details": _EventDetails(results, found, kinds, external, told),
    }


def _memory(results: Any, found: Sequence[Any], rows: Sequence[int]) -> dict[int, str]:
    """Return the arguments of the given allocations, with the totals where torch tells them."""
    changes = _changes(results) if rows else {}
    told: dict[int, dict[str, Any]] = {}
    for row in rows:
        event, index = found[row], found[row].device_index()
        told[row] = {"Device Id": index, "Device Type": int(event.device_type())}
        # Of an allocation that failed, torch tells no size here.
        if event.name() != _OUT_OF_MEMORY:
            told[row]["Bytes"] = event.nbytes()
            if same := changes.get((event.start_ns(), event.nbytes(), index)):
                change = same.pop(0)
                totals = {
                    "Total Allocated": change.total_allocated,
                    "Total Reserved": change.total_reserved,
                }
                # Below 0 torch was not told either.
                told[row] |= {name: total for name, total in totals.items() if total >= 0}
                told[row]["Addr"] = change.ptr
    _bridge([told[row] for row in sorted(told, key=lambda row: found[row].start_ns())])
    return {row: json.dumps(members)[1:-1] for row, members in told.items()}


def _bridge(changes: Sequence[dict[str, Any]]) -> None:
    """Add the totals that follow from those before and after: torch 2.11 drops some releases.

    What is allocated is the total before and the change; where the next total that is told says
    otherwise, something else is missing too, and nothing is added. A release changes nothing of
    what is reserved.
    """
    by_device: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for one in changes:
        if "Bytes" in one:
            by_device.setdefault((one["Device Type"], one["Device Id"]), []).append(one)
    for ordered in by_device.values():
        # A total less the sum of all changes until then is the same wherever none is missing.
        sums = list(itertools.accumulate(one["Bytes"] for one in ordered))
        base = [
            one["Total Allocated"] - total if "Total Allocated" in one else None
            for one, total in zip(ordered, sums, strict=True)
        ]
        before = _last_known(base)
        after = _last_known(base[::-1])[::-1]
        for i, one in enumerate(ordered):
            level = before[i] if before[i] is not None else after[i]
            if level is not None and after[i] in (level, None):
                one.setdefault("Total Allocated", level + sums[i])
            if i and one["Bytes"] < 0 and "Total Reserved" in ordered[i - 1]:
                one.setdefault("Total Reserved", ordered[i - 1]["Total Reserved"])


def _last_known(values: Sequence[int | None]) -> list[int | None]:
    known, last = [], None
    for value in values:
        last = last if value is None else value
        known.append(last)
    return known


def _changes(results: Any) -> dict[tuple[int, int, int], list[Any]]:
    """Return allocations by time, size and device, with the totals that no event tells."""
    found: dict[tuple[int, int, int], list[Any]] = {}
    level: list[Any] = getattr(results, "experimental_event_tree", list)()
    while level:
        for node in level:
            if node.tag == _EventType.Allocation:
                change = node.extra_fields
                index = NONE if change.device.index is None else change.device.index
                found.setdefault((node.start_time_ns, change.alloc_size, index), []).append(change)
        level = [child for node in level for child in node.children]
    return found


def _category(name: str, annotated: bool, host: bool, python: bool, index: int, linked: int) -> str:
    # An allocation bears the device that it is on, but its host thread made it.
    if name in _INSTANTS and not annotated:
        return INSTANT
    if not host:
        if annotated:
            return "gpu_user_annotation"
        if name.startswith("Memcpy "):
            return "gpu_memcpy"
        return "gpu_memset" if name.startswith("Memset ") else "kernel"
    if annotated:
        return "user_annotation"
    if python:
        return "python_function"
    if index < 0:
        return "overhead"
    # An operator links to nothing; a runtime call outside all operators does not either, so its
    # name has to tell it.
    if linked or _RUNTIME.match(name) or _DRIVER.match(name):
        return "cuda_driver" if _DRIVER.match(name) else "cuda_runtime"
    return "cpu_op"


class _EventDetails:
    """The arguments of an event, put together as Kineto writes them."""

    def __init__(
        self,
        results: Any,
        found: Sequence[Any],
        kinds: Sequence[str],
        external: Sequence[int],
        memory: Mapping[int, str],
    ) -> None:
        self._results = results
        self._found = found
        self._kinds = kinds
        self._external = external
        self._memory = memory

    def args(self, row: int) -> bytes:
        event, kind = self._found[row], self._kinds[row]
        told = getattr(event, "metadata_json", lambda: "")()
        if kind == INSTANT:
            # Its metadata was not exposed in these versions.
            told = self._memory[row]
        elif kind in DEVICE_WORK and not told:
            told = (
                f'"device": {event.device_index()}, "stream": {event.device_resource_id()}, '
                f'"correlation": {event.correlation_id()}'
            )
        elif kind in _DRIVEN and not told:
            told = f'"correlation": {event.correlation_id()}'
        elif kind == "cpu_op":
            extra = {
                "Sequence number": event.sequence_nr(),
                "Fwd thread id": event.fwd_thread_id(),
                "Concrete Inputs": ["" if v is None else str(v) for v in event.concrete_inputs()],
                "Input type": event.dtypes(),
                "Input Dims": event.shapes(),
            }
            if extra["Sequence number"] < 0:
                del extra["Sequence number"], extra["Fwd thread id"]
            members = json.dumps({k: v for k, v in extra.items() if v != []})[1:-1]
            told = ", ".join(part for part in (members, told) if part)
        return object_text(told, self._external[row], self._arrow.get(row, 0))

    def arrows(self, rows: Ints) -> Ints:
        return np.array([self._arrow.get(row, 0) for row in rows.tolist()], np.int64)

    @cached_property
    def _arrow(self) -> dict[int, int]:
        """Number the arrows that torch would draw, as it finds them, at both ends of each.

        An operator bears the number of the node that would be made next in its thread, a backward
        operator that of its node: so its forward is the last in that thread to bear it before.
        """
        rows = [row for row, kind in enumerate(self._kinds) if kind == "cpu_op"]
        numbers = itertools.count(1)
        last: dict[tuple[int, int], int] = {}
        arrow: dict[int, int] = {}
        for row in sorted(rows, key=lambda row: self._found[row].start_ns()):
            event = self._found[row]
            sequence, thread = event.sequence_nr(), event.fwd_thread_id()
            if sequence < 0:
                continue
            if not thread:
                last[event.start_thread_id(), sequence] = row
            elif event.scope() == _BACKWARD and (thread, sequence) in last:
                arrow[row] = arrow[last.pop((thread, sequence))] = next(numbers)
        return arrow
