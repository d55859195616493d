/** Builds this rank's stage when a world is entered, and receives its layers. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { createOptimizer as createOptimizerOf, type Optimizer } from '../../optim/index.ts';
import type { OpenStageMirrorStorage } from '../../parallel/pipeline/mirrorStorage.ts';
import { StageMirror } from '../../parallel/pipeline/stageMirror.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { ThreadActivity } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import { PeergradError } from '../../util/errors.ts';
import { layerMovesToCut, type AgreedStageState, type HeldStages } from './heldStages.ts';
import type { PipelineGrid } from './pipelineGrid.ts';
import { PipelineModelStage } from './pipelineModelStage.ts';
import type { RunOutputs } from './stagedWorld.ts';
import type { PipelineModel, PipelineTask } from './pipelineTask.ts';

interface ReceiveOptions {
  group: ProcessGroup;
  grid: PipelineGrid;
  model: PipelineModel;
  /** Number of layers of each stage. */
  cut: readonly number[];
  agreed: AgreedStageState;
  held: HeldStages;
  /** Number of applied steps. */
  step: number;
  plan: JobSpec;
  task: PipelineTask;
  clock: Clock;
  outputs: Pick<RunOutputs, 'initialize'>;
  openMirrorStorage: OpenStageMirrorStorage;
  activity: ThreadActivity;
  emit: (event: EngineEvent) => void | Promise<void>;
}

/**
 * Every rank must call it.
 *
 * @returns the hash of this rank's replica.
 * @throws (rejects) PeergradError if no rank has some of the layers.
 */
export async function receiveStageState(options: ReceiveOptions): Promise<string> {
  const {
    group,
    grid,
    model,
    cut,
    agreed,
    held,
    step,
    plan: job,
    task,
    clock,
    outputs,
    openMirrorStorage,
    activity,
    emit,
  } = options;
  const { moves, lost } = layerMovesToCut(agreed, grid, cut);
  if (agreed.scalars !== null && lost.length > 0) {
    const names = lost.map((layer) => model.layers[layer]!.name);
    throw new PeergradError(
      `The layers ${names.join(', ')} are lost after step ${step}, because the tabs that held these layers and the copies left at the same ` +
        'time. Start the run again. With at least twice as many tabs as stages, the run has replicas and tolerates the loss of more tabs.',
      { rank: group.rank, worldSize: group.worldSize, step },
    );
  }
  const { optimizer, learningRate, weightDecay } = job;
  const settings = { learningRate, ...(weightDecay === null ? {} : { weightDecay }) };
  const createOptimizer = (size: number): Optimizer => createOptimizerOf(optimizer, settings, size);
  const stage = grid.groups
    ? await activity.during('build the layers', () =>
        PipelineModelStage.create(model, grid, { job, task, clock, cut, createOptimizer }),
      )
    : null;
  // If there are several replicas, other ranks have the same stage, so no mirror is needed.
  const isMirrored = grid.replicas === 1 && grid.stages > 1;
  let hasBegun = false;
  const onprogress = (): void => {
    activity.advance();
    if (!hasBegun) void emit({ type: 'warmup', stage: 'layers', message: 'Receiving layers' });
    hasBegun = true;
  };
  const createMirror = isMirrored
    ? (own: PipelineModelStage, isInitial: boolean) =>
        StageMirror.create(own.stage, {
          createOptimizer,
          openStorage: openMirrorStorage,
          initial: isInitial ? task.createModel().layers : null,
          onprogress,
        })
    : null;
  return held.receive(group, grid, stage, agreed, {
    moves,
    initialize: () => outputs.initialize({ group, grid, stage }),
    createMirror,
    onprogress,
  });
}
