// One profile, the whole of it: the answer, five figures, one run, and the tabs.

import { useMemo, useState } from "preact/hooks";
import { Actions } from "./actions.tsx";
import { Answer, Warnings } from "./answer.tsx";
import { Flame, useNested } from "./calltree.tsx";
import { summary } from "./copied.ts";
import { Copy } from "./copy.tsx";
import { Below, Findings } from "./findings.tsx";
import { Frame } from "./frame.tsx";
import { Menu } from "./menu.tsx";
import type { Payload, TableData } from "./payload.ts";
import { received } from "./runs.ts";
import { chosenSpans, findingAt, NOTHING, placeOf, selectionOf, type Selection } from "./selection.ts";
import { Strip } from "./strip.tsx";
import { Switch } from "./switch.tsx";
import { ordered, Table, type Order } from "./table.tsx";
import {
  chosenRow, findingsOf, hasBrief, heightOf, mainOf, namesOf, ordersOf, selectedBy, startOf, TABLES, tableOf, tabsOf, type Tab,
  type TableTab,
} from "./tabs.ts";
import type { Theme } from "./theme.ts";
import { Timeline } from "./timeline.tsx";
import type { TraceSource } from "./trace.ts";
import type { Measure } from "./tree.ts";
import { plural, said, Views } from "./views.tsx";
import { DASH, together } from "./words.ts";

interface Props {
  payload: Payload;
  trace: TraceSource | null;
}

export function App(props: Props) {
  return <Frame>{(theme) => <Whole {...props} theme={theme} />}</Frame>;
}

interface WholeProps extends Props {
  theme: Theme;
  /** What tells it from another profile beside it. */
  label?: string;
}

