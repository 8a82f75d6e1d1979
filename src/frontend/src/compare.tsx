// Two profiles: what differs, and each of them whole one click away.

import { useMemo, useRef, useState } from "preact/hooks";
import { Answer, Warnings } from "./answer.tsx";
import { Whole } from "./app.tsx";
import {
  chosenBy, heightOf, members, ordersOf, sourceOf, spansOf, tabsOf, type Chosen, type Tab,
} from "./compared.ts";
import { Findings } from "./findings.tsx";
import { Frame } from "./frame.tsx";
import type { Compared, Comparison } from "./payload.ts";
import { useSize } from "./size.ts";
import { Switch } from "./switch.tsx";
import { Strips } from "./strip.tsx";
import { Name, Table } from "./table.tsx";
import type { Theme } from "./theme.ts";
import type { TraceSource } from "./trace.ts";
import { said, Views } from "./views.tsx";
import { DASH, duration, together } from "./words.ts";

interface Props {
  payload: Comparison;
  traces: { a: TraceSource | null; b: TraceSource | null };
}

const SHOWN = ["compare", "a", "b"] as const;

export function Compare({ payload, traces }: Props) {
  const [shown, setShown] = useState<(typeof SHOWN)[number]>("compare");
  // What was looked at is as it was left when one comes back to it.
  const [seen, setSeen] = useState(new Set<string>(["compare"]));
  const go = (to: (typeof SHOWN)[number]) => {
    setSeen(new Set([...seen, to]));
    setShown(to);
  };
  const heads = { compare: "Compare", a: payload.labels[0], b: payload.labels[1] };
  return (
    <Frame>
      {(theme) => (
        <>
          <Switch
            class="tp-whose"
            label="What is shown"
            options={SHOWN.map((key) => [key, heads[key]])}
            value={shown}
            choose={go}
          />
          {SHOWN.filter((key) => seen.has(key)).map((key) => (
            <div key={key} hidden={key !== shown}>
              {key === "compare" ? (
                <Both payload={payload} theme={theme} />
              ) : (
                <Whole payload={payload[key]} trace={traces[key]} theme={theme} label={heads[key]} />
              )}
            </div>
          ))}
        </>
      )}
    </Frame>
  );
}

function Both({ payload, theme }: { payload: Comparison; theme: Theme }) {
  const tabs = useMemo(() => tabsOf(payload), [payload]);
  const [tab, setTab] = useState<Tab>("findings");
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const [wanted, setWanted] = useState("");
  const [orders, setOrders] = useState(ordersOf);
  const source = useMemo(() => sourceOf(payload, tab), [payload, tab]);
  const spans = useMemo(
    () => ({ a: spansOf(payload, "a", chosen), b: spansOf(payload, "b", chosen) }),
    [payload, chosen],
  );

  const at = chosen?.tab === tab ? chosen.row : -1;
  const choose = (row: number) => setChosen(row === at ? null : { tab, row });
  const body = (rows: number[], id: string) => {
    if (tab === "findings") {
      return (
        <Findings
          findings={payload.findings.rows}
          rows={rows}
          chosen={at < 0 ? null : at}
          choose={choose}
          toPlace={() => null}
          empty={source.rows.length ? "No finding matches the filter." : payload.findings.none!}
        />
      );
    }
    const none = (tab === "became" && payload.became.none) || "Nothing was recorded.";
    if (!source.columns.length) return <p class="tp-empty">{none}</p>;
    return (
      <>
        <Table
          key={tab}
          id={`${id}-${tab}`}
          label={LABELS[tab]}
          columns={source.columns}
          rows={rows}
          order={orders[tab]}
          main="delta"
          setOrder={(order) => setOrders({ ...orders, [tab]: order })}
          chosen={at}
          choose={choose}
          start={-1}
          empty={source.rows.length ? "No name matches the filter." : none}
        />
        {tab === "became" && source.rows.length > 0 && <Group payload={payload} row={Math.max(at, 0)} />}
      </>
    );
  };

  return (
    <Views
      tabs={tabs}
      tab={tab}
      setTab={setTab}
      wanted={wanted}
      setWanted={setWanted}
      clear={() => setChosen(null)}
      source={source}
      height={heightOf(payload)}
      body={body}
      counted={(shown) => counted(payload, tab, shown, source.rows.length)}
      notes={payload.left_out}
    >
      <div class="tp-header">
        <Answer
          payload={{
            headline: { lead: null, text: payload.title, tone: null, about: null },
            reason: null,
            first: null,
            details: payload.details,
          }}
        />
      </div>
      <Warnings lines={payload.warnings} />
      <Figures labels={payload.labels} figures={payload.figures} />
      {[payload.a, payload.b].some(({ strip }) => strip?.lanes.length) && (
        <Strips
          theme={theme}
          sides={(["a", "b"] as const).map((side, i) => ({
            label: payload.labels[i]!,
            payload: payload[side],
            chosen: spans[side],
            select: (span: number) => setChosen(chosenBy(payload, side, span)),
          }))}
        />
      )}
    </Views>
  );
}

