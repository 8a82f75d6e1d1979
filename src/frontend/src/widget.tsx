// Two ways in: a live widget in a notebook, and pages that hold their data.

import { render } from "preact";
import { App } from "./app.tsx";
import type { Payload } from "./payload.ts";
import { EmbeddedTrace, KernelTrace, type Channel } from "./trace.ts";

interface Model extends Channel {
  get(key: "payload"): string;
}

const LIVE = "tp-live";
const STATIC = "tp-static";

/** Hide or show the page that holds the same as a live widget: it stays for when there is none. */
function hidePages(id: string, hidden: boolean): void {
  for (const page of document.querySelectorAll<HTMLElement>(`.${STATIC}`)) {
    if (page.dataset.tpId === id) page.hidden = hidden;
  }
}

function renderWidget({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const payload: Payload = JSON.parse(model.get("payload"));
  el.classList.add(LIVE);
  el.dataset.tpId = payload.id;
  hidePages(payload.id, true);
  render(<App payload={payload} trace={new KernelTrace(model)} />, el);
  return () => {
    render(null, el);
    el.classList.remove(LIVE);
    hidePages(payload.id, false);
    renderPages();
  };
}

function renderPages(): void {
  for (const page of document.querySelectorAll<HTMLElement>(`.${STATIC}:not([data-tp-shown])`)) {
    const data = page.querySelector('script[type="application/json"]')?.textContent;
    const place = page.querySelector<HTMLElement>(".tp-place");
    if (!data || !place) continue;
    const { payload, trace }: { payload: Payload; trace?: { file: string; base64: string } } =
      JSON.parse(data);
    const live = [...document.querySelectorAll<HTMLElement>(`.${LIVE}`)];
    if (live.some((widget) => widget.dataset.tpId === payload.id)) {
      page.hidden = true;
      continue;
    }
    page.dataset.tpShown = "";
    place.replaceChildren();
    const source = trace ? new EmbeddedTrace(trace.file, trace.base64) : null;
    render(<App payload={payload} trace={source} />, place);
  }
}

renderPages();

export default { render: renderWidget };
