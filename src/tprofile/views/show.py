"""Put one Profile or two before a person: page and widget in a notebook, else text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import TprofileError
from .compare_page import compare_page, compare_text
from .compare_payload import compare_payload
from .page import page
from .payload import payload

if TYPE_CHECKING:
    from ..comparison import Comparison
    from ..result import Profile
    from .widget import TraceWidget

_VIEW = "application/vnd.jupyter.widget-view+json"

_open: dict[str, tuple[str, list[TraceWidget]]] = {}
"""By cell: the execution in which it last showed profiles, and their widgets."""

_kept: list[TraceWidget] = []
"""Widgets that hold their profile, the newest last."""

MOST_EVENTS = 2_000_000
"""Of all profiles that are held for widgets: some hundred megabytes of torch's records."""


def show(profile: Profile) -> None:
    """Show a profile in the output of the cell that runs, or print it where there is none."""
    _show(profile, bundles)


def compare_show(comparison: Comparison) -> None:
    """Show two profiles in the output of the cell that runs, or print where there is none."""
    _show(comparison, compare_bundles)


def _show(made: Any, bundles: Callable[[Any, Any], list[dict[str, Any]]]) -> None:
    from IPython import get_ipython

    shell = get_ipython()
    if getattr(shell, "kernel", None) is None:
        print(made)
        return
    for bundle in bundles(shell, made):
        shell.display_pub.publish(data=bundle)


def bundles(
    shell: Any, profile: Profile, sort: str | None = None, limit: int | None = 15
) -> list[dict[str, Any]]:
    """Return what to publish, in this order: the page, then the widget that hides it.

    A notebook keeps the page; the widget is gone with its kernel. Two outputs, since a front end
    that has lost a widget shows an error for it and not the other forms of the same output.
    """
    from .widget import ProfileWidget

    shown = payload(profile, sort)
    widget = ProfileWidget(profile, shown)
    html = page(profile, shown, sort, limit, paired=True)
    return _paired(shell, widget, profile.text(sort, limit), html)


def compare_bundles(
    shell: Any, comparison: Comparison, sort: str | None = None, limit: int | None = 15
) -> list[dict[str, Any]]:
    """Return the same of two profiles; `sort` is the order of the operators of each."""
    from .widget import ComparisonWidget

    shown = compare_payload(comparison, sort)
    widget = ComparisonWidget(comparison.a, comparison.b, shown)
    html = compare_page(comparison, shown, limit, paired=True)
    return _paired(shell, widget, compare_text(comparison, limit), html)


def _paired(shell: Any, widget: TraceWidget, text: str, html: str) -> list[dict[str, Any]]:
    _replace(shell, widget)
    _make_room(widget)
    return [
        {"text/plain": text, "text/html": html},
        {
            # Said by the page's own text already.
            "text/plain": "",
            _VIEW: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id},
        },
    ]


def _make_room(widget: TraceWidget) -> None:
    """Have the oldest widgets keep their trace as a file, if all together hold too much."""
    _kept[:] = [old for old in _kept if old.events] + [widget]
    while len(_kept) > 1 and sum(one.events for one in _kept) > MOST_EVENTS:
        # Where there is no room for files either, it stays in memory: the new result is shown.
        with suppress(OSError, TprofileError):
            _kept.pop(0).let_go()


def _replace(shell: Any, widget: TraceWidget) -> None:
    """Close the widgets that an earlier run of the same cell showed: their output is gone."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    cell = parent.get("metadata", {}).get("cellId")
    if not cell:
        return
    execution = parent.get("header", {}).get("msg_id", "")
    earlier, widgets = _open.get(cell, ("", []))
    if earlier != execution:
        for old in widgets:
            old.close()
        widgets = []
    _open[cell] = (execution, [*widgets, widget])
