// The call tree: in which order its rows stand, which are open, and its picture as a flame graph.

import { KINDS, type Payload, type Strip, type TreeColumns } from "./payload.ts";
import { sorted, type Cell } from "./rows.ts";

export type Measure = "cpu_us" | "device_us";

/** Part of all time from which on a node is open at first. */
const LARGE = 0.1;

/** Return for each node how many are around it. */
export function depthsOf({ parent }: TreeColumns): number[] {
  const found: number[] = [];
  parent.forEach((up, i) => (found[i] = up < 0 ? 0 : found[up]! + 1));
  return found;
}

/** Return the nodes that are in each one, those without any around them last. */
export function childrenOf({ parent }: TreeColumns): number[][] {
  const found: number[][] = parent.map(() => []);
  const roots: number[] = [];
  parent.forEach((up, i) => (found[up] ?? roots).push(i));
  return [...found, roots];
}

/** Return the nodes that are to be open at first: those on the way to where the time is. */
export function opened(c: TreeColumns): Set<number> {
  const values = c.device_us ?? c.cpu_us;
  const all = sum(c, values);
  return new Set(c.parent.flatMap((_, i) => ((values[i] ?? 0) > LARGE * all ? [i] : [])));
}

/** Return what the nodes without any around them sum up to. */
export function sum({ parent }: TreeColumns, values: (number | null)[]): number {
  return values.reduce((all: number, value, i) => all + (parent[i]! < 0 ? (value ?? 0) : 0), 0);
}

/** Return the nodes in the order of a walk, siblings sorted; without those in nodes that are
 * closed. Of a filter's rows also what is around them, all of it open. */
export function walk(
  c: TreeColumns, rows: number[], open: Set<number>, cell: (row: number) => Cell,
  descending: boolean,
): number[] {
  const children = childrenOf(c);
  let wanted: Set<number> | null = null;
  if (rows.length < c.parent.length) {
    wanted = new Set();
    for (let row of rows) {
      for (; row >= 0 && !wanted.has(row); row = c.parent[row]!) wanted.add(row);
    }
  }
  const found: number[] = [];
  const add = (rows: number[]) => {
    for (const row of sorted(rows, cell, descending)) {
      if (wanted && !wanted.has(row)) continue;
      found.push(row);
      if (wanted || open.has(row)) add(children[row]!);
    }
  };
  add(children.at(-1)!);
  return found;
}

const OPERATOR = KINDS.indexOf("operator");
const KERNEL = KINDS.indexOf("kernel");

/** Return the tree as a chart: each node as wide as its time, in what it is in; and the node of
 * each span. The largest stands first. */
export function flame(payload: Payload, measure: Measure, runs: number): [Strip, number[]] {
  const c = payload.tree!.columns;
  const values = (c[measure] ?? []).map((value) => (value ?? 0) / runs);
  const depth = depthsOf(c);
  const start: number[] = [];
  const children = childrenOf(c);
  const place = (rows: number[], from: number) => {
    for (const row of sorted(rows, (i) => values[i]!, true)) {
      start[row] = from;
      place(children[row]!, from);
      from += values[row]!;
    }
  };
  place(children.at(-1)!, 0);
  const order = depth.map((_, i) => i).filter((i) => values[i]! > 0);
  order.sort((a, b) => depth[a]! - depth[b]! || start[a]! - start[b]!);
  const none = order.map(() => -1);
  const kind = measure === "cpu_us" ? OPERATOR : KERNEL;
  return [{
    run: 1,
    of: 1,
    wall_us: sum(c, values),
    resolution_us: 0,
    lanes: [{
      kind: "code", label: "", rows: Math.max(...order.map((i) => depth[i]! + 1), 1), streams: null,
    }],
    spans: {
      lane: order.map(() => 0),
      row: order.map((i) => depth[i]!),
      kind: order.map((i) => kind + (measure === "cpu_us" && depth[i]! % 2 ? 1 : 0)),
      start_us: order.map((i) => start[i]!),
      duration_us: order.map((i) => values[i]!),
      count: null, busy_us: null, operator: none, launch: none, line: null,
      name: order.map((i) => c.name[i]!),
    },
  }, order];
}
