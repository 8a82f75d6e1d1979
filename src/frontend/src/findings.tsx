// What holds the code back: for each what, where, the evidence and the most to gain, and what to
// write instead.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Copy } from "./copy.tsx";
import { Link } from "./link.tsx";
import type { Finding, Payload } from "./payload.ts";
import type { Selection } from "./selection.ts";
import { briefed } from "./tabs.ts";
import { inked } from "./theme.ts";
import { together } from "./words.ts";

interface Props {
  findings: Finding[];
  /** Which of them are shown. */
  rows: number[];
  chosen: number | null;
  choose: (finding: number) => void;
  /** Return what shows the line or the operator of a finding; null where there is none to show. */
  toPlace: (finding: number) => (() => void) | null;
  /** What to say in place of findings where there are none. */
  empty: string;
}

export function Findings({ findings, rows, chosen, choose, toPlace, empty }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const [cursor, setCursor] = useState(0);
  const item = (place: number) => list.current!.children[place] as HTMLElement | undefined;

  // What another view selects comes into view.
  useLayoutEffect(() => {
    const place = chosen === null ? -1 : rows.indexOf(chosen);
    if (place < 0) return;
    setCursor(place);
    const box = list.current!;
    const { offsetTop, offsetHeight } = item(place)!;
    if (offsetTop < box.scrollTop) box.scrollTop = offsetTop;
    else if (offsetTop + offsetHeight > box.scrollTop + box.clientHeight) {
      box.scrollTop = Math.min(offsetTop, offsetTop + offsetHeight - box.clientHeight);
    }
  }, [chosen]);

  const onKeyDown = (event: KeyboardEvent) => {
    const at = [...list.current!.children].indexOf(event.target as Element);
    // A button in it has its own keys.
    if (at < 0) return;
    const to: Record<string, number> = {
      ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1,
    };
    const next = to[event.key];
    if (next !== undefined) {
      const place = Math.min(Math.max(next, 0), rows.length - 1);
      setCursor(place);
      item(place)?.focus();
    } else if (event.key === "Enter" || event.key === " ") choose(rows[at]!);
    else return;
    event.preventDefault();
  };

  if (!rows.length) return <p class="tp-empty">{empty}</p>;
  return (
    <div class="tp-findings" role="list" aria-label="Findings" ref={list} onKeyDown={onKeyDown}>
      {rows.map((row, place) => (
        <div
          key={row}
          role="listitem"
          class={row === chosen ? "tp-chosen" : ""}
          tabIndex={place === Math.min(cursor, rows.length - 1) ? 0 : -1}
          aria-current={row === chosen ? "true" : undefined}
          onFocus={() => setCursor(place)}
          onClick={(event) => {
            // Text that was just marked, to be copied, is no click.
            if (getSelection()?.toString() || (event.target as Element).closest("button")) return;
            choose(row);
          }}
        >
          <Head finding={findings[row]!} open={toPlace(row)}>
            <Copy what="Copy" about={findings[row]!.title} text={() => markdown(findings[row]!)} />
          </Head>
          <p class="tp-evidence"><Code text={findings[row]!.evidence} /></p>
          <p><Code text={findings[row]!.advice} /></p>
          {findings[row]!.more && (
            <p class="tp-more"><code>{findings[row]!.more}</code> tells more</p>
          )}
        </div>
      ))}
    </div>
  );
}

interface BelowProps {
  payload: Payload;
  selection: Selection;
  open: (finding: number) => void;
}

/** What is found on a line, in the space below the lines, which is always there. */
export function Below({ payload, selection: { line }, open }: BelowProps) {
  const { columns } = payload.lines!;
  const row = briefed(payload, line);
  if (row !== null) {
    const finding = payload.findings.rows[row]!;
    return (
      <div class="tp-below" role="status">
        <Head finding={finding} open={null}>
          <button onClick={() => open(row)}>Evidence</button>
        </Head>
        <p class="tp-clamp"><Code text={finding.advice} /></p>
      </div>
    );
  }
  return (
    <div class="tp-below" role="status">
      <div class="tp-what"><b>Line {columns.line[line!]}</b></div>
      <p class="tp-clamp"><code>{columns.source[line!]!.trim()}</code></p>
    </div>
  );
}

interface HeadProps {
  finding: Finding;
  open: (() => void) | null;
  /** A button. */
  children: ComponentChildren;
}

function Head({ finding, open, children }: HeadProps) {
  const { title, where, gain, tone } = finding;
  return (
    <div class="tp-what">
      <div>
        <b style={inked(tone)}>{together(title)}</b>{" "}
        {where && (open
          ? <Link class="tp-where" open={open}>{where}</Link>
          : <span class="tp-where">{where}</span>)}
      </div>
      <div class="tp-gain">
        {gain && <span>{together(gain)}</span>} {children}
      </div>
    </div>
  );
}

/** A text with what stands in backquotes set as code. */
function Code({ text }: { text: string }) {
  const parts = pieces(together(text));
  return <>{parts.map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))}</>;
}

/** Return the pieces of a text, every second of which stood in backquotes. */
export function pieces(text: string): string[] {
  const parts = text.split("`");
  // Without a partner a backquote is one.
  if (parts.length % 2 === 0) parts.push(parts.splice(-2).join("`"));
  return parts;
}

/** Return a finding as what one pastes into an issue or a chat. */
export function markdown({ title, where, gain, evidence, advice }: Finding): string {
  const head = [`**${title}**`, where, gain].filter(Boolean).join(" · ");
  return [head, evidence, advice].filter(Boolean).join("\n\n") + "\n";
}
