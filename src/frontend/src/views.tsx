// Tabs, the filter, and the panel below them, with what stands above it all.

import type { ComponentChildren } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { filter } from "./rows.ts";
import type { Source } from "./tables.ts";

interface Props<Tab extends string> {
  /** Each with its head, and how many rows there are, if that says something. */
  tabs: [Tab, string, number | null][];
  tab: Tab;
  setTab: (tab: Tab) => void;
  /** Text of the filter. */
  wanted: string;
  setWanted: (wanted: string) => void;
  /** Called for Escape where the filter is empty. */
  clear: () => void;
  /** What the open tab shows. */
  source: Source;
  /** Of the panel, in pixels: the same for all tabs. */
  height: number;
  /** Stands beside the filter. */
  controls?: ComponentChildren;
  /** Return what the panel shows; ids in it begin with `id`. */
  body: (rows: number[], id: string) => ComponentChildren;
  /** Return what stands behind the filter. */
  menu?: (rows: number[]) => ComponentChildren;
  /** Stands at the end of the last line. */
  aside?: ComponentChildren;
  /** Say how many rows are shown. */
  counted: (shown: number) => string;
  /** What did not fit. */
  notes: string[];
  children: ComponentChildren;
}

let shown = 0;

export function Views<Tab extends string>(props: Props<Tab>) {
  const { tabs, tab, setTab, wanted, setWanted, source } = props;
  const search = useRef<HTMLInputElement>(null);
  // Elements refer to each other by ids, and one profile can be shown twice in a document.
  const [id] = useState(() => `tp-${++shown}`);
  const [regex, setRegex] = useState(false);
  const test = useMemo(() => filter(wanted, regex), [wanted, regex]);
  const rows = useMemo(
    () => source.rows.filter((row) => test.test(source.filtered(row))),
    [source, test],
  );

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
      search.current!.focus();
      event.preventDefault();
    } else if (event.key === "Escape") {
      if (wanted) setWanted("");
      else props.clear();
    }
  };
  const onTabKey = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = tabs.findIndex(([key]) => key === tab);
    const next = tabs[(at + step + tabs.length) % tabs.length]![0];
    setTab(next);
    document.getElementById(`${id}-tab-${next}`)?.focus();
    event.preventDefault();
  };

  return (
    <div onKeyDown={onKeyDown}>
      {props.children}
      <div class="tp-bar-of-tabs">
        <div role="tablist" aria-label="Views" onKeyDown={onTabKey}>
          {tabs.map(([key, head, of]) => (
            <button
              key={key}
              id={`${id}-tab-${key}`}
              role="tab"
              aria-selected={key === tab}
              aria-controls={`${id}-panel`}
              tabIndex={key === tab ? 0 : -1}
              onClick={() => setTab(key)}
            >
              {head} {of !== null && <small class={`tp-of-${key}`}>{of}</small>}
            </button>
          ))}
        </div>
        <div class={`tp-controls ${props.menu ? "tp-several" : ""}`}>
          {props.controls}
          <div class={`tp-filter${test.error ? " tp-wrong" : ""}`}>
            <input
              ref={search}
              type="search"
              placeholder="Filter  /"
              aria-label="Filter by name"
              aria-invalid={!!test.error}
              value={wanted}
              onInput={(event) => setWanted(event.currentTarget.value)}
            />
            <button
              aria-pressed={regex}
              aria-label="Filter by a regular expression"
              title="Regular expression"
              onClick={() => setRegex(!regex)}
            >
              .*
            </button>
          </div>
          {props.menu?.(rows)}
        </div>
      </div>
      <div
        id={`${id}-panel`}
        role="tabpanel"
        aria-label={tab}
        class="tp-panel"
        style={{ height: `${props.height}px` }}
      >
        {props.body(rows, id)}
      </div>
      <div class="tp-foot">
        <span role="status">
          {test.error
            ? `The filter is no regular expression: ${test.error}`
            : props.counted(rows.length)}
        </span>
        {props.aside}
      </div>
      {props.notes.map((line) => (
        <p key={line} class="tp-note">{line}</p>
      ))}
    </div>
  );
}

/** Return how many rows there are, and how many of them are shown. */
export function said(shown: number, all: number, word: string): string {
  if (!all) return `no ${word}s`;
  return `${shown === all ? "" : `${shown} of `}${plural(all, word)}`;
}

export function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}
