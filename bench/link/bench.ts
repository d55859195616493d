/**
 * `bench link`: what one link carries, and how long a frame takes there and back, on every level:
 * each is measured in turn.
 */
import type { Io } from '../../launcher/io.ts';
import { World } from '../world/world.ts';
import { summaryOf, tableOf, type LinkKind, type LinkTurns } from './figures.ts';

export interface LinkBenchOptions {
  json?: true;
}

const KINDS: readonly LinkKind[] = ['bareLink', 'pageLink', 'workerLink', 'portLink'];
/** 16 MiB: over a second here. */
const ARGS = { frames: 256, pings: 100 };
const ROUNDS = 9;

/** @throws (rejects) PeergradError where a tab fails. */
export async function benchLink({ json }: LinkBenchOptions, io: Io): Promise<void> {
  const world = await World.open(2);
  const ported = await World.open(2, { transport: 'auto' });
  const turns: LinkTurns = { bareLink: [], pageLink: [], workerLink: [], portLink: [] };
  const measure = (kind: LinkKind) => (kind === 'portLink' ? ported.run('workerLink', ARGS) : world.run(kind, ARGS));
  try {
    for (const kind of KINDS) await measure(kind);
    for (let round = 0; round < ROUNDS; round++) {
      io.err(`round ${round + 1} of ${ROUNDS} ...`);
      for (const kind of round % 2 === 0 ? KINDS : KINDS.toReversed()) {
        const [figures] = await measure(kind);
        turns[kind].push(figures!);
      }
    }
  } finally {
    await Promise.all([world.close(), ported.close()]);
  }
  const result = summaryOf(turns);
  io.out(json === undefined ? tableOf(result) : JSON.stringify(result));
}
