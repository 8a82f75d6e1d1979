// What the Python side sends: `views/payload.py` writes it, and nothing else is shown.

export interface Figure {
  key: string;
  value: string;
  label: string;
  /** What its term means. */
  about: string;
}

/** A list of numbers per column; null in it, or in place of it, is "not measured". */
export type Numbers = (number | null)[];

/** What stands in a column of a table: `views/heads.py` writes and describes it. */
export interface Head {
  key: string;
  head: string;
  kind: "name" | "text" | "time" | "bytes" | "count" | "number" | "share" | "spread";
  about?: string;
  color?: string;
  unit?: string;
  scale?: string[];
  whole?: number | null;
  each?: boolean;
  aside?: 1 | 2;
  least?: number;
}

export interface TableData<Columns = object> {
  of: number;
  sort: string;
  heads: Head[];
  columns: Columns;
}

export interface OperatorColumns {
  name: number[];
  calls: number[];
  self_cpu_us: Numbers;
  cpu_us: Numbers;
  self_device_us: Numbers | null;
  device_us: Numbers | null;
  /** Half the range of the runs over their median: of self device time, else of self CPU time. */
  spread: Numbers | null;
  /** Bytes allocated less bytes released; null where memory was not recorded. */
  self_bytes: Numbers | null;
}

export interface KernelColumns {
  name: number[];
  /** These three are absent in a table by names alone. */
  operator?: Numbers;
  device?: number[];
  stream?: number[];
  calls: number[];
  device_us: Numbers;
  mean_us: Numbers;
  min_us: Numbers;
  median_us: Numbers;
  max_us: Numbers;
  /** The same of the time in a run. */
  spread: Numbers | null;
  grid?: Numbers;
  block?: Numbers;
  occupancy?: Numbers;
}

export interface ModuleColumns {
  module: number[];
  type: Numbers;
  calls: number[];
  cpu_us: Numbers;
  self_device_us: Numbers | null;
  device_us: Numbers | null;
  backward_device_us: Numbers | null;
  launches: Numbers | null;
}

/** Lines in the order of the code; figures are null for a line that never ran. */
export interface LineColumns {
  /** Null for a line of the cell itself; all null where there are no others. */
  file: Numbers | null;
  /** The same in short. */
  short: (string | null)[] | null;
  /** What the line is in; all null where nothing was recorded in functions. */
  function: Numbers | null;
  line: number[];
  source: string[];
  /** What is said of the findings on the line. */
  label: (string | null)[];
  /** Row of the first finding on the line. */
  finding: Numbers;
  calls: Numbers;
  cpu_us: Numbers;
  device_us: Numbers | null;
  backward_device_us: Numbers | null;
  launches: Numbers | null;
}

/** The call tree: a node for the calls of a name in another node, which stands before it. */
export interface TreeColumns {
  /** The node around it, or -1. */
  parent: number[];
  name: number[];
  calls: number[];
  self_cpu_us: number[];
  cpu_us: number[];
  self_device_us?: Numbers;
  device_us?: Numbers;
}

/** What a finding or a verdict is about, which gives it its colour. */
export type Tone = "cpu" | "device" | "wait" | "copy";

/** A finding, all in words. */
export interface Finding {
  kind: string;
  tone: Tone | null;
  title: string;
  where: string;
  gain: string | null;
  evidence: string;
  advice: string;
  /** What tells all about its kind; null where nothing does. */
  more: string | null;
  /** Line of the cell. */
  line: number | null;
  /** The operator that it is about; not there in a comparison. */
  operator?: number | null;
}

export interface Lane {
  /** Lines and modules, a thread, a device. */
  kind: "code" | "cpu" | "device";
  label: string;
  rows: number;
  /** Stream of each row of a device, null where it is of several; null for other lanes. */
  streams: (number | null)[] | null;
}

/** Numbers in an array, or in columns that came as bytes; null, or -1 in those, is none. */
type Column = ArrayLike<number | null>;

/** In the order of their lanes, rows and starts. */
export interface SpanColumns {
  lane: ArrayLike<number>;
  row: ArrayLike<number>;
  /** Index into `KINDS`. */
  kind: ArrayLike<number>;
  start_us: ArrayLike<number>;
  duration_us: ArrayLike<number>;
  /** Events drawn as one; null where each is its own. */
  count: ArrayLike<number> | null;
  /** Time in the span in which one of its events really was; null where each is its own. */
  busy_us: ArrayLike<number> | null;
  name: Column;
  operator: Column;
  /** Span that launched this one, or -1. */
  launch: ArrayLike<number>;
  /** Span of the operator whose backward this is part of, or -1. */
  forward?: ArrayLike<number>;
  /** Line of the cell that was at work; null where lines were not recorded. */
  line: Column | null;
}

