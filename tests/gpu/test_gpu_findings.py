"""Code that is slow for one known reason, and the same repaired: told of the one, not the other."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import CASES

TWINS = [(name, one.repairs) for name, one in CASES.items() if one.repairs]
HEALTHY = [name for name in CASES if name.startswith("healthy")]
MORE = [name for name, one in CASES.items() if one.kind and name not in {t for _, t in TWINS}]


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """What the cases took and what was said of them, measured in a process of its own."""
    script = Path(__file__).parent / "measure_cases.py"
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=400, check=False
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(CASES), ran.stderr[-3000:]
    for line in lines:
        print(json.dumps({**line, "walls_s": round(statistics.median(line["walls_s"]), 7)}))
    return {line["name"]: line for line in lines}


def kinds(one: dict[str, Any]) -> list[str]:
    return [kind for kind, *_ in one["findings"]]


@pytest.mark.parametrize(("repaired", "planted"), TWINS)
def test_a_planted_cause_is_found_and_a_repaired_one_is_not(
    measured: dict[str, Any], repaired: str, planted: str
) -> None:
    kind = CASES[planted].kind
    assert kind in kinds(measured[planted])
    assert kind not in kinds(measured[repaired])


@pytest.mark.parametrize(("repaired", "planted"), TWINS)
def test_what_the_repair_gains_is_within_the_bound(
    measured: dict[str, Any], repaired: str, planted: str
) -> None:
    before, after = (
        statistics.median(measured[name]["walls_s"]) * 1e6 for name in (planted, repaired)
    )
    bounds = [gain for kind, gain, *_ in measured[planted]["findings"]
              if kind == CASES[planted].kind]  # fmt: skip
    assert before - after > 0
    assert before - after <= bounds[0]


@pytest.mark.parametrize("name", MORE)
def test_more_of_the_same_kinds_are_found(measured: dict[str, Any], name: str) -> None:
    assert CASES[name].kind in kinds(measured[name])


@pytest.mark.parametrize("name", HEALTHY)
def test_of_healthy_code_nothing_is_said(measured: dict[str, Any], name: str) -> None:
    assert measured[name]["findings"] == []


@pytest.mark.parametrize("name", [name for name, one in CASES.items() if one.verdict])
def test_the_verdict_is_what_was_planted(measured: dict[str, Any], name: str) -> None:
    assert measured[name]["verdict"] == CASES[name].verdict
