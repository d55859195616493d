/**
 * `bench lines`: an all-reduce over lines of a known rate, a browser on each of several test hosts
 * (`world/hosts.ts`).
 */
import type { Io } from '../../launcher/io.ts';
import { rowOf, theoryBytes } from '../allreduce/figures.ts';
import { withHosts } from '../world/hosts.ts';
import { World } from '../world/world.ts';
import { tableOf, type LinesResult } from './section.ts';

export interface LinesBenchOptions {
  hosts: string;
  tabs: number;
  /** Megabits a second. */
  rate: number;
  bytes: number;
  json?: true;
}

/**
 * Turns of ours and bare ones, after as many all-reduces as SCTP needs to find out what the line
 * bears.
 */
const ROUNDS = 5;
const WARM_UPS = 2;

/** @throws (rejects) as {@link withHosts}, PeergradError where a tab fails. */
export async function benchLines({ hosts, tabs: n, rate, bytes, json }: LinesBenchOptions, io: Io): Promise<void> {
  const result = await withHosts({ tool: hosts, count: n }, async (on, limit): Promise<LinesResult> => {
    const world = await World.open(n, { hosts: on });
    try {
      await limit(`${rate}mbit`);
      await world.run('allReduce', { bytes, ops: WARM_UPS, isInPlace: true });
      await world.run('bareRing', { bytes, ops: WARM_UPS });
      const ours = [];
      const raw = [];
      for (let round = 0; round < ROUNDS; round++) {
        ours.push(...(await world.run('allReduce', { bytes, ops: 1, isInPlace: true })));
        raw.push(...(await world.run('bareRing', { bytes, ops: 1 })));
      }
      const { medianMs, rawMedianMs, wrong, bytesSentPerRank } = rowOf({ n, bytes, isInPlace: true }, ours, raw);
      const lineMs = (theoryBytes(n, bytes) * 8) / (rate * 1000);
      const ratio = medianMs / lineMs;
      return { n, bytes, rateMbit: rate, medianMs, lineMs, ratio, rawMedianMs, bytesSentPerRank, wrong };
    } finally {
      await world.close();
    }
  });
  io.out(json === undefined ? tableOf(result) : JSON.stringify(result));
}
