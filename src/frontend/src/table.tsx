// A table that draws the rows in view and no others.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Tone } from "./payload.ts";
import { sorted, type Cell } from "./rows.ts";
import { useSize } from "./size.ts";
import { inked } from "./theme.ts";
import { halves } from "./words.ts";

export interface Column {
  key: string;
  head: string;
  /** Said after the head, in a quieter voice. */
  unit?: string;
  /** What a pointer that rests on the head is told. */
  about?: string;
  /** A name takes the room that is left; numbers take what they need. */
  name?: boolean;
  /** Pixels below which a name does not get, if more than others need. */
  least?: number;
  /** Stands before a name, in a place of its own. */
  prefix?: (row: number) => string;
  /** Stands at the end of a name's room. */
  badge?: (row: number) => Badge | null;
  cell: (row: number) => Cell;
  /** What rows are sorted by, where that is not the cell. */
  order?: (row: number) => Cell;
  text: (row: number) => string;
  title?: (row: number) => string;
  bar?: { color: string; share: (row: number) => number };
  /** Left out where there is little room, the higher number first, and all before the bars. */
  aside?: 1 | 2;
}

export interface Badge {
  text: string;
  tone: Tone | null;
  /** Whether something was found: the row is tinted. */
  found?: boolean;
}

export interface Order {
  key: string;
  descending: boolean;
}

/** Rows that stand in each other. */
export interface Nested {
  /** Return the rows in the order in which they are shown. */
  order: (rows: number[], cell: (row: number) => Cell, descending: boolean) => number[];
  depth: (row: number) => number;
  /** Whether what is in a row is shown; null where nothing is. */
  open: (row: number) => boolean | null;
  toggle: (row: number) => void;
}

interface Props {
  label: string;
  nested?: Nested;
  columns: Column[];
  /** Keys of those that are not to be shown. */
  hidden?: Set<string>;
  rows: number[];
  order: Order;
  /** Column that is in sight however little room there is. */
  main: string;
  setOrder: (order: Order) => void;
  chosen: number;
  choose: (row: number) => void;
  /** What to say in place of rows where there are none. */
  empty: string;
  /** Row that is in view at first, or -1. */
  start: number;
  id: string;
}

const ROW = 26;
const HEAD = 30;
const LETTER = 7.3;
const HEAD_LETTER = 7;
const ARROW = 17;
const PADDING = 20;
const NAME_PADDING = 28;
const BAR = 76;
const LEAST_NAME = 140;
const GAP = 14;
const EASE = 80;
const BADGE_LETTER = 6.6;
const LEAST_LETTERS = 20;
const OVERSCAN = 6;
const STEP = 14;

