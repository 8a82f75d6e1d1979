import type { Payload } from "../src/payload.ts";

/** Return a small profile: `aten::linear` calls `aten::addmm`, which launches twice. */
export function example(): Payload {
  return {
    id: "0123456789abcdef",
    headline: { lead: null, text: "the GPU works 40 µs of a 100 µs run" },
    details: ["3 runs: 3 profiled"],
    figures: [{ key: "wall", value: "100 µs", label: "per run" }],
    warnings: [],
    device: "CUDA",
    runs: 2,
    complete: true,
    names: ["aten::linear", "aten::addmm", "cudaLaunchKernel", "gemm", "bias", "CUDA 0"],
    whole: { self_cpu_us: 200, self_device_us: 80 },
    operators: {
      of: 3,
      sort: "self_device_us",
      columns: {
        name: [1, 0, 2],
        calls: [2, 2, 4],
        self_cpu_us: [50, 30, 120],
        cpu_us: [170, 200, 120],
        self_device_us: [80, 0, 0],
        device_us: [80, 80, 0],
        spread: null,
        self_bytes: null,
      },
      bytes_of: null,
    },
    kernels: {
      of: 2,
      sort: "device_us",
      columns: {
        name: [3, 4],
        operator: [1, 1],
        device: [5, 5],
        stream: [7, 7],
        calls: [2, 2],
        device_us: [40, 40],
        mean_us: [20, 20],
        min_us: [19.5, 20],
        median_us: [20, 20],
        max_us: [20.5, 20],
        spread: null,
      },
    },
    strip: {
      run: 1,
      of: 2,
      wall_us: 100,
      resolution_us: 0,
      lanes: [
        { kind: "cpu", label: "CPU", rows: 3, streams: null },
        { kind: "device", label: "CUDA 0", rows: 1, streams: [7] },
      ],
      spans: {
        lane: [0, 0, 0, 0, 1, 1],
        row: [0, 1, 2, 2, 0, 0],
        kind: [0, 1, 2, 2, 4, 4],
        start_us: [0, 5, 10, 20, 30, 60],
        duration_us: [30, 24, 6, 6, 20, 20],
        count: null,
        busy_us: null,
        name: [0, 1, 2, 2, 3, 4],
        operator: [null, null, null, null, 1, 1],
        launch: [-1, -1, -1, -1, 2, 3],
      },
    },
    left_out: [],
  };
}