/** A profile within a frame. */
export function Whole({ payload: given, trace, theme, label }: WholeProps) {
  const tabs = useMemo(() => tabsOf(given), [given]);
  const [tab, setTab] = useState<Tab>(tabs[0]![0]);
  const [selection, setSelection] = useState<Selection>(NOTHING);
  const [wanted, setWanted] = useState("");
  const [perRun, setPerRun] = useState(true);
  const [orders, setOrders] = useState<Record<TableTab, Order>>(() => ordersOf(given));

  const [hidden, setHidden] = useState<Partial<Record<Tab, Set<string>>>>({});
  const [grouped, setGrouped] = useState<Partial<Record<Tab, Grouped>>>({});
  const [failed, setFailed] = useState("");
  const [loaded, setLoaded] = useState(0);

  const payload = useMemo((): Payload => {
    const tables = Object.entries(grouped).map(([key, { table }]) => [key, table]);
    return { ...given, ...Object.fromEntries(tables) };
  }, [given, grouped]);
  const runs = perRun && !(tab === "tree" && grouped.tree) ? payload.runs : 1;
  const table = tab === "findings" || tab === "timeline" ? null : tab;
  const source = useMemo(
    () => (table ? tableOf(payload, table, runs) : tab === "timeline" ? namesOf(payload) : findingsOf(payload)),
    [payload, table, tab, runs, loaded],
  );
  const nested = useNested(payload);
  const [drawn, setDrawn] = useState<"" | Measure>("");
  const chosen = chosenRow(payload, tab, selection);
  const marked = useMemo(() => chosenSpans(payload, selection), [payload, selection]);

  // What rows of a table can be told apart by, or be put together by: `views/payload.py` has them.
  const groups: Partial<Record<Tab, string[]>> = {
    operators: ["by name", "shape", "thread", "line", "module", "stack"],
    kernels: ["by operator", "name"],
    ...(given.runs > 1 && {
      tree: ["all runs", ...Array.from({ length: given.runs }, (_, i) => String(i + 1))],
    }),
  };
  const groupBy = (by: string) => {
    const { [tab]: _, ...others } = grouped;
    setFailed("");
    setSelection(NOTHING);
    if (!by) return setGrouped(others);
    trace!.table!(tab, by).then(
      (answer) => setGrouped({ ...others, [tab]: { by, table: received(answer, given.names) } }),
      (error) => setFailed(String(error.message ?? error)),
    );
  };
  const choose = (row: number) =>
    setSelection(row === chosen ? NOTHING : selectedBy(payload, tab, row));
  const open = (to: Tab, finding: number) => {
    setWanted("");
    setTab(to);
    setSelection(findingAt(payload, finding));
  };

  const { lead, text } = payload.headline;
  const whose = label ? `tprofile, ${label}` : "tprofile";
  const body = (rows: number[], id: string) => (
    <>
        {tab === "tree" && drawn ? (
          <Flame
            payload={payload}
            theme={theme}
            runs={runs}
            measure={drawn}
            rows={rows}
            selection={selection}
            choose={(node) => setSelection(selectedBy(payload, tab, node))}
          />
        ) : tab === "timeline" ? (
          <Timeline
            {...{ payload, trace, theme, selection, setSelection }}
            wanted={rows.length < source.rows.length ? rows : null}
            loaded={() => setLoaded((n) => n + 1)}
          />
        ) : table ? (
          <Table
            key={`${table} ${grouped[table]?.by}`}
            id={`${id}-${table}`}
            hidden={hidden[table]}
            label={TABLES[table]}
            nested={table === "tree" ? nested : undefined}
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
            toPlace={(finding) => {
              const { line, operator } = findingAt(payload, finding);
              if (line !== null) return () => open("lines", finding);
              return operator === null ? null : () => open("operators", finding);
            }}
            empty={source.rows.length ? "No finding matches the filter." : payload.findings.none!}
          />
        )}
        {tab === "lines" && hasBrief(payload) && (
          <Below payload={payload} selection={selection} open={(i) => open("findings", i)} />
        )}
    </>
  );
  const pictures: ["" | Measure, string][] = [["", "rows"], ["cpu_us", "CPU flame graph"]];
  if (payload.tree?.columns.device_us) pictures.push(["device_us", `${payload.device} flame graph`]);
  const controls = (
    <>
      {tab === "tree" && (
        <select
          aria-label="Shown as"
          value={drawn}
          onChange={(event) => setDrawn(event.currentTarget.value as typeof drawn)}
        >
          {pictures.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
        </select>
      )}
      {trace?.table && groups[tab] && (
        <select
          aria-label="Rows"
          value={grouped[tab]?.by ?? ""}
          onChange={(event) => groupBy(event.currentTarget.value)}
        >
          <option value="">{groups[tab]![0]}</option>
          {groups[tab]!.slice(1).map((by) => (
            <option key={by} value={by}>{tab === "tree" ? "run" : "by"} {by}</option>
          ))}
        </select>
      )}
      {payload.runs > 1 && (
        <Switch
          label="Figures"
          options={[[true, "per run"], [false, `${payload.runs} runs`]]}
          value={perRun}
          choose={setPerRun}
          off={!table}
        />
      )}
    </>
  );
  return (
    <Views
      tabs={tabs}
      tab={tab}
      setTab={setTab}
      wanted={wanted}
      setWanted={setWanted}
      clear={() => setSelection(NOTHING)}
      source={source}
      height={heightOf(payload)}
      controls={controls}
      body={body}
      menu={(rows) => table && !(tab === "tree" && drawn) && (
        <Menu
          columns={source.columns}
          hidden={hidden[table] ?? NONE}
          setHidden={(next) => setHidden({ ...hidden, [table]: next })}
          rows={() => ordered(source.columns, rows, orders[table], table === "tree" ? nested : undefined)}
        />
      )}
      aside={
        <Copy
          what="Copy summary"
          text={() => {
            const key = given.kernels.of ? "kernels" : "operators";
            return summary(given, tableOf(given, key, given.runs));
          }}
        />
      }
      counted={(shown) => failed || counted(payload, tab, shown, source.rows.length, perRun)}
      notes={payload.left_out}
    >
      <div class="tp-header">
        <Answer payload={payload} open={() => open("findings", 0)} />
        <Actions
          trace={trace}
          title={`${whose}: ${lead ? `${lead}, ` : ""}${text}`}
          at={placeOf(payload, marked, selection)}
          times={payload.run_times_ns}
        />
      </div>
      <Warnings lines={payload.warnings} />
      <div class="tp-figures">
        {payload.figures.map(({ key, value, label, about }) => (
          <div key={key} class="tp-figure" tabIndex={0} data-tp-tip={about}>
            <div class={`tp-value${value === DASH ? " tp-nil" : ""}`}>{value}</div>
            <div class="tp-meaning">{together(label)}</div>
          </div>
        ))}
      </div>
      {!!payload.strip?.lanes.length && (
        <Strip
          payload={payload}
          strip={payload.strip}
          theme={theme}
          chosen={marked}
          select={(span) => setSelection(span < 0 ? NOTHING : selectionOf(payload, span))}
        />
      )}
    </Views>
  );
}

function counted(payload: Payload, tab: Tab, shown: number, all: number, perRun: boolean): string {
  if (tab === "timeline") return "";
  const told = said(shown, all, tab === "tree" ? "node" : tab.slice(0, -1));
  return !all || tab === "findings" ? told : `${told}, ${sums(payload, perRun)}`;
}

function sums({ runs, complete }: Payload, perRun: boolean): string {
  if (!complete) return "of the run that was stopped";
  return perRun && runs > 1 ? "per run" : `sums over ${plural(runs, "run")}`;
}

interface Grouped {
  by: string;
  table: TableData;
}

const NONE = new Set<string>();
