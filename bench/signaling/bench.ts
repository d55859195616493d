/**
 * `bench signaling`: what a connection costs the server, how long it takes to pass a signal on
 * while thousands are connected, and how it takes a crowd that joins at once. Server and crowd are
 * processes of their own, and share this machine's cores.
 */
import type { Io } from '../../launcher/io.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import { PeergradError, UsageError } from '../../src/util/errors.ts';
import { Child } from './child.ts';
import type { ClientsIn, ClientsOrder } from './clients.ts';
import { relayTimes } from './relay.ts';
import { signalingTable, type SignalingResult } from './section.ts';
import type { ServerMemory, ServerOrder, ServerSays } from './serverProcess.ts';

export interface SignalingBenchOptions {
  clients: number;
  storm: number;
  json?: true;
}

/**
 * Bytes of a signal, an SDP offer for a data channel with some candidates, and how many are timed:
 * p99 has 20 beyond it.
 */
const SIGNAL_BYTES = 2048;
const SIGNALS = 2000;
/** Clients on their way in while the crowd gathers: that part is not measured. */
const ARRIVING = 100;
/** Milliseconds that a crowd may take to join: what people wait for without a word. */
const STORM_MS = 5_000;
/** Open files of a process beside its clients' sockets. */
const OTHER_FILES = 100;

/**
 * @throws (rejects) PeergradError where some of a crowd did not get in, or not in time, once all is
 *   printed.
 */
export async function benchSignaling({ clients, storm, json }: SignalingBenchOptions, io: Io): Promise<void> {
  checkOpenFiles(clients + storm);
  const idleRooms = Math.ceil(clients / MAX_WORLD_SIZE);
  const stormRooms = Math.ceil(storm / MAX_WORLD_SIZE);
  // All of them have this machine's one address. Nobody is ready, so only the pair that is timed
  // ever starts.
  const many = Number.MAX_SAFE_INTEGER;
  const perAddress = { socketsPerAddress: many, connectionsPerSecond: many, connectionBurst: many };
  const order: ServerOrder = {
    limits: { ...perAddress, maxRooms: many, messagesPerSecond: many, messageBurst: many },
    ...{ rooms: 1 + idleRooms + stormRooms, startAt: 2 },
  };
  const server = new Child('./serverProcess.ts', JSON.stringify(order));
  const crowd = new Child('./clients.ts');
  try {
    const { url, rooms } = await server.next<ServerSays>();
    const [pairs, idle, fresh] = [rooms.slice(0, 1), rooms.slice(1, 1 + idleRooms), rooms.slice(1 + idleRooms)];
    // What the server makes once, for its first members, is no part of what one more costs.
    await relayTimes(url, pairs[0]!, SIGNALS, SIGNAL_BYTES);
    const before = await server.ask<ServerMemory>({});
    io.err(`${clients} clients join ${idleRooms} rooms ...`);
    const idleOrder: ClientsOrder = { url, rooms: idle, clients, atOnce: ARRIVING };
    const gathered = await crowd.ask<ClientsIn>(idleOrder);
    const after = await server.ask<ServerMemory>({});
    io.err('Signals pass between two others ...');
    const times = await relayTimes(url, pairs[0]!, SIGNALS, SIGNAL_BYTES);
    io.err(`${storm} more join at once ...`);
    const stormed = await crowd.ask<ClientsIn>({ url, rooms: fresh, clients: storm, atOnce: storm });
    const result: SignalingResult = {
      clients: clients - gathered.failures,
      bytesPerConnection: Math.round((after.rss - before.rss) / clients),
      relayMs: { median: quantile(times, 0.5), p99: quantile(times, 0.99) },
      joinStorm: { clients: storm, ms: Math.round(stormed.ms), failures: stormed.failures },
    };
    io.out(json === undefined ? signalingTable(result) : JSON.stringify(result));
    const failures = gathered.failures + stormed.failures;
    if (failures > 0) throw new PeergradError(`${failures} clients did not get in.`);
    if (stormed.ms > STORM_MS) throw new PeergradError(`${storm} clients took more than ${STORM_MS / 1000} s to join.`);
  } finally {
    await Promise.all([crowd.stop(), server.stop()]);
  }
}

/** Node raises its own limit as far as it may. */
function checkOpenFiles(sockets: number): void {
  const report = process.report.getReport() as { userLimits?: { open_files?: { hard: number | 'unlimited' } } };
  const most = report.userLimits?.open_files?.hard ?? 'unlimited';
  if (most === 'unlimited' || sockets + OTHER_FILES <= most) return;
  throw new UsageError(
    `This machine lets a process open ${most} files, and ${sockets} clients need more: raise it (ulimit -Hn), or ask for fewer.`,
  );
}

function quantile(sorted: readonly number[], q: number): number {
  return Number(sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!.toFixed(3));
}
