// Where lanes and rows stand, and what part of a run is in view.

import type { Strip } from "./payload.ts";

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
  /** Of each curve of memory. */
  memory: { label: number; top: number; height: number }[];
  /** From where on lanes stay in sight, however far the others are scrolled. */
  pinned: number;
  /** Null where no times are written below. */
  axis: number | null;
  height: number;
}

const LABEL = 15;
const ROW = { code: 12, cpu: 12, device: 16 };
const MEMORY = 34;
const GAP = 2;
const AXIS = 18;

/** Return where lanes and rows stand, in pixels from the top. */
export function layout(strip: Strip, axis = true): Layout {
  let y = 0;
  let pinned = Infinity;
  const lanes: Layout["lanes"] = [];
  const rows = strip.lanes.map((lane, at) => {
    if (lane.kind === "device") pinned = Math.min(pinned, y);
    const label = y + LABEL - 4;
    y += lane.label ? LABEL : GAP;
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
  pinned = Math.min(pinned, y);
  const memory = (strip.memory ?? []).map(() => {
    const place = { label: y + LABEL - 4, top: y + LABEL, height: MEMORY };
    y += LABEL + MEMORY + GAP;
    return place;
  });
  return { lanes, rows, memory, pinned, axis: axis ? y : null, height: y + (axis ? AXIS : 0) };
}

/** Tell whether a lane stays in sight, in a window where some lanes do. */
export function isPinned({ pinned }: Layout, { lanes }: Strip, lane: number): boolean {
  return pinned < Infinity && lanes[lane]!.kind === "device";
}

/** Part of what is seen that may be pinned. */
const MOST_PINNED = 0.7;

/** Return where all stands in a window of some height that is scrolled by `top`: devices, memory and
 * times at its end, if they are not nearly all of it. */
export function seenIn(layout: Layout, height: number, top: number): Layout {
  const beyond = layout.height - height;
  const pin = beyond > 0 && layout.height - layout.pinned < MOST_PINNED * height;
  const moved = <T extends { top: number; label?: number }>(one: T): T => {
    const by = pin && one.top >= layout.pinned ? beyond : top;
    return { ...one, top: one.top - by, ...(one.label !== undefined && { label: one.label - by }) };
  };
  return {
    lanes: layout.lanes.map(moved),
    rows: layout.rows.map((rows) => rows.map(moved)),
    memory: layout.memory.map(moved),
    pinned: pin ? layout.pinned - beyond : Infinity,
    axis: layout.axis === null ? null : layout.axis - (pin ? beyond : top),
    height,
  };
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
