// Two profiles: the tabs, their tables, and what a row of each selects in the runs.

import { known, type Comparison, type Numbers, type Payload, type SideTable } from "./payload.ts";
import { chosenSpans, namedSpans, NOTHING } from "./selection.ts";
import { isWork, type Spans } from "./spans.ts";
import type { Column, Order } from "./table.tsx";
import { largest, nameColumn, range, times, type Source } from "./tables.ts";
import { findingsOf } from "./tabs.ts";
import { count, cut, DASH, number, times as ratioOf, unit, type Unit } from "./words.ts";

export type Side = "a" | "b";
export type Tab = "findings" | "became" | "operators" | "kernels";

/** A row of a tab. */
export interface Chosen {
  tab: Tab;
  row: number;
}

export function tabsOf({ findings, became, operators, kernels }: Comparison) {
  const tabs: [Tab, string, number | null][] = [["findings", "Findings", findings.of]];
  tabs.push(["became", "Became", became.of]);
  tabs.push(["operators", "Operators", operators.of]);
  if (kernels.of) tabs.push(["kernels", "Kernels", kernels.of]);
  return tabs;
}

const LARGEST_FIRST: Order = { key: "delta", descending: true };

export function ordersOf(): Record<Tab, Order> {
  return {
    findings: LARGEST_FIRST, became: LARGEST_FIRST, operators: LARGEST_FIRST, kernels: LARGEST_FIRST,
  };
}

export function sourceOf(payload: Comparison, tab: Tab): Source {
  if (tab === "findings") return findingsOf(payload);
  return tab === "became" ? became(payload) : sides(payload, payload[tab], tab.slice(0, -1));
}

/** Return the height of what the tabs show, the same for all of them. */
export function heightOf({ operators, kernels, became, findings }: Comparison): number {
  const most = Math.max(
    operators.columns.name.length, kernels.columns.name.length, 3 * findings.rows.length,
    (became.columns?.times.length ?? 0) + BELOW_ROWS,
  );
  return 32 + Math.min(Math.max(most, 4), 10) * 26;
}

const BELOW_ROWS = 5;

/** Labels that head a column: whole where they are told about. */
const HEAD = 14;

function heads({ labels }: Comparison): [string, string] {
  return [cut(labels[0], HEAD), cut(labels[1], HEAD)];
}

/** Return the table of operators, or of kernels: figures of both, and how they differ. */
function sides(payload: Comparison, { sort, columns: c }: SideTable, word: string): Source {
  const { names, device, labels } = payload;
  const [a, b] = [c[`${sort}_a`] ?? null, c[`${sort}_b`] ?? null];
  const onCpu = sort === "self_cpu_us";
  const what = word === "kernel" ? `${device} time` : `self ${onCpu ? "CPU" : device} time`;
  const columns = [
    // Names are told apart by more than their ends: bars go before they are cut to those.
    { ...nameColumn("name", word, c.name, names), least: 236 },
    pair("calls", "calls", c.calls_a, c.calls_b, { name: "", size: 1, decimals: 2 }, labels, 1),
  ];
  if (!onCpu && c.self_cpu_us_a && c.self_cpu_us_b) {
    const fit = unit([...c.self_cpu_us_a, ...c.self_cpu_us_b]);
    columns.push(pair("self_cpu_us", "self CPU", c.self_cpu_us_a, c.self_cpu_us_b, fit, labels, 2));
  }
  columns.push(...both(payload, a, b, onCpu ? "cpu" : "device", what));
  columns.push(ratio(c, a, b, labels));
  return { columns, rows: range(c.name.length), filtered: (row) => [names[c.name[row]!]!, ended(c, row)] };
}

/** Return the table of what became of the kernels of A. */
function became(payload: Comparison): Source {
  const { names, labels, became: { columns: c } } = payload;
  if (!c) return { columns: [], rows: [], filtered: () => [] };
  const [a, b] = heads(payload);
  const columns: Column[] = [
    {
      key: "kernels_a",
      head: `kernels of ${a}`,
      name: true,
      about: `Kernels, copies and sets of ${labels[0]}, with the operators that launched them`,
      cell: (row) => before(payload, row),
      text: (row) => before(payload, row) ?? DASH,
      title: (row) => members(payload, row).join("\n") || `nothing of ${labels[0]}`,
    },
    {
      ...nameColumn("kernel_b", `kernel of ${b}`, c.kernel_b, names),
      title: (row) => names[c.kernel_b[row] ?? -1] ?? `nothing of ${labels[1]}`,
    },
    { key: "change", head: "change", cell: (row) => c.change[row]!, text: (row) => c.change[row]! },
    {
      key: "times",
      head: "times",
      about: "How often a run has it",
      cell: (row) => c.times[row]!,
      text: (row) => String(c.times[row]!),
      aside: 2,
    },
    // It is the names that need the room: no bars, and the difference before the times.
    ...both(payload, c.device_us_a, c.device_us_b, null, `${payload.device} time`).map(
      (column): Column => (column.key === "delta" ? column : { ...column, aside: 1 }),
    ),
  ];
  return {
    columns,
    rows: range(c.times.length),
    filtered: (row) => [
      c.change[row]!, ...members(payload, row), names[c.kernel_b[row] ?? -1] ?? "",
    ],
  };
}

