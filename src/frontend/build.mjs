// Builds the bundle into the package, or the tests into .tests for node's runner.
import { copyFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { build } from "esbuild";
import { minify } from "terser";

// Names that nobody else sees, and that are shortened in the bundle: those that Preact keeps to itself
// begin so, and it shortens them in what it publishes too; the others are ours, and neither in the
// page's data nor the browser's.
const INNER = /^(_.*|badge|choose|chosen|controls|counted|descending|filtered|layout|marked|nested|palette|perRun|pinned|prefix|reach|set(Hidden|Order|Selection|Tab|View|Wanted)|theme|toPlace|wanted)$/;

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
  const preact = new URL("node_modules/preact", import.meta.url).pathname;
  const { outputFiles } = await build({
    ...shared,
    entryPoints: ["src/widget.tsx", "src/widget.css"],
    outdir: "../tprofile/static",
    write: false,
    minify: true,
    // From its sources, of which what is not used is left out.
    alias: {
      "preact": `${preact}/src/index.js`,
      "preact/hooks": `${preact}/hooks/src/index.js`,
      "preact/jsx-runtime": `${preact}/jsx-runtime/src/index.js`,
    },
    target: ["es2022", "chrome120", "firefox117", "safari17.2"],
    charset: "ascii", // a page may be served without saying that it is UTF-8
    legalComments: "none",
  });
  for (const { path, text } of outputFiles) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, path.endsWith(".js") ? await smaller(text) : text);
  }
  copyFileSync("node_modules/preact/LICENSE", "../tprofile/static/preact.LICENSE");
}

/** Return a script with what esbuild leaves to be saved: each notebook stores it with each output. */
async function smaller(script) {
  const options = {
    module: true,
    ecma: 2022,
    compress: { passes: 3, pure_getters: true, unsafe_arrows: true, hoist_funs: true },
    mangle: { properties: { regex: INNER, reserved: ["__html", "__source", "__self"] } },
    format: { ascii_only: true },
  };
  return (await minify(script, options)).code;
}
