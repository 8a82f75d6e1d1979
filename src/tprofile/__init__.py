"""See in a second what holds a PyTorch cell back: `%load_ext tprofile`, then `%%tprofile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .analysis.finding import Finding
    from .analysis.summary import Summary
    from .comparison import Comparison, compare
    from .errors import TprofileError
    from .explaining import explain
    from .profiling import last, load, record, run
    from .result import Profile

_HOMES = {
    "Comparison": "comparison",
    "Finding": "analysis.finding",
    "Profile": "result",
    "Summary": "analysis.summary",
    "TprofileError": "errors",
    "compare": "comparison",
    "explain": "explaining",
    "last": "profiling",
    "load": "profiling",
    "record": "profiling",
    "run": "profiling",
}

__all__ = [
    "Comparison",
    "Finding",
    "Profile",
    "Summary",
    "TprofileError",
    "__version__",
    "compare",
    "explain",
    "last",
    "load",
    "load_ipython_extension",
    "record",
    "run",
    "unload_ipython_extension",
]


def __getattr__(name: str) -> Any:
    # Loading the extension must not load pandas or torch, so names come when they are asked for.
    if name not in _HOMES:
        raise AttributeError(f"module 'tprofile' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Register `%tprofile` and `%%tprofile`: called by `%load_ext tprofile`."""
    from .magic import register

    register(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away again: called by `%unload_ext tprofile`."""
    from .magic import unregister

    unregister(shell)
