/**
 * One tab's part in one run, over all generations of the run. It contains the data and the model,
 * and the process group of the current generation.
 */
import { DEFAULT_OP_TIMEOUT_MS, ProcessGroup } from '../../collectives/processGroup.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { unlessAborted } from '../../util/deadline.ts';
import { asError } from '../../util/errors.ts';
import type { StateReport } from '../membership/membership.ts';
import type { TrainedModel } from '../model/modelFiles.ts';
import { inGroupOf, type Generation } from '../membership/generation.ts';
import type { PipelineOutputs } from '../model/pipelineOutputs.ts';
import { FEEDER, type FeedHooks } from '../../parallel/recovery/stateFeed.ts';
import { SLICE_BYTES } from '../../protocol/frame.ts';
import { hasCheckpoints } from '../../spec/job.ts';
import { FileDistribution } from '../files/fileDistribution.ts';
import { RunModel } from './runModel.ts';
import type { CarryOver, RunParticipantOptions } from './runParticipantOptions.ts';
import type { RunState } from '../storage/runState.ts';
import { transportOf } from '../membership/transport.ts';

/**
 * Timeout of collectives in SYNCING, in milliseconds. It begins again while a rank that all wait
 * for loads its data or compiles its shaders. It is shorter than the server's own deadline, because
 * the server's error could not name the rank that is late.
 */
export const SYNCING_TIMEOUT_MS = 105_000;

export class RunParticipant {
  readonly run: number;
  readonly #options: RunParticipantOptions;
  readonly #model: RunModel;
  readonly #fileDistribution: FileDistribution | null;
  #group: ProcessGroup | null = null;
  #result: RunResult | null = null;

  private constructor(options: RunParticipantOptions) {
    const { run, shared } = options;
    this.run = run;
    this.#options = { ...options, emit: advancing(options) };
    this.#model = new RunModel(this.#options);
    this.#fileDistribution = shared && new FileDistribution({ ...this.#options, shared });
  }

  /**
   * Loads the data, builds the model and compiles its shaders, without communication. In two cases
   * the model is built later. If ranks distribute the files, this rank receives them in `enter`. If
   * each rank has data of its own, ranks first agree on the facts about their data in `enter`.
   *
   * @throws (rejects) DataError if the data cannot be used, or if the weights do not fit the model;
   *   DeviceError if the GPU fails.
   */
  static async prepare(options: RunParticipantOptions): Promise<RunParticipant> {
    const participant = new RunParticipant(options);
    await participant.#model.open();
    return participant;
  }

  /**
   * Builds the model if the data has been loaded. Otherwise it would be built in `enter`, and other
   * ranks would have to wait.
   *
   * @throws (rejects) as `prepare`.
   */
  prepareAhead(): Promise<void> {
    return this.#model.buildAhead();
  }

  /** Whether there is a state that another rank could receive when it joins. */
  get hasState(): boolean {
    return this.#model.hasState;
  }

  /** Whether {@link snapshot} has a state to copy. */
  get isSavable(): boolean {
    return this.#model.isSavable;
  }

  /** The result; `null` before the run has ended. */
  get result(): RunResult | null {
    return this.#result;
  }

  get recording(): FlightRecording | null {
    return this.#group && { ...this.#group.flightRecording, ...this.#model.recorded };
  }

  get carryOver(): CarryOver {
    return this.#model.carryOver;
  }

  /** The world size of the latest generation. */
  get worldSize(): number {
    return this.#group?.worldSize ?? this.#options.worldSize;
  }

  /** The model that answers queries; `null` before it is built. */
  get answerer(): TrainedModel | null {
    return this.#model.answerer;
  }

  /** Answers queries about a model whose layers are on several ranks; `null` for other models. */
  get outputs(): PipelineOutputs | null {
    return this.#model.outputs;
  }

  /** Whether this rank has the whole state; see {@link RunModel.snapshot}. */
  get isWhole(): boolean {
    return this.#model.isWhole;
  }

  /** As {@link RunModel.snapshot}. */
  snapshot(kind: 'own' | 'whole' = 'own'): Promise<RunState> {
    return this.#model.snapshot(kind);
  }

