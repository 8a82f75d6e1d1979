// Runs to scale: what the CPU did above, what the device did below, and its gaps.

import type { ComponentChildren } from "preact";
import { useMemo, useState, type Dispatch, type StateUpdater } from "preact/hooks";
import { Chart } from "./chart.tsx";
import { isWhole, zoomed, type View } from "./lanes.ts";
import type { Kind, Payload, Strip as Data } from "./payload.ts";
import { kindsOf, type Spans } from "./spans.ts";
import type { Theme } from "./theme.ts";
import { duration } from "./words.ts";

interface Props {
  payload: Payload;
  strip: Data;
  theme: Theme;
  /** Spans that are selected, or null where nothing is. */
  chosen: Spans | null;
  /** Called with the span that is clicked on, or -1. */
  select: (span: number) => void;
}

/** One run. */
export function Strip({ payload, strip, ...rest }: Props) {
  const wall = strip.wall_us;
  const [view, setView] = useState<View>({ from: 0, to: wall });
  const strips = useMemo(() => [strip], [strip]);
  const shown = isWhole(view, wall) ? duration(wall) : `${duration(view.to - view.from)} of it`;
  return (
    <section class="tp-strip" aria-label="One run to scale">
      <Legend
        which={`${which(payload, strip)} · ${shown}`}
        strips={strips}
        view={view}
        setView={setView}
        wall={wall}
      />
      <Chart payload={payload} strip={strip} view={view} setView={setView} wall={wall} axis {...rest} />
      <Coarse us={strip.resolution_us} />
    </section>
  );
}

export interface Side {
  label: string;
  payload: Payload;
  chosen: Spans | null;
  select: (span: number) => void;
}

/** A run of each profile, above each other on one time scale. */
export function Strips({ sides, theme }: { sides: Side[]; theme: Theme }) {
  const strips = useMemo(
    () => sides.flatMap(({ payload }) => (payload.strip?.lanes.length ? [payload.strip] : [])),
    [sides[0]!.payload, sides[1]!.payload],
  );
  const wall = Math.max(...strips.map((strip) => strip.wall_us));
  const [view, setView] = useState<View>({ from: 0, to: wall });
  const part = isWhole(view, wall) ? "" : ` · ${duration(view.to - view.from)} of it`;
  return (
    <section class="tp-strip tp-strips" aria-label="A run of each, on one time scale">
      <Legend
        which={`A run of each, to scale${part}`}
        strips={strips}
        view={view}
        setView={setView}
        wall={wall}
      />
      {sides.map(({ label, payload, chosen, select }, i) => {
        const strip = payload.strip?.lanes.length ? payload.strip : null;
        return (
          <div key={i} role="group" aria-label={label}>
            <p class="tp-side">
              <b>{label}</b>{" "}
              {strip ? `${lower(which(payload, strip))} · ${duration(strip.wall_us)}` : "no run was recorded"}
            </p>
            {strip && (
              <Chart
                payload={payload}
                strip={strip}
                theme={theme}
                chosen={chosen}
                select={select}
                view={view}
                setView={setView}
                wall={wall}
                axis={strip === strips.at(-1)}
                label={label}
              />
            )}
          </div>
        );
      })}
      <Coarse us={Math.max(...strips.map((strip) => strip.resolution_us))} />
    </section>
  );
}

function lower(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

export function which({ complete }: Payload, strip: Data): string {
  return complete ? `Run ${strip.run} of ${strip.of}, profiled` : "The stopped run, up to there";
}

type Key = [color: string, text: string, ...of: (Kind | "idle")[]];

const KEYS: Key[] = [
  ["line", "lines, modules", "line", "module"],
  ["cpu", "operators", "operator", "inner"],
  ["inner", "inside them", "inner"],
  ["call", "runtime calls", "call", "wait"],
  ["wait", "waits for the GPU", "wait"],
  ["device", "kernels", "kernel"],
  ["copy", "copies", "copy"],
  ["idle", "idle", "idle"],
];

interface LegendProps {
  which: string;
  strips: Data[];
  view: View;
  setView: Dispatch<StateUpdater<View>>;
  wall: number;
  children?: ComponentChildren;
}

export function Legend({ which, strips, view, setView, wall, children }: LegendProps) {
  const kinds = useMemo(
    () => new Set<Kind | "idle">(strips.flatMap((strip) => [
      ...kindsOf(strip), ...(strip.lanes.some(({ kind }) => kind === "device") ? ["idle"] as const : []),
    ])),
    [strips],
  );
  const whole = isWhole(view, wall);
  const zoom = (factor: number) =>
    setView((old) => zoomed(old, wall, factor, (old.from + old.to) / 2));
  return (
    <div class="tp-legend">
      <span class="tp-which">{which}</span>
      <span class="tp-keys">
        {KEYS.map(([color, text, ...of]) => of.some((kind) => kinds.has(kind)) && (
          <span key={text} class="tp-key">
            <i style={{ background: `var(--tp-${color})` }} />
            {text}
          </span>
        ))}
      </span>
      <span class="tp-zoom">
        {children}
        <button
          aria-label="Zoom out"
          title="Ctrl and wheel, or S"
          disabled={whole}
          onClick={() => zoom(2)}
        >
          −
        </button>
        <button
          aria-label="Zoom in"
          title="Ctrl and wheel, or W"
          onClick={() => zoom(0.5)}
        >
          +
        </button>
        <button
          aria-label="Fit the whole run"
          disabled={whole}
          onClick={() => setView({ from: 0, to: wall })}
        >
          Fit
        </button>
      </span>
    </div>
  );
}

/** Say what is drawn together, if anything is. */
export function Coarse({ us }: { us: number }) {
  if (!(us > 0)) return null;
  return (
    <p class="tp-note">
      Bars shorter than {duration(us)} that follow closely on each other are drawn as one, lower
      where there are gaps between them. The trace has each.
    </p>
  );
}
