/**
 * Records when bytes moved over this rank's links, so that deadlines measure a lack of progress. An
 * op also progresses while ops that this rank called before it do, because they use the same links.
 * Later ops do not count: otherwise ranks that go on without a missing rank would hide it.
 */

/** Number of entries above which neighbouring entries are merged. */
const MAX_ENTRIES = 512;

interface Entry {
  /** The entry is about ops that were called at this time, and not before the previous entry's. */
  readonly calledAt: number;
  movedAt: number;
}

export class Progress {
  /** In ascending order of both times. */
  #entries: Entry[] = [];
  /** Functions that return the global ranks for which an op waits, one for each op in flight. */
  readonly waits = new Set<() => readonly number[]>();

  /** Records that bytes of an op arrived or left. */
  moved(calledAt: number, now: number): void {
    const entries = this.#entries;
    while (entries.length > 0 && entries.at(-1)!.calledAt > calledAt) entries.pop();
    const last = entries.at(-1);
    if (last?.calledAt === calledAt) last.movedAt = now;
    else entries.push({ calledAt, movedAt: now });
    // Each pair becomes one entry with the earlier call and the later progress. So the times of old
    // calls become coarse, but stay finite.
    if (entries.length > MAX_ENTRIES) {
      this.#entries = entries.flatMap(({ calledAt: since }, i) =>
        i % 2 === 0 ? { calledAt: since, movedAt: (entries[i + 1] ?? entries[i]!).movedAt } : [],
      );
    }
  }

  /** Returns when ops that were called at `calledAt` or before moved bytes; at least `calledAt`. */
  since(calledAt: number): number {
    const entry = this.#entries.findLast((some) => some.calledAt <= calledAt);
    return Math.max(calledAt, entry?.movedAt ?? calledAt);
  }
}

/** The bytes of a transfer, for error messages. */
export interface Transferred {
  moved: number;
  total: number;
  startedAt: number | null;
  /** When bytes moved last; `null` if none have. */
  movedAt: number | null;
}

/**
 * Returns text such as `0 of 40 bytes have arrived` or `2048 of 4096 bytes have arrived at 2 kB/s,
 * none in the last 60 s`.
 */
export function transferText({ moved, total, startedAt, movedAt }: Transferred, verb: string, now: number): string {
  const text = `${moved} of ${total} bytes have ${verb}`;
  if (moved === 0 || movedAt === null || startedAt === null) return text;
  const rate = movedAt > startedAt ? ` at ${Number((moved / (movedAt - startedAt)).toPrecision(2))} kB/s` : '';
  return `${text}${rate}, none in the last ${Math.round((now - movedAt) / 1000)} s`;
}
