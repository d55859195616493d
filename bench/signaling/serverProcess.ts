/**
 * Runs a signaling server in a separate process, so that it can be measured. The first
 * argument is a {@link ServerOptions} as JSON. The process first sends its URL. It answers the
 * message `{"type": "cpu"}` with its processor time, and each other message with its memory usage
 * after a garbage collection.
 */
import type { Nodes } from '../../src/protocol/room.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { startSignaling, type SignalingOptions } from '../../signaling/index.ts';

export interface ServerReply {
  url: string;
  rooms: string[];
}

export interface ServerMemory {
  /** Resident set size, and used heap in bytes. */
  rss: number;
  heapUsed: number;
}

export interface ServerCpu {
  /** Processor time of all threads since the process began, milliseconds. */
  cpuMs: number;
}

/** Options of the server process. */
export interface ServerOptions extends Pick<SignalingOptions, 'limits' | 'logLevel' | 'ice' | 'redisUrl'> {
  /** Number of rooms to open, and the number of members with which each room starts its run. */
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
process.on('message', (question: { type?: 'cpu' }) => {
  if (question.type === 'cpu') {
    const { user, system } = process.cpuUsage();
    process.send!({ cpuMs: (user + system) / 1000 } satisfies ServerCpu);
    return;
  }
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  process.send!({ rss, heapUsed } satisfies ServerMemory);
});
process.on('disconnect', () => process.exit());
