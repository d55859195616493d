/**
 * One rank's part in an elastic job. It follows the generations of its room: in each generation,
 * the ranks agree on the newest commit and then call the user's function.
 */
import { ProcessGroup } from '../../collectives/processGroup.ts';
import type { RankStateReport } from '../../engine/membership/membership.ts';
import { runInGenerationGroup, type Generation } from '../../engine/membership/generation.ts';
import type { RendezvousOptions } from '../../engine/membership/rendezvousOptions.ts';
import type { ReceivedStateSlices } from '../../parallel/recovery/gatherSlices.ts';
import { FEEDER_RANK, StateFeed } from '../../parallel/recovery/stateFeed.ts';
import type { ServerMessage } from '../../protocol/control.ts';
import { FILE_SLICE_BYTES } from '../../protocol/frame.ts';
import type { NodeCountRange } from '../../protocol/room.ts';
import { createDeferred } from '../../util/deferred.ts';
import {
  DeviceError,
  errorMessageOf,
  PeerGoneError,
  PeergradError,
  RunOverError,
  TimeoutError,
  UsageError,
} from '../../util/errors.ts';
import { DEFAULT_INIT_TIMEOUT_MS } from '../initProcessGroup.ts';
import { watchCurrentGpu } from '../device.ts';
import { checkWorldSize, LibraryRoom, pageClosedError, type RoomSurroundings } from '../room.ts';
import type { LocatedRoom, RoomOptions } from '../roomOptions.ts';
import { CommittedState, type ElasticCommitHead } from './committedState.ts';
import { connectElasticState, type ElasticState } from './elasticState.ts';
import { digestOfCommit, synchronizeCommits } from './synchronize.ts';

export interface ElasticOptions extends RoomOptions {
  /**
   * The smallest and largest number of ranks, like torchrun's `--nnodes MIN:MAX`. This option is
   * required for a new room. An existing room keeps its own range. The job begins with `worldSize`
   * ranks, or with `min` ranks if `worldSize` is missing.
   */
  nodes?: NodeCountRange;
  /**
   * Milliseconds for which this rank waits for other ranks: at first until enough ranks are
   * present, and at the end until all ranks have finished. Default 30 min.
   */
  timeoutMs?: number;
  /**
   * Called on a newcomer that receives the state while the other ranks run `main`. The newcomer has
   * received `received` of `total` bytes. If the link breaks or the state changes, the count may
   * restart at 0. In the last call before `main` is called, `received` equals `total`. If this
   * function throws, the error is reported as uncaught, and the job continues.
   */
  onprogress?: (received: number, total: number) => void;
}

type RoomMessage = Extract<ServerMessage, { type: 'room' }>;

export class ElasticJob<State extends ElasticState, Result> {
  readonly #state: State;
  readonly #main: (state: State, group: ProcessGroup) => Promise<Result>;
  readonly #clock;
  readonly #activity;
  readonly #timeoutMs: number;
  readonly #room: LibraryRoom;
  readonly #outcome = createDeferred<Result>();
  readonly #committed: CommittedState;
  /** Sends the latest commit to newcomers. On a newcomer, receives it. */
  readonly #feed: StateFeed<ElasticCommitHead>;
  readonly #received: ReceivedStateSlices = [];
  #group: ProcessGroup | null = null;
  readonly #onprogress: ElasticOptions['onprogress'];
  /**
   * Size in bytes of the state that this rank is receiving. It is 0 if the rank receives no state
   * or has received all of it.
   */
  #receiving = 0;
  /** The run whose state this rank has. */
  #run: number | null = null;
  /** The run of the job: the first run that this rank has seen in its room. */
  #jobRun: number | null = null;
  /** The result of the user's function in the latest generation; `null` if it has not returned. */
  #result: { value: Result } | null = null;
  /** Number of further ranks for which the room waits. */
  #missing = 0;
  #isOver = false;
  #stopTimer = (): void => {};
  #stopWatching = (): void => {};

