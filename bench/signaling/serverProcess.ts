/**
 * Runs a signaling server in a separate process, so that it can be measured. The first argument is
 * a {@link ServerOptions} as JSON. The process first sends its URL. Then it answers the message
 * `{"type": "cpu"}` with {@link ServerCpu}, and each other message with {@link ServerMemory}. It
 * exits when its parent does.
 */
import type { NodeCountRange } from '../../src/protocol/room.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { startSignaling, type SignalingOptions } from '../../signaling/index.ts';

export interface ServerReply {
  url: string;
  rooms: string[];
}

/** Memory after a garbage collection, in bytes. */
export interface ServerMemory {
  /** Resident set size. */
  rss: number;
  heapUsed: number;
}

export interface ServerCpu {
  /** Processor time of all threads since the process began, milliseconds. */
  cpuMs: number;
}

/** Options of the server process. */
export interface ServerOptions extends Pick<SignalingOptions, 'dist' | 'limits' | 'logLevel' | 'ice' | 'redisUrl'> {
  /** Number of rooms to open, and the number of members with which each room starts its run. */
  rooms: number;
  startAt: number | null;
  nodes?: NodeCountRange | null;
}

const { rooms, startAt, nodes = null, ...options } = JSON.parse(process.argv[2]!) as ServerOptions;
const server = await startSignaling({ logLevel: 'error', ...options });
const codes = await Promise.all(
  Array.from({ length: rooms }, () => server.openRoom({ job: DEFAULT_JOB, startAt, nodes })),
);
process.send!({ url: server.url, rooms: codes } satisfies ServerReply);
process.on('message', ({ type }: { type?: 'cpu' }) => {
  if (type === 'cpu') {
    const { userCPUTime, systemCPUTime } = process.resourceUsage();
    process.send!({ cpuMs: (userCPUTime + systemCPUTime) / 1000 } satisfies ServerCpu);
    return;
  }
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  process.send!({ rss, heapUsed } satisfies ServerMemory);
});
process.on('disconnect', () => process.exit());
