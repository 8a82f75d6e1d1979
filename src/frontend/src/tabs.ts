// The tabs: which there are, what opens first, and what a row of each selects.

import type { Numbers, Payload } from "./payload.ts";
import { findingAt, kernelAt, lineAt, NOTHING, type Selection } from "./selection.ts";
import type { Order } from "./table.tsx";
import { lines, range, source, type Source } from "./tables.ts";

export const TABLES = {
  lines: "Lines",
  operators: "Operators",
  kernels: "Kernels",
  modules: "Modules",
  tree: "Call tree",
} as const;
export type TableTab = keyof typeof TABLES;
export type Tab = TableTab | "timeline" | "findings";

/** Return the tabs with how many rows there are, if that says something. The first opens. */
export function tabsOf(payload: Payload): [Tab, string, number | null][] {
  const tabs: [Tab, string, number | null][] = [];
  const { lines, operators, kernels, modules, findings } = payload;
  if (lines) tabs.push(["lines", TABLES.lines, null]);
  if (operators.of || !kernels.of) tabs.push(["operators", TABLES.operators, operators.of]);
  if (kernels.of) tabs.push(["kernels", TABLES.kernels, kernels.of]);
  if (modules) tabs.push(["modules", TABLES.modules, modules.of]);
  if (payload.tree) tabs.push(["tree", TABLES.tree, null]);
  if (payload.strip?.lanes.length) tabs.push(["timeline", "Timeline", null]);
  tabs.push(["findings", "Findings", findings.of]);
  return tabs;
}

export function ordersOf({ operators, kernels, lines, modules, tree }: Payload): Record<TableTab, Order> {
  return {
    lines: { key: lines?.sort ?? "line", descending: !!lines && lines.sort !== "line" },
    operators: { key: operators.sort, descending: operators.sort !== "name" },
    kernels: { key: kernels.sort, descending: true },
    modules: { key: modules?.sort ?? "cpu_us", descending: true },
    tree: { key: tree?.sort ?? "cpu_us", descending: true },
  };
}

/** Return the column of a table that is in sight however little room there is. */
export function mainOf(payload: Payload, tab: TableTab): string {
  const { sort } = payload[tab]!;
  return sort === "line" ? (payload.lines!.columns.device_us ? "device_us" : "cpu_us") : sort;
}

/** Return a table of the payload; sums divided by `runs`. */
export function tableOf(payload: Payload, tab: TableTab, runs: number): Source {
  return tab === "lines" ? lines(payload, runs) : source(payload[tab]!, payload.names, runs);
}

/** Return the findings as what can be filtered. */
export function findingsOf({ findings }: Pick<Payload, "findings">): Source {
  return {
    columns: [],
    rows: findings.rows.map((_, i) => i),
    filtered: (row) => {
      const { title, where, evidence, advice, kind } = findings.rows[row]!;
      return [title, where, evidence, advice, kind];
    },
  };
}

/** Return the names of all that is in the chart of a run. */
export function namesOf({ names }: Payload): Source {
  return { columns: [], rows: range(names.length), filtered: (row) => [names[row]!] };
}

const ROW_OF = {
  lines: "line", kernels: "kernel", modules: "module", findings: "finding",
} as const;

/** Return the row that is selected in a tab, or -1. */
export function chosenRow(payload: Payload, tab: Tab, selection: Selection): number {
  const { operator } = selection;
  if (tab === "timeline") return -1;
  if (tab === "operators") {
    return operator === null ? -1 : payload.operators.columns.name.indexOf(operator);
  }
  if (tab === "tree") {
    // Of nodes of one name, the one that was selected, else that with most time, which is first.
    return selection.node ?? (operator === null ? -1 : payload.tree!.columns.name.indexOf(operator));
  }
  return selection[ROW_OF[tab]] ?? -1;
}

export function selectedBy(payload: Payload, tab: Tab, row: number): Selection {
  if (tab === "lines") return lineAt(payload, row);
  if (tab === "findings") return findingAt(payload, row);
  if (tab === "kernels") return kernelAt(payload, row);
  if (tab === "modules") return { ...NOTHING, module: row };
  if (tab === "tree") return { ...NOTHING, node: row, operator: payload.tree!.columns.name[row]! };
  return { ...NOTHING, operator: payload.operators.columns.name[row]! };
}

/** Return the height of what the tabs show, the same for all of them. */
export function heightOf(payload: Payload): number {
  const { lines, operators, kernels, modules, findings } = payload;
  const most = Math.max(
    operators.columns.name.length, kernels.columns.name.length,
    lines?.columns.line.length ?? 0, modules?.columns.module.length ?? 0,
    3 * findings.rows.length, hasBrief(payload) ? 7 : 3,
  );
  return 32 + Math.min(most, 10) * 26;
}

/** Tell whether a finding is about one of the lines that are shown. */
export function hasBrief({ lines, findings }: Payload): boolean {
  return !!lines && firstOf(lines.columns.finding, findings.rows.length) !== null;
}

/** Return the finding on the line that is selected, or, if none is, on the line with the most to
 * gain; null where there is none, or no room for it was in the payload. */
export function briefed({ lines, findings }: Payload, line: number | null): number | null {
  const { finding } = lines!.columns;
  return firstOf(line === null ? finding : [finding[line] ?? null], findings.rows.length);
}

/** Return the row of the lines to have in view at first: that with the most to gain; or -1. */
export function startOf(payload: Payload): number {
  const finding = briefed(payload, null);
  return finding === null ? -1 : payload.lines!.columns.finding.indexOf(finding);
}

function firstOf(findings: Numbers, length: number): number | null {
  const known = findings.filter((one): one is number => one !== null && one < length);
  return known.length ? Math.min(...known) : null;
}
