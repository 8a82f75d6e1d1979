"""What devices can do: the right one for a name, and none for a name that is not known."""

from __future__ import annotations

import pytest

from tprofile.analysis.limits import _TABLE, ARITHMETIC, limits


@pytest.mark.parametrize(
    ("name", "terabytes_per_s", "kind", "teraflops"),
    [
        ("NVIDIA H200", 4.8, "bf16", 989.4),
        ("NVIDIA H200", 4.8, "tf32", 494.7),
        ("NVIDIA H200", 4.8, "fp64_tensor", 66.9),
        ("NVIDIA H100 80GB HBM3", 3.35, "fp8", 1978.9),
        ("NVIDIA H100 PCIe", 2.039, "bf16", 756.5),
        ("NVIDIA H100 NVL", 3.9, "bf16", 835.5),
        ("NVIDIA A100-SXM4-80GB", 2.039, "bf16", 312),
        ("A100-SXM4-40GB", 1.555, "fp32", 19.5),
        ("NVIDIA A100 80GB PCIe", 1.935, "tf32", 156),
        ("Tesla T4", 0.32, "fp16", 65),
        ("Tesla V100-SXM2-32GB", 0.9, "fp16", 125),
        ("NVIDIA L4", 0.3, "bf16", 121),
        ("NVIDIA L40S", 0.864, "fp8", 733),
        ("NVIDIA GeForce RTX 4090", 1.008, "bf16", 165.2),
        ("NVIDIA B200", 8, "bf16", 2250),
        ("AMD Instinct MI300X", 5.3, "fp16", 1307.4),
        ("AMD Instinct MI210", 1.638, "fp32_tensor", 45.3),
    ],
)
def test_known_devices(name: str, terabytes_per_s: float, kind: str, teraflops: float) -> None:
    one = limits(name)
    assert one is not None
    assert one.bytes_per_s == pytest.approx(terabytes_per_s * 1e12)
    assert one.flops_per_s[kind] == pytest.approx(teraflops * 1e12)


@pytest.mark.parametrize(
    "name",
    [
        "", "NVIDIA H100", "NVIDIA A100", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H200 MIG",
        "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "AMD Radeon Graphics",
        "AMD Instinct MI250X/MI250", "NVIDIA A100-PG509-200", "H2000", "<b>NVIDIA H200</b>",
    ],
)  # fmt: skip
def test_an_unknown_device_has_no_limits(name: str) -> None:
    assert limits(name) is None


def test_a_part_of_a_device_has_no_limits() -> None:
    # GIVEN the same name for a whole MI300X, and for one of eight partitions of it
    assert limits("AMD Instinct MI300X", 304) == limits("AMD Instinct MI300X") is not None
    assert limits("AMD Instinct MI300X", 38) is None


def test_a_kind_that_a_device_has_not_is_absent() -> None:
    v100 = limits("Tesla V100-SXM2-16GB")
    assert v100 is not None
    assert set(v100.flops_per_s) == {"fp64", "fp32", "fp16"}


@pytest.mark.parametrize("name", _TABLE)
def test_figures_are_plausible(name: str) -> None:
    one = _TABLE[name]
    assert name == name.casefold()
    assert set(one.flops_per_s) <= set(ARITHMETIC)
    assert 3e11 <= one.bytes_per_s <= 8e12
    assert 30 <= one.units <= 320
    flops = one.flops_per_s
    # Narrower numbers are never slower, and dense products in bytes twice those in 16 bits.
    assert flops.get("fp64", 0) <= flops["fp32"] <= flops.get("tf32", flops["fp32"])
    assert flops.get("tf32", flops["fp32"]) <= flops["fp16"]
    assert flops["fp16"] * 2.05 >= flops.get("int8", 0)
    # Each unit makes 128 to 512 operations a cycle in 32 bits, at 0.9 to 2.7 GHz.
    assert 128 * 0.9e9 <= flops["fp32"] / one.units <= 512 * 2.7e9
