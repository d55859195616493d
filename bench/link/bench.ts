/** `bench link`: what one link carries, and how long a frame takes there and back, on every level: each is measured in turn. */
import type { Io } from '../../launcher/io.ts';
import { World } from '../world/world.ts';
import { summaryOf, tableOf, type LinkKind, type LinkTurns } from './figures.ts';

export interface LinkBenchOptions {
  json?: true;
}

const KINDS: readonly LinkKind[] = ['bareLink', 'pageLink', 'workerLink'];
/** 16 MiB: over a second here. */
const ARGS = { frames: 256, pings: 100 };
const ROUNDS = 9;

/** @throws (rejects) PeergradError where a tab fails. */
export async function benchLink({ json }: LinkBenchOptions, io: Io): Promise<void> {
  const world = await World.open(2);
  const turns: LinkTurns = { bareLink: [], pageLink: [], workerLink: [] };
  try {
    for (const kind of KINDS) await world.run(kind, ARGS);
    for (let round = 0; round < ROUNDS; round++) {
      io.err(`round ${round + 1} of ${ROUNDS} ...`);
      for (const kind of round % 2 === 0 ? KINDS : KINDS.toReversed()) {
        const [figures] = await world.run(kind, ARGS);
        turns[kind].push(figures!);
      }
    }
  } finally {
    await world.close();
  }
  const result = summaryOf(turns);
  io.out(json === undefined ? tableOf(result) : JSON.stringify(result));
}
