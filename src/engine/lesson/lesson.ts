/**
 * One tab's part in a lesson, over all of its generations. All ranks keep one state ({@link
 * LessonState}) in step: the one that leads passes each order on to all, and every step of a round
 * moves the numbers from rank to rank as messages; then all tell all what they hold, what they have
 * sent and how long it took. So pages show what the ranks hold, not what they should.
 *
 * People may think between two orders for as long as they like: waiting for one has no deadline,
 * only links that break end it.
 */
import * as v from 'valibot';
import { DEFAULT_OP_TIMEOUT_MS, ProcessGroup } from '../../collectives/processGroup.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import { LessonOrder, LessonState, numbersOf, OwnNumbers } from '../../protocol/lesson.ts';
import { MAX_WORLD_SIZE } from '../../protocol/scalars.ts';
import type { Clock } from '../../util/clock.ts';
import { asError } from '../../util/errors.ts';
import { deferred, type Deferred } from '../../util/deferred.ts';
import { hashState } from '../../util/hash.ts';
import { drawNumbers, enter, follow } from './lessonRound.ts';
import { takeSteps } from './lessonSteps.ts';
import type { StateReport } from '../membership/membership.ts';
import type { Generation } from '../membership/generation.ts';

/** Deadline of what waits for a person: none. */
const FOREVER_MS = Infinity;
/**
 * Tag of the messages by which ranks tell the leader their own numbers; those of steps have smaller
 * ones.
 */
const EDIT_TAG = 1000;

/** What a rank says of itself as a generation begins. `version`: of its state; 0: it has none. */
const Said = v.strictObject({
  version: v.pipe(v.number(), v.integer(), v.minValue(0)),
  isHost: v.boolean(),
  own: OwnNumbers,
});

interface LessonOptions {
  member: string;
  clock: Clock;
  /** Whether this tab is a host of its room, now. */
  isHost: () => boolean;
  emit: (event: EngineEvent) => void;
}

/** The generation that a lesson is in. */
interface World {
  readonly group: ProcessGroup;
  readonly orders: OrderQueue;
}

export class LessonRun {
  readonly #options: LessonOptions;
  /** As many as any world asks for. */
  #own: number[];
  #state: LessonState | null = null;
  #world: World | null = null;
  /** The rank whose numbers this one waits for. */
  #waitsFor: number | null = null;
  /** Whether steps are being taken. */
  #isMoving = false;

  constructor(options: LessonOptions) {
    this.#options = options;
    this.#own = drawNumbers(seedOf(options.member), MAX_WORLD_SIZE);
  }

  get hasState(): boolean {
    return this.#state !== null;
  }

  get recording(): FlightRecording | null {
    return this.#world?.group.flightRecording ?? null;
  }

  /**
   * What this tab's user wants. Of a tab that does not lead, only edits of its own numbers count.
   */
  order(order: LessonOrder): void {
    const world = this.#world;
    const state = this.#state;
    if (order.type === 'edit') this.#own[order.place] = order.value;
    if (world === null || state === null) return;
    const { group, orders } = world;
    if (group.rank === state.leader) orders.add(order.type === 'edit' ? { ...order, rank: group.rank } : order);
    else if (order.type === 'edit') {
      // Where the leader is gone, so is the generation, and the next one begins with everybody's
      // numbers.
      group.send(Float32Array.of(order.place, order.value), state.leader, { tag: EDIT_TAG }).catch(() => {});
    }
  }

