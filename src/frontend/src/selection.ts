// One selection for all views: a name that the tables and the strip share, a row, or a finding.

import { KINDS, type Payload } from "./payload.ts";
import type { Place } from "./perfetto.ts";

export interface Selection {
  /** Index into the payload's names, or null. */
  operator: number | null;
  /** Row of the table of kernels, or null. */
  kernel: number | null;
  /** Row of the table of modules, or null. */
  module: number | null;
  /** Row of the table of lines, or null. */
  line: number | null;
  /** One of the findings, or null. */
  finding: number | null;
  /** The very span that was clicked on, or null. */
  span: number | null;
}

export const NOTHING: Selection = {
  operator: null, kernel: null, module: null, line: null, finding: null, span: null,
};

/** Return what a row of the kernels selects. */
export function kernelAt({ kernels }: Payload, row: number): Selection {
  return { ...NOTHING, kernel: row, operator: kernels.columns.operator[row] ?? null };
}

/** Return what a row of the lines selects: its finding too. */
export function lineAt({ lines }: Payload, row: number): Selection {
  return { ...NOTHING, line: row, finding: lines!.columns.finding[row] ?? null };
}

/** Return what a finding selects: its line too, if that is in the table. */
export function findingAt({ findings, lines }: Payload, finding: number): Selection {
  const number = findings.rows[finding]?.line ?? null;
  const row = lines?.columns.line.findIndex((line, i) => line === number && inCell(lines, i)) ?? -1;
  return { ...NOTHING, finding, line: row < 0 ? null : row };
}

function inCell({ columns }: NonNullable<Payload["lines"]>, row: number): boolean {
  return columns.file?.[row] == null;
}

const CALL = KINDS.indexOf("call");
const KERNEL = KINDS.indexOf("kernel");

/** Return the spans of the strip that a selection means, or null where it means none. */
export function chosenSpans(
  payload: Payload,
  { operator, kernel, line }: Selection,
): Set<number> | null {
  if (!payload.strip) return null;
  const found = new Set<number>();
  if (line !== null) addLine(payload, line, found);
  else if (kernel !== null) addKernel(payload, kernel, found);
  else if (operator !== null) addOperator(payload, operator, found);
  // What is not in the chart, an annotation or another run's, leaves it as it is.
  return found.size ? found : null;
}

/** Add what was called while a line of the cell ran, and the device work that it caused. */
function addLine({ strip, lines }: Payload, row: number, found: Set<number>): void {
  if (!inCell(lines!, row)) return;
  const number = lines!.columns.line[row]!;
  strip!.spans.line?.forEach((line, i) => line === number && found.add(i));
}

function addKernel(payload: Payload, kernel: number, found: Set<number>): void {
  addWork(payload, (span) => isOf(payload, span, kernel), found);
}

/** Add device work that is wanted, and the calls that launched it. */
function addWork({ strip }: Payload, wanted: (span: number) => boolean, found: Set<number>): void {
  const { spans } = strip!;
  for (let i = 0; i < spans.start_us.length; i++) {
    if (spans.kind[i]! < KERNEL || !wanted(i)) continue;
    found.add(i);
    if (spans.launch[i]! >= 0) found.add(spans.launch[i]!);
  }
}

/** Return the spans of device work with one of these names, or null where there is none. */
export function namedSpans(payload: Payload, names: number[]): Set<number> | null {
  const found = new Set<number>();
  const wanted = new Set(names);
  if (payload.strip) addWork(payload, (i) => wanted.has(payload.strip!.spans.name[i] ?? -1), found);
  return found.size ? found : null;
}

/** Tell whether a span is work of a device. */
export function isWork({ strip }: Payload, span: number): boolean {
  return strip!.spans.kind[span]! >= KERNEL;
}

/** Tell whether a span of a device is a call of what stands in a row of the kernels. */
function isOf({ strip, kernels, names }: Payload, span: number, row: number): boolean {
  const { spans, lanes } = strip!;
  const { name, operator, device, stream } = kernels.columns;
  const lane = lanes[spans.lane[span]!]!;
  const own = lane.streams![spans.row[span]!];
  return (
    spans.name[span] === name[row] &&
    (spans.operator[span] ?? null) === (operator[row] ?? null) &&
    lane.label === names[device[row]!] &&
    (own == null || own === stream[row])
  );
}

/** Add an operator's bars, what was called within them, and the device work that it caused. */
function addOperator({ strip }: Payload, operator: number, found: Set<number>): void {
  const { spans } = strip!;
  const n = spans.start_us.length;
  const end = (i: number) => spans.start_us[i]! + spans.duration_us[i]!;
  const own: number[] = [];
  for (let i = 0; i < n; i++) {
    if (spans.kind[i]! < KERNEL && spans.name[i] === operator) own.push(i);
  }
  own.forEach((i) => found.add(i));
  const within = (i: number) =>
    own.some(
      (o) =>
        spans.lane[o] === spans.lane[i] &&
        spans.start_us[o]! <= spans.start_us[i]! &&
        end(i) <= end(o) + 1e-6,
    );
  for (let i = 0; i < n; i++) {
    const kind = spans.kind[i]!;
    if (kind >= CALL && kind < KERNEL && within(i)) found.add(i);
  }
  for (let i = 0; i < n; i++) {
    if (spans.kind[i]! < KERNEL) continue;
    if (spans.operator[i] === operator || found.has(spans.launch[i]!)) found.add(i);
  }
}

/** Return what a click on a span of the strip selects; nothing where it stands for several. */
export function selectionOf(payload: Payload, span: number): Selection {
  const { spans } = payload.strip!;
  const name = spans.name[span] ?? null;
  if (spans.kind[span]! < KERNEL) return { ...NOTHING, operator: name, span };
  const row = payload.kernels.columns.name.findIndex((_, i) => isOf(payload, span, i));
  const operator = spans.operator[span] ?? null;
  return row < 0 ? NOTHING : { ...NOTHING, operator, kernel: row, span };
}

/** Return where one of the spans that are marked out is: the one that was clicked on, else the
 * first work of a device, else the first of all. */
export function placeOf(
  payload: Payload,
  marked: Set<number> | null,
  clicked: number | null,
): Place | null {
  if (!marked) return null;
  const { run, spans } = payload.strip!;
  const work = [...marked].filter((i) => isWork(payload, i));
  const first = (work.length ? work : [...marked]).reduce((a, b) =>
    spans.start_us[b]! < spans.start_us[a]! ? b : a,
  );
  const span = clicked !== null && marked.has(clicked) ? clicked : first;
  return { start_us: spans.start_us[span]!, duration_us: spans.duration_us[span]!, run };
}
