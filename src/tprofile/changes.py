"""Notice which of the user's tensors a cell changes in place, so that its runs are not alike."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Mapping
from typing import Any


class Watch:
    """Versions of the tensors, alone or in modules, under some names. Keeps none of them alive."""

    def __init__(self, namespace: Mapping[str, Any], names: Iterable[str]) -> None:
        self._before = {
            name: [(weakref.ref(tensor), version) for tensor, version in found]
            for name in sorted(names)
            if (found := _versions(namespace.get(name)))
        }

    def changed(self, namespace: Mapping[str, Any]) -> list[str]:
        """Return what was changed in place since: name, kind, and how often."""
        changed = []
        for name, before in self._before.items():
            value = namespace.get(name)
            now = {id(tensor): version for tensor, version in _versions(value)}
            # A tensor that was replaced by another one was not changed in place.
            times = sum(now.get(id(ref()), version) - version for ref, version in before)
            if times > 0:
                kind = "module" if hasattr(value, "parameters") else "tensor"
                changed.append(f"{name} ({kind}, {times} change{'s' * (times != 1)})")
        return changed

    def note(self, namespace: Mapping[str, Any]) -> str | None:
        """Return a sentence on what was changed in place since, or None."""
        if not (changed := self.changed(namespace)):
            return None
        return (
            f"the cell changes in place: {', '.join(changed)}. Every run began with what the run "
            "before it left: --each CODE resets it ahead of every run, --once makes one run"
        )


def _versions(value: Any) -> list[tuple[Any, int]]:
    """Return the tensors that a value is or has, each with how often it was changed in place."""
    # Looked up, not imported: where torch was not imported there is no tensor.
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    try:
        if isinstance(value, torch.Tensor):
            tensors = [value]
        elif isinstance(value, torch.nn.Module):
            tensors = [*value.parameters(), *value.buffers()]
        else:
            return []
        # An inference tensor does not count its changes.
        return [(t, int(t._version)) for t in tensors if not t.is_inference()]
    except Exception:
        # Whatever an object of the user's does when it is looked at, it is no reason to fail.
        return []
