import assert from "node:assert/strict";
import { test } from "node:test";
import type { Payload } from "../src/payload.ts";
import type { Column } from "../src/table.tsx";
import { sorted } from "../src/rows.ts";
import type { Source } from "../src/tables.ts";
import { cell, example, table } from "./example.ts";

const kernels = (one: Payload, runs: number) => table(one, "kernels", runs, "kernels of a stream");
const lines = (one: Payload, runs: number) => table(one, "lines", runs);
const modules = (one: Payload, runs: number) => table(one, "modules", runs);
const operators = (one: Payload, runs: number) =>
  table(one, "operators", runs, one.operators.columns.device_us ? "operators" : "operators without a device");

function shown({ columns, rows }: Source): [string, string[]][] {
  const head = (one: Column) => one.head + (one.unit ? ` ${one.unit}` : "");
  return columns.map((one) => [head(one), rows.map(one.text)]);
}

function column(source: Source, key: string): Column {
  return source.columns.find((one) => one.key === key)!;
}

test("operators per run are the sums by the number of runs", () => {
  assert.deepEqual(shown(operators(example(), 2)), [
    ["operator", ["aten::addmm", "aten::linear", "cudaLaunchKernel"]],
    ["calls", ["1", "1", "2"]],
    ["self CPU µs", ["25.00", "15.00", "60.00"]],
    ["%", ["25.0", "15.0", "60.0"]],
    ["CPU total µs", ["85.00", "100.00", "60.00"]],
    ["self CUDA µs", ["40.00", "0", "0"]],
    ["%", ["100.0", "0", "0"]],
    ["CUDA total µs", ["40.00", "40.00", "0"]],
  ]);
});

test("without a device there is no column for one", () => {
  const one = example();
  one.operators.columns.self_device_us = one.operators.columns.device_us = null;
  assert.deepEqual(shown(operators(one, 1)).map(([head]) => head), [
    "operator", "calls", "self CPU µs", "%", "CPU total µs",
  ]);
});

test("how much runs differ stands beside the time that leads", () => {
  const one = example();
  one.operators.columns.spread = [0.052, null, 12.5];
  one.kernels.columns.spread = [0.0001, 0];
  assert.deepEqual(shown(operators(one, 2))[7], ["±%", ["5.2", "–", ">999"]]);
  assert.deepEqual(shown(kernels(one, 2))[5], ["±%", ["<0.1", "0"]]);
  one.operators.columns.self_device_us = one.operators.columns.device_us = null;
  assert.deepEqual(shown(operators(one, 2)).map(([head]) => head), [
    "operator", "calls", "self CPU µs", "%", "±%", "CPU total µs",
  ]);
});

test("bytes, where memory was recorded, are per run and the column to sort by", () => {
  const one = example();
  one.operators.columns.self_bytes = [5 * 2 ** 20, -(2 ** 20), null];
  one.operators.sort = "self_bytes";
  const source = operators(one, 2);
  assert.deepEqual(shown(source).at(-1), ["self MiB", ["2.50", "-0.50", "–"]]);
  const by = column(source, one.operators.sort);
  assert.deepEqual(sorted(source.rows, by.cell, true), [0, 1, 2]);
  assert.deepEqual(sorted(source.rows, by.cell, false), [1, 0, 2]);
  assert.match(by.about!, /^Bytes of CPU memory that/);
  one.operators.columns.self_bytes = [1023, 0, 3];
  assert.deepEqual(shown(operators(one, 2)).at(-1), ["self B", ["512", "0", "2"]]);
});

test("kernels: sums per run, the rest per call", () => {
  assert.deepEqual(shown(kernels(example(), 2)), [
    ["kernel", ["gemm", "bias"]],
    ["operator", ["aten::addmm", "aten::addmm"]],
    ["calls", ["1", "1"]],
    ["CUDA µs", ["20.00", "20.00"]],
    ["%", ["50.0", "50.0"]],
    ["mean µs", ["20.00", "20.00"]],
    ["min µs", ["19.50", "20.00"]],
    ["median µs", ["20.00", "20.00"]],
    ["max µs", ["20.50", "20.00"]],
  ]);
});

test("devices, streams and how kernels were launched, where there is something to tell", () => {
  const one = example();
  one.names.push("CUDA 10", "(1, 2, 3)");
  Object.assign(one.kernels.columns, {
    device: [6, 5], stream: [7, 20], grid: [7, null], block: [null, 7], occupancy: [12.4, null],
  });
  const source = table(one, "kernels", 1);
  const columns = Object.fromEntries(shown(source));
  assert.deepEqual(columns.device, ["CUDA 10", "CUDA 0"]);
  assert.deepEqual([0, 1].map(column(source, "device").cell), [10, 0]);
  assert.deepEqual(columns.stream, ["7", "20"]);
  assert.deepEqual(columns.grid, ["(1, 2, 3)", "–"]);
  assert.deepEqual(columns.block, ["–", "(1, 2, 3)"]);
  assert.deepEqual(columns["occupancy %"], ["12", "–"]);
});

test("bars of self and total have one scale", () => {
  const source = operators(example(), 2);
  assert.deepEqual([0, 1, 2].map(column(source, "self_cpu_us").bar!.share), [0.25, 0.15, 0.6]);
  assert.deepEqual([0, 1, 2].map(column(source, "cpu_us").bar!.share), [0.85, 1, 0.6]);
  assert.equal(column(source, "self_cpu_us").title!(0), "25.000 µs");
});

