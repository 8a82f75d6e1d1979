// The whole of it: the answer, five figures, one run, and the tabs.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Actions } from "./actions.tsx";
import { Answer } from "./answer.tsx";
import { Below, Findings } from "./findings.tsx";
import type { Payload } from "./payload.ts";
import { filter } from "./rows.ts";
import { findingAt, NOTHING, type Selection } from "./selection.ts";
import { Strip } from "./strip.tsx";
import { Table, type Order } from "./table.tsx";
import {
  chosenRow, findingsOf, hasBrief, heightOf, mainOf, ordersOf, selectedBy, startOf, TABLES, tabsOf, type Tab,
  type TableTab,
} from "./tabs.ts";
import { behind, PALETTES, watchTheme, type Theme } from "./theme.ts";
import type { TraceSource } from "./trace.ts";
import { DASH, together } from "./words.ts";

interface Props {
  payload: Payload;
  trace: TraceSource | null;
}

let shown = 0;

export function App({ payload, trace }: Props) {
  const root = useRef<HTMLDivElement>(null);
  const search = useRef<HTMLInputElement>(null);
  // Elements refer to each other by ids, and one profile can be shown twice in a document.
  const [id] = useState(() => `tp-${++shown}`);
  const [look, setLook] = useState<{ background: string; theme: Theme }>({
    background: "Canvas",
    theme: "light",
  });
  const tabs = useMemo(() => tabsOf(payload), [payload]);
  const [tab, setTab] = useState<Tab>(tabs[0]![0]);
  const [selection, setSelection] = useState<Selection>(NOTHING);
  const [wanted, setWanted] = useState("");
  const [regex, setRegex] = useState(false);
  const [perRun, setPerRun] = useState(true);
  const [orders, setOrders] = useState<Record<TableTab, Order>>(() => ordersOf(payload));

  // Before anything is painted, so that a dark page does not flash.
  useLayoutEffect(() => {
    const around = root.current!.parentElement ?? root.current!;
    return watchTheme(() => {
      const now = behind(around);
      setLook((old) =>
        old.background === now.background && old.theme === now.theme ? old : now,
      );
    });
  }, []);

  const runs = perRun ? payload.runs : 1;
  const table = tab === "findings" ? null : tab;
  const source = useMemo(
    () => (table ? TABLES[table].source(payload, runs) : findingsOf(payload)),
    [payload, table, runs],
  );
  const test = useMemo(() => filter(wanted, regex), [wanted, regex]);
  const rows = useMemo(
    () => source.rows.filter((row) => test.test(source.filtered(row))),
    [source, test],
  );
  const chosen = chosenRow(payload, tab, selection);

  const choose = (row: number) =>
    setSelection(row === chosen ? NOTHING : selectedBy(payload, tab, row));
  const open = (to: Tab, finding: number) => {
    setWanted("");
    setTab(to);
    setSelection(findingAt(payload, finding));
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
      search.current!.focus();
      event.preventDefault();
    } else if (event.key === "Escape") {
      if (wanted) setWanted("");
      else setSelection(NOTHING);
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

  const colors = Object.fromEntries(
    Object.entries(PALETTES[look.theme]).map(([name, color]) => [`--tp-${name}`, color]),
  );
  const { lead, text } = payload.headline;
  return (
    <div
      ref={root}
      class="tp"
      data-tp-theme={look.theme}
      style={{ ...colors, "--tp-bg": look.background }}
      onKeyDown={onKeyDown}
      onFocusIn={(event) => {
        // A notebook looks at the element that has the focus: else "b" there makes a cell.
        (event.target as Element).setAttribute("data-lm-suppress-shortcuts", "true");
      }}
    >
      <div class="tp-header">
        <Answer payload={payload} open={() => open("findings", 0)} />
        <Actions trace={trace} title={`tprofile: ${lead ? `${lead}, ` : ""}${text}`} />
      </div>
      {payload.warnings.map((warning) => (
        <p key={warning} class="tp-warning">
          <b>Note</b> {warning}
        </p>
      ))}
      <div class="tp-figures">
        {payload.figures.map(({ key, value, label }) => (
          <div key={key} class="tp-figure">
            <div class={`tp-value${value === DASH ? " tp-nil" : ""}`}>{value}</div>
            <div class="tp-meaning">{together(label)}</div>
          </div>
        ))}
      </div>
      {!!payload.strip?.lanes.length && (
        <Strip
          payload={payload}
          strip={payload.strip}
          theme={look.theme}
          selection={selection}
          select={setSelection}
        />
      )}
      <div class="tp-bar-of-tabs">
        <div role="tablist" aria-label="Views" onKeyDown={onTabKey}>
          {tabs.map(([key, head, of]) => (
            <button
              key={key}
              id={`${id}-tab-${key}`}
              type="button"
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
        <div class="tp-controls">
          {payload.runs > 1 && (
            <div class="tp-switch" role="group" aria-label="Figures" data-tp-off={!table}>
              <button type="button" aria-pressed={perRun} onClick={() => setPerRun(true)}>
                per run
              </button>
              <button type="button" aria-pressed={!perRun} onClick={() => setPerRun(false)}>
                {payload.runs} runs
              </button>
            </div>
          )}
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
              type="button"
              aria-pressed={regex}
              aria-label="Filter by a regular expression"
              title="Regular expression"
              onClick={() => setRegex(!regex)}
            >
              .*
            </button>
          </div>
        </div>
      </div>
      <div
        id={`${id}-panel`}
        role="tabpanel"
        aria-label={tab}
        class="tp-panel"
        style={{ height: `${heightOf(payload)}px` }}
      >
        {table ? (
          <Table
            key={table}
            id={`${id}-${table}`}
            label={TABLES[table].label}
            columns={source.columns}
            rows={rows}
            order={orders[table]}
            main={mainOf(payload, table)}
            setOrder={(order) => setOrders({ ...orders, [table]: order })}
            chosen={chosen}
            choose={choose}
            start={table === "lines" ? startOf(payload) : -1}
            empty={source.rows.length ? "No name matches the filter." : "Nothing was recorded."}
          />
        ) : (
          <Findings
            findings={payload.findings.rows}
            rows={rows}
            chosen={chosen < 0 ? null : chosen}
            choose={choose}
            toLine={payload.lines && ((finding) => open("lines", finding))}
            empty={source.rows.length ? "No finding matches the filter." : payload.findings.none!}
          />
        )}
        {tab === "lines" && hasBrief(payload) && (
          <Below payload={payload} selection={selection} open={(i) => open("findings", i)} />
        )}
      </div>
      <p class="tp-foot" role="status">
        {test.error
          ? `The filter is no regular expression: ${test.error}`
          : counted(payload, tab, rows.length, source.rows.length, perRun)}
      </p>
      {payload.left_out.map((line) => (
        <p key={line} class="tp-note">{line}</p>
      ))}
    </div>
  );
}

function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

function counted(payload: Payload, tab: Tab, shown: number, all: number, perRun: boolean): string {
  const word = tab.slice(0, -1);
  if (!all) return `no ${word}s`;
  const part = shown === all ? "" : `${shown} of `;
  const said = `${part}${plural(all, word)}`;
  return tab === "findings" ? said : `${said}, ${sums(payload, perRun)}`;
}

function sums({ runs, complete }: Payload, perRun: boolean): string {
  if (!complete) return "of the run that was stopped";
  return perRun && runs > 1 ? "per run" : `sums over ${plural(runs, "run")}`;
}
