/** Runs conformance cases over memory links, with all ranks in this process. */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createMeshes, runRanks } from '../../src/testing/index.ts';
import type { Link } from '../../src/transport/link.ts';
import { systemClock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { errorMessageOf } from '../../src/util/errors.ts';
import type { ConformanceCase, GroupCase } from './case.ts';
import { ConformanceError } from './expect.ts';

/**
 * Deadline of a case in milliseconds. A group's own timeout is shorter, because its error has more
 * details.
 */
export const HANG_MS = 90_000;

interface RunOptions {
  /** Returns whether to run the world size `n`. Default: all sizes of the case. */
  accepts?: (n: number) => boolean;
  /** Creates the two ends of a link between ranks. Default: memory links. */
  createPair?: () => [Link, Link];
}

/** Runs a case. Resolves with the failures, at most one per world size. */
export async function runCase(
  entry: ConformanceCase,
  { accepts = () => true, createPair }: RunOptions = {},
): Promise<string[]> {
  const runs: [where: string, run: () => Promise<unknown>][] =
    'check' in entry
      ? [['', async () => entry.check()]]
      : entry.worlds
          .filter(accepts)
          .map((n) => [
            `world of ${n}, `,
            () => runRanks(createMeshes(n, createPair), (group) => runRank(entry, group, n), entry.options),
          ]);
  const failures: string[] = [];
  for (const [where, run] of runs) {
    try {
      await withinDeadline(systemClock, HANG_MS, run(), () => new ConformanceError(`no end after ${HANG_MS / 1000} s`));
    } catch (error) {
      failures.push(`${where}${errorMessageOf(error)}`);
    }
  }
  return failures;
}

/** Runs one rank's part of a case. @throws (rejects) an error that names the rank. */
export async function runRank({ run }: GroupCase, group: ProcessGroup, n: number): Promise<void> {
  try {
    await run(group, n);
  } catch (error) {
    throw new ConformanceError(`rank ${group.rank}: ${errorMessageOf(error)}`);
  }
}
