// The columns of the tables: lines, operators, kernels, modules.

import type { Numbers, Payload } from "./payload.ts";
import type { Cell } from "./rows.ts";
import type { Column } from "./table.tsx";
import { bytesUnit, count, DASH, number, percent, unit } from "./words.ts";

/** The rows of a table that a filter keeps, with the text that it looks at. */
export interface Source {
  columns: Column[];
  rows: number[];
  filtered: (row: number) => string[];
}

/** Return the table of the lines of code, in their order; figures divided by `runs`. */
export function lines({ lines, findings, names, device }: Payload, runs: number): Source {
  const c = lines!.columns;
  // CPU and device are to be compared, so their bars have one scale.
  const scale = largest([c.cpu_us, c.device_us ?? []], runs);
  const cpu = times(runs, c.cpu_us, scale);
  const columns: Column[] = [{
    key: "line",
    head: c.file ? "code" : "cell",
    name: true,
    least: 300,
    prefix: (row) => String(c.line[row]),
    cell: (row) => row,
    text: (row) => c.source[row]!,
    title: (row) => [
      names[c.file?.[row] ?? -1],
      c.function?.[row] == null ? "" : `in ${names[c.function[row]!]}`,
      c.source[row],
    ].filter(Boolean).join("\n"),
    badge: (row) => {
      const [label, short] = [c.label[row], c.short?.[row]];
      if (!label) return short ? { text: short, tone: null } : null;
      return { text: label, tone: findings.rows[c.finding[row]!]?.tone ?? null, found: true };
    },
  }];
  columns.push({ ...counts("calls", c.calls, runs), aside: 2 });
  columns.push(cpu("cpu_us", "CPU", c.cpu_us, "cpu",
    "in the line, without the lines inside it; of a line of a function, with all that it calls"));
  if (c.device_us) {
    const onDevice = times(runs, c.device_us, scale);
    columns.push(onDevice("device_us", device, c.device_us, "device",
      "of kernels, copies and sets that were launched while it ran"));
  }
  if (c.backward_device_us) {
    const backward = times(runs, c.backward_device_us, scale);
    columns.push(backward("backward_device_us", "backward", c.backward_device_us, "pale",
      `on ${device} in the backward pass of what it computed: a part of the line that waits for it`));
  }
  if (c.launches) {
    columns.push({ ...counts("launches", c.launches, runs), aside: 1 });
  }
  return {
    columns,
    rows: range(c.line.length),
    filtered: (row) => [names[c.file?.[row] ?? -1] ?? "", c.source[row]!, c.label[row] ?? ""],
  };
}

/** Return the table of the call tree, each number divided by `runs`. */
export function tree({ tree, names, device }: Payload, runs: number): Source {
  const c = tree!.columns;
  const onCpu = times(runs, c.cpu_us);
  const columns = [
    { ...nameColumn("name", "call", c.name, names), least: 300 },
    { ...counts("calls", c.calls, runs), aside: 2 as const },
    onCpu("self_cpu_us", "self CPU", c.self_cpu_us, null, "in the calls themselves"),
    onCpu("cpu_us", "CPU total", c.cpu_us, "cpu", "in the calls and all in them"),
  ];
  if (c.device_us && c.self_device_us) {
    const onDevice = times(runs, c.device_us);
    columns.push(
      onDevice("self_device_us", `self ${device}`, c.self_device_us, null,
        "of what the calls themselves launched"),
      onDevice("device_us", `${device} total`, c.device_us, "device",
        "of what the calls and all in them launched"),
    );
  }
  return { columns, rows: range(c.name.length), filtered: (row) => [names[c.name[row]!]!] };
}

/** Return the table of modules, each number divided by `runs`. */
export function modules({ modules, names, device }: Payload, runs: number): Source {
  const c = modules!.columns;
  const scale = largest([c.cpu_us, c.device_us ?? []], runs);
  const columns = [
    { ...nameColumn("module", "module", c.module, names), least: 230 },
    nameColumn("type", "type", c.type, names),
    counts("calls", c.calls, runs),
    times(runs, c.cpu_us, scale)("cpu_us", "CPU", c.cpu_us, "cpu", "in the calls of the module"),
  ];
  if (c.device_us && c.self_device_us) {
    const onDevice = times(runs, c.device_us, scale);
    columns.push(
      onDevice("self_device_us", `self ${device}`, c.self_device_us, null,
        "of kernels, copies and sets of the module itself, without the modules in it"),
      onDevice("device_us", `${device} total`, c.device_us, "device",
        "of kernels, copies and sets of the module and those in it"),
    );
  }
  if (c.backward_device_us) {
    columns.push(times(runs, c.backward_device_us, scale)(
      "backward_device_us", "backward", c.backward_device_us, null,
      `on ${device} in the backward pass of the module`));
  }
  if (c.launches) columns.push({ ...counts("launches", c.launches, runs), aside: 1 });
  return {
    columns,
    rows: range(c.module.length),
    filtered: (row) => [c.module[row]!, c.type[row]].flatMap((i) => (i == null ? [] : names[i]!)),
  };
}

