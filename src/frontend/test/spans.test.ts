import assert from "node:assert/strict";
import { test } from "node:test";
import type { Strip } from "../src/payload.ts";
import { above, barsOf, chain, idle, only, parents, ranges, spanAt, within, withNames } from "../src/spans.ts";
import { example } from "./example.ts";

const strip = example().strip!;

test("rows are the stretches of spans in them", () => {
  assert.deepEqual(ranges(strip).map(({ lane, row, first, last }) => [lane, row, first, last]), [
    [0, 0, 0, 1], [0, 1, 1, 2], [0, 2, 2, 4], [1, 0, 4, 6],
  ]);
});

test("the first above a value is found by halves", () => {
  const values = [1, 2, 2, 5];
  assert.deepEqual([0, 1, 2, 4.9, 5].map((value) => above(values, value)), [0, 1, 3, 3, 4]);
  assert.equal(above(values, 0, 2, 3), 2);
  assert.equal(above(values, 9, 2, 3), 3);
});

test("a span stands in the nearest one above that is around it", () => {
  assert.deepEqual([...parents(strip)], [-1, 0, 1, 1, -1, -1]);
  const one = example().strip!;
  one.spans = { ...one.spans, duration_us: [30, 10, 4, 6, 20, 20] };
  // The second call is beyond the inner operator, within the outer one.
  assert.deepEqual([...parents(one)], [-1, 0, 1, 0, -1, -1]);
});

test("what led to a kernel is its launch and all around that", () => {
  const up = parents(strip);
  assert.deepEqual(chain(strip, up, 5), [0, 1, 3, 5]);
  assert.deepEqual(chain(strip, up, 1), [0, 1]);
});

test("lines and modules stand ahead, of a backward pass those of its forward operator", () => {
  const one: Strip = {
    ...strip,
    lanes: [{ kind: "code", label: "lines", rows: 2, streams: null }, ...strip.lanes],
    spans: {
      lane: [0, 0, 0, 1, 1, 2],
      row: [0, 0, 1, 0, 0, 0],
      kind: [4, 4, 5, 0, 0, 8],
      start_us: [0, 50, 2, 10, 60, 70],
      duration_us: [40, 50, 30, 10, 10, 9],
      count: null, busy_us: null, name: [0, 1, 2, 3, 4, 5],
      operator: [-1, -1, -1, -1, -1, 4],
      launch: [-1, -1, -1, -1, -1, 4],
      line: null,
    },
  };
  const up = parents(one);
  assert.deepEqual([...up], [-1, -1, 0, -1, -1, -1]);
  assert.deepEqual(chain(one, up, 5), [1, 4, 5]);
  assert.deepEqual(chain(one, up, 2), [0, 2]);
  one.spans.forward = Int32Array.of(-1, -1, -1, -1, -1, 3);
  assert.deepEqual(chain(one, up, 5), [0, 2, 3, 4, 5]);
});

test("idle is what no span covers, ends included", () => {
  assert.deepEqual([...idle(strip, 1)], [0, 30, 50, 60, 80, 100]);
  const full: Strip = { ...strip, spans: { ...strip.spans, start_us: [0, 0, 0, 0, 0, 40], duration_us: [9, 9, 9, 9, 45, 60] } };
  assert.deepEqual([...idle(full, 1)], []);
  // What several drawn as one leave open is not known to be busy
  full.spans.count = [1, 1, 1, 1, 1, 9];
  assert.deepEqual([...idle(full, 1)], [45, 100]);
});

test("the span under a point is the nearest within the slack", () => {
  const bars = barsOf(strip.spans);
  const at = (lane: number, time: number, slack: number) =>
    spanAt(bars, bars.rows.find((row) => row.lane === lane)!, time, slack);
  assert.equal(at(1, 40, 0), 4);
  assert.equal(at(1, 52, 1), -1);
  assert.equal(at(1, 52, 3), 4);
  assert.equal(at(1, 58, Infinity), 5);
  assert.equal(at(0, 40, 3), -1);
});

test("of spans in a row it is known how far they reach, and how long they were busy", () => {
  const { start_us, duration_us } = strip.spans;
  const { reach, busy } = barsOf(strip.spans);
  assert.deepEqual([...reach], Array.from(start_us, (start, i) => start + duration_us[i]!));
  const sums = Array.from(duration_us, (_, i) => busy[i + 1]! - busy[i]!);
  assert.deepEqual(sums, Array.from(duration_us));
  // One around the others reaches further than they do
  const over = barsOf({ ...strip.spans, duration_us: [30, 20, 40, 9, 20, 20] });
  assert.deepEqual(over.reach[3], over.reach[2]);
});

test("some of the spans are drawn where all of them are", () => {
  const some = barsOf(only(strip.spans, Int32Array.of(0, 3, 5)));
  assert.deepEqual(some.rows.map(({ lane, row, first, last }) => [lane, row, first, last]), [
    [0, 0, 0, 1], [0, 2, 1, 2], [1, 0, 2, 3],
  ]);
  assert.deepEqual([...some.reach], [0, 3, 5].map((i) => strip.spans.start_us[i]! + strip.spans.duration_us[i]!));
});

test("names and what is inside a span mark spans out", () => {
  assert.deepEqual([...withNames(strip, [1, 3])], [1, 4]);
  assert.deepEqual([...withNames(strip, [])], []);
  assert.deepEqual([...within(strip, parents(strip), 1, [0])], [0, 1, 2, 3, 4, 5]);
  assert.deepEqual([...within(strip, parents(strip), 3, [0, 1])], [0, 1, 3, 5]);
});
