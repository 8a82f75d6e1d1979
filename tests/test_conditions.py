"""What NVIDIA's driver tells of other processes and of clocks, with a driver made up here."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tprofile.conditions import Conditions

POWER, THERMAL = 0, 1
UUIDS = {0: "GPU-zero", 3: "GPU-three"}


class Driver(ModuleType):
    """Stands in for `pynvml`: each handle is its UUID."""

    NVML_PERF_POLICY_POWER = POWER
    NVML_PERF_POLICY_THERMAL = THERMAL
    nvmlClocksEventReasonSwPowerCap = 4
    nvmlClocksEventReasonSwThermalSlowdown = 0x20
    nvmlClocksEventReasonHwThermalSlowdown = 0x40

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.pids: dict[str, list[int]] = {uuid: [os.getpid()] for uuid in UUIDS.values()}
        self.held: dict[tuple[str, int], int] = {}
        self.counts = True
        self.reasons = 0
        self.started = 0

    def nvmlInit(self) -> None:
        self.started += 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.pids:
            raise self.NVMLError("not found")
        return uuid

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in self.pids[handle]]

    def nvmlDeviceGetViolationStatus(self, handle: str, policy: int) -> Any:
        if not self.counts:
            raise self.NVMLError("not supported")
        return SimpleNamespace(violationTime=self.held.get((handle, policy), 7))

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return self.reasons


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def test_a_device_of_ones_own_at_full_speed_is_nothing_to_tell(driver: Driver) -> None:
    conditions = Conditions()
    conditions.begin(UUIDS)
    assert conditions.begun
    assert conditions.end(UUIDS, 1.0) == []
    assert driver.started


def test_other_processes_are_counted_and_named(driver: Driver) -> None:
    # GIVEN one that was there before the runs, and one that came
    conditions = Conditions()
    driver.pids["GPU-zero"] = [os.getpid(), 71]
    conditions.begin(UUIDS)
    driver.pids["GPU-zero"] = [70, os.getpid()]
    driver.pids["GPU-three"] = [os.getpid(), *range(1, 8)]
    assert conditions.end(UUIDS, 1.0) == [
        "2 other processes use CUDA 0 (pid 70, 71): what they do there is in no figure, and makes "
        "times longer",
        "7 other processes use CUDA 3 (pid 1, 2, 3, 4, 5, …): what they do there is in no figure, "
        "and makes times longer",
    ]


@pytest.mark.parametrize(("pids", "told"), [([], []), ([41], []), ([41, 42], ["41, 42"])])
def test_where_the_driver_numbers_processes_otherwise(
    driver: Driver, pids: list[int], told: list[str]
) -> None:
    # GIVEN a container that does not see its own number: a single process is this one
    conditions = Conditions()
    driver.pids["GPU-zero"] = pids
    conditions.begin({0: "GPU-zero"})
    said = conditions.end({0: "GPU-zero"}, 1.0)
    assert said == [
        "1 other process uses CUDA 0 (one of pid 41, 42 is this one): what it does there is in no "
        "figure, and makes times longer"
    ] * len(told)


@pytest.mark.parametrize(("held_s", "told"), [(0.02, False), (0.021, True), (0.94, True)])
def test_clocks_held_down_for_a_part_of_the_runs(driver: Driver, held_s: float, told: bool) -> None:
    # GIVEN counters of nanoseconds, in runs of two seconds: a hundredth of them is not worth a word
    conditions = Conditions()
    driver.held["GPU-zero", POWER] = 5_000_000_000
    conditions.begin(UUIDS)
    driver.held["GPU-zero", POWER] += round(held_s * 1e9)
    said = (
        f"the clocks of CUDA 0 were held down by the power limit for {held_s:.3g} s (all runs "
        "took 2 s): times vary with that"
    )
    assert conditions.end(UUIDS, 2.0) == [said] * told


def test_without_counters_the_moment_after_the_runs_is_told(driver: Driver) -> None:
    driver.counts = False
    conditions = Conditions()
    conditions.begin({0: "GPU-zero"})
    driver.reasons = 4 | 0x20 | 0x40
    assert conditions.end({0: "GPU-zero"}, 1.0) == [
        "the clocks of CUDA 0 were held down by the power limit and the temperature at the end of "
        "the runs: times vary with that"
    ]
    driver.reasons = 1  # idle, which is no fault
    assert conditions.end({0: "GPU-zero"}, 1.0) == []


def test_a_driver_that_knows_nothing_is_no_obstacle(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a device that the driver does not know (a part of one), and an old package
    conditions = Conditions()
    conditions.begin({0: "GPU-part"})
    assert not conditions.begun
    assert conditions.end({0: "GPU-part"}, 1.0) == []
    monkeypatch.delattr(Driver, "nvmlDeviceGetViolationStatus")
    monkeypatch.delattr(Driver, "nvmlDeviceGetCurrentClocksEventReasons")
    conditions.begin(UUIDS)
    assert conditions.end(UUIDS, 1.0) == []
    # AND no package at all
    monkeypatch.setitem(sys.modules, "pynvml", None)
    without = Conditions()
    without.begin(UUIDS)
    assert without.end(UUIDS, 1.0) == []


def test_a_device_that_came_into_use_in_the_runs(driver: Driver) -> None:
    conditions = Conditions()
    conditions.begin({})
    assert not conditions.begun
    conditions.begin({0: "GPU-zero"})
    driver.pids["GPU-three"] = [os.getpid(), 9]
    # Held since the driver was loaded, which says nothing of the runs.
    driver.held["GPU-three", THERMAL] = 10**12
    assert conditions.end(UUIDS, 1.0) == [
        "1 other process uses CUDA 3 (pid 9): what it does there is in no figure, and makes times "
        "longer"
    ]
