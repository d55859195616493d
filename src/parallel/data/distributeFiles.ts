/**
 * Distributes files to all ranks, in slices. In each round the ranks report which slices they have,
 * compute the same plan (`distributionPlan.ts`) and execute it. Received slices are stored, so the
 * round after an interruption transfers only the missing slices.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Work } from '../../collectives/work.ts';
import type { Clock } from '../../util/clock.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { PeergradError, TimeoutError } from '../../util/errors.ts';
import { nameRanks } from '../../util/text.ts';
import {
  planFileDistribution,
  type DistributionPlan,
  type SliceReport,
  type SliceTransfer,
} from './distributionPlan.ts';

/** The slices of the files on one rank. */
export interface DistributedFileSlices {
  readonly count: number;
  /** Concatenated digests of all slices; `null` until they are known. */
  readonly digests: string | null;
  /** Number of bytes of the slices on this rank. */
  readonly heldBytes: number;
  /** Whether this rank may have slices that it cannot recognize before it knows the digests. */
  readonly mayHave?: boolean;
  bytesOf(slice: number): number;
  has(slice: number): boolean;
  /** @throws if the digests belong to other files. */
  setDigests(digests: string): void;
  /**
   * Stores a received slice if it matches its digest.
   *
   * @returns whether it was stored.
   */
  put(slice: number, bytes: Uint8Array<ArrayBuffer>): boolean;
  /** Reads a stored slice. If it cannot be read, it is removed and the result is `null`. */
  read(slice: number): Promise<Uint8Array<ArrayBuffer> | null>;
}

export interface DistributeFilesOptions {
  clock: Clock;
  /**
   * Called on all ranks at the start of each round, and then twice a second, with the number of
   * bytes that each rank has.
   */
  onprogress: (heldBytes: readonly number[]) => void;
  /**
   * Largest number of slices that are in transit from one rank to another at the same time. The
   * default keeps links busy. The second frame of a message waits for the receiver's READY frame,
   * which queues behind the data on the link. With only 8 slices, links were sometimes idle, and a
   * file took 10 % longer.
   */
  ahead?: number;
  /**
   * The slices to transfer, each once, in the order in which they are needed; equal on all ranks.
   * By default all slices.
   */
  order?: Iterable<number>;
  /** Whether slices are transferred even if there are other slices that no rank has. */
  allowsMissing?: boolean;
}

/**
 * Message tag of slices. No other message of the same group uses it, neither at the beginning of a
 * generation nor in the group in which slices arrive while the run trains.
 */
const TAG = 2000;
const AHEAD = 24;
/** Interval of progress reports between ranks, in milliseconds. */
const PROGRESS_MS = 500;
/**
 * The distribution fails if no rank makes progress for this long. Equal to the deadline of a
 * collective.
 */
const STALLED_MS = 60_000;
/**
 * This rank gives up when one rank has sent it the same slice damaged this many times. The plan
 * always chooses the rank that has sent the slice damaged least often. So when this rank gives up,
 * every other rank with the slice has sent it damaged at least `MAX_TRIES - 1` times.
 */
const MAX_TRIES = 3;
/** Deadline of one slice's message: none, because progress reports detect a stall. */
const WATCHED = Infinity;

/**
 * Gives all ranks of a group all slices, or those in `order`. Unless `allowsMissing`, sends nothing
 * if there is a slice that no rank has. Every rank must call this function.
 *
 * @returns the slices that no rank has, or all slices if no rank knows the digests. The result is
 *   equal on all ranks. Every rank now has each slice of `order` that at least one rank has;
 *   without `allowsMissing`, only if the result is empty.
 * @throws (rejects) PeergradError if a slice arrives damaged again and again; TimeoutError if there
 *   is no progress; errors of collectives. After an error, received slices remain in `slices`.
 */
