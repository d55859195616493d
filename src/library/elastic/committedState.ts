/** The latest commit of a rank's {@link ElasticState}. */
import { encodeObject } from '../../collectives/objects/encoding.ts';
import { copyOptimizerState, type Optimizer, type OptimizerState } from '../../optim/optimizer.ts';
import type { ElasticSamplerState } from '../../parallel/data/elasticSampler.ts';
import { initialTrainingProgress, type TrainingProgress } from '../../parallel/recovery/progress.ts';
import type { StateParts } from '../../parallel/recovery/gatherSlices.ts';
import type { StateFeedReplica, StateWithProgress } from '../../parallel/recovery/stateFeed.ts';
import { describeDdpModel } from '../../parallel/ddp/verifyModel.ts';
import { createFlatLayout, rearrangeParameters, type FlatLayout } from '../../parallel/flat/buckets.ts';
import { CommittedVariables } from '../../parallel/backward/committedVariables.ts';
import { variablesOf, type ModelVariables } from '../../parallel/backward/flatten.ts';
import { optimizerLayouts } from '../../parallel/flat/optimizerLayout.ts';
import { toFlatOptimizer } from '../../parallel/flat/optimizerOf.ts';
import { errorMessageOf, UsageError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { plainDataFieldsOf, type ElasticState } from './elasticState.ts';

/** The parts of a commit other than its large arrays and its progress. */
export interface ElasticCommitHead {
  scalars: Float64Array<ArrayBuffer>;
  sampler: ElasticSamplerState | null;
  plain: Record<string, unknown>;
}

/** The size of an optimizer's state, which must be the same on all ranks. */
export interface OptimizerStateSize {
  /** Number of arrays of averages in the optimizer's state. */
  averages: number;
  /** Number of other numbers in this state. */
  scalars: number;
}

/** The optimizer, and a copy of its state with the layout of its averages. */
interface CommittedOptimizer {
  readonly live: Optimizer;
  readonly copy: OptimizerState;
  layout: FlatLayout;
}

const NO_VARIABLES: ModelVariables = { model: null, parameters: [], buffers: [] };

/** Returns a digest for each non-empty part of a commit. The keys are the names of the parts. */
export function digestsOfCommitParts({ head, arrays }: StateParts<ElasticCommitHead>): Record<string, string> {
  const [values, ...averages] = arrays;
  const optimizer = [head.scalars, ...averages];
  return Object.fromEntries([
    ...(values!.length > 0 ? [['model', hashOfArrays([values!])]] : []),
    ...(optimizer.some(({ length }) => length > 0) ? [['optimizer', hashOfArrays(optimizer)]] : []),
    ...Object.entries(dataOf(head)).map(([name, value]) => [name, hashOfArrays([encodeObject(value)])]),
  ]) as Record<string, string>;
}

function dataOf({ sampler, plain }: ElasticCommitHead): Record<string, unknown> {
  return { ...(sampler && { sampler }), ...plain };
}

export class CommittedState implements StateFeedReplica<ElasticCommitHead> {
  /**
   * A newcomer cannot repeat the updates of this state, because each update is a commit. So
   * newcomers receive whole states.
   */
  readonly repeater = null;
  /** The parameters and buffers of the state's model. */
  readonly variables: ModelVariables;
  readonly #state: ElasticState;
  readonly #values: CommittedVariables;
  /** The layout in which ranks exchange the optimizer's averages. */
  readonly #layout: FlatLayout;
  readonly #optimizer: CommittedOptimizer | null;
  #sampler: ElasticSamplerState | null = null;
  #plain: Record<string, unknown> = {};
  #steps = 0;
  #generation = 0;

  /**
   * Makes the first commit. Its step is 0.
   *
   * @throws UsageError if there is an optimizer without a model, a variable is not float32, a field
   *   is not plain data, or `optimizerOf` rejects the optimizer.
   */
  constructor(state: ElasticState) {
    const { model, optimizer } = state;
    this.#state = state;
    this.variables = model === undefined ? NO_VARIABLES : variablesOf(model);
    const { parameters } = this.variables;
    const odd = this.#all.find(({ dtype }) => dtype !== 'float32');
    if (odd) {
      throw new UsageError(
        `The variable "${odd.name}" is ${odd.dtype}, but a model of an ElasticState must be float32.`,
      );
    }
    if (optimizer !== undefined && parameters.length === 0) {
      throw new UsageError('The ElasticState has an optimizer without trainable variables. Pass the model, too.');
    }
    this.#layout = createFlatLayout(parameters.map(({ size }) => size));
    this.#optimizer = optimizer === undefined ? null : this.#adopt(toFlatOptimizer(optimizer, parameters));
    this.#copyPlain();
    this.#values = new CommittedVariables(this.#all);
  }

  /** Each commit counts as a step, except the one that the constructor makes. */
  progress(): TrainingProgress {
    return { ...initialTrainingProgress(), step: this.#steps, appliedIn: this.#generation };
  }

  /** Size of the state that ranks send, without its plain fields. */
  get stateBytes(): number {
    const slots = this.#optimizer?.copy.slots ?? [];
    const values = this.#all.reduce((sum, { size }) => sum + size * Float32Array.BYTES_PER_ELEMENT, 0);
    return slots.reduce((sum, slot) => sum + slot.byteLength, values);
  }

  get optimizerSize(): OptimizerStateSize {
    const { slots = [], scalars = [] } = this.#optimizer?.copy ?? {};
    return { averages: slots.length, scalars: scalars.length };
  }

  /**
   * Describes the model, the optimizer and the names of the data fields, as plain data that ranks
   * can compare.
   */
  get program(): unknown {
    return [describeDdpModel(this.variables, {}), this.optimizerSize, Object.keys(dataOf(this.head))];
  }

  /**
   * Copies the state.
   *
   * @throws UsageError if a field is not plain data. In this case, the earlier commit is kept.
   */
  save(generation: number): void {
    this.#copyPlain();
    this.#values.commit();
    const optimizer = this.#optimizer;
    if (optimizer) {
      copyOptimizerState(optimizer.copy, optimizer.live.state());
      optimizer.layout = optimizerLayouts.get(optimizer.live)!;
    }
    this.#steps += 1;
    this.#generation = generation;
  }

  /** Sets the state to the latest commit. */
  restore(): void {
    this.#values.rollBack();
    this.#restoreOthers();
  }

  get head(): ElasticCommitHead {
    const scalars = this.#optimizer?.copy.scalars.slice() ?? new Float64Array();
    return { scalars, sampler: this.#sampler, plain: this.#plain };
  }

  /** Resolves with the latest commit: the variables, then the averages of the optimizer. */
  async read(): Promise<StateWithProgress<ElasticCommitHead>> {
    // These are copied before the first await, because the user's function may make the next commit
    // during it.
    const { head } = this;
    const progress = this.progress();
    const averages = this.#averages();
    return { progress, head, arrays: [await this.#values.read(), ...averages] };
  }

  /** Replaces the commit and the state of this rank with those of another rank. */
  load({ progress, head, arrays }: StateWithProgress<ElasticCommitHead>): void {
    const { scalars, sampler, plain } = head;
    const [values, ...slots] = arrays;
    if (this.#optimizer) {
      const { name } = this.#optimizer.copy;
      copyOptimizerState(this.#optimizer.copy, { name, scalars, slots });
      this.#optimizer.layout = this.#layout;
    }
    this.#values.write(values!);
    this.#sampler = sampler;
    this.#plain = plain;
    this.#steps = progress.step;
    this.#generation = progress.appliedIn;
    this.#restoreOthers();
  }

  dispose(): void {
    this.#values.dispose();
  }

  get #all(): ModelVariables['parameters'] {
    return [...this.variables.parameters, ...this.variables.buffers];
  }

  #adopt(live: Optimizer): CommittedOptimizer {
    const { name, scalars, slots } = live.state();
    const layout = optimizerLayouts.get(live) ?? this.#layout;
    optimizerLayouts.set(live, layout);
    return { live, copy: { name, scalars: scalars.slice(), slots: slots.map((slot) => slot.slice()) }, layout };
  }

  #copyPlain(): void {
    const names = plainDataFieldsOf(this.#state);
    const values = Object.fromEntries(names.map((name) => [name, Reflect.get(this.#state, name)]));
    let copy: Record<string, unknown>;
    try {
      copy = structuredClone(values);
    } catch (error) {
      throw new UsageError(
        `A field of the ElasticState (${names.join(', ')}) is not plain data: ${errorMessageOf(error)} Keep it outside of the state.`,
      );
    }
    this.#plain = copy;
    this.#sampler = this.#state.sampler?.state() ?? null;
  }

  #restoreOthers(): void {
    const { sampler } = this.#state;
    if (this.#optimizer) {
      const { live, copy, layout } = this.#optimizer;
      live.load(copy);
      optimizerLayouts.set(live, layout);
    }
    if (sampler && this.#sampler) sampler.load(this.#sampler);
    Object.assign(this.#state, structuredClone(this.#plain));
  }

  /** Returns the committed averages in the layout in which ranks exchange them. */
  #averages(): Float32Array<ArrayBuffer>[] {
    if (!this.#optimizer) return [];
    const { copy, layout } = this.#optimizer;
    return copy.slots.map((slot) => {
      const average = slot.slice();
      rearrangeParameters(average, layout, this.#layout);
      return average;
    });
  }
}
