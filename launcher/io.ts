/** Writes an event: its name, what programs may want of it, and the same in a sentence. */
export type Tell = (event: string, fields: object, line: string) => void;

/** What a command may touch of its process; tests pass their own. */
export interface Io {
  /** One line for programs and people: the result, the link. */
  readonly out: (line: string) => void;
  /** One line of progress or trouble. */
  readonly err: (line: string) => void;
  /** stderr where it is a terminal (progress is a bar there), else `null`. */
  readonly terminal: NodeJS.WriteStream | null;
  /** Where stderr has JSON lines. */
  readonly tell?: Tell;
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal;
}

/** Resolves when the user interrupts. */
export function interrupted({ signal }: Io): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
