import assert from "node:assert/strict";
import { test } from "node:test";
import { childrenOf, depthsOf, flame, opened, sum, walk } from "../src/tree.ts";
import { example } from "./example.ts";

const one = example();
const c = one.tree!.columns;
const all = [0, 1, 2, 3];
const byCpu = (row: number) => c.cpu_us[row]!;

test("depths, children and roots come from the parents", () => {
  assert.deepEqual(depthsOf(c), [0, 1, 2, 0]);
  assert.deepEqual(childrenOf(c), [[1], [2], [], [], [0, 3]]);
  assert.equal(sum(c, c.cpu_us), 210);
});

test("what has much of the time is open at first", () => {
  assert.deepEqual([...opened(c)], [0, 1]);
  const { device_us: _, ...host } = c;
  assert.deepEqual([...opened(host)], [0, 1, 2]);
});

test("rows stand in what they are in, siblings by their figures", () => {
  assert.deepEqual(walk(c, all, new Set([0, 1]), byCpu, true), [0, 1, 2, 3]);
  assert.deepEqual(walk(c, all, new Set([0, 1]), byCpu, false), [3, 0, 1, 2]);
  assert.deepEqual(walk(c, all, new Set([1]), byCpu, true), [0, 3]);
});

test("what a filter keeps is shown with what is around it", () => {
  assert.deepEqual(walk(c, [2], new Set(), byCpu, true), [0, 1, 2]);
  assert.deepEqual(walk(c, [], new Set([0]), byCpu, true), []);
});

test("a flame graph has each node as wide as its time, within the one around it", () => {
  const [strip, nodes] = flame(one, "cpu_us", 2);
  assert.deepEqual(nodes, [0, 3, 1, 2]);
  assert.deepEqual(strip.spans.row, [0, 0, 1, 2]);
  assert.deepEqual(strip.spans.start_us, [0, 100, 0, 0]);
  assert.deepEqual(strip.spans.duration_us, [100, 5, 85, 60]);
  assert.equal(strip.wall_us, 105);
  // Of device time, what has none is not there
  assert.deepEqual(flame(one, "device_us", 1)[1], [0, 1]);
});
