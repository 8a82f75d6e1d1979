// What can be done with the trace, and what came of it.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Payload } from "./payload.ts";
import { address, admit, Large, openInPerfetto, type Place, viewer } from "./perfetto.ts";
import { copy, megabytes, save, type Told, type TraceSource } from "./trace.ts";

interface Message {
  text: string;
  /** Offer the download beside it. */
  offer?: boolean;
  /** Offer Perfetto nevertheless. */
  large?: boolean;
  /** A path, to be copied by hand if need be. */
  path?: string;
}

function why(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

interface Props {
  trace: TraceSource | null;
  title: string;
  /** Where Perfetto opens; null where nothing is selected. */
  at: Place | null;
  times: Payload["run_times_ns"];
}

export function Actions({ trace, title, at, times }: Props) {
  const [busy, setBusy] = useState("");
  const [told, setTold] = useState<Message | null>(null);
  const going = useRef<AbortController | null>(null);
  const pressed = useRef<HTMLElement | null>(null);
  useEffect(() => () => going.current?.abort(), []);

  // A second click gives up the first.
  const start = (action: (progress: Told, stop: AbortSignal) => Promise<void>) => {
    going.current?.abort();
    const { signal } = (going.current = new AbortController());
    pressed.current = document.activeElement as HTMLElement | null;
    setTold(null);
    setBusy("Asking for the trace …");
    action((text) => signal.aborted || setBusy(text), signal)
      .catch((error) => signal.aborted || setTold({ text: why(error) }))
      .finally(() => signal.aborted || setBusy(""));
  };
  const close = () => {
    going.current?.abort();
    setBusy("");
    setTold(null);
    // The button that had the focus is gone.
    pressed.current?.focus();
  };

  const download = () =>
    start(async (progress, stop) => {
      const file = await trace!.fetch(progress, stop);
      save(file);
      setTold({ text: `${file.file} (${megabytes(file.bytes.length)}) is with your downloads.` });
    });

  const copyPath = () =>
    start(async (progress, stop) => {
      const path = await trace!.path!(progress, stop);
      const done = await copy(path);
      setTold({
        text: done ? "Copied the path of the trace, on the kernel's machine:" : "The trace is at",
        path,
      });
    });

  /** `sure`: however large it is. */
  const perfetto = (sure: boolean) => {
    const { url, local } = viewer();
    // In the click itself: later, a browser takes it for an unwanted pop-up.
    const opened = window.open(address(url, at, times));
    if (!opened) {
      setTold({
        text: "No window may be opened from here. Download the trace and open it at ui.perfetto.dev.",
        offer: true,
      });
      return;
    }
    start(async (progress, stop) => {
      try {
        const file = await trace!.fetch(progress, stop, (size) => admit(size, sure));
        progress("Waiting for Perfetto …");
        await openInPerfetto(opened, url, file, title, stop);
      } catch (error) {
        const large = error instanceof Large;
        // Whoever is asked about the size is asked here.
        if (stop.aborted || large) opened.close();
        if (stop.aborted) return;
        setTold({
          text: large
            ? error.message
            : `Perfetto could not be given the trace: ${why(error)}. Download it and open it there.`,
          offer: true,
          large: large && error.possible,
        });
        return;
      }
      setTold({
        text: local
          ? "The trace is open in Perfetto, from this notebook server."
          : "The trace is open in Perfetto at ui.perfetto.dev, which keeps it in your browser.",
      });
    });
  };

  if (!trace) {
    return (
      <p class="tp-actions tp-gone">
        The trace is not in this page. Run the cell again, or keep it with <code>--trace FILE</code> or{" "}
        <code>export_trace</code>.
      </p>
    );
  }
  return (
    <div class="tp-actions">
      <div class="tp-buttons">
        <button onClick={download}>Download trace</button>
        {trace.path && <button onClick={copyPath}>Copy path</button>}
        <button class="tp-main" onClick={() => perfetto(false)}>Open in Perfetto</button>
      </div>
      <div class="tp-told" role="status">
        {busy && (
          <>
            <span>{busy}</span> <button onClick={close}>Cancel</button>
          </>
        )}
        {!busy && told && (
          <>
            <span>
              {told.text} {told.path && <code class="tp-path">{told.path}</code>}
            </span>{" "}
            {told.large && (
              <button onClick={() => perfetto(true)}>Open it anyway</button>
            )}
            {told.offer && <button onClick={download}>Download trace</button>}
            <button aria-label="Close this message" onClick={close}>×</button>
          </>
        )}
      </div>
    </div>
  );
}
