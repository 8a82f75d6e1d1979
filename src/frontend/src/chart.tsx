// A run on a canvas, with what a pointer and the keyboard do on it.

import type { Dispatch, StateUpdater } from "preact/hooks";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { draw } from "./draw.ts";
import { isPinned, isWhole, layout, panned, seenIn, zoomed, type View } from "./lanes.ts";
import { known, type Payload, type Strip } from "./payload.ts";
import { useSize } from "./size.ts";
import { barsOf, idle, kindOf, only, spanAt, type Spans } from "./spans.ts";
import { PALETTES, type Theme } from "./theme.ts";
import { cut, duration, percent } from "./words.ts";

interface Props {
  payload: Pick<Payload, "names">;
  strip: Strip;
  theme: Theme;
  /** Spans that are selected, or null where nothing is. */
  chosen: Spans | null;
  /** Called with the span that is clicked on, or -1. */
  select: (span: number) => void;
  view: View;
  setView: Dispatch<StateUpdater<View>>;
  /** Microseconds that there are to see: of the longest run, where several share a scale. */
  wall: number;
  /** Whether times are written below. */
  axis: boolean;
  /** What tells the run from another one beside it. */
  label?: string;
}

const KIND_WORDS = {
  operator: "operator",
  inner: "operator inside another",
  call: "runtime call",
  wait: "waits for the GPU",
  line: "line of the cell",
  module: "module",
  note: "annotation",
  function: "function",
  kernel: "kernel",
  copy: "copy or set",
};

