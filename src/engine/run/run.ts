/**
 * One tab's part in one run, over all generations of the run. It has the data and the model, and
 * the process group of the current generation. Data and model are built once. They are built again
 * only after a failure, or if ranks agree on different facts about the data or on a different
 * vocabulary.
 */
import { DEFAULT_OP_TIMEOUT_MS, type ProcessGroup } from '../../collectives/processGroup.ts';
import type { WeightsFile } from '../../formats/weights/weightsFile.ts';
import type { TrainingProgress } from '../../parallel/recovery/progress.ts';
import { FEEDER_RANK, NEWCOMER_RANK, type NewcomerHooks } from '../../parallel/recovery/stateFeed.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { FILE_SLICE_BYTES } from '../../protocol/frame.ts';
import type { RunResult, WrittenSample } from '../../protocol/runResult.ts';
import { canJobSaveCheckpoints } from '../../spec/job.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { unlessAborted } from '../../util/deadline.ts';
import { UsageError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { FileDistribution } from '../files/fileDistribution.ts';
import { determineFileSliceOrder } from '../files/fileSliceOrder.ts';
import { emitNeighbourLinks, runInGenerationGroup, openRunGroup, type Generation } from '../membership/generation.ts';
import type { RankStateReport } from '../membership/membership.ts';
import { countTransports } from '../membership/transport.ts';
import type { ModelWeightsCopy, TrainedModel } from '../model/modelFiles.ts';
import type { PipelineOutputs } from '../model/pipelineOutputs.ts';
import type { RunState } from '../storage/runState.ts';
import { OwnDataShard } from '../training/data/ownDataShard.ts';
import {
  buildModelAndTask,
  dataLoadOptions,
  sampleFactsOfTask,
  type BuiltRank,
  type RunRankOptions,
} from './buildModelAndTask.ts';

/**
 * Timeout of collectives in SYNCING, in milliseconds. The timeout starts again while all other
 * ranks wait for a rank that loads its data or compiles its shaders. The timeout is shorter than
 * the server's own deadline, because the server's error could not name the late rank.
 */
export const SYNCING_TIMEOUT_MS = 105_000;

/** Objects of a run, in addition to its state, that are still usable after the GPU was lost. */
interface CarryOver {
  /** The model with the best evaluation result, if the job keeps it. */
  best: ModelWeightsCopy | null;
  /** Texts that a language model has written so far. */
  samples: readonly WrittenSample[];
  /** The weights from which the run started. A rank without a state starts from them again. */
  weights: WeightsFile | null;
}

export interface RunOptions extends RunRankOptions {
  run: number;
  /** A saved state from which the run resumes. */
  from: RunState | null;
  /** Objects of the same run that were kept when the GPU was lost. */
  carryOver: CarryOver | null;
}

export class Run {
  readonly #options: RunOptions;
  readonly #fileDistribution: FileDistribution | null;
  /** This tab's own data; `null` if all ranks have the same data. */
  readonly #shard: OwnDataShard | null;
  #building: Promise<BuiltRank> | null = null;
  #built: BuiltRank | null = null;
  #isDisposed = false;
  #hasState: boolean;
  /**
   * The vocabulary of a resumed language model, from this rank or from another. `null` means that
   * the vocabulary is made from the text.
   */
  #vocabulary: Vocabulary | null;
  #best: ModelWeightsCopy | null;
  /** The state from which the model resumes. `null` for a new model and after {@link #drop}. */
  #from: RunState | null;
  #group: ProcessGroup | null = null;
  #result: RunResult | null = null;

  private constructor(options: RunOptions) {
    const { job, files, shared, from, weights, carryOver } = options;
    this.#options = { ...options, emit: advancing(options) };
    this.#fileDistribution =
      shared &&
      new FileDistribution({
        ...this.#options,
        shared,
        orderOf: () => {
          const reached = this.#built?.rank.progress.now ?? this.#from?.progress;
          return options.activity.during('order the files', () =>
            determineFileSliceOrder(shared, job, this.worldSize, reached),
          );
        },
      });
    const origin = { agreed: from?.agreed, vocabulary: weights?.vocabulary };
    this.#shard = job.data.kind === 'federated' ? new OwnDataShard(job, files, origin) : null;
    this.#hasState = from !== null || weights !== null;
    this.#vocabulary = from?.vocabulary ?? weights?.vocabulary ?? null;
    this.#best = carryOver?.best ?? null;
    this.#from = from;
  }

  /**
   * Loads the data, builds the model and compiles its shaders, without communication. In two cases
   * the model is built later. If ranks distribute the files, this rank receives them in `enter`. If
   * each rank has data of its own, ranks first agree on the facts about their data in `enter`.
   *
   * @throws (rejects) as `buildModelAndTask`.
   */
  static async prepare(options: RunOptions): Promise<Run> {
    const run = new Run(options);
    const shard = run.#shard;
    if (shard) {
      await options.activity.during('load the data', () => shard.open(dataLoadOptions(run.#options)));
    } else if (options.shared === null) await run.#build();
    return run;
  }

  /**
   * Builds the model if the data has been loaded, because other ranks would have to wait if it were
   * built only in `enter`.
   *
   * @throws (rejects) as `buildModelAndTask`.
   */
  async prepareAhead(): Promise<void> {
    const hasData = this.#shard ? this.#reached !== null : (this.#fileDistribution?.canOpen ?? true);
    if (hasData) await this.#build();
  }

  get number(): number {
    return this.#options.run;
  }

  /** Whether there is a state that another rank could receive when it joins. */
  get hasState(): boolean {
    return this.#hasState;
  }

  /**
   * Whether {@link snapshot} has a state to copy. Weights from a file become a state only when the
   * model is built.
   */
  get isSavable(): boolean {
    return this.#hasState && (this.#built !== null || this.#from !== null);
  }

  /** Whether this rank has the whole state; see {@link ReplicaStep.snapshot}. */
  get isWhole(): boolean {
    return this.#built?.rank.isWhole ?? true;
  }

  /** The result; `null` before the run has ended. */
  get result(): RunResult | null {
    return this.#result;
  }

  get recording(): FlightRecording | null {
    return this.#group && { ...this.#group.flightRecording, ...structuredClone(this.#built?.loop.recorded ?? {}) };
  }

  get carryOver(): CarryOver {
    const { weights, carryOver } = this.#options;
    const samples = this.#built?.texts?.written ?? carryOver?.samples ?? [];
    return { best: this.#best, samples: [...samples], weights };
  }

  get worldSize(): number {
    return this.#group?.worldSize ?? this.#options.worldSize;
  }

  /** The model that answers queries; `null` before it is built. */
  get answerer(): TrainedModel | null {
    const answerer = this.#built?.answerer;
    return answerer ? { ...answerer, job: this.#options.job, best: this.#best } : null;
  }

  /** Answers queries about a model whose layers are on several ranks; `null` for other models. */
  get outputs(): PipelineOutputs | null {
    return this.#built?.outputs ?? null;
  }

  /**
   * Resolves with a copy of the state after the latest applied step. Does not build the model.
   *
   * @param kind see {@link ReplicaStep.snapshot}.
   * @throws (rejects) UsageError if there is no state yet, and the errors of
   *   {@link ReplicaStep.snapshot}.
   */
  async snapshot(kind: 'own' | 'whole' = 'own'): Promise<RunState> {
    if (!this.#built) {
      if (this.#from) return this.#from;
      throw new UsageError('There is no state to save, because the model is not built yet.');
    }
    const { rank, task, vocabulary } = this.#built;
    const state = await rank.snapshot(kind);
    const agreed = this.#shard ? this.#shard.agreed : task && sampleFactsOfTask(task);
    return { ...state, ...(agreed && { agreed }), ...(vocabulary && { vocabulary }) };
  }

  /**
   * Runs in SYNCING. Creates the generation's process group, distributes the parts of the job's
   * files that are needed before the first step, and synchronizes this rank's state with the other
   * ranks.
   */
  async enter(generation: Generation): Promise<RankStateReport> {
    const { emit, clock, opened } = this.#options;
    const { members, signal } = generation;
    this.#leaveGroup();
    const group = openRunGroup(generation, { clock, emit, timeoutMs: SYNCING_TIMEOUT_MS });
    this.#group = group;
    opened.shareCores?.(group.localWorldSize);
    await emitNeighbourLinks(generation, emit);
    return this.#withDevice(async () => {
      const transport = await countTransports(group);
      // A rank that already has the data builds its model in parallel. A failure is ignored here,
      // because the later call reports it.
      this.prepareAhead().catch(() => {});
      await this.#fileDistribution?.run(group, members);
      await this.#agree(group, signal);
      // If the generation ends, this rank stops waiting, although its model may still be compiling,
      // so that the other ranks need not wait for it.
      const { loop } = await unlessAborted(signal, this.#build());
      const state = await loop.enter({ group, transport, signal });
      this.#hasState = true;
      group.timeoutMs = DEFAULT_OP_TIMEOUT_MS;
      return state;
    });
  }

  /**
   * Whether this rank can receive the state of the run before it is ready, while the others train.
   * The others then do not wait for the transfer, which takes long over a slow line. Returns false
   * if each rank has data of its own or only a part of the state, because then all ranks are
   * needed.
   */
  get canCatchUp(): boolean {
    const { job } = this.#options;
    if (!canJobSaveCheckpoints(job) || job.data.kind === 'federated') return false;
    return this.#fileDistribution?.canOpen === false || (this.#built?.rank.feed?.stateBytes ?? 0) > FILE_SLICE_BYTES;
  }

  /**
   * As a feeder, gives a newcomer the files and the state of the run. As a newcomer, receives them.
   * Resolves when the feed ends.
   *
   * @throws (rejects) errors of the group, and the reason of the feed's signal.
   */
  async feed(feed: Generation, hooks: NewcomerHooks): Promise<void> {
    const { clock, emit } = this.#options;
    const own = feed.rank === FEEDER_RANK ? () => {} : emit;
    await runInGenerationGroup(feed, clock, async (group) => {
      await this.#fileDistribution?.feed(group, feed.members, own);
      await unlessAborted(feed.signal, this.prepareAhead());
      await this.#feedState(group, hooks);
    });
  }

  /** Runs in RUNNING. Trains until the run or the generation ends. */
  async train(): Promise<RankStateReport> {
    return this.#withDevice(async () => {
      const { loop } = await this.#build();
      const result = await loop.run();
      this.#result = result;
      return { step: result.steps, stateHash: result.stateHash[this.#group!.rank]! };
    });
  }

  dispose(): void {
    this.#leaveGroup();
    this.#isDisposed = true;
    if (this.#built) free(this.#built);
    this.#built = null;
  }

  /**
   * Frees everything except the model, which it returns. The caller may query the model, and must
   * dispose of it. If there is no model, frees everything and returns `null`.
   */
  retire(): TrainedModel | PipelineOutputs | null {
    const { answerer, outputs } = this;
    if (!answerer && !outputs) {
      this.dispose();
      return null;
    }
    this.#leaveGroup();
    const last = answerer?.progress();
    this.#built!.rank.dispose();
    return answerer && last ? { ...answerer, progress: () => last } : outputs;
  }

  /**
   * The progress of this rank's state; `null` if this rank has applied no step and does not resume
   * from a saved state.
   */
  get #reached(): Pick<TrainingProgress, 'step' | 'appliedIn'> | null {
    const reached = this.#built?.rank.reached ?? this.#from?.progress;
    return reached && (reached.step > 0 || this.#from !== null) ? reached : null;
  }

  /**
   * Agrees with the other ranks on the vocabulary of a language model. If each rank has data of its
   * own, also agrees on the columns, classes or characters of the data. Every rank must call it.
   */
  async #agree(group: ProcessGroup, signal: AbortSignal): Promise<void> {
    const reached = this.#reached;
    if (await this.#shard?.agree(group, reached)) {
      if (reached) this.#best = null;
      this.#drop();
    }
    await unlessAborted(signal, this.#agreeOnVocabulary(group));
  }

  /**
   * Agrees on a vocabulary. A resumed language model keeps its own vocabulary. Ranks without a
   * state build their model again with the agreed vocabulary.
   */
  async #agreeOnVocabulary(group: ProcessGroup): Promise<void> {
    if (this.#options.job.job !== 'gpt' || this.#shard) return;
    const { vocabulary } = await this.#build();
    if (!vocabulary) return;
    const hash = hashOfArrays([new TextEncoder().encode(JSON.stringify(vocabulary))]);
    const ranks = await group.allGatherObject({ hash, hasState: this.#hasState });
    const first = ranks.findIndex(({ hasState }) => hasState);
    if (first === -1 || ranks.every((rank) => rank.hash === ranks[0]!.hash)) return;
    const kept = await group.broadcastObject(vocabulary, group.ranks[first]!);
    // If two ranks have states with different vocabularies, the next comparison rejects one of the
    // ranks.
    if (this.#hasState || hash === ranks[first]!.hash) return;
    this.#vocabulary = kept;
    this.#drop();
  }

  /** Gives a newcomer the state of the run while the run trains, or receives it. */
  async #feedState(group: ProcessGroup, { onbytes, onnear }: NewcomerHooks): Promise<void> {
    const { rank, task, vocabulary } = await this.#build();
    if (rank.feed === null) {
      if (group.rank === NEWCOMER_RANK) onnear();
      return;
    }
    await rank.feed.run(group, [rank.dataHash, task && sampleFactsOfTask(task), vocabulary], {
      onbytes,
      onnear: () => {
        this.#hasState = true;
        onnear();
      },
    });
  }

  /** Drops the model and the state to resume from, because they do not fit what ranks agreed on. */
  #drop(): void {
    if (this.#built) free(this.#built);
    [this.#building, this.#built, this.#from] = [null, null, null];
    this.#hasState = this.#options.weights !== null;
  }

  /**
   * Resolves with the model and its loop. Later calls return the same promise, until building fails
   * or the model is dropped.
   */
  #build(): Promise<BuiltRank> {
    if (this.#building) return this.#building;
    const { carryOver } = this.#options;
    const building: Promise<BuiltRank> = buildModelAndTask({
      ...this.#options,
      shard: this.#shard,
      from: this.#from,
      vocabulary: this.#vocabulary,
      written: carryOver?.samples ?? [],
      onbest: (copy) => (this.#best = copy),
    }).then(
      (built) => {
        if (this.#isDisposed || this.#building !== building) free(built);
        else this.#built = built;
        return built;
      },
      (error: unknown) => {
        if (this.#building === building) this.#building = null;
        throw error;
      },
    );
    this.#building = building;
    return building;
  }

  /** Runs `work`. If `work` fails because the GPU was lost, throws the GPU's error instead. */
  async #withDevice<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.#options.opened.check();
      throw error;
    }
  }

  #leaveGroup(): void {
    this.#fileDistribution?.leave();
    this.#group?.destroy();
    this.#group = null;
  }
}

function free({ task, rank, outputs }: BuiltRank): void {
  rank.dispose();
  outputs?.dispose();
  task?.dispose();
}

/**
 * Returns an `emit` that also reports progress of this rank to `activity`: the bytes of distributed
 * files that each rank has received.
 */
function advancing({ emit, activity }: RunOptions): RunOptions['emit'] {
  const count = activity.countBytes();
  return (event) => {
    if (event.type === 'distribution') count(event.bytesPerRank);
    emit(event);
  };
}
