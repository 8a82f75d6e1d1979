"""The public names, what imports what, and the checks of style and types."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tprofile

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tprofile"
MODULES = sorted(
    ".".join(p.relative_to(PACKAGE).with_suffix("").parts) for p in PACKAGE.rglob("*.py")
)


def test_public_names() -> None:
    assert sorted(tprofile.__all__) == [
        "Comparison", "Finding", "Profile", "Summary", "TprofileError", "__version__", "compare",
        "explain", "last", "load", "load_ipython_extension", "record", "run",
        "unload_ipython_extension",
    ]  # fmt: skip
    assert dir(tprofile) == sorted(tprofile.__all__)
    for name in tprofile.__all__:
        assert getattr(tprofile, name) is not None
    with pytest.raises(AttributeError, match="'tprofile' has no attribute 'other'"):
        _ = tprofile.other


@pytest.mark.parametrize("first", ["tprofile.load", "import tprofile.magic", "tprofile.Profile"])
def test_a_public_name_is_never_hidden_by_a_module_of_that_name(first: str) -> None:
    # Importing tprofile.run sets an attribute `run` of the package.
    code = f"import tprofile; {first}; print(*[callable(getattr(tprofile, n)) for n in {CALLS}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * len(CALLS)


CALLS = ["run", "record", "load", "last", "explain"]


def test_public_names_say_what_they_are() -> None:
    for name in tprofile.__all__:
        if name != "__version__":
            assert getattr(tprofile, name).__doc__, name


@pytest.mark.parametrize("after", ["pass", "tprofile.TprofileError", "tprofile.__version__"])
def test_importing_loads_nothing_heavy(after: str) -> None:
    heavy = {"torch", "pandas", "numpy", "msgspec", "IPython", "ipywidgets", "anywidget"}
    code = f"import sys, tprofile; {after}; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def imported(module: str) -> tuple[set[str], set[str]]:
    """Return what a module imports, at its top, of ours and of others; and of others anywhere."""
    file = PACKAGE / (module.replace(".", "/") + ".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    here = module.split(".")
    top: set[str] = set()
    anywhere: set[str] = set()
    for node in ast.walk(tree):
        if node in typing_only or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        elif node.level:
            base = [*here[: len(here) - node.level], *(node.module or "").split(".")]
            base = [part for part in base if part]
            full = {".".join([*base, alias.name]) for alias in node.names}
            names = {"." + (n if n in MODULES else ".".join(base)) for n in full}
        else:
            names = {node.module or ""}
        anywhere |= names
        if node in tree.body:
            top |= names
    return top, anywhere


ALLOWED = {
    "trace": {"trace", "intervals", "errors", "files"},
    "analysis": {"analysis", "trace", "intervals", "errors", "units"},
    "views": {"views", "_version", "errors", "explaining", "units"},
    "result": {"analysis", "trace", "errors", "files"},
    "session": {"trace", "errors", "quiet", "conditions", "modules", "stepping"},
    "modules": {"trace", "errors", "quiet"},
    "profiling": {"result", "trace", "errors"},
    "intervals": set(),
    "units": set(),
    "errors": set(),
    "explaining": {"analysis", "errors"},
    "files": {"errors"},
    "cell": {"errors", "statements"},
    "statements": set(),
    "stepping": set(),
}
"""What each part may import of ours at module level: `trace` of `analysis` nothing, and so on."""


def part(module: str) -> str:
    return module.lstrip(".").split(".")[0]


@pytest.mark.parametrize("module", [m for m in MODULES if part(m) in ALLOWED])
def test_imports_run_one_way(module: str) -> None:
    ours = {part(name) for name in imported(module)[0] if name.startswith(".")}
    assert ours <= ALLOWED[part(module)]


@pytest.mark.parametrize(
    ("package", "homes"),
    [
        ("torch", {"session", "modules", "compiled", "trace.live"}),
        ("IPython", {"magic", "cell", "options", "output", "views.show"}),
        ("anywidget", {"views.widget"}),
        ("jupyter_server", {"server"}),
        ("tornado", {"server"}),
        (
            "msgspec",
            {
                *("trace.read", "trace.recorded", "trace.live", "trace.mend", "trace.unpack"),
                *("analysis.arguments", "analysis.memory", "analysis.backward"),
            },
        ),
        (
            "pandas",
            {
                *("analysis.tables", "analysis.summary", "analysis.memory", "analysis.startup"),
                *("analysis.tree", "analysis.chain", "analysis.lines", "analysis.modules"),
                "analysis.idle",
                *("views.tables", "analysis.roofline"),
                *("analysis.comparison", "analysis.replacement", "analysis.outcomes"),
                "views.compare",
            },
        ),
    ],
)
def test_who_imports_a_package(package: str, homes: set[str]) -> None:
    found = {m for m in MODULES if any(n.split(".")[0] == package for n in imported(m)[1])}
    assert found
    assert found <= homes


def test_the_walk_sees_imports() -> None:
    # GIVEN modules whose imports are known
    assert imported("trace.live")[0] >= {"torch", ".errors", ".trace.build", ".trace.columns"}
    assert ".session" in imported("profiling")[1] - imported("profiling")[0]
    assert ".result" not in imported("views.text")[1]


@pytest.mark.parametrize(
    "check",
    [
        ["ruff", "check", "src", "tests"],
        ["ruff", "format", "--check", "src", "tests"],
        ["mypy"],
    ],
    ids=lambda check: " ".join(check[:2]),
)
def test_checks_are_clean(check: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *check], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
