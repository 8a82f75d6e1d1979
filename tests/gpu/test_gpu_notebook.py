"""The magic in a real kernel on a CUDA machine."""

from __future__ import annotations

import nbformat
import pytest

nbclient = pytest.importorskip("nbclient")


def test_cell_on_the_gpu() -> None:
    cells = [
        "%load_ext tprofile\nimport torch\nx = torch.randn(64, 64, device='cuda'); n = 0",
        "%%tprofile\nn += 1\ny = torch.relu(x @ x)\nprint('run', n)",
        "assert n == 7\n_tprofile.kernels['calls'].sum().item()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    printed, shown, widget = notebook.cells[1].outputs
    # The first start of CUDA profiling takes seconds and says so; nothing of that is left.
    assert printed["text"] == "run 7\n"
    text = shown["data"]["text/plain"]
    assert "\n7 runs: 3 warm-up, 1 profiler warm-up, 3 profiled\n" in text
    assert "busy" in text
    assert "application/vnd.jupyter.widget-view+json" in widget["data"]
    assert "aten::mm" in shown["data"]["text/html"]
    assert notebook.cells[2].outputs[0]["data"]["text/plain"] == "6"
