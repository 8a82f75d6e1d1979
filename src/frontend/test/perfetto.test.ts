import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import {
  address, admit, Large, openInPerfetto, plain, viewer, type Place,
} from "../src/perfetto.ts";

const globals = globalThis as any;
const page = { ...globals };

/** Stand on a page of a server, with a configuration as notebook servers write it. */
function on(href: string, config?: string) {
  globals.location = { href, origin: new URL(href).origin };
  globals.document = {
    getElementById: (id: string) =>
      id === "jupyter-config-data" && config !== undefined ? { textContent: config } : null,
  };
}

afterEach(() => {
  for (const name of ["location", "document", "addEventListener", "removeEventListener"]) {
    globals[name] = page[name];
  }
});

const PUBLIC = { url: "https://ui.perfetto.dev/#!/", local: false };

test("the notebook server's own Perfetto is taken where its page says that there is one", () => {
  on("http://a:8888/base/lab/tree/x.ipynb?reset", '{"tprofilePerfetto": "/base/tprofile/perfetto/"}');
  const url = "http://a:8888/base/tprofile/perfetto/index.html#!/viewer";
  assert.deepEqual(viewer(), { url, local: true });
});

test("else it is the public one, and no other page's", () => {
  on("http://a:8888/lab");
  assert.deepEqual(viewer(), PUBLIC);
  for (const place of ["", null, "https://b/tprofile/", "//b/tprofile/", "http://a:8889/", "http://a:8888@b/", "javascript:1//"]) {
    on("http://a:8888/lab", JSON.stringify({ baseUrl: "/", tprofilePerfetto: place }));
    assert.deepEqual(viewer(), PUBLIC, String(place));
  }
  for (const config of ["{}", "", "null", "{"]) {
    on("http://a:8888/lab", config);
    assert.deepEqual(viewer(), PUBLIC, config);
  }
  for (const place of ["https://b/", "x/", "javascript:1//"]) {
    on("file:///home/me/x.html", JSON.stringify({ tprofilePerfetto: place }));
    assert.deepEqual(viewer(), PUBLIC, place);
  }
});

const TIMES: Record<number, [number, number]> = { 2: [7_889_238_000_000_333, 7_889_238_001_000_333] };

test("a place is a slice in the file's nanoseconds, and the time around it within the run", () => {
  const at = (start_us: number, duration_us: number) =>
    address(PUBLIC.url, { start_us, duration_us, run: 2 }, TIMES);
  const base = "https://ui.perfetto.dev/#!/?";
  assert.equal(
    at(500.001, 10.5),
    `${base}ts=7889238000500334&dur=10500&visStart=7889238000479334&visEnd=7889238000531834`,
  );
  // At the very ends, and of no length
  assert.equal(
    at(0, 1000),
    `${base}ts=7889238000000333&dur=1000000&visStart=7889238000000333&visEnd=7889238001000333`,
  );
  assert.equal(
    at(300, 0),
    `${base}ts=7889238000300333&dur=0&visStart=7889238000299333&visEnd=7889238000301333`,
  );
});

test("nothing selected, or a run whose times are not here, opens as it is", () => {
  assert.equal(address(PUBLIC.url, null, TIMES), PUBLIC.url);
  assert.equal(address(PUBLIC.url, { start_us: 1, duration_us: 1, run: 3 } satisfies Place, TIMES), PUBLIC.url);
});

test("from 100 MB on someone has to say yes, and beyond 2 GB Perfetto is no use", () => {
  admit(99_999_999, false);
  admit(100e6, true);
  admit(2e9, true);
  const refused = (size: number, sure: boolean) => {
    try {
      admit(size, sure);
    } catch (error) {
      return error instanceof Large && [error.message, error.possible];
    }
    return null;
  };
  const sentence = "The trace is 100.0 MB packed, and Perfetto holds at most about 2\u00a0GB.";
  assert.deepEqual(refused(100e6, false), [sentence, true]);
  const never = "The trace is 2500.0 MB, and Perfetto holds at most about 2\u00a0GB: it would not open.";
  assert.deepEqual(refused(2.5e9, false), [never, false]);
  assert.deepEqual(refused(2.5e9, true), [never, false]);
});

test("Perfetto takes plain titles only", () => {
  assert.equal(plain("GPU: 2.5 µs <b>of</b> a run"), "GPU: 2.5 us b of /b a run");
});

/** A window that keeps what is posted to it, and a way to hear from any. */
function opened() {
  const posted: [any, string][] = [];
  const listeners = new Set<(event: any) => void>();
  globals.addEventListener = (_: string, listen: (event: any) => void) => listeners.add(listen);
  globals.removeEventListener = (_: string, listen: (event: any) => void) => listeners.delete(listen);
  const window_: any = {
    closed: false,
    postMessage: (data: any, origin: string) => posted.push([data, origin]),
  };
  const say = (data: unknown, origin: string, source = window_) =>
    [...listeners].forEach((listen) => listen({ data, origin, source }));
  return { window_, posted, listeners, say };
}

for (const url of [PUBLIC.url, "http://a:8888/base/tprofile/perfetto/index.html#!/viewer?ts=1"]) {
  const { origin } = new URL(url);
  test(`a trace goes to no other window and no other origin than ${origin}`, async (context) => {
    context.mock.timers.enable({ apis: ["setInterval", "Date"] });
    const { window_, posted, listeners, say } = opened();
    const bytes = new Uint8Array([1, 2]);
    const done = openInPerfetto(
      window_, url, { file: "t.json.gz", bytes }, "a title", new AbortController().signal,
    );
    context.mock.timers.tick(100);
    assert.deepEqual(posted, [["PING", "*"], ["PING", "*"]]);
    say("PONG", "https://evil.example");
    say("PONG", origin, {});
    say("PING", origin);
    assert.equal(posted.length, 2);
    say("PONG", origin);
    await done;
    const perfetto = { buffer: bytes.buffer, title: "a title", fileName: "t.json.gz", localOnly: false };
    assert.deepEqual(posted[2], [{ perfetto }, origin]);
    // Once, and no more questions
    say("PONG", origin);
    context.mock.timers.tick(1000);
    assert.equal(posted.length, 3);
    assert.equal(listeners.size, 0);
  });
}

test("a window that is closed, and one that never answers", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval", "Date"] });
  for (const [closed, message] of [[true, /closed/], [false, /for a minute/]] as const) {
    const { window_, listeners } = opened();
    window_.closed = closed;
    const done = openInPerfetto(
      window_, PUBLIC.url, { file: "t", bytes: new Uint8Array(1) }, "", new AbortController().signal,
    );
    context.mock.timers.tick(61_000);
    await assert.rejects(done, message);
    assert.equal(listeners.size, 0);
  }
});
