/**
 * `bench link`: throughput of one link and round trip of a frame, on every level, measured
 * alternately.
 */
import type { Io } from '../launcher/io.ts';
import { median } from '../src/util/statistics.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import type { LinkFigures } from './link/measureLink.ts';
import { table } from './report/table.ts';
import { World } from './world/world.ts';

export interface LinkBenchOptions {
  json?: true;
}

const KINDS: readonly LinkKind[] = ['bareLink', 'pageLink', 'workerLink', 'portLink'];
/** 16 MiB: more than a second on two cores. */
const ARGS = { frames: 256, pings: 100 };
const ROUNDS = 9;

/** @throws (rejects) PeergradError if a tab fails. */
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

export type LinkKind = 'bareLink' | 'pageLink' | 'workerLink' | 'portLink';
export type LinkTurns = Record<LinkKind, LinkFigures[]>;

export interface LinkRow extends LinkFigures {
  kind: LinkKind;
  /** Throughput divided by the bare channel's. */
  ratio: number;
}

export interface LinkResult {
  rows: LinkRow[];
}

const NAMES: Record<LinkKind, string> = {
  bareLink: 'bare data channel, on the page',
  pageLink: 'simple-peer link, on the page',
  workerLink: 'the same in the worker',
  portLink: 'message port, from worker to worker',
};

/** Medians of all rounds. */
export function summaryOf(turns: LinkTurns): LinkResult {
  const kinds = Object.keys(NAMES) as LinkKind[];
  const bare = median(turns.bareLink.map(({ MBps }) => MBps));
  const rows = kinds.map((kind) => {
    const MBps = median(turns[kind].map((turn) => turn.MBps));
    return { kind, MBps, ratio: MBps / bare, roundTripMs: median(turns[kind].map((turn) => turn.roundTripMs)) };
  });
  return { rows };
}

export function tableOf({ rows }: LinkResult): string {
  return table(
    ['link', 'MB/s', 'of bare', 'round trip, ms'],
    rows.map(({ kind, MBps, ratio, roundTripMs }) => [
      ...[NAMES[kind], MBps.toFixed(1), ratio.toFixed(2), roundTripMs.toFixed(2)],
    ]),
  );
}

export function section(result: LinkResult): string {
  return `## One link

\`npm run -s bench -- link\`: two tabs of one browser; 16 MiB in frames of 64 KiB one way, then frames of 32 bytes for the round trip, one
after the other. Kinds of links in turn, nine times, medians. A simple-peer link carries frames on a second, negotiated data channel of simple-peer's
connection; simple-peer's own channel carries nothing.

${tableOf(result)}

Here the cores' SCTP, DTLS and UDP work limits a link. The worker owns the data channel, so frames do not pass its page. A message port (tabs of one
browser, \`--transport auto\`) is limited by the browser's copying between processes.
`;
}

export const link = defineBenchmark({
  name: 'link',
  description: 'measure one link: a bare channel, a simple-peer link, the same in a worker, and a message port',
  options: [],
  run: benchLink,
  section,
});
