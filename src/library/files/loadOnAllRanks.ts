/**
 * Loads one file on all ranks: one rank reads it and sends its contents to the others. Either all
 * ranks change their models, or no rank does.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { checkRank } from '../../parallel/groups/checks.ts';
import { DataError, errorReasonOf } from '../../util/errors.ts';
import { READ_FILE_TIMEOUT_MS } from './fileSource.ts';

/** The contents of a file. */
export interface LoadedContents<Facts> {
  /** Plain data. */
  readonly facts: Facts;
  readonly arrays: readonly Float32Array<ArrayBuffer>[];
}

export interface LoadTogetherOptions {
  /** The rank whose file is used, as its number in the model's group. */
  rank: number;
  signal?: AbortSignal | undefined;
}

type Outcome<Facts> = { facts: Facts; sizes: number[] } | { problem: string };

/**
 * Resolves on every rank with the contents of the file.
 *
 * @param read called only on the rank whose file is used.
 * @param check called on every rank before any rank changes its model.
 * @throws (rejects) the error of `read` or `check` on the rank where it failed, and DataError on
 *   the other ranks.
 */
export async function loadOnAllRanks<Facts>(
  group: ProcessGroup,
  { rank, signal }: LoadTogetherOptions,
  read: () => Promise<LoadedContents<Facts>>,
  check: (facts: Facts) => void,
): Promise<LoadedContents<Facts>> {
  checkRank(rank, group.worldSize);
  const src = group.ranks[rank]!;
  const options = signal ? { signal } : {};
  const own = group.rank === rank ? await settled(read) : null;
  // This broadcast lets the other ranks wait for the reading rank. Its timeout is long, because
  // reading the file may take longer than a collective.
  await group.broadcast(new Uint8Array(1), src, { ...options, timeoutMs: READ_FILE_TIMEOUT_MS + group.timeoutMs });
  const outcome = await group.broadcastObject<Outcome<Facts>>(own ? outcomeOf(own) : undefined, src, options);
  if (own && 'error' in own) throw own.error;
  if ('problem' in outcome) throw refusal(rank, outcome.problem);
  const { facts, sizes } = outcome;

  const checked = await settled(() => Promise.resolve(check(facts)));
  const problems = await group.allGatherObject('error' in checked ? errorReasonOf(checked.error) : null, options);
  if ('error' in checked) throw checked.error;
  for (const [other, problem] of problems.entries()) if (problem !== null) throw refusal(other, problem);

  const all = new Float32Array(sizes.reduce((sum, size) => sum + size, 0));
  let at = 0;
  if (own) {
    for (const array of own.value.arrays) {
      all.set(array, at);
      at += array.length;
    }
  }
  await group.broadcast(all, src, options);
  if (own) return own.value;
  return { facts, arrays: sizes.map((size) => all.slice(at, (at += size))) };
}

type Settled<T> = { value: T } | { error: unknown };

async function settled<T>(work: () => Promise<T>): Promise<Settled<T>> {
  try {
    return { value: await work() };
  } catch (error) {
    return { error };
  }
}

function outcomeOf<Facts>(own: Settled<LoadedContents<Facts>>): Outcome<Facts> {
  if ('error' in own) return { problem: errorReasonOf(own.error) };
  const { facts, arrays } = own.value;
  return { facts, sizes: arrays.map(({ length }) => length) };
}

function refusal(rank: number, problem: string): DataError {
  return new DataError(`Rank ${rank} could not load the file: ${problem}. No rank has changed its model.`, { rank });
}
