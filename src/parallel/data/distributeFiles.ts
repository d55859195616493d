/**
 * Files in slices, from the ranks that have them to all: in each round ranks tell which slices they
 * have, come to the same plan (`distributionPlan.ts`) and carry it out. What came is kept, so that
 * after a round that broke off the next one goes on with the rest.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Work } from '../../collectives/work.ts';
import type { Clock } from '../../util/clock.ts';
import { deferred, type Deferred } from '../../util/deferred.ts';
import { PeergradError, TimeoutError } from '../../util/errors.ts';
import { planDistribution, type DistributionPlan, type SliceReport, type SliceTransfer } from './distributionPlan.ts';

/** What a rank has of the files. */
export interface FileSlices {
  readonly count: number;
  /** Of all slices, one behind the other; `null` until they are known. */
  readonly digests: string | null;
  /** Bytes that are here. */
  readonly heldBytes: number;
  bytesOf(slice: number): number;
  has(slice: number): boolean;
  /** @throws where these are the digests of other files. */
  learn(digests: string): void;
  /** Keeps a slice that came. @returns whether it is what its digest says; else it was not kept. */
  put(slice: number, bytes: Uint8Array<ArrayBuffer>): boolean;
  /** A slice that is here; `null` where it cannot be read any more: it is no longer here then. */
  read(slice: number): Promise<Uint8Array<ArrayBuffer> | null>;
}

interface DistributeFilesOptions {
  clock: Clock;
  /** Called at once, and then twice a second, on all ranks, with the bytes that each has. */
  onprogress: (heldBytes: readonly number[]) => void;
}

/** Of slices; any that nothing else in a generation's beginning takes. */
const TAG = 2000;
/**
 * Slices under way to or from a rank at once. A message's second frame waits for the receiver's
 * word, which comes back behind what fills the link: with 8, links idled now and then, and a file
 * took a tenth longer.
 */
const AHEAD = 24;
/** How often ranks tell each other how far they are, milliseconds. */
const PROGRESS_MS = 500;
/** No rank gets anything for so long: something is stuck. As long as a collective's deadline. */
const STALLED_MS = 60_000;
/**
 * Times that a slice may come damaged from one rank: whoever has sent it damaged less often is
 * asked first.
 */
const MAX_TRIES = 3;
/** Deadline of one slice's message: none, as ranks tell each other whether anything moves. */
const WATCHED = Infinity;

/**
 * Gives all ranks of a group all slices that one of them has. Every rank must call it.
 *
 * @returns the slices that no rank has, the same on all ranks: only with none does every rank have
 *   all.
 * @throws (rejects) PeergradError where a slice comes damaged again and again, TimeoutError where
 *   nothing moves, what collectives reject with. What has come until then stays in `slices`.
 */
export async function distributeFiles(
  group: ProcessGroup,
  slices: FileSlices,
  options: DistributeFilesOptions,
): Promise<readonly number[]> {
  const damaged = new Damaged(group, slices);
  for (;;) {
    const all = Array.from({ length: slices.count }, (_, slice) => slice);
    const has = Uint8Array.from(all, (slice) => Number(slices.has(slice)));
    const reports = await group.allGatherObject({ has, damaged: damaged.list, knows: slices.digests !== null });
    const knowing = reports.findIndex(({ knows }) => knows);
    if (knowing < 0) return all;
    if (reports.some(({ knows }) => !knows)) {
      const digests = await group.broadcastObject(slices.digests ?? undefined, group.ranks[knowing]!);
      if (slices.digests === null) slices.learn(digests);
    }
    options.onprogress(reports.map((report) => bytesIn(report, slices)));
    const plan = planDistribution(group.rank, reports);
    if (plan.missing.length > 0 || reports.every((report) => isWhole(report))) return plan.missing;
    if (await carryOut(group, slices, plan, damaged, options)) return [];
  }
}

function bytesIn({ has }: SliceReport, slices: FileSlices): number {
  return has.reduce((sum, one, slice) => sum + (one === 1 ? slices.bytesOf(slice) : 0), 0);
}

function isWhole({ has }: SliceReport): boolean {
  return has.every((one) => one === 1);
}

/** @returns whether all ranks have all slices then. */
async function carryOut(
  group: ProcessGroup,
  slices: FileSlices,
  plan: DistributionPlan,
  damaged: Damaged,
  { clock, onprogress }: DistributeFilesOptions,
): Promise<boolean> {
  let isDone = false;
  const work = transfer(group, slices, plan, damaged).then(() => (isDone = true));
  // Also where a collective below fails first.
  work.catch(() => {});
  let moved = { bytes: -1, at: clock.now() };
  for (;;) {
    await orAfter(clock, PROGRESS_MS, work);
    const lacking = plan.receives.filter(({ slice }) => !slices.has(slice));
    const told = await group.allGather(Float64Array.of(slices.heldBytes, Number(isDone), lacking.length));
    const held = told.map(([bytes]) => bytes!);
    onprogress(held);
    if (told.every((one) => one[1] === 1)) return told.every((one) => one[2] === 0);
    const bytes = held.reduce((sum, one) => sum + one, 0);
    if (bytes !== moved.bytes) moved = { bytes, at: clock.now() };
    else if (clock.now() - moved.at >= STALLED_MS) throw stalled(group, lacking, told);
  }
}

