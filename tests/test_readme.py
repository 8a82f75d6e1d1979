"""The README and the tour say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TOUR = nbformat.read(ROOT / "demo" / "tour.ipynb", 4)


def shown() -> list[str]:
    return [
        output["data"]["text/plain"]
        for cell in TOUR.cells
        for output in cell.get("outputs", [])
        if output.output_type == "display_data" and "text/html" in output["data"]
    ]


def test_the_example_is_the_tours() -> None:
    assert f"```\n{shown()[0]}\n```" in README


def test_the_tour_holds_the_outputs_of_a_gpu() -> None:
    magics = [c for c in TOUR.cells if c.cell_type == "code" and c.source.startswith("%%tprofile")]
    assert len(magics) == len(shown()) == 7
    assert all("(NVIDIA H200) busy" in text for text in shown())
    assert not any(o.output_type == "error" for c in TOUR.cells for o in c.get("outputs", []))


def test_links_lead_somewhere() -> None:
    links = re.findall(r"(?:\]\(|src=\"|srcset=\")([^)#:\"]+)[)\"]", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_test_command_is_there_for_ci() -> None:
    workers = "-n 2 --dist loadfile --no-loadscope-reorder"
    assert re.search(rf"<!-- test command -->\n```bash\n[^\n]*-m pytest {workers}\n```", README)
