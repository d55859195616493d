/**
 * Gives a newcomer the state of a run while the run trains. The newcomer and a rank of the run, its
 * feeder, have a group of two of their own. The feeder copies its state between two steps and sends
 * it in slices; then it sends the averaged gradients of later steps. The newcomer asks, and the
 * feeder answers.
 */
import { joinBytes } from '../../util/bytes.ts';
import { decodeObject, encodeObject } from '../../collectives/objects/encoding.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { StateReceiveProgress } from '../../protocol/events.ts';
import type { Clock } from '../../util/clock.ts';
import { createDebugLog } from '../../util/debugLog.ts';
import { createDeferred } from '../../util/deferred.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { distributeFiles } from '../data/distributeFiles.ts';
import type { StateParts } from './gatherSlices.ts';
import type { TrainingProgress } from './progress.ts';
import { StateSlices } from './stateSlices.ts';

const log = createDebugLog('recovery');

/** Ranks in the group of two. */
export const FEEDER_RANK = 0;
export const NEWCOMER_RANK = 1;

/**
 * Number of averaged gradients that a feeder keeps. A state with Adam's averages has as many bytes
 * as three gradients. If a newcomer lacks more steps, another copy of the state has fewer bytes
 * than the gradients.
 */
const MOST_UPDATES = 3;
/**
 * Number of slices in transit. The number is small, so that the frames of the training, which share
 * the feeder's uplink, do not wait long.
 */
const AHEAD = 2;
/**
 * How long a feeder keeps its copy and its updates for a newcomer whose link broke, in
 * milliseconds.
 */
const KEPT_MS = 120_000;
/** How long a feeder waits for news before it answers that there are none, in milliseconds. */
const NEWS_MS = 10_000;

type Reached = Pick<TrainingProgress, 'step' | 'appliedIn'>;

/** A state, and the progress that belongs to it. */
export type StateWithProgress<Head> = StateParts<Head> & { progress: TrainingProgress };

/** A rank's state, with functions to read and to change it. */
export interface StateFeedReplica<Head> {
  /** Number of bytes of the state, without parts that other ranks do not need. */
  readonly stateBytes: number;
  /** Progress of the committed state. */
  progress(): TrainingProgress;
  /** Resolves with a copy of the committed state. */
  read(): Promise<StateWithProgress<Head>>;
  /** Replaces the state. @throws if the state belongs to a different model. */
  load(state: StateWithProgress<Head>): void;
  /** Repeats steps of the run; `null` if only whole states can be sent. */
  readonly repeater: FedRepeater | null;
}

interface FedRepeater {
  /** The averaged gradient of the last step, if it alone leads to the committed state. */
  lastUpdate(): StepUpdate | null;
  /** Applies a step as the ranks of the run did; `progress` belongs to the state after it. */
  repeat(update: StepUpdate, progress: TrainingProgress): void;
}

/** The data with which a step can be repeated. */
export interface StepUpdate {
  gradient: Float32Array<ArrayBuffer>;
  learningRate: number;
}

/**
 * `lag`: how far the newcomer is behind. `news`: the same, but the answer waits until the run has a
 * later state, for at most {@link NEWS_MS}. `update`: the averaged gradient of the next step.
 * `state`: a copy of the state.
 */
type Wants = 'lag' | 'news' | 'update' | 'state';
interface Request {
  wants: Wants;
  at: Reached | null;
  /** Id of the copy of which the newcomer already has slices; `null` if it has none. */
  holds: string | null;
}
/** Describes the data that a feeder sends after its answer: a whole state, or one update. */
interface Offer {
  id: string;
  bytes: number;
  /**
   * Number of bytes of each part: of progress and head together, then of each array. `null` for an
   * update.
   */
  sizes: number[] | null;
  /**
   * For an update: the progress after the step, and the step's learning rate. `null` for a state.
   */
  update: { progress: TrainingProgress; learningRate: number } | null;
}
interface Answer {
  behind: number;
  canRepeat: boolean;
  stateBytes: number;
  updateBytes: number | null;
  /**
   * Mean milliseconds between two changes of the run's state; `null` if it has not changed since
   * the feeder began.
   */
  everyMs: number | null;
  offer: Offer | null;
}

interface Copy {
  id: string;
  slices: StateSlices;
  sizes: number[];
}
interface KeptUpdate extends StepUpdate {
  progress: TrainingProgress;
}

export interface StateFeedOptions<Head> {
  clock: Clock;
  replica: StateFeedReplica<Head>;
  onprogress: (progress: StateReceiveProgress) => void;
  /**
   * Called when this newcomer will soon enter the run, if the run's ranks exchange gradients and
   * the newcomer's line has been measured. A step of the run takes `everyMs` milliseconds. The line
   * carries `rate` bytes per millisecond.
   */
  onmeasured?: (pace: { everyMs: number; rate: number }) => void;
}

