import assert from "node:assert/strict";
import { test } from "node:test";
import type { Payload, SpanColumns } from "../src/payload.ts";
import type { Place } from "../src/perfetto.ts";
import {
  chosenSpans, findingAt, kernelAt, lineAt, NOTHING, placeOf, selectionOf, spanIn,
} from "../src/selection.ts";
import { cell, example, finding } from "./example.ts";

function set(one: Payload, key: keyof SpanColumns, span: number, value: number | null) {
  (one.strip!.spans[key] as (number | null)[])[span] = value;
}

const LAST = { run: 1, start_us: 60, duration_us: 20 };

function chosen(operator: number | null, kernel: number | null, one = example()) {
  const found = chosenSpans(one, { ...NOTHING, operator, kernel });
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
  set(one, "duration_us", 1, 15);
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
  set(one, "name", 5, 3);
  one.kernels.columns.name = [3, 3];
  one.kernels.columns.stream = [7, 20];
  one.strip!.lanes[1] = { kind: "device", label: "CUDA 0", rows: 2, streams: [7, 20] };
  set(one, "row", 5, 1);
  assert.deepEqual(chosen(1, 0, one), [2, 4]);
  assert.deepEqual(chosen(1, 1, one), [3, 5]);
  assert.deepEqual(selectionOf(one, 5), { ...NOTHING, operator: 1, kernel: 1, place: LAST });
  one.names.push("CUDA 1");
  one.kernels.columns.device = [5, 6];
  assert.equal(chosen(1, 1, one), null);
});

test("a click on a bar selects what stands in the tables", () => {
  assert.deepEqual(selectionOf(example(), 5), { ...NOTHING, operator: 1, kernel: 1, place: LAST });
  assert.deepEqual(selectionOf(example(), 0), { ...NOTHING, operator: 0, place: { run: 1, start_us: 0, duration_us: 30 } });
});

test("a click on several drawn as one selects nothing", () => {
  const several = example();
  set(several, "name", 4, null);
  set(several, "operator", 4, null);
  assert.deepEqual(selectionOf(several, 4), NOTHING);
});

test("a line and what was found on it are selected together", () => {
  assert.deepEqual(lineAt(cell(), 1), { ...NOTHING, line: 1, finding: 1 });
  assert.deepEqual(lineAt(cell(), 0), { ...NOTHING, line: 0 });
  assert.deepEqual(findingAt(cell(), 2), { ...NOTHING, line: 1, finding: 2 });
  assert.deepEqual(findingAt(cell(), 0), { ...NOTHING, finding: 0 });
  // Line 3 of another file is another line, and one that there was no room for is none
  const one = cell();
  one.lines!.columns.line[1] = 9;
  assert.deepEqual(findingAt(one, 1), { ...NOTHING, finding: 1 });
  one.lines = null;
  one.findings.rows.push(finding("sync", 3));
  assert.deepEqual(findingAt(one, 3), { ...NOTHING, finding: 3 });
});

test("a finding without a line selects its operator", () => {
  const one = cell();
  one.findings.rows[0]!.operator = 1;
  assert.deepEqual(findingAt(one, 0), { ...NOTHING, finding: 0, operator: 1 });
  one.findings.rows[1]!.operator = 1;
  assert.deepEqual(findingAt(one, 1), { ...NOTHING, finding: 1, line: 1 });
});

test("a line is the bars that it caused", () => {
  const spans = (line: number) => {
    const found = chosenSpans(cell(), { ...NOTHING, line });
    return found && [...found];
  };
  assert.deepEqual(spans(1), [1, 2, 4]);
  assert.deepEqual(spans(0), [0, 5]);
  assert.equal(spans(2), null);
  // Another file's line of that number
  assert.equal(spans(4), null);
  const one = cell();
  one.strip!.spans.line = null;
  assert.equal(chosenSpans(one, { ...NOTHING, line: 1 }), null);
});

test("a row of the kernels selects its operator too", () => {
  assert.deepEqual(kernelAt(example(), 1), { ...NOTHING, kernel: 1, operator: 1 });
});

test("a selection is at the bar that was clicked on, else at its first work, else its first bar", () => {
  const place = (spans: number[], place: Place | null = null) =>
    placeOf(example(), Int32Array.from(spans), { ...NOTHING, place });
  assert.deepEqual(place([1, 2, 3, 4, 5], LAST), LAST);
  assert.deepEqual(place([1, 2, 3, 4, 5]), { start_us: 30, duration_us: 20, run: 1 });
  assert.deepEqual(place([1, 2, 3]), { start_us: 5, duration_us: 24, run: 1 });
  assert.equal(placeOf(example(), null, NOTHING), null);
  assert.deepEqual(placeOf(example(), null, { ...NOTHING, place: LAST }), LAST);
});

test("the bar at a place is found in another drawing of its run alone", () => {
  const strip = example().strip!;
  assert.equal(spanIn(strip, LAST), 5);
  assert.equal(spanIn(strip, { ...LAST, start_us: 60.0004 }), 5);
  assert.equal(spanIn(strip, { ...LAST, duration_us: 19 }), -1);
  assert.equal(spanIn(strip, { ...LAST, run: 2 }), -1);
  assert.equal(spanIn(strip, null), -1);
});
