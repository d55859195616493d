/**
 * One tab's part in one run, over all of its generations: its data, its model, and the group it
 * trains with at present.
 */
import { DEFAULT_OP_TIMEOUT_MS, ProcessGroup } from '../../collectives/processGroup.ts';
import { checkFacts, type WeightsFile } from '../../jobs/weights/weightsFile.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { RunResult, WrittenSample } from '../../protocol/runResult.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { keepsModel, type JobSpec } from '../../spec/job.ts';
import type { SampleFacts } from '../../spec/dataFacts.ts';
import type { Progress } from '../../parallel/recovery/progress.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import type { Clock } from '../../util/clock.ts';
import { unlessAborted } from '../../util/deadline.ts';
import { asError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';
import type { OpenedDevice } from '../device/device.ts';
import { TextGenerator } from '../inference/textGenerator.ts';
import type { JobTask } from '../tasks/jobTask.ts';
import { loadJobTask } from '../tasks/loadJobTask.ts';
import { OwnShard } from './data/ownShard.ts';
import type { StateReport } from '../membership/membership.ts';
import { setWeights } from '../files/modelWeights.ts';
import { copyModel, type ModelCopy, type TrainedModel } from '../files/modelFiles.ts';
import type { Generation } from '../membership/generation.ts';
import type { Replicas } from './replicas.ts';
import { worldOf } from './trainingWorld.ts';
import { SampleTexts } from '../inference/sampleTexts.ts';
import type { SharedFiles } from '../files/sharedFiles.ts';
import { FileDistribution } from '../files/fileDistribution.ts';
import type { RunState } from './runState.ts';
import { TrainingLoop } from './trainingLoop.ts';
import { transportOf } from '../membership/transport.ts';

/**
 * Loading data and compiling shaders take as long as the slowest rank. Less than the server's own
 * deadline for SYNCING, which cannot tell whom all others wait for.
 */
export const SYNCING_TIMEOUT_MS = 105_000;
/** The least deadline of a collective there, however much of that time has gone. */
const MIN_SYNCING_TIMEOUT_MS = 10_000;

/** What a tab keeps of a run beside its state when its GPU is set up again. */
export interface CarryOver {
  /** The model that tested best, where the job asks for it. */
  best: ModelCopy | null;
  /** Texts that a language model has written. */
  samples: readonly WrittenSample[];
  /** What it began with: who has no state yet begins with it again. */
  weights: WeightsFile | null;
}

export interface RunParticipantOptions {
  job: JobSpec;
  /** The room's number for the run. */
  run: number;
  /** Ranks that are expected: held-out samples are tested in batches that they share evenly. */
  worldSize: number;
  files: File[];
  /** This tab's slices of the files that ranks distribute. */
  shared: SharedFiles | null;
  /** What relative data URLs are relative to. */
  baseUrl: string;
  opened: OpenedDevice;
  clock: Clock;
  emit: (event: EngineEvent) => void;
  /** A saved state to go on from. */
  from: RunState | null;
  /** What was kept of the same run when the GPU was lost. */
  carryOver: CarryOver | null;
  /** What the model begins with, where it goes on from nothing. */
  weights: WeightsFile | null;
  isHidden: () => boolean;
  /** Ranks have compared their states after `step`, and all are equal: the run waits for it. */
  onagreed?: (step: number) => Promise<void>;
}

/** What it takes to train: once the data is here. */
interface Built {
  task: JobTask;
  /** Writes the texts of a language model. */
  samples: SampleTexts | null;
  trainingLoop: TrainingLoop;
}

export class RunParticipant {
  readonly run: number;
  readonly #options: RunParticipantOptions;
  readonly #fileDistribution: FileDistribution | null;
  /** Where every rank has data of its own. */
  readonly #shard: OwnShard | null;
  #building: Promise<Built> | null = null;
  #built: Built | null = null;
  #isDisposed = false;
  #group: ProcessGroup | null = null;
  #replicas: Replicas | null = null;
  #hasState: boolean;
  #result: RunResult | null = null;
  /** The vocabulary of a resumed language model, this rank's or another's; `null`: the text's. */
  #vocabulary: Vocabulary | null;
  #best: ModelCopy | null;
  /** The state to resume from; `null` once it is applied or superseded. */
  #from: RunState | null;

  private constructor(options: RunParticipantOptions) {
    const { run, job, files, shared, clock, emit, from } = options;
    this.run = run;
    this.#options = options;
    this.#from = from;
    this.#fileDistribution = shared && new FileDistribution({ shared, clock, emit });
    const begun = { agreed: from?.agreed, vocabulary: options.weights?.vocabulary };
    this.#shard = job.data.kind === 'federated' ? new OwnShard(job, files, begun) : null;
    this.#hasState = from !== null || options.weights !== null;
    this.#best = options.carryOver?.best ?? null;
    this.#vocabulary = from?.vocabulary ?? options.weights?.vocabulary ?? null;
  }

  /**
   * * Loads the data, builds the model and compiles its shaders. Sends nothing to other ranks:
   * shared files are received in {@link prepareAhead} or `enter`, and ranks with data of their own
   * agree on it in `enter`.
   *
   * @throws (rejects) DataError, also where the weights are not this model's; DeviceError.
   */
  static async prepare(options: RunParticipantOptions): Promise<RunParticipant> {
    const training = new RunParticipant(options);
    if (training.#shard) await training.#shard.open();
    else if (options.shared === null) await training.#build();
    return training;
  }

  /**
   * Does all of it before `enter`, as others wait for it there, if the data is here. @throws
   * (rejects) as `prepare`.
   */
  async prepareAhead(): Promise<void> {
    const isThere = this.#shard ? this.#learned !== null : (this.#options.shared?.isWhole ?? true);
    if (isThere) await this.#build();
  }

  /** Whether there is a state that a newcomer could be given. */
  get hasState(): boolean {
    return this.#hasState;
  }

  /** The result, once the run has ended. */
  get result(): RunResult | null {
    return this.#result;
  }

  get recording(): FlightRecording | null {
    return this.#group && { ...this.#group.flightRecording, ...structuredClone(this.#built?.trainingLoop.recorded) };
  }

  get carryOver(): CarryOver {
    const samples = this.#built?.samples?.written ?? this.#options.carryOver?.samples ?? [];
    return { best: this.#best, samples: [...samples], weights: this.#options.weights };
  }

  /** World size of the latest generation. */
  get worldSize(): number {
    return this.#group?.worldSize ?? this.#options.worldSize;
  }

  /** To be asked what the model has learned by now; `null` before there is one. */
  get answerer(): TrainedModel | null {
    if (!this.#built) return null;
    const { task, trainingLoop: run } = this.#built;
    const { job } = this.#options;
    const progress = () => ({ steps: run.steps, stateHash: run.stateHash() });
    return { job, model: task.learned, progress, best: this.#best };
  }

  /** A copy of the state after the last step that was applied. */
  async snapshot(): Promise<RunState> {
    // What it goes on from, until there is more.
    if (this.#built === null && this.#from) return this.#from;
    const { task, trainingLoop: trainingRun } = await this.#build();
    const state = await trainingRun.snapshot();
    const agreed = this.#shard ? this.#shard.agreed : factsOf(task);
    return {
      ...state,
      ...(agreed && { agreed }),
      ...(task.learned instanceof TextGenerator && { vocabulary: task.learned.vocabulary }),
    };
  }

  /**
   * SYNCING: makes the generation's group, gives all ranks the data that is to go round, and makes
   * this rank's state that of the others.
   */
  async enter(generation: Generation): Promise<StateReport> {
    const { job, emit, clock } = this.#options;
    this.#leaveGroup();
    const { world, replicas } = worldOf(generation, this.#options);
    this.#replicas = replicas;
    const { rank, worldSize, localRank, localWorldSize, members, separated, mesh, links, signal } = world;
    emit({
      type: 'generation',
      generation: generation.generation,
      run: this.run,
      rank,
      worldSize,
      localRank,
      localWorldSize,
      members,
      ...(separated.length > 0 && { separated }),
      job,
    });
    let begunAt = clock.now();
    const timeLeft = (): number => Math.max(MIN_SYNCING_TIMEOUT_MS, begunAt + SYNCING_TIMEOUT_MS - clock.now());
    const group = new ProcessGroup(mesh, { localRank, localWorldSize, clock, timeoutMs: SYNCING_TIMEOUT_MS });
    this.#group = group;
    signal.addEventListener('abort', () => group.abort(asError(signal.reason)), { once: true });
    await this.#tellLinks(links);
    return this.#checked(async () => {
      const transport = await transportOf(group);
      // A rank that has the data builds now; a failure is reported by the build below.
      this.prepareAhead().catch(() => {});
      await this.#fileDistribution?.run(group, members);
      // The server counts from then on.
      if (this.#fileDistribution) begunAt = clock.now();
      group.timeoutMs = timeLeft();
      const learned = this.#learned;
      if (await this.#shard?.agree(group, learned)) {
        if (learned) this.#best = null;
        this.#dropBuilt();
      }
      await unlessAborted(signal, this.#agreeOnTokens(group));
      // The others do not wait for a rank that compiles for a generation that has ended.
      const { trainingLoop: trainingRun } = await unlessAborted(signal, this.#build());
      group.timeoutMs = timeLeft();
      const state = await trainingRun.enter({ group, transport, signal });
      this.#hasState = true;
      group.timeoutMs = DEFAULT_OP_TIMEOUT_MS;
      return state;
    });
  }

  /** RUNNING: trains to the end of the run, or of the generation. */
  async train(): Promise<StateReport> {
    return this.#checked(async () => {
      const { trainingLoop: trainingRun } = await this.#build();
      const trained = await trainingRun.run();
      const result = { ...trained, ...(await this.#written(trained.steps)) };
      this.#result = result;
      return { step: result.steps, stateHash: result.stateHash[this.#group!.rank]! };
    });
  }

  dispose(): void {
    this.#isDisposed = true;
    this.#leaveGroup();
    if (this.#built) free(this.#built);
    this.#built = null;
  }

  /**
   * Frees all but the model, which is the caller's to ask and to dispose of; all, where there is
   * none.
   */
  retire(): TrainedModel | null {
    const { answerer } = this;
    if (!this.#built || !answerer) {
      this.dispose();
      return null;
    }
    const last = answerer.progress();
    this.#leaveGroup();
    this.#built.trainingLoop.dispose();
    return { ...answerer, progress: () => last };
  }

  /**
   * A resumed language model keeps its own vocabulary; ranks that only have the text rebuild the
   * model from it.
   */
  async #agreeOnTokens(group: ProcessGroup): Promise<void> {
    if (this.#options.job.job !== 'gpt' || this.#shard) return;
    const built = await this.#build();
    const { learned } = built.task;
    if (!(learned instanceof TextGenerator)) return;
    const { vocabulary } = learned;
    const hash = hashState([new TextEncoder().encode(JSON.stringify(vocabulary))]);
    const told = await group.allGatherObject({ hash, hasState: this.#hasState });
    const first = told.findIndex(({ hasState }) => hasState);
    if (first === -1 || told.every((one) => one.hash === told[0]!.hash)) return;
    const theirs = await group.broadcastObject(vocabulary, group.ranks[first]!);
    // If two ranks with a state differ, the next comparison rejects one.
    if (this.#hasState || hash === told[first]!.hash) return;
    this.#vocabulary = theirs;
    this.#dropBuilt();
  }

  /** How far its state is, where it has taken a step or goes on from others'. */
  get #learned(): Pick<Progress, 'step' | 'appliedIn'> | null {
    const reached = this.#built?.trainingLoop.reached ?? this.#from?.progress;
    return reached && (reached.step > 0 || this.#from !== null) ? reached : null;
  }

  /** It is made for something else, and so is the state that it has or was to go on from. */
  #dropBuilt(): void {
    if (this.#built) free(this.#built);
    [this.#building, this.#built, this.#from] = [null, null, null];
    this.#hasState = this.#options.weights !== null;
  }

  /** What it takes to train, made once, and again after a failure. */
  #build(): Promise<Built> {
    if (this.#building) return this.#building;
    const building: Promise<Built> = this.#make().then(
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

  async #make(): Promise<Built> {
    const { job, worldSize, files, shared, baseUrl, opened, clock, emit, isHidden } = this.#options;
    const { weights, carryOver } = this.#options;
    emit(
      job.data.kind === 'synthetic'
        ? { type: 'warmup', stage: 'generating', message: 'Generating digits' }
        : { type: 'warmup', stage: 'data', message: 'Loading the data' },
    );
    const ranks = job.strategy === 'data-parallel' ? job.replicas : worldSize;
    const task = this.#shard
      ? await this.#shard.task()
      : await loadJobTask(job, { files: shared?.files() ?? files, baseUrl }, ranks, this.#vocabulary);
    const writes = task.learned instanceof TextGenerator && keepsModel(job);
    const samples = writes ? new SampleTexts(task.learned, emit, carryOver?.samples ?? []) : null;
    const tell = async (event: EngineEvent): Promise<void> => {
      emit(event);
      await samples?.observe(event);
      if (event.type === 'hashes' && event.agree) await this.#options.onagreed?.(event.step);
    };
    try {
      const facts = factsOf(task);
      if (this.#from?.agreed) checkFacts('The checkpoint', this.#from.agreed, facts);
      if (weights) {
        if (weights.facts) checkFacts(weights.file, weights.facts, facts);
        setWeights(task.learned.jobModel, weights);
      }
      const trainingRun = await TrainingLoop.prepare({
        ...{ plan: job, task, clock, emit: tell, isHidden, from: weights ? 'model' : this.#from },
        device: opened.device,
        checkDevice: () => opened.check(),
        keepBest: async () => {
          const { answerer } = this;
          if (answerer) this.#best = await copyModel(answerer);
        },
      });
      return { task, samples, trainingLoop: trainingRun };
    } catch (error) {
      task.dispose();
      throw error;
    }
  }

  /** What a language model's result has beside the others'. */
  async #written(steps: number): Promise<Pick<RunResult, 'bigramLoss' | 'samples'>> {
    const { task, samples } = await this.#build();
    if (!(task.learned instanceof TextGenerator) || samples === null) return {};
    return { bigramLoss: task.learned.bigramLoss, samples: await samples.finish(steps) };
  }

  /** What a lost GPU breaks says something else first. */
  async #checked<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.#options.opened.check();
      throw error;
    }
  }

  #leaveGroup(): void {
    this.#group?.destroy();
    this.#group = null;
    this.#replicas?.stop();
    this.#replicas = null;
  }

  async #tellLinks(links: Generation['links']): Promise<void> {
    for (const [peerRank, link] of links) {
      const { route, roundTripMs } = await link.describe();
      this.#options.emit({ type: 'link', peerRank, up: link.state === 'open', route, roundTripMs });
    }
  }
}

function free({ task, trainingLoop: trainingRun }: Built): void {
  trainingRun.dispose();
  task.dispose();
}

/** The meaning of the task's samples; `null` if the job defines it. */
function factsOf({ learned }: JobTask): SampleFacts | null {
  return learned instanceof TextGenerator ? null : learned.facts;
}