/** Reports of a newcomer while it receives the state. */
export interface NewcomerHooks {
  /** A part of the state has arrived. */
  onbytes: () => void;
  /** Called once, when the ranks that train need not wait long for the newcomer. */
  onnear: () => void;
}

/** This rank's part in feeds: as a feeder of others, or as a newcomer. */
export class StateFeed<Head = unknown> {
  readonly #options: StateFeedOptions<Head>;
  // The fields of a feeder.
  #served = 0;
  #copy: Copy | null = null;
  #updates: KeptUpdate[] = [];
  #since: { at: number; step: number; changes: number } | null = null;
  #news = createDeferred();
  #forget = (): void => {};
  // The fields of a newcomer. They are kept when the link breaks.
  #askedAt: number | null = null;
  #rate: number | null = null;
  #partial: Omit<Copy, 'sizes'> | null = null;

  constructor(options: StateFeedOptions<Head>) {
    this.#options = options;
  }

  get stateBytes(): number {
    return this.#options.replica.stateBytes;
  }

  /**
   * Call it after each applied step. It costs nothing unless this rank feeds a newcomer or has fed
   * one recently.
   */
  applied(): void {
    const { replica } = this.#options;
    if (this.#since === null) return;
    const progress = replica.progress();
    if (progress.step === this.#since.step) return;
    this.#since.step = progress.step;
    this.#since.changes += 1;
    const update = replica.repeater?.lastUpdate() ?? null;
    if (update === null) this.#updates = [];
    else {
      const { gradient, learningRate } = update;
      // Only the latest loss is kept, because the newcomer's own state has all earlier losses.
      const own = structuredClone({ ...progress, losses: progress.losses.slice(-1) });
      this.#updates = [...this.#updates, { gradient: gradient.slice(), learningRate, progress: own }].slice(
        -MOST_UPDATES,
      );
    }
    this.#news.resolve();
    this.#news = createDeferred();
  }

  /**
   * Takes part in a feed until it ends: gives the state as a feeder, or receives it as a newcomer.
   *
   * @param identity a value that is equal on the ranks of one run.
   * @throws (rejects) errors of the group, and those of `load`.
   */
  async run(group: ProcessGroup, identity: unknown, hooks: NewcomerHooks): Promise<void> {
    const [one, other] = await group.allGatherObject(hashOfArrays([encodeObject(identity)]));
    if (one === other) {
      if (group.rank === FEEDER_RANK) return this.#serve(group);
      // A state from a file or from another room is not a state of this run. Its `appliedIn` is 0.
      const { step, appliedIn } = this.#options.replica.progress();
      return this.#receive(group, appliedIn > 0 ? { step, appliedIn } : null, hooks);
    }
    // The identities of the two ranks differ. The newcomer still enters: all ranks then compare
    // their states, and the errors name the difference.
    if (group.rank === NEWCOMER_RANK) hooks.onnear();
  }

  /**
   * Feeds a newcomer, until it needs nothing more or the group ends.
   *
   * @throws (rejects) errors of the group.
   */
  async #serve(group: ProcessGroup): Promise<void> {
    const { clock, replica } = this.#options;
    this.#forget();
    this.#served += 1;
    this.#since ??= { at: clock.now(), step: replica.progress().step, changes: 0 };
    try {
      for (;;) {
        const request = await group.broadcastObject<Request | null>(undefined, NEWCOMER_RANK);
        if (request === null) return;
        if (request.wants === 'news') await this.#wait(request.at, group.failed);
        const { answer, slices } = await this.#answer(request);
        log(() => {
          const sent = answer.offer
            ? `${answer.offer.bytes} bytes (${answer.offer.update ? 'a gradient' : 'a state'})`
            : 'nothing';
          return `Feeder, feed ${group.generation}, sends ${sent}; the newcomer is ${answer.behind} steps behind.`;
        });
        await group.broadcastObject(answer, FEEDER_RANK);
        if (slices) await distributeFiles(group, slices, { clock, ahead: AHEAD, onprogress: () => {} });
      }
    } finally {
      this.#served -= 1;
      // A newcomer whose link broke can go on with this copy and the updates since then. So they
      // are kept for a while.
      if (this.#served === 0) {
        this.#forget = clock.after(KEPT_MS, () => {
          this.#copy = null;
          this.#updates = [];
          this.#since = null;
        });
      }
    }
  }

  /**
   * Waits until the run has a later state than `at` or the group has failed, for at most
   * {@link NEWS_MS}. The next generation of this rank waits for the end of its feeds.
   */
  async #wait(at: Reached | null, failed: Promise<unknown>): Promise<void> {
    const { replica } = this.#options;
    if (at === null || replica.progress().step > at.step) return;
    await this.#pause(Promise.race([this.#news.promise, failed]), NEWS_MS);
  }

  /** Waits for `event`, but no longer than `ms` milliseconds. */
  async #pause(event: Promise<unknown>, ms: number): Promise<void> {
    const over = createDeferred();
    const cancel = this.#options.clock.after(ms, over.resolve);
    try {
      await Promise.race([over.promise, event]);
    } finally {
      cancel();
    }
  }

  async #answer({ wants, at, holds }: Request): Promise<{ answer: Answer; slices: StateSlices | null }> {
    const { clock, replica } = this.#options;
    const { step, appliedIn } = replica.progress();
    const next = this.#updates.find(
      ({ progress }) => at !== null && progress.step === at.step + 1 && progress.previousAppliedIn === at.appliedIn,
    );
    const isSame = at !== null && at.step === step && at.appliedIn === appliedIn;
    const { changes, at: begun } = this.#since!;
    const answer: Answer = {
      // A newcomer that has a different state of the same step counts as behind, because it lacks
      // the whole state.
      behind: isSame ? 0 : Math.max(1, step - (at?.step ?? 0)),
      canRepeat: next !== undefined,
      stateBytes: replica.stateBytes,
      updateBytes: replica.repeater?.lastUpdate()?.gradient.byteLength ?? null,
      everyMs: changes === 0 ? null : (clock.now() - begun) / changes,
      offer: null,
    };
    if (wants === 'update' && next !== undefined) {
      const { gradient, learningRate, progress } = next;
      const slices = StateSlices.of(new Uint8Array(gradient.buffer));
      answer.offer = { id: idOf(slices), bytes: slices.bytes.length, sizes: null, update: { progress, learningRate } };
      return { answer, slices };
    }
    if (wants !== 'state') return { answer, slices: null };
    if (this.#copy === null || this.#copy.id !== holds) {
      const { bytes, sizes } = join(await replica.read());
      const slices = StateSlices.of(bytes);
      this.#copy = { id: idOf(slices), slices, sizes };
    }
    const { id, slices, sizes } = this.#copy;
    answer.offer = { id, bytes: slices.bytes.length, sizes, update: null };
    return { answer, slices };
  }

  /**
   * Receives the state of the run from the feeder, and follows the run until the group ends.
   *
   * @param at the state of the run that this rank already has; `null` if it has none.
   * @throws (rejects) errors of the group, and those of `load`.
   */
  async #receive(group: ProcessGroup, at: Reached | null, { onnear, onbytes }: NewcomerHooks): Promise<void> {
    const { clock } = this.#options;
    this.#askedAt ??= clock.now();
    let isNear = false;
    let wants: Wants = 'lag';
    for (;;) {
      await group.broadcastObject<Request>({ wants, at, holds: this.#partial?.id ?? null }, NEWCOMER_RANK);
      const answer = await group.broadcastObject<Answer>(undefined, FEEDER_RANK);
      wants = isNear ? 'news' : 'lag';
      if (answer.offer) {
        await this.#take(group, answer.offer, at === null ? null : answer.behind, onbytes);
        const { step, appliedIn } = this.#options.replica.progress();
        at = { step, appliedIn };
        continue;
      }
      const waitedMs = clock.now() - this.#askedAt;
      const next = nextNewcomerMove({ ...answer, everyMs: answer.everyMs ?? Infinity, rate: this.#rate, waitedMs });
      if (next.move === 'enter' && !isNear) {
        isNear = true;
        wants = 'news';
        const { everyMs, updateBytes } = answer;
        const rate = this.#rate;
        if (everyMs !== null && updateBytes !== null && rate !== null) this.#options.onmeasured?.({ everyMs, rate });
        onnear();
      }
      // Once the other ranks know that this rank is ready, this rank asks only for gradients,
      // because a whole state has too many bytes.
      if (answer.canRepeat && (isNear || next.move === 'update')) wants = 'update';
      else if (next.move === 'state' && !isNear) wants = 'state';
      else if (answer.behind > 0) {
        if (next.move === 'wait') this.#report(0, answer.stateBytes, answer.behind, next.ms);
        // This rank cannot use a newer state yet, so it asks later.
        await this.#pause(group.failed, Math.min(NEWS_MS, next.move === 'wait' ? next.ms : NEWS_MS));
      }
    }
  }

  /** Receives what the feeder offers, and loads it. */
  async #take(
    group: ProcessGroup,
    { id, bytes, sizes, update }: Offer,
    behind: number | null,
    onbytes: () => void,
  ): Promise<void> {
    const { clock, replica } = this.#options;
    const kept = update === null && this.#partial?.id === id ? this.#partial.slices : null;
    const slices = kept ?? StateSlices.empty(bytes);
    if (update === null) this.#partial = { id, slices };
    const startedAt = clock.now();
    const heldBefore = slices.heldBytes;
    await distributeFiles(group, slices, {
      clock,
      ahead: AHEAD,
      onprogress: () => {
        const ms = clock.now() - startedAt;
        if (ms > 0 && slices.heldBytes > heldBefore) {
          this.#rate = (slices.heldBytes - heldBefore) / ms;
          onbytes();
        }
        this.#report(slices.heldBytes, bytes, behind, null);
      },
    });
    log(() => {
      const ms = Math.round(clock.now() - startedAt);
      return `Newcomer, feed ${group.generation}, has received ${slices.heldBytes - heldBefore} of ${bytes} bytes in ${ms} ms.`;
    });
    if (update === null) {
      this.#partial = null;
      return replica.load(split<Head>(slices.bytes, sizes!));
    }
    const { progress, learningRate } = update;
    const losses = [...replica.progress().losses, ...progress.losses];
    replica.repeater!.repeat(
      { gradient: new Float32Array(slices.bytes.buffer), learningRate },
      { ...progress, losses },
    );
  }

  #report(bytes: number, total: number, behind: number | null, waitsMs: number | null): void {
    const rate = this.#rate === null ? null : this.#rate * 1000;
    this.#options.onprogress({ bytes, total, rate, behind, waitsMs });
  }
}

