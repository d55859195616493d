/** The passes of the warm-up before the first step. */
import { inHalfPrecision } from '../../gpu/kernels/halfPrecision.ts';
import { QUARTERS_PER_BATCH } from '../../parallel/data/passTimes.ts';
import { runRestoringModelBuffers, variablesOf } from '../../parallel/backward/flatten.ts';
import { differentiatePassAlone, type Pass, type PassOptions } from '../../parallel/backward/pass.ts';
import type { ReportedDevice } from '../../protocol/room.ts';
import type { GradScaler } from '../../parallel/backward/gradScaler.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import { compileShadersAhead, type CompileShadersOptions } from '../../gpu/compile.ts';
import type { TrainingTask } from '../tasks/task.ts';
import type { RunStrategy } from './runStrategy.ts';
import { canBalanceWork } from './data/workBalance.ts';

interface WarmUpOptions {
  plan: TrainingPlan;
  task: TrainingTask;
  device: ReportedDevice;
  strategy: RunStrategy;
  /** The scaler for passes in mixed precision; `null` if passes have full precision. */
  gradScaler: GradScaler | null;
}

/**
 * Compiles the shaders of every kind of pass. Those of the training passes are compiled in
 * parallel. Also computes one training pass, which shows in which order gradients become ready. The
 * state does not change. CPU backends compile nothing, so a batch of one sample is enough for them,
 * unless the user's model or loss requires a fixed batch size.
 */
export async function warmUpPasses(
  { task, strategy, gradScaler, plan, device }: WarmUpOptions,
  compiling: CompileShadersOptions,
): Promise<void> {
  const compiles = device.backend === 'webgpu' || device.backend === 'webgl';
  const batchSize = compiles || !task.takesAnySize ? plan.batchSize : 1;
  const variables = variablesOf(task.model);
  const withPass = (size: number, use: (pass: Pass, options: PassOptions) => Promise<void>): Promise<void> => {
    const first = Uint32Array.from({ length: Math.min(size, task.trainSamples) }, (_, i) => i);
    return runRestoringModelBuffers(task.model, () =>
      task.withBatch(first, (pass) => use(pass, passOptions(first, gradScaler)), { step: 0, epoch: 0 }, size),
    );
  };
  const compile = (pass: Pass): Promise<void> => {
    const record = (): void => differentiatePassAlone(pass, variables).dispose();
    return compileShadersAhead(gradScaler ? () => inHalfPrecision(record) : record, compiling);
  };
  await withPass(batchSize, async (pass, options) => {
    await compile(pass);
    await strategy.warmUp(pass, options);
  });
  if (!compiles) return;
  // If ranks can have unequal shares, steps also have passes of this smaller size.
  if (canBalanceWork({ task, strategy, plan })) await withPass(Math.ceil(batchSize / QUARTERS_PER_BATCH), compile);
  if (task.testSamples > 0 && plan.measure === null) await task.evaluate(new Uint32Array());
}

/** Returns the options of a pass over some samples. A task's loss is the sum over these samples. */
export function passOptions({ length }: Uint32Array, gradScaler: GradScaler | null): PassOptions {
  return { samples: length, reduction: 'sum', gradScaler };
}
