/**
 * The data and the model of one run on this tab. Both are built once. They are built again only
 * after a failure, or if ranks agree on other facts about the data or on another vocabulary.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { LoadDataOptions } from '../../jobs/fileSource.ts';
import { checkFacts } from '../../jobs/dataDifference.ts';
import type { EngineEvent, LoadProgress } from '../../protocol/events.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { keepsModel } from '../../spec/job.ts';
import { isPipeline, TAB_BYTES } from '../../spec/pipeline.ts';
import type { SampleFacts } from '../../spec/dataFacts.ts';
import type { Preview } from '../../spec/preview.ts';
import type { Progress } from '../../parallel/recovery/progress.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { NEWCOMER, type FeedHooks, type StateFeed } from '../../parallel/recovery/stateFeed.ts';
import type { Activity } from '../../util/activity.ts';
import { unlessAborted } from '../../util/deadline.ts';
import { UsageError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';
import { TextGenerator } from '../tasks/textGenerator.ts';
import type { JobTask } from '../tasks/jobTask.ts';
import { namingTask } from '../tasks/namingTask.ts';
import { loadJobTask } from '../tasks/loadJobTask.ts';
import { OwnShard } from '../training/data/ownShard.ts';
import { setWeights } from '../model/modelWeights.ts';
import { copyModel, type ModelCopy, type TrainedModel } from '../model/modelFiles.ts';
import { SampleTexts, type SampleAuthor } from '../tasks/sampleTexts.ts';
import type { CarryOver, RunParticipantOptions } from './runParticipantOptions.ts';
import type { RunState } from '../storage/runState.ts';
import { TrainingLoop } from '../training/trainingLoop.ts';
import { ReplicaStep } from '../training/replicaStep.ts';
import { StageStep } from '../pipeline/stageStep.ts';
import { PipelineOutputs } from '../model/pipelineOutputs.ts';
import { loadPipelineTask } from '../pipeline/pipelineTask.ts';
import { openMirrorStorage } from '../storage/mirrorFile.ts';

/** The objects that training needs. They exist once the data has been loaded. */
interface Built {
  /** `null` if ranks hold stages of the model. */
  task: JobTask | null;
  /** Writes texts with a language model; `null` for other models. */
  samples: SampleTexts | null;
  /** Texts and files of a model whose layers are on several ranks; `null` for other models. */
  outputs: PipelineOutputs | null;
  rank: ReplicaStep | StageStep;
  loop: TrainingLoop;
}

/** Milliseconds between two reports of the progress of loading. */
const PROGRESS_MS = 1000;

export class RunModel {
  readonly #options: RunParticipantOptions;
  /** This tab's own data; `null` if all ranks have the same data. */
  readonly #shard: OwnShard | null;
  #building: Promise<Built> | null = null;
  #built: Built | null = null;
  #isDisposed = false;
  #hasState: boolean;
  /**
   * The vocabulary of a resumed language model, from this rank or from another. `null` means that
   * the vocabulary is made from the text.
   */
  #vocabulary: Vocabulary | null;
  #best: ModelCopy | null;
  /** The state from which the model resumes. `null` for a new model and after {@link #drop}. */
  #from: RunState | null;

