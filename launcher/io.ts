/** Logs an event: its name, its fields for programs, and a sentence for people. */
export type LogEvent = (event: string, fields: object, line: string) => void;

/**
 * The parts of its process that a command uses: output, terminal and signals. Tests pass their own.
 */
export interface Io {
  /** Prints one line of output, such as the result or a link. */
  readonly out: (line: string) => void;
  /** Logs one line of progress or errors. */
  readonly err: (line: string) => void;
  /** stderr if it is a terminal, which can show a progress bar; otherwise `null`. */
  readonly terminal: NodeJS.WriteStream | null;
  /** Logs an event as a JSON line. Only set with `--json-lines`. */
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