const LABELS = {
  became: "What became of the kernels",
  operators: "Operators of both",
  kernels: "Kernels, copies and sets of both",
};

function counted(payload: Comparison, tab: Tab, shown: number, all: number): string {
  if (tab === "became") return all ? `${said(shown, all, "group")} in the median run` : "no groups";
  const told = said(shown, all, tab.slice(0, -1));
  if (tab === "findings" || !all) return told;
  const { sort } = payload[tab];
  const on = sort === "self_cpu_us" ? "CPU" : payload.device;
  return `${told}, per run: ${tab === "kernels" ? "" : "self "}${on} time`;
}

/** The figures of both: in a row for each profile, or, where there is little room, in columns. */
function Figures({ labels, figures }: { labels: [string, string]; figures: Compared[] }) {
  return (
    <div class="tp-both" role="table" aria-label="Figures of both">
      <div role="row">
        <div role="columnheader" />
        <div role="columnheader" class="tp-mark" title={labels[0]}>{labels[0]}</div>
        <div role="columnheader" class="tp-mark" title={labels[1]}>{labels[1]}</div>
        <div role="columnheader" class="tp-mark">ratio</div>
      </div>
      {figures.map((one) => (
        <div key={one.key} role="row">
          <div role="rowheader">{one.head}</div>
          <Value value={one.a} more={one.a_more} />
          <Value value={one.b} more={one.b_more} />
          <div role="cell" class="tp-ratio">
            {one.why ? together(one.why) : <><b>{one.ratio}</b> {together(one.more)}</>}
          </div>
        </div>
      ))}
    </div>
  );
}

function Value({ value, more }: { value: string; more: string }) {
  return (
    <div role="cell" class={value === DASH ? "tp-nil" : ""}>
      <b>{together(value)}</b> {more && <small>{together(more)}</small>}
    </div>
  );
}

/** One group of kernels and what it became, in the space below the groups. */
function Group({ payload, row }: { payload: Comparison; row: number }) {
  const box = useRef<HTMLDivElement>(null);
  const { width } = useSize(box, { width: 0, height: 0 });
  const c = payload.became.columns!;
  const kernels = members(payload, row);
  const made = payload.names[c.kernel_b[row] ?? -1] ?? null;
  const times = c.times[row]! > 1 ? `${c.times[row]} times in a run, ` : "";
  const unnamed = c.count[row]! - kernels.length;
  return (
    <div class="tp-below tp-group" role="status" ref={box}>
      <div class="tp-what">
        <b>{c.change[row]!.charAt(0).toUpperCase() + c.change[row]!.slice(1)}</b>
        <span class="tp-gain">
          {together(`${times}${time(c.device_us_a[row]!)} \u2192 ${time(c.device_us_b[row]!)}`)}
        </span>
      </div>
      {kernels.map((kernel, i) => (
        <Member key={i} label={i ? "" : payload.labels[0]} text={kernel} room={width} />
      ))}
      {unnamed > 0 && <p class="tp-nil">and {unnamed} more</p>}
      {made !== null && <Member label={`\u2192 ${payload.labels[1]}`} text={made} room={width} />}
    </div>
  );
}

function time(us: number): string {
  return us ? duration(us) : "0";
}

function Member({ label, text, room }: { label: string; text: string; room: number }) {
  return (
    <div class="tp-member">
      <span class="tp-nil" title={label}>{label}</span>
      <Name text={text} room={room - MEMBER} />
    </div>
  );
}

/** Pixels for the label before a kernel. */
const MEMBER = 98;