export async function distributeFiles(
  group: ProcessGroup,
  slices: DistributedFileSlices,
  options: DistributeFilesOptions,
): Promise<readonly number[]> {
  const damaged = new Damaged(group, slices);
  const all = Array.from({ length: slices.count }, (_, slice) => slice);
  const order = [...(options.order ?? all)];
  for (;;) {
    const has = Uint8Array.from(all, (slice) => Number(slices.has(slice)));
    const { mayHave = false } = slices;
    const reports = await group.allGatherObject({
      has,
      damaged: damaged.list,
      knows: slices.digests !== null,
      mayHave,
    });
    const knowing = reports.findIndex(({ knows }) => knows);
    if (knowing < 0) return all;
    if (reports.some(({ knows }) => !knows)) {
      const digests = await group.broadcastObject(slices.digests ?? undefined, group.ranks[knowing]!);
      if (slices.digests === null) slices.setDigests(digests);
      if (reports.some((report) => report.mayHave)) continue;
    }
    options.onprogress(reports.map((report) => bytesIn(report, slices)));
    const plan = planFileDistribution(group.rank, reports, order);
    const { missing } = plan;
    if (missing.length > 0 && !options.allowsMissing) return missing;
    const gone = new Set(missing);
    const isDone = order.every((slice) => gone.has(slice) || reports.every((report) => report.has[slice] === 1));
    if (isDone || (await execute(group, slices, plan, damaged, options))) return missing;
  }
}

function bytesIn({ has }: SliceReport, slices: DistributedFileSlices): number {
  return has.reduce((sum, isHeld, slice) => sum + (isHeld === 1 ? slices.bytesOf(slice) : 0), 0);
}

/** @returns whether every rank has received all slices of its plan. */
async function execute(
  group: ProcessGroup,
  slices: DistributedFileSlices,
  plan: DistributionPlan,
  damaged: Damaged,
  { clock, onprogress, ahead = AHEAD }: DistributeFilesOptions,
): Promise<boolean> {
  let isDone = false;
  const work = transfer(group, slices, plan, damaged, ahead).then(() => (isDone = true));
  // If a collective below fails first, a failure of `work` must not count as unhandled.
  work.catch(() => {});
  let moved = { bytes: -1, at: clock.now() };
  for (;;) {
    await orAfter(clock, PROGRESS_MS, work);
    const lacking = plan.receives.filter(({ slice }) => !slices.has(slice));
    const reports = await group.allGather(Float64Array.of(slices.heldBytes, Number(isDone), lacking.length));
    const held = reports.map(([bytes]) => bytes!);
    onprogress(held);
    if (reports.every(([, done]) => done === 1)) return reports.every(([, , lacks]) => lacks === 0);
    const bytes = held.reduce((sum, own) => sum + own, 0);
    if (bytes !== moved.bytes) moved = { bytes, at: clock.now() };
    else if (clock.now() - moved.at >= STALLED_MS) throw stalled(group, lacking, reports);
  }
}

function stalled(
  { rank, worldSize, generation }: ProcessGroup,
  lacking: readonly SliceTransfer[],
  reports: Float64Array[],
): Error {
  const waiting = reports.flatMap(([, , lacks], other) => (lacks! > 0 ? [other] : []));
  const missing = [...new Set(lacking.map(({ from }) => from))];
  const what = `no rank has received a slice of the files for ${STALLED_MS / 1000} s`;
  const who = waiting.length === 0 ? '' : `. Slices from the left neighbour are missing on ${nameRanks(waiting)}`;
  return new TimeoutError(`Timed out: ${what}${who}.`, { rank, worldSize, generation, missing });
}

/** Sends and receives all slices of a plan, in the order that both ends of a link know. */
async function transfer(
  group: ProcessGroup,
  slices: DistributedFileSlices,
  plan: DistributionPlan,
  damaged: Damaged,
  ahead: number,
): Promise<void> {
  /**
   * One promise for each slice to receive. It resolves on arrival, even if the slice is damaged.
   */
  const arrived = new Map(plan.receives.map(({ slice }) => [slice, createDeferred()]));
  await Promise.all([
    ...lanesOf(plan.receives, 'from').map((lane) => receiveAll(group, slices, lane, damaged, arrived, ahead)),
    ...lanesOf(plan.sends, 'to').map((lane) => sendAll(group, slices, lane, arrived, ahead)),
  ]);
}

