/**
 * Runs a signaling server in a separate process, so that it can be measured. The first
 * argument is a {@link ServerOptions} as JSON. The process first sends its URL, and then answers
 * questions about its use of this machine.
 */
import type { Nodes } from '../../src/protocol/room.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { startSignaling, type SignalingOptions } from '../../signaling/index.ts';
import { answerUsage } from './usage.ts';

export interface ServerReply {
  url: string;
  rooms: string[];
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
answerUsage();
