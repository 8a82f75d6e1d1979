// What the Python side sends: `views/payload.py` writes it, and nothing else is shown.

export interface Figure {
  key: string;
  value: string;
  label: string;
}

/** A list of numbers per column; null in it, or in place of it, is "not measured". */
export type Numbers = (number | null)[];

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
  operator: Numbers;
  device: number[];
  stream: number[];
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

export interface Lane {
  kind: "cpu" | "device";
  label: string;
  rows: number;
  /** Stream of each row of a device, null where it is of several; null for a CPU lane. */
  streams: (number | null)[] | null;
}

export interface SpanColumns {
  lane: number[];
  row: number[];
  /** Index into `KINDS`. */
  kind: number[];
  start_us: number[];
  duration_us: number[];
  /** Events drawn as one; null where each is its own. */
  count: number[] | null;
  /** Time in the span in which one of its events really was; null where each is its own. */
  busy_us: number[] | null;
  name: Numbers;
  operator: Numbers;
  /** Span that launched this one, or -1. */
  launch: number[];
}

export const KINDS = ["operator", "inner", "call", "wait", "kernel", "copy"] as const;
export type Kind = (typeof KINDS)[number];

export interface Strip {
  run: number;
  of: number;
  wall_us: number;
  resolution_us: number;
  lanes: Lane[];
  spans: SpanColumns;
}

export interface Payload {
  id: string;
  headline: { lead: string | null; text: string };
  details: string[];
  figures: Figure[];
  warnings: string[];
  device: string;
  runs: number;
  /** Whether the runs came to their end: false if the only one was stopped. */
  complete: boolean;
  names: string[];
  whole: { self_cpu_us: number; self_device_us: number | null };
  operators: {
    of: number;
    sort: string;
    columns: OperatorColumns;
    /** Whose bytes `self_bytes` are: the devices' word, or CPU. */
    bytes_of: string | null;
  };
  kernels: { of: number; sort: string; columns: KernelColumns };
  strip: Strip | null;
  left_out: string[];
}
