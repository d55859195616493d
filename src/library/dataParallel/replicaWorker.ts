/** The entry of a worker that computes one replica of a DataParallel on a device of its own. */
import { openDevice } from '../../engine/device/device.ts';
import { systemClock } from '../../util/clock.ts';
import type { ReplicaEnd } from './messages.ts';
import { serveReplica } from './serveReplica.ts';

serveReplica(globalThis as unknown as ReplicaEnd, () => openDevice(systemClock));
