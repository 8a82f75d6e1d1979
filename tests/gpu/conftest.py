"""Tests that only a CUDA device can answer."""

from __future__ import annotations

import os

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "gpu" not in item.path.parts:
            continue
        item.add_marker(pytest.mark.gpu)
        if not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="torch.cuda.is_available() is False"))
        elif "PYTEST_XDIST_WORKER" in os.environ:
            reason = "beside other tests times are not to be had: run pytest -m gpu, without -n"
            item.add_marker(pytest.mark.skip(reason=reason))
