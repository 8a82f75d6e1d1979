// The columns of the tables: operators, and kernels.

import type { Numbers, Payload } from "./payload.ts";
import type { Column } from "./table.tsx";
import { count, DASH, number, percent, unit } from "./words.ts";

/** The rows of a table that a filter keeps, with the text that it looks at. */
export interface Source {
  columns: Column[];
  rows: number[];
  filtered: (row: number) => string;
}

/** Return the table of operators, each number divided by `runs`. */
export function operators(payload: Payload, runs: number): Source {
  const { names, device, whole } = payload;
  const { columns: c } = payload.operators;
  const onCpu = times(runs, c.cpu_us);
  const columns = [
    nameColumn("name", "operator", c.name, names),
    counts("calls", c.calls, runs),
    onCpu("self_cpu_us", "self CPU", c.self_cpu_us, "cpu", whole.self_cpu_us, "CPU",
      "in the operator itself, without those that it calls"),
    onCpu("cpu_us", "CPU total", c.cpu_us, "inner", null, "CPU",
      "in the operator and all that it calls"),
  ];
  if (c.self_device_us && c.device_us) {
    const onDevice = times(runs, c.device_us);
    columns.push(
      onDevice("self_device_us", `self ${device}`, c.self_device_us, "device", whole.self_device_us,
        device, "kernels, copies and sets that the operator itself launched"),
      onDevice("device_us", `${device} total`, c.device_us, "pale", null, device,
        "kernels, copies and sets that the operator and all that it calls launched"),
    );
  }
  return { columns, rows: range(c.name.length), filtered: (row) => names[c.name[row]!]! };
}

/** Return the table of kernels, copies and sets; sums divided by `runs`, the rest per call. */
export function kernels(payload: Payload, runs: number): Source {
  const { names, device, whole } = payload;
  const { columns: c } = payload.kernels;
  const time = times(runs, c.device_us);
  const each = times(1, c.max_us);
  const columns = [
    nameColumn("name", "kernel", c.name, names),
    nameColumn("operator", "operator", c.operator, names),
    counts("calls", c.calls, runs),
    time("device_us", device, c.device_us, "device", whole.self_device_us, device,
      "kernels, copies and sets of this name"),
    each("mean_us", "mean", c.mean_us, null, null, "", "mean of one call"),
    each("min_us", "min", c.min_us, null, null, "", "shortest call"),
    each("max_us", "max", c.max_us, null, null, "", "longest call"),
  ];
  // One device and one stream need no column to say so.
  if (new Set(c.stream).size > 1) {
    columns.push(plain("stream", "stream", c.stream, String));
  }
  if (new Set(c.device).size > 1) {
    columns.splice(1, 0, plain("device", "device", c.device, (value) => names[value]!));
  }
  const { operator } = c;
  return {
    columns,
    rows: range(c.name.length),
    filtered: (row) =>
      operator[row] == null
        ? names[c.name[row]!]!
        : `${names[c.name[row]!]}\n${names[operator[row]!]}`,
  };
}

function range(length: number): number[] {
  return Array.from({ length }, (_, i) => i);
}

function nameColumn(key: string, head: string, values: Numbers, names: string[]): Column {
  const text = (row: number) => (values[row] == null ? null : names[values[row]!]!);
  return { key, head, name: true, cell: text, text: (row) => text(row) ?? DASH };
}

function plain(
  key: string, head: string, values: number[], text: (value: number) => string,
): Column {
  return { key, head, cell: (row) => values[row]!, text: (row) => text(values[row]!) };
}

function counts(key: string, values: number[], runs: number): Column {
  return {
    key,
    head: "calls",
    about: runs > 1 ? "calls in each run" : "calls",
    cell: (row) => values[row]!,
    text: (row) => count(values[row]! / runs),
  };
}

/** Return what makes columns of times that share a unit, which suits the largest of `all`. */
function times(runs: number, all: Numbers) {
  const fit = unit(all.map((us) => (us === null ? null : us / runs)));
  return (
    key: string,
    head: string,
    values: Numbers,
    color: string | null,
    whole: number | null,
    of: string,
    about: string,
  ): Column => {
    const shown = values.map((us) => (us === null ? null : us / runs));
    const most = shown.reduce<number>((max, us) => Math.max(max, us ?? 0), 0);
    const column: Column = {
      key,
      head,
      unit: fit.name,
      about: `Time ${about}`,
      cell: (row) => shown[row] ?? null,
      text: (row) => number(shown[row] ?? null, fit),
    };
    column.title = (row) =>
      shown[row] == null
        ? "not measured"
        : `${shown[row]!.toFixed(3)} µs` +
          (whole ? `, ${percent(values[row]! / whole)} % of all ${of} time` : "");
    if (color && most) {
      column.bar = { color, share: (row) => (shown[row] ?? 0) / most };
    }
    return column;
  };
}
