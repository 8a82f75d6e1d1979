// How figures are put into words: the same as `views/words.py`, which shares its test cases.

export const DASH = "–";

export interface Unit {
  name: string;
  us: number;
}

const UNITS: Unit[] = [
  { name: "s", us: 1e6 },
  { name: "ms", us: 1e3 },
  { name: "µs", us: 1 },
  { name: "ns", us: 1e-3 },
];
const MICROSECONDS = UNITS[2]!;
const NANOSECONDS = UNITS[3]!;

/** Return the unit in which the largest of the given times has one to three digits. */
export function unit(times: Iterable<number | null>): Unit {
  let largest = 0;
  for (const us of times) if (us !== null) largest = Math.max(largest, Math.abs(us));
  return UNITS.find((one) => largest >= one.us) ?? (largest ? NANOSECONDS : MICROSECONDS);
}

/** Return a number with so many decimals, ties to the even digit as Python's format does it. */
export function fixed(value: number, decimals: number): string {
  // A tie is exact in binary, or it is none: then the value is an odd part of a power of two.
  const tie = value * 2 ** (decimals + 1);
  if (!Number.isInteger(tie) || tie % 2 === 0) return value.toFixed(decimals);
  const below = Math.floor(value * 10 ** decimals);
  return ((below + (Math.abs(below) % 2)) / 10 ** decimals).toFixed(decimals);
}

/** Return a time in a unit, without its name: one too small to print is not 0. */
export function number(us: number | null, of: Unit): string {
  if (us === null) return DASH;
  if (us === 0) return "0";
  const value = us / of.us;
  if (Math.abs(value) < 0.005) return value > 0 ? "<0.01" : ">-0.01";
  return fixed(value, 2);
}

/** Return a time with three digits that count and its unit. */
export function duration(us: number | null): string {
  if (us === null) return DASH;
  // As it will be written: 999.9 as 1000, for which there is a larger unit.
  const written = Number(us.toPrecision(3));
  const fit = unit([written]);
  const value = us / fit.us;
  const size = Math.abs(written / fit.us);
  return `${fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : 2)} ${fit.name}`;
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
