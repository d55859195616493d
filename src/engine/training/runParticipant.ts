/**
 * One tab's part in one run, over all of its generations: its data and model, and the process group
 * that it trains with now.
 */
import { DEFAULT_OP_TIMEOUT_MS, ProcessGroup } from '../../collectives/processGroup.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { unlessAborted } from '../../util/deadline.ts';
import { asError } from '../../util/errors.ts';
import type { StateReport } from '../membership/membership.ts';
import type { TrainedModel } from '../files/modelFiles.ts';
import type { Generation } from '../membership/generation.ts';
import type { Replicas } from './replicas.ts';
import { worldOf } from './trainingWorld.ts';
import { FileDistribution } from '../files/fileDistribution.ts';
import { RunModel } from './runModel.ts';
import type { CarryOver, RunParticipantOptions } from './runParticipantOptions.ts';
import type { RunState } from './runState.ts';
import { transportOf } from '../membership/transport.ts';

/**
 * Milliseconds for SYNCING: loading data and compiling shaders take as long as the slowest rank.
 * Less than the server's own deadline, which cannot name the rank that all others wait for.
 */
export const SYNCING_TIMEOUT_MS = 105_000;
/** Least deadline of a collective in SYNCING, however little time is left. */
const MIN_SYNCING_TIMEOUT_MS = 10_000;

export class RunParticipant {
  readonly run: number;
  readonly #options: RunParticipantOptions;
  readonly #model: RunModel;
  readonly #fileDistribution: FileDistribution | null;
  #group: ProcessGroup | null = null;
  #replicas: Replicas | null = null;
  #result: RunResult | null = null;

  private constructor(options: RunParticipantOptions) {
    const { run, shared, clock, emit } = options;
    this.run = run;
    this.#options = options;
    this.#model = new RunModel(options);
    this.#fileDistribution = shared && new FileDistribution({ shared, clock, emit });
  }

  /**
   * Loads the data, builds the model and compiles its shaders. Sends nothing to other ranks: shared
   * files are received in `enter`, and ranks with data of their own agree on it in `enter`.
   *
   * @throws (rejects) DataError, also if the weights do not fit the model; DeviceError.
   */
  static async prepare(options: RunParticipantOptions): Promise<RunParticipant> {
    const participant = new RunParticipant(options);
    await participant.#model.open();
    return participant;
  }

  /**
   * Builds the model if the data is here, as other ranks wait for it in `enter`.
   *
   * @throws (rejects) as `prepare`.
   */
  prepareAhead(): Promise<void> {
    return this.#model.buildAhead();
  }

  /** Whether there is a state that a newcomer could receive. */
  get hasState(): boolean {
    return this.#model.hasState;
  }

  /** Whether {@link snapshot} has a state to copy. */
  get isSavable(): boolean {
    return this.#model.isSavable;
  }

  /** The result, once the run has ended. */
  get result(): RunResult | null {
    return this.#result;
  }

  get recording(): FlightRecording | null {
    return this.#group && { ...this.#group.flightRecording, ...this.#model.recorded };
  }

  get carryOver(): CarryOver {
    return this.#model.carryOver;
  }

  /** World size of the latest generation. */
  get worldSize(): number {
    return this.#group?.worldSize ?? this.#options.worldSize;
  }

  /** The model for queries; `null` before it is built. */
  get answerer(): TrainedModel | null {
    return this.#model.answerer;
  }

  /**
   * A copy of the state after the last applied step. Builds nothing.
   *
   * @throws (rejects) UsageError before there is a state.
   */
  snapshot(): Promise<RunState> {
    return this.#model.snapshot();
  }

  /**
   * SYNCING: creates the generation's group, distributes files if the job has any, and makes this
   * rank's state equal to that of the other ranks.
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
    await this.#emitLinks(links);
    return this.#withDevice(async () => {
      const transport = await transportOf(group);
      // A rank that has the data builds now; a failure is reported by the build below.
      this.prepareAhead().catch(() => {});
      await this.#fileDistribution?.run(group, members);
      // The server's deadline begins again after files were distributed.
      if (this.#fileDistribution) begunAt = clock.now();
      group.timeoutMs = timeLeft();
      await this.#model.agree(group, signal);
      // If the generation ends, the other ranks do not wait for a rank that compiles.
      const loop = await unlessAborted(signal, this.#model.loop());
      group.timeoutMs = timeLeft();
      const state = await loop.enter({ group, transport, signal });
      this.#model.entered();
      group.timeoutMs = DEFAULT_OP_TIMEOUT_MS;
      return state;
    });
  }

  /** RUNNING: trains until the run or the generation ends. */
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
   * Frees all but the model. The caller queries and disposes of it. Frees everything and returns
   * `null` if there is no model.
   */
  retire(): TrainedModel | null {
    this.#leaveGroup();
    return this.#model.retire();
  }

  /** Runs `work`. If it fails on a lost GPU, throws that error instead. */
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
    this.#replicas?.stop();
    this.#replicas = null;
  }

  async #emitLinks(links: Generation['links']): Promise<void> {
    for (const [peerRank, link] of links) {
      const { route, roundTripMs } = await link.describe();
      this.#options.emit({ type: 'link', peerRank, up: link.state === 'open', route, roundTripMs });
    }
  }
}