function idOf({ digests }: StateSlices): string {
  return hashOfArrays([new TextEncoder().encode(digests!)]);
}

/** Returns a state as bytes, and the sizes of its parts. */
function join<Head>({ progress, head, arrays }: StateWithProgress<Head>): {
  bytes: Uint8Array<ArrayBuffer>;
  sizes: number[];
} {
  const parts = [encodeObject({ progress, head }), ...arrays];
  return { bytes: joinBytes(parts), sizes: parts.map(({ byteLength }) => byteLength) };
}

/** Inverts {@link join}. */
function split<Head>(bytes: Uint8Array<ArrayBuffer>, sizes: readonly number[]): StateWithProgress<Head> {
  let at = 0;
  const [start, ...arrays] = sizes.map((size) => bytes.slice(at, (at += size)));
  const { progress, head } = decodeObject(start!) as Pick<StateWithProgress<Head>, 'progress' | 'head'>;
  return { progress, head, arrays: arrays.map(({ buffer }) => new Float32Array(buffer)) };
}

/** How far a newcomer is behind. Times are in milliseconds, sizes in bytes. */
export interface NewcomerLag {
  /** Number of steps that the run has applied since the newcomer's state. */
  behind: number;
  /** Whether the feeder has the averaged gradient of the first of these steps. */
  canRepeat: boolean;
  stateBytes: number;
  /** Size of a step's averaged gradient; `null` if a step cannot be repeated with it alone. */
  updateBytes: number | null;
  /** Bytes per millisecond that the line carries; `null` if none have arrived yet. */
  rate: number | null;
  /** Mean time between two changes of the run's state. */
  everyMs: number;
  /** Time since the newcomer asked for the state. */
  waitedMs: number;
}

