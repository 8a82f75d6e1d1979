// Builds the bundle into the package, or the tests into .tests for node's runner.
import { copyFileSync, readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

const shared = { bundle: true, format: "esm", jsx: "automatic", jsxImportSource: "preact" };

if (process.argv.includes("--tests")) {
  rmSync(".tests", { recursive: true, force: true });
  await build({
    ...shared,
    entryPoints: readdirSync("test").filter((f) => f.endsWith(".test.ts")).map((f) => `test/${f}`),
    outdir: ".tests",
    outExtension: { ".js": ".mjs" },
    platform: "node",
    target: "node20",
    sourcemap: "inline",
  });
} else {
  await build({
    ...shared,
    entryPoints: ["src/widget.tsx", "src/widget.css"],
    outdir: "../tprofile/static",
    minify: true,
    target: ["es2022", "chrome112", "firefox117", "safari16.5"],
    charset: "ascii", // a page may be served without saying that it is UTF-8
    legalComments: "none",
  });
  copyFileSync("node_modules/preact/LICENSE", "../tprofile/static/preact.LICENSE");
}
