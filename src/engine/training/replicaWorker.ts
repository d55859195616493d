/**
 * The entry of a worker that trains a further replica of `data-parallel`. It trains like any rank,
 * but reports only failures.
 */
import { ProcessGroup } from '../../collectives/processGroup.ts';
import { systemClock } from '../../util/clock.ts';
import { asError } from '../../util/errors.ts';
import { openAppDevice } from '../device/appDevice.ts';
import { loadJobTask } from '../tasks/loadJobTask.ts';
import { meshOf, type ReplicaStart } from './replicas.ts';
import { SYNCING_TIMEOUT_MS } from './runParticipant.ts';
import { TrainingLoop } from './trainingLoop.ts';
import { transportOf } from '../membership/transport.ts';

async function train({
  rank,
  worldSize,
  generation,
  job,
  files,
  baseUrl,
  ports,
  kernels,
}: ReplicaStart): Promise<void> {
  const { mesh } = meshOf(rank, worldSize, generation, ports);
  const group = new ProcessGroup(mesh, { clock: systemClock, timeoutMs: SYNCING_TIMEOUT_MS });
  try {
    const opened = await openAppDevice(systemClock, kernels);
    const task = await loadJobTask(job, { files, baseUrl }, worldSize);
    const run = await TrainingLoop.prepare({
      plan: job,
      task,
      clock: systemClock,
      device: opened.device,
      emit: () => {},
      checkDevice: () => opened.check(),
    });
    const transport = await transportOf(group);
    await run.enter({ group, transport, signal: new AbortController().signal });
    await run.run();
  } catch (error) {
    // The first replica receives the failure through the group and reports it.
    group.abort(asError(error));
  }
}

globalThis.addEventListener('message', ({ data }: MessageEvent<ReplicaStart>) => void train(data), { once: true });
