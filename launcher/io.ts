/** Logs an event: its name, fields for programs, and the same as a sentence. */
export type LogEvent = (event: string, fields: object, line: string) => void;

/** A command's access to its process; tests pass their own. */
export interface Io {
  /** One line for programs and people: the result, the link. */
  readonly out: (line: string) => void;
  /** One line of progress or trouble. */
  readonly err: (line: string) => void;
  /** stderr if it is a terminal (progress is a bar there), else `null`. */
  readonly terminal: NodeJS.WriteStream | null;
  /** Set if stderr has JSON lines. */
  readonly logEvent?: LogEvent;
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
