"""What holds the code back: a module per family of findings, each told from the trace alone."""

from __future__ import annotations

from ..attribution import Attribution
from ..finding import Finding
from ..summary import Summary


def findings(found: Attribution, summary: Summary) -> list[Finding]:
    """Return all findings, the largest gain first, then those without one."""
    return []
