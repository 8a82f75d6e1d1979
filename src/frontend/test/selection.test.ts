import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenSpans, NOTHING, selectionOf } from "../src/selection.ts";
import { example } from "./example.ts";

function chosen(operator: number | null, kernel: number | null, one = example()) {
  const found = chosenSpans(one, { operator, kernel });
  return found && [...found].sort((a, b) => a - b);
}

test("nothing selected, or nothing of it in the chart, marks nothing out", () => {
  assert.equal(chosenSpans(example(), NOTHING), null);
  assert.equal(chosen(5, null), null);
});

test("an operator is its bars, the calls within them, and the work that these started", () => {
  assert.deepEqual(chosen(1, null), [1, 2, 3, 4, 5]);
  // Its own bar ends before the second launch is over
  const one = example();
  one.strip!.spans.duration_us[1] = 15;
  one.strip!.spans.operator = [null, null, null, null, null, null];
  assert.deepEqual(chosen(1, null, one), [1, 2, 4]);
  // Of the operator around it, though it launched nothing itself
  assert.deepEqual(chosen(0, null), [0, 2, 3, 4, 5]);
});

test("a kernel is its bars and their launches", () => {
  assert.deepEqual(chosen(1, 0), [2, 4]);
  assert.deepEqual(chosen(1, 1), [3, 5]);
});

test("kernels of one name are told apart by device and stream", () => {
  const one = example();
  one.strip!.spans.name[5] = 3;
  one.kernels.columns.name = [3, 3];
  one.kernels.columns.stream = [7, 20];
  one.strip!.lanes[1] = { kind: "device", label: "CUDA 0", rows: 2, streams: [7, 20] };
  one.strip!.spans.row[5] = 1;
  assert.deepEqual(chosen(1, 0, one), [2, 4]);
  assert.deepEqual(chosen(1, 1, one), [3, 5]);
  assert.deepEqual(selectionOf(one, 5), { operator: 1, kernel: 1 });
  one.names.push("CUDA 1");
  one.kernels.columns.device = [5, 6];
  assert.equal(chosen(1, 1, one), null);
});

test("a click on a bar selects what stands in the tables", () => {
  assert.deepEqual(selectionOf(example(), 5), { operator: 1, kernel: 1 });
  assert.deepEqual(selectionOf(example(), 0), { operator: 0, kernel: null });
});

test("a click on several drawn as one selects nothing", () => {
  const several = example();
  several.strip!.spans.name[4] = null;
  several.strip!.spans.operator[4] = null;
  assert.deepEqual(selectionOf(several, 4), NOTHING);
});
