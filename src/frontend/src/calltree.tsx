// The calls as a tree of rows, or as a flame graph.

import { useMemo, useState } from "preact/hooks";
import { Chart } from "./chart.tsx";
import type { View } from "./lanes.ts";
import type { Payload } from "./payload.ts";
import type { Selection } from "./selection.ts";
import type { Nested } from "./table.tsx";
import type { Theme } from "./theme.ts";
import { childrenOf, depthsOf, flame, opened, walk, type Measure } from "./tree.ts";

/** Return how the rows of the call tree stand in each other. */
export function useNested({ tree }: Payload): Nested | undefined {
  // Of another tree other nodes are open.
  const [kept, setKept] = useState<{ tree: unknown; open: Set<number> } | null>(null);
  const known = useMemo(
    () => tree && { depth: depthsOf(tree.columns), children: childrenOf(tree.columns) },
    [tree],
  );
  return useMemo(() => {
    if (!tree || !known) return undefined;
    const open = kept?.tree === tree ? kept.open : opened(tree.columns);
    return {
      order: (rows, cell, descending) => walk(tree.columns, rows, open, cell, descending),
      depth: (row) => known.depth[row]!,
      open: (row) => (known.children[row]!.length ? open.has(row) : null),
      toggle: (row) => {
        const next = new Set(open);
        if (!next.delete(row)) next.add(row);
        setKept({ tree, open: next });
      },
    };
  }, [tree, known, kept]);
}

interface Props {
  payload: Payload;
  theme: Theme;
  runs: number;
  measure: Measure;
  /** Nodes that a filter keeps. */
  rows: number[];
  selection: Selection;
  /** Called with a node. */
  choose: (node: number) => void;
}

/** Each call as wide as its time, those within it below it. */
export function Flame({ payload, theme, runs, measure, rows, selection, choose }: Props) {
  const [strip, nodes] = useMemo(() => flame(payload, measure, runs), [payload, measure, runs]);
  const wall = strip.wall_us;
  const [seen, setSeen] = useState<{ of: unknown; view: View }>({ of: null, view: { from: 0, to: 0 } });
  const view = seen.of === strip ? seen.view : { from: 0, to: wall };
  const chosen = useMemo(() => {
    const { name, parent } = payload.tree!.columns;
    const wanted = rows.length < parent.length ? new Set(rows) : null;
    if (!wanted && selection.operator === null) return null;
    return Int32Array.from(nodes.keys()).filter((span) => {
      const node = nodes[span]!;
      return wanted ? wanted.has(node) : name[node] === selection.operator;
    });
  }, [payload, nodes, rows, selection]);
  const { start_us, duration_us } = strip.spans;
  return (
    <Chart
      payload={payload} strip={strip} theme={theme} chosen={chosen} wall={wall} axis
      view={view}
      setView={(to) =>
        setSeen((old) => {
          const was = old.of === strip ? old.view : { from: 0, to: wall };
          return { of: strip, view: typeof to === "function" ? to(was) : to };
        })}
      select={(span) => {
        // A click on what fills the view, or on nothing, goes back to all.
        const to = span < 0 ? wall : start_us[span]! + duration_us[span]!;
        const from = span < 0 ? 0 : start_us[span]!;
        const back = view.from === from && view.to === to;
        setSeen({ of: strip, view: back ? { from: 0, to: wall } : { from, to } });
        if (span >= 0) choose(nodes[span]!);
      }}
      label="the call tree"
    />
  );
}