  /**
   * SYNCING: all ranks go on from the latest state that one of them has, each with the numbers of
   * its own.
   */
  async enter(generation: Generation): Promise<StateReport> {
    const { emit, clock, isHost } = this.#options;
    this.dispose();
    const { rank, worldSize, localRank, localWorldSize, members, mesh, links, signal, job, run } = generation;
    emit({
      type: 'generation',
      generation: generation.generation,
      run,
      rank,
      worldSize,
      localRank,
      localWorldSize,
      members,
      job,
    });
    const group = new ProcessGroup(mesh, { localRank, localWorldSize, clock });
    this.#world = { group, orders: new OrderQueue() };
    signal.addEventListener('abort', () => group.abort(asError(signal.reason)), { once: true });
    for (const [peerRank, link] of links) {
      const { route, roundTripMs } = await link.describe();
      emit({ type: 'link', peerRank, up: link.state === 'open', route, roundTripMs });
    }
    const own = this.#own.slice(0, numbersOf(worldSize));
    const mine = { version: this.#state?.version ?? 0, isHost: isHost(), own };
    const said = (await group.allGatherObject(mine)).map((one) => v.parse(Said, one));
    const versions = said.map(({ version }) => version);
    const latest = versions.indexOf(Math.max(...versions));
    const before = versions[latest] === 0 ? null : await group.broadcastObject(this.#state, latest);
    const state = enter(before && v.parse(LessonState, before), {
      members: members.map(({ member, name }) => ({ member, name })),
      leader: Math.max(
        0,
        said.findIndex((one) => one.isHost),
      ),
      numbers: said.map((one) => one.own),
    });
    this.#state = state;
    return reportOf(state);
  }

  /** RUNNING: carries out orders until the lesson is over, or the generation. */
  async train(): Promise<StateReport> {
    const world = this.#world!;
    this.#tell();
    const over = this.#carryOut(world);
    // The leader also receives from the others, until the group ends.
    if (world.group.rank === this.#state!.leader) await Promise.race([over, this.#hearEdits(world)]);
    return over;
  }

  dispose(): void {
    this.#world?.group.destroy();
    this.#world = null;
    this.#isMoving = false;
    this.#waitsFor = null;
  }

  async #carryOut({ group, orders }: World): Promise<StateReport> {
    for (;;) {
      const { leader } = this.#state!;
      const next = group.rank === leader ? await orders.next() : undefined;
      const order = v.parse(LessonOrder, await group.broadcastObject(next, leader, { timeoutMs: FOREVER_MS }));
      if (order.type === 'steps') await this.#takeSteps(group, order.count);
      else this.#state = follow(this.#state!, order);
      this.#tell();
      if (this.#state!.isOver) return reportOf(this.#state!);
    }
  }

  async #takeSteps(group: ProcessGroup, count: number): Promise<void> {
    const { clock } = this.#options;
    this.#isMoving = true;
    await takeSteps({
      ...{ group, clock, count, state: this.#state!, timeoutMs: DEFAULT_OP_TIMEOUT_MS },
      onwait: (rank) => {
        this.#waitsFor = rank;
        this.#tell();
      },
      onstep: (state) => {
        this.#state = state;
        this.#tell();
      },
    });
    this.#isMoving = false;
  }

  async #hearEdits({ group, orders }: World): Promise<never> {
    const edit = new Float32Array(2);
    for (;;) {
      const rank = await group.recv(edit, null, { tag: EDIT_TAG, timeoutMs: FOREVER_MS });
      const [place, value] = edit;
      const order = v.safeParse(LessonOrder, { type: 'edit', rank, place, value });
      // What no page of ours sends is nobody's number.
      if (order.success) orders.add(order.output);
    }
  }

  #tell(): void {
    this.#options.emit({
      type: 'lesson',
      ...{ state: this.#state!, waitsFor: this.#waitsFor, isMoving: this.#isMoving },
    });
  }
}

/** Orders for the leader to pass on, one after the other. */
class OrderQueue {
  readonly #orders: LessonOrder[] = [];
  #more: Deferred<void> = deferred();

  add(order: LessonOrder): void {
    this.#orders.push(order);
    this.#more.resolve();
  }

  async next(): Promise<LessonOrder> {
    while (this.#orders.length === 0) {
      this.#more = deferred();
      await this.#more.promise;
    }
    return this.#orders.shift()!;
  }
}

/** The same for a member in every world. */
function seedOf(member: string): number {
  return Number.parseInt(hashState([new TextEncoder().encode(member)]).slice(0, 8), 16);
}

function reportOf(state: LessonState): StateReport {
  return { step: state.version, stateHash: hashState([new TextEncoder().encode(JSON.stringify(state))]) };
}
