// A part of a sentence that goes somewhere. A real button would not be broken into lines as text is.

import type { ComponentChildren } from "preact";

interface Props {
  open: () => void;
  class?: string;
  children: ComponentChildren;
}

export function Link({ open, class: also = "", children }: Props) {
  return (
    <span
      class={`tp-link ${also}`}
      role="button"
      tabIndex={0}
      onClick={(event) => {
        event.stopPropagation();
        open();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        open();
      }}
    >
      {children}
    </span>
  );
}