export function Table(props: Props) {
  const { order, setOrder, chosen, choose, id, main, nested } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const size = useSize(scroller, { width: 0, height: 260 });
  const widths = useMemo(
    () => new Map(props.columns.map((column) => [column, numberWidth(column, props.rows)])),
    [props.columns, props.rows],
  );
  const { columns, bars, pixels } = useMemo(
    () => arranged(
      props.columns.filter(({ key }) => !props.hidden?.has(key)), widths, main, size.width,
    ),
    [props.columns, props.hidden, widths, main, size.width],
  );
  // As wide in every row, and no wider than it must be.
  const prefixed = useMemo(() => {
    const { prefix } = props.columns[0]!;
    if (!prefix) return 0;
    return props.rows.reduce((most, row) => Math.max(most, prefix(row).length), 1) * LETTER;
  }, [props.columns, props.rows]);
  const template = pixels.map((width) => `${width}px`).join(" ");
  const least = pixels.reduce((all, width) => all + width, 0);
  const [top, setTop] = useState(0);
  const [cursor, setCursor] = useState(-1);

  // Of all columns: the order stays when the one that it goes by has no room any more.
  const by = leading(props.columns, order);
  const rows = useMemo(
    () => ordered(props.columns, props.rows, order, nested),
    [props.rows, by, order.descending, nested],
  );

  const show = (place: number) => {
    const box = scroller.current!;
    const from = place * ROW;
    if (from < box.scrollTop) box.scrollTop = from;
    else if (from + ROW > box.scrollTop + box.clientHeight - HEAD) {
      box.scrollTop = from + ROW - (box.clientHeight - HEAD);
    }
  };
  useLayoutEffect(() => {
    const place = rows.indexOf(props.start);
    if (place >= 0) show(place);
  }, []);
  // What another view selects comes into view. What is sorted or filtered is read from its top;
  // the same rows with other figures stay where they are.
  const before = useRef<{ rows: number[]; chosen: number }>({ rows, chosen: -1 });
  useLayoutEffect(() => {
    const was = before.current;
    before.current = { rows, chosen };
    const elsewhere = chosen !== was.chosen;
    if (!elsewhere && same(rows, was.rows)) return;
    const place = chosen < 0 ? -1 : rows.indexOf(chosen);
    setCursor(place);
    if (!elsewhere && !nested) scroller.current!.scrollTop = 0;
    else if (!elsewhere) setCursor(rows.indexOf(was.rows[cursor]!));
    else if (place >= 0) show(place);
  }, [chosen, rows]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== scroller.current) return;
    const page = Math.max(Math.floor((size.height - HEAD) / ROW) - 1, 1);
    const to: Record<string, number> = {
      ArrowDown: cursor + 1, ArrowUp: cursor < 0 ? 0 : cursor - 1,
      PageDown: Math.max(cursor, 0) + page, PageUp: cursor - page,
      Home: 0, End: rows.length - 1,
    };
    const next = to[event.key];
    if (next !== undefined) {
      const place = Math.min(Math.max(next, 0), rows.length - 1);
      setCursor(place);
      if (place >= 0) show(place);
    } else if (event.key === "Enter" || event.key === " ") {
      if (rows[cursor] !== undefined) choose(rows[cursor]!);
    } else if (nested && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      const row = rows[cursor];
      if (row !== undefined && nested.open(row) === (event.key === "ArrowLeft")) nested.toggle(row);
    } else return;
    event.preventDefault();
  };

  const first = Math.max(Math.floor(top / ROW) - OVERSCAN, 0);
  const last = Math.min(Math.ceil((top + size.height) / ROW) + OVERSCAN, rows.length);
  return (
    <div
      class="tp-table"
      ref={scroller}
      tabIndex={0}
      role={nested ? "treegrid" : "grid"}
      aria-label={props.label}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
      aria-activedescendant={cursor >= first && cursor < last ? `${id}-${cursor}` : undefined}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={onKeyDown}
    >
      <div class="tp-head" role="row" aria-rowindex={1} style={grid(template, least)}>
        {columns.map((column) => {
          const before = column.prefix ? prefixed + GAP : 0;
          const on = column.key === by.key;
          const next = { key: column.key, descending: on ? !order.descending : !column.name };
          return (
            <div
              key={column.key}
              role="columnheader"
              class={column.name ? "tp-left" : ""}
              aria-sort={on ? (order.descending ? "descending" : "ascending") : "none"}
            >
              <button
                title={column.about}
                style={before ? { paddingLeft: `${before + 16}px` } : undefined}
                onClick={() => setOrder(next)}
              >
                {on && (
                  <span class="tp-arrow" aria-hidden="true">
                    {order.descending ? "↓" : "↑"}
                  </span>
                )}
                {column.head}
                {column.unit && <small> {column.unit}</small>}
              </button>
            </div>
          );
        })}
      </div>
      <div
        class="tp-body"
        role={rows.length ? "rowgroup" : undefined}
        style={{ height: `${rows.length * ROW}px`, minWidth: `${least}px` }}
      >
        {rows.slice(first, last).map((row, i) => {
          const place = first + i;
          const badge = columns[0]!.badge?.(row);
          return (
            <div
              key={row}
              id={`${id}-${place}`}
              role="row"
              aria-rowindex={place + 2}
              aria-selected={row === chosen}
              aria-level={nested && nested.depth(row) + 1}
              aria-expanded={nested?.open(row) ?? undefined}
              class={["tp-row", badge?.found && "tp-found", row === chosen && "tp-chosen",
                place === cursor && "tp-cursor"].filter(Boolean).join(" ")}
              style={{
                ...grid(template, least),
                transform: `translateY(${place * ROW}px)`,
                ...(badge?.tone && { "--tp-tone": `var(--tp-${badge.tone})` }),
              }}
              onClick={() => {
                // Text that was just marked, to be copied, is no click.
                if (!getSelection()?.toString()) choose(row);
              }}
            >
              {columns.map((column, at) =>
                column.name ? (
                  <Name
                    key={column.key}
                    text={column.text(row)}
                    title={column.title?.(row)}
                    room={pixels[at]! - NAME_PADDING}
                    prefix={column.prefix && { text: column.prefix(row), width: prefixed }}
                    badge={column.badge?.(row)}
                    nested={at === 0 ? nested : undefined}
                    row={row}
                  />
                ) : (
                  <div key={column.key} role="gridcell" title={column.title?.(row)}>
                    <span class={column.cell(row) ? "" : "tp-nil"}>{column.text(row)}</span>
                    {bars && column.bar && (
                      <span class="tp-bar">
                        {column.bar.share(row) > 0 && (
                          <i
                            style={{
                              width: `${column.bar.share(row) * 100}%`,
                              background: `var(--tp-${column.bar.color})`,
                            }}
                          />
                        )}
                      </span>
                    )}
                  </div>
                ),
              )}
            </div>
          );
        })}
      </div>
      {!rows.length && <p class="tp-empty">{props.empty}</p>}
    </div>
  );
}

function leading(columns: Column[], { key }: Order): Column {
  return columns.find((column) => column.key === key) ?? columns[0]!;
}

