// The strip on its canvas. Text on it is drawn, so a name can be nothing but text.

import { isPinned, ticks, type Layout, type Row, type View } from "./lanes.ts";
import { known, type Kind, type Payload, type Strip } from "./payload.ts";
import { above, kindOf, type Range, type Spans } from "./spans.ts";
import { ink, type Palette } from "./theme.ts";
import { bytes, cut, unit } from "./words.ts";

export interface Scene {
  payload: Pick<Payload, "names">;
  strip: Strip;
  /** In the window that is seen. */
  layout: Layout;
  rows: Range[];
  /** Of each span, when it and all before it in its row have ended. */
  reach: Float64Array;
  /** Of each lane, the stretches in which nothing was done: begin, end, begin, … */
  idle: Float64Array[];
  view: View;
  width: number;
  palette: Palette;
  font: string;
  mono: string;
  /** Spans that are selected, or null where nothing is. */
  chosen: Spans | null;
  /** Span under the pointer or the keyboard's cursor, or -1. */
  pointed: number;
}

const COLOR: Record<Kind, keyof Palette> = {
  operator: "cpu",
  inner: "inner",
  call: "call",
  wait: "wait",
  line: "line",
  module: "line",
  note: "call",
  function: "line",
  kernel: "device",
  copy: "copy",
};

const LETTER = 6.1;
const MOST_ARROWS = 200;
const SAMPLE = 64;
/** What is selected, and what is not beside it. */
const FAINT = 0.28;

export function draw(canvas: HTMLCanvasElement, scene: Scene): void {
  const { layout, width, view, strip, chosen } = scene;
  const { height, pinned } = layout;
  const ratio = devicePixelRatio || 1;
  const pixels = [Math.round(width * ratio), Math.round(height * ratio)] as const;
  // To set a size clears the canvas and costs a frame, even if it is the same.
  if (canvas.width !== pixels[0]) canvas.width = pixels[0];
  if (canvas.height !== pixels[1]) canvas.height = pixels[1];
  const to = canvas.getContext("2d");
  if (!to || !width) return;
  to.setTransform(ratio, 0, 0, ratio, 0, 0);
  to.clearRect(0, 0, width, height);
  const x = (time: number) => ((time - view.from) / (view.to - view.from)) * width;
  const some = (pinned: boolean) => {
    strip.lanes.forEach((_, i) => {
      if (isSeen(scene, i, layout.lanes[i]!, pinned)) drawLane(to, scene, x, i);
    });
    to.globalAlpha = chosen ? FAINT : 1;
    for (const { lane, row, first, last } of scene.rows) {
      const place = layout.rows[lane]![row]!;
      if (isSeen(scene, lane, place, pinned)) drawRow(to, scene, x, place, first, last);
    }
    to.globalAlpha = 1;
    if (chosen) drawChosen(to, scene, x, chosen, pinned);
  };
  some(false);
  // What is scrolled goes under what is not.
  to.clearRect(0, pinned, width, height);
  some(true);
  if (chosen) drawArrows(to, scene, x, chosen);
  if (scene.pointed >= 0) outline(to, scene, x, scene.pointed);
  strip.memory?.forEach((_, i) => drawMemory(to, scene, x, i));
  if (layout.axis !== null) drawAxis(to, scene, layout.axis, x);
}

/** Tell whether something of a lane is in the window, and to be drawn with what is pinned or not. */
function isSeen(
  { layout, strip }: Scene, lane: number, { top, height }: { top: number; height: number }, pinned: boolean,
): boolean {
  if (isPinned(layout, strip, lane)) return pinned;
  return !pinned && top < Math.min(layout.pinned, layout.height) && top + height > 0;
}

type Scale = (time: number) => number;

