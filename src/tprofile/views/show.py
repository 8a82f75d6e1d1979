"""Put a Profile before a person: in a notebook the page and the widget, in a terminal text."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import TprofileError
from .page import page
from .payload import payload

if TYPE_CHECKING:
    from ..result import Profile
    from .widget import ProfileWidget

_VIEW = "application/vnd.jupyter.widget-view+json"

_open: dict[str, tuple[str, list[ProfileWidget]]] = {}
"""By cell: the execution in which it last showed profiles, and their widgets."""

_kept: list[ProfileWidget] = []
"""Widgets that hold their profile, the newest last."""

MOST_EVENTS = 2_000_000
"""Of all profiles that are held for widgets: some hundred megabytes of torch's records."""


def show(profile: Profile) -> None:
    """Show a profile in the output of the cell that runs, or print it where there is none."""
    from IPython import get_ipython

    shell = get_ipython()
    if getattr(shell, "kernel", None) is None:
        print(profile)
        return
    for bundle in bundles(shell, profile):
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
    _replace(shell, widget)
    _make_room(widget)
    return [
        {
            "text/plain": profile.text(sort, limit),
            "text/html": page(profile, shown, sort, limit, paired=True),
        },
        {
            # Said by the page's own text already.
            "text/plain": "",
            _VIEW: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id},
        },
    ]


def _make_room(widget: ProfileWidget) -> None:
    """Have the oldest widgets keep their trace as a file, if all together hold too much."""
    _kept[:] = [old for old in _kept if old.events] + [widget]
    while len(_kept) > 1 and sum(one.events for one in _kept) > MOST_EVENTS:
        # Where there is no room for files either, it stays in memory: the new result is shown.
        with suppress(OSError, TprofileError):
            _kept.pop(0).let_go()


def _replace(shell: Any, widget: ProfileWidget) -> None:
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
