import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenSpans, NOTHING, selectionOf } from "../src/selection.ts";
import { example } from "./example.ts";

const one = example();

test("nothing selected marks nothing out", () => {
  assert.equal(chosenSpans(one, NOTHING), null);
});

test("an operator is its own bars and the work that it caused", () => {
  assert.deepEqual([...chosenSpans(one, { operator: 1, kernel: null })!], [1, 4, 5]);
  assert.deepEqual([...chosenSpans(one, { operator: 0, kernel: null })!], [0]);
});

test("a kernel is its bars and their launches", () => {
  assert.deepEqual([...chosenSpans(one, { operator: 1, kernel: 3 })!], [4, 2]);
  assert.deepEqual([...chosenSpans(one, { operator: 0, kernel: 3 })!], []);
});

test("a click on a bar selects what stands in the tables", () => {
  assert.deepEqual(selectionOf(one, 5), { operator: 1, kernel: 4 });
  assert.deepEqual(selectionOf(one, 0), { operator: 0, kernel: null });
});

test("a click on several drawn as one selects nothing", () => {
  const several = example();
  several.strip!.spans.name[4] = null;
  several.strip!.spans.operator[4] = null;
  assert.deepEqual(selectionOf(several, 4), NOTHING);
});
