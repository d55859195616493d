/**
 * The forward and backward passes of a step, and the passes of the warm-up before the first step.
 */
import { inHalfPrecision } from '../../../gpu/kernels/halfPrecision.ts';
import { PARTS } from '../../../parallel/data/passTimes.ts';
import { keepingBuffers, variablesOf } from '../../../parallel/backward/flatten.ts';
import { differentiateAlone, type Pass, type PassOptions } from '../../../parallel/backward/pass.ts';
import type { Device } from '../../../protocol/room.ts';
import type { GradScaler } from '../../../parallel/backward/gradScaler.ts';
import type { PassCaptures } from '../../../parallel/backward/passCaptures.ts';
import type { StepReport } from '../../../parallel/strategies/index.ts';
import type { TrainingPlan } from '../../../spec/plan.ts';
import type { Clock } from '../../../util/clock.ts';
import { compileAhead, type CompileOptions } from '../../../gpu/compile.ts';
import type { Task } from '../../tasks/task.ts';
import type { RunStrategy } from '../runStrategy.ts';
import type { StepAssignment } from './sampleAssigner.ts';

interface Learner {
  task: Task;
  strategy: RunStrategy;
  /** Not `null` if passes are computed in mixed precision. */
  gradScaler: GradScaler | null;
  /** Replays training passes. `null`: their ops run in each step. */
  captures: PassCaptures | null;
}

/** A step that a rank has taken, and what the rank itself has computed for it. */
interface LearnedStep {
  report: StepReport;
  own: OwnPass[];
}

/** A pass of a step. */
export interface OwnPass {
  /** Number of samples with padding, and without. */
  size: number;
  samples: number;
  /** Milliseconds, without the update of parameters and without waits for other ranks. */
  ms: number;
}

/**
 * Takes a step. Computes the gradient of this rank's part of the step in one or more passes. The
 * strategy combines this gradient with the other ranks' gradients.
 *
 * @param onapplied called when the step is applied, with the mean loss and the number of samples.
 */
export async function learn(
  { task, strategy, gradScaler, captures, clock, learningRate }: Learner & { clock: Clock; learningRate: number },
  step: number,
  { window, indices, passes }: StepAssignment,
  onapplied: (loss: number, samples: number) => void,
): Promise<LearnedStep> {
  const { elastic, accumulator } = strategy;
  const todo = indices.slice(elastic?.heldSamples ?? 0);
  let at = 0;
  const batches = passes.map((size) => {
    const samples = todo.subarray(at, at + size);
    at += size;
    return { samples, size };
  });
  const last = batches.pop()!;
  const own: OwnPass[] = [];
  let startedAt = clock.now();
  if (accumulator) {
    for (const { samples, size } of batches) {
      await task.withBatch(
        samples,
        (pass) => accumulator.accumulate(pass, { ...optionsOf(samples, gradScaler), captures }),
        step,
        size,
      );
      const endedAt = clock.now();
      own.push({ size, samples: samples.length, ms: endedAt - startedAt });
      startedAt = endedAt;
    }
  }
  const accumulatedMs = own.reduce((sum, { ms }) => sum + ms, 0);
  const options = { ...optionsOf(last.samples, gradScaler), captures, totalSamples: window.size, learningRate };
  const report = await task.withBatch(
    last.samples,
    (pass, oncomputed) =>
      strategy.step(pass, { ...options, oncomputed }, ({ loss, samples }) => onapplied(loss, samples)),
    step,
    last.size,
  );
  const ms = clock.now() - startedAt - report.exposed - report.update;
  own.push({ size: last.size, samples: last.samples.length, ms });
  return { report: { ...report, compute: accumulatedMs + report.compute }, own };
}

/**
 * Compiles the shaders of every kind of pass, those of the training passes in parallel, and
 * computes one training pass, which shows in which order gradients become ready. The state does not
 * change. Backends on the CPU compile nothing, so one sample is enough for them, unless a user's
 * model or loss is made for one batch size.
 */
export async function warmUp(
  { task, strategy, gradScaler, plan, device }: Omit<Learner, 'captures'> & { plan: TrainingPlan; device: Device },
  testsHeldOut: boolean,
  compiling: CompileOptions,
): Promise<void> {
  const compiles = device.backend === 'webgpu' || device.backend === 'webgl';
  const batchSize = compiles || !task.takesAnySize ? plan.batchSize : 1;
  const variables = variablesOf(task.model);
  const withPass = (size: number, use: (pass: Pass, options: PassOptions) => Promise<void>): Promise<void> => {
    const first = Uint32Array.from({ length: Math.min(size, task.trainSamples) }, (_, i) => i);
    return keepingBuffers(task.model, () =>
      task.withBatch(first, (pass) => use(pass, optionsOf(first, gradScaler)), 0, size),
    );
  };
  const compile = (pass: Pass): Promise<void> => {
    const record = (): void => differentiateAlone(pass, variables).dispose();
    return compileAhead(gradScaler ? () => inHalfPrecision(record) : record, compiling);
  };
  await withPass(batchSize, async (pass, options) => {
    await compile(pass);
    await strategy.warmUp(pass, options);
  });
  if (!compiles) return;
  // Unequal shares have passes of this size, too.
  if (canBalance({ task, strategy, plan })) await withPass(Math.ceil(batchSize / PARTS), compile);
  if (task.testSamples > 0 && testsHeldOut) await task.evaluate(new Uint32Array());
}

/**
 * Returns whether unequal shares have the same result as equal shares. Ranks must be able to
 * compute any sample, and the step must be a sum over samples. Statistics of a batch, as in batch
 * normalization, depend on the batch; models with such layers have buffers.
 */
export function canBalance({
  task,
  strategy,
  plan,
}: Pick<Learner, 'task' | 'strategy'> & { plan: TrainingPlan }): boolean {
  return (
    plan.balance === 'speed' &&
    strategy.accumulator !== null &&
    task.isShard !== true &&
    plan.batchSize >= PARTS &&
    variablesOf(task.model).buffers.length === 0
  );
}

/** Returns the options of a pass over some samples. A task's loss is the sum over these samples. */
function optionsOf({ length }: Uint32Array, gradScaler: GradScaler | null): PassOptions {
  return { samples: length, reduction: 'sum', gradScaler };
}
