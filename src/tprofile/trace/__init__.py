"""The record of what ran: columns read from torch's results or from a trace file."""

from .columns import DEVICE_WORK, Trace

__all__ = ["DEVICE_WORK", "Trace"]
