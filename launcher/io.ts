/** Logs an event: its name, its fields for programs, and a sentence for people. */
export type LogEvent = (event: string, fields: object, line: string) => void;

/** A command's access to its process; tests pass their own. */
export interface Io {
  /** Prints one line of output: the result, the link. */
  readonly out: (line: string) => void;
  /** Logs one line of progress or errors. */
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
