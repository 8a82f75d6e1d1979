"""Heads of the tables, as written down for the front end's tests: all that there can be.

`python tests/test_heads_cases.py` writes the file anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tprofile.explaining import meaning
from tprofile.views import heads

FILE = Path(__file__).parents[1] / "src" / "frontend" / "test" / "heads.cases.json"

DEVICE = {"self_device_us", "device_us", "backward_device_us", "launches"}
OPERATORS = {"name", "calls", "self_cpu_us", "cpu_us", "spread", "self_bytes"}
WHOLE = {"self_cpu_us": 200, "self_device_us": 80}


def cases() -> dict[str, list[dict[str, Any]]]:
    """Return the heads as they are now, for profiles with a device and without."""
    lines = {"source", "calls", "cpu_us"}
    modules = {"module", "type", "calls", "cpu_us"}
    tree = {"name", "calls", "self_cpu_us", "cpu_us"}
    kernels = {
        "name", "operator", "device", "stream", "calls", "device_us", "mean_us", "min_us",
        "median_us", "max_us", "spread", "grid", "block", "occupancy",
    }  # fmt: skip
    return {
        "lines": heads.lines(lines | DEVICE, "CUDA", True),
        "lines without a device": heads.lines(lines, "CUDA", False),
        "modules": heads.modules(modules | DEVICE, "CUDA"),
        "tree": heads.tree(tree | DEVICE, "CUDA"),
        "operators": heads.operators(OPERATORS | DEVICE, "CUDA", WHOLE, "CPU"),
        "operators without a device": heads.operators(OPERATORS, "CUDA", WHOLE, "CPU"),
        "kernels": heads.kernels(kernels, "CUDA", 80, True, True),
        "kernels of a stream": heads.kernels(kernels, "CUDA", 80, False, False),
    }


def test_the_file_has_them() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == cases()


@pytest.mark.parametrize("table", cases())
def test_each_says_what_it_is_or_names_its_rows(table: str) -> None:
    for head in cases()[table]:
        assert head.get("about") or head["kind"] == "name", head
        # Never a link, or a mark of Markdown, on a page that shows it as text.
        assert not set("[]`#") & set(head.get("about", ""))


def test_a_meaning_is_the_text_of_the_glossary_on_one_line() -> None:
    assert meaning("LAUNCH") == (
        "The call on the CPU that hands a kernel to the device. It returns at once: the kernel "
        "runs later, in the order of its stream."
    )
    assert meaning("wall") == (
        "Time of a run by the clock, without the profiler wherever that was measured."
    )
    with pytest.raises(KeyError):
        meaning("nothing")


if __name__ == "__main__":
    FILE.write_text(json.dumps(cases(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
