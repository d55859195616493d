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

/** The links by kind, and the bare connections with which they are compared. */
const LINKS = {
  bareLink: { name: 'bare data channel, on the page', bare: 'bareLink' },
  pageLink: { name: 'simple-peer link, on the page', bare: 'bareLink' },
  workerLink: { name: 'simple-peer link, in the worker', bare: 'bareLink' },
  portLink: { name: 'message port, from worker to worker', bare: 'bareLink' },
  relayLink: { name: 'bare WebSocket over a relay, in the worker', bare: 'relayLink' },
  serverLink: { name: 'link through the server, in the worker', bare: 'relayLink' },
} as const;
type LinkKind = keyof typeof LINKS;
const KINDS = Object.keys(LINKS) as LinkKind[];
/** 256 frames are 16 MiB, which take more than a second on two cores. */
const ARGS = { frames: 256, pings: 100 };
const ROUNDS = 9;

/** @throws (rejects) PeergradError if a tab fails. */
async function benchLink({ json }: LinkBenchOptions, io: Io): Promise<void> {
  const world = await World.open(2);
  const ported = await World.open(2, { transport: 'auto' });
  const served = await World.open(2, { transport: 'server' });
  const turns = Object.fromEntries(KINDS.map((kind) => [kind, [] as LinkFigures[]])) as LinkTurns;
  const measure = (kind: LinkKind) => {
    if (kind === 'portLink') return ported.run('workerLink', ARGS);
    if (kind === 'serverLink') return served.run('workerLink', ARGS);
    return kind === 'relayLink' ? served.run(kind, ARGS) : world.run(kind, ARGS);
  };
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
    await Promise.all([world, ported, served].map((one) => one.close()));
  }
  const result = summaryOf(turns);
  io.out(json === undefined ? tableOf(result) : JSON.stringify(result));
}

type LinkTurns = Record<LinkKind, LinkFigures[]>;

interface LinkRow extends LinkFigures {
  kind: LinkKind;
  /** Throughput divided by that of the bare connection. */
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
    const ratio = MBps / rateOf(LINKS[kind].bare);
    return { kind, MBps, ratio, roundTripMs: median(turns[kind].map((turn) => turn.roundTripMs)) };
  });
  return { rows };
}

function tableOf({ rows }: LinkResult): string {
  return table(
    ['link', 'MB/s', 'of bare', 'round trip, ms'],
    rows.map(({ kind, MBps, ratio, roundTripMs }) => [
      ...[LINKS[kind].name, MBps.toFixed(1), ratio.toFixed(2), roundTripMs.toFixed(2)],
    ]),
  );
}

function section(result: LinkResult): string {
  return `## One link

\`npm run -s bench -- link\`: two tabs of one browser. One tab sends 16 MiB in frames of 64 KiB to the other. Then a frame of 32 bytes
travels there and back 100 times. The links are measured in turn, nine times; figures are medians. *of bare* compares the link through
the server with the bare WebSocket, and other links with the bare data channel.

${tableOf(result)}

\`--transport auto\` links tabs of one browser by message ports. The server and the relay are processes of their own. The relay
forwards the messages of two WebSockets to each other. The server does so too, and the ends of its link encrypt frames.
`;
}

export const link = defineBenchmark({
  name: 'link',
  description:
    'measure one link: bare connections, a simple-peer link on the page and in a worker, a message port, and through the server',
  options: [],
  run: benchLink,
  section,
});