/**
 * The newcomer's next action. `wait`: the run's state changes faster than the newcomer's line can
 * carry it.
 */
export type NewcomerMove = { move: 'enter' | 'update' | 'state' } | { move: 'wait'; ms: number };

/** A newcomer enters if its line needs at most this many milliseconds for the rest of the state. */
const LEAST_MS = 5_000;
/**
 * After a long wait, a newcomer also enters if its line needs at most this part of the waiting time
 * for the rest of the state.
 */
const PATIENCE = 1 / 20;

/**
 * Decides what a newcomer does while it receives the state. When it enters, the other ranks wait
 * until it has the rest of the state. So it enters when its line can carry the rest in little time.
 */
export function nextNewcomerMove(lag: NewcomerLag): NewcomerMove {
  const { behind, canRepeat, stateBytes, updateBytes, rate, everyMs, waitedMs } = lag;
  if (behind === 0) return { move: 'enter' };
  // Before the first bytes arrive, the speed of the line is not known.
  if (rate === null) return { move: canRepeat ? 'update' : 'state' };
  const isOneStep = behind === 1 && canRepeat && updateBytes !== null;
  // When it enters, a rank that is one step behind receives the gradient of that step. Any other
  // rank receives the whole state.
  const lacksMs = (isOneStep ? updateBytes : stateBytes) / rate;
  if (lacksMs <= Math.max(LEAST_MS, waitedMs * PATIENCE)) return { move: 'enter' };
  if (canRepeat) return { move: 'update' };
  if ((updateBytes ?? stateBytes) / rate < everyMs) return { move: 'state' };
  return { move: 'wait', ms: lacksMs / PATIENCE - waitedMs };
}
