/** What `bench auto` tells of its runs, and what follows from them. Pure. */
import type { CodecChoice } from '../../src/protocol/runResult.ts';

export interface Learned {
  codec: string;
  /**
   * Milliseconds since the first step began until held-out accuracy had reached the goal; `null` if
   * it did not.
   */
  reachedMs: number | null;
  /** Steps until then. */
  steps: number;
  /** At the last test. */
  accuracy: number;
  /**
   * Medians of steps by the last codec, milliseconds: of whole ones; of what the slowest rank does
   * by itself; of what the rank waits for that waits least, as the others wait for slower ones,
   * too.
   */
  stepMs: number;
  ownMs: number;
  exposedMs: number;
  /** The first step by it. */
  chosenAt: number;
  choice: CodecChoice | null;
}

export interface AutoResult {
  tabs: number;
  /**
   * What a step took by itself on lines without a cap, and what each host received then at most,
   * kilobits per second.
   */
  ownMs: number;
  rateKbit: number;
  /** In turn. */
  fp32: Learned[];
  auto: Learned[];
  /** fp32's time over auto's, of all rounds together; `null` where one did not get there. */
  sooner: number | null;
}

/** Communication over all else, with fp32. */
const TIMES_OWN = 4;

/** So slow that a ring's bytes take so many times as long as a step by itself. */
export function rateFor(gradientBytes: number, n: number, ownMs: number): number {
  const bytes = (2 * (n - 1) * gradientBytes) / n;
  return Math.max(1, Math.round((bytes * 8) / (TIMES_OWN * ownMs)));
}

/**
 * @returns how many times as long as `auto` `fp32` took, all rounds together; `null` where a run
 *   did not get there.
 */
export function soonerOf({ fp32, auto }: Pick<AutoResult, 'fp32' | 'auto'>): number | null {
  const [plain, chosen] = [msOf(fp32), msOf(auto)];
  return plain === null || chosen === null ? null : plain / chosen;
}

function msOf(runs: readonly Learned[]): number | null {
  const times = runs.flatMap(({ reachedMs }) => reachedMs ?? []);
  return times.length < runs.length ? null : times.reduce((sum, ms) => sum + ms, 0);
}
