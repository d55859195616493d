/**
 * Checkpoints in this browser's storage, so that a run's room can go on after all have closed it.
 */
import * as v from 'valibot';
import {
  CheckpointMeta,
  decodeCheckpoint,
  encodeCheckpoint,
  readCheckpointMeta,
  type Checkpoint,
  type StateArray,
} from '../../protocol/checkpoint.ts';
import { DataError, messageOf, PeergradError, StorageError } from '../../util/errors.ts';
import { openBlobStore, preferredMedium, type BlobStore, type Medium } from './blobStore.ts';

/**
 * Checkpoints kept of one job in one room: the last, and two before it in case that one cannot be
 * read.
 */
export const CHECKPOINTS_KEPT = 3;

export interface CheckpointList {
  /** The latest first. */
  checkpoints: CheckpointMeta[];
  /** What is stored and is no whole checkpoint, with a sentence each. */
  damaged: { id: string; reason: string }[];
}

export class Checkpoints {
  readonly #store: BlobStore;

  constructor(store: BlobStore) {
    this.#store = store;
  }

  /**
   * Opens the checkpoints of this browser.
   *
   * @param medium default: the preferred one. Checkpoints are only found in the medium that they
   *   were stored in.
   * @throws (rejects) StorageError where storage is blocked; so do all methods.
   */
  static async open(medium?: Medium): Promise<Checkpoints> {
    return new Checkpoints(await explained('be opened', openBlobStore(medium ?? (await preferredMedium()))));
  }

  /**
   * Keeps `arrays` as they are now, then removes the oldest of the same room and job beyond {@link
   * CHECKPOINTS_KEPT}, as far as storage lets it. Tabs may save at the same time, under different
   * ids.
   *
   * @throws (rejects) UsageError where `meta` is not what it must be, StorageError where there is
   *   no room for it.
   */
  async save(meta: CheckpointMeta, arrays: readonly StateArray[]): Promise<void> {
    const bytes = encodeCheckpoint(meta, arrays);
    const size = `${(bytes.length / 2 ** 20).toFixed(1)} MiB`;
    await explained(`keep a checkpoint of ${size}`, this.#store.write(meta.id, bytes));
    await this.#removeOld((checkpoints) => {
      const own = checkpoints.find(({ id }) => id === meta.id) ?? meta;
      const others = checkpoints.filter((other) => other.id !== own.id && isSameRun(other, own));
      // The latest come first, whatever the clock says of this one.
      return others.slice(CHECKPOINTS_KEPT - 1);
    });
  }

  /** All checkpoints that are whole. Whether their bytes are right is seen when they are loaded. */
  async list(): Promise<CheckpointList> {
    const list: CheckpointList = { checkpoints: [], damaged: [] };
    for (const id of await explained('be read', this.#store.names())) {
      const blob = await explained('be read', this.#store.read(id));
      // Written or removed at this moment, or none of ours: browsers keep files beside those that
      // are written.
      if (!blob || !v.is(CheckpointMeta.entries.id, id)) continue;
      try {
        list.checkpoints.push(ownMeta(id, await explained('be read', readCheckpointMeta(id, blob))));
      } catch (error) {
        list.damaged.push({ id, reason: messageOf(error) });
      }
    }
    list.checkpoints.sort((a, b) => b.savedAt - a.savedAt);
    return list;
  }

  /**
   * @throws (rejects) DataError where there is no such checkpoint, or its bytes are not those that
   *   were saved.
   */
  async load(id: string): Promise<Checkpoint> {
    const blob = await explained('be read', this.#store.read(id));
    if (!blob) throw new DataError(`There is no checkpoint ${id} in this browser any more: choose another.`);
    const checkpoint = await explained('be read', decodeCheckpoint(id, blob));
    ownMeta(id, checkpoint.meta);
    return checkpoint;
  }

  /** Removes it, if it is there. */
  async remove(id: string): Promise<void> {
    await explained(`remove checkpoint ${id}`, this.#store.remove(id));
  }

  /** Removes those of one job in one room after at most `upTo` steps, as far as storage lets it. */
  async removeRun(run: RunOf, upTo = Infinity): Promise<void> {
    await this.#removeOld((checkpoints) => checkpoints.filter((one) => isSameRun(one, run) && one.step <= upTo));
  }

  /**
   * Removes what nobody needs any more. What another tab reads or writes at this moment stays: one
   * too many does no harm.
   */
  async #removeOld(choose: (checkpoints: readonly CheckpointMeta[]) => CheckpointMeta[]): Promise<void> {
    try {
      const { checkpoints } = await this.list();
      await Promise.allSettled(choose(checkpoints).map(({ id }) => this.remove(id)));
    } catch {
      // The next save looks again.
    }
  }
}

type RunOf = Pick<CheckpointMeta, 'room' | 'job'>;

/** Whether they are of the same job in the same room. */
export function isSameRun(a: RunOf, b: RunOf): boolean {
  return a.room === b.room && JSON.stringify(a.job) === JSON.stringify(b.job);
}

/** @throws DataError where what is stored under `id` is another's. */
function ownMeta(id: string, meta: CheckpointMeta): CheckpointMeta {
  if (meta.id === id) return meta;
  throw new DataError(`Checkpoint ${id} is damaged (it is that of ${meta.id}): remove it, and go on from another.`);
}

/** What storage says of itself, as a sentence. */
async function explained<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof PeergradError) throw error;
    const isFull = error instanceof DOMException && error.name === 'QuotaExceededError';
    throw new StorageError(
      isFull
        ? `This browser's storage is full and could not ${what}: remove old checkpoints, or free space on the disk.`
        : `This browser's storage could not ${what}: ${messageOf(error).replace(/\.$/, '')}.`,
    );
  }
}