  /** @throws UsageError if options or state are invalid. */
  constructor(
    options: ElasticOptions & LocatedRoom,
    state: State,
    main: (state: State, group: ProcessGroup) => Promise<Result>,
    surroundings: RoomSurroundings,
  ) {
    const { nodes, worldSize, timeoutMs = DEFAULT_INIT_TIMEOUT_MS, onprogress } = options;
    if (nodes) checkNodes(nodes, worldSize);
    if (!nodes && options.room === undefined) {
      throw new UsageError('A new room for an elastic job needs the number of ranks. Pass nodes: { min, max }.');
    }
    this.#state = state;
    this.#main = main;
    this.#clock = surroundings.clock;
    this.#activity = surroundings.activity;
    this.#timeoutMs = timeoutMs;
    this.#onprogress = onprogress;
    this.#room = new LibraryRoom(
      options,
      { nodes: nodes ?? null, startAt: worldSize ?? nodes?.min },
      {
        stateOfRun: () => this.#run,
        enter: (generation) => this.#enter(generation),
        train: (generation) => this.#train(generation),
        scopeOf: (error) => this.#scopeOf(error),
        onroom: (message) => this.#onRoom(message),
        // A rank that has trained does not receive the state as a newcomer does, because its
        // function may still use the state.
        canCatchUp: () => this.#run === null && this.#feed.stateBytes > FILE_SLICE_BYTES,
        feed: async (feed, hooks) => {
          if (feed.rank === FEEDER_RANK && feed.run !== this.#run)
            throw new RunOverError('This rank does not take part in this job.');
          await runInGenerationGroup(feed, this.#clock, (group) =>
            this.#feed.run(group, this.#committed.program, hooks),
          );
        },
        onended: ({ outcome, message }) => {
          if (outcome === 'finished') this.#settle(new RunOverError(message));
          else this.#outcome.reject(new RunOverError(message));
        },
        onpagehide: () => this.#group?.abort(pageClosedError(this.#group.rank)),
        onrefused: this.#outcome.reject,
        onfatal: (error) => this.#settle(error),
      },
      surroundings,
    );
    connectElasticState(state, this);
    try {
      this.#committed = new CommittedState(state);
      this.#feed = new StateFeed({
        clock: this.#clock,
        replica: this.#committed,
        // If `waitsMs` is set, this rank has received the whole state and only waits, so it reports
        // all bytes.
        onprogress: ({ bytes, total, waitsMs }) => this.#report(waitsMs === null ? bytes : total, total),
      });
    } catch (error) {
      this.#isOver = true;
      throw error;
    }
  }

  /** Whether this rank no longer takes part in the job. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Takes part in the job until it is over; see `elastic`. */
  async run(): Promise<Result> {
    this.#startTimer();
    try {
      return await this.#room.enter(this.#outcome, 'left the elastic job');
    } finally {
      this.#isOver = true;
      this.#stopTimer();
      this.#stopWatching();
      this.#group?.destroy();
      this.#committed.dispose();
      await this.#room.leave();
    }
  }

  async #enter(generation: Generation): Promise<RankStateReport> {
    const { mesh, localRank, localWorldSize, activityOf, signal, rank } = generation;
    this.#group?.destroy();
    const group = new ProcessGroup(mesh, { clock: this.#clock, localRank, localWorldSize, activityOf });
    this.#group = group;
    this.#stopWatching();
    this.#stopWatching = watchCurrentGpu((error) => group.abort(error)).stop;
    this.#result = null;
    const end = (): void =>
      group.abort(new PeerGoneError(errorMessageOf(signal.reason), { rank, generation: generation.generation }));
    signal.addEventListener('abort', end, { once: true });
    this.#committed.restore();
    const countBytes = this.#activity.countBytes();
    const stateHash = await synchronizeCommits(group, this.#committed, this.#isFresh, {
      received: this.#received,
      onreceived: ({ bytesPerRank }) => countBytes(bytesPerRank),
    });
    this.#received.length = 0;
    this.#state.sampler?.reset(group);
    return { step: this.#committed.progress().step, stateHash };
  }

  async #train(generation: Generation): Promise<RankStateReport> {
    const group = this.#group!;
    this.#run = generation.run;
    this.#report(this.#receiving, this.#receiving);
    this.#stopTimer();
    try {
      const value = await this.#main(this.#state, group);
      this.#save();
      this.#result = { value };
      return { step: this.#committed.progress().step, stateHash: digestOfCommit(await this.#committed.read()) };
    } catch (error) {
      // If a lost rank or a timeout has ended the group, `error` is only a consequence, so the
      // group's failure is reported. In other cases, such as different calls of ranks or an aborted
      // signal, `error` itself is reported.
      const { failure } = group;
      throw failure instanceof PeerGoneError || failure instanceof TimeoutError ? failure : error;
    } finally {
      this.#startTimer();
    }
  }

  /**
   * Keeps a copy of the state; see {@link ElasticState.commit}.
   *
   * @throws UsageError if the user's function has not been called yet or the job is over. If the
   *   group has ended, the error of the group.
   */
  commit(): void {
    // The state is saved even if the group has failed. Since this rank has finished its step, the
    // collectives of the step have succeeded. Ranks that could not finish the step receive this
    // commit.
    const group = this.#save();
    if (group.failure) throw group.failure;
  }

  /**
   * Whether this rank has never had the state of the job: it has neither trained nor received the
   * state from a feeder.
   */
  get #isFresh(): boolean {
    return this.#run === null && this.#committed.progress().appliedIn === 0;
  }

  #save(): ProcessGroup {
    const group = this.#group;
    if (this.#isOver || group === null) {
      throw new UsageError('commit was called outside of elastic. Call it in the function that elastic calls.');
    }
    this.#committed.save(group.generation);
    this.#feed.applied();
    return group;
  }

  #report(received: number, total: number): void {
    const isNews = received < total || this.#receiving > 0;
    this.#receiving = received < total ? total : 0;
    if (!isNews) return;
    try {
      this.#onprogress?.(received, total);
    } catch (error) {
      // An error of the user's onprogress must not end the job of all ranks.
      reportError(error);
    }
  }

  #startTimer(): void {
    if (this.#isOver) return;
    const expired = (): void =>
      this.#outcome.reject(
        new TimeoutError(
          this.#result
            ? `Timed out: this rank finished the elastic job, but other ranks did not finish it within another ${this.#timeoutMs / 1000} s. Check the other tabs, or pass a longer timeoutMs.`
            : `Timed out after ${this.#timeoutMs / 1000} s: the elastic job still needed ${this.#missing} more ranks. Open more tabs, or pass a longer timeoutMs.`,
        ),
      );
    this.#stopTimer();
    this.#stopTimer = this.#clock.after(this.#timeoutMs, expired);
  }

  /**
   * Decides what an error means for the other ranks: a lost GPU or a divergent state removes only
   * this rank; any other error of the function ends the job.
   */
  #scopeOf(error: unknown): ReturnType<RendezvousOptions['scopeOf']> {
    const { divergent, rank } = error instanceof PeergradError ? error.context : {};
    if (divergent && (rank === undefined || !divergent.includes(rank))) return 'generation';
    this.#outcome.reject(error);
    return divergent || error instanceof DeviceError ? 'rank' : 'run';
  }

  #onRoom({ nodes, phase, run, startAt, waitingFor }: RoomMessage): void {
    if (nodes === null) {
      this.#outcome.reject(
        new UsageError(
          'The room has a fixed number of ranks, so no elastic job can run in it. To open a room for an elastic job, call elastic with nodes: { min, max }.',
        ),
      );
    }
    if (phase !== 'FORMING') this.#jobRun ??= run;
    // The room does not begin another run until all ranks of this run have left.
    const isOver =
      this.#jobRun === null
        ? phase === 'FORMING' && run > 0 && startAt === null
        : run > this.#jobRun || (run === this.#jobRun && phase === 'FORMING');
    if (isOver && this.#run === null) {
      this.#outcome.reject(new RunOverError('The job ended before this rank could take part in it.'));
    }
    this.#missing = waitingFor;
  }

  /** Ends this rank's part: with its result, or with `error` if it has none. */
  #settle(error: Error): void {
    if (this.#result) this.#outcome.resolve(this.#result.value);
    else this.#outcome.reject(error);
  }
}

/** @throws UsageError */
function checkNodes({ min, max }: NodeCountRange, worldSize: number | undefined): void {
  checkWorldSize('The smallest number of ranks', min);
  checkWorldSize('The largest number of ranks', max);
  if (min > max) throw new UsageError(`nodes has min ${min} and max ${max}. Pass a min that is not above max.`);
  if (worldSize !== undefined && (worldSize < min || worldSize > max)) {
    throw new UsageError(
      `The world size is ${worldSize}. Pass a world size from ${min} to ${max}, the range of nodes.`,
    );
  }
}
