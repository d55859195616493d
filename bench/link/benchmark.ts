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

interface LinkBenchOptions {
  json?: true;
}

const KINDS: readonly LinkKind[] = ['bareLink', 'pageLink', 'workerLink', 'portLink'];
/** 256 frames are 16 MiB, which take more than a second on two cores. */
const ARGS = { frames: 256, pings: 100 };
const ROUNDS = 9;

/** @throws (rejects) PeergradError if a tab fails. */
async function benchLink({ json }: LinkBenchOptions, io: Io): Promise<void> {
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

type LinkKind = 'bareLink' | 'pageLink' | 'workerLink' | 'portLink';
type LinkTurns = Record<LinkKind, LinkFigures[]>;

interface LinkRow extends LinkFigures {
  kind: LinkKind;
  /** Throughput divided by that of the bare channel. */
  ratio: number;
}

interface LinkResult {
  rows: LinkRow[];
}

const NAMES: Record<LinkKind, string> = {
  bareLink: 'bare data channel, on the page',
  pageLink: 'simple-peer link, on the page',
  workerLink: 'simple-peer link, in the worker',
  portLink: 'message port, from worker to worker',
};

/** Returns the medians of all rounds. */
export function summaryOf(turns: LinkTurns): LinkResult {
  const kinds = Object.keys(NAMES) as LinkKind[];
  const bare = median(turns.bareLink.map(({ MBps }) => MBps));
  const rows = kinds.map((kind) => {
    const MBps = median(turns[kind].map((turn) => turn.MBps));
    return { kind, MBps, ratio: MBps / bare, roundTripMs: median(turns[kind].map((turn) => turn.roundTripMs)) };
  });
  return { rows };
}

function tableOf({ rows }: LinkResult): string {
  return table(
    ['link', 'MB/s', 'of bare', 'round trip, ms'],
    rows.map(({ kind, MBps, ratio, roundTripMs }) => [
      ...[NAMES[kind], MBps.toFixed(1), ratio.toFixed(2), roundTripMs.toFixed(2)],
    ]),
  );
}

function section(result: LinkResult): string {
  return `## One link

\`npm run -s bench -- link\`: two tabs of one browser. One tab sends 16 MiB in frames of 64 KiB to the other. Then a frame of 32 bytes
travels there and back 100 times. The links are measured in turn, nine times; figures are medians.

${tableOf(result)}

\`--transport auto\` links tabs of one browser by message ports.
`;
}

export const link = defineBenchmark({
  name: 'link',
  description: 'measure one link: a bare channel, a simple-peer link on the page and in a worker, and a message port',
  options: [],
  run: benchLink,
  section,
});
