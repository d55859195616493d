/** `ElasticState`: the data that an elastic job keeps when its ranks change. */
import type { Optimizer } from '../../optim/optimizer.ts';
import type { ElasticSampler } from '../../parallel/data/elasticSampler.ts';
import type { Model, Variable } from '../../parallel/backward/flatten.ts';
import type { TensorflowOptimizer } from '../../parallel/flat/optimizerOf.ts';
import { UsageError } from '../../util/errors.ts';

/**
 * The fields of an {@link ElasticState}. All other fields are plain data, such as numbers, arrays,
 * objects, Map, Set, Date and typed arrays.
 */
export interface ElasticFields {
  /** A LayersModel, or a list of float32 variables. */
  model?: Model | readonly Variable[];
  /**
   * The optimizer that is passed to `ddp.step`: the result of `createOptimizer` or `optimizerOf`,
   * or an optimizer of TensorFlow.js.
   */
  optimizer?: Optimizer | TensorflowOptimizer;
  sampler?: ElasticSampler;
}

/**
 * The state of an elastic job: its fields, which may be changed at any time, and {@link commit}.
 * After a change of the ranks, `elastic` sets all fields on all ranks to the values of the latest
 * commit.
 */
export type ElasticState<Fields extends object = object> = Fields & CommittableState;

/** The job that uses a state. */
interface Committer {
  commit(): void;
  readonly isOver: boolean;
}

const committers = new WeakMap<object, Committer>();

class CommittableState implements ElasticFields {
  declare readonly model?: Required<ElasticFields>['model'];
  declare readonly optimizer?: Required<ElasticFields>['optimizer'];
  declare readonly sampler?: Required<ElasticFields>['sampler'];

  constructor(fields: ElasticFields) {
    if ('commit' in fields) {
      throw new UsageError('A field of an ElasticState cannot be named commit. Choose another name.');
    }
    Object.assign(this, fields);
  }

  /**
   * Keeps a copy of all fields in memory: of parameters, buffers, the optimizer's averages, the
   * sampler's position and plain data. Call it on every rank at the same points of the program. At
   * these points, the fields must have the same values on all ranks. Call it after every step if
   * possible, because work after the latest commit is lost when the ranks change.
   *
   * When the ranks have changed, it rejects, so that `elastic` can call the function again.
   * (Horovod: `state.commit`, with its `check_host_updates`)
   *
   * @throws (rejects) UsageError outside of `elastic`, or if a field is not plain data. If the
   *   group has ended, the error of the group.
   */
  async commit(): Promise<void> {
    const committer = committers.get(this);
    if (!committer) {
      throw new UsageError('commit was called outside of elastic. Call it in the function that elastic calls.');
    }
    committer.commit();
  }
}

export const ElasticState = CommittableState as new <Fields extends object>(
  fields: Fields & ElasticFields,
) => ElasticState<Fields>;

/**
 * Connects a state to the job that uses it.
 *
 * @throws UsageError if another job uses it.
 */
export function connectElasticState(state: ElasticState, committer: Committer): void {
  if (committers.get(state)?.isOver === false) {
    throw new UsageError('This ElasticState is used by another call of elastic. Create a state for each call.');
  }
  committers.set(state, committer);
}

/** Names of the fields with plain data, in alphabetical order. */
export function plainDataFieldsOf(state: ElasticState): string[] {
  return Object.keys(state)
    .filter((name) => !['model', 'optimizer', 'sampler'].includes(name))
    .toSorted();
}
