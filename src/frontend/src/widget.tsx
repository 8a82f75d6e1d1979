// Two ways in: a live widget in a notebook, and pages that hold their data.

import { render } from "preact";
import { App } from "./app.tsx";
import { Compare } from "./compare.tsx";
import { unpacked, type Comparison, type Payload } from "./payload.ts";
import { EmbeddedTrace, KernelTrace, type Channel } from "./trace.ts";

interface Model extends Channel {
  get(key: "payload"): string;
}

const LIVE = "tp-live";
const STATIC = "tp-static";

function renderWidget({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const payload: Payload | Comparison = JSON.parse(model.get("payload"));
  el.classList.add(LIVE);
  el.dataset.tpId = payload.id;
  const view = "labels" in payload ? (
    <Compare
      payload={unpacked(payload)}
      traces={{ a: new KernelTrace(model, "a"), b: new KernelTrace(model, "b") }}
    />
  ) : (
    <App payload={payload} trace={new KernelTrace(model)} />
  );
  render(view, el);
  renderPages();
  // By now it may stand nowhere yet, and so in no notebook.
  requestAnimationFrame(renderPages);
  return () => {
    render(null, el);
    el.classList.remove(LIVE);
    renderPages();
  };
}

/** Show the pages that no live widget shows already, and hide the others. */
function renderPages(): void {
  const live = [...document.querySelectorAll<HTMLElement>(`.${LIVE}`)];
  for (const page of document.querySelectorAll<HTMLElement>(`.${STATIC}`)) {
    const data = page.querySelector('script[type="application/json"]')?.textContent;
    const place = page.querySelector<HTMLElement>(".tp-place");
    if (!data || !place) continue;
    page.hidden = live.some((el) => el.dataset.tpId === page.dataset.tpId && together(el, page));
    const shown = page.dataset.tpShown !== undefined;
    if (page.hidden && shown) {
      delete page.dataset.tpShown;
      render(null, place);
    } else if (!page.hidden && !shown) {
      page.dataset.tpShown = "";
      // The plain table has done its work.
      place.querySelector(".tp-plain")?.remove();
      renderPage(JSON.parse(data), place);
    }
  }
}

type Embedded = { file: string; base64: string; run: string | null } | null;

type Held =
  | { payload: Payload; trace: Embedded }
  | { payload: Comparison; traces: { a: Embedded; b: Embedded } | null };

function renderPage(held: Held, place: HTMLElement): void {
  const source = (trace: Embedded) => trace && new EmbeddedTrace(trace.file, trace.base64, trace.run);
  if ("traces" in held) {
    const { payload, traces } = held;
    const both = { a: source(traces && traces.a), b: source(traces && traces.b) };
    render(<Compare payload={unpacked(payload)} traces={both} />, place);
  } else render(<App payload={held.payload} trace={source(held.trace)} />, place);
}

/** Tell whether two elements are in one notebook: a copy of it may be open beside it. */
function together(one: HTMLElement, other: HTMLElement): boolean {
  const [a, b] = [one, other].map((element) => element.closest(".jp-NotebookPanel"));
  return !a || !b || a === b;
}

renderPages();

export default { render: renderWidget };
