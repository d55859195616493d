/**
 * One tab's part in a lesson, over all generations of the lesson. All ranks have the same {@link
 * LessonState}. Only the leader's user gives orders, and the leader sends them to all ranks. The
 * other users can only change their own numbers, and their ranks send these changes to the leader.
 * In every step of a round, numbers are sent from rank to rank as real messages. Then the ranks
 * exchange reports: their numbers, bytes and times. So each page shows the numbers that the ranks
 * really have. Ranks wait for the next order without a deadline, because a user may think for as
 * long as they like. The wait also ends when the generation ends.
 */
import * as v from 'valibot';
import { DEFAULT_OP_TIMEOUT_MS, type ProcessGroup } from '../../collectives/processGroup.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { LessonOrder, LessonState, lessonNumbersPerRank, OwnLessonNumbers } from '../../protocol/lesson.ts';
import { MAX_WORLD_SIZE } from '../../protocol/scalars.ts';
import type { Clock } from '../../util/clock.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { randomLessonNumbers, continueLessonInWorld, applyLessonOrder } from './lessonRound.ts';
import { runLessonSteps } from './lessonSteps.ts';
import type { RankStateReport } from '../membership/membership.ts';
import { emitNeighbourLinks, openRunGroup, type Generation } from '../membership/generation.ts';

/** No deadline, because the rank waits for a user. */
const FOREVER_MS = Infinity;
/**
 * Tag of the messages in which ranks send changes of their own numbers to the leader. Tags of steps
 * are smaller.
 */
const EDIT_TAG = 1000;

/**
 * A rank's report at the beginning of a generation. `version` is the version of its state; 0 if it
 * has no state.
 */
const EntryReport = v.strictObject({
  version: v.pipe(v.number(), v.integer(), v.minValue(0)),
  isHost: v.boolean(),
  own: OwnLessonNumbers,
});

interface LessonOptions {
  member: string;
  clock: Clock;
  /** Returns whether this tab is currently a host of its room. */
  isHost: () => boolean;
  emit: (event: EngineEvent) => void;
}

/** The generation that a lesson takes place in. */
interface LessonGeneration {
  readonly group: ProcessGroup;
  readonly orders: OrderQueue;
}

export class LessonRun {
  readonly #options: LessonOptions;
  /** This tab's numbers, as many as the largest world needs. */
  #own: number[];
  #state: LessonState | null = null;
  #world: LessonGeneration | null = null;
  /** The rank from which this rank waits for numbers. */
  #waitsFor: number | null = null;
  /** Whether ranks are taking steps now. */
  #isMoving = false;

  constructor(options: LessonOptions) {
    this.#options = options;
    this.#own = randomLessonNumbers(seedOf(options.member), MAX_WORLD_SIZE);
  }

  get hasState(): boolean {
    return this.#state !== null;
  }

  get recording(): FlightRecording | null {
    return this.#world?.group.flightRecording ?? null;
  }

  /**
   * Executes an order of this tab's user. If this tab is not the leader, all orders are ignored
   * except edits of its own numbers.
   */
  order(order: LessonOrder): void {
    const world = this.#world;
    const state = this.#state;
    if (order.type === 'edit') this.#own[order.place] = order.value;
    if (world === null || state === null) return;
    const { group, orders } = world;
    if (group.rank === state.leader) orders.add(order.type === 'edit' ? { ...order, rank: group.rank } : order);
    else if (order.type === 'edit') {
      // If the leader has left, the send fails. Then the generation ends, and in the next
      // generation every rank reports its numbers.
      group.send(Float32Array.of(order.place, order.value), state.leader, { tag: EDIT_TAG }).catch(() => {});
    }
  }

