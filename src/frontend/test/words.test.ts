import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesUnit, count, cut, duration, fixed, halves, number, percent, times, unit } from "../src/words.ts";
import cases from "../src/words.cases.json" with { type: "json" };

test("figures read as those of the text table do", () => {
  for (const { column, name, numbers } of cases.unit) {
    const fit = unit(column);
    assert.equal(fit.name, name, String(column));
    assert.deepEqual(column.map((us) => number(us, fit)), numbers);
  }
  for (const { column, name, numbers } of cases.bytes) {
    const fit = bytesUnit(column);
    assert.equal(fit.name, name, String(column));
    assert.deepEqual(column.map((bytes) => number(bytes, fit)), numbers);
  }
  for (const [fraction, text] of cases.percent) {
    assert.equal(percent(fraction as number | null), text, String(fraction));
  }
  for (const [us, text] of cases.duration) {
    assert.equal(duration(us as number | null), text, String(us));
  }
  for (const [calls, text] of cases.count) {
    assert.equal(count(calls as number), text, String(calls));
  }
  for (const [ratio, text] of cases.times) {
    assert.equal(times(ratio as number), text, String(ratio));
  }
});

test("a name is cut in its middle", () => {
  assert.equal(cut("abcdefghij", 10), "abcdefghij");
  assert.equal(cut("abcdefghij", 5), "ab…ij");
  assert.equal(cut("abcdefghij", 4), "ab…j");
  assert.equal(cut("abcdefghij", 1), "…");
  assert.equal(Array.from(cut("😀😁😂😃😄", 3)).length, 3);
});

test("the halves of a name are all of it", () => {
  assert.deepEqual(halves("short", 5), ["short", ""]);
  assert.deepEqual(halves("abcdefghij", 7), ["abcdefg", "hij"]);
  assert.deepEqual(halves("a😀😁😂😃", 4).join(""), "a😀😁😂😃");
});

test("ties go to the even digit, and what only looks like one does not", () => {
  assert.deepEqual([0.125, 0.375, -0.125, 2.675, 1.005].map((x) => fixed(x, 2)), [
    "0.12", "0.38", "-0.12", "2.67", "1.00",
  ]);
  assert.deepEqual([0.25, 0.75].map((x) => fixed(x, 1)), ["0.2", "0.8"]);
  assert.deepEqual([0.5, 1.5, 2.5].map((x) => fixed(x, 0)), ["0", "2", "2"]);
});
