"""What is read from torch's memory against torch's own table, on the CPU."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pandas.testing import assert_frame_equal
from torch.profiler import ProfilerActivity, record_function
from traces import assert_same, lists_emptied

import tprofile
from tprofile import TprofileError
from tprofile.trace import live

HOSTILE = [
    'say "hi"',
    "back\\slash",
    "new\nline",
    "tab\t",
    "\x01",
    "名前 \U0001f680",
    "</script>",
    "x" * 999,
]

pytestmark = pytest.mark.filterwarnings(
    r"ignore::UserWarning:torch\.profiler", "ignore:.*clears ev"
)


def step() -> None:
    """Work forward and backward, with a shape of each kind."""
    x = torch.ones(8, 16, requires_grad=True)
    y = torch.cat([x, x * 2]).relu().sum()
    y.backward()
    torch._foreach_add_([torch.zeros(2), torch.zeros(3, 1)], 1.0)


def profiled(work: Callable[[], object] = step, **options: Any) -> Any:
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], **options) as p:
        work()
    return p


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    step()


def rows(profile: tprofile.Profile) -> dict[tuple[str, bool], dict[str, Any]]:
    return {
        (r["name"], r["category"] == "user_annotation"): r
        for r in profile.operators.to_dict("records")
    }


def named() -> None:
    for name in HOSTILE:
        with record_function(name):
            step()


@pytest.mark.parametrize("work", [step, named], ids=["step", "named"])
@pytest.mark.parametrize("shapes", [False, True])
def test_a_finished_profile_gives_the_table_of_torch(
    work: Callable[[], None], shapes: bool
) -> None:
    p = profiled(work, record_shapes=shapes)
    ours = rows(tprofile.load(p))
    torchs = {(r.key, r.is_user_annotation): r for r in p.key_averages()}
    assert set(ours) == set(torchs)
    for key, row in torchs.items():
        mine = ours[key]
        assert mine["calls"] == row.count, key
        assert mine["self_cpu_us"] == pytest.approx(row.self_cpu_time_total, abs=0.01), key
        assert mine["cpu_us"] == pytest.approx(row.cpu_time_total, abs=0.01), key


def test_shapes_are_those_of_torch() -> None:
    p = profiled(record_shapes=True)
    ours = tprofile.load(p).operators_by("shape")
    found = set(zip(ours["name"], ours["shape"], strict=True))
    assert {
        ("aten::cat", told("[[[8, 16], [8, 16]], []]")),
        ("aten::relu", "[[16, 16]]"),
        ("aten::_foreach_add_", told("[[[2], [3, 1]], []]")),
    } <= found


def told(shape: str) -> str:
    """Return shapes as this torch tells them in memory: before 2.13 without those in lists."""
    has_lists = hasattr(torch._C._autograd._ProfilerResult, "trace_activities")
    return shape if has_lists else lists_emptied(shape)


def columns(trace: Any) -> list[tuple]:
    return sorted(
        zip(
            trace.names[trace.name].tolist(),
            [trace.categories[c] for c in trace.category],
            *(
                getattr(trace, c).tolist()
                for c in (
                    "start_ns",
                    "duration_ns",
                    "process",
                    "thread",
                    "correlation",
                    "external_id",
                )
            ),
            strict=True,
        )
    )


def in_threads() -> None:
    threads = [threading.Thread(target=step) for _ in range(2)]
    for thread in threads:
        thread.start()
    step()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("work", [step, named, in_threads], ids=["step", "named", "threads"])
def test_an_export_loads_bit_for_bit(work: Callable[[], None], tmp_path: Path) -> None:
    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    one = tprofile.load(profiled(work, record_shapes=True, experimental_config=config))
    if work is in_threads:
        assert one.events["thread"].nunique() > 1
    if work is named:
        assert set(HOSTILE) <= set(one.events["name"])
    path = one.export_trace(tmp_path / "t.json")
    assert_same(one, tprofile.load(path))
    again = tprofile.load(path).export_trace(tmp_path / "again.json")
    assert Path(again).read_bytes() == Path(path).read_bytes()
    json.loads(Path(path).read_text(), parse_constant=pytest.fail)


def test_both_readers_give_the_same_columns() -> None:
    # GIVEN results that can be read as activities (torch 2.13) and as events (before)
    p = profiled(named, record_shapes=True, profile_memory=True)
    results = p.profiler.kineto_results
    if not hasattr(results, "trace_activities"):
        pytest.skip("this torch has events only")

    class EventsOnly:
        trace_start_ns, events = results.trace_start_ns, results.events

    new, old = live.read_results(results), live.read_results(EventsOnly())
    assert columns(new) == columns(old)
    assert (new.base_ns, new.epoch_ns) == (old.base_ns, old.epoch_ns)
    one, other = tprofile.Profile(new), tprofile.Profile(old)
    for key in ("thread", "run"):
        assert_frame_equal(one.operators_by(key), other.operators_by(key), check_exact=True)
    # AND the same shapes, but for those in lists of tensors, which events do not tell
    shapes = [f.operators_by("shape")[["name", "shape"]].to_numpy().tolist() for f in (one, other)]
    assert sorted([n, lists_emptied(s)] for n, s in shapes[0]) == sorted(shapes[1])


def test_the_file_of_torch_gives_the_same_table(tmp_path: Path) -> None:
    # GIVEN one recording, in memory and as torch writes it
    p = profiled(record_shapes=True)
    live_one = tprofile.load(p)
    p.export_chrome_trace(str(tmp_path / "torch.json"))
    file = tprofile.load(tmp_path / "torch.json")
    for key in ("operators", "runs"):
        assert_frame_equal(getattr(live_one, key), getattr(file, key), check_exact=True)
    shapes = [
        sorted(zip(frame["name"], map(told, frame["shape"]), frame["calls"], strict=True))
        for frame in (live_one.operators_by("shape"), file.operators_by("shape"))
    ]
    assert shapes[0] == shapes[1]
    # AND the same clock
    assert live_one.trace.base_ns == file.trace.base_ns
    assert live_one.trace.epoch_ns == file.trace.epoch_ns


def test_a_profile_that_is_not_finished_is_refused() -> None:
    p = torch.profiler.profile(activities=[ProfilerActivity.CPU])
    with pytest.raises(TprofileError, match=r"profile holds no finished recording.*Stop it first"):
        tprofile.load(p)
    with p:
        step()
        with pytest.raises(TprofileError, match="holds no finished recording"):
            tprofile.load(p)
    assert len(tprofile.load(p).operators)


def test_a_profiler_inside_another_is_refused_and_the_outer_one_lives() -> None:
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as p:
        for attempt in (lambda: tprofile.run(step), lambda: tprofile.record().__enter__()):
            with pytest.raises(TprofileError, match="running already"):
                attempt()
        step()
    assert rows(tprofile.load(p))["aten::relu", False]["calls"] == 1
    assert {r.key: r.count for r in p.key_averages()}["aten::relu"] == 1


def test_run_record_and_load_agree_on_calls() -> None:
    by_hand = {k: r["calls"] for k, r in rows(tprofile.load(profiled())).items()}
    with tprofile.record() as r:
        step()
    recorded = {k: r["calls"] for k, r in rows(r.profile).items()}
    ran = {k: r["calls"] for k, r in rows(tprofile.run(step, warmup=1, repeat=4)).items()}
    assert recorded == by_hand
    assert ran == {k: 4 * n for k, n in by_hand.items()}


def test_arguments_that_kineto_did_not_escape_are_kept_as_text() -> None:
    assert live.object_text('"a": 1,\n "b": [2]', 7) == b'{"External id": 7, "a": 1, "b": [2]}'
    assert live.object_text("", 0) == b"{}"
    assert live.object_text(None, 3) == b'{"External id": 3}'
    broken = '"Concrete Inputs": ["it"s"]'
    assert json.loads(live.object_text(broken, 3)) == {"External id": 3, "unparsed": broken}
