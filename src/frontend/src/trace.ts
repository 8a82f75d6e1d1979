// The trace itself: how its bytes come from the kernel, and where they go.

export interface TraceFile {
  file: string;
  bytes: Uint8Array;
}

export type Told = (text: string) => void;

/** Where a trace can be had from. */
export interface TraceSource {
  /** Fetch the whole file; `progress` gets what to say meanwhile. `admit` throws if it is not to be
   * fetched, its size being what it is. */
  fetch(progress: Told, stop: AbortSignal, admit?: (size: number) => void): Promise<TraceFile>;
  /** Have it written where the kernel runs and return its path, or null if there is no kernel. */
  path: ((progress: Told, stop: AbortSignal) => Promise<string>) | null;
  /** Fetch a run, counted from 1, in the form that `runs.ts` reads, or null if there is none. */
  run: ((run: number, progress: Told, stop: AbortSignal) => Promise<Uint8Array>) | null;
  /** Fetch a table by something else than names alone, or null if there is no kernel. */
  table: ((table: string, by: string) => Promise<any>) | null;
}

/** The part of a widget's model that is used here. */
export interface Channel {
  send(message: unknown): void;
  on(event: "msg:custom", listen: (message: any, buffers: DataView[]) => void): void;
  off(event: "msg:custom", listen: (message: any, buffers: DataView[]) => void): void;
}

const PATIENCE_MS = 2000;
const GONE = "The kernel that has the trace is gone. Run the cell again.";

/** A trace that the kernel holds: asked for in pieces, since one large message would be refused. */
export class KernelTrace implements TraceSource {
  #channel: Channel;
  #of: string | undefined;
  #asked = 0;

  /** `of` says which of several traces it is. */
  constructor(channel: Channel, of?: string) {
    this.#channel = channel;
    this.#of = of;
  }

  path = async (progress: Told, stop: AbortSignal): Promise<string> => {
    const [answer] = await this.#ask({ kind: "path" }, progress, stop);
    return String(answer.path);
  };

  async fetch(
    progress: Told,
    stop: AbortSignal,
    admit?: (size: number) => void,
  ): Promise<TraceFile> {
    progress("Preparing the trace …");
    const [{ size, file }] = await this.#ask({ kind: "trace" }, progress, stop);
    admit?.(size);
    return { file, bytes: await this.#pieces({ kind: "chunk" }, size, progress, stop) };
  }

  run = async (run: number, progress: Told, stop: AbortSignal): Promise<Uint8Array> =>
    this.#pieces({ kind: "run", run }, 0, progress, stop);

  table = async (table: string, by: string): Promise<any> => {
    const { signal } = new AbortController();
    return (await this.#ask({ kind: "table", table, by }, () => {}, signal))[0];
  };

  /** Fetch bytes piece by piece; `size` is how many there are, or 0 if the first answer says it. */
  async #pieces(
    question: Record<string, unknown>, size: number, progress: Told, stop: AbortSignal,
  ): Promise<Uint8Array> {
    let bytes = new Uint8Array(size);
    let at = 0;
    do {
      if (at || size) progress(`Fetching ${Math.floor((at / size) * 100)} % of ${megabytes(size)}`);
      const [answer, buffer] = await this.#ask({ ...question, offset: at }, progress, stop);
      if (!buffer?.byteLength) throw new Error("the kernel sent an empty piece of the trace");
      if (!size) bytes = new Uint8Array((size = answer.size));
      bytes.set(new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength), at);
      at += buffer.byteLength;
    } while (at < size);
    return bytes;
  }

  #ask(
    question: Record<string, unknown>,
    progress: Told,
    stop: AbortSignal,
  ): Promise<[any, DataView | undefined]> {
    // Several traces have one channel, and each answer belongs to one question.
    const id = this.#of ? `${this.#of}${++this.#asked}` : ++this.#asked;
    return new Promise((resolve, reject) => {
      stop.throwIfAborted();
      const giveUp = () => listen({ id, kind: "error", message: "given up" }, []);
      stop.addEventListener("abort", giveUp);
      const late = setTimeout(
        () => progress("No answer from the kernel yet: it is busy, or gone"),
        PATIENCE_MS,
      );
      const listen = (message: any, buffers: DataView[]) => {
        if (message?.id !== id) return;
        clearTimeout(late);
        stop.removeEventListener("abort", giveUp);
        this.#channel.off("msg:custom", listen);
        if (message.kind === "error") reject(new Error(message.message));
        else resolve([message, buffers?.[0]]);
      };
      this.#channel.on("msg:custom", listen);
      try {
        this.#channel.send({ ...question, ...(this.#of && { of: this.#of }), id });
      } catch {
        listen({ id, kind: "error", message: GONE }, []);
      }
    });
  }
}

/** A trace that a page carries within itself. */
export class EmbeddedTrace implements TraceSource {
  path = null;
  table = null;
  run: TraceSource["run"];
  #file: string;
  #base64: string;

  /** `run` is all of the run that is drawn, where there was room for it. */
  constructor(file: string, base64: string, run: string | null) {
    this.#file = file;
    this.#base64 = base64;
    this.run = run === null ? null : async () => unpacked(run);
  }

  async fetch(): Promise<TraceFile> {
    return { file: this.#file, bytes: unpacked(this.#base64) };
  }
}

function unpacked(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

export function megabytes(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Hand a file to the browser's downloads. */
export function save({ file, bytes }: TraceFile): void {
  const url = URL.createObjectURL(new Blob([bytes as BlobPart], { type: "application/gzip" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Put a text on the clipboard; false where the browser does not let us. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // No secure context, or not allowed: the old way needs a field that is selected.
    const field = document.createElement("textarea");
    field.value = text;
    field.style.position = "fixed";
    field.style.opacity = "0";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
