/**
 * A signaling server in a separate process, so that its memory and CPU time can be measured. Its
 * order comes as JSON in the first argument; it sends its URL, and answers each message with its
 * memory after a garbage collection.
 */
import type { Nodes } from '../../src/protocol/room.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { startSignaling, type SignalingOptions } from '../../signaling/index.ts';

export interface ServerSays {
  url: string;
  rooms: string[];
}

export interface ServerMemory {
  /** Resident set and used heap in bytes. */
  rss: number;
  heapUsed: number;
}

/** The order to the process. */
export interface ServerOrder extends Pick<SignalingOptions, 'limits' | 'logLevel' | 'ice' | 'redisUrl'> {
  /** Rooms to open, and the number of members at which each starts. */
  rooms: number;
  startAt: number | null;
  nodes?: Nodes | null;
}

const { rooms, startAt, nodes = null, ...options } = JSON.parse(process.argv[2]!) as ServerOrder;
const server = await startSignaling({ logLevel: 'error', ...options });
const codes = await Promise.all(
  Array.from({ length: rooms }, () => server.openRoom({ job: DEFAULT_JOB, startAt, nodes })),
);
process.send!({ url: server.url, rooms: codes } satisfies ServerSays);
process.on('message', () => {
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  process.send!({ rss, heapUsed } satisfies ServerMemory);
});
process.on('disconnect', () => process.exit());
