// Order and choice of rows: a table is columns and a list of row numbers, never copied records.

export type Cell = number | string | null;

/** Return the rows sorted by the cells; what was not measured comes last, either way. */
export function sorted(rows: number[], cell: (row: number) => Cell, descending: boolean): number[] {
  const sign = descending ? -1 : 1;
  const keyed = rows.map((row) => ({ row, value: cell(row) }));
  keyed.sort((a, b) => {
    if (a.value === null || b.value === null) {
      return a.value === b.value ? a.row - b.row : a.value === null ? 1 : -1;
    }
    const order = a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
    return order ? sign * order : a.row - b.row;
  });
  return keyed.map((one) => one.row);
}

export interface Filter {
  /** Tell whether one of the texts is wanted. */
  test: (texts: string[]) => boolean;
  /** What is wrong with the pattern, or null. */
  error: string | null;
}

/** Return the test that a filter text means: a part of a name, or a regular expression. */
export function filter(text: string, regex: boolean): Filter {
  if (!text) return { test: () => true, error: null };
  if (!regex) {
    const wanted = text.toLowerCase();
    const test = (texts: string[]) => texts.some((one) => one.toLowerCase().includes(wanted));
    return { test, error: null };
  }
  try {
    const pattern = new RegExp(text, "i");
    return { test: (texts) => texts.some((one) => pattern.test(one)), error: null };
  } catch (error) {
    return { test: () => true, error: error instanceof Error ? error.message : String(error) };
  }
}