/** Return what a column has in a row, or null. */
export function known(column: Column | null | undefined, row: number): number | null {
  const value = column?.[row] ?? -1;
  return value < 0 ? null : value;
}

export const KINDS = [
  "operator", "inner", "call", "wait", "line", "module", "note", "function", "kernel", "copy",
] as const;
export type Kind = (typeof KINDS)[number];

/** What was allocated on a device: the times of the changes, and how much it was from then on. */
export interface Memory {
  label: string;
  time_us: Float64Array;
  bytes: Float64Array;
}

export interface Strip {
  run: number;
  of: number;
  wall_us: number;
  resolution_us: number;
  lanes: Lane[];
  spans: SpanColumns;
  memory?: Memory[];
}

export interface Payload {
  id: string;
  headline: { lead: string | null; text: string; tone: Tone | null; about: string | null };
  /** Why the verdict is so, and what to look at first. */
  reason: string | null;
  /** In three parts, of which the second names a finding. */
  first: [string, string, string] | null;
  details: string[];
  /** What it was made with. */
  versions: string;
  figures: Figure[];
  warnings: string[];
  device: string;
  runs: number;
  /** Whether the runs came to their end: false if the only one was stopped. */
  complete: boolean;
  /** Start and end of runs, by their numbers, as in the file of the trace. Only the first hundred
   * are sure to be here, and the one that is drawn. */
  run_times_ns: Record<number, [number, number]>;
  names: string[];
  findings: {
    of: number;
    rows: Finding[];
    /** What to say where there are none. */
    none: string | null;
  };
  /** Null where no more than one line ran. */
  lines: TableData<LineColumns> | null;
  /** Null where no calls of modules were recorded. */
  modules: TableData<ModuleColumns> | null;
  /** Null where nothing was called. */
  tree: TableData<TreeColumns> | null;
  operators: TableData<OperatorColumns>;
  kernels: TableData<KernelColumns>;
  strip: Strip | null;
  left_out: string[];
}

/** A figure of two profiles, all in words: a dash where it was not measured, and then why. */
export interface Compared {
  key: string;
  head: string;
  a: string;
  b: string;
  a_more: string;
  b_more: string;
  ratio: string;
  more: string;
  why: string;
}

/** What became of the kernels of A: a row for each group that became one kernel of B. */
export interface GroupColumns {
  change: string[];
  /** Kernels of A in it, of which the first have names here. */
  count: number[];
  kernels_a: number[][];
  operators_a: Numbers[];
  kernel_b: Numbers;
  /** How often a run has this. */
  times: number[];
  /** Of all that is so in a run. */
  device_us_a: number[];
  device_us_b: number[];
}

/** Figures of both by name, per run; null for what a profile has none of. */
export interface SideColumns {
  name: number[];
  calls_a: Numbers | null;
  calls_b: Numbers | null;
  self_cpu_us_a?: Numbers | null;
  self_cpu_us_b?: Numbers | null;
  self_device_us_a?: Numbers | null;
  self_device_us_b?: Numbers | null;
  device_us_a?: Numbers | null;
  device_us_b?: Numbers | null;
}

export interface SideTable {
  of: number;
  /** What differs most in the first row. */
  sort: "self_cpu_us" | "self_device_us" | "device_us";
  columns: SideColumns;
}

/** Two profiles: `views/compare_payload.py` writes it. */
export interface Comparison {
  id: string;
  labels: [string, string];
  title: string;
  details: string[];
  warnings: string[];
  figures: Compared[];
  device: string;
  names: string[];
  findings: Payload["findings"];
  /** Null columns where it is not known what became of what; `none` says why. */
  became: { of: number; columns: GroupColumns | null; none: string | null };
  operators: SideTable;
  kernels: SideTable;
  /** The two themselves, with names in common with all that is here. */
  a: Payload;
  b: Payload;
  left_out: string[];
}

/** Return a payload as it was before its names were put in one place. */
export function unpacked(payload: Comparison): Comparison {
  const { names } = payload;
  return { ...payload, a: { ...payload.a, names }, b: { ...payload.b, names } };
}
