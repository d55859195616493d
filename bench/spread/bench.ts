/**
 * `bench spread`: a file that rank 0 has, handed on to all tabs, against bare data channels that
 * carry as many bytes, in turn in the same tabs: round the ring, as an all-reduce does, and down
 * the same way as the file.
 */
import type { Io } from '../../launcher/io.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { World } from '../world/world.ts';
import { ringTensor, rowOf, tableOf, type SpreadRow, type SpreadRounds } from './figures.ts';

export interface SpreadBenchOptions {
  tabs: number;
  bytes: number;
  json?: true;
}

const ROUNDS = 5;

/**
 * @throws (rejects) PeergradError where a tab fails, or a file is not that of rank 0 in the end.
 */
export async function benchSpread({ tabs, bytes, json }: SpreadBenchOptions, io: Io): Promise<void> {
  const world = await World.open(tabs);
  let row: SpreadRow;
  try {
    row = await measure(world, bytes, io);
  } finally {
    await world.close();
  }
  io.out(json === undefined ? tableOf([row]) : JSON.stringify(row));
  if (row.wrong > 0) throw new PeergradError(`${row.wrong} files were not that of rank 0.`);
}

/**
 * Each kind first in turn, after a round that warms up: browsers compile, and SCTP finds out what
 * the line bears.
 */
async function measure(world: World, bytes: number, io: Io): Promise<SpreadRow> {
  const rounds = { ours: [], ring: [], chain: [] } as { [Kind in keyof SpreadRounds]: SpreadRounds[Kind][number][] };
  const turns = [
    async () => void rounds.ring.push(await world.run('bareRing', { bytes: ringTensor(world.size, bytes), ops: 1 })),
    async () => void rounds.ours.push(await world.run('spreadFile', { bytes })),
    async () => void rounds.chain.push(await world.run('bareChain', { bytes })),
  ];
  for (let round = 0; round <= ROUNDS; round++) {
    io.err(round === 0 ? 'warming up ...' : `round ${round} of ${ROUNDS} ...`);
    for (let i = 0; i < turns.length; i++) await turns[(i + round) % turns.length]!();
    if (round === 0) for (const kind of Object.values(rounds)) kind.length = 0;
  }
  return rowOf({ n: world.size, bytes }, rounds);
}
