// The columns of the tables, as the payload tells them.

import type { Head, Numbers, Payload, TableData } from "./payload.ts";
import type { Column } from "./table.tsx";
import { bytesUnit, count, DASH, number, percent, unit } from "./words.ts";

/** The rows of a table that a filter keeps, with the text that it looks at. */
export interface Source {
  columns: Column[];
  rows: number[];
  filtered: (row: number) => string[];
}

/** Return a table; sums divided by `runs`. */
export function source({ heads, columns: c }: TableData, names: string[], runs: number): Source {
  const words = heads.filter(({ kind }) => kind === "name");
  const columns = heads.map((head) => column(head, c as Record<string, any>, names, runs));
  const named = words.map(({ key }) => columns[heads.findIndex((head) => head.key === key)]!);
  return {
    columns,
    rows: range(Object.values(c as Record<string, any>).find(Boolean).length),
    filtered: (row) => named.flatMap(({ cell }) => (cell(row) === null ? [] : String(cell(row)))),
  };
}

/** Return the table of the lines of code, in their order, with what was found on them. */
export function lines({ lines, findings, names }: Payload, runs: number): Source {
  const c = lines!.columns;
  const found = source(lines!, names, runs);
  const file = (row: number) => names[c.file?.[row] ?? -1];
  Object.assign(found.columns[0]!, {
    key: "line",
    prefix: (row) => String(c.line[row]),
    cell: (row) => row,
    title: (row) => [
      file(row), c.function?.[row] == null ? "" : `in ${names[c.function[row]!]}`, c.source[row],
    ].filter(Boolean).join("\n"),
    badge: (row) => {
      const [label, short] = [c.label[row], c.short?.[row]];
      if (!label) return short ? { text: short, tone: null } : null;
      return { text: label, tone: findings.rows[c.finding[row]!]?.tone ?? null, found: true };
    },
  } satisfies Partial<Column>);
  found.filtered = (row) => [file(row) ?? "", c.source[row]!, c.label[row] ?? ""];
  return found;
}

function column(
  head: Head, columns: Record<string, any>, names: string[], runs: number,
): Column {
  const { key, kind, whole } = head;
  const values: any[] = columns[key];
  const by = head.each ? 1 : runs;
  const known = (row: number): number | null => values[row] ?? null;
  const shown = (row: number) => (values[row] == null ? null : values[row] / by);
  const { head: text, about, aside, least } = head;
  const shape = { key, head: text, about, aside, least, cell: shown as Column["cell"] };
  // Names are indices, source texts are not.
  const word = (row: number) => names[values[row]] ?? (values[row] as string | null) ?? null;
  if (kind === "name" || kind === "text") {
    // By their numbers, where all have one at their end: 2 before 10.
    const order = (row: number) => Number(/\d+$/.exec(word(row) ?? "")?.[0] ?? NaN);
    const numbered = kind === "text" && !values.some((_, row) => Number.isNaN(order(row)));
    return {
      ...shape, name: kind === "name", cell: numbered ? order : word,
      text: (row) => word(row) ?? DASH,
    };
  }
  if (kind === "count") {
    return { ...shape, cell: known, text: (row) => (known(row) === null ? DASH : count(shown(row)!)) };
  }
  if (kind === "number") {
    const text = (row: number) => known(row)?.toFixed(0) ?? DASH;
    return { ...shape, unit: head.unit, cell: known, text };
  }
  if (kind === "share") {
    const part = (row: number) => (whole && known(row) !== null ? known(row)! / whole : null);
    return { ...shape, key: `${key}_share`, cell: part, text: (row) => percent(part(row)) };
  }
  if (kind === "spread") {
    const text = (row: number) => ((known(row) ?? 0) >= 10 ? ">999" : percent(known(row)));
    return { ...shape, cell: known, text };
  }
  if (kind === "bytes") {
    const fit = bytesUnit(values.map((_, row) => shown(row)));
    return { ...shape, unit: fit.name, text: (row) => number(shown(row), fit) };
  }
  const of = (keys: string[]) => largest(keys.map((one) => columns[one]), by);
  const fit = head.unit ?? key;
  const time = times(by, columns[fit], of(head.scale ?? [fit]));
  return { ...time(key, text, values, head.color ?? null, about!), aside };
}

export function range(length: number): number[] {
  return Array.from({ length }, (_, i) => i);
}

export function nameColumn(key: string, head: string, values: Numbers, names: string[]): Column {
  const text = (row: number) => (values[row] == null ? null : names[values[row]!]!);
  return { key, head, name: true, cell: text, text: (row) => text(row) ?? DASH };
}

export function largest(columns: Numbers[], runs: number): number {
  return columns.flat().reduce<number>((max, us) => Math.max(max, us ?? 0), 0) / runs;
}

/** Return what makes columns of times that share a unit, that of the largest, and a scale of bars. */
export function times(runs: number, all: Numbers, scale?: number) {
  const fit = unit([largest([all], runs)]);
  const most = scale ?? largest([all], runs);
  return (
    key: string, head: string, values: Numbers, color: string | null, about: string,
  ): Column => {
    const shown = (row: number) => (values[row] == null ? null : values[row]! / runs);
    const column: Column = {
      key,
      head,
      unit: fit.name,
      about,
      cell: shown,
      text: (row) => number(shown(row), fit),
      title: (row) => (shown(row) === null ? "not measured" : `${shown(row)!.toFixed(3)} µs`),
    };
    if (color && most) column.bar = { color, share: (row) => (shown(row) ?? 0) / most };
    return column;
  };
}
