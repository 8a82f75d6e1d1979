"""Small traces written by hand. Times are microseconds; a trace is read as a file would be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tprofile

ROOT = Path(__file__).parents[1]
DATA = Path(__file__).parent / "data"
PUBLIC = Path(__file__).parents[2] / "shared" / "traces" / "public"
RECORDED = sorted(p.name.removesuffix(".json.gz") for p in DATA.glob("*.json.gz"))

Event = dict[str, Any]


def slice_(cat: str, name: str, ts: float, dur: float, pid: Any, tid: Any, **args: Any) -> Event:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
        "args": {k.replace("_", " ") if k == "External_id" else k: v for k, v in args.items()},
    }  # fmt: skip


def op(name: str, ts: float, dur: float, ext: int = 0, *, tid: int = 1, **args: Any) -> Event:
    return slice_("cpu_op", name, ts, dur, 100, tid, External_id=ext, **args)


def note(name: str, ts: float, dur: float, ext: int = 0, *, tid: int = 1) -> Event:
    return slice_("user_annotation", name, ts, dur, 100, tid, External_id=ext)


def call(name: str, ts: float, dur: float, corr: int, ext: int = 0, *, tid: int = 1) -> Event:
    return slice_("cuda_runtime", name, ts, dur, 100, tid, External_id=ext, correlation=corr)


def work(
    name: str, ts: float, dur: float, corr: int = 0, ext: int = 0,
    *, device: int = 0, stream: int = 7, cat: str = "kernel", **args: Any,
) -> Event:  # fmt: skip
    return slice_(
        cat, name, ts, dur, device, stream,
        device=device, stream=stream, correlation=corr, External_id=ext, **args,
    )  # fmt: skip


def text(*events: Event, recorded: dict[str, Any] | None = None, **top: Any) -> bytes:
    own = {} if recorded is None else {"tprofile": recorded}
    return json.dumps({**top, **own, "traceEvents": list(events)}).encode()


def profile(*events: Event, **top: Any) -> tprofile.Profile:
    return tprofile.load(text(*events, **top))


def recorded(name: str) -> tprofile.Profile:
    return tprofile.load(DATA / f"{name}.json.gz")


def lists_emptied(shape: str) -> str:
    """Return shapes as torch's table shows them: nothing of what is in a list of tensors."""
    dims = json.loads(shape)
    return str([[] if d and isinstance(d[0], list) else d for d in dims])


def row(frame: Any, **where: Any) -> dict[str, Any]:
    """Return the only row that has these values."""
    found = [r for r in frame.to_dict("records") if all(r[k] == v for k, v in where.items())]
    assert len(found) == 1, (where, frame)
    return found[0]


def frames(one: tprofile.Profile) -> dict[str, Any]:
    """Return everything a Profile tells, by name."""
    return {
        "operators": one.operators,
        **{f"by {k}": one.operators_by(k) for k in ("shape", "thread", "run")},
        **{
            k: getattr(one, k)
            for k in (
                *("kernels", "runs", "devices", "events", "memory", "startup", "tree"),
                "roofline",
                *("lines", "modules"),
            )
        },
    }


def assert_same(one: tprofile.Profile, other: tprofile.Profile) -> None:
    from pandas.testing import assert_frame_equal

    others = frames(other)
    for name, frame in frames(one).items():
        assert_frame_equal(frame, others[name], check_exact=True, obj=name)
    assert one.summary == other.summary
