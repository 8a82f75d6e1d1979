// The strip on its canvas. Text on it is drawn, so a name can be nothing but text.

import { kindOf, ticks, type Layout, type View } from "./lanes.ts";
import type { Kind, Payload, Strip } from "./payload.ts";
import { ink, type Palette } from "./theme.ts";
import { cut, unit } from "./words.ts";

export interface Scene {
  payload: Pick<Payload, "names">;
  strip: Strip;
  layout: Layout;
  /** Of each lane, the stretches in which nothing was done. */
  idle: [number, number][][];
  view: View;
  width: number;
  palette: Palette;
  font: string;
  mono: string;
  /** Spans that are selected, or null where nothing is. */
  chosen: Set<number> | null;
  /** Span under the pointer or the keyboard's cursor, or -1. */
  pointed: number;
}

const COLOR: Record<Kind, keyof Palette> = {
  operator: "cpu",
  inner: "inner",
  call: "call",
  wait: "wait",
  kernel: "device",
  copy: "copy",
};

const LETTER = 6.1;
const MOST_ARROWS = 200;

export function draw(canvas: HTMLCanvasElement, scene: Scene): void {
  const { layout, width, palette, view, strip } = scene;
  const ratio = devicePixelRatio || 1;
  const pixels = [Math.round(width * ratio), Math.round(layout.height * ratio)] as const;
  // To set a size clears the canvas and costs a frame, even if it is the same.
  if (canvas.width !== pixels[0]) canvas.width = pixels[0];
  if (canvas.height !== pixels[1]) canvas.height = pixels[1];
  const to = canvas.getContext("2d");
  if (!to || !width) return;
  to.setTransform(ratio, 0, 0, ratio, 0, 0);
  to.clearRect(0, 0, width, layout.height);
  const x = (time: number) => ((time - view.from) / (view.to - view.from)) * width;
  drawIdle(to, scene, x);
  drawSpans(to, scene, x);
  if (scene.chosen) drawArrows(to, scene, x);
  to.font = `11px ${scene.font}`;
  to.textBaseline = "alphabetic";
  strip.lanes.forEach((lane, i) => {
    to.fillStyle = palette.dim;
    to.fillText(cut(lane.label, 40), 0, layout.lanes[i]!.label);
  });
  if (layout.axis !== null) drawAxis(to, scene, layout.axis, x);
}

function drawIdle(to: CanvasRenderingContext2D, scene: Scene, x: (t: number) => number): void {
  to.fillStyle = scene.palette.idle;
  scene.strip.lanes.forEach((lane, i) => {
    if (lane.kind !== "device") return;
    const { top, height } = scene.layout.lanes[i]!;
    for (const [from, until] of scene.idle[i]!) {
      if (until > scene.view.from && from < scene.view.to) {
        to.fillRect(x(from), top, x(until) - x(from), height);
      }
    }
  });
}

function drawSpans(to: CanvasRenderingContext2D, scene: Scene, x: (t: number) => number): void {
  const { payload, strip, layout, view, palette, chosen } = scene;
  const { spans } = strip;
  to.font = `10px ${scene.mono}`;
  to.textBaseline = "middle";
  for (let i = 0; i < spans.start_us.length; i++) {
    const start = spans.start_us[i]!;
    const duration = spans.duration_us[i]!;
    if (start > view.to || start + duration < view.from) continue;
    const row = layout.rows[spans.lane[i]!]![spans.row[i]!]!;
    const left = Math.max(x(start), -1);
    const right = Math.min(x(start + duration), scene.width + 1);
    // A span too short to be seen is still seen; a long one leaves a hair to its neighbour.
    const wide = right - left > 4 ? right - left - 0.7 : Math.max(right - left, 0.75);
    const kind = kindOf(spans, i);
    // What is drawn together is as high as it was busy: a low bar is mostly gaps.
    const busy = spans.busy_us ? Math.min(spans.busy_us[i]! / (duration || 1), 1) : 1;
    const height = Math.max(row.height * busy, 1);
    to.globalAlpha = chosen && !chosen.has(i) ? 0.28 : 1;
    to.fillStyle = palette[COLOR[kind]];
    to.fillRect(left, row.top + row.height - height, wide, height);
    to.globalAlpha = 1;
    const name = spans.name[i];
    const room = Math.floor((wide - 8) / LETTER);
    // A few letters of a long name say nothing.
    if (name != null && room > 2 && (!chosen || chosen.has(i))) {
      const whole = payload.names[name]!;
      if (whole.length <= room || room >= 14) {
        to.fillStyle = ink(palette[COLOR[kind]]);
        to.fillText(cut(whole, room), left + 4, row.top + row.height / 2 + 0.5);
      }
    }
    if (i === scene.pointed) {
      to.strokeStyle = palette.fg;
      to.lineWidth = 1.5;
      to.strokeRect(left - 0.75, row.top - 0.75, wide + 1.5, row.height + 1.5);
    }
  }
}

function drawArrows(to: CanvasRenderingContext2D, scene: Scene, x: (t: number) => number): void {
  const { spans } = scene.strip;
  const { rows } = scene.layout;
  to.strokeStyle = scene.palette.fg;
  to.globalAlpha = 0.55;
  to.lineWidth = 1;
  let drawn = 0;
  for (const i of scene.chosen!) {
    const launch = spans.launch[i]!;
    if (launch < 0) continue;
    const from = x(spans.start_us[launch]!);
    const until = x(spans.start_us[i]!);
    if (Math.max(from, until) < 0 || Math.min(from, until) > scene.width) continue;
    if (++drawn > MOST_ARROWS) break;
    const above = rows[spans.lane[launch]!]![spans.row[launch]!]!;
    const below = rows[spans.lane[i]!]![spans.row[i]!]!;
    const top = above.top + above.height;
    const middle = (top + below.top) / 2;
    to.beginPath();
    to.moveTo(from, top);
    to.bezierCurveTo(from, middle, until, middle, until, below.top);
    to.stroke();
  }
  to.globalAlpha = 1;
}

function drawAxis(
  to: CanvasRenderingContext2D, scene: Scene, axis: number, x: (t: number) => number,
): void {
  const { view, width, palette } = scene;
  const times = ticks(view, width, 90);
  const fit = unit([view.to]);
  const step = times.length > 1 ? (times[1]! - times[0]!) / fit.size : 1;
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  to.font = `10px ${scene.font}`;
  to.textBaseline = "alphabetic";
  to.fillStyle = palette.dim;
  to.strokeStyle = palette.line;
  to.lineWidth = 1;
  for (const time of times) {
    const at = x(time);
    to.beginPath();
    to.moveTo(at, axis);
    to.lineTo(at, axis + 4);
    to.stroke();
    const label = `${(time / fit.size).toFixed(decimals)} ${fit.name}`;
    const size = to.measureText(label).width;
    to.fillText(label, Math.min(Math.max(at - size / 2, 0), width - size), axis + 14);
  }
}

