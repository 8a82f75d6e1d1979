"""What browser tests need of a machine, and what becomes of them where it lacks that."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import NoReturn

import pytest


def give_up(reason: str) -> NoReturn:
    """Skip a test for what this machine lacks; in CI, which has to have it, fail."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; in CI nothing is skipped for that", pytrace=False)
    pytest.skip(reason)


def find_chromium() -> str:
    """Return the path of the system's Chromium, or of the one that TPROFILE_CHROMIUM names."""
    chosen = os.environ.get("TPROFILE_CHROMIUM")
    names = [chosen] if chosen else ["chromium", "chromium-browser", "google-chrome"]
    for name in names:
        if path := shutil.which(name):
            return path
    give_up(f"no browser: {', '.join(names)} not found")


def find_packages(*names: str) -> None:
    """Check that packages are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            give_up(f"{name} is not installed")
