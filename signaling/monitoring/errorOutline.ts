/** Describes an error without its message, because the message may quote what a member sent. */
export function outlineOf(error: unknown): { error: string; at: string[] } {
  if (!(error instanceof Error)) return { error: typeof error, at: [] };
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  return { error: error.name, at: frames.map((line) => line.trim()) };
}
