// The spans of a run: which stand in a row, in what, and what led to them.

import { KINDS, type Kind, type SpanColumns, type Strip } from "./payload.ts";

/** Spans, by their numbers in rising order. */
export type Spans = Int32Array;

export const CALL = KINDS.indexOf("call");
export const WAIT = KINDS.indexOf("wait");
export const KERNEL = KINDS.indexOf("kernel");

/** Return which kinds of spans there are. */
export function kindsOf({ spans: { kind } }: Strip): Set<Kind> {
  const found = new Set<number>();
  for (let i = 0; i < kind.length; i++) found.add(kind[i]!);
  return new Set(Array.from(found, (i) => KINDS[i]!));
}

export function kindOf(spans: SpanColumns, span: number): Kind {
  return KINDS[spans.kind[span]!]!;
}

/** Tell whether a span is work of a device. */
export function isWork({ spans }: Strip, span: number): boolean {
  return spans.kind[span]! >= KERNEL;
}

/** The spans of one row, from `first` to before `last`. */
export interface Range {
  lane: number;
  row: number;
  first: number;
  last: number;
}

/** Return the rows that have spans, in their order. */
export function ranges({ spans: { lane, row } }: Pick<Strip, "spans">): Range[] {
  const found: Range[] = [];
  for (let i = 0; i < lane.length; i++) {
    const now = found.at(-1);
    if (now?.lane === lane[i] && now?.row === row[i]) now!.last = i + 1;
    else found.push({ lane: lane[i]!, row: row[i]!, first: i, last: i + 1 });
  }
  return found;
}

/** Spans with what makes it quick to draw some of them. */
export interface Bars {
  spans: SpanColumns;
  rows: Range[];
  /** Of each span, when it and all before it in its row have ended. */
  reach: Float64Array;
  /** Of each span, how long all before it were busy; one more for the end. */
  busy: Float64Array;
}

export function barsOf(spans: SpanColumns): Bars {
  const { start_us, duration_us, busy_us } = spans;
  const rows = ranges({ spans });
  const reach = new Float64Array(start_us.length);
  const busy = new Float64Array(start_us.length + 1);
  for (const { first, last } of rows) {
    let most = 0;
    for (let i = first; i < last; i++) {
      reach[i] = most = Math.max(most, start_us[i]! + duration_us[i]!);
      busy[i + 1] = busy[i]! + (busy_us ?? duration_us)[i]!;
    }
  }
  return { spans, rows, reach, busy };
}

/** Return some of the spans, by what is drawn of them. */
export function only(spans: SpanColumns, chosen: Spans): SpanColumns {
  const found: Record<string, unknown> = { ...spans };
  for (const key of ["lane", "row", "kind", "start_us", "duration_us", "busy_us", "name"] as const) {
    const column = spans[key];
    if (!column) continue;
    const own = found[key] = new Float64Array(chosen.length);
    for (let i = 0; i < own.length; i++) own[i] = column[chosen[i]!] ?? -1;
  }
  return found as unknown as SpanColumns;
}

/** Return the first of the places from `first` to before `last` where rising values are above
 * `value`, or `last`. */
export function above(
  values: ArrayLike<number>, value: number, first = 0, last = values.length,
): number {
  // What is wanted is mostly near the first, and memory that is far away is slow.
  let step = 1;
  for (; first + step < last && values[first + step]! <= value; step *= 2) first += step;
  last = Math.min(last, first + step);
  while (first < last) {
    const middle = (first + last) >> 1;
    if (values[middle]! > value) last = middle;
    else first = middle + 1;
  }
  return first;
}

const PARENTS = new WeakMap<SpanColumns, Int32Array>();

/** Return the span around each one: the nearest above it in its lane, or -1. */
export function parents(strip: Strip): Int32Array {
  const found = PARENTS.get(strip.spans) ?? parentsOf(strip);
  PARENTS.set(strip.spans, found);
  return found;
}

function parentsOf(strip: Strip): Int32Array {
  const { start_us, duration_us } = strip.spans;
  const found = new Int32Array(start_us.length).fill(-1);
  const rows = ranges(strip).filter(({ lane }) => strip.lanes[lane]!.kind !== "device");
  rows.forEach((own, at) => {
    for (let up = at - 1; rows[up]?.lane === own.lane; up--) {
      let place = rows[up]!.first;
      for (let i = own.first; i < own.last; i++) {
        if (found[i]! >= 0) continue;
        // A part of what is above it may be cut away by rounding.
        const end = start_us[i]! + duration_us[i]! - 1e-6;
        while (place < rows[up]!.last - 1 && start_us[place + 1]! <= start_us[i]! + 1e-6) place++;
        if (start_us[place]! <= start_us[i]! + 1e-6 && start_us[place]! + duration_us[place]! >= end) {
          found[i] = place;
        }
      }
    }
  });
  return found;
}

