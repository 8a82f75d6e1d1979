"""The front end: its own tests pass, and the bundle in the package is what its sources make."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from traces import ROOT

FRONTEND = ROOT / "src" / "frontend"
STATIC = ROOT / "src" / "tprofile" / "static"

KILOBYTES = 1000


@pytest.fixture(scope="module")
def npm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with what they need installed, since a checkout is not ours to fill."""
    found = shutil.which("npm")
    if found is None:
        reason = "npm is not installed, so the front end cannot be built"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    root = tmp_path_factory.mktemp("frontend")
    copy = root / "src" / "frontend"
    shutil.copytree(FRONTEND, copy, ignore=shutil.ignore_patterns("node_modules", ".tests"))
    run(copy, found, "ci", "--no-fund", "--no-audit")
    return copy


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_types_are_sound(npm: Path) -> None:
    run(npm, "npm", "run", "check")


def test_units_pass(npm: Path) -> None:
    told = run(npm, "npm", "test")
    assert "# fail 0" in told
    assert "# tests 0" not in told


def test_the_bundle_is_that_of_the_sources(npm: Path) -> None:
    run(npm, "npm", "run", "build")
    built = npm.parent / "tprofile" / "static"
    assert {f.name for f in built.iterdir()} == {f.name for f in STATIC.iterdir()}
    for file in built.iterdir():
        assert (STATIC / file.name).read_bytes() == file.read_bytes(), (
            f"{file.name} is stale: run `npm ci && npm run build` in src/frontend"
        )


def test_the_bundle_is_small_and_asks_for_nothing() -> None:
    script = (STATIC / "widget.js").read_text(encoding="ascii")
    style = (STATIC / "widget.css").read_text(encoding="ascii")
    assert len(script) + len(style) <= 90 * KILOBYTES
    # One address, opened by a click.
    assert script.count("https://ui.perfetto.dev") == 1
    for address in ("http://", "//cdn", "import(", "@import", "url("):
        assert address not in script.replace("http://www.w3.org/", "") + style


def test_the_bundle_can_stand_in_a_page() -> None:
    script = (STATIC / "widget.js").read_text(encoding="ascii")
    style = (STATIC / "widget.css").read_text(encoding="ascii")
    # THEN nothing in it ends the element that it stands in
    for end in ("</script", "<!--", "</style"):
        assert end not in script.lower() + style.lower()


def test_names_are_never_made_markup() -> None:
    for source in FRONTEND.glob("src/*.ts*"):
        text = source.read_text(encoding="utf-8")
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert way not in text, source.name
