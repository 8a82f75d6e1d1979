"""What devices can do at most, by the name that a trace has for them.

From the makers' data sheets and white papers, at boost clock, dense (a figure with sparsity is
twice what any dense product can reach, so it is halved here):

- NVIDIA: data sheets of P100, V100, T4, A10, A30, A40, A100, L4, L40, L40S, RTX A6000, RTX 6000
  Ada, H100, H200, HGX B200 and GB200; white papers of GA102, Ada and RTX Blackwell for GeForce.
- AMD: data sheets of Instinct MI100 to MI325X. A device of torch is one of the two dies of an
  MI250X or MI250, so half of that card.

Where a maker gives two figures for one kind (products of 16-bit numbers added up in 16 or in 32
bits), it is the higher one: what is reached of it is then never told as more than it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ARITHMETIC = ("fp64", "fp64_tensor", "fp32", "fp32_tensor", "tf32", "fp16", "bf16", "fp8", "int8")
"""Kinds of arithmetic. Of fp16, bf16, fp8 and int8 on tensor cores (or AMD's matrix cores)."""


@dataclass(frozen=True)
class Limits:
    """What one device can do at most."""

    bytes_per_s: float
    """Of its own memory."""
    flops_per_s: Mapping[str, float]
    """Operations a second, by kind of `ARITHMETIC`; a kind that is absent is not known."""
    units: int
    """Multiprocessors (compute units) of the whole device."""


def limits(name: str, units: int | None = None) -> Limits | None:
    """Return the limits of a device, or None where they are not known for certain.

    `name` is the runtime's name for it, `units` how many multiprocessors it has. A part of a device
    (MIG, a partition of an MI300) has another name, or fewer of them, and its limits are not known.
    """
    known = _TABLE.get(name.strip().casefold().removeprefix("nvidia ").removeprefix("tesla "))
    return None if known is None or units not in (None, known.units) else known


def _device(units: int, gigabytes_per_s: float, **teraflops: float) -> Limits:
    peaks = {kind: teraflops[kind] * 1e12 for kind in ARITHMETIC if kind in teraflops}
    return Limits(gigabytes_per_s * 1e9, peaks, units)


def _nvidia(
    units: int, bandwidth: float, fp64: tuple[float, float], fp32: float, tf32: float, half: float,
    *more: float,
) -> Limits:  # fmt: skip
    """Return the limits of a data centre card: `half` in fp16 and bf16, then int8, then fp8."""
    peaks = dict(zip(("int8", "fp8"), more, strict=False))
    return _device(
        units, bandwidth, fp64=fp64[0], fp64_tensor=fp64[1], fp32=fp32, tf32=tf32, fp16=half,
        bf16=half, **peaks,
    )  # fmt: skip


def _card(
    units: int, bandwidth: float, fp32: float, tf32: float, fp16: float, bf16: float, int8: float,
    **more: float,
) -> Limits:  # fmt: skip
    return _device(units, bandwidth, fp32=fp32, tf32=tf32, fp16=fp16, bf16=bf16, int8=int8, **more)


def _amd(
    units: int, bandwidth: float, fp64: tuple[float, float], fp32: tuple[float, float],
    half: tuple[float, float], int8: float, **more: float,
) -> Limits:  # fmt: skip
    return _device(
        units, bandwidth, fp64=fp64[0], fp64_tensor=fp64[1], fp32=fp32[0], fp32_tensor=fp32[1],
        fp16=half[0], bf16=half[1], int8=int8, **more,
    )  # fmt: skip


_H100 = ((33.5, 66.9), 66.9, 494.7, 989.4, 1978.9, 1978.9)
_A100 = ((9.7, 19.5), 19.5, 156.0, 312.0, 624.0)
_MI300X = ((81.7, 163.4), (163.4, 163.4), (1307.4, 1307.4), 2614.9)

_TABLE: Mapping[str, Limits] = {
    "p100-pcie-16gb": _device(56, 732, fp64=4.7, fp32=9.3, fp16=18.7),
    "p100-sxm2-16gb": _device(56, 732, fp64=5.3, fp32=10.6, fp16=21.2),
    **dict.fromkeys(
        ("v100-sxm2-16gb", "v100-sxm2-32gb"), _device(80, 900, fp64=7.8, fp32=15.7, fp16=125)
    ),
    **dict.fromkeys(
        ("v100-pcie-16gb", "v100-pcie-32gb"), _device(80, 900, fp64=7.0, fp32=14.0, fp16=112)
    ),
    "v100s-pcie-32gb": _device(80, 1134, fp64=8.2, fp32=16.4, fp16=130),
    "t4": _device(40, 320, fp32=8.1, fp16=65, int8=130),
    **dict.fromkeys(("a100-sxm4-40gb", "a100-pcie-40gb"), _nvidia(108, 1555, *_A100)),
    "a100-sxm4-80gb": _nvidia(108, 2039, *_A100),
    "a100 80gb pcie": _nvidia(108, 1935, *_A100),
    "a30": _nvidia(56, 933, (5.2, 10.3), 10.3, 82, 165, 330),
    "a40": _card(84, 696, 37.4, 74.8, 149.7, 149.7, 299.3),
    "a10": _card(72, 600, 31.2, 62.5, 125, 125, 250),
    "h100 80gb hbm3": _nvidia(132, 3350, *_H100),
    "h100 pcie": _nvidia(114, 2039, (25.6, 51.2), 51.2, 378, 756.5, 1513, 1513),
    "h100 nvl": _nvidia(132, 3900, (30, 60), 60, 417.5, 835.5, 1670.5, 1670.5),
    "h200": _nvidia(132, 4800, *_H100),
    "h200 nvl": _nvidia(132, 4800, (30, 60), 60, 417.5, 835.5, 1670.5, 1670.5),
    "b200": _nvidia(148, 8000, (40, 40), 80, 1125, 2250, 4500, 4500),
    "gb200": _nvidia(152, 8000, (45, 45), 90, 1250, 2500, 5000, 5000),
    "l4": _card(58, 300, 30.3, 60, 121, 121, 242.5, fp8=242.5),
    "l40": _card(142, 864, 90.5, 90.5, 181.05, 181.05, 362, fp8=362),
    "l40s": _card(142, 864, 91.6, 183, 362.05, 362.05, 733, fp8=733),
    "rtx a6000": _card(84, 768, 38.7, 77.4, 154.8, 154.8, 309.7),
    "rtx 6000 ada generation": _card(142, 960, 91.1, 182.1, 364.2, 364.2, 728.5, fp8=728.5),
    "geforce rtx 3090": _card(82, 936, 35.6, 35.6, 142, 71, 284),
    "geforce rtx 4080": _card(76, 716.8, 48.7, 48.7, 194.9, 97.5, 389.9, fp8=389.9),
    "geforce rtx 4090": _card(128, 1008, 82.6, 82.6, 330.3, 165.2, 660.6, fp8=660.6),
    "geforce rtx 5090": _card(170, 1792, 104.8, 104.8, 419, 209.5, 838, fp8=838),
    "amd instinct mi100": _device(
        120, 1229, fp64=11.5, fp32=23.1, fp32_tensor=46.1, fp16=184.6, bf16=92.3, int8=184.6
    ),
    "amd instinct mi210": _amd(104, 1638, (22.6, 45.3), (22.6, 45.3), (181, 181), 181),
    "amd instinct mi250": _amd(104, 1638, (22.6, 45.3), (22.6, 45.3), (181, 181), 181),
    "amd instinct mi250x": _amd(110, 1638, (23.9, 47.9), (23.9, 47.9), (191.5, 191.5), 191.5),
    "amd instinct mi300a": _amd(
        228, 5300, (61.3, 122.6), (122.6, 122.6), (980.6, 980.6), 1961.2, tf32=490.3, fp8=1961.2
    ),
    "amd instinct mi300x": _amd(304, 5300, *_MI300X, tf32=653.7, fp8=2614.9),
    "amd instinct mi325x": _amd(304, 6000, *_MI300X, tf32=653.7, fp8=2614.9),
}
