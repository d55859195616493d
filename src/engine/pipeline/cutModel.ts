/** Cuts a job's model into the stages of a grid. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { cutLayers } from '../../parallel/pipeline/cutLayers.ts';
import { measureLayerTimes } from '../../parallel/pipeline/measureLayerTimes.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import { STATE_BYTES_PER_WEIGHT } from '../../spec/pipeline.ts';
import type { ThreadActivity } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import { UsageError } from '../../util/errors.ts';
import type { PipelineGrid } from './pipelineGrid.ts';
import type { PipelineModel, PipelineTask } from './pipelineTask.ts';

interface CutModelOptions {
  task: PipelineTask;
  clock: Clock;
  activity: ThreadActivity;
  /** The memory of a tab for weights, gradients and averages, in bytes. */
  maxBytes: number;
}

/**
 * Returns the number of layers of each stage (see `cutLayers`). Rank 0 chooses it for all ranks,
 * because measured costs differ between ranks. Every rank must call it.
 *
 * @param options.isNew whether no rank has a state of the model.
 * @returns `null` if a model that has been trained does not fit in the remaining tabs.
 * @throws (rejects) UsageError if a new model cannot be cut.
 */
export async function agreeOnLayerCut(
  group: ProcessGroup,
  { stages }: PipelineGrid,
  model: PipelineModel,
  options: CutModelOptions & { isNew: boolean; emit: (event: EngineEvent) => void | Promise<void> },
): Promise<number[] | null> {
  const choose = async (): Promise<{ cut: number[] } | { message: string }> => {
    try {
      return { cut: await cutModel(model, stages, options) };
    } catch (error) {
      if (error instanceof UsageError) return { message: error.message };
      throw error;
    }
  };
  const choice = await group.broadcastObject(group.rank === 0 ? await choose() : undefined, group.ranks[0]!);
  if ('cut' in choice) return choice.cut;
  if (options.isNew) throw new UsageError(choice.message, { rank: group.rank, worldSize: group.worldSize });
  await options.emit({ type: 'note', message: `The run waits for more tabs. ${choice.message}` });
  return null;
}

async function cutModel(
  model: PipelineModel,
  stages: number,
  { task, clock, activity, maxBytes }: CutModelOptions,
): Promise<number[]> {
  const costs = model.cost?.layers ?? (await activity.during('measure the layers', () => costsOf(task, clock)));
  const layers = model.layers.map(({ name, size }, i) => ({
    name,
    cost: costs[i]!,
    bytes: size * STATE_BYTES_PER_WEIGHT,
  }));
  return cutLayers(layers, stages, { ring: model.ring, lossCost: model.cost?.logits ?? 0, maxBytes });
}

/** Measures the layers with one sample. */
async function costsOf(task: PipelineTask, clock: Clock): Promise<number[]> {
  const batch = await task.load(Uint32Array.of(0), 1, { step: 0, epoch: 0 }, true);
  try {
    return await measureLayerTimes(task.createModel().layers, batch.inputs, clock);
  } finally {
    batch.inputs.dispose();
    batch.dispose();
  }
}
