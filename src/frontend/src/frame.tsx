// What all that we show stands in: a frame in the colours of the page around it.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { behind, PALETTES, watchTheme, type Theme } from "./theme.ts";

export function Frame({ children }: { children: (theme: Theme) => ComponentChildren }) {
  const root = useRef<HTMLDivElement>(null);
  const [look, setLook] = useState<{ background: string; theme: Theme }>({
    background: "Canvas",
    theme: "light",
  });

  // Before anything is painted, so that a dark page does not flash.
  useLayoutEffect(() => {
    const around = root.current!.parentElement ?? root.current!;
    return watchTheme(() => {
      const now = behind(around);
      setLook((old) =>
        old.background === now.background && old.theme === now.theme ? old : now,
      );
    });
  }, []);

  const colors = Object.fromEntries(
    Object.entries(PALETTES[look.theme]).map(([name, color]) => [`--tp-${name}`, color]),
  );
  return (
    <div
      ref={root}
      class="tp"
      data-tp-theme={look.theme}
      style={{ ...colors, "--tp-bg": look.background }}
      onFocusIn={(event) => {
        // A notebook looks at the element that has the focus: else "b" there makes a cell.
        (event.target as Element).setAttribute("data-lm-suppress-shortcuts", "true");
      }}
    >
      {children(look.theme)}
    </div>
  );
}
