"""Ask NVIDIA's driver what else held the devices back: other processes, clocks held down."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CAUSES = {
    "NVML_PERF_POLICY_POWER": "the power limit",
    "NVML_PERF_POLICY_THERMAL": "the temperature",
    "NVML_PERF_POLICY_SYNC_BOOST": "sync boost with other devices",
    "NVML_PERF_POLICY_BOARD_LIMIT": "the board's limit",
    "NVML_PERF_POLICY_RELIABILITY": "the voltage limit",
}
"""What holds clocks down, by the counter of nanoseconds for which it did."""

_NOW = {
    "nvmlClocksEventReasonSwPowerCap": "the power limit",
    "nvmlClocksEventReasonHwPowerBrakeSlowdown": "the power supply",
    "nvmlClocksEventReasonSwThermalSlowdown": "the temperature",
    "nvmlClocksEventReasonHwThermalSlowdown": "the temperature",
    "nvmlClocksEventReasonHwSlowdown": "the hardware's protection",
}
"""The same at a moment, for devices without such counters."""

_LEAST = 0.01
"""Part of the runs for which clocks must be held down to be worth a word."""


@dataclass(frozen=True)
class _State:
    processes: frozenset[int]
    held_ns: Mapping[str, int]


class Conditions:
    """What other processes and the clocks of some devices did between two moments.

    Without nvidia-ml-py, or where the driver does not tell, there is nothing to say.
    """

    def __init__(self) -> None:
        self._nvml: Any = None
        self._absent = False
        self._before: dict[int, _State] = {}

    @property
    def begun(self) -> bool:
        """Whether the devices were looked at."""
        return bool(self._before)

    def begin(self, uuids: Mapping[int, str]) -> None:
        """Look at the devices, given as index and UUID, for the first time; later calls do nothing.

        Call it outside of what is timed: it takes milliseconds.
        """
        if self.begun or self._absent or not uuids:
            return
        try:
            self._nvml = importlib.import_module("pynvml")
        except Exception:
            # Not there, or not to be used: that is no fault of the code that is profiled.
            self._absent = True
            return
        self._before = self._look(uuids)

    def end(self, uuids: Mapping[int, str], ran_s: float) -> list[str]:
        """Look again, and return a sentence for each thing that may have made times longer.

        `ran_s` are the seconds that all runs took in between.
        """
        if not self._before:
            return []
        notes = []
        for index, after in self._look(uuids).items():
            before = self._before.get(index, after)
            if told := _others(before.processes | after.processes, index):
                notes.append(told)
            for cause, held in after.held_ns.items():
                held_s = (held - before.held_ns.get(cause, held)) / 1e9
                if held_s > _LEAST * ran_s:
                    notes.append(
                        f"the clocks of CUDA {index} were held down by {cause} for {held_s:.3g} s "
                        f"(all runs took {ran_s:.3g} s): times vary with that"
                    )
            if not after.held_ns and (causes := self._held_now(uuids[index])):
                notes.append(
                    f"the clocks of CUDA {index} were held down by {' and '.join(causes)} at the "
                    "end of the runs: times vary with that"
                )
        return notes

    def _look(self, uuids: Mapping[int, str]) -> dict[int, _State]:
        found = {}
        for index, uuid in uuids.items():
            if (handle := self._handle(uuid)) is not None:
                found[index] = _State(self._processes(handle), self._held_ns(handle))
        return found

    def _handle(self, uuid: str) -> Any:
        # Starting twice is allowed, and the driver of a forked process has to be started anew.
        self._ask("nvmlInit")
        return self._ask("nvmlDeviceGetHandleByUUID", uuid)

    def _processes(self, handle: Any) -> frozenset[int]:
        listed = self._ask("nvmlDeviceGetComputeRunningProcesses", handle)
        return frozenset(int(one.pid) for one in listed or ())

    def _held_ns(self, handle: Any) -> dict[str, int]:
        held = {}
        for name, cause in _CAUSES.items():
            told = self._ask(
                "nvmlDeviceGetViolationStatus", handle, getattr(self._nvml, name, None)
            )
            if told is not None:
                held[cause] = int(told.violationTime)
        return held

    def _held_now(self, uuid: str) -> list[str]:
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons", self._handle(uuid)) or 0
        told = [cause for name, cause in _NOW.items() if reasons & getattr(self._nvml, name, 0)]
        return list(dict.fromkeys(told))

    def _ask(self, question: str, *args: Any) -> Any:
        """Return the driver's answer, or None where it has none: some devices do not count.

        An older package lacks some of the questions, and of their arguments. Whatever is wrong with
        it, what it would tell is not worth a session.
        """
        ask = getattr(self._nvml, question, None)
        if ask is None or None in args:
            return None
        try:
            return ask(*args)
        except Exception:
            return None


def _others(pids: frozenset[int], index: int) -> str | None:
    """Return a sentence about the processes on a device but this one."""
    numbers = sorted(pids - {os.getpid()})
    named = f"{', '.join(map(str, numbers[:5]))}{', …' * (len(numbers) > 5)}"
    n = len(numbers)
    if os.getpid() not in pids:
        # In a container the driver may number processes as the host does.
        n, named = n - 1, f"one of pid {named} is this one"
    else:
        named = f"pid {named}"
    if n < 1:
        return None
    who = f"{n} other process{'es use' if n > 1 else ' uses'}"
    does = "they do" if n > 1 else "it does"
    return (
        f"{who} CUDA {index} ({named}): what {does} there is in no figure, and makes times longer"
    )