/** Return what led to a span, the outermost first: lines and modules, calls, launch, and itself.
 *
 * What is part of a backward pass has the lines and modules of its forward operator. */
export function chain(strip: Strip, up: Int32Array, span: number): number[] {
  const { spans, lanes } = strip;
  const found: number[] = [];
  const climb = (at: number) => {
    for (; at >= 0; at = isWork(strip, at) ? spans.launch[at]! : up[at]!) found.unshift(at);
  };
  climb(span);
  const ahead = spans.forward?.[span] ?? -1;
  if (ahead >= 0) found.unshift(ahead);
  // The code was in them when this was called.
  const time = spans.start_us[found.find((at) => !isWork(strip, at)) ?? span]!;
  const around: number[] = [];
  if (kindOf(spans, span) === "line" || kindOf(spans, span) === "module") return found;
  for (const { lane, first, last } of ranges(strip)) {
    if (lanes[lane]!.kind !== "code") continue;
    const at = above(spans.start_us, time, first, last) - 1;
    if (at >= first && spans.start_us[at]! + spans.duration_us[at]! > time) around.push(at);
  }
  return [...around, ...found];
}

/** Return those of `n` spans that pass a test. */
export function those(n: number, test: (span: number) => unknown): Spans {
  const found = new Int32Array(n);
  let many = 0;
  for (let i = 0; i < n; i++) if (test(i)) found[many++] = i;
  return found.slice(0, many);
}

/** Return the spans with some of the names. */
export function withNames({ spans: { name } }: Strip, wanted: number[]): Spans {
  const some: boolean[] = [];
  for (const one of wanted) some[one] = true;
  return those(name.length, (i) => some[name[i] ?? -1]);
}

/** Return some spans with what is inside of one, and the device work that this launched. */
export function within(strip: Strip, up: Int32Array, span: number, others: number[]): Spans {
  const { launch } = strip.spans;
  const inside = new Uint8Array(up.length);
  inside[span] = 1;
  for (let i = 0; i < up.length; i++) {
    // What is around it, or launched it, stands in a row above, and so comes first.
    inside[i] ||= inside[isWork(strip, i) ? launch[i]! : up[i]!] ?? 0;
  }
  for (const one of others) inside[one] = 1;
  return those(up.length, (i) => inside[i]);
}

/** Return the span nearest to a time in a row, at most `slack` microseconds away, or -1. */
export function spanAt(
  { spans: { start_us, duration_us }, reach }: Bars,
  { first, last }: Range,
  time: number,
  slack: number,
): number {
  let best = -1;
  let least = slack;
  const from = above(reach, time - slack, first, last);
  // Of those that touch, the later one is in front.
  for (let i = Math.max(from - 1, first); i < last && start_us[i]! - time <= least; i++) {
    const away = Math.max(start_us[i]! - time, time - start_us[i]! - duration_us[i]!, 0);
    if (away < least || (away === 0 && least === 0)) [best, least] = [i, away];
  }
  return best;
}

/** Return the stretches of a run in which no one span of a device's lane stands: begin, end, begin, …
 *
 * Under spans of several events too: what these leave open is idle as well. */
export function idle({ spans, lanes, wall_us }: Strip, lane: number): Float64Array {
  const { lane: of, start_us, duration_us, count } = spans;
  const gaps: number[] = [];
  if (lanes[lane]!.kind === "device") {
    const mine = those(of.length, (i) => of[i] === lane && (count?.[i] ?? 1) === 1);
    // Nothing is there where as many have ended as have begun.
    const starts = Float64Array.from(mine, (i) => start_us[i]!).sort();
    const ends = Float64Array.from(mine, (i) => start_us[i]! + duration_us[i]!).sort();
    for (let i = 0; i <= starts.length; i++) {
      const [from, to] = [ends[i - 1] ?? 0, starts[i] ?? wall_us];
      if (to > from) gaps.push(from, to);
    }
  }
  return Float64Array.from(gaps);
}
