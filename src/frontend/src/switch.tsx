// Buttons of which one is pressed.

interface Props<T> {
  label: string;
  options: [T, string][];
  value: T;
  choose: (value: T) => void;
  off?: boolean;
  class?: string;
}

export function Switch<T>({ label, options, value, choose, off, class: own = "" }: Props<T>) {
  return (
    <div class={`tp-switch ${own}`} role="group" aria-label={label} data-tp-off={!!off}>
      {options.map(([one, text]) => (
        <button key={String(one)} aria-pressed={one === value} title={text} onClick={() => choose(one)}>
          {text}
        </button>
      ))}
    </div>
  );
}
