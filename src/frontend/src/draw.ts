// The strip on its canvas. Text on it is drawn, so a name can be nothing but text.

import { isPinned, ticks, type Layout, type Row, type View } from "./lanes.ts";
import { known, type Kind, type Payload, type SpanColumns, type Strip } from "./payload.ts";
import { above, kindOf, type Bars, type Range, type Spans } from "./spans.ts";
import { ink, type Palette } from "./theme.ts";
import { bytes, cut, unit } from "./words.ts";

export interface Scene {
  payload: Pick<Payload, "names">;
  strip: Strip;
  /** In the window that is seen. */
  layout: Layout;
  bars: Bars;
  /** Of each lane, the stretches in which nothing was done: begin, end, begin, … */
  idle: Float64Array[];
  view: View;
  width: number;
  palette: Palette;
  font: string;
  mono: string;
  /** Spans that are selected, or null where nothing is. */
  chosen: Spans | null;
  /** The same, to be drawn. */
  marked: Bars | null;
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
const SAMPLE = 8;
/** What is selected, and what is not beside it. */
const FAINT = 0.28;

export function draw(canvas: HTMLCanvasElement, scene: Scene): void {
  const { layout, width, view, strip, bars, chosen, marked } = scene;
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
    const rows = (bars: Bars) => {
      for (const range of bars.rows) {
        const place = layout.rows[range.lane]![range.row]!;
        if (isSeen(scene, range.lane, place, pinned)) drawRow(to, scene, x, bars, place, range);
      }
    };
    to.globalAlpha = marked ? FAINT : 1;
    rows(bars);
    to.globalAlpha = 1;
    if (marked) rows(marked);
  };
  some(false);
  // What is scrolled goes under what is not.
  to.clearRect(0, pinned, width, height);
  some(true);
  if (chosen) drawArrows(to, scene, x, chosen, marked!);
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
  for (let at = above(gaps, view.from) & ~1; at < gaps.length && gaps[at]! < view.to; ) {
    const left = x(gaps[at]!);
    to.fillRect(left, top, x(gaps[at + 1]!) - left, height);
    // Of gaps that are less than a pixel, one is drawn in each.
    const next = view.from + ((Math.floor(left) + 1) / width) * (view.to - view.from);
    at = Math.max(at + 2, above(gaps, next, at + 1) & ~1);
  }
}

/** Draw what of a row is in view: what is shorter than a pixel together. */
function drawRow(
  to: CanvasRenderingContext2D, scene: Scene, x: Scale, bars: Bars, { top, height }: Row,
  { first, last }: Range,
): void {
  const { view, width, palette } = scene;
  const { spans, reach, busy } = bars;
  const { start_us, duration_us } = spans;
  const pixel = (view.to - view.from) / width;
  let [from, wide, tall, color] = [0, 0, 0, ""];
  // Pixels that look the same are one rectangle: thousands of them are slow.
  const column = (left: number, high: number, fill: string) => {
    if (left !== from + wide || high !== tall || fill !== color) {
      to.fillStyle = color;
      if (wide) to.fillRect(from, top + height - tall, wide, tall);
      [from, wide, tall, color] = [left, 0, high, fill];
    }
    wide++;
  };
  for (let i = above(reach, view.from, first, last); i < last && start_us[i]! < view.to; ) {
    const left = Math.floor(x(start_us[i]!));
    const edge = view.from + (left + 1) * pixel;
    let until = i + 1;
    if (until < last && start_us[until]! <= edge) {
      until = above(start_us, edge, until, last);
      // One that goes on behind all that is here is drawn by itself.
      until = above(reach, Math.max(edge + pixel, i > first ? reach[i - 1]! : 0), i, until);
    }
    if (until <= i + 1) {
      drawSpan(to, scene, x, spans, { top, height }, i++);
      continue;
    }
    // Each would be too much, where there are thousands in a pixel: some of them give its colour.
    let longest = i;
    for (let j = i; j < until; j += Math.ceil((until - i) / SAMPLE)) {
      if (duration_us[j]! > duration_us[longest]!) longest = j;
    }
    // What is selected is seen, however short it is.
    const share = bars === scene.marked ? 1 : Math.min((busy[until]! - busy[i]!) / pixel, 1);
    column(left, Math.max(Math.round(height * share), 2), palette[COLOR[kindOf(spans, longest)]]);
    i = until;
  }
  column(-1, 0, "");
}

/** Return left edge and width of a span on the canvas. */
function edges(
  { start_us, duration_us }: SpanColumns, x: Scale, width: number, span: number,
): [number, number] {
  const start = start_us[span]!;
  const left = Math.max(x(start), -1);
  const right = Math.min(x(start + duration_us[span]!), width + 1);
  // A span too short to be seen is still seen; a long one leaves a hair to its neighbour.
  return [left, right - left > 4 ? right - left - 0.7 : Math.max(right - left, 0.75)];
}

function drawSpan(
  to: CanvasRenderingContext2D, scene: Scene, x: Scale, spans: SpanColumns, row: Omit<Row, "lane">,
  span: number,
): void {
  const { palette } = scene;
  const [left, wide] = edges(spans, x, scene.width, span);
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

function outline(to: CanvasRenderingContext2D, scene: Scene, x: Scale, span: number): void {
  const [left, wide] = edges(scene.strip.spans, x, scene.width, span);
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

function drawArrows(
  to: CanvasRenderingContext2D, scene: Scene, x: Scale, chosen: Spans, { rows, reach }: Bars,
): void {
  const { strip: { spans, lanes }, view } = scene;
  let drawn = 0;
  to.beginPath();
  for (const { lane, first, last } of rows) {
    if (lanes[lane]!.kind !== "device") continue;
    for (let at = above(reach, view.from, first, last); at < last; at++) {
      const i = chosen[at]!;
      const launch = spans.launch[i]!;
      if (launch < 0) continue;
      const from = x(spans.start_us[launch]!);
      const until = x(spans.start_us[i]!);
      if (Math.max(from, until) < 0) continue;
      // What a stream does was launched in that order.
      if (Math.min(from, until) > scene.width) break;
      // So many would hide what they lead to.
      if (++drawn > MOST_ARROWS) return;
      const [over, below] = [rowOf(scene, launch), rowOf(scene, i)];
      const top = Math.min(over.top + over.height, scene.layout.pinned);
      const middle = (top + below.top) / 2;
      to.moveTo(from, top);
      to.bezierCurveTo(from, middle, until, middle, until, below.top);
    }
  }
  to.strokeStyle = scene.palette.fg;
  to.globalAlpha = 0.55;
  to.lineWidth = 1;
  to.stroke();
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

