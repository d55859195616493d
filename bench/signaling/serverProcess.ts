/**
 * A signaling server in a separate process, so that its memory and CPU time can be measured. The
 * first argument is a {@link ServerOptions} as JSON. The process sends its URL, and answers each
 * message with its memory after a garbage collection.
 */
import type { Nodes } from '../../src/protocol/room.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { startSignaling, type SignalingOptions } from '../../signaling/index.ts';

export interface ServerReply {
  url: string;
  rooms: string[];
}

export interface ServerMemory {
  /** Resident set and used heap in bytes. */
  rss: number;
  heapUsed: number;
}

/** Options of the process. */
export interface ServerOptions extends Pick<SignalingOptions, 'limits' | 'logLevel' | 'ice' | 'redisUrl'> {
  /** Rooms to open, and the number of members at which each starts. */
  rooms: number;
  startAt: number | null;
  nodes?: Nodes | null;
}

const { rooms, startAt, nodes = null, ...options } = JSON.parse(process.argv[2]!) as ServerOptions;
const server = await startSignaling({ logLevel: 'error', ...options });
const codes = await Promise.all(
  Array.from({ length: rooms }, () => server.openRoom({ job: DEFAULT_JOB, startAt, nodes })),
);
process.send!({ url: server.url, rooms: codes } satisfies ServerReply);
process.on('message', () => {
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  process.send!({ rss, heapUsed } satisfies ServerMemory);
});
process.on('disconnect', () => process.exit());
