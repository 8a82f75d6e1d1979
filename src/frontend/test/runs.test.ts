import assert from "node:assert/strict";
import { test } from "node:test";
import { decoded, received } from "../src/runs.ts";
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

test("a table that was asked for has the names of the page too", () => {
  const names = ["x", "aten::mm"];
  const table = {
    of: 1, sort: "cpu_us",
    heads: [
      { key: "name", head: "operator", kind: "name" as const },
      { key: "shape", head: "shape", kind: "name" as const },
      { key: "calls", head: "calls", kind: "count" as const },
    ],
    columns: { name: [0, null], shape: [1, 1], calls: [1, 0] },
  };
  const { columns } = received({ table, names: ["aten::mm", "[2, 3]"] }, names);
  assert.deepEqual(columns, { name: [1, null], shape: [2, 2], calls: [1, 0] });
  assert.deepEqual(names, ["x", "aten::mm", "[2, 3]"]);
});
