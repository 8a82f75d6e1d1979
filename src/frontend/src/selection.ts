// One selection for all views: a name that the tables and the strip share, a row, or a finding.

import { known, type Payload, type Strip } from "./payload.ts";
import type { Place } from "./perfetto.ts";
import { CALL, isWork, KERNEL, kindOf, parents, those, WAIT, type Spans } from "./spans.ts";

export interface Selection {
  /** Index into the payload's names, or null. */
  operator: number | null;
  /** Row of the table of kernels, or null. */
  kernel: number | null;
  /** Row of the table of modules, or null. */
  module: number | null;
  /** Row of the table of lines, or null. */
  line: number | null;
  /** Node of the call tree, or null. */
  node: number | null;
  /** One of the findings, or null. */
  finding: number | null;
  /** Where the very bar is that was clicked on, or null. */
  place: Place | null;
}

export const NOTHING: Selection = {
  operator: null, kernel: null, module: null, line: null, node: null, finding: null, place: null,
};

/** Return what a row of the kernels selects. */
export function kernelAt({ kernels }: Payload, row: number): Selection {
  return { ...NOTHING, kernel: row, operator: kernels.columns.operator?.[row] ?? null };
}

/** Return what a row of the lines selects: its finding too. */
export function lineAt({ lines }: Payload, row: number): Selection {
  return { ...NOTHING, line: row, finding: lines!.columns.finding[row] ?? null };
}

/** Return what a finding selects: its line too, if that is in the table, else its operator. */
export function findingAt({ findings, lines }: Payload, finding: number): Selection {
  const { line: number, operator = null } = findings.rows[finding] ?? { line: null };
  const row = lines?.columns.line.findIndex((line, i) => line === number && inCell(lines, i)) ?? -1;
  return row < 0 ? { ...NOTHING, finding, operator } : { ...NOTHING, finding, line: row };
}

function inCell({ columns }: NonNullable<Payload["lines"]>, row: number): boolean {
  return columns.file?.[row] == null;
}

/** Return the spans of a run that a selection means, or null where it means none. */
export function chosenSpans(
  payload: Payload,
  { operator, kernel, line }: Selection,
  strip = payload.strip,
): Spans | null {
  if (!strip) return null;
  if (line !== null) return ofLine(payload, strip, line);
  if (kernel !== null) return ofWork(strip, (span) => isOf(payload, strip, span, kernel));
  // What is not in the chart, an annotation or another run's, leaves it as it is.
  return operator === null ? null : ofOperator(strip, operator);
}

/** Return those of `n` spans that pass a test, or null where none does. */
function some(n: number, test: (span: number) => unknown): Spans | null {
  const found = those(n, test);
  return found.length ? found : null;
}

/** Return what was called while a line of the cell ran, and the device work that it caused. */
function ofLine({ lines }: Payload, { spans }: Strip, row: number): Spans | null {
  if (!inCell(lines!, row)) return null;
  const number = lines!.columns.line[row]!;
  return some(spans.kind.length, (i) => known(spans.line, i) === number);
}

/** Return device work that is wanted, and the calls that launched it. */
function ofWork(strip: Strip, wanted: (span: number) => boolean): Spans | null {
  const { launch, kind } = strip.spans;
  const marks = new Uint8Array(kind.length);
  for (let i = 0; i < marks.length; i++) {
    if (kind[i]! < KERNEL || !wanted(i)) continue;
    marks[i] = 1;
    if (launch[i]! >= 0) marks[launch[i]!] = 1;
  }
  return some(marks.length, (i) => marks[i]);
}

/** Return the spans of device work with one of these names, or null where there is none. */
export function namedSpans({ strip }: Payload, names: number[]): Spans | null {
  const wanted = new Set<number | null>(names);
  return strip && ofWork(strip, (i) => wanted.has(known(strip.spans.name, i)));
}

/** Tell whether a span of a device is a call of what stands in a row of the kernels. */
function isOf({ kernels, names }: Payload, strip: Strip, span: number, row: number): boolean {
  const { spans, lanes } = strip;
  const { name, operator, device, stream } = kernels.columns;
  const lane = lanes[spans.lane[span]!]!;
  const own = lane.streams![spans.row[span]!];
  return (
    spans.name[span] === name[row] &&
    // A table by names alone has none of these.
    (!operator || known(spans.operator, span) === (operator[row] ?? null)) &&
    (!device || lane.label === names[device[row]!]) &&
    (!stream || own == null || own === stream[row])
  );
}

/** Return an operator's bars, what was called within them, and the device work that it caused. */
function ofOperator(strip: Strip, operator: number): Spans | null {
  const { kind, name, launch, operator: by } = strip.spans;
  const up = parents(strip);
  const within = new Uint8Array(kind.length);
  const marks = new Uint8Array(kind.length);
  for (let i = 0; i < kind.length; i++) {
    const what = kind[i]!;
    const own = what < KERNEL && name[i] === operator;
    // What is around it stands in a row above, and so comes first.
    if (own || within[up[i]!]) within[i] = 1;
    const is = what < KERNEL
      ? own || (within[i] && (what === CALL || what === WAIT))
      : by[i] === operator || marks[launch[i]!];
    if (is) marks[i] = 1;
  }
  return some(marks.length, (i) => marks[i]);
}

/** Return what a click on a span of a run selects; nothing where it stands for several. */
export function selectionOf(payload: Payload, span: number, strip = payload.strip!): Selection {
  const { spans } = strip;
  const name = known(spans.name, span);
  if (name === null) return NOTHING;
  return { ...rowsOf(payload, strip, span, name), place: placeAt(strip, span) };
}

function rowsOf(payload: Payload, strip: Strip, span: number, name: number): Selection {
  const { spans } = strip;
  const kind = kindOf(spans, span);
  if (kind === "line") {
    const row = payload.lines?.columns.line.findIndex(
      (line, i) => line === spans.line![span] && inCell(payload.lines!, i),
    ) ?? -1;
    return row < 0 ? NOTHING : lineAt(payload, row);
  }
  if (kind === "module") {
    const row = payload.modules?.columns.module.indexOf(name) ?? -1;
    return row < 0 ? NOTHING : { ...NOTHING, module: row };
  }
  if (!isWork(strip, span)) return { ...NOTHING, operator: name };
  const row = payload.kernels.columns.name.findIndex((_, i) => isOf(payload, strip, span, i));
  const operator = known(spans.operator, span);
  return row < 0 ? NOTHING : { ...NOTHING, operator, kernel: row };
}

function placeAt({ run, spans }: Strip, span: number): Place {
  return { start_us: spans.start_us[span]!, duration_us: spans.duration_us[span]!, run };
}

/** Return the span of a run that stands at a place, or -1. */
export function spanIn({ run, spans }: Strip, place: Place | null): number {
  if (place?.run !== run) return -1;
  const same = (one: number, other: number) => Math.abs(one - other) < 0.001;
  for (let i = 0; i < spans.start_us.length; i++) {
    if (same(spans.start_us[i]!, place.start_us) && same(spans.duration_us[i]!, place.duration_us)) {
      return i;
    }
  }
  return -1;
}

/** Return where the selection is in the record: what was clicked on, else, of what is marked out in
 * the chart, the first work of a device, else the first of all. */
export function placeOf(
  { strip }: Payload, marked: Spans | null, { place }: Selection,
): Place | null {
  if (place || !marked) return place;
  const work = marked.filter((i) => isWork(strip!, i));
  const first = (work.length ? work : marked).reduce((a, b) =>
    strip!.spans.start_us[b]! < strip!.spans.start_us[a]! ? b : a,
  );
  return placeAt(strip!, first);
}
