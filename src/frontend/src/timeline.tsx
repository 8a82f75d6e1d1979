// A run with all that was recorded in it, and what led to the bar that is selected.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Chart } from "./chart.tsx";
import type { View } from "./lanes.ts";
import { known, type Payload, type Strip } from "./payload.ts";
import { decoded } from "./runs.ts";
import { chosenSpans, NOTHING, selectionOf, spanIn, type Selection } from "./selection.ts";
import { chain, isWork, parents, within, withNames } from "./spans.ts";
import { Coarse, Legend, which } from "./strip.tsx";
import type { Theme } from "./theme.ts";
import type { TraceSource } from "./trace.ts";
import { cut, duration } from "./words.ts";

interface Props {
  payload: Payload;
  trace: TraceSource | null;
  theme: Theme;
  selection: Selection;
  setSelection: (selection: Selection) => void;
  /** Names that a filter keeps, or null without one. */
  wanted: number[] | null;
  /** Called when the payload has got more names. */
  loaded: () => void;
}

/** The colours are told above, where a run is always in view. */
const UNTOLD: Strip[] = [];

export function Timeline(props: Props) {
  const { payload, trace, theme, selection, setSelection, wanted } = props;
  const drawn = payload.strip!;
  const [run, setRun] = useState(drawn.run);
  const [whole, setWhole] = useState<Strip | null>(null);
  const [told, setTold] = useState("");
  useEffect(() => {
    if (!trace?.run) return;
    const stop = new AbortController();
    setTold("Asking for the run …");
    trace.run(run, setTold, stop.signal).then(
      (bytes) => {
        setWhole(decoded(bytes, payload.names));
        props.loaded();
        setTold("");
      },
      (error) => stop.signal.aborted || setTold(String(error.message ?? error)),
    );
    return () => stop.abort();
  }, [run, trace, payload]);

  const strip = whole ?? drawn;
  const wall = strip.wall_us;
  const [view, setView] = useState<View>({ from: 0, to: wall });
  useEffect(() => setView({ from: 0, to: wall }), [strip]);
  const up = parents(strip);
  const span = useMemo(() => spanIn(strip, selection.place), [strip, selection]);
  const steps = useMemo(() => (span < 0 ? [] : chain(strip, up, span)), [strip, up, span]);
  const chosen = useMemo(
    () => wanted ? withNames(strip, wanted) : (span < 0 ? chosenSpans(payload, selection, strip) : within(strip, up, span, steps)),
    [payload, selection, strip, up, span, steps, wanted],
  );
  const select = (at: number) =>
    setSelection(at < 0 || at === span ? NOTHING : selectionOf(payload, at, strip));

  return (
    <section class="tp-timeline" aria-label="Timeline">
      <Legend
        which={`${which(payload, strip)} · ${duration(view.to - view.from)}`}
        strips={UNTOLD}
        view={view}
        setView={setView}
        wall={wall}
      >
        {trace?.path && drawn.of > 1 && (
          <select
            aria-label="Run"
            value={run}
            onChange={(event) => setRun(Number(event.currentTarget.value))}
          >
            {Array.from({ length: drawn.of }, (_, i) => <option value={i + 1}>run {i + 1}</option>)}
          </select>
        )}
      </Legend>
      <p class="tp-chain" role="status">
        {told || (span < 0
          ? "Click a bar: here stands what led to it."
          : steps.map((at, i) => <Step key={at} {...{ payload, strip, at, last: i === steps.length - 1 }} />))}
      </p>
      <Chart
        payload={payload} strip={strip} theme={theme} chosen={chosen} select={select}
        view={view} setView={setView} wall={wall} axis
      />
      <Coarse us={strip.resolution_us} />
    </section>
  );
}

/** One of what led to a bar; of work of a device also how long after its launch it began. */
function Step({ payload, strip, at, last }: { payload: Payload; strip: Strip; at: number; last: boolean }) {
  const { name, start_us, duration_us, launch } = strip.spans;
  const code = known(name, at);
  const text = code === null ? "…" : payload.names[code]!;
  const from = launch[at]!;
  const late = isWork(strip, at) && from >= 0 ? start_us[at]! - start_us[from]! : null;
  return (
    <>
      {late !== null && <i>{duration(Math.max(late, 0))} later</i>}
      <span class="tp-mono" title={text}>{cut(text, 48)}</span>
      {last ? <i>{duration(duration_us[at]!)}</i> : " › "}
    </>
  );
}
