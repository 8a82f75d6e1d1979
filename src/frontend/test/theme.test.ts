import assert from "node:assert/strict";
import { test } from "node:test";
import { channels, PALETTES, themeOf } from "../src/theme.ts";

test("the theme is that of the background", () => {
  assert.equal(themeOf("rgb(255, 255, 255)"), "light");
  assert.equal(themeOf("rgb(17, 17, 17)"), "dark");
  assert.equal(themeOf("rgba(0, 0, 0, 0)"), "dark");
  assert.equal(themeOf("oklch(1 0 0)"), null);
  assert.deepEqual(channels("rgba(1, 2, 3, 0.5)"), [1, 2, 3, 0.5]);
});

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const value = parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high! + 0.05) / (low! + 0.05);
}

// JupyterLab's two themes, and what a browser paints by itself.
const GROUNDS = { light: ["#ffffff"], dark: ["#111111", "#121212", "#1c1d20"] } as const;

for (const theme of ["light", "dark"] as const) {
  test(`text can be read in the ${theme} theme`, () => {
    for (const ground of GROUNDS[theme]) {
      for (const name of ["fg", "dim"] as const) {
        assert.ok(contrast(PALETTES[theme][name], ground) >= 4.5, `${name} on ${ground}`);
      }
      for (const name of ["cpu", "wait", "device", "copy"] as const) {
        assert.ok(contrast(PALETTES[theme][name], ground) >= 3, `${name} on ${ground}`);
      }
    }
  });
}
