import type * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { distribute, type DistributedModel } from '../../../src/library/distribute/distributedModel.ts';
import { createMeshes, runRanks } from '../../../src/testing/index.ts';
import type { PeergradError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';

const RANKS = 3;

/** Runs three ranks; resolves with the error of each. `isAlive` is false if the group ended. */
export async function errorsOf(
  create: (rank: number) => tf.LayersModel,
  main: (trainer: DistributedModel, group: ProcessGroup) => Promise<unknown>,
): Promise<{ error: PeergradError; isAlive: boolean }[]> {
  return runRanks(createMeshes(RANKS), async (group) => {
    const model = create(group.rank);
    let trainer: DistributedModel | null = null;
    const error = await errorOf(
      (async () => {
        trainer = await distribute(model, group);
        return main(trainer, group);
      })(),
    );
    (trainer as DistributedModel | null)?.dispose();
    (model.optimizer as tf.Optimizer | undefined)?.dispose();
    model.dispose();
    const isAlive = group.failure === null && (await group.allGatherObject(1)).length === RANKS;
    return { error, isAlive };
  });
}
