/** Worker that reads and decodes pictures, so that the thread that trains does not wait for it. */
import { messageOf } from '../../util/errors.ts';
import type { FromPictureWorker, ToPictureWorker } from './pictureWorkers.ts';
import { readPictures } from './readPictures.ts';

globalThis.onmessage = ({ data: { id, files, size } }: MessageEvent<ToPictureWorker>) => {
  const post = (message: FromPictureWorker, transfer: Transferable[] = []): void =>
    globalThis.postMessage(message, { transfer });
  readPictures(files, size).then(
    (pictures) =>
      post(
        { id, pictures },
        pictures.flatMap((one) => ('pixels' in one ? [one.pixels.buffer] : [])),
      ),
    (error: unknown) => post({ id, problem: messageOf(error) }),
  );
};
