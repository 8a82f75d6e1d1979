import assert from "node:assert/strict";
import { test } from "node:test";
import { filter, sorted } from "../src/rows.ts";

const values = [3, null, 1, 3, 0];
const cell = (row: number) => values[row]!;

test("rows sort either way, equals by row, and what was not measured comes last", () => {
  assert.deepEqual(sorted([0, 1, 2, 3, 4], cell, true), [0, 3, 2, 4, 1]);
  assert.deepEqual(sorted([0, 1, 2, 3, 4], cell, false), [4, 2, 0, 3, 1]);
  assert.deepEqual(sorted([4, 3], cell, true), [3, 4]);
});

test("sorting leaves the given rows alone", () => {
  const rows = [0, 2];
  sorted(rows, cell, false);
  assert.deepEqual(rows, [0, 2]);
});

test("names sort by their characters", () => {
  const names = ["b", "a", "B", "µ"];
  assert.deepEqual(sorted([0, 1, 2, 3], (row) => names[row]!, false), [2, 1, 0, 3]);
});

test("a plain filter is a part of the name, whatever its case", () => {
  const { test: matches, error } = filter("At::[", false);
  assert.equal(error, null);
  assert.ok(matches(["void at::[x]"]));
  assert.ok(!matches(["aten::mm"]));
});

test("a regular expression is one", () => {
  const { test: matches } = filter("^aten::(mm|add)$", true);
  assert.deepEqual(["aten::mm", "ATEN::ADD", "aten::addmm"].map((name) => matches([name])), [
    true, true, false,
  ]);
});

test("a regular expression that is none is said to be, and hides nothing", () => {
  const { test: matches, error } = filter("(", true);
  assert.match(error!, /[Uu]nterminated group/);
  assert.ok(matches(["anything"]));
});

test("no text is no filter", () => {
  assert.ok(filter("", true).test(["x"]));
  assert.ok(filter("", false).test([""]));
});

test("each text is looked at by itself, from its beginning to its end", () => {
  const { test: matches } = filter("^aten::sum$", true);
  assert.ok(matches(["void reduce_kernel", "aten::sum"]));
  assert.ok(!matches(["void reduce_kernel", "aten::sum_out"]));
  assert.equal(filter("a\\-b", true).error, null);
});
