/** The entry of a worker that computes one replica of a DataParallel on a device of its own. */
import { openDevice } from '../device.ts';
import type { ReplicaPort } from './messages.ts';
import { serveDataParallelReplica } from './serveDataParallelReplica.ts';

serveDataParallelReplica(globalThis as unknown as ReplicaPort, openDevice);
