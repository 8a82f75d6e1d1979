"""The calls of all runs as one tree, in which calls of a name under the same call are one node."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..intervals import NONE, Floats, Ints, climb, depths, number
from . import tables
from .attribution import Attribution, Mask


def tree(found: Attribution, run: int | None = None) -> pd.DataFrame:
    """Return a row per node, parents first; of siblings the longest on the device, then on the CPU.

    Columns `id, parent, depth, name, calls, self_cpu_us, cpu_us, self_device_us, device_us`, sums
    over the runs. `id` is the row, `parent` that of the node around it, -1 for a root. The calls
    are those that the table of operators counts; an operator and an annotation of one name are two
    nodes. Device time is that of what a node launched, within operators or outside (a CUDA graph);
    NaN where the trace has no device work. `run`, counted from 0, is the only one looked at.
    """
    trace, table = found.trace, found.table
    merged = found.merged[table]
    counted = found.counted if run is None else found.counted & (found.run == run)
    rows = counted[table] & ~merged
    # What is no row of its own stands aside: our marks, and a call that only wraps its namesake.
    around = climb(found.nesting.parent, found.nesting.parent, ~rows)
    names, name = tables.step_names(trace.names)
    kind = number(name[trace.name[table]], trace.category_is("user_annotation")[table])

    node = np.full(len(table), NONE)
    parent, first, depth = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [0]
    calls_at = np.where(rows, depths(around), NONE)
    for level in range(int(calls_at.max(initial=NONE)) + 1):
        calls = np.flatnonzero(calls_at == level)
        above = np.where(around[calls] == NONE, NONE, node[around[calls]])
        _, at, index = np.unique(number(above, kind[calls]), return_index=True, return_inverse=True)
        node[calls] = sum(map(len, parent)) + index.reshape(-1)
        parent.append(above[at])
        first.append(calls[at])
        depth.append(len(at))
    above, shown = np.concatenate(parent), np.concatenate(first)
    # The time of a call that wraps its namesake is that one's.
    of = node[climb(found.nesting.parent, np.arange(len(table)), merged)]
    own = counted[table] & (of != NONE)

    def total(values: Ints, calls: Mask) -> Floats:
        return np.bincount(of[calls], values[table[calls]], len(above)) / 1000

    figures = {
        "self_cpu_us": total(found.self_cpu_ns, own),
        "cpu_us": total(found.cpu_ns, rows),
        "self_device_us": total(found.self_device_ns + found.self_launched_ns, own),
        "device_us": total(found.device_ns + found.launched_ns, rows),
    }
    place = _places(above, np.lexsort((shown, -figures["cpu_us"], -figures["device_us"])))
    order = np.argsort(place)
    frame = pd.DataFrame(
        {
            "id": np.arange(len(above)),
            "parent": np.where(above == NONE, NONE, place[above])[order],
            "depth": np.repeat(np.arange(len(depth)) - 1, depth)[order],
            "name": tables.texts(names[name[trace.name[table[shown]]]][order]),
            "calls": np.bincount(of[rows], minlength=len(above))[order],
            **{key: values[order] for key, values in figures.items()},
        }
    )
    if not found.work.any():
        frame[["self_device_us", "device_us"]] = np.nan
    return frame


def _places(parent: Ints, wanted: Ints) -> Ints:
    """Return the place of each node in a walk of the tree, siblings in the order of `wanted`.

    Parents are numbered before their children.
    """
    size = np.ones(len(parent), np.int64)
    depth = depths(parent)
    levels = [np.flatnonzero(depth == d) for d in range(1, int(depth.max(initial=0)) + 1)]
    for level in reversed(levels):
        np.add.at(size, parent[level], size[level])
    rank = np.empty(len(parent), np.int64)
    rank[wanted] = np.arange(len(parent))
    place = np.zeros(len(parent), np.int64)
    for level in [np.flatnonzero(depth == 0), *levels]:
        order = level[np.lexsort((rank[level], parent[level]))]
        before = np.cumsum(size[order]) - size[order]
        new = np.r_[True, parent[order][1:] != parent[order][:-1]][: len(order)]
        start = np.maximum.accumulate(np.where(new, before, 0))
        inside = np.where(parent[order] == NONE, 0, place[parent[order]] + 1)
        place[order] = inside + before - start
    return place
