/** The step of a rank that is alone, as the engine takes it. */
import { openAppDevice } from '../../src/engine/device/appDevice.ts';
import { passOptions, warmUpPasses } from '../../src/engine/training/warmUp.ts';
import { createRunStrategy } from '../../src/engine/training/runStrategy.ts';
import { variablesOf } from '../../src/parallel/backward/flatten.ts';
import { PassCaptures } from '../../src/parallel/backward/passCaptures.ts';
import { systemClock as clock } from '../../src/util/clock.ts';
import { DeviceError, PeergradError } from '../../src/util/errors.ts';
import { MODELS, type OpenArgs, type Peer } from './args.ts';
import { loadTask } from './task.ts';

export async function openPeergrad({ peer, model, backend }: OpenArgs): Promise<Peer> {
  const own = await openAppDevice(clock, 'own');
  const { device, note } = own;
  if (device.backend !== backend) throw new DeviceError(`the tab computes on ${device.backend}. ${note}`);
  if (peer === 'threads') own.shareCores?.(1);
  const { job, task, indicesOf, problem } = await loadTask(model);
  const strategy = await createRunStrategy(job, { task, clock, checkDevice: () => own.check(), emit: () => {} });
  // A slow step must not be measured as if it were the usual one.
  const captures = PassCaptures.of(variablesOf(task.model), (reason) => (notReplayed = reason));
  let notReplayed: string | null = null;
  const { batch } = MODELS[model];
  await warmUpPasses({ plan: { ...job, batchSize: batch }, task, device, strategy, gradScaler: null }, { clock });
  let step = 0;
  return {
    problem,
    step: async (i) => {
      const indices = indicesOf(i);
      const options = { ...passOptions(indices, null), captures, totalSamples: batch, learningRate: job.learningRate };
      const { loss } = await task.withBatch(
        indices,
        (pass, oncomputed) => strategy.step(pass, { ...options, oncomputed }, () => {}),
        { step: step++, epoch: 0 },
        batch,
      );
      if (notReplayed !== null) throw new PeergradError(notReplayed);
      return loss;
    },
  };
}
