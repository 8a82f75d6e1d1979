import assert from "node:assert/strict";
import { test } from "node:test";
import { isPinned, layout, panned, seenIn, ticks, zoomed } from "../src/lanes.ts";
import { example } from "./example.ts";

const strip = example().strip!;

test("rows stand under each other, and the axis under all", () => {
  const { lanes, rows, axis, height } = layout(strip);
  const tops = rows.flat().map((row) => row.top);
  assert.deepEqual(tops, [15, 29, 43, 74]);
  assert.deepEqual(lanes.map((lane) => [lane.top, lane.height]), [[15, 40], [74, 16]]);
  assert.equal(axis, 94);
  assert.equal(height, 112);
});

test("zooming keeps the time under the pointer, and the view within the run", () => {
  assert.deepEqual(zoomed({ from: 0, to: 100 }, 100, 0.5, 50), { from: 25, to: 75 });
  assert.deepEqual(zoomed({ from: 0, to: 100 }, 100, 0.5, 0), { from: 0, to: 50 });
  assert.deepEqual(zoomed({ from: 40, to: 60 }, 100, 100, 50), { from: 0, to: 100 });
  const deep = zoomed({ from: 40, to: 41 }, 100, 1e-9, 40.5);
  assert.ok(Math.abs(deep.to - deep.from - 0.01) < 1e-9);
});

test("as many steps out as in end at the whole again, and a run of no length stays", () => {
  let view = { from: 0, to: 2350.808 };
  for (let i = 0; i < 6; i++) view = zoomed(view, 2350.808, 0.6, 1000);
  for (let i = 0; i < 6; i++) view = zoomed(view, 2350.808, 1 / 0.6, 700);
  assert.deepEqual(view, { from: 0, to: 2350.808 });
  assert.deepEqual(zoomed({ from: 0, to: 0 }, 0, 0.5, 0), { from: 0, to: 0 });
});

test("panning stops at the ends", () => {
  assert.deepEqual(panned({ from: 10, to: 30 }, 100, -20), { from: 0, to: 20 });
  assert.deepEqual(panned({ from: 10, to: 30 }, 100, 500), { from: 80, to: 100 });
});

test("the axis has round times", () => {
  assert.deepEqual(ticks({ from: 0, to: 100 }, 500, 90), [0, 20, 40, 60, 80, 100]);
  assert.deepEqual(ticks({ from: 3, to: 5 }, 300, 90), [3, 4, 5]);
  assert.deepEqual(ticks({ from: 0, to: 0 }, 300, 90), []);
});

test("devices stay in sight where the other lanes are scrolled", () => {
  const whole = layout(strip);
  // All there is
  assert.deepEqual(seenIn(whole, whole.height, 0), { ...whole, pinned: Infinity });
  // The lane of the device, 16 high, its label and the times take 53 of 90 pixels
  const seen = seenIn(whole, 90, 10);
  assert.equal(whole.pinned, 59);
  assert.equal(seen.pinned, 59 - 22);
  assert.deepEqual(seen.rows.flat().map((row) => row.top), [5, 19, 33, 52]);
  assert.equal(seen.axis, 72);
  assert.deepEqual([0, 1].map((lane) => isPinned(seen, strip, lane)), [false, true]);
  // Where they would be nearly all of it, they are scrolled as well
  const small = seenIn(whole, 60, 10);
  assert.equal(small.pinned, Infinity);
  assert.deepEqual(small.rows.flat().map((row) => row.top), [5, 19, 33, 64]);
});
