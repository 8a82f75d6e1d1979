// A run as the kernel sends it: `views/timeline.py` writes it.

import type { Memory, Strip, TableData } from "./payload.ts";

const ARRAYS = {
  f8: Float64Array, i4: Int32Array, u4: Uint32Array, u1: Uint8Array,
};

/** Return a run from its bytes. Its names become indices into `names`, which gets the new ones. */
export function decoded(bytes: Uint8Array, names: string[]): Strip {
  const buffer = bytes.buffer as ArrayBuffer;
  const length = new DataView(buffer, bytes.byteOffset).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const columns: Record<string, any> = {};
  let at = 4 + length;
  for (const [key, type, n] of head.columns as [string, keyof typeof ARRAYS, number][]) {
    columns[key] = new ARRAYS[type](buffer, bytes.byteOffset + at, n);
    at += Math.ceil(columns[key].byteLength / 8) * 8;
  }
  const place = adopted(head.names, names);
  const placed = (own: Int32Array) => own.map((code) => (code < 0 ? -1 : place[code]!));
  const n = columns.start_us.length;
  const [lane, row] = [new Uint16Array(n), new Uint16Array(n)];
  let from = 0;
  for (const [l, r, count] of head.parts as [number, number, number][]) {
    lane.fill(l, from, from + count);
    row.fill(r, from, from += count);
  }
  const { run, of, wall_us, resolution_us, lanes } = head;
  const memory: Memory[] = head.memory.map((label: string, i: number) => (
    { label, time_us: columns[`memory${i}_us`], bytes: columns[`memory${i}_bytes`] }
  ));
  return {
    run, of, wall_us, resolution_us, lanes, memory,
    spans: {
      ...(columns as Strip["spans"]),
      count: columns.count ?? null, busy_us: columns.busy_us ?? null,
      lane, row, name: placed(columns.name), operator: placed(columns.operator),
    },
  };
}

/** Return what index each of some names has in others, to which the new ones are added. */
function adopted(own: string[], names: string[]): number[] {
  const index = new Map(names.map((name, i) => [name, i]));
  return own.map((name) => index.get(name) ?? names.push(name) - 1);
}

/** Return a table as it came from the kernel, with names as `names` has them. */
export function received(answer: { table: TableData; names: string[] }, names: string[]): TableData {
  const place = adopted(answer.names, names);
  const { heads, columns } = answer.table;
  const found: Record<string, any> = { ...columns };
  for (const { key, kind } of heads) {
    if (kind === "name" || kind === "text") {
      found[key] = found[key].map((code: number | null) => (code === null ? null : place[code]));
    }
  }
  return { ...answer.table, columns: found };
}
