import { unpacked, type Comparison } from "../src/payload.ts";
import { example, finding } from "./example.ts";

/** Return two small profiles: `gemm` and `bias` of the first became `fused` in the second. */
export function comparison(): Comparison {
  const [a, b] = [example(), example()];
  const names = [...a.names, "fused", "triton", "aten::gelu"];
  a.names = b.names = [];
  // In the second, one kernel of another name and operator.
  b.kernels.columns.name = [6, 4];
  b.strip!.spans.name = [0, 1, 2, 2, 6, 4];
  b.strip!.wall_us = 50;
  return unpacked({
    id: "fedcba9876543210",
    labels: ["eager", "compiled"],
    title: "Compiled is 2.00 times faster than eager",
    details: ["each: 1 run"],
    warnings: [],
    figures: [{
      key: "wall", head: "wall of a run", a: "100 µs", b: "50 µs", a_more: "±1 %", b_more: "",
      ratio: "0.50×", more: "−50 µs", why: "",
    }],
    device: "CUDA",
    names,
    findings: { of: 1, rows: [finding("speed", null, { more: null })], none: null },
    became: {
      of: 3,
      none: null,
      columns: {
        change: ["fused", "vanished", "new"],
        count: [3, 1, 0],
        kernels_a: [[3, 4], [4], []],
        operators_a: [[1, null], [1], []],
        kernel_b: [6, null, 7],
        times: [2, 1, 1],
        device_us_a: [40, 4, 0],
        device_us_b: [10, 0, 0.001],
      },
    },
    operators: {
      of: 4,
      sort: "self_device_us",
      columns: {
        name: [1, 0, 7, 8],
        calls_a: [2, 1, 0, 4],
        calls_b: [2, 0, 1, 4],
        self_cpu_us_a: [50, 30, 0, 8],
        self_cpu_us_b: [25, 0, 5, 8],
        self_device_us_a: [40, 3, 0, 2],
        self_device_us_b: [10, 0, 7, null],
      },
    },
    kernels: {
      of: 3,
      sort: "device_us",
      columns: {
        name: [3, 4, 6], calls_a: [1, 1, 0], calls_b: [0, 1, 1], device_us_a: [20, 20, 0],
        device_us_b: [0, 20, 10],
      },
    },
    a,
    b,
    left_out: [],
  });
}
