"""Findings in words: what, where, the most to gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .words import LINE, compared, cut, sentence, visible

if TYPE_CHECKING:
    from ..analysis.finding import Finding
    from ..result import Profile

TONES = {
    "sync": "wait",
    "host-gap": "wait",
    "small-kernels": "wait",
    "for-loop-optimizer": "wait",
    "pageable-copy": "copy",
    "layout-copies": "copy",
    "fusion": "device",
    "tensor-cores": "device",
    "low-occupancy": "device",
    "graph-breaks": "cpu",
    "recompiles": "cpu",
    "allocator": "cpu",
}
"""What a kind of finding is about, as for verdicts: a device that waits, copies or works, or the
CPU. Those on the record itself are about none."""


def hint(kind: str) -> str:
    """Return the call that tells all about a kind of finding."""
    return f'tprofile.explain("{kind}")'


SHOWN = 5
"""Findings in a text whose tables have a limit too."""


@dataclass(frozen=True)
class Said:
    """A finding as text."""

    title: str
    """What, where, and the most to gain."""
    lines: list[str]
    """The evidence, and what to write instead."""


def said(profile: Profile, limit: int | None) -> tuple[list[Said], list[str]]:
    """Return the findings as text, and what is to be said below them."""
    every = profile.findings
    shown = every[: None if limit is None else SHOWN]
    below = []
    if more := len(every) - len(shown):
        below.append(f"… and {more} more in Profile.findings")
    if shown:
        below.append("More: " + ", ".join(dict.fromkeys(hint(one.kind) for one in shown)))
    return [_said(profile, one) for one in shown], below


def _said(profile: Profile, one: Finding) -> Said:
    parts = [sentence(one.title), one.where, gain(profile, one) or ""]
    title = " · ".join(cut(part, LINE) for part in parts if part)
    told = [one.evidence, f"→ {one.advice}" if one.advice else ""]
    return Said(title, [cut(line, LINE) for line in told if line])


def gain(profile: Profile, finding: Finding) -> str | None:
    """Return the most that there is to gain, or None where no bound is known."""
    if finding.gain_us is None:
        return None
    return f"up to {compared(finding.gain_us, profile.summary.wall_us)} of each run"


def first_finding(profile: Profile) -> tuple[str, str, str] | None:
    """Return the sentence on the finding to look at first, or None where there is none.

    In three parts, of which the second names the finding.
    """
    if not (found := profile.findings):
        return None
    first, most = found[0], gain(profile, found[0])
    where = f" ({cut(first.where, LINE)})" if first.where else ""
    told = "found: " if most is None else "most to gain: "
    return told, cut(first.title, LINE), where if most is None else f"{where}, {most}"


def none_found(profile: Profile) -> str:
    """Return what to say where there are no findings: only what was looked at can be sound."""
    summary = profile.summary
    if not len(profile.trace):
        return "nothing was profiled"
    if not profile.complete:
        return "nothing was found in the run that was stopped, up to there"
    if summary.verdict in ("unknown", "cpu-only"):
        reason = "" if summary.reason is None else f": {visible(summary.reason)}"
        if summary.device_busy_us is not None:
            return f"nothing was found, but not all that there may be can be told{reason}"
        return f"findings are about the work of a GPU, and that is not in the record{reason}"
    return "nothing found that holds this code back"