  constructor(options: RunParticipantOptions) {
    const { job, files, from, weights, carryOver } = options;
    this.#options = options;
    this.#from = from;
    const origin = { agreed: from?.agreed, vocabulary: weights?.vocabulary };
    this.#shard = job.data.kind === 'federated' ? new OwnShard(job, files, origin) : null;
    this.#hasState = from !== null || weights !== null;
    this.#best = carryOver?.best ?? null;
    this.#vocabulary = from?.vocabulary ?? weights?.vocabulary ?? null;
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

  /** Traces, lanes and clocks of the latest steps, for the flight recorder. */
  get recorded(): Partial<FlightRecording> {
    return structuredClone(this.#built?.loop.recorded ?? {});
  }

  get carryOver(): CarryOver {
    const { weights, carryOver } = this.#options;
    const samples = this.#built?.samples?.written ?? carryOver?.samples ?? [];
    return { best: this.#best, samples: [...samples], weights };
  }

  /** The model that answers queries; `null` before it is built. */
  get answerer(): TrainedModel | null {
    if (!this.#built) return null;
    const { task, rank, loop } = this.#built;
    if (!task || !(rank instanceof ReplicaStep)) return null;
    const { job } = this.#options;
    const progress = () => ({ steps: loop.steps, stateHash: rank.stateHash() });
    return { job, model: task.queryModel, progress, best: this.#best };
  }

  /**
   * Loads the data that this tab can load without other ranks. Builds the model, unless its data
   * depends on other ranks.
   *
   * @throws (rejects) as {@link loop}.
   */
  async open(): Promise<void> {
    const shard = this.#shard;
    if (shard) await this.#options.activity.during('load the data', () => shard.open(this.#source.onprogress));
    else if (this.#options.shared === null) await this.#build();
  }

  /** Builds the model if its data has been loaded. @throws (rejects) as {@link loop}. */
  async buildAhead(): Promise<void> {
    const hasData = this.#shard ? this.#reached !== null : (this.#options.shared?.isWhole ?? true);
    if (hasData) await this.#build();
  }

  /**
   * Resolves with the training loop, once the model is built.
   *
   * @throws (rejects) DataError if the data cannot be used, or if the weights do not fit the model;
   *   DeviceError if the GPU fails.
   */
  async loop(): Promise<TrainingLoop> {
    return (await this.#build()).loop;
  }

  /** Size of the state that a newcomer receives; 0 if it receives none, or without a model. */
  get fedBytes(): number {
    return this.#feed?.stateBytes ?? 0;
  }

  get #feed(): StateFeed | null {
    const rank = this.#built?.rank;
    return rank instanceof ReplicaStep ? rank.feed : null;
  }

  /** Gives a newcomer the state of the run beside the training, or receives it. */
  async feed(group: ProcessGroup, { onbytes, onnear }: FeedHooks): Promise<void> {
    const { task } = await this.#build();
    const vocabulary = task?.queryModel instanceof TextGenerator ? task.queryModel.vocabulary : null;
    if (this.#feed === null) {
      if (group.rank === NEWCOMER) onnear();
      return;
    }
    await this.#feed.run(group, [await task?.dataHash(), task && factsOf(task), vocabulary], {
      onbytes,
      onnear: () => {
        this.#hasState = true;
        onnear();
      },
    });
  }

  /** Called when this rank's state is equal to the state of all ranks. */
  entered(): void {
    this.#hasState = true;
  }

  /** Whether this rank has the whole state; see {@link ReplicaStep.snapshot}. */
  get isWhole(): boolean {
    const rank = this.#built?.rank;
    return !(rank instanceof ReplicaStep) || rank.isWhole;
  }

  /**
   * Resolves with a copy of the state after the latest applied step. Does not build the model.
   *
   * @param kind see {@link ReplicaStep.snapshot}.
   * @throws (rejects) UsageError if there is no state yet; as {@link ReplicaStep.snapshot}.
   */
  async snapshot(kind: 'own' | 'whole'): Promise<RunState> {
    if (!this.#built) {
      if (this.#from) return this.#from;
      throw new UsageError('There is no state to save, because the model is not built yet.');
    }
    const { task, rank } = this.#built;
    if (rank instanceof StageStep) {
      throw new UsageError(
        'A run with a pipeline cannot be saved, because no tab has the whole model. Choose pipeline 1.',
      );
    }
    const state = await rank.snapshot(kind);
    const agreed = this.#shard ? this.#shard.agreed : task && factsOf(task);
    return {
      ...state,
      ...(agreed && { agreed }),
      ...(task?.queryModel instanceof TextGenerator && { vocabulary: task.queryModel.vocabulary }),
    };
  }

  /**
   * Agrees with the other ranks on the vocabulary of a language model. If each rank has data of its
   * own, also agrees on the columns, classes or characters of the data. Every rank must call it.
   */
  async agree(group: ProcessGroup, signal: AbortSignal): Promise<void> {
    const reached = this.#reached;
    if (await this.#shard?.agree(group, reached)) {
      if (reached) this.#best = null;
      this.#drop();
    }
    await unlessAborted(signal, this.#agreeOnVocabulary(group));
  }

  /**
   * Resolves with the fields of the result that only language models have, after a run of `steps`
   * steps.
   */
  async textResult(steps: number): Promise<Pick<RunResult, 'bigramLoss' | 'samples'>> {
    const { task, samples } = await this.#build();
    if (!(task?.queryModel instanceof TextGenerator) || samples === null) return {};
    return { bigramLoss: task.queryModel.bigramLoss, samples: await samples.finish(steps) };
  }

  dispose(): void {
    this.#isDisposed = true;
    if (this.#built) free(this.#built);
    this.#built = null;
  }

  /** Answers queries about a model whose layers are on several ranks; `null` for other models. */
  get outputs(): PipelineOutputs | null {
    return this.#built?.outputs ?? null;
  }

  /**
   * Frees everything except the model, which it returns. The caller may query the model, and must
   * dispose of it. If there is no model, frees everything and returns `null`.
   */
  retire(): TrainedModel | PipelineOutputs | null {
    const { answerer, outputs } = this;
    if (outputs) {
      this.#built!.loop.dispose();
      return outputs;
    }
    if (!this.#built || !answerer) {
      this.dispose();
      return null;
    }
    const last = answerer.progress();
    this.#built.loop.dispose();
    return { ...answerer, progress: () => last };
  }

  /**
   * Agrees on a vocabulary. A resumed language model keeps its own vocabulary. Ranks without a
   * state build their model again with that vocabulary.
   */
  async #agreeOnVocabulary(group: ProcessGroup): Promise<void> {
    if (this.#options.job.job !== 'gpt' || this.#shard) return;
    const built = await this.#build();
    const queryModel = built.task?.queryModel;
    const vocabulary = queryModel instanceof TextGenerator ? queryModel.vocabulary : built.outputs?.vocabulary;
    if (!vocabulary) return;
    const hash = hashState([new TextEncoder().encode(JSON.stringify(vocabulary))]);
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

  /**
   * The progress of this rank's state; `null` if this rank has applied no step and does not resume
   * from a saved state.
   */
  get #reached(): Pick<Progress, 'step' | 'appliedIn'> | null {
    const reached = this.#built?.rank.reached ?? this.#from?.progress;
    return reached && (reached.step > 0 || this.#from !== null) ? reached : null;
  }

  /** Drops the model and the state to resume from, because they do not fit what ranks agreed on. */
  #drop(): void {
    if (this.#built) free(this.#built);
    [this.#building, this.#built, this.#from] = [null, null, null];
    this.#hasState = this.#options.weights !== null;
  }

  /**
   * Builds the model. Later calls return the same promise, until building fails or the model is
   * dropped.
   */
  #build(): Promise<Built> {
    if (this.#building) return this.#building;
    const building: Promise<Built> = this.#create().then(
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

  async #create(): Promise<Built> {
    const { job, worldSize, opened, clock, activity, emit, isHidden } = this.#options;
    const { weights, carryOver, onagreed, savesState } = this.#options;
    emit(
      job.data.kind === 'synthetic'
        ? { type: 'warmup', stage: 'generating', message: 'Generating digits' }
        : { type: 'warmup', stage: 'data', message: 'Loading the data' },
    );
    if (isPipeline(job)) return this.#createPipeline();
    const loaded = await activity.during('load the data', () =>
      this.#shard ? this.#shard.task() : loadJobTask(job, this.#source, worldSize, this.#vocabulary),
    );
    const task = namingTask(loaded, activity);
    const writes = task.queryModel instanceof TextGenerator && keepsModel(job);
    const samples = writes ? new SampleTexts(naming(task.queryModel, activity), emit, carryOver?.samples ?? []) : null;
    try {
      const facts = factsOf(task);
      if (this.#from?.agreed) checkFacts('The checkpoint', this.#from.agreed, facts);
      if (weights) {
        if (weights.facts) checkFacts(weights.file, weights.facts, facts);
        await activity.during('load the weights', () => setWeights(task.queryModel.jobModel, weights));
      }
      const options = {
        plan: job,
        clock,
        device: opened.device,
        isHidden,
        emit: async (event: EngineEvent) => {
          emit(event);
          await samples?.observe(event);
          if (event.type === 'hashes' && event.agree && onagreed)
            await activity.during('save a checkpoint', () => onagreed(event.step));
        },
        keepBest: async () => {
          const { answerer } = this;
          if (answerer) this.#best = await activity.during('copy the best model', () => copyModel(answerer));
        },
      };
      const rank = await activity.during('warm up', () =>
        ReplicaStep.prepare({
          ...options,
          task,
          from: weights ? 'model' : this.#from,
          checkDevice: () => opened.check(),
          ...(savesState && { savesState }),
        }),
      );
      return { task, samples, outputs: null, rank, loop: new TrainingLoop(rank, options) };
    } catch (error) {
      task.dispose();
      throw error;
    }
  }

  /** Files that this tab's user has chosen are already previewed. */
  get #source(): LoadDataOptions {
    const { job, files, shared, baseUrl, clock, activity, emit } = this.#options;
    /** When progress was last reported, and its unit. */
    let reported = { at: -Infinity, unit: '' };
    const onprogress = (loading: LoadProgress): void => {
      activity.advance();
      const at = clock.now();
      const { unit, done, total } = loading;
      if (unit === reported.unit && done < total && at - reported.at < PROGRESS_MS) return;
      reported = { at, unit };
      emit({ type: 'warmup', stage: 'data', message: 'Loading the data', loading });
    };
    const isPreviewed = job.data.kind !== 'url' && job.data.kind !== 'shared';
    return {
      files: shared?.files() ?? files,
      baseUrl,
      onprogress,
      ...(!isPreviewed && { onpreview: (preview: Preview) => emit({ type: 'preview', preview, problem: null }) }),
    };
  }

  async #createPipeline(): Promise<Built> {
    const { job, opened, clock, activity, emit, isHidden, weights } = this.#options;
    const task = await activity.during('load the data', () => loadPipelineTask(job, this.#source, this.#vocabulary));
    if (weights?.facts) checkFacts(weights.file, weights.facts, task.facts);
    const outputs = new PipelineOutputs({ job, task, weights, emit });
    const options = { plan: job, clock, device: opened.device, isHidden, emit };
    const rank = await StageStep.prepare({
      ...options,
      task,
      checkDevice: () => opened.check(),
      activity,
      openMirrorStorage,
      tabBytes: TAB_BYTES,
      outputs,
    });
    return { task: null, samples: null, outputs, rank, loop: new TrainingLoop(rank, options) };
  }
}

function free({ task, loop, outputs }: Built): void {
  loop.dispose();
  outputs?.dispose();
  task?.dispose();
}

/** Returns the meaning of the task's samples; `null` if the job defines it. */
function factsOf({ queryModel }: JobTask): SampleFacts | null {
  return queryModel instanceof TextGenerator ? null : queryModel.facts;
}

/** Returns an author that writes texts as a task of `activity`. */
function naming(author: SampleAuthor, activity: Activity): SampleAuthor {
  const { prompt, bigramLoss } = author;
  return { prompt, bigramLoss, sample: () => activity.during('write a text', () => author.sample()) };
}
