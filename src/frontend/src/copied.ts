// What one pastes elsewhere: a table, or the summary of a profile.

import { markdown } from "./findings.tsx";
import type { Payload } from "./payload.ts";
import type { Column } from "./table.tsx";
import type { Source } from "./tables.ts";
import { halves } from "./words.ts";

export type Form = "CSV" | "Markdown" | "text";

const SUMMARY_ROWS = 10;
const SUMMARY_NAME = 80;

/** Return rows of a table: as CSV with whole figures (times in microseconds), else as shown. */
export function tabled(columns: Column[], rows: number[], form: Form): string {
  if (form === "CSV") {
    const lines = [columns.map(({ key }) => key), ...rows.map((row) => columns.map((c) => raw(c, row)))];
    return lines.map((cells) => cells.map(quoted).join(",") + "\r\n").join("");
  }
  const lines = [
    columns.map(({ head, unit }) => (unit ? `${head} ${unit}` : head)),
    ...rows.map((row) => columns.map((column) => column.text(row))),
  ];
  if (form === "Markdown") {
    const cells = lines.map((line, i) => line.map((cell, at) =>
      i && columns[at]!.name ? code(cell) : cell));
    cells.splice(1, 0, columns.map(({ name }) => (name ? ":--" : "--:")));
    return cells.map((line) => `| ${line.join(" | ")} |\n`).join("");
  }
  const width = columns.map((_, at) => Math.max(...lines.map((line) => line[at]!.length)));
  return lines.map((line) => line.map((cell, at) =>
    columns[at]!.name ? cell.padEnd(width[at]!) : cell.padStart(width[at]!),
  ).join("  ").trimEnd() + "\n").join("");
}

function raw(column: Column, row: number): string {
  const value = column.cell(row);
  // A spreadsheet would take a name that begins so for a formula.
  if (typeof value !== "number" || column.name) return column.text(row).replace(/^[=+\-@\t\r]/, "'$&");
  return String(value);
}

function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

/** Return a name as code in a cell of a table of Markdown. */
function code(name: string): string {
  return `\`${name.replace(/\s+/g, " ").replaceAll("`", "'").replaceAll("|", "\\|")}\``;
}

/** Return what one pastes into an issue or a chat: nothing private but the names in it. */
export function summary(payload: Payload, { columns, rows }: Source): string {
  const { headline: { lead, text }, reason, figures, findings, details, warnings } = payload;
  const short = columns.map((column): Column => column.name
    ? { ...column, text: (row) => halves(column.text(row), SUMMARY_NAME).join(" … ").replace(/ … $/, "") }
    : column);
  return [
    `**${lead ? `${lead}: ` : ""}${text}**`,
    reason,
    figures.map(({ value, label }) => `- ${value} ${label}`).join("\n"),
    ...findings.rows.map((one) => markdown(one).trim()),
    tabled(short, rows.slice(0, SUMMARY_ROWS), "Markdown").trim(),
    [...details, ...warnings, payload.versions].join("  \n"),
  ].filter(Boolean).join("\n\n") + "\n";
}