  /**
   * Runs in SYNCING. Creates the generation's process group, distributes the job's files if there
   * are any, and synchronizes this rank's state with the other ranks.
   */
  async enter(generation: Generation): Promise<StateReport> {
    const { job, emit, clock } = this.#options;
    this.#leaveGroup();
    const { rank, worldSize, localRank, localWorldSize, members, separated, mesh, links, activityOf, signal } =
      generation;
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
    const timeoutMs = SYNCING_TIMEOUT_MS;
    const group = new ProcessGroup(mesh, { localRank, localWorldSize, clock, timeoutMs, activityOf });
    this.#group = group;
    signal.addEventListener('abort', () => group.abort(asError(signal.reason)), { once: true });
    await this.#emitLinks(links);
    return this.#withDevice(async () => {
      const transport = await transportOf(group);
      // A rank that already has the data builds its model in parallel. A failure is ignored here,
      // because the later call reports it.
      this.prepareAhead().catch(() => {});
      await this.#fileDistribution?.run(group, members);
      await this.#model.agree(group, signal);
      // If the generation ends, this rank stops waiting, although its model may still be compiling.
      // Otherwise the other ranks would have to wait for it.
      const loop = await unlessAborted(signal, this.#model.loop());
      const state = await loop.enter({ group, transport, signal });
      this.#model.entered();
      group.timeoutMs = DEFAULT_OP_TIMEOUT_MS;
      return state;
    });
  }

  /**
   * Whether this rank should receive the state of the run beside the training, before it is ready:
   * it can, and with a slow line the other ranks would otherwise wait. Ranks that have data of
   * their own, or only a part of the state, need all ranks for it.
   */
  get canCatchUp(): boolean {
    const { job, shared } = this.#options;
    if (!hasCheckpoints(job) || job.data.kind === 'federated') return false;
    return shared?.isWhole === false || this.#model.fedBytes > SLICE_BYTES;
  }

  /**
   * Gives a newcomer the files and the state of the run, or receives them. Ends with the feed.
   *
   * @throws (rejects) errors of the group, and the reason of the feed's signal.
   */
  async feed(feed: Generation, hooks: FeedHooks): Promise<void> {
    const { clock, shared, emit } = this.#options;
    const own = feed.rank === FEEDER ? () => {} : emit;
    await inGroupOf(feed, clock, async (group) => {
      if (shared) await new FileDistribution({ shared, clock, emit: own }).run(group, feed.members);
      await unlessAborted(feed.signal, this.#model.buildAhead());
      await this.#model.feed(group, hooks);
    });
  }

  /** Runs in RUNNING. Trains until the run or the generation ends. */
  async train(): Promise<StateReport> {
    return this.#withDevice(async () => {
      const loop = await this.#model.loop();
      const trained = await loop.run();
      const result = { ...trained, ...(await this.#model.textResult(trained.steps)) };
      this.#result = result;
      return { step: result.steps, stateHash: result.stateHash[this.#group!.rank]! };
    });
  }

  dispose(): void {
    this.#leaveGroup();
    this.#model.dispose();
  }

  /**
   * Frees everything except the model, which it returns. The caller may query the model, and must
   * dispose of it. If there is no model, frees everything and returns `null`.
   */
  retire(): TrainedModel | PipelineOutputs | null {
    this.#leaveGroup();
    return this.#model.retire();
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
    this.#group?.destroy();
    this.#group = null;
  }

  async #emitLinks(links: Generation['links']): Promise<void> {
    for (const [peerRank, link] of links) {
      const { route, roundTripMs } = await link.describe();
      this.#options.emit({ type: 'link', peerRank, up: link.state === 'open', route, roundTripMs });
    }
  }
}

/** Returns `emit`, which also reports bytes that reach any rank as progress of this rank. */
function advancing({ emit, activity }: RunParticipantOptions): RunParticipantOptions['emit'] {
  const count = activity.countBytes();
  return (event) => {
    if (event.type === 'distribution') count(event.bytesPerRank);
    emit(event);
  };
}