/** Draw what a lane is called, and the stretches in which nothing was done. */
function drawLane(to: CanvasRenderingContext2D, scene: Scene, x: Scale, lane: number): void {
  const { palette, layout, strip, width, view } = scene;
  const { top, height, label } = layout.lanes[lane]!;
  to.font = `11px ${scene.font}`;
  to.textBaseline = "alphabetic";
  to.fillStyle = palette.dim;
  to.fillText(cut(strip.lanes[lane]!.label, 40), 0, label);
  to.textBaseline = "middle";
  if (strip.lanes[lane]!.kind !== "device") return;
  to.fillStyle = palette.idle;
  const gaps = scene.idle[lane]!;
  for (let at = above(gaps, view.from) & ~1; at < gaps.length; at += 2) {
    const left = x(gaps[at]!);
    const pixel = Math.floor(left);
    if (left > width) break;
    // Of gaps that are less than a pixel, one is drawn in each.
    if (at && x(gaps[at + 1]!) < pixel + 1 && x(gaps[at - 2]!) >= pixel) continue;
    to.fillRect(left, top, x(gaps[at + 1]!) - left, height);
  }
}

/** Draw what of a row is in view: what is shorter than a pixel together. */
function drawRow(
  to: CanvasRenderingContext2D, scene: Scene, x: Scale, place: Row, first: number, last: number,
): void {
  const { view, width, reach } = scene;
  const { start_us, duration_us, busy_us } = scene.strip.spans;
  const pixel = (view.to - view.from) / width;
  for (let i = above(reach, view.from, first, last); i < last && start_us[i]! < view.to; ) {
    const left = Math.floor(x(start_us[i]!));
    if (duration_us[i]! > 2 * pixel || (start_us[i + 1] ?? Infinity) > view.from + (left + 1) * pixel) {
      drawSpan(to, scene, x, place, i++);
      continue;
    }
    const until = above(start_us, view.from + (left + 1) * pixel, i + 1, last);
    // Each would be too much, where there are thousands in a pixel: some of them tell.
    const step = Math.ceil((until - i) / SAMPLE);
    let [busy, longest] = [0, i];
    let long = -1;
    for (let j = i; j < until; j += step) {
      const length = duration_us[j]!;
      if (length > 2 * pixel) {
        long = j;
        break;
      }
      busy += (busy_us?.[j] ?? length) * step;
      if (length > duration_us[longest]!) longest = j;
    }
    to.fillStyle = scene.palette[COLOR[kindOf(scene.strip.spans, longest)]];
    const height = Math.max(place.height * Math.min(busy / pixel, 1), 2);
    to.fillRect(left, place.top + place.height - height, 1, height);
    i = long < 0 ? until : long;
  }
}

/** Return left edge and width of a span on the canvas. */
function edges({ strip, width }: Scene, x: Scale, span: number): [number, number] {
  const start = strip.spans.start_us[span]!;
  const left = Math.max(x(start), -1);
  const right = Math.min(x(start + strip.spans.duration_us[span]!), width + 1);
  // A span too short to be seen is still seen; a long one leaves a hair to its neighbour.
  return [left, right - left > 4 ? right - left - 0.7 : Math.max(right - left, 0.75)];
}

function drawSpan(
  to: CanvasRenderingContext2D, scene: Scene, x: Scale, row: Row, span: number,
): void {
  const { palette, strip: { spans } } = scene;
  const [left, wide] = edges(scene, x, span);
  // What is drawn together is as high as it was busy: a low bar is mostly gaps.
  const busy = spans.busy_us ? Math.min(spans.busy_us[span]! / (spans.duration_us[span]! || 1), 1) : 1;
  const height = Math.max(row.height * busy, 1);
  const color = palette[COLOR[kindOf(spans, span)]];
  to.fillStyle = color;
  to.fillRect(left, row.top + row.height - height, wide, height);
  const name = known(spans.name, span);
  const room = Math.floor((wide - 8) / LETTER);
  // A few letters of a long name say nothing, and a faint one is not read.
  if (name === null || room <= 2 || to.globalAlpha < 1) return;
  const whole = scene.payload.names[name]!;
  if (whole.length <= room || room >= 14) {
    to.font = `10px ${scene.mono}`;
    to.fillStyle = ink(color);
    to.fillText(cut(whole, room), left + 4, row.top + row.height / 2 + 0.5);
  }
}

