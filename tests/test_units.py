"""Times and bytes in sentences: digits that count, and the unit that suits them."""

from __future__ import annotations

import math

import pytest

from tprofile.units import amount, bytes_unit, duration, unit


@pytest.mark.parametrize(
    ("us", "told"),
    [
        (None, "–"), (math.nan, "–"), (0, "0.00 µs"), (0.004, "4.00 ns"), (0.9996, "1.00 µs"),
        (1, "1.00 µs"), (12.34, "12.3 µs"), (999.4, "999 µs"), (999.6, "1.00 ms"),
        (123_456, "123 ms"), (4.2e6, "4.20 s"), (1.234e9, "1234 s"), (-1540, "-1.54 ms"),
    ],
)  # fmt: skip
def test_times_have_three_digits(us: float | None, told: str) -> None:
    assert duration(us) == told


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (None, "– B"), (0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (-1536, "-1.50 KiB"),
        (5 * 2**20, "5.00 MiB"), (2.5 * 2**30, "2.50 GiB"), (2**50, "1024.00 TiB"),
    ],
)  # fmt: skip
def test_bytes_have_a_unit(number: float | None, told: str) -> None:
    assert amount(number) == told


def test_a_column_has_the_unit_of_its_largest() -> None:
    fit = unit([1540, 4.999, None, math.nan])
    assert [fit.name, fit.number(1540), fit.number(4.999), fit.number(math.nan)] == [
        "ms", "1.54", "<0.01", "–",
    ]  # fmt: skip
    fit = bytes_unit([-(2**20), 5000])
    assert [fit.name, fit.number(-(2**20)), fit.number(5000)] == ["MiB", "-1.00", "<0.01"]
    # Of whole bytes there is no part.
    assert bytes_unit([3]).number(0.4) == "<1"