/** Return the table of operators, each number divided by `runs`. */
export function operators(payload: Payload, runs: number): Source {
  const { names, device, whole } = payload;
  const { columns: c, bytes_of } = payload.operators;
  const onCpu = times(runs, c.cpu_us);
  const columns = [
    nameColumn("name", "operator", c.name, names),
    counts("calls", c.calls, runs),
    onCpu("self_cpu_us", "self CPU", c.self_cpu_us, "cpu",
      "in the operator itself, without those that it calls"),
    share("self_cpu", c.self_cpu_us, whole.self_cpu_us, "the CPU time in all of these"),
    onCpu("cpu_us", "CPU total", c.cpu_us, "inner", "in the operator and all that it calls"),
  ];
  if (!c.self_device_us) columns.splice(4, 0, ...spread(c.spread));
  if (c.self_device_us && c.device_us) {
    const onDevice = times(runs, c.device_us);
    columns.push(
      onDevice("self_device_us", `self ${device}`, c.self_device_us, "device",
        "of kernels, copies and sets that the operator itself launched"),
      share("self_device", c.self_device_us, whole.self_device_us, `all ${device} time`),
      ...spread(c.spread),
      onDevice("device_us", `${device} total`, c.device_us, "pale",
        "of kernels, copies and sets that the operator and all that it calls launched"),
    );
  }
  if (c.self_bytes) columns.push(bytes("self_bytes", c.self_bytes, runs, `${bytes_of} memory`));
  return { columns, rows: range(c.name.length), filtered: (row) => [names[c.name[row]!]!] };
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
    time("device_us", device, c.device_us, "device", "of kernels, copies and sets of this name"),
    share("device", c.device_us, whole.self_device_us, `all ${device} time`),
    ...spread(c.spread),
    each("mean_us", "mean", c.mean_us, null, "of one call, on average"),
    each("min_us", "min", c.min_us, null, "of the shortest call"),
    each("median_us", "median", c.median_us, null, "of one call, the median"),
    each("max_us", "max", c.max_us, null, "of the longest call"),
  ];
  // One device and one stream need no column to say so.
  if (new Set(c.device).size > 1) {
    const label = (row: number) => names[c.device[row]!]!;
    // By its number, where it has one: 2 before 10.
    const order = (row: number) => Number(/\d+$/.exec(label(row))?.[0] ?? NaN);
    const numbered = !c.device.some((_, row) => Number.isNaN(order(row)));
    columns.splice(1, 0, plain("device", "device", numbered ? order : label, label));
  }
  if (new Set(c.stream).size > 1) {
    columns.push(plain("stream", "stream", (row) => c.stream[row]!));
  }
  for (const key of ["grid", "block"] as const) {
    const values = c[key];
    const text = (row: number) => (values?.[row] == null ? null : names[values[row]!]!);
    if (values) columns.push({ ...plain(key, key, text), aside: 2 });
  }
  const { occupancy } = c;
  if (occupancy) {
    columns.push({
      ...plain("occupancy", "occupancy", (row) => occupancy[row] ?? null, (row) =>
        occupancy[row] == null ? DASH : occupancy[row]!.toFixed(0),
      ),
      unit: "%",
      about: "Occupancy as Kineto estimates it, averaged over the time",
      aside: 2,
    });
  }
  const { operator } = c;
  return {
    columns,
    rows: range(c.name.length),
    filtered: (row) => [c.name[row]!, operator[row]].flatMap((i) => (i == null ? [] : names[i]!)),
  };
}

export function range(length: number): number[] {
  return Array.from({ length }, (_, i) => i);
}

export function nameColumn(key: string, head: string, values: Numbers, names: string[]): Column {
  const text = (row: number) => (values[row] == null ? null : names[values[row]!]!);
  return { key, head, name: true, cell: text, text: (row) => text(row) ?? DASH };
}

function plain(
  key: string,
  head: string,
  cell: (row: number) => Cell,
  text = (row: number) => String(cell(row) ?? DASH),
): Column {
  return { key, head, cell, text };
}

/** Return the column of what part of a whole each row is. */
function share(key: string, values: Numbers, whole: number | null, of: string): Column {
  const part = (row: number) => (whole && values[row] != null ? values[row]! / whole : null);
  return {
    key: `${key}_share`,
    head: "%",
    about: `Percent of ${of}`,
    cell: part,
    text: (row) => percent(part(row)),
    aside: 1,
  };
}

/** Return the column of how much the time before it differs between runs, if that is known. */
function spread(values: Numbers | null): Column[] {
  if (!values) return [];
  const text = (row: number) => {
    const part = values[row] ?? null;
    return part !== null && part >= 10 ? ">999" : percent(part);
  };
  return [{
    key: "spread",
    head: "±%",
    about: "Half of what lies between the shortest and the longest run, in percent of the median run",
    cell: (row) => values[row] ?? null,
    text,
    aside: 2,
  }];
}

/** Return the column of what operators allocate themselves, in the unit of the largest. */
function bytes(key: string, values: Numbers, runs: number, of: string): Column {
  const shown = (row: number) => (values[row] == null ? null : values[row]! / runs);
  const fit = bytesUnit(values.map((_, row) => shown(row)));
  return {
    key,
    head: "self",
    unit: fit.name,
    about: `Bytes of ${of} that the operator itself allocated, less those that it released`,
    cell: shown,
    text: (row) => number(shown(row), fit),
  };
}

function counts(key: string, values: Numbers, runs: number): Column {
  return {
    key,
    head: key,
    about: runs > 1 ? `${key} in each run` : key,
    cell: (row) => values[row] ?? null,
    text: (row) => (values[row] == null ? DASH : count(values[row]! / runs)),
  };
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
      about: `Time ${about}`,
      cell: shown,
      text: (row) => number(shown(row), fit),
      title: (row) => (shown(row) === null ? "not measured" : `${shown(row)!.toFixed(3)} µs`),
    };
    if (color && most) column.bar = { color, share: (row) => (shown(row) ?? 0) / most };
    return column;
  };
}