/** Groups transfers by their sender or by their receiver. */
function lanesOf(transfers: readonly SliceTransfer[], end: 'from' | 'to'): SliceTransfer[][] {
  const lanes = new Map<number, SliceTransfer[]>();
  for (const each of transfers) {
    const lane = lanes.get(each[end]);
    if (lane) lane.push(each);
    else lanes.set(each[end], [each]);
  }
  return [...lanes.values()];
}

async function receiveAll(
  group: ProcessGroup,
  slices: DistributedFileSlices,
  lane: readonly SliceTransfer[],
  damaged: Damaged,
  arrived: ReadonlyMap<number, Deferred<void>>,
  ahead: number,
): Promise<void> {
  const posted: { bytes: Uint8Array<ArrayBuffer>; work: Work<number> }[] = [];
  for (const [i, expected] of lane.entries()) {
    for (const next of lane.slice(i + posted.length, i + ahead)) {
      const bytes = new Uint8Array(slices.bytesOf(next.slice));
      const work = group.irecv(bytes, group.ranks[next.from], { tag: TAG, timeoutMs: WATCHED });
      posted.push({ bytes, work });
    }
    const { bytes, work } = posted.shift()!;
    await work;
    if (!slices.put(expected.slice, bytes)) damaged.add(expected);
    arrived.get(expected.slice)!.resolve();
  }
}

async function sendAll(
  group: ProcessGroup,
  slices: DistributedFileSlices,
  lane: readonly SliceTransfer[],
  arrived: ReadonlyMap<number, Deferred<void>>,
  ahead: number,
): Promise<void> {
  const sends: Work<void>[] = [];
  for (const { slice, to } of lane) {
    if (sends.length === ahead) await sends.shift();
    await arrived.get(slice)?.promise;
    // The receiver expects a message. If the slice cannot be read any more, this rank sends zeros.
    // The receiver detects that the zeros are not the slice, and receives the slice from another
    // rank in the next round.
    const bytes = (slices.has(slice) ? await slices.read(slice) : null) ?? new Uint8Array(slices.bytesOf(slice));
    sends.push(group.isend(bytes, group.ranks[to]!, { tag: TAG, timeoutMs: WATCHED }));
  }
  for (const work of sends) await work;
}

/** Slices that this rank received damaged in this generation. */
class Damaged {
  readonly #group: ProcessGroup;
  readonly #slices: DistributedFileSlices;
  #list: SliceReport['damaged'] = [];

  constructor(group: ProcessGroup, slices: DistributedFileSlices) {
    this.#group = group;
    this.#slices = slices;
  }

  get list(): SliceReport['damaged'] {
    return this.#list;
  }

  /** @throws PeergradError if the slice has arrived damaged too often. */
  add({ slice, from }: SliceTransfer): void {
    const before = this.#list.find((entry) => entry.slice === slice && entry.from === from);
    const times = (before?.times ?? 0) + 1;
    if (times === MAX_TRIES) {
      const { rank, worldSize, generation } = this.#group;
      throw new PeergradError(
        `Slice ${slice + 1} of ${this.#slices.count} of the files arrived damaged ${times} times from rank ${from}. ` +
          'The other ranks that have the slice sent it damaged too. Reload the page on these ranks, and choose the files again.',
        { rank, worldSize, generation },
      );
    }
    this.#list = [...this.#list.filter((entry) => entry !== before), { slice, from, times }];
  }
}

/** Resolves when `promise` resolves, or after `ms` milliseconds. */
async function orAfter(clock: Clock, ms: number, promise: Promise<unknown>): Promise<void> {
  const later = createDeferred();
  const cancel = clock.after(ms, later.resolve);
  try {
    await Promise.race([promise, later.promise]);
  } finally {
    cancel();
  }
}
