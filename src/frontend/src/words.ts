// How figures are put into words: the same as `views/words.py`, which shares its test cases.

export const DASH = "–";

export interface Unit {
  name: string;
  /** In microseconds, or bytes. */
  size: number;
  decimals: number;
}

const UNITS: Unit[] = [
  { name: "s", size: 1e6, decimals: 2 },
  { name: "ms", size: 1e3, decimals: 2 },
  { name: "µs", size: 1, decimals: 2 },
  { name: "ns", size: 1e-3, decimals: 2 },
];
const MICROSECONDS = UNITS[2]!;
const NANOSECONDS = UNITS[3]!;

const BYTES: Unit[] = [
  { name: "TiB", size: 2 ** 40, decimals: 2 },
  { name: "GiB", size: 2 ** 30, decimals: 2 },
  { name: "MiB", size: 2 ** 20, decimals: 2 },
  { name: "KiB", size: 2 ** 10, decimals: 2 },
  { name: "B", size: 1, decimals: 0 },
];

/** Return the unit in which the largest of the given times has one to three digits. */
export function unit(times: Iterable<number | null>): Unit {
  const most = largest(times);
  return UNITS.find((one) => most >= one.size) ?? (most ? NANOSECONDS : MICROSECONDS);
}

/** Return the unit in which the largest of the given numbers of bytes is 1 or more. */
export function bytesUnit(values: Iterable<number | null>): Unit {
  const most = largest(values);
  return BYTES.find((one) => most >= one.size) ?? BYTES.at(-1)!;
}

/** Return a number of bytes in the unit that fits it. */
export function bytes(value: number): string {
  const fit = bytesUnit([value]);
  return `${number(value, fit)} ${fit.name}`;
}

function largest(values: Iterable<number | null>): number {
  let most = 0;
  for (const value of values) if (value !== null) most = Math.max(most, Math.abs(value));
  return most;
}

/** Return a number with so many decimals, ties to the even digit as Python's format does it. */
export function fixed(value: number, decimals: number): string {
  // A tie is exact in binary, or it is none: then the value is an odd part of a power of two.
  const tie = value * 2 ** (decimals + 1);
  if (!Number.isInteger(tie) || tie % 2 === 0) return value.toFixed(decimals);
  const below = Math.floor(value * 10 ** decimals);
  return ((below + (Math.abs(below) % 2)) / 10 ** decimals).toFixed(decimals);
}

/** Return a value in a unit, without its name: one too small to print is not 0. */
export function number(value: number | null, of: Unit): string {
  if (value === null) return DASH;
  if (value === 0) return "0";
  const least = 10 ** -of.decimals;
  const shown = value / of.size;
  if (Math.abs(shown) < least / 2) return `${value > 0 ? "<" : ">-"}${least.toFixed(of.decimals)}`;
  return fixed(shown, of.decimals);
}

/** Return a time with three digits that count and its unit. */
export function duration(us: number | null): string {
  if (us === null) return DASH;
  // As it will be written: 999.9 as 1000, for which there is a larger unit.
  const written = Number(us.toPrecision(3));
  const fit = unit([written]);
  const value = us / fit.size;
  const size = Math.abs(written / fit.size);
  return `${fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : 2)} ${fit.name}`;
}

/** Return how many times something is something else: one too small to print is not 0. */
export function times(ratio: number): string {
  if (ratio > 0 && ratio < 0.005) return "<0.01";
  return ratio ? fixed(ratio, ratio >= 100 ? 0 : 2) : "0";
}

/** Return a fraction as percent: a part too small to print is not 0. */
export function percent(fraction: number | null): string {
  if (fraction === null) return DASH;
  if (fraction === 0) return "0";
  return fraction > 0 && fraction < 0.0005 ? "<0.1" : fixed(fraction * 100, 1);
}

/** Return a number of calls per run, which need not be whole. */
export function count(calls: number): string {
  if (Number.isInteger(calls)) return String(calls);
  return calls > 0 && calls < 0.005 ? "<0.01" : fixed(calls, 2);
}

/** Return a name in two pieces, of which the first may be cut at its end: kernel names begin
 * alike and end alike, so both ends say something. `columns` is the room for both. */
export function halves(name: string, columns: number): [string, string] {
  const letters = Array.from(name);
  if (letters.length <= columns) return [name, ""];
  const tail = Math.max(0, Math.floor((columns - 1) / 2));
  const at = letters.length - tail;
  return [letters.slice(0, at).join(""), letters.slice(at).join("")];
}

/** Return a name of at most `columns` letters, cut in its middle. */
export function cut(name: string, columns: number): string {
  const letters = Array.from(name);
  if (letters.length <= columns) return name;
  const head = Math.floor(columns / 2);
  const tail = Math.max(columns - 1 - head, 0);
  return letters.slice(0, head).join("") + "…" + letters.slice(letters.length - tail).join("");
}

/** Return a text in which no number is parted from its unit. */
export function together(text: string): string {
  return text.replace(/(\d) (?=(%|[n\u00b5m]?s)(\W|$))/g, "$1\u00a0");
}
