/**
 * Stores checkpoints in this browser. With them, a run can continue after all tabs have left its
 * room.
 */
import * as v from 'valibot';
import {
  CheckpointMeta,
  decodeCheckpoint,
  encodeCheckpoint,
  readCheckpointMeta,
  type Checkpoint,
} from '../../formats/checkpoint.ts';
import type { StateArray } from '../../formats/stateFile.ts';
import { DataError, errorMessageOf, PeergradError, errorReasonOf, StorageError } from '../../util/errors.ts';
import { openBlobStore, preferredBlobStoreMedium, type BlobStore, type BlobStoreMedium } from './blobStore.ts';

/**
 * The number of checkpoints that are kept for one job in one room: the latest checkpoint, and the
 * two before it in case the latest cannot be read.
 */
export const CHECKPOINTS_KEPT = 3;

export interface CheckpointList {
  /** Checkpoints, with the latest first. */
  checkpoints: CheckpointMeta[];
  /** Stored items that are not complete checkpoints. For each, a sentence tells the reason. */
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
   * @param medium defaults to the preferred medium. Checkpoints are only found in the medium in
   *   which they were stored.
   * @throws (rejects) StorageError if storage is blocked. `save`, `list`, `load` and `remove` also
   *   reject with StorageError if the storage fails.
   */
  static async open(medium?: BlobStoreMedium): Promise<Checkpoints> {
    return new Checkpoints(await explained('be opened', openBlobStore(medium ?? (await preferredBlobStoreMedium()))));
  }

  /**
   * Stores the current contents of `arrays` as a checkpoint. Then removes old checkpoints of the
   * same room and job, if storage permits, so that {@link CHECKPOINTS_KEPT} remain. Tabs may save
   * at the same time, if they use different ids.
   *
   * @throws (rejects) UsageError if `meta` is invalid, StorageError if storage is full.
   */
  async save(meta: CheckpointMeta, arrays: readonly StateArray[]): Promise<void> {
    const bytes = encodeCheckpoint(meta, arrays);
    const size = `${(bytes.length / 2 ** 20).toFixed(1)} MiB`;
    await explained(`keep a checkpoint of ${size}`, this.#store.write(meta.id, bytes));
    await this.#removeOld((checkpoints) => {
      const own = checkpoints.find(({ id }) => id === meta.id) ?? meta;
      const others = checkpoints.filter((other) => other.id !== own.id && isSameRun(other, own));
      // `others` is sorted by time, latest first. It does not contain the new checkpoint, so the
      // new checkpoint is not removed, even if the clock is wrong.
      return others.slice(CHECKPOINTS_KEPT - 1);
    });
  }

  /**
   * Resolves with all complete checkpoints. Their bytes are checked later, when they are loaded.
   */
  async list(): Promise<CheckpointList> {
    const list: CheckpointList = { checkpoints: [], damaged: [] };
    for (const id of await explained('be read', this.#store.names())) {
      const blob = await explained('be read', this.#store.read(id));
      // If there is no blob, the file has just been removed, or its first write is in progress. A
      // name that is not an id belongs to a temporary file: browsers keep such files next to files
      // that are being written.
      if (!blob || !v.is(CheckpointMeta.entries.id, id)) continue;
      try {
        list.checkpoints.push(ownMeta(id, await explained('be read', readCheckpointMeta(`Checkpoint ${id}`, blob))));
      } catch (error) {
        list.damaged.push({ id, reason: errorMessageOf(error) });
      }
    }
    list.checkpoints.sort((a, b) => b.savedAt - a.savedAt);
    return list;
  }

  /** @throws (rejects) DataError if there is no such checkpoint, or if its bytes are damaged. */
  async load(id: string): Promise<Checkpoint> {
    const blob = await explained('be read', this.#store.read(id));
    if (!blob) throw new DataError(`There is no checkpoint ${id} in this browser any more. Choose another checkpoint.`);
    const checkpoint = await explained('be read', decodeCheckpoint(`Checkpoint ${id}`, blob));
    ownMeta(id, checkpoint.meta);
    return checkpoint;
  }

  /** Removes a checkpoint if it exists. */
  async remove(id: string): Promise<void> {
    await explained(`remove checkpoint ${id}`, this.#store.remove(id));
  }

  /**
   * Removes the checkpoints of one job in one room that have at most `upTo` steps, if storage
   * permits.
   */
  async removeRun(run: RunOf, upTo = Infinity): Promise<void> {
    await this.#removeOld((checkpoints) => checkpoints.filter((one) => isSameRun(one, run) && one.step <= upTo));
  }

  /**
   * Removes the checkpoints that `choose` selects. A checkpoint that another tab is reading or
   * writing is not removed, which does no harm.
   */
  async #removeOld(choose: (checkpoints: readonly CheckpointMeta[]) => CheckpointMeta[]): Promise<void> {
    try {
      const { checkpoints } = await this.list();
      await Promise.allSettled(choose(checkpoints).map(({ id }) => this.remove(id)));
    } catch {
      // The next save tries again to remove old checkpoints.
    }
  }
}

type RunOf = Pick<CheckpointMeta, 'room' | 'job'>;

/** Returns whether two checkpoints belong to the same job in the same room. */
export function isSameRun(a: RunOf, b: RunOf): boolean {
  return a.room === b.room && JSON.stringify(a.job) === JSON.stringify(b.job);
}

/**
 * @throws DataError if the checkpoint stored under `id` contains a different id.
 */
function ownMeta(id: string, meta: CheckpointMeta): CheckpointMeta {
  if (meta.id === id) return meta;
  throw new DataError(
    `Checkpoint ${id} is damaged: it contains checkpoint ${meta.id}. Remove the damaged checkpoint, and resume a different one.`,
  );
}

/** Turns an error of the storage into an error whose message explains the problem. */
async function explained<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof PeergradError) throw error;
    const isFull = error instanceof DOMException && error.name === 'QuotaExceededError';
    throw new StorageError(
      isFull
        ? `This browser's storage is full and could not ${what}. Remove old checkpoints, or free space on the disk.`
        : `This browser's storage could not ${what}: ${errorReasonOf(error)}.`,
    );
  }
}