export function Chart(props: Props) {
  const { payload, strip, theme, chosen, select, view, setView, wall } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const { width, height } = useSize(box, { width: 0, height: 0 });
  const [top, setTop] = useState(0);
  const [pointed, setPointed] = useState(-1);
  const [tip, setTip] = useState<{ x: number; y: number } | null>(null);
  const drag = useRef<{ x: number; moved: boolean } | null>(null);
  const places = useMemo(() => layout(strip, props.axis), [strip, props.axis]);
  const bars = useMemo(() => barsOf(strip.spans), [strip]);
  const gaps = useMemo(() => strip.lanes.map((_, lane) => idle(strip, lane)), [strip]);
  const marked = useMemo(() => chosen && barsOf(only(strip.spans, chosen)), [strip, chosen]);
  const whole = isWhole(view, wall);
  // The canvas is as large as what is seen of it: a run can have hundreds of rows.
  const seen = Math.min(height, places.height);
  const inSight = useMemo(() => seenIn(places, seen, top), [places, seen, top]);

  const next = useRef<(() => void) | null>(null);
  useLayoutEffect(() => {
    // What changes until the next frame is in it; one that was asked for is never put off.
    if (!next.current) {
      requestAnimationFrame(() => {
        next.current!();
        next.current = null;
      });
    }
    next.current = () => {
      // A page can be taken away in the very frame in which a widget takes its place.
      if (!box.current || !canvas.current) return;
      const style = getComputedStyle(box.current);
      draw(canvas.current, {
        payload, strip, view, width, bars, chosen, marked, pointed,
        layout: inSight,
        idle: gaps,
        palette: PALETTES[theme],
        font: style.fontFamily,
        mono: style.getPropertyValue("--tp-mono"),
      });
    };
  });

  const time = (x: number) => view.from + (x / width) * (view.to - view.from);
  const zoom = (factor: number, x = width / 2) =>
    setView((old) =>
      zoomed(old, wall, factor, old.from + (x / width) * (old.to - old.from)),
    );
  const move = (share: number) =>
    setView((old) => panned(old, wall, share * (old.to - old.from)));
  const fit = () => setView({ from: 0, to: wall });

  const wheel = useRef<(event: WheelEvent) => void>(() => {});
  wheel.current = (event) => {
    // A plain wheel scrolls the notebook, as everywhere else.
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(event.deltaY * 0.004), event.offsetX);
    } else if (!whole && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
      event.preventDefault();
      move((event.deltaX || event.deltaY) / width);
    }
  };
  useEffect(() => {
    const listen = (event: WheelEvent) => wheel.current(event);
    canvas.current!.addEventListener("wheel", listen, { passive: false });
    return () => canvas.current?.removeEventListener("wheel", listen);
  }, []);

  const under = (x: number, y: number): number => {
    for (const range of bars.rows) {
      const place = inSight.rows[range.lane]![range.row]!;
      if (isPinned(inSight, strip, range.lane) !== y >= inSight.pinned) continue;
      if (y >= place.top - 1 && y < place.top + place.height + 1) {
        return spanAt(bars, range, time(x), (3 / width) * (view.to - view.from));
      }
    }
    return -1;
  };

  const onPointerMove = (event: PointerEvent) => {
    const { offsetX: x, offsetY: y } = event;
    if (drag.current) {
      const by = drag.current.x - x;
      if (Math.abs(by) > 3) drag.current.moved = true;
      if (drag.current.moved) {
        move(by / width);
        drag.current.x = x;
        setTip(null);
        return;
      }
    }
    const span = under(x, y);
    setPointed(span);
    setTip(span < 0 ? null : { x, y });
  };
  const onPointerDown = (event: PointerEvent) => {
    if (event.button) return;
    drag.current = { x: event.offsetX, moved: false };
    canvas.current!.setPointerCapture(event.pointerId);
  };
  const onPointerUp = (event: PointerEvent) => {
    const was = drag.current;
    drag.current = null;
    if (!was || was.moved) return;
    select(under(event.offsetX, event.offsetY));
  };

  const show = (span: number) => {
    const { start_us, duration_us, lane, row } = strip.spans;
    const middle = start_us[span]! + duration_us[span]! / 2;
    let next = view;
    if (middle < view.from || middle > view.to) {
      next = panned(view, wall, middle - (view.from + view.to) / 2);
      setView(next);
    }
    const place = places.rows[lane[span]!]![row[span]!]!;
    setPointed(span);
    const { scrollTop } = box.current!;
    const room = Math.min(seen, inSight.pinned);
    if (inSight.pinned === Infinity || place.top < places.pinned) {
      box.current!.scrollTop = Math.min(Math.max(scrollTop, place.top + 40 - room), place.top - 20);
    }
    const y = seenIn(places, seen, box.current!.scrollTop).rows[lane[span]!]![row[span]!]!.top;
    setTip({ x: ((middle - next.from) / (next.to - next.from)) * width, y });
  };
  const step = (by: number) => {
    const { spans } = strip;
    if (pointed < 0) return spans.start_us.length && show(0);
    const next = pointed + by;
    const same = spans.lane[next] === spans.lane[pointed] && spans.row[next] === spans.row[pointed];
    return same && show(next);
  };
  const climb = (by: number) => {
    const { spans, rows } = bars;
    if (pointed < 0) return step(0);
    let at = rows.findIndex(({ first, last }) => first <= pointed && pointed < last);
    const middle = spans.start_us[pointed]! + spans.duration_us[pointed]! / 2;
    for (at += by; rows[at]; at += by) {
      const span = spanAt(bars, rows[at]!, middle, Infinity);
      if (span >= 0) return show(span);
    }
    return false;
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions: Record<string, () => unknown> = {
      w: () => zoom(0.6), s: () => zoom(1 / 0.6), a: () => move(-0.2), d: () => move(0.2),
      "+": () => zoom(0.6), "-": () => zoom(1 / 0.6), "0": fit, Home: fit,
      ArrowLeft: () => step(-1), ArrowRight: () => step(1),
      ArrowUp: () => climb(-1), ArrowDown: () => climb(1),
      Enter: () => pointed >= 0 && select(pointed),
    };
    const action = actions[event.key] ?? actions[event.key.toLowerCase()];
    if (action) {
      action();
      event.preventDefault();
    }
  };

  const span = pointed >= 0 && tip ? describe(payload, strip, pointed) : null;
  return (
    <div class="tp-canvas">
      <div class="tp-scroll" ref={box} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
        <div style={{ height: `${places.height}px` }}>
          <canvas
            ref={canvas}
            style={{ height: `${seen}px`, cursor: whole ? "default" : "grab" }}
            tabIndex={0}
            role="application"
            aria-roledescription="timeline"
            aria-label={
              `Timeline of ${props.label ? `${props.label}, ` : ""}run ${strip.run}: ${strip.lanes.map((lane) => lane.label).join(", ")}. ` +
              "Arrows go from bar to bar, W and S zoom, A and D move, Enter selects."
            }
            onPointerMove={onPointerMove}
            onPointerDown={onPointerDown}
            onPointerUp={onPointerUp}
            onPointerCancel={() => (drag.current = null)}
            onPointerLeave={() => {
              setPointed(-1);
              setTip(null);
            }}
            onBlur={() => {
              setPointed(-1);
              setTip(null);
            }}
            onDblClick={(event) => zoom(0.25, event.offsetX)}
            onKeyDown={onKeyDown}
          />
        </div>
      </div>
      {span && tip && (
        <div
          class="tp-tip"
          role="status"
          style={{
            top: `${tip.y + 18}px`,
            ...(tip.x < width / 2
              ? { left: `${Math.max(tip.x, 0)}px` }
              : { right: `${Math.max(width - tip.x, 0)}px` }),
          }}
        >
          <div class="tp-mono">{span.name}</div>
          <div>{span.figures}</div>
        </div>
      )}
    </div>
  );
}

function describe({ names }: Props["payload"], { spans, lanes }: Strip, span: number) {
  const kind = KIND_WORDS[kindOf(spans, span)];
  const long = spans.duration_us[span]!;
  const name = known(spans.name, span);
  const start = `from ${duration(spans.start_us[span]!)}`;
  if (name === null) {
    const count = spans.count?.[span] ?? 1;
    if (count === 1) {
      const figures = `${kind} · ${duration(long)} · ${start}`;
      return { name: "(no room for its name)", figures };
    }
    const busy = percent(spans.busy_us![span]! / (long || 1));
    return {
      name: `${count} short ones together`,
      figures: `${kind} · ${duration(long)}, ${busy} % of it busy · ${start}`,
    };
  }
  const by = known(spans.operator, span);
  const lane = lanes[spans.lane[span]!]!;
  const stream = lane.streams?.[spans.row[span]!];
  const parts = [
    kind,
    duration(long),
    start,
    ...(by === null ? [] : [cut(names[by]!, 60)]),
    ...(lane.rows > 1 && stream != null ? [`stream ${stream}`] : []),
  ];
  return { name: cut(names[name]!, 160), figures: parts.join(" · ") };
}
