// What can be done with a table beside reading it: which columns it has, and copying it.

import { useRef, useState } from "preact/hooks";
import { tabled, type Form } from "./copied.ts";
import type { Column } from "./table.tsx";
import { copy } from "./trace.ts";

interface Props {
  columns: Column[];
  hidden: Set<string>;
  setHidden: (hidden: Set<string>) => void;
  /** Return the rows in the order in which they are shown. */
  rows: () => number[];
}

const FORMS: Form[] = ["CSV", "Markdown", "text"];

export function Menu({ columns, hidden, setHidden, rows }: Props) {
  const box = useRef<HTMLDetailsElement>(null);
  const [told, setTold] = useState("");
  const close = () => {
    box.current!.open = false;
    setTold("");
  };
  const put = async (form: Form) => {
    const shown = columns.filter(({ key }) => !hidden.has(key));
    setTold((await copy(tabled(shown, rows(), form))) ? "Copied." : "The browser refused to copy.");
  };
  return (
    <details
      class="tp-menu"
      ref={box}
      onFocusOut={(event) => {
        if (!box.current!.contains(event.relatedTarget as Node)) close();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !box.current!.open) return;
        close();
        box.current!.querySelector("summary")!.focus();
        event.stopPropagation();
      }}
    >
      <summary aria-label="Columns, copy">⋯</summary>
      <div>
        <p>Copy as {FORMS.map((form) => (
          <button key={form} onClick={() => put(form)}>{form}</button>
        ))}</p>
        <p role="status">{told}</p>
        {columns.slice(1).map(({ key, head, unit }) => (
          <label key={key}>
            <input
              type="checkbox"
              checked={!hidden.has(key)}
              onChange={() => {
                const next = new Set(hidden);
                if (!next.delete(key)) next.add(key);
                setHidden(next);
              }}
            /> {head === "%" ? key.replace(/_us_share$/, " %").replaceAll("_", " ") : head} {unit}
          </label>
        ))}
      </div>
    </details>
  );
}
