"""Profile as a person would with torch's own profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def hand_profiled(step: Callable[[], object], **options: Any) -> torch.profiler.profile:
    """Return three runs of `step`, warmed up; `options` are torch's."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(**options) as profile:
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    return profile