/** Return what stands for the kernels of A in a row: the one, or the operators of several. */
export function before({ became: { columns }, names }: Comparison, row: number): string | null {
  const c = columns!;
  const [kernels, operators] = [c.kernels_a[row]!, c.operators_a[row]!];
  if (!kernels.length) return null;
  const short = (i: number | null) => (i === null ? null : names[i]!.replace(/^aten::/, ""));
  if (c.count[row] === 1) {
    const by = short(operators[0]!);
    return `${by === null ? "" : `${by} · `}${names[kernels[0]!]!}`;
  }
  return `${c.count[row]} kernels: ${operators.map((i) => short(i) ?? "?").join(", ")}`;
}

/** Return the kernels of A in a row, each with the operator that launched it. */
export function members(payload: Comparison, row: number): string[] {
  const { kernels_a, operators_a } = payload.became.columns!;
  const { names } = payload;
  return kernels_a[row]!.map((kernel, i) => {
    const by = operators_a[row]![i] ?? null;
    return `${by === null ? "" : `${names[by]!} · `}${names[kernel]!}`;
  });
}

/** Return the columns of a time of both, of one scale, and of their difference. */
function both(
  payload: Comparison, a: Numbers | null, b: Numbers | null, color: string | null, what: string,
): Column[] {
  const { labels } = payload;
  const [first, second] = heads(payload);
  const all = [...(a ?? []), ...(b ?? [])];
  const column = times(1, all, largest([all], 1));
  const fit = unit(all);
  const by = (row: number) => (a?.[row] == null || b?.[row] == null ? null : b[row]! - a[row]!);
  const delta: Column = {
    key: "delta",
    head: "difference",
    unit: fit.name,
    about: `${labels[1]} less ${labels[0]}; sorted by size, whichever way it goes`,
    cell: by,
    // What grew and what shrank are of one interest.
    order: (row) => {
      const value = by(row);
      return value === null ? null : Math.abs(value);
    },
    text: (row) => signed(by(row), fit),
    title: (row) => (by(row) === null ? "not measured" : `${by(row)!.toFixed(3)} µs`),
  };
  return [
    column("time_a", first, a ?? [], color, `Of ${labels[0]} per run: ${what}`),
    column("time_b", second, b ?? [], color, `Of ${labels[1]} per run: ${what}`),
    delta,
  ];
}

/** Return a difference with its sign. */
export function signed(value: number | null, fit: Unit): string {
  const told = number(value, fit).replace("-", "\u2212");
  if (value === null || value <= 0) return told;
  return told.startsWith("<") ? `<+${told.slice(1)}` : `+${told}`;
}

/** Return a column of two figures, for what is beside the times. */
function pair(
  key: string, head: string, a: Numbers | null, b: Numbers | null, fit: Unit, labels: string[], aside: 1 | 2,
): Column {
  const put = (value: number | null) =>
    value === null ? DASH : fit.name ? number(value, fit) : count(value);
  const text = (row: number) => {
    const [one, other] = [put(a?.[row] ?? null), put(b?.[row] ?? null)];
    return one === other ? one : `${one} \u2192 ${other}`;
  };
  return {
    key,
    head,
    unit: fit.name || undefined,
    about: `${head} per run: ${labels[0]} \u2192 ${labels[1]}; sorted by the larger one`,
    cell: (row) => Math.max(a?.[row] ?? 0, b?.[row] ?? 0),
    text,
    aside,
  };
}

function ended(c: SideTable["columns"], row: number): string {
  const [a, b] = [c.calls_a?.[row] ?? null, c.calls_b?.[row] ?? null];
  // Of what was not measured it is not known.
  if (a === null || b === null) return "";
  return !a ? "new" : b ? "" : "gone";
}

/** Return the column of B over A, in words where one of them has none. */
function ratio(
  c: SideTable["columns"], a: Numbers | null, b: Numbers | null, labels: string[],
): Column {
  const cell = (row: number) => {
    const word = ended(c, row);
    if (word) return word === "new" ? Infinity : -1;
    return a?.[row] && b?.[row] != null ? b[row]! / a[row]! : null;
  };
  return {
    key: "ratio",
    head: "ratio",
    about: `${labels[1]} over ${labels[0]}`,
    cell,
    text: (row) => {
      const value = cell(row);
      return ended(c, row) || (value === null ? DASH : `${ratioOf(value)}\u00d7`);
    },
  };
}

/** Return the spans in the run of a side that a row means, or null where it means none. */
export function spansOf(payload: Comparison, side: Side, chosen: Chosen | null): Spans | null {
  if (!chosen || chosen.tab === "findings") return null;
  const of: Payload = payload[side];
  const { tab, row } = chosen;
  if (tab === "operators") {
    return chosenSpans(of, { ...NOTHING, operator: payload.operators.columns.name[row]! });
  }
  if (tab === "kernels") return namedSpans(of, [payload.kernels.columns.name[row]!]);
  const { kernels_a, kernel_b } = payload.became.columns!;
  const made = kernel_b[row] ?? null;
  return namedSpans(of, side === "a" ? kernels_a[row]! : made === null ? [] : [made]);
}

/** Return the row that a span in the run of a side stands for, or null. */
export function chosenBy(payload: Comparison, side: Side, span: number): Chosen | null {
  const of = payload[side];
  const name = span < 0 ? null : known(of.strip!.spans.name, span);
  if (name === null) return null;
  const tab = isWork(of.strip!, span) ? "kernels" : "operators";
  const row = payload[tab].columns.name.indexOf(name);
  return row < 0 ? null : { tab, row };
}
