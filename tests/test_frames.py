"""Which Python functions of a trace are the user's."""

from __future__ import annotations

import pytest
from traces import profile, recorded, slice_

from tprofile.analysis.frames import user_frames
from tprofile.trace.marks import Line


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("train.py(12): step", Line(12, "step", "train.py")),
        ("models/net.py(3): <lambda>", Line(3, "<lambda>", "models/net.py")),
        ("/home/me/a (old).py(7): f", Line(7, "f", "/home/me/a (old).py")),
        (r"C:\me\net.py(8): forward", Line(8, "forward", r"C:\me\net.py")),
        ("/tmp/ipykernel_71/123.py(1): <module>", Line(1, "<module>", "/tmp/ipykernel_71/123.py")),
        ("my_torch/a.py(1): f", Line(1, "f", "my_torch/a.py")),
        ("torch/nn/modules/linear.py(130): forward", None),
        ("torch\\nn\\modules\\linear.py(130): forward", None),
        ("triton/runtime/jit.py(9): run", None),
        ("typing.py(2154): cast", None),
        ("logging/__init__.py(1776): getEffectiveLevel", None),
        ("/usr/lib/python3.12/enum.py(3): f", None),
        ("/x/lib/python3.13t/site-packages/timm/a.py(3): f", None),
        ("/usr/lib/python3/dist-packages/a.py(3): f", None),
        (r"C:\x\site-packages\a.py(3): f", None),
        ("<frozen os>(680): __getitem__", None),
        ("<string>(2): __init__", None),
        ("<built-in method relu of type object at 0x7f083913e180>", None),
        ("nn.Module: Linear_0", None),
        ("tprofile/cell.py(9): run", None),
        ("IPython/core/interactiveshell.py(3): run_code", None),
        ("train.py(x): f", None),
        ("train.py(99999999999): f", None),
        ("train.py", None),
        ("", None),
    ],
)
def test_whose_a_function_is(name: str, line: Line | None) -> None:
    one = profile(slice_("python_function", name, 0, 5, 100, 1))
    rows, said = user_frames(one.trace)
    assert [said[code] for code in one.trace.name[rows]] == ([] if line is None else [line])


def test_an_operator_is_no_function() -> None:
    one = profile(slice_("cpu_op", "train.py(12): step", 0, 5, 100, 1))
    assert len(user_frames(one.trace)[0]) == 0


def test_a_recorded_trace() -> None:
    trace = recorded("mlp_train_stack_mem").trace
    rows, said = user_frames(trace)
    assert {str(trace.names[code]) for code in trace.name[rows]} == {
        "probe.py(9): sync", "probe.py(57): run_profile", "probe.py(87): train",
        "probe.py(94): <module>",
    }  # fmt: skip
    assert len(rows) == 8
    assert sum(one is not None for one in said) == 4