/** Return rows in the order in which a table shows them. */
export function ordered(
  columns: Column[], rows: number[], order: Order, nested?: Nested,
): number[] {
  const by = leading(columns, order);
  return (nested?.order ?? sorted)(rows, by.order ?? by.cell, order.descending);
}

export interface NameProps {
  text: string;
  title?: string;
  /** Pixels for all of it. */
  room: number;
  prefix?: { text: string; width: number };
  badge?: Badge | null;
  nested?: Nested;
  row?: number;
}

/** A name cut in its middle, whole for the pointer that rests on it. */
export function Name({ text, title, room, prefix, badge, nested, row = 0 }: NameProps) {
  // Deep down the steps are smaller, so that names have room.
  const inset = nested ? STEP + Math.min(nested.depth(row) * STEP, room / 3) : 0;
  const aside = (prefix ? prefix.width + GAP : 0) + inset;
  const open = nested?.open(row) ?? null;
  let mark = badge?.text ?? "";
  const left = () => {
    const end = mark ? mark.length * BADGE_LETTER + GAP : 0;
    return Math.floor((room - aside - end) / LETTER);
  };
  // The name comes first: where there is little room, a dot says that there is something to say.
  if (left() < Math.min(text.length, LEAST_LETTERS)) mark = badge?.found ? "●" : "";
  const letters = Math.max(left(), 1);
  const [head, tail] = halves(text, letters);
  // A whole number of letters, so that no gap is left behind the dots.
  const width = tail ? { width: `calc(${letters - Array.from(tail).length}ch + 1px)` } : undefined;
  return (
    <div role="gridcell" class="tp-left tp-mono tp-name" title={title ?? text}>
      {nested && (
        <span
          class="tp-fold"
          style={{ width: `${inset}px` }}
          onClick={(event) => {
            if (open === null) return;
            nested.toggle(row);
            event.stopPropagation();
          }}
        >
          {open === null ? "" : open ? "▾" : "▸"}
        </span>
      )}
      {prefix && <span class="tp-place" style={{ width: `${aside}px` }}>{prefix.text}</span>}
      <span style={width}>{head}</span>
      {tail && <span>{tail}</span>}
      {badge && mark && (
        <b
          class={`tp-badge${badge.found ? "" : " tp-quiet"}`}
          style={inked(badge.tone)}
          title={badge.text}
          aria-label={badge.text}
        >
          {mark}
        </b>
      )}
    </div>
  );
}

function grid(template: string, least: number) {
  return { gridTemplateColumns: template, minWidth: `${least}px` };
}

function same(one: number[], other: number[]): boolean {
  return one.length === other.length && one.every((row, i) => row === other[i]);
}

/** Return which columns there is room for, whether with bars, and the width of each. */
function arranged(all: Column[], widths: Map<Column, Widths>, main: string, room: number) {
  for (const [most, bars] of [[2, true], [1, true], [0, true], [0, false]] as const) {
    let columns = all.filter((column) => (column.aside ?? 0) <= most);
    const names = columns.filter((column) => column.name).length;
    const width = (column: Column) => widths.get(column)![bars ? "barred" : "bare"];
    // Names are what one looks for: what else could be shown comes where they have room.
    const ease = most ? names * EASE : 0;
    const floor = (column: Column) => Math.max(Math.min(column.least ?? 0, 0.58 * room), LEAST_NAME);
    const needed = columns.reduce(
      (sum, column) => sum + (column.name ? floor(column) : width(column)),
      ease,
    );
    if (bars && needed > room) continue;
    if (needed > room) {
      // Now the table scrolls sideways: what it is sorted by at first comes first, a second name
      // last.
      const first = columns.filter((column, i) => i === 0 || column.key === main);
      const last = columns.filter((column, i) => column.name && i > 0);
      const others = columns.filter((column) => !first.includes(column) && !last.includes(column));
      columns = [...first, ...others, ...last];
    }
    const left = Math.max(room - needed, 0) + ease;
    // What the rows are named by gets more room than a second name.
    const pixels = columns.map((column, i) =>
      column.name
        ? floor(column) + left * (names === 1 ? 1 : i === 0 ? 0.65 : 0.35)
        : width(column),
    );
    return { columns, bars, pixels };
  }
  throw new Error("unreachable");
}

interface Widths {
  bare: number;
  barred: number;
}

/** Return the pixels that a column of numbers needs, without its bars and with them. */
function numberWidth(column: Column, rows: number[]): Widths {
  if (column.name) return { bare: 0, barred: 0 };
  // Smaller letters than those of the numbers, and room for the arrow.
  const head = (column.head.length + (column.unit?.length ?? -1) + 1) * HEAD_LETTER + ARROW;
  const longest = rows.reduce((most, row) => Math.max(most, column.text(row).length), 0) * LETTER;
  return {
    bare: Math.ceil(Math.max(head, longest) + PADDING),
    barred: Math.ceil(Math.max(head, longest + (column.bar ? BAR : 0)) + PADDING),
  };
}
