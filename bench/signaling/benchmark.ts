/**
 * `bench signaling`: measures the server's memory per connection, the time to relay a signal while
 * thousands of clients are connected, and the time until many clients that join at once are
 * admitted. Server and clients are separate processes that share this machine's cores.
 */
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import { UsageError } from '../../src/util/errors.ts';
import { median, quantile } from '../../src/util/statistics.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { option } from '../command/options.ts';
import { LoadGenerator } from './child.ts';
import type { ClientsIn, ClientsOrder } from './clients.ts';
import { relayTimes } from './members.ts';
import type { ServerMemory, ServerOptions, ServerReply } from './serverProcess.ts';
import { table } from '../../tools/report/table.ts';

interface SignalingBenchOptions {
  clients: number;
  storm: number;
}

/**
 * Bytes of a signal, as many as an SDP offer for a data channel with some candidates, and the
 * number of timed signals. 20 of 2000 signals are slower than p99.
 */
const SIGNAL_BYTES = 2048;
const SIGNALS = 2000;
/** Number of clients that join simultaneously before the measurement. */
const ARRIVING = 100;
/**
 * Maximum milliseconds until many clients have joined. Users wait during this time and see no
 * progress.
 */
const STORM_MS = 5_000;
/** Number of files that a process opens in addition to the sockets of clients. */
const OTHER_FILES = 100;

async function measure({ clients, storm }: SignalingBenchOptions, io: Io): Promise<SignalingResult> {
  checkOpenFiles(clients + storm);
  const idleRooms = Math.ceil(clients / MAX_WORLD_SIZE);
  const stormRooms = Math.ceil(storm / MAX_WORLD_SIZE);
  // All clients have this machine's address, so limits per address are disabled. Only the timed
  // pair becomes ready, so no other room starts a run.
  const many = Number.MAX_SAFE_INTEGER;
  const perAddress = { socketsPerAddress: many, connectionsPerSecond: many, connectionBurst: many };
  const order: ServerOptions = {
    limits: { ...perAddress, maxRooms: many, messagesPerSecond: many, messageBurst: many },
    rooms: 1 + idleRooms + stormRooms,
    startAt: 2,
  };
  const server = new LoadGenerator('./serverProcess.ts', JSON.stringify(order));
  const crowd = new LoadGenerator('./clients.ts');
  try {
    const { url, rooms } = await server.next<ServerReply>();
    const [pairs, idle, fresh] = [rooms.slice(0, 1), rooms.slice(1, 1 + idleRooms), rooms.slice(1 + idleRooms)];
    // The first members cause allocations that happen only once. They are not part of the memory
    // per connection.
    await relayTimes(url, pairs[0]!, SIGNALS, SIGNAL_BYTES);
    const before = await server.ask<ServerMemory>({});
    io.err(`${clients} clients join ${idleRooms} rooms ...`);
    const gather = (own: Omit<ClientsOrder, 'url'>): Promise<ClientsIn> => crowd.ask<ClientsIn>({ url, ...own });
    const gathered = await gather({ rooms: idle, clients, atOnce: ARRIVING });
    const after = await server.ask<ServerMemory>({});
    io.err('Two other clients exchange signals ...');
    const times = await relayTimes(url, pairs[0]!, SIGNALS, SIGNAL_BYTES);
    io.err(`${storm} more clients join at once ...`);
    const stormed = await gather({ rooms: fresh, clients: storm, atOnce: storm });
    return {
      clients,
      failures: gathered.failures,
      bytesPerConnection: Math.round((after.rss - before.rss) / clients),
      relayMs: { median: median(times), p99: quantile(times, 0.99) },
      joinStorm: { clients: storm, ms: Math.round(stormed.ms), failures: stormed.failures },
    };
  } finally {
    await Promise.all([crowd.kill(), server.kill()]);
  }
}

/**
 * Checks that this machine allows enough open files. Node itself raises its limit to the allowed
 * maximum.
 */
function checkOpenFiles(sockets: number): void {
  const report = process.report.getReport() as { userLimits?: { open_files?: { hard: number | 'unlimited' } } };
  const most = report.userLimits?.open_files?.hard ?? 'unlimited';
  if (most === 'unlimited' || sockets + OTHER_FILES <= most) return;
  throw new UsageError(
    `On this machine a process may open only ${most} files, but ${sockets} clients need more. Raise the limit (ulimit -Hn), or pass smaller numbers with --clients and --storm.`,
  );
}

interface SignalingResult {
  /** Number of clients that join to stay connected, and how many of them are not admitted. */
  clients: number;
  failures: number;
  bytesPerConnection: number;
  /** Milliseconds of a signal from one client to another through the server. */
  relayMs: { median: number; p99: number };
  /**
   * Number of clients that join at once, milliseconds until the last one is admitted, and clients
   * that are not admitted.
   */
  joinStorm: { clients: number; ms: number; failures: number };
}

/** Returns a clause for clients that were not admitted, or too late. */
function problemsOf({ failures, joinStorm }: SignalingResult): string[] {
  const missing = failures + joinStorm.failures;
  return [
    ...(missing > 0 ? [`the server did not admit ${missing} clients`] : []),
    ...(joinStorm.ms > STORM_MS
      ? [`the join of ${joinStorm.clients} clients took more than ${STORM_MS / 1000} s`]
      : []),
  ];
}

function section({ clients, failures, bytesPerConnection, relayMs, joinStorm }: SignalingResult): string {
  return `## The signaling server

\`npm run -s bench -- signaling\`: the server runs in one process, and all clients in another one on the same cores. A signal has 2 KiB.

${table(
  ['signaling', 'value'],
  [
    ['clients connected', String(clients - failures)],
    ['bytes per connection', String(bytesPerConnection)],
    ['relay, median, ms', relayMs.median.toFixed(3)],
    ['relay, p99, ms', relayMs.p99.toFixed(3)],
    [`join of ${joinStorm.clients} at once, ms`, String(joinStorm.ms)],
  ],
)}
`;
}

/**
 * Maximum number of clients. All connect from one address, so each needs its own port, and Linux
 * has 28 000 ports for clients.
 */
const MAX_CLIENTS = 20_000;

export const signaling = defineBenchmark({
  name: 'signaling',
  description:
    "measure the signaling server's memory per connection, the relay time, and many joins at once; fails if a client is not " +
    'admitted, or if the joins at once take more than 5 s',
  options: [
    option('--clients <n>', 'number of members that stay connected', wholeNumber(1, MAX_CLIENTS), 5000),
    option('--storm <n>', 'number of members that join at once', wholeNumber(1, MAX_CLIENTS), 1000),
  ],
  measure,
  problemsOf,
  section,
});
