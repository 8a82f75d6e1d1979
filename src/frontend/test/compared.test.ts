import assert from "node:assert/strict";
import { test } from "node:test";
import {
  before, chosenBy, heightOf, members, signed, sourceOf, spansOf, tabsOf,
} from "../src/compared.ts";
import { sorted } from "../src/rows.ts";
import { unit } from "../src/words.ts";
import { comparison } from "./comparison.ts";

function column(tab: "became" | "operators" | "kernels", key: string) {
  const { columns, rows } = sourceOf(comparison(), tab);
  const found = columns.find((one) => one.key === key)!;
  return { ...found, texts: rows.map((row) => found.text(row)), rows };
}

test("both profiles have the names of the comparison", () => {
  const one = comparison();
  assert.equal(one.a.names, one.names);
  assert.equal(one.b.names, one.names);
});

test("tabs are by question, with how many rows there are", () => {
  const one = comparison();
  assert.deepEqual(tabsOf(one).map(([, head, of]) => [head, of]), [
    ["Findings", 1], ["Became", 3], ["Operators", 4], ["Kernels", 3],
  ]);
  one.kernels.of = 0;
  assert.deepEqual(tabsOf(one).map(([key]) => key), ["findings", "became", "operators"]);
});

test("times of both share a unit, and their difference has a sign", () => {
  const heads = sourceOf(comparison(), "operators").columns.map(({ head, unit }) => [head, unit]);
  assert.deepEqual(heads, [
    ["operator", undefined], ["calls", undefined], ["self CPU", "µs"], ["eager", "µs"],
    ["compiled", "µs"], ["difference", "µs"], ["ratio", undefined],
  ]);
  assert.deepEqual(column("operators", "time_a").texts, ["40.00", "3.00", "0", "2.00"]);
  assert.deepEqual(column("operators", "time_b").texts, ["10.00", "0", "7.00", "–"]);
  assert.deepEqual(column("operators", "delta").texts, ["−30.00", "−3.00", "+7.00", "–"]);
  // Bars have one scale.
  assert.equal(column("operators", "time_b").bar!.share(0), 10 / 40);
});

test("what is new or gone is said, and what is unknown is a dash", () => {
  assert.deepEqual(column("operators", "ratio").texts, ["0.25×", "gone", "new", "–"]);
  assert.deepEqual(column("kernels", "ratio").texts, ["gone", "1.00×", "new"]);
  assert.deepEqual(column("operators", "calls").texts, ["2", "1 → 0", "0 → 1", "4"]);
  assert.deepEqual(column("operators", "self_cpu_us").texts, [
    "50.00 → 25.00", "30.00 → 0", "0 → 5.00", "8.00",
  ]);
});

test("differences are sorted by their size, ratios from gone to new", () => {
  const delta = column("operators", "delta");
  assert.deepEqual(sorted(delta.rows, delta.order!, true), [0, 2, 1, 3]);
  const ratio = column("operators", "ratio");
  assert.deepEqual(sorted(ratio.rows, ratio.cell, false), [1, 0, 2, 3]);
});

test("a difference too small to print is none of 0", () => {
  const fit = unit([50]);
  const told = [null, 0, 0.001, -0.001, 3, -3].map((value) => signed(value, fit));
  assert.deepEqual(told, ["–", "0", "<+0.01", ">−0.01", "+3.00", "−3.00"]);
});

test("a time that only one of them has is compared with nothing", () => {
  const one = comparison();
  one.operators.columns.self_device_us_a = null;
  const { columns } = sourceOf(one, "operators");
  const [a, delta, ratio] = ["time_a", "delta", "ratio"].map((key) =>
    columns.find((column) => column.key === key)!.text(0),
  );
  assert.deepEqual([a, delta, ratio], ["–", "–", "–"]);
  // Where there is no device at all, CPU time takes its place, once.
  one.operators.sort = "self_cpu_us";
  const keys = sourceOf(one, "operators").columns.map(({ key }) => key);
  assert.deepEqual(keys, ["name", "calls", "time_a", "time_b", "delta", "ratio"]);
});

test("a group is its one kernel, or the operators of several", () => {
  const one = comparison();
  assert.equal(before(one, 0), "3 kernels: addmm, ?");
  assert.equal(before(one, 1), "addmm · bias");
  assert.equal(before(one, 2), null);
  assert.deepEqual(members(one, 0), ["aten::addmm · gemm", "bias"]);
  const { columns, filtered } = sourceOf(one, "became");
  assert.deepEqual(columns.map(({ text }) => text(2)), ["–", "triton", "new", "1", "0", "<0.01", "<+0.01"]);
  assert.equal(columns[0]!.title!(0), "aten::addmm · gemm\nbias");
  assert.equal(columns[0]!.title!(2), "nothing of eager");
  assert.equal(columns[1]!.title!(1), "nothing of compiled");
  assert.deepEqual(filtered(0), ["fused", "aten::addmm · gemm", "bias", "fused"]);
});

test("a filter finds what is new or gone by that word", () => {
  const { filtered } = sourceOf(comparison(), "operators");
  assert.deepEqual(filtered(1), ["aten::linear", "gone"]);
});

test("a row means spans in both runs, by name", () => {
  const one = comparison();
  const group = { tab: "became", row: 0 } as const;
  assert.deepEqual([...spansOf(one, "a", group)!].sort(), [2, 3, 4, 5]);
  assert.deepEqual([...spansOf(one, "b", group)!].sort(), [2, 4]);
  assert.equal(spansOf(one, "b", { tab: "became", row: 1 }), null);
  const kernel = { tab: "kernels", row: 0 } as const;
  assert.deepEqual([...spansOf(one, "a", kernel)!].sort(), [2, 4]);
  assert.equal(spansOf(one, "b", kernel), null);
  assert.deepEqual([...spansOf(one, "a", { tab: "operators", row: 0 })!].sort(), [1, 2, 3, 4, 5]);
  for (const none of [null, { tab: "findings", row: 0 } as const]) {
    assert.equal(spansOf(one, "a", none), null);
  }
  one.b.strip = null;
  assert.equal(spansOf(one, "b", group), null);
});

test("a span selects the row of its name", () => {
  const one = comparison();
  assert.deepEqual(chosenBy(one, "a", 1), { tab: "operators", row: 0 });
  assert.deepEqual(chosenBy(one, "b", 4), { tab: "kernels", row: 2 });
  assert.equal(chosenBy(one, "a", -1), null);
  // A call of the runtime is no operator of the table.
  assert.equal(chosenBy(one, "a", 2), null);
});

test("where it is not known what became of what, there are no rows", () => {
  const one = comparison();
  one.became = { of: 0, columns: null, none: "too many" };
  assert.deepEqual(sourceOf(one, "became").rows, []);
  assert.ok(heightOf(one) >= 32 + 4 * 26);
});
