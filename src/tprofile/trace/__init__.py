"""The record of what ran: columns read from torch's results or from a trace file."""

from .columns import DEVICE_WORK, INSTANT, Trace, encode

__all__ = ["DEVICE_WORK", "INSTANT", "Trace", "encode"]
