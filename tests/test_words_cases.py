"""Figures in words, as written down for the front end, which must say the same.

`python tests/test_words_cases.py` writes the file anew.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tprofile.units import bytes_unit, duration, times, unit
from tprofile.views.words import count, percent

FILE = Path(__file__).parents[1] / "src" / "frontend" / "src" / "words.cases.json"

# Halves that a binary number holds exactly are rounded to the even digit: 2.125 to 2.12.
COLUMNS: list[list[float | None]] = [
    [], [None], [0], [0, None], [0.31], [1], [999.994], [999.995], [999.999], [1000], [59999],
    [0.001, 0.0049, 0.005, 0.0051], [1e-6], [2.125, 2.375, 2.625, 2.875, 0.005, 0.004, 0, None],
    [310, 5.9, 0.5], [1540, 593, 4.999, 5, 5.001, 0.001, 0, None], [999_994.999, 0.1],
    [999_995], [999_999.999], [1e6, 5000, 4999, 1], [6e7, 3_599_999_999.5], [1e15, 1],
    [-5, 0.2], [-1500, 1500, -0.001], [-0.125, -0.375], [125, 375.5, 1125, 1375, 2625],
    [1 / 3, 200 / 3], [37.77, 8.9, 31.23, 24.83], [0.0625, 0.03125, 0.9375], [1.005, 1.015, 1.025],
]  # fmt: skip
KIB, MIB, GIB = 2**10, 2**20, 2**30
BYTES: list[list[float | None]] = [
    [], [None], [0], [0, None], [1, 0.5, 1.5, 2.5, 0.49, 1 / 3, None], [0.25], [1023], [1023.999],
    [KIB, 5.12, 5.11, 1], [1536, -1536, 0], [MIB - 1], [MIB, 5 * KIB, 6 * KIB, None], [-1, -0.4],
    [-5 * MIB, MIB / 8, 3 * MIB / 8], [GIB, 2.125 * GIB, 1], [2.0**40, 2.0**39], [2.0**52],
]  # fmt: skip
FRACTIONS = [
    None, 0, 1, 0.5, 0.4, 0.281, 1 / 3, 2 / 3, 0.0004999, 0.0005, 0.00051, 0.000001, 0.99949,
    0.9995, 0.99951, 0.0625, 0.1875, 0.3125, 0.9375, 0.00125, 1.046, 12.5, -0.05, -0.0001, 1e6,
]  # fmt: skip
TIMES = [
    None, 0, 1, 0.001, 0.0004, 0.31, 0.999, 0.9994, 0.9995, 0.99999, 5.9, 9.994, 9.995, 9.999,
    9.9951, 12.25, 12.75, 10.05, 99.94, 99.95, 99.96, 99.99, 100, 100.5, 101.5, 590, 999.4, 999.5,
    999.995, 999.999, 1000, 1540, 1005, 1015, 2125, 2375, 59_999, 59_994, 59_950, 182_000,
    182_500, 183_500, 999_499, 999_500, 999_999, 1e6, 1_234_567, 13_336_315.805, 6e7, 3.6e9, 1e15,
    -1, -0.31, -12.25, -1540,
]  # fmt: skip
NUMBERS = [0, 1, 2, 90, 1000, 123_456, 1e15, 1 / 3, 2 / 3, 4 / 3, 0.125, 0.375, 2.5, 1.005, 0.004,
           0.005, 99.995, 999.999, -1, -0.5]  # fmt: skip
RATIOS = [
    0,
    1e-6,
    0.004,
    0.005,
    0.0051,
    0.125,
    0.29,
    1,
    2.125,
    99.994,
    99.995,
    100,
    100.5,
    10_011.9,
]


def cases() -> dict[str, list[Any]]:
    """Return what the functions say now."""

    def columns(of: Any, values: list[list[float | None]]) -> list[dict[str, Any]]:
        return [
            {"column": c, "name": of(c).name, "numbers": [of(c).number(v) for v in c]}
            for c in values
        ]

    return {
        "unit": columns(unit, COLUMNS),
        "bytes": columns(bytes_unit, BYTES),
        "percent": [[x, percent(x)] for x in FRACTIONS],
        "duration": [[us, duration(us)] for us in TIMES],
        "count": [[n, count(n)] for n in NUMBERS],
        "times": [[x, times(x)] for x in RATIOS],
    }


def written(found: dict[str, list[Any]]) -> str:
    """Return the file: a case a line, so that a change shows as one."""
    parts = [
        f'  "{key}": [\n'
        + ",\n".join(f"    {json.dumps(case, ensure_ascii=False)}" for case in found[key])
        + "\n  ]"
        for key in found
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def test_the_file_says_what_the_functions_say() -> None:
    assert FILE.read_text(encoding="utf-8") == written(cases())


@pytest.mark.parametrize("function", [duration, percent])
def test_nan_is_as_none(function: Any) -> None:
    assert function(math.nan) == function(None) == "–"
    assert unit([math.nan, None]).number(math.nan) == "–"


def test_halves_go_to_the_even_digit() -> None:
    # toFixed of JavaScript says 2.13, 12.3, 101, 6.3
    assert unit([2.125]).number(2.125) == "2.12"
    assert (duration(12.25), duration(100.5)) == ("12.2 µs", "100 µs")
    assert percent(0.0625) == "6.2"
    assert count(0.125) == "0.12"


if __name__ == "__main__":
    FILE.write_text(written(cases()), encoding="utf-8", newline="\n")