test("what was not measured is a dash, has no bar, and says so", () => {
  const one = example();
  one.operators.columns.self_cpu_us[1] = null;
  const source = operators(one, 2);
  const self = column(source, "self_cpu_us");
  assert.equal(self.text(1), "–");
  assert.equal(self.cell(1), null);
  assert.equal(self.bar!.share(1), 0);
  assert.equal(self.title!(1), "not measured");
  assert.equal(column(source, "self_cpu_us_share").text(1), "–");
});

test("a filter of kernels looks at their operators too", () => {
  const one = example();
  one.kernels.columns.operator![1] = null;
  const { filtered } = kernels(one, 1);
  assert.deepEqual([filtered(0), filtered(1)], [["gemm", "aten::addmm"], ["bias"]]);
});

test("lines in their order, and a line without figures has dashes", () => {
  const source = lines(cell(), 2);
  assert.deepEqual(shown(source), [
    ["code", ["for x in xs:", "    y = x @ w", "    if never:", "        z()", "return x"]],
    ["calls", ["1", "3", "3", "\u2013", "2"]],
    ["CPU \u00b5s", ["10.00", "50.00", "2.00", "\u2013", "25.00"]],
    ["CUDA \u00b5s", ["0", "40.00", "0", "\u2013", "20.00"]],
    ["launches", ["0", "6", "0", "\u2013", "2"]],
  ]);
  const code = column(source, "line");
  assert.deepEqual(sorted(source.rows, code.cell, false), [0, 1, 2, 3, 4]);
  assert.deepEqual(source.rows.map(code.prefix!), ["2", "3", "4", "5", "3"]);
  // By a figure, lines without one come last
  assert.deepEqual(sorted(source.rows, column(source, "cpu_us").cell, true), [1, 4, 0, 2, 3]);
  assert.equal(column(source, "cpu_us").title!(3), "not measured");
  const one = cell();
  Object.assign(one.lines!.columns, { file: null, short: null, device_us: null, launches: null });
  assert.deepEqual(shown(table(one, "lines", 2, "lines without a device")).map(([head]) => head), [
    "cell", "calls", "CPU \u00b5s",
  ]);
});

test("bars of CPU and device have one scale in the lines, as they are to be compared", () => {
  const source = lines(cell(), 2);
  assert.equal(column(source, "cpu_us").bar!.share(1), 1);
  assert.equal(column(source, "device_us").bar!.share(1), 0.8);
  const one = cell();
  one.lines!.columns.backward_device_us = [0, 50, 0, null, 0];
  assert.equal(column(lines(one, 2), "backward_device_us").bar!.share(1), 0.5);
});

test("a line says what was found on it, and in which file it is", () => {
  const { badge, title } = column(lines(cell(), 1), "line");
  assert.deepEqual(badge!(1), { text: "2 waits +1", tone: "wait", found: true });
  assert.equal(badge!(0), null);
  assert.deepEqual(badge!(4), { text: "model.py", tone: null });
  assert.equal(title!(4), "/a/model.py\nin forward\nreturn x");
  assert.equal(title!(1), "    y = x @ w");
  // A finding that there was no room for
  const one = cell();
  one.findings.rows.length = 1;
  assert.deepEqual(column(lines(one, 1), "line").badge!(1)!.tone, null);
  const { filtered } = lines(cell(), 1);
  assert.deepEqual(filtered(4), ["/a/model.py", "return x", ""]);
  assert.deepEqual(filtered(1), ["", "    y = x @ w", "2 waits +1"]);
});

test("modules: sums per run, with what is inside and without", () => {
  assert.deepEqual(shown(modules(cell(), 2)), [
    ["module", ["net", "net.0"]],
    ["type", ["Net", "Linear"]],
    ["calls", ["1", "2"]],
    ["CPU \u00b5s", ["50.00", "30.00"]],
    ["self CUDA \u00b5s", ["0", "40.00"]],
    ["CUDA total \u00b5s", ["40.00", "40.00"]],
    ["backward \u00b5s", ["\u2013", "4.00"]],
    ["launches", ["2", "2"]],
  ]);
  assert.deepEqual(modules(cell(), 1).filtered(1), ["net.0", "Linear"]);
  const one = cell();
  Object.assign(one.modules!.columns, {
    device_us: null, self_device_us: null, backward_device_us: null, launches: null,
  });
  assert.deepEqual(shown(modules(one, 2)).map(([head]) => head), [
    "module", "type", "calls", "CPU \u00b5s",
  ]);
});

test("the call tree: what the calls and all in them took", () => {
  assert.deepEqual(shown(table(example(), "tree", 2)), [
    ["call", ["aten::linear", "aten::addmm", "cudaLaunchKernel", "cudaLaunchKernel"]],
    ["calls", ["1", "1", "2", "0.50"]],
    ["self CPU µs", ["15.00", "25.00", "60.00", "5.00"]],
    ["CPU total µs", ["100.00", "85.00", "60.00", "5.00"]],
    ["self CUDA µs", ["0", "40.00", "0", "0"]],
    ["CUDA total µs", ["40.00", "40.00", "0", "0"]],
  ]);
});
