"""`explain`: every kind, verdict and term has its page, and the pages say what the code does."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest
from traces import DATA

import tprofile
from tprofile.analysis import doubts, idle, verdict
from tprofile.analysis.finding import KINDS, Finding
from tprofile.analysis.findings import context, costs, host, kernels, record, transfers
from tprofile.analysis.verdict import VERDICTS
from tprofile.units import duration

PACKAGE = Path(tprofile.__file__).parent
PAGES = {file.stem: file.read_text(encoding="utf-8") for file in PACKAGE.glob("docs/*.md")}
LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")


def heading(text: str) -> str:
    return text.partition("\n")[0]


def squeezed(text: str) -> str:
    return " ".join(text.split())


def percent(part: float) -> str:
    return f"{part * 100:g} %"


def terms(page: str) -> list[str]:
    heads = re.findall(r"^## (.*)", PAGES[page], re.MULTILINE)
    return [name for head in heads for name in head.split(", ")]


# --- what there is --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_a_page_with_all_its_parts(kind: str) -> None:
    text = tprofile.explain(kind).markdown
    assert heading(text) == f"# {kind}"
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == [
        "What happens", "How it is recognised", "When it can be wrong", "How to repair it",
        "After the repair",
    ]  # fmt: skip
    assert "**Gain**: " in text
    assert text.count("```python\n") >= 1
    # AND its first paragraph is the sentence that stands for it in the list
    sentence = squeezed(text.split("\n\n")[1])
    assert f"\n- `{kind}`: {sentence}\n" in tprofile.explain().markdown


def test_every_verdict_has_its_section() -> None:
    assert terms("verdict") == list(VERDICTS)
    for name in VERDICTS:
        text = str(tprofile.explain(name))
        assert heading(text) == f"# {name}"
        assert "Next" in text
        assert "wrong" in text
        # AND it is of that verdict alone
        assert "\n#" not in text
        assert text.endswith('`tprofile.explain("verdict")`\n')


@pytest.mark.parametrize("name", sorted(PAGES))
def test_every_page_is_reachable(name: str) -> None:
    shown = tprofile.explain(name)
    assert shown.name == name
    assert heading(str(shown)) == heading(PAGES[name])


def test_no_term_hides_another() -> None:
    every = [
        name.casefold().replace("-", " ")
        for name in [*PAGES, *terms("verdict"), *terms("glossary")]
    ]
    assert sorted(every) == sorted(set(every))
    assert len(terms("glossary")) >= 30


def test_a_term_comes_out_alone_and_says_where_there_is_more() -> None:
    assert str(tprofile.explain("pinned memory")) == (
        "# pinned memory\n\n"
        "Host memory that the operating system does not move, so that the device can read it by "
        "itself. See\npageable-copy.\n\n"
        'More: `tprofile.explain("pageable-copy")`, `tprofile.explain("glossary")`\n'
    )


def test_each_term_is_short() -> None:
    for name in terms("glossary"):
        body = str(tprofile.explain(name)).split("\n\n")[1]
        assert len(body) < 400, name
        assert body.rstrip().endswith("."), name


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("SYNC", "sync"), ("Small kernels", "small-kernels"), ("small_kernels", "small-kernels"),
        (" timing ", "timing"), ("CPU only", "cpu-only"), ("Overhead-bound", "overhead-bound"),
        ("self cpu", "self CPU"), ("gemm", "GEMM"), ("sm", "SM"),
    ],
)  # fmt: skip
def test_a_name_is_found_in_any_spelling(given: str, name: str) -> None:
    assert tprofile.explain(given).name == name


def test_a_finding_stands_for_its_kind() -> None:
    found = tprofile.load(DATA / "cases" / "tensor_cores.json.gz").findings[0]
    assert tprofile.explain(found) == tprofile.explain("tensor-cores")


def test_what_a_comparison_finds_is_explained() -> None:
    kinds = re.findall(r'kind="([\w-]+)"', (PACKAGE / "analysis/outcomes.py").read_text())
    assert len(kinds) >= 10
    for kind in kinds:
        assert tprofile.explain(kind).name == kind


def test_without_a_term_all_is_listed() -> None:
    text = str(tprofile.explain())
    for name in [*PAGES, *VERDICTS, *terms("glossary"), *terms("comparison")]:
        assert f"`{name}`" in text


# --- what there is not ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("synk", "there is no page on 'synk'. Did you mean 'sync'?"),
        ("small-kernel", "there is no page on 'small-kernel'. Did you mean 'small-kernels'"),
        ("../errors", "there is no page on '../errors'."),
        ("qqqq", "there is no page on 'qqqq'. tprofile.explain() lists all that there is."),
        ("", "there is no page on ''."),
        ("x" * 10_000_000, "there is no page on 'xxxxxxxxxxxx...xxxxxxxxxxxxx'."),
        (3, "the term is 3, but must be text, such as 'sync', or a Finding."),
    ],
)
def test_what_there_is_no_page_on_is_told(given: str, said: str) -> None:
    with pytest.raises(tprofile.TprofileError) as error:
        tprofile.explain(given)
    assert str(error.value).startswith(said)


def test_a_finding_of_no_known_kind_is_told() -> None:
    odd = Finding("odd", "", "", "", None, "")
    with pytest.raises(tprofile.TprofileError, match="there is no page on 'odd'"):
        tprofile.explain(odd)


# --- how it shows itself --------------------------------------------------------------------------


class Printer:
    def __init__(self) -> None:
        self.said = ""

    def text(self, text: str) -> None:
        self.said += text


def test_it_shows_itself_in_notebooks_and_terminals() -> None:
    page, printer = tprofile.explain("sync"), Printer()
    page._repr_pretty_(printer, False)
    assert printer.said == str(page) == repr(page) == page._repr_markdown_()
    # A link to a file would lead nowhere in a notebook.
    assert not LINK.search(str(page))
    assert str(page).endswith(
        'More: `tprofile.explain("host-gap")`, `tprofile.explain("pageable-copy")`, '
        '`tprofile.explain("small-kernels")`\n'
    )


def test_it_needs_nothing_heavy_and_works_from_a_zip(tmp_path: Path) -> None:
    archive = tmp_path / "tprofile.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for one in sorted(PACKAGE.rglob("*")):
            if one.suffix in (".py", ".md"):
                file.write(one, one.relative_to(PACKAGE.parent))
    code = (
        "import sys, tprofile; assert '.zip' in tprofile.__file__; "
        "print(tprofile.explain('sync').markdown.splitlines()[0]); "
        "print(*sorted({'torch', 'numpy', 'pandas', 'IPython', 'msgspec'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); {code}"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == "# sync\n\n"


# --- the pages themselves -------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PAGES))
def test_links_lead_to_pages(name: str) -> None:
    targets = [link.partition("#")[0] for link in LINK.findall(PAGES[name])]
    assert [one for one in targets if one and not (PACKAGE / "docs" / one).is_file()] == []


@pytest.mark.parametrize("name", sorted(PAGES))
def test_code_compiles(name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL)
    for block in blocks:
        # A magic's line is IPython's.
        ast.parse("\n".join(x for x in block.splitlines() if not x.startswith("%")))
    assert len(blocks) * 2 <= PAGES[name].count("```")


LEAST, DOUBLE = percent(context.LEAST), percent(2 * context.LEAST)
SHORT = f"{context.LAUNCH_US:g} µs"
LONG = f"{host._LONG_NS / 1000:g} µs"
BOUND = f"The GPU works for at least {percent(kernels._DEVICE_BOUND)} of a run"

RULES = {
    "small-kernels": [
        f"at least {host._MANY} kernels in a run that are shorter than {SHORT}",
        f"For at least {percent(host._OVERHEAD_PART)} of a run the GPU idles",
    ],
    "sync": [f"Together the stretches must be at least {LEAST} of a run"],
    "pageable-copy": [
        f"of at least {transfers._SMALL // 1024} KiB each",
        f"whichever is longer, is at least {LEAST} of a run",
    ],
    "host-gap": [
        f"for more than {LONG}, and for more than half of the stretch",
        f"Together they are at least {percent(host._PYTHON_PART)} of a run",
        f"operators that take {idle._LONG_NS / 1000:g} µs or longer",
        "Where they are longer than all other idle time together",
    ],
    "fusion": [
        BOUND,
        f"with at least {kernels._CHAIN} pointwise kernels",
        f"The gain in kernel time is at least {percent(kernels._FUSION_PART)} of a run",
        f"between kernels are added, at most {LEAST} of a run",
    ],
    "tensor-cores": [
        BOUND,
        f"times 1 − 1/{kernels._HALF_FASTER}",
        f"It must be at least {DOUBLE} of a run",
    ],
    "low-occupancy": [
        f"Kernels of at least {SHORT} whose number of blocks is at most 1/{kernels._FEW} of",
        f"It must be at least {DOUBLE} of a run",
    ],
    "layout-copies": [
        f"{BOUND}, and at least {DOUBLE} of a run are kernels",
        f"between kernels, at most {LEAST} of a run",
    ],
    "graph-breaks": [f"The gain must be at least {LEAST} of a run"],
    "recompiles": [f"per run, is at least {LEAST} of it"],
    "cold-start": [f"is at least {percent(costs._STARTUP_PART)} of its time"],
    "allocator": [
        f"that take at least {LEAST} of a run",
        f"at most the idle time of the GPU and {LEAST} of a run more",
    ],
    "for-loop-optimizer": [
        f"at least {costs._PARAMETERS} per step",
        f"The gain is at least {LEAST} of a run",
        f"shorter than {5 * context.LAUNCH_US:g} µs",
    ],
    "dropped-events": [
        f"at least the last {doubts._TAIL} launches",
        f"more than {percent(verdict._LOST)} of all launches",
    ],
    "truncated": [
        f"At least the last {doubts._TAIL} launches",
        f"no more than {percent(doubts._MOST_LOST)} lack it",
    ],
    "profiler-overhead": [
        f"at least {record._SLOWER:g} times as long",
        f"at least {record._LONGER_US / 1000:g} ms longer",
    ],
    "findings": [
        f"from {LEAST}, {DOUBLE} or {percent(host._PYTHON_PART)} of a run on",
        f"at least {percent(kernels._DEVICE_BOUND)} of a run",
    ],
    "verdict": [
        f"busy for at least {percent(verdict.BUSY)} of a run?",
        f"no more than {percent(verdict._LOST)} of the launches",
        f"({idle._LONG_NS / 1000:g} µs or longer, without a call to the GPU)",
    ],
    "idle": [f"Operators that take {idle._LONG_NS / 1000:g} µs or longer"],
}


def test_every_kind_states_its_numbers() -> None:
    assert set(KINDS) <= set(RULES)


@pytest.mark.parametrize("name", sorted(RULES))
def test_numbers_are_those_of_the_code(name: str) -> None:
    text = squeezed(PAGES[name])
    assert [rule for rule in RULES[name] if rule not in text] == []


MEASURED = {
    "small-kernels": ["small_kernels_repaired"],
    "pageable-copy": ["pageable_copy", "pageable_copy_repaired"],
    "host-gap": ["host_gap", "host_gap_repaired", "host_gap_sleeping"],
    "fusion": ["fusion", "fusion_repaired"],
    "tensor-cores": ["tensor_cores", "tensor_cores_repaired"],
    "low-occupancy": ["low_occupancy", "low_occupancy_repaired"],
    "layout-copies": [
        *("layout_copies", "layout_copies_repaired"),
        *("layout_copies_by_hand", "layout_copies_by_hand_repaired"),
    ],
    "graph-breaks": ["graph_breaks", "graph_breaks_repaired"],
    "recompiles": ["recompiles", "recompiles_repaired"],
    "allocator": ["allocator", "allocator_repaired"],
    "for-loop-optimizer": ["for_loop_optimizer_repaired"],
    "profiler-overhead": ["pageable_small_copies"],
}
"""Recorded cases whose wall a page quotes."""


@cache
def wall(case: str) -> str:
    return duration(tprofile.load(DATA / "cases" / f"{case}.json.gz").summary.wall_us)


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_quoted_times_are_those_of_the_recorded_cases(name: str) -> None:
    text = squeezed(PAGES[name])
    assert "NVIDIA H200" in text
    assert [case for case in MEASURED[name] if f"{wall(case)}" not in text] == []
