import assert from "node:assert/strict";
import { test } from "node:test";
import { channels, contrast, ink, PALETTES, themeOf } from "../src/theme.ts";

test("the theme is that of the background", () => {
  assert.equal(themeOf("rgb(255, 255, 255)"), "light");
  assert.equal(themeOf("rgb(17, 17, 17)"), "dark");
  assert.equal(themeOf("oklch(1 0 0)"), null);
  assert.deepEqual(channels("rgba(1, 2, 3, 0.5)"), [1, 2, 3, 0.5]);
});

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

for (const theme of ["light", "dark"] as const) {
  test(`coloured letters can be read in the ${theme} theme, also on a tinted row`, () => {
    const palette = PALETTES[theme];
    for (const tone of ["cpu", "wait", "device", "copy"] as const) {
      for (const ground of GROUNDS[theme]) {
        for (const behind of [ground, mixed(palette[tone], ground, 0.09)]) {
          assert.ok(contrast(palette[`${tone}Ink`], behind) >= 4.5, `${tone} on ${behind}`);
        }
      }
    }
  });
}

/** Return what `color-mix` makes of a colour, at its share, on a ground. */
function mixed(color: string, ground: string, share: number): string {
  const parts = [1, 3, 5].map((at) => {
    const [one, other] = [color, ground].map((hex) => parseInt(hex.slice(at, at + 2), 16));
    return Math.round(one! * share + other! * (1 - share)).toString(16).padStart(2, "0");
  });
  return `#${parts.join("")}`;
}

test("contrast is that of the accessibility guidelines", () => {
  assert.equal(contrast("#000000", "#ffffff"), 21);
  assert.equal(contrast("#777777", "#777777"), 1);
  assert.ok(Math.abs(contrast("#767676", "#ffffff") - 4.54) < 0.01);
});

test("names can be read on their bars", () => {
  for (const palette of Object.values(PALETTES)) {
    for (const name of ["cpu", "inner", "call", "wait", "device", "copy"] as const) {
      assert.ok(contrast(ink(palette[name]), palette[name]) >= 4.5, name);
    }
  }
});
