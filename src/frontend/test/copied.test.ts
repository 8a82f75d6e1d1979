import assert from "node:assert/strict";
import { test } from "node:test";
import { summary, tabled } from "../src/copied.ts";
import { cell, example, finding, table } from "./example.ts";

test("a table is copied as CSV with whole figures, in microseconds", () => {
  const { columns } = table(example(), "operators", 3, "operators");
  const shown = columns.filter(({ key }) => ["name", "calls", "self_cpu_us"].includes(key));
  assert.equal(tabled(shown, [1, 0], "CSV"), (
    "name,calls,self_cpu_us\r\naten::linear,2,10\r\naten::addmm,2,16.666666666666668\r\n"
  ));
});

test("names cannot break out of a cell, nor be a formula", () => {
  const one = example();
  one.names[1] = '=HYPERLINK("http://a","b")';
  one.names[0] = 'a,"b"\nc | `d`';
  const { columns } = table(one, "operators", 1, "operators");
  const names = columns.slice(0, 1);
  assert.equal(tabled(names, [0, 1], "CSV"), (
    'name\r\n"\'=HYPERLINK(""http://a"",""b"")"\r\n"a,""b""\nc | `d`"\r\n'
  ));
  assert.equal(tabled(names, [1], "Markdown"), "| operator |\n| :-- |\n| `a,\"b\" c \\| 'd'` |\n");
});

test("Markdown and text have the figures as they are shown", () => {
  const { columns } = table(example(), "operators", 2, "operators");
  const shown = columns.filter(({ key }) => ["name", "self_cpu_us"].includes(key));
  assert.equal(tabled(shown, [0, 1], "Markdown"), [
    "| operator | self CPU µs |", "| :-- | --: |", "| `aten::addmm` | 25.00 |",
    "| `aten::linear` | 15.00 |", "",
  ].join("\n"));
  assert.equal(tabled(shown, [0, 1], "text"), [
    "operator      self CPU µs", "aten::addmm         25.00", "aten::linear        15.00", "",
  ].join("\n"));
});

test("a summary has answer, figures, findings, the largest rows and the versions", () => {
  const one = cell();
  one.headline = { lead: "Sync-bound", text: "the GPU works 1 of 2", tone: "wait", about: null };
  one.reason = "Why so";
  one.findings.rows = [finding("sync", 3)];
  const text = summary(one, table(one, "kernels", 2, "kernels of a stream"));
  assert.equal(text.split("\n\n")[0], "**Sync-bound: the GPU works 1 of 2**");
  assert.ok(text.includes("\n\nWhy so\n\n- 100 µs per run\n\n**title of sync** · line 3"));
  assert.ok(text.includes("| `gemm` | `aten::addmm` | 1 | 20.00 | 50.0 |"));
  assert.ok(text.endsWith("3 runs: 3 profiled  \ntorch 2.13.0\n"));
});
