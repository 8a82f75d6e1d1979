// A button that copies a text, and says whether it did.

import { useEffect, useRef, useState } from "preact/hooks";
import { copy } from "./trace.ts";

interface CopyProps {
  /** What is on the button. */
  what: string;
  /** What a reader of the screen is told beside it. */
  about?: string;
  text: () => string;
}

export function Copy({ what, about, text }: CopyProps) {
  const [told, setTold] = useState(what);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const onClick = async () => {
    setTold((await copy(text())) ? "Copied" : "Refused");
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setTold(what), 2000);
  };
  return (
    <button class="tp-copy" aria-label={about && `${told}: ${about}`} onClick={onClick}>
      {told}
    </button>
  );
}
