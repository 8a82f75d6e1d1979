import assert from "node:assert/strict";
import { test } from "node:test";
import { markdown, pieces } from "../src/findings.tsx";
import { finding } from "./example.ts";

test("a finding is copied as Markdown", () => {
  assert.equal(
    markdown(finding("sync", 3)),
    "**title of sync** \u00b7 line 3 \u00b7 aten::item \u00b7 up to 1 \u00b5s of each run\n\n" +
      "evidence\n\nwrite `x.sum()`\n",
  );
  const bare = finding("truncated", null, { where: "", gain: null, advice: "" });
  assert.equal(markdown(bare), "**title of truncated**\n\nevidence\n");
});

test("what stands in backquotes is code", () => {
  assert.deepEqual(pieces("write `x` or `y`"), ["write ", "x", " or ", "y", ""]);
  assert.deepEqual(pieces("plain"), ["plain"]);
  // One without a partner is a backquote
  assert.deepEqual(pieces("write `x` or `y"), ["write ", "x", " or `y"]);
  assert.deepEqual(pieces("`"), ["`"]);
});
