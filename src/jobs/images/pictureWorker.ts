/**
 * Worker that reads and decodes pictures, so that the thread that trains need not wait. It stores
 * decoded pictures.
 */
import { errorMessageOf } from '../../util/errors.ts';
import { PictureStore } from './pictureStore.ts';
import type { FromPictureWorker, ToPictureWorker } from './readPicturesInWorkers.ts';
import { readPictures, type PictureRequest, type PictureReadResult } from './readPictures.ts';

/** The stores that are open, by name. */
const stores = new Map<string, Promise<PictureStore | null>>();

/**
 * The latest two requests. A request begins when the second request before it has ended. So the
 * files of one request are received while those of another are decoded.
 */
let [beforeLatest, latest] = [Promise.resolve(), Promise.resolve()];

globalThis.onmessage = ({ data: { id, request } }: MessageEvent<ToPictureWorker>) => {
  const answered = beforeLatest.then(async () => {
    try {
      const pictures = await readStored(request);
      post(
        { id, pictures },
        pictures.flatMap((one) => ('pixels' in one ? [one.pixels.buffer] : [])),
      );
    } catch (error) {
      post({ id, problem: errorMessageOf(error) });
    }
  });
  [beforeLatest, latest] = [latest, answered];
};

function post(message: FromPictureWorker, transfer: Transferable[] = []): void {
  globalThis.postMessage(message, { transfer });
}

async function readStored(request: PictureRequest): Promise<PictureReadResult[]> {
  const store = request.store === null ? null : await storeOf(request.store, request);
  if (store === null) return readPictures(request);
  const pictures: (PictureReadResult | null)[] = request.files.map(({ at }) => store.read(at));
  const files = request.files.filter((_, i) => pictures[i] === null);
  if (files.length === 0) return pictures as PictureReadResult[];
  const decoded = await readPictures({ ...request, files });
  for (const [i, { at }] of files.entries()) {
    const picture = decoded[i]!;
    if ('pixels' in picture) store.write(at, picture);
  }
  let next = 0;
  return pictures.map((picture) => picture ?? decoded[next++]!);
}

function storeOf(name: string, { size: { side, channels } }: PictureRequest): Promise<PictureStore | null> {
  const store = stores.get(name) ?? PictureStore.open(name, side * side * channels);
  stores.set(name, store);
  return store;
}
