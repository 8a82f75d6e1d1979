// The strip as numbers: where a span stands, what is idle, what lies under the pointer.

import { KINDS, type Kind, type SpanColumns, type Strip } from "./payload.ts";

export interface View {
  /** Microseconds from the run's start. */
  from: number;
  to: number;
}

export interface Row {
  lane: number;
  top: number;
  height: number;
}

export interface Layout {
  /** Of each lane: its label's baseline, its top and its height. */
  lanes: { label: number; top: number; height: number }[];
  rows: Row[][];
  /** Null where no times are written below. */
  axis: number | null;
  height: number;
}

const LABEL = 15;
const ROW = { cpu: 12, device: 16 };
const GAP = 2;
const AXIS = 18;

/** Return where lanes and rows stand, in pixels from the top. */
export function layout(strip: Strip, axis = true): Layout {
  let y = 0;
  const lanes: Layout["lanes"] = [];
  const rows = strip.lanes.map((lane, at) => {
    const label = y + LABEL - 4;
    y += LABEL;
    const top = y;
    const height = ROW[lane.kind];
    const own = Array.from({ length: lane.rows }, () => {
      const row = { lane: at, top: y, height };
      y += height + GAP;
      return row;
    });
    lanes.push({ label, top, height: y - GAP - top });
    y += GAP;
    return own;
  });
  return { lanes, rows, axis: axis ? y : null, height: y + (axis ? AXIS : 0) };
}

export function kindOf(spans: SpanColumns, span: number): Kind {
  return KINDS[spans.kind[span]!]!;
}

/** Return the stretches of a run in which no one span of the lane stands, as pairs of times.
 *
 * Under spans of several events too: what these leave open is idle as well. */
export function idle(strip: Strip, lane: number): [number, number][] {
  const { lane: lanes, start_us, duration_us, count } = strip.spans;
  const mine: number[] = [];
  for (let i = 0; i < lanes.length; i++) {
    if (lanes[i] === lane && (count?.[i] ?? 1) === 1) mine.push(i);
  }
  mine.sort((a, b) => start_us[a]! - start_us[b]!);
  const gaps: [number, number][] = [];
  let end = 0;
  for (const i of mine) {
    if (start_us[i]! > end) gaps.push([end, start_us[i]!]);
    end = Math.max(end, start_us[i]! + duration_us[i]!);
  }
  if (end < strip.wall_us) gaps.push([end, strip.wall_us]);
  return gaps;
}

/** Return the span nearest to a time in one row, at most `slack` microseconds away, or -1. */
export function spanAt(
  spans: SpanColumns,
  lane: number,
  row: number,
  time: number,
  slack: number,
): number {
  let best = -1;
  let least = slack;
  for (let i = 0; i < spans.start_us.length; i++) {
    if (spans.lane[i] !== lane || spans.row[i] !== row) continue;
    const start = spans.start_us[i]!;
    const away = Math.max(start - time, time - start - spans.duration_us[i]!, 0);
    if (away < least || (away === 0 && least === 0)) [best, least] = [i, away];
  }
  return best;
}

/** Return a view zoomed by a factor around a time, kept within the run. */
export function zoomed(view: View, wall: number, factor: number, around: number): View {
  if (!(wall > 0)) return view;
  const least = Math.min(wall, Math.max(wall / 1e5, 0.01));
  const width = Math.min(Math.max((view.to - view.from) * factor, least), wall);
  const share = (around - view.from) / (view.to - view.from);
  return kept({ from: around - share * width, to: around + (1 - share) * width }, wall);
}

/** Tell whether a view is of all there is to see. */
export function isWhole(view: View, wall: number): boolean {
  return view.from <= 0 && view.to >= wall;
}

/** Return a view moved by some microseconds, kept within the run. */
export function panned(view: View, wall: number, by: number): View {
  return kept({ from: view.from + by, to: view.to + by }, wall);
}

function kept({ from, to }: View, wall: number): View {
  const width = Math.min(to - from, wall);
  // As many steps in as out end at the whole again.
  if (width > wall * (1 - 1e-9)) return { from: 0, to: wall };
  const start = Math.min(Math.max(from, 0), wall - width);
  return { from: start, to: start + width };
}

/** Return the times of the axis: round, and at least `apart` pixels from each other. */
export function ticks(view: View, width: number, apart: number): number[] {
  const raw = ((view.to - view.from) * apart) / Math.max(width, 1);
  if (!(raw > 0)) return [];
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = size * ([1, 2, 5, 10].find((m) => m * size >= raw) ?? 10);
  const found: number[] = [];
  for (let n = Math.ceil(view.from / step); n * step <= view.to && found.length < 100; n++) {
    found.push(n * step);
  }
  return found;
}