function rowOf({ strip: { spans }, layout }: Scene, span: number): Row {
  return layout.rows[spans.lane[span]!]![spans.row[span]!]!;
}

function drawChosen(
  to: CanvasRenderingContext2D, scene: Scene, x: Scale, chosen: Spans, pinned: boolean,
): void {
  const { start_us, duration_us } = scene.strip.spans;
  let [before, drawn] = [null as Row | null, 0];
  for (const i of chosen) {
    if (start_us[i]! > scene.view.to || start_us[i]! + duration_us[i]! < scene.view.from) continue;
    const row = rowOf(scene, i);
    if (!isSeen(scene, row.lane, row, pinned)) continue;
    const end = x(start_us[i]! + duration_us[i]!);
    // It would stand where the one before it does.
    if (row === before && end < drawn + 0.5) continue;
    [before, drawn] = [row, end];
    drawSpan(to, scene, x, row, i);
  }
}

function outline(to: CanvasRenderingContext2D, scene: Scene, x: Scale, span: number): void {
  const [left, wide] = edges(scene, x, span);
  const { top, height } = rowOf(scene, span);
  to.strokeStyle = scene.palette.fg;
  to.lineWidth = 1.5;
  to.strokeRect(left - 0.75, top - 0.75, wide + 1.5, height + 1.5);
}

/** Draw how much was allocated at a time: in each pixel the most that it was. */
function drawMemory(to: CanvasRenderingContext2D, scene: Scene, x: Scale, at: number): void {
  const { palette, view, width } = scene;
  const { label, time_us, bytes: held } = scene.strip.memory![at]!;
  const place = scene.layout.memory[at]!;
  const bottom = place.top + place.height;
  const most = held.reduce((a, b) => Math.max(a, b), 1);
  to.beginPath();
  to.moveTo(0, bottom);
  for (let i = Math.max(above(time_us, view.from) - 1, 0); i < time_us.length; ) {
    const left = Math.max(Math.floor(x(time_us[i]!)), 0);
    if (left > width) break;
    const next = above(time_us, view.from + ((left + 1) / width) * (view.to - view.from), i + 1);
    const high = held.subarray(i, next).reduce((a, b) => Math.max(a, b));
    const y = bottom - (high / most) * place.height;
    to.lineTo(left, y);
    // From here on it is as much as after the last change in this pixel.
    to.lineTo(left + 1, y);
    const after = bottom - (held[next - 1]! / most) * place.height;
    to.lineTo(left + 1, after);
    to.lineTo(Math.min(x(time_us[next] ?? view.to), width), after);
    i = next;
  }
  to.lineTo(width, bottom);
  to.fillStyle = palette.pale;
  to.fill();
  to.font = `11px ${scene.font}`;
  to.textBaseline = "alphabetic";
  to.fillStyle = palette.dim;
  to.fillText(`${cut(label, 40)} memory, at most ${bytes(most)}`, 0, place.label);
}

function drawArrows(to: CanvasRenderingContext2D, scene: Scene, x: Scale, chosen: Spans): void {
  const { spans } = scene.strip;
  to.strokeStyle = scene.palette.fg;
  to.globalAlpha = 0.55;
  to.lineWidth = 1;
  let drawn = 0;
  for (const i of chosen) {
    const launch = spans.launch[i]!;
    if (launch < 0) continue;
    const from = x(spans.start_us[launch]!);
    const until = x(spans.start_us[i]!);
    if (Math.max(from, until) < 0 || Math.min(from, until) > scene.width) continue;
    if (++drawn > MOST_ARROWS) break;
    const [over, below] = [rowOf(scene, launch), rowOf(scene, i)];
    const top = Math.min(over.top + over.height, scene.layout.pinned);
    const middle = (top + below.top) / 2;
    to.beginPath();
    to.moveTo(from, top);
    to.bezierCurveTo(from, middle, until, middle, until, below.top);
    to.stroke();
  }
  to.globalAlpha = 1;
}

function drawAxis(
  to: CanvasRenderingContext2D, scene: Scene, axis: number, x: Scale,
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

