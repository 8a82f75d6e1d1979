import assert from "node:assert/strict";
import { test } from "node:test";
import { NOTHING } from "../src/selection.ts";
import {
  briefed, chosenRow, findingsOf, hasBrief, heightOf, mainOf, ordersOf, selectedBy, startOf, tabsOf,
} from "../src/tabs.ts";
import { cell, example } from "./example.ts";

test("there are tabs for what there is, and the first opens", () => {
  assert.deepEqual(tabsOf(cell()), [
    ["lines", "Lines", null], ["operators", "Operators", 3], ["kernels", "Kernels", 2],
    ["modules", "Modules", 2], ["tree", "Call tree", null], ["timeline", "Timeline", null],
    ["findings", "Findings", 3],
  ]);
  const one = example();
  one.tree = one.strip = null;
  assert.deepEqual(tabsOf(one).map(([tab]) => tab), ["operators", "kernels", "findings"]);
  one.operators.of = 0;
  assert.deepEqual(tabsOf(one).map(([tab]) => tab), ["kernels", "findings"]);
  one.kernels.of = 0;
  assert.deepEqual(tabsOf(one).map(([tab]) => tab), ["operators", "findings"]);
});

test("lines stand in the order of the code, other tables by their figures", () => {
  const one = cell();
  assert.deepEqual(ordersOf(one).lines, { key: "line", descending: false });
  assert.deepEqual(ordersOf(one).modules, { key: "device_us", descending: true });
  assert.equal(mainOf(one, "lines"), "device_us");
  assert.equal(mainOf(one, "kernels"), "device_us");
  one.lines!.columns.device_us = null;
  assert.equal(mainOf(one, "lines"), "cpu_us");
  one.lines!.sort = "cpu_us";
  assert.deepEqual(ordersOf(one).lines, { key: "cpu_us", descending: true });
});

test("a row of each tab selects itself", () => {
  for (const tab of ["lines", "operators", "kernels", "modules", "tree", "findings"] as const) {
    const selection = selectedBy(cell(), tab, 1);
    assert.notDeepEqual(selection, NOTHING);
    assert.equal(chosenRow(cell(), tab, selection), 1);
    assert.equal(chosenRow(cell(), tab, NOTHING), -1);
  }
});

test("below the lines stands the finding of the line, or that with the most to gain", () => {
  assert.equal(briefed(cell(), 1), 1);
  assert.equal(briefed(cell(), 0), null);
  assert.equal(briefed(cell(), null), 1);
  assert.equal(startOf(cell()), 1);
  assert.ok(hasBrief(cell()));
  // Of what there was no room for, nothing
  const one = cell();
  one.findings.rows.length = 1;
  assert.equal(briefed(one, null), null);
  assert.equal(startOf(one), -1);
  assert.ok(!hasBrief(one));
  assert.ok(!hasBrief(example()));
});

test("the height is that of the longest tab, within bounds", () => {
  const one = example();
  assert.equal(heightOf(one), 32 + 3 * 26);
  assert.equal(heightOf(cell()), 32 + 9 * 26);
  one.operators.columns.name = Array.from({ length: 99 }, () => 0);
  assert.equal(heightOf(one), 32 + 10 * 26);
});

test("a filter of findings looks at all that they say", () => {
  const { rows, filtered } = findingsOf(cell());
  assert.deepEqual(rows, [0, 1, 2]);
  assert.deepEqual(filtered(0), ["title of fusion", "aten::mm", "evidence", "write `x.sum()`", "fusion"]);
});