function stalled(
  { rank, worldSize, generation }: ProcessGroup,
  lacking: readonly SliceTransfer[],
  told: Float64Array[],
): Error {
  const waiting = told.flatMap((one, other) => (one[2]! > 0 ? [other] : []));
  const missing = [...new Set(lacking.map(({ from }) => from))];
  const what = `for ${STALLED_MS / 1000} s no rank has got anything of the files`;
  const who = waiting.length === 0 ? '' : `; rank ${waiting.join(', ')} waits for the left neighbour`;
  return new TimeoutError(`Timed out: ${what}${who}.`, { rank, worldSize, generation, missing });
}

/** Sends and receives all of a plan, whose order both ends of a link know. */
async function transfer(
  group: ProcessGroup,
  slices: FileSlices,
  plan: DistributionPlan,
  damaged: Damaged,
): Promise<void> {
  /** Of what has yet to come: settled once it has, be it damaged. */
  const arrived = new Map(plan.receives.map(({ slice }) => [slice, deferred()]));
  await Promise.all([
    ...lanesOf(plan.receives, 'from').map((lane) => receiveAll(group, slices, lane, damaged, arrived)),
    ...lanesOf(plan.sends, 'to').map((lane) => sendAll(group, slices, lane, arrived)),
  ]);
}

/** What comes from, or goes to, one rank each. */
function lanesOf(transfers: readonly SliceTransfer[], end: 'from' | 'to'): SliceTransfer[][] {
  const lanes = new Map<number, SliceTransfer[]>();
  for (const one of transfers) {
    const lane = lanes.get(one[end]);
    if (lane) lane.push(one);
    else lanes.set(one[end], [one]);
  }
  return [...lanes.values()];
}

async function receiveAll(
  group: ProcessGroup,
  slices: FileSlices,
  lane: readonly SliceTransfer[],
  damaged: Damaged,
  arrived: ReadonlyMap<number, Deferred<void>>,
): Promise<void> {
  const posted: { bytes: Uint8Array<ArrayBuffer>; work: Work<number> }[] = [];
  for (const [i, one] of lane.entries()) {
    for (const next of lane.slice(i + posted.length, i + AHEAD)) {
      const bytes = new Uint8Array(slices.bytesOf(next.slice));
      const work = group.irecv(bytes, group.ranks[next.from], { tag: TAG, timeoutMs: WATCHED });
      posted.push({ bytes, work });
    }
    const { bytes, work } = posted.shift()!;
    await work;
    if (!slices.put(one.slice, bytes)) damaged.add(one);
    arrived.get(one.slice)!.resolve();
  }
}

async function sendAll(
  group: ProcessGroup,
  slices: FileSlices,
  lane: readonly SliceTransfer[],
  arrived: ReadonlyMap<number, Deferred<void>>,
): Promise<void> {
  const under: Work<void>[] = [];
  for (const { slice, to } of lane) {
    if (under.length === AHEAD) await under.shift();
    await arrived.get(slice)?.promise;
    // The receiver counts on a message, and sees that it is none of the slice: it asks another in
    // the next round.
    const bytes = (slices.has(slice) ? await slices.read(slice) : null) ?? new Uint8Array(slices.bytesOf(slice));
    under.push(group.isend(bytes, group.ranks[to]!, { tag: TAG, timeoutMs: WATCHED }));
  }
  for (const one of under) await one;
}

/** The slices that came damaged to this rank in this generation. */
class Damaged {
  readonly #group: ProcessGroup;
  readonly #slices: FileSlices;
  #list: SliceReport['damaged'] = [];

  constructor(group: ProcessGroup, slices: FileSlices) {
    this.#group = group;
    this.#slices = slices;
  }

  get list(): SliceReport['damaged'] {
    return this.#list;
  }

  /** @throws PeergradError where there is no use in asking once more. */
  add({ slice, from }: SliceTransfer): void {
    const before = this.#list.find((one) => one.slice === slice && one.from === from);
    const times = (before?.times ?? 0) + 1;
    if (times === MAX_TRIES) {
      const { rank, worldSize, generation } = this.#group;
      throw new PeergradError(
        `Slice ${slice + 1} of ${this.#slices.count} of the files has come damaged ${times} times from rank ${from}, and as often ` +
          'from others that have it: reload the page there, and choose the files again.',
        { rank, worldSize, generation },
      );
    }
    this.#list = [...this.#list.filter((one) => one !== before), { slice, from, times }];
  }
}

/** Resolves with `promise`, or after so long. */
async function orAfter(clock: Clock, ms: number, promise: Promise<unknown>): Promise<void> {
  const later = deferred();
  const cancel = clock.after(ms, later.resolve);
  try {
    await Promise.race([promise, later.promise]);
  } finally {
    cancel();
  }
}
