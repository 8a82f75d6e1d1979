import type { Finding, Head, Payload } from "../src/payload.ts";
import type { Source } from "../src/tables.ts";
import { tableOf, type TableTab } from "../src/tabs.ts";
import CASES from "./heads.cases.json";

/** Return a table of a profile, with heads as the Python side gives them. */
export function table(payload: Payload, tab: TableTab, runs: number, of?: keyof typeof CASES): Source {
  const columns = payload[tab]!.columns as object as Record<string, unknown>;
  const heads = CASES[of ?? tab] as Head[];
  payload[tab]!.heads = heads.filter(({ key }) => columns[key]);
  return tableOf(payload, tab, runs);
}

/** Return a small profile: `aten::linear` calls `aten::addmm`, which launches twice. */
export function example(): Payload {
  return {
    id: "0123456789abcdef",
    headline: { lead: null, text: "the GPU works 40 µs of a 100 µs run", tone: null, about: null },
    reason: null,
    first: null,
    details: ["3 runs: 3 profiled"],
    versions: "torch 2.13.0",
    figures: [{ key: "wall", value: "100 µs", label: "per run", about: "Time of a run" }],
    warnings: [],
    device: "CUDA",
    runs: 2,
    complete: true,
    run_times_ns: { 1: [5_000_000_000_001_000, 5_000_000_000_101_000] },
    names: ["aten::linear", "aten::addmm", "cudaLaunchKernel", "gemm", "bias", "CUDA 0"],
    findings: { of: 0, rows: [], none: "Nothing found that holds this code back" },
    lines: null,
    modules: null,
    tree: {
      of: 4,
      sort: "device_us",
      heads: [],
      columns: {
        parent: [-1, 0, 1, -1],
        name: [0, 1, 2, 2],
        calls: [2, 2, 4, 1],
        self_cpu_us: [30, 50, 120, 10],
        cpu_us: [200, 170, 120, 10],
        self_device_us: [0, 80, 0, 0],
        device_us: [80, 80, 0, 0],
      },
    },
    operators: {
      of: 3,
      sort: "self_device_us",
      heads: [],
      columns: {
        name: [1, 0, 2],
        calls: [2, 2, 4],
        self_cpu_us: [50, 30, 120],
        cpu_us: [170, 200, 120],
        self_device_us: [80, 0, 0],
        device_us: [80, 80, 0],
        spread: null,
        self_bytes: null,
      },
    },
    kernels: {
      of: 2,
      sort: "device_us",
      heads: [],
      columns: {
        name: [3, 4],
        operator: [1, 1],
        device: [5, 5],
        stream: [7, 7],
        calls: [2, 2],
        device_us: [40, 40],
        mean_us: [20, 20],
        min_us: [19.5, 20],
        median_us: [20, 20],
        max_us: [20.5, 20],
        spread: null,
      },
    },
    strip: {
      run: 1,
      of: 2,
      wall_us: 100,
      resolution_us: 0,
      lanes: [
        { kind: "cpu", label: "CPU", rows: 3, streams: null },
        { kind: "device", label: "CUDA 0", rows: 1, streams: [7] },
      ],
      spans: {
        lane: [0, 0, 0, 0, 1, 1],
        row: [0, 1, 2, 2, 0, 0],
        kind: [0, 1, 2, 2, 8, 8],
        start_us: [0, 5, 10, 20, 30, 60],
        duration_us: [30, 24, 6, 6, 20, 20],
        count: null,
        busy_us: null,
        name: [0, 1, 2, 2, 3, 4],
        operator: [null, null, null, null, 1, 1],
        launch: [-1, -1, -1, -1, 2, 3],
        line: null,
      },
    },
    left_out: [],
  };
}

/** Return a finding of a kind, on a line of the cell or none. */
export function finding(kind: string, line: number | null, also: Partial<Finding> = {}): Finding {
  return {
    kind,
    tone: "wait",
    title: `title of ${kind}`,
    where: line === null ? "aten::mm" : `line ${line} \u00b7 aten::item`,
    gain: "up to 1 \u00b5s of each run",
    evidence: "evidence",
    advice: "write `x.sum()`",
    more: `tprofile.explain("${kind}")`,
    line,
    ...also,
  };
}

/** Return the same as a cell of four lines, of which one never ran, and a line of a file. */
export function cell(): Payload {
  const one = example();
  one.names.push("/a/model.py", "forward", "net", "net.0", "Net", "Linear");
  one.lines = {
    of: 5,
    sort: "line",
    heads: [],
    columns: {
      file: [null, null, null, null, 6],
      short: [null, null, null, null, "model.py"],
      function: [null, null, null, null, 7],
      line: [2, 3, 4, 5, 3],
      source: ["for x in xs:", "    y = x @ w", "    if never:", "        z()", "return x"],
      label: [null, "2 waits +1", null, null, null],
      finding: [null, 1, null, null, null],
      calls: [2, 6, 6, null, 4],
      cpu_us: [20, 100, 4, null, 50],
      device_us: [0, 80, 0, null, 40],
      backward_device_us: null,
      launches: [0, 12, 0, null, 4],
    },
  };
  one.modules = {
    of: 2,
    sort: "device_us",
    heads: [],
    columns: {
      module: [8, 9], type: [10, 11], calls: [2, 4], cpu_us: [100, 60], self_device_us: [0, 80],
      device_us: [80, 80], backward_device_us: [null, 8], launches: [4, 4],
    },
  };
  one.findings = { of: 3, rows: [finding("fusion", null), finding("sync", 3), finding("sync", 3)], none: null };
  one.strip!.spans.line = [2, 3, 3, null, 3, 2];
  return one;
}
