"""Notice which of the user's tensors a cell changes in place, so that its runs are not alike."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Mapping
from typing import Any


class Watch:
    """Versions of the tensors and modules under some names. Keeps none of them alive."""

    def __init__(self, namespace: Mapping[str, Any], names: Iterable[str]) -> None:
        self._before = {
            name: (weakref.ref(namespace[name]), version)
            for name in sorted(names)
            if name in namespace and (version := _version(namespace[name])) is not None
        }

    def note(self, namespace: Mapping[str, Any]) -> str | None:
        """Return a sentence on what was changed in place since, or None."""
        changed = []
        for name, (ref, version) in self._before.items():
            value = namespace.get(name)
            if value is not None and ref() is value and (now := _version(value)) != version:
                assert now is not None
                times = now - version
                changed.append(f"{name} ({_kind(value)}, {times} change{'s' * (times != 1)})")
        if not changed:
            return None
        return (
            f"the cell changes in place: {', '.join(changed)}. Every run began with what the run "
            "before it left: --each CODE resets it ahead of every run, --once makes one run"
        )


def _version(value: Any) -> int | None:
    """Return how often a tensor, or the tensors of a module, were changed in place."""
    # Looked up, not imported: where torch was not imported there is no tensor.
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        if isinstance(value, torch.Tensor):
            return int(value._version)
        if isinstance(value, torch.nn.Module):
            return sum(int(t._version) for t in [*value.parameters(), *value.buffers()])
    except (RuntimeError, AttributeError):
        # Inference tensors do not count versions.
        return None
    return None


def _kind(value: Any) -> str:
    return "module" if hasattr(value, "parameters") else "tensor"
