import assert from "node:assert/strict";
import { test } from "node:test";
import type { Column } from "../src/table.tsx";
import { kernels, operators, type Source } from "../src/tables.ts";
import { example } from "./example.ts";

function shown({ columns, rows }: Source): Record<string, string[]> {
  const head = (one: Column) => one.head + (one.unit ? ` ${one.unit}` : "");
  return Object.fromEntries(columns.map((one) => [head(one), rows.map(one.text)]));
}

test("operators per run are the sums by the number of runs", () => {
  assert.deepEqual(shown(operators(example(), 2)), {
    operator: ["aten::addmm", "aten::linear", "cudaLaunchKernel"],
    calls: ["1", "1", "2"],
    "self CPU µs": ["25.00", "15.00", "60.00"],
    "CPU total µs": ["85.00", "100.00", "60.00"],
    "self CUDA µs": ["40.00", "0", "0"],
    "CUDA total µs": ["40.00", "40.00", "0"],
  });
});

test("without a device there is no column for one", () => {
  const one = example();
  one.operators.columns.self_device_us = one.operators.columns.device_us = null;
  assert.deepEqual(Object.keys(shown(operators(one, 1))), [
    "operator", "calls", "self CPU µs", "CPU total µs",
  ]);
});

test("kernels: sums per run, the rest per call", () => {
  assert.deepEqual(shown(kernels(example(), 2)), {
    kernel: ["gemm", "bias"],
    operator: ["aten::addmm", "aten::addmm"],
    calls: ["1", "1"],
    "CUDA µs": ["20.00", "20.00"],
    "mean µs": ["20.00", "20.00"],
    "min µs": ["19.50", "20.00"],
    "max µs": ["20.50", "20.00"],
  });
});

test("several devices and streams are told apart", () => {
  const one = example();
  one.names.push("CUDA 1");
  one.kernels.columns.device = [5, 6];
  one.kernels.columns.stream = [7, 20];
  const columns = shown(kernels(one, 1));
  assert.deepEqual(columns.device, ["CUDA 0", "CUDA 1"]);
  assert.deepEqual(columns.stream, ["7", "20"]);
});

test("a bar is a part of the longest, and a title of the whole", () => {
  const column = operators(example(), 2).columns.find((one) => one.key === "self_cpu_us")!;
  assert.deepEqual([0, 1, 2].map(column.bar!.share), [50 / 120, 0.25, 1]);
  assert.equal(column.title!(0), "25.000 µs, 25.0 % of all CPU time");
});

test("what was not measured is a dash, has no bar, and says so", () => {
  const one = example();
  one.operators.columns.self_cpu_us[1] = null;
  const column = operators(one, 2).columns.find((c) => c.key === "self_cpu_us")!;
  assert.equal(column.text(1), "–");
  assert.equal(column.cell(1), null);
  assert.equal(column.bar!.share(1), 0);
  assert.equal(column.title!(1), "not measured");
});

test("a filter of kernels looks at their operators too", () => {
  const { filtered } = kernels(example(), 1);
  assert.equal(filtered(0), "gemm\naten::addmm");
});
