/**
 * `bench link`: measures the throughput of a link and the round trip of a frame, for each kind of
 * link in turn.
 */
import type { Io } from '../../launcher/io.ts';
import { median } from '../../src/util/statistics.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import type { LinkFigures } from './measureLink.ts';
import { table } from '../../tools/report/table.ts';
import { World } from '../world/world.ts';

/** The links by kind. The first is that with which the others are compared. */
const LINKS = {
  bareLink: 'bare data channel, on the page',
  workerLink: 'simple-peer link, in the worker',
  portLink: 'message port, from worker to worker',
} as const;
type LinkKind = keyof typeof LINKS;
const KINDS = Object.keys(LINKS) as LinkKind[];
const ROUNDS = 9;

/** @throws (rejects) PeergradError if a tab fails. */
async function measure(_options: object, io: Io): Promise<LinkResult> {
  const turns = await World.use(2, io, {}, (world) =>
    World.use(2, io, { transport: 'auto' }, (ported) => takeTurns(world, ported, io)),
  );
  return summaryOf(turns);
}

/** @param ported a world whose tabs are linked by a message port. */
async function takeTurns(world: World, ported: World, io: Io): Promise<LinkTurns> {
  const turns: LinkTurns = { bareLink: [], workerLink: [], portLink: [] };
  const measureOne = (kind: LinkKind) => (kind === 'portLink' ? ported.run('workerLink', null) : world.run(kind, null));
  for (const kind of KINDS) await measureOne(kind);
  for (let round = 0; round < ROUNDS; round++) {
    io.err(`round ${round + 1} of ${ROUNDS} ...`);
    for (const kind of round % 2 === 0 ? KINDS : KINDS.toReversed()) {
      const [figures] = await measureOne(kind);
      turns[kind].push(figures!);
    }
  }
  return turns;
}

type LinkTurns = Record<LinkKind, LinkFigures[]>;

interface LinkRow extends LinkFigures {
  kind: LinkKind;
  /** Throughput divided by that of the bare channel. */
  ratio: number;
}

interface LinkResult {
  rows: LinkRow[];
}

/** Returns the medians of all rounds. */
export function summaryOf(turns: LinkTurns): LinkResult {
  const rateOf = (kind: LinkKind): number => median(turns[kind].map(({ MBps }) => MBps));
  const rows = KINDS.map((kind) => {
    const MBps = rateOf(kind);
    const roundTripMs = median(turns[kind].map((turn) => turn.roundTripMs));
    return { kind, MBps, ratio: MBps / rateOf('bareLink'), roundTripMs };
  });
  return { rows };
}

function section({ rows }: LinkResult): string {
  return `## One link

\`npm run -s bench -- link\`: two tabs of one browser. One tab sends 16 MiB in frames of 64 KiB to the other. Then a frame of 32 bytes
travels there and back 100 times. The links are measured in turn, nine times; figures are medians.

${table(
  ['link', 'MB/s', 'of bare', 'round trip, ms'],
  rows.map(({ kind, MBps, ratio, roundTripMs }) => [
    ...[LINKS[kind], MBps.toFixed(1), ratio.toFixed(2), roundTripMs.toFixed(2)],
  ]),
)}

\`--transport auto\` links tabs of one browser by message ports.
`;
}

export const link = defineBenchmark({
  name: 'link',
  description: 'measure one link: a bare data channel, a simple-peer link in a worker, and a message port',
  options: [],
  measure,
  section,
});
