/** Measures all-reduces of many sizes around rings of tabs on this machine. */
import { median } from '../../src/util/statistics.ts';
import { World } from '../world/world.ts';
import type { Sample } from './fit.ts';

interface Measured {
  samples: Sample[];
  combineMsPerByte: number;
}

/**
 * Time budget in milliseconds for each size and world. It is divided into rounds over all sizes, so
 * that other load affects them equally.
 */
const BUDGET_MS = 1000;
const ROUNDS = 3;
const OPS = { least: 2, most: 30 };

/** @param log receives lines of progress. */
export async function measureRings(
  worlds: readonly number[],
  sizes: readonly number[],
  log: (line: string) => void,
): Promise<Measured> {
  const samples: Sample[] = [];
  const combines: number[] = [];
  for (const n of worlds) {
    log(`${n} tabs all-reduce ${sizes.length} sizes ...`);
    const world = await World.open(n);
    try {
      combines.push(...(await world.run('combine', null)));
      const times = new Map(sizes.map((bytes): [number, number[]] => [bytes, []]));
      /**
       * The first all-reduce of a run also waits for the slowest rank to start, so it is not
       * measured.
       */
      const run = async (bytes: number, ops: number): Promise<number[]> => {
        const [first] = await world.run('allReduce', { bytes, ops: ops + 1 });
        return first!.ms.slice(1);
      };
      for (let round = 0; round < ROUNDS; round++) {
        for (const [bytes, all] of times) {
          const opMs = all.length > 0 ? median(all) : median(await run(bytes, OPS.least));
          const ops = Math.round(BUDGET_MS / ROUNDS / opMs);
          all.push(...(await run(bytes, Math.min(OPS.most, Math.max(OPS.least, ops)))));
        }
      }
      samples.push(...Array.from(times, ([bytes, all]) => ({ n, bytes, ms: median(all) })));
    } finally {
      await world.close();
    }
  }
  return { samples, combineMsPerByte: median(combines) };
}
