// One selection for all views: names, since a name is what the tables and the strip share.

import type { Payload } from "./payload.ts";

export interface Selection {
  /** Indices into the payload's names, or null. */
  operator: number | null;
  kernel: number | null;
}

export const NOTHING: Selection = { operator: null, kernel: null };

/** Return the spans of the strip that a selection means, or null where it means none. */
export function chosenSpans({ strip }: Payload, { operator, kernel }: Selection): Set<number> | null {
  if (!strip || (operator === null && kernel === null)) return null;
  const { spans } = strip;
  const found = new Set<number>();
  for (let i = 0; i < spans.start_us.length; i++) {
    const onDevice = spans.operator[i] != null || spans.kind[i]! >= 4;
    if (kernel !== null) {
      const same = spans.name[i] === kernel && (operator === null || spans.operator[i] === operator);
      if (onDevice && same) {
        found.add(i);
        if (spans.launch[i]! >= 0) found.add(spans.launch[i]!);
      }
    } else if (onDevice ? spans.operator[i] === operator : spans.name[i] === operator) {
      found.add(i);
    }
  }
  return found;
}

/** Return what a click on a span of the strip selects; nothing where it stands for several. */
export function selectionOf({ strip }: Payload, span: number): Selection {
  const { spans } = strip!;
  const name = spans.name[span] ?? null;
  if (spans.kind[span]! >= 4) {
    return name === null ? NOTHING : { kernel: name, operator: spans.operator[span] ?? null };
  }
  return { operator: name, kernel: null };
}
