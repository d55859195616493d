/** Reads pictures in workers. All data sets of a thread share them. */
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { DataError } from '../../util/errors.ts';
import { readPictures, type PictureRequest, type PictureReadResult, type ReadPictures } from './readPictures.ts';

export interface ToPictureWorker {
  id: number;
  request: PictureRequest;
}

export type FromPictureWorker = { id: number; pictures: PictureReadResult[] } | { id: number; problem: string };

/** Maximum number of workers. With more, pictures of a run are decoded faster than it trains. */
const MAX_WORKERS = 4;

let workers: PictureWorker[] | null = null;

/** Reads pictures in the worker that has the fewest pictures to read. */
export const readPicturesInWorkers: ReadPictures = async (request) => {
  workers ??= Array.from({ length: countOfWorkers() }, () => new PictureWorker());
  const [idlest] = workers.toSorted((a, b) => a.waiting - b.waiting);
  return idlest!.read(request);
};

/** Returns half the number of cores, because the other half trains. */
function countOfWorkers(): number {
  return Math.min(MAX_WORKERS, Math.max(1, Math.floor((navigator.hardwareConcurrency ?? 2) / 2)));
}

class PictureWorker {
  readonly #worker: Worker | null;
  readonly #requests = new Map<number, { request: PictureRequest; result: Deferred<PictureReadResult[]> }>();
  #hasFailed = false;
  #lastId = 0;

  constructor() {
    this.#worker = openWorker();
    if (this.#worker === null) return;
    this.#worker.onmessage = ({ data }: MessageEvent<FromPictureWorker>) => {
      const result = this.#requests.get(data.id)?.result;
      this.#requests.delete(data.id);
      if ('pictures' in data) result?.resolve(data.pictures);
      else result?.reject(new DataError(data.problem));
    };
    // A worker that could not be loaded does nothing. This thread reads the pictures instead of it.
    this.#worker.onerror = () => {
      this.#hasFailed = true;
      this.#worker!.terminate();
      for (const { request, result } of this.#requests.values()) {
        readPictures(request).then(result.resolve, result.reject);
      }
      this.#requests.clear();
    };
  }

  /** Number of requests that are not answered. */
  get waiting(): number {
    return this.#requests.size;
  }

  read(request: PictureRequest): Promise<PictureReadResult[]> {
    if (this.#worker === null || this.#hasFailed) return readPictures(request);
    const id = ++this.#lastId;
    const result = createDeferred<PictureReadResult[]>();
    this.#requests.set(id, { request, result });
    this.#worker.postMessage({ id, request } satisfies ToPictureWorker);
    return result.promise;
  }
}

function openWorker(): Worker | null {
  try {
    // Bundlers recognise this expression as a worker.
    return new Worker(new URL('./pictureWorker.ts', import.meta.url), { type: 'module' });
  } catch {
    return null;
  }
}
