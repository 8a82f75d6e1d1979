import assert from "node:assert/strict";
import { test } from "node:test";
import { EmbeddedTrace, KernelTrace, megabytes, type Channel } from "../src/trace.ts";

type Listener = (message: any, buffers: DataView[]) => void;

/** A kernel that answers by a function, each question once. */
function kernel(answer: (question: any) => [any, Uint8Array?] | null) {
  const listeners = new Set<Listener>();
  const asked: any[] = [];
  const channel: Channel = {
    on: (_event, listen) => void listeners.add(listen),
    off: (_event, listen) => void listeners.delete(listen),
    send(question: any) {
      asked.push(question);
      const found = answer(question);
      if (!found) return;
      const [message, bytes] = found;
      const views = bytes ? [new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)] : [];
      queueMicrotask(() =>
        [...listeners].forEach((listen) => listen({ id: question.id, ...message }, views)),
      );
    },
  };
  return { channel, asked, listeners };
}

const never = new AbortController().signal;

test("a trace that is given up asks no more", async () => {
  const stop = new AbortController();
  const { channel, asked, listeners } = kernel(({ kind, offset }) => {
    if (offset === 4) stop.abort();
    return kind === "trace" ? [{ kind, size: 10, file: "t" }] : [{ kind }, new Uint8Array(4)];
  });
  await assert.rejects(new KernelTrace(channel).fetch(() => {}, stop.signal), /given up/);
  assert.equal(asked.length, 3);
  assert.equal(listeners.size, 0);
  await assert.rejects(new KernelTrace(channel).path(() => {}, stop.signal));
  assert.equal(asked.length, 3);
});

test("a trace is put together from its pieces", async () => {
  const whole = Uint8Array.from({ length: 10 }, (_, i) => i);
  const { channel, asked, listeners } = kernel(({ kind, offset }) =>
    kind === "trace"
      ? [{ kind, size: 10, file: "t.json.gz" }]
      : [{ kind, offset }, whole.subarray(offset, Math.min(offset + 4, 10))],
  );
  const told: string[] = [];
  const got = await new KernelTrace(channel).fetch((text) => told.push(text), never);
  assert.equal(got.file, "t.json.gz");
  assert.deepEqual([...got.bytes], [...whole]);
  assert.deepEqual(asked.map(({ kind, offset }) => [kind, offset]), [
    ["trace", undefined], ["chunk", 0], ["chunk", 4], ["chunk", 8],
  ]);
  assert.deepEqual(told, [
    "Preparing the trace …", "Fetching 0 % of 1 kB", "Fetching 40 % of 1 kB", "Fetching 80 % of 1 kB",
  ]);
  assert.equal(listeners.size, 0);
});

test("an error of the kernel is its message, and the next question goes on", async () => {
  let fails = true;
  const { channel, listeners } = kernel(({ kind }) =>
    fails ? [{ kind: "error", message: "no room on the disk" }] : [{ kind, path: "/tmp/t" }],
  );
  const trace = new KernelTrace(channel);
  await assert.rejects(trace.path(() => {}, never), /no room on the disk/);
  fails = false;
  assert.equal(await trace.path(() => {}, never), "/tmp/t");
  assert.equal(listeners.size, 0);
});

test("an empty piece is an error, not an endless loop", async () => {
  const { channel } = kernel(({ kind }) =>
    kind === "trace" ? [{ kind, size: 10, file: "t" }] : [{ kind }, new Uint8Array(0)],
  );
  await assert.rejects(new KernelTrace(channel).fetch(() => {}, never), /empty piece/);
});

test("a channel that is closed is said to be", async () => {
  const { channel, listeners } = kernel(() => {
    throw new Error("Cannot send");
  });
  await assert.rejects(new KernelTrace(channel).path(() => {}, never), /is gone. Run the cell again/);
  assert.equal(listeners.size, 0);
});

test("answers to other questions are not taken", async () => {
  const { channel, listeners } = kernel(() => null);
  const asked = new KernelTrace(channel).path(() => {}, never);
  [...listeners].forEach((listen) => listen({ kind: "path", id: 99, path: "/other" }, []));
  [...listeners].forEach((listen) => listen({ kind: "path", id: 1, path: "/mine" }, []));
  assert.equal(await asked, "/mine");
});

test("a kernel that is silent is waited for, and said to be", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { channel, listeners } = kernel(() => null);
  const told: string[] = [];
  const asked = new KernelTrace(channel).path((text) => told.push(text), never);
  context.mock.timers.tick(1999);
  assert.deepEqual(told, []);
  context.mock.timers.tick(1);
  assert.deepEqual(told, ["No answer from the kernel yet: it is busy, or gone"]);
  [...listeners].forEach((listen) => listen({ kind: "path", id: 1, path: "/mine" }, []));
  assert.equal(await asked, "/mine");
});

test("an embedded trace is its bytes", async () => {
  const held = Buffer.from([0, 255, 10]).toString("base64");
  const got = await new EmbeddedTrace("t.gz", held, null).fetch();
  assert.deepEqual([...got.bytes], [0, 255, 10]);
  assert.equal(new EmbeddedTrace("t.gz", held, null).run, null);
  const run = new EmbeddedTrace("t.gz", "", held).run!;
  assert.deepEqual([...(await run(1, () => {}, never))], [0, 255, 10]);
});

test("sizes", () => {
  assert.deepEqual([0, 999, 1001, 1e6, 2.55e8].map(megabytes), ["0 kB", "1 kB", "2 kB", "1.0 MB", "255.0 MB"]);
});

test("two traces on one channel get each its own answers", async () => {
  const files = { a: new Uint8Array([1, 1]), b: new Uint8Array([2, 2, 2]) };
  const { channel, asked } = kernel(({ kind, of }: { kind: string; of: "a" | "b" }) =>
    kind === "trace" ? [{ kind, size: files[of].length, file: of }] : [{ kind }, files[of]],
  );
  const got = await Promise.all(
    (["a", "b"] as const).map((of) => new KernelTrace(channel, of).fetch(() => {}, never)),
  );
  assert.deepEqual(got.map(({ file, bytes }) => [file, [...bytes]]), [["a", [1, 1]], ["b", [2, 2, 2]]]);
  assert.equal(new Set(asked.map(({ id }) => id)).size, 4);
  // One alone does not say which it is.
  await assert.rejects(new KernelTrace(kernel(() => [{ kind: "error", message: "no" }]).channel)
    .path(() => {}, never), /no/);
});

test("a trace whose size is not admitted is not fetched", async () => {
  const { channel, asked, listeners } = kernel(() => [{ kind: "trace", size: 150e6, file: "t" }]);
  const sizes: number[] = [];
  const refuse = (size: number) => {
    sizes.push(size);
    throw new Error("no");
  };
  await assert.rejects(new KernelTrace(channel).fetch(() => {}, never, refuse), /^Error: no$/);
  assert.deepEqual(sizes, [150e6]);
  assert.deepEqual(asked.map(({ kind }) => kind), ["trace"]);
  assert.equal(listeners.size, 0);
});
