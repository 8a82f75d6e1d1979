// What stands above all else: the verdict with its numbers, why, and what was run.

import type { Payload } from "./payload.ts";
import { Link } from "./link.tsx";
import { inked } from "./theme.ts";
import { together } from "./words.ts";

interface Props {
  payload: Pick<Payload, "headline" | "reason" | "first" | "details">;
  /** Go to the finding that is named here. */
  open?: () => void;
}

export function Answer({ payload, open }: Props) {
  const { headline, reason, first, details } = payload;
  const { lead, text, tone, about } = headline;
  return (
    <div class="tp-answer">
      <h2 class="tp-title">
        {lead && <b style={inked(tone)} {...(about && { tabIndex: 0, "data-tp-tip": about })}>{lead} </b>}
        {together(lead ? text : text.charAt(0).toUpperCase() + text.slice(1))}
      </h2>
      {reason && <p class="tp-why">{together(reason)}</p>}
      {first && (
        <p class="tp-why">
          {first[0].charAt(0).toUpperCase() + first[0].slice(1)}
          <Link open={open!}>{together(first[1])}</Link>
          {together(first[2])}
        </p>
      )}
      {details.map((line) => (
        <p class="tp-detail" key={line}>
          {together(line.charAt(0).toUpperCase() + line.slice(1))}
        </p>
      ))}
    </div>
  );
}

export function Warnings({ lines }: { lines: string[] }) {
  return (
    <>
      {lines.map((line) => (
        <p key={line} class="tp-warning">
          <b>Note</b> {line}
        </p>
      ))}
    </>
  );
}