  /**
   * Runs in SYNCING. All ranks continue from the latest state that one of them has. Each rank
   * contributes its own numbers.
   */
  async enter(generation: Generation): Promise<RankStateReport> {
    const { emit, clock, isHost } = this.#options;
    this.dispose();
    const { worldSize, members } = generation;
    const group = openRunGroup(generation, { clock, emit });
    this.#world = { group, orders: new OrderQueue() };
    await emitNeighbourLinks(generation, emit);
    const own = this.#own.slice(0, lessonNumbersPerRank(worldSize));
    const mine = { version: this.#state?.version ?? 0, isHost: isHost(), own };
    const reports = (await group.allGatherObject(mine)).map((entry) => v.parse(EntryReport, entry));
    const versions = reports.map(({ version }) => version);
    const latest = versions.indexOf(Math.max(...versions));
    const before = versions[latest] === 0 ? null : await group.broadcastObject(this.#state, latest);
    const state = continueLessonInWorld(before && v.parse(LessonState, before), {
      members: members.map(({ member, name }) => ({ member, name })),
      leader: Math.max(
        0,
        reports.findIndex(({ isHost: isRankHost }) => isRankHost),
      ),
      numbers: reports.map((report) => report.own),
    });
    this.#state = state;
    return reportOf(state);
  }

  /** Runs in RUNNING. Executes orders until the lesson or the generation ends. */
  async train(): Promise<RankStateReport> {
    const world = this.#world!;
    this.#emitState();
    const over = this.#carryOut(world);
    // The leader also receives edits from the other ranks, until the group ends.
    if (world.group.rank === this.#state!.leader) await Promise.race([over, this.#hearEdits(world)]);
    return over;
  }

  dispose(): void {
    this.#world?.group.destroy();
    this.#world = null;
    this.#isMoving = false;
    this.#waitsFor = null;
  }

  async #carryOut({ group, orders }: LessonGeneration): Promise<RankStateReport> {
    for (;;) {
      const { leader } = this.#state!;
      const next = group.rank === leader ? await orders.next() : undefined;
      const order = v.parse(LessonOrder, await group.broadcastObject(next, leader, { timeoutMs: FOREVER_MS }));
      if (order.type === 'steps') await this.#takeSteps(group, order.count);
      else this.#state = applyLessonOrder(this.#state!, order);
      this.#emitState();
      if (this.#state!.isOver) return reportOf(this.#state!);
    }
  }

  async #takeSteps(group: ProcessGroup, count: number): Promise<void> {
    const { clock } = this.#options;
    this.#isMoving = true;
    await runLessonSteps({
      group,
      clock,
      count,
      state: this.#state!,
      timeoutMs: DEFAULT_OP_TIMEOUT_MS,
      onwait: (rank) => {
        this.#waitsFor = rank;
        this.#emitState();
      },
      onstep: (state) => {
        this.#state = state;
        this.#emitState();
      },
    });
    this.#isMoving = false;
  }

  async #hearEdits({ group, orders }: LessonGeneration): Promise<never> {
    const edit = new Float32Array(2);
    for (;;) {
      const rank = await group.recv(edit, null, { tag: EDIT_TAG, timeoutMs: FOREVER_MS });
      const [place, value] = edit;
      const order = v.safeParse(LessonOrder, { type: 'edit', rank, place, value });
      // Only valid edits are accepted, because the sender may run a different program.
      if (order.success) orders.add(order.output);
    }
  }

  #emitState(): void {
    this.#options.emit({
      type: 'lesson',
      state: this.#state!,
      waitsFor: this.#waitsFor,
      isMoving: this.#isMoving,
    });
  }
}

/** A queue of the orders that the leader has to send to all ranks, one after the other. */
class OrderQueue {
  readonly #orders: LessonOrder[] = [];
  #more: Deferred<void> = createDeferred();

  add(order: LessonOrder): void {
    this.#orders.push(order);
    this.#more.resolve();
  }

  async next(): Promise<LessonOrder> {
    while (this.#orders.length === 0) {
      this.#more = createDeferred();
      await this.#more.promise;
    }
    return this.#orders.shift()!;
  }
}

/** Returns the seed of a member's initial numbers. It is the same in every world. */
function seedOf(member: string): number {
  return Number.parseInt(hashOfArrays([new TextEncoder().encode(member)]).slice(0, 8), 16);
}

function reportOf(state: LessonState): RankStateReport {
  return { step: state.version, stateHash: hashOfArrays([new TextEncoder().encode(JSON.stringify(state))]) };
}
