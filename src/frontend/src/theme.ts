// Light or dark, from what is really behind the widget: each notebook says it in another way.

import type { Tone } from "./payload.ts";

export type Theme = "light" | "dark";

export interface Palette {
  fg: string;
  dim: string;
  line: string;
  hover: string;
  chosen: string;
  cpu: string;
  inner: string;
  call: string;
  wait: string;
  device: string;
  pale: string;
  copy: string;
  idle: string;
  /** The same as letters. */
  cpuInk: string;
  waitInk: string;
  deviceInk: string;
  copyInk: string;
}

// CPU blue, device green, waiting vermilion, copies ochre: told apart by the colour-blind too, and
// never the only sign. Text has a contrast of 4.5 and more on white and on #1c1d20.
export const PALETTES: Record<Theme, Palette> = {
  light: {
    fg: "#1d2125",
    dim: "#59626b",
    line: "#d9dde1",
    hover: "#8a94a01f",
    chosen: "#3f72d329",
    cpu: "#4478d8",
    inner: "#82a7ea",
    call: "#b3c8f2",
    wait: "#d0512a",
    device: "#2a9a60",
    pale: "#a5d9bf",
    copy: "#b3861a",
    idle: "#d0512a30",
    cpuInk: "#3468cc",
    waitInk: "#bf4520",
    deviceInk: "#1e7a49",
    copyInk: "#8a6410",
  },
  dark: {
    fg: "#e8eaed",
    dim: "#a3abb3",
    line: "#3c4147",
    hover: "#aab4c01f",
    chosen: "#6f9cf038",
    cpu: "#6f9cf0",
    inner: "#4a6aa6",
    call: "#3a4d75",
    wait: "#f0835c",
    device: "#47c285",
    pale: "#2c6e4e",
    copy: "#d9a93a",
    idle: "#f0835c3c",
    cpuInk: "#6f9cf0",
    waitInk: "#f0835c",
    deviceInk: "#47c285",
    copyInk: "#d9a93a",
  },
};

/** Return the style of letters that say what they are about by their colour too. */
export function inked(tone: Tone | null): { color: string } | undefined {
  return tone ? { color: `var(--tp-${tone}Ink)` } : undefined;
}

/** Return the contrast between two colours written as #rrggbb, from 1 to 21. */
export function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high! + 0.05) / (low! + 0.05);
}

function luminance(color: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const value = parseInt(color.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

/** Return black or white, whichever is read better on a colour. */
export function ink(color: string): string {
  // From here on the contrast with black is the larger one.
  return luminance(color) >= 0.1791 ? "#000000" : "#ffffff";
}

/** Return red, green, blue and opacity of a computed colour, or null. */
export function channels(color: string): [number, number, number, number] | null {
  const found = /^rgba?\(([^)]+)\)$/.exec(color);
  if (!found) return null;
  const parts = found[1]!.split(/[\s,/]+/).map(Number);
  if (parts.length < 3 || parts.some(Number.isNaN)) return null;
  return [parts[0]!, parts[1]!, parts[2]!, parts[3] ?? 1];
}

/** Return the theme in which a background calls for light or dark text. */
export function themeOf(background: string): Theme | null {
  const rgb = channels(background);
  if (!rgb) return null;
  return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] < 128 ? "dark" : "light";
}

/** Return the first background behind an element that can be seen, and the theme it makes. */
export function behind(element: Element): { background: string; theme: Theme } {
  for (let at: Element | null = element; at; at = parent(at)) {
    const background = getComputedStyle(at).backgroundColor;
    const rgb = channels(background);
    const theme = rgb && rgb[3] > 0.5 ? themeOf(background) : null;
    if (theme) return { background, theme };
  }
  // Nothing is painted: the browser's own page, which follows `color-scheme`.
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const scheme = getComputedStyle(document.documentElement).colorScheme;
  return dark && scheme.includes("dark")
    ? { background: "Canvas", theme: "dark" }
    : { background: "Canvas", theme: "light" };
}

function parent(element: Element): Element | null {
  if (element.parentElement) return element.parentElement;
  const root = element.getRootNode();
  return root instanceof ShadowRoot ? root.host : null;
}

/** Call back now and whenever the theme may have changed; return what ends it. */
export function watchTheme(changed: () => void): () => void {
  // A theme's style sheet can come later than the attribute that announces it.
  const timers = new Set<number>();
  const soon = () => {
    changed();
    for (const ms of [100, 500, 1500]) {
      const timer = setTimeout(() => {
        timers.delete(timer);
        changed();
      }, ms) as unknown as number;
      timers.add(timer);
    }
  };
  const watcher = new MutationObserver(soon);
  for (const root of [document.documentElement, document.body]) {
    watcher.observe(root, { attributes: true, attributeFilter: ["class", "style", ...DATA] });
  }
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", soon);
  soon();
  return () => {
    watcher.disconnect();
    media.removeEventListener("change", soon);
    timers.forEach((timer) => clearTimeout(timer));
  };
}

const DATA = ["data-jp-theme-light", "data-jp-theme-name", "data-theme", "data-vscode-theme-kind"];
