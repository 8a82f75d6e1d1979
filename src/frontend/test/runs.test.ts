import assert from "node:assert/strict";
import { test } from "node:test";
import { decoded } from "../src/runs.ts";
import RUN from "./run.cases.json";

const bytes = Uint8Array.from(atob(RUN.base64), (letter) => letter.charCodeAt(0));

test("a run comes as the Python side wrote it, with the names of the page", () => {
  const names = ["other", "aten::mm", "cut"];
  const strip = decoded(bytes, names);
  const { spans } = strip;
  assert.deepEqual(strip.lanes, RUN.lanes);
  assert.equal(strip.run, 1);
  assert.equal(strip.wall_us, RUN.wall_us);
  for (const key of ["lane", "row", "kind", "start_us", "duration_us", "launch", "forward", "line"] as const) {
    assert.deepEqual(Array.from(spans[key]!), RUN.spans[key], key);
  }
  const text = (column: ArrayLike<number | null>) =>
    Array.from(column, (i) => (i! < 0 ? null : names[i!]));
  assert.deepEqual(text(spans.name), RUN.spans.name);
  assert.deepEqual(text(spans.operator), RUN.spans.operator);
  // Names that were there are not there twice.
  assert.equal(names.filter((name) => name === "aten::mm").length, 1);
  assert.equal(spans.count, null);
});

test("memory is a curve for each device", () => {
  const [memory] = decoded(bytes, []).memory!;
  assert.equal(memory!.label, "CUDA 0");
  assert.deepEqual(Array.from(memory!.time_us), RUN.memory.time_us);
  assert.deepEqual(Array.from(memory!.bytes), RUN.memory.bytes);
});
