// What can be done with the trace, and what came of it.

import { useRef, useState } from "preact/hooks";
import { copy, megabytes, openInPerfetto, PERFETTO, save, type TraceSource } from "./trace.ts";

interface Told {
  text: string;
  /** Offer the download beside it. */
  offer?: boolean;
  /** A text to be copied by hand. */
  text_?: string;
}

export function Actions({ trace, title }: { trace: TraceSource | null; title: string }) {
  const [busy, setBusy] = useState("");
  const [told, setTold] = useState<Told | null>(null);
  const turn = useRef(0);

  // A second click gives up the first: its answer, should one come, is not used.
  const start = (action: (current: () => boolean, progress: (text: string) => void) => Promise<void>) => {
    const mine = ++turn.current;
    const current = () => mine === turn.current;
    setTold(null);
    setBusy("Asking the kernel …");
    action(current, (text) => current() && setBusy(text))
      .catch((error) => current() && setTold({ text: String(error.message ?? error) }))
      .finally(() => current() && setBusy(""));
  };
  const cancel = () => {
    turn.current++;
    setBusy("");
  };

  const download = () =>
    start(async (current, progress) => {
      const file = await trace!.fetch(progress);
      if (!current()) return;
      save(file);
      setTold({ text: `${file.file} (${megabytes(file.bytes.length)}) is with your downloads.` });
    });

  const copyPath = () =>
    start(async (current, progress) => {
      const path = await trace!.path!(progress);
      if (!current()) return;
      const done = await copy(path);
      setTold({
        text: done ? "Copied the path of the trace, on the kernel's machine:" : "The trace is at",
        text_: path,
      });
    });

  const perfetto = () => {
    // In the click itself: later, a browser takes it for an unwanted pop-up.
    const opened = window.open(PERFETTO);
    if (!opened) {
      setTold({
        text: "No window may be opened from here. Download the trace and open it at ui.perfetto.dev.",
        offer: true,
      });
      return;
    }
    start(async (current, progress) => {
      try {
        const file = await trace!.fetch(progress);
        if (!current()) return opened.close();
        progress("Waiting for Perfetto …");
        await openInPerfetto(opened, file, title);
      } catch (error) {
        if (!current()) return;
        const why = error instanceof Error ? error.message : String(error);
        setTold({
          text: `Perfetto could not be given the trace: ${why}. Download it and open it there.`,
          offer: true,
        });
        return;
      }
      setTold({ text: "The trace is open in Perfetto, which keeps it in your browser." });
    });
  };

  if (!trace) {
    return (
      <p class="tp-actions tp-gone">
        The trace is not in this page: run the cell again, or save it with <code>--trace FILE</code>.
      </p>
    );
  }
  return (
    <div class="tp-actions">
      <div class="tp-buttons">
        <button type="button" onClick={download}>Download trace</button>
        {trace.path && <button type="button" onClick={copyPath}>Copy path</button>}
        <button type="button" class="tp-main" onClick={perfetto}>Open in Perfetto</button>
      </div>
      <div class="tp-told" role="status">
        {busy && (
          <>
            <span>{busy}</span> <button type="button" onClick={cancel}>Cancel</button>
          </>
        )}
        {!busy && told && (
          <>
            <span>
              {told.text} {told.text_ && <code class="tp-path">{told.text_}</code>}
            </span>{" "}
            {told.offer && <button type="button" onClick={download}>Download trace</button>}
            <button type="button" aria-label="Close this message" onClick={() => setTold(null)}>×</button>
          </>
        )}
      </div>
    </div>
  );
}
